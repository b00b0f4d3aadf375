"""Attributes of every kind, in every place that takes text.

`python attribute_kinds.py PLACE EVERY FIRST` tries each EVERY-th of them, and prints what isn't answered by a
result or a WeftError.
"""

import contextlib
import io
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import weft
from weft import mlir, passes
from weft.compiler import stages
from weft.dialects import context, launch_contract
from weft.errors import WeftError, WeftInternalError
from weft.tools import weft_opt

TESTS = Path(__file__).parents[1]

_ELEMENTS = (
    "i1",
    "i8",
    "i16",
    "i32",
    "i64",
    "i7",
    "i128",
    "si8",
    "si32",
    "si64",
    "ui8",
    "ui16",
    "ui32",
    "ui64",
)
_FLOATS = ("f16", "bf16", "f32", "f64", "f80", "f128", "tf32", "f8E4M3FN", "f8E5M2", "f8E8M0FNU", "f4E2M1FN")
KINDS = (
    *(
        "1",
        "-1",
        "0",
        "9223372036854775807",
        "1 : index",
        "1.5",
        "0x7FC00000 : f32",
        "true",
        "false",
        "unit",
        "none",
    ),
    *(f"1 : {kind}" for kind in _ELEMENTS),
    *(f"1.0 : {kind}" for kind in _FLOATS),
    *(f"array<{kind}: {'true' if kind == 'i1' else '1, 2, 3'}>" for kind in _ELEMENTS),
    *(f"array<{kind}>" for kind in _ELEMENTS),
    *(f"array<{kind}: 1.0>" for kind in _FLOATS),
    *(f"dense<{'true' if kind == 'i1' else '1'}> : tensor<2x{kind}>" for kind in (*_ELEMENTS, "index")),
    *(f"dense<[1.0, 2.0]> : vector<2x{kind}>" for kind in _FLOATS),
    *(
        "dense<(1.0, 2.0)> : tensor<2xcomplex<f32>>",
        'dense<"a"> : tensor<2x!llvm.ptr>',
        "dense<> : tensor<0xi32>",
    ),
    *(
        "sparse<[[0]], [1]> : tensor<2xi32>",
        "sparse<[[0]], [1.0]> : tensor<2xf16>",
        "dense_resource<x> : tensor<1xi32>",
    ),
    *('""', '"text"', r'"\FF\00"', '"text" : i32', "@a", "@a::@b", "[]", "[1]", "[array<si32: 1>]", "{}"),
    *(
        "{a = array<ui8: 1>}",
        "{a = loc(unknown)}",
        "i32",
        "f8E4M3FN",
        "!llvm.ptr<3>",
        "memref<?xf32, strided<[?]>>",
    ),
    *("() -> ()", "tuple<>", "vector<[4]xf32>", "!gpu.async.token", "!llvm.struct<(i32)>", "tensor<*xf32>"),
    *("affine_map<(d0)[s0] -> (d0 floordiv 0, s0)>", "affine_map<() -> ()>", "affine_set<(d0) : (d0 >= 0)>"),
    *("strided<[1, ?], offset: ?>", "loc(unknown)", 'loc("x":1:2)', 'loc("x":1:2 to 3:4)', 'loc("n")'),
    *(
        'loc(callsite("a" at "b"))',
        'loc(fused["a", "b"])',
        'loc(fused<array<si8: 1>>["a", "b"])',
        "distinct[0]<1>",
    ),
    *(
        "#gpu.address_space<workgroup>",
        "#gpu<mma_element_wise subf>",
        "#arith.fastmath<fast>",
        "#vector.kind<add>",
    ),
    *("#nvvm.shape<m = 1, n = 1, k = 1>", '#nvvm.target<chip = "sm_90a">', "#llvm.linkage<internal>"),
    *("#llvm.poison", "#llvm.zero", "#ub.poison", '#dlti.dl_spec<"a" = 1 : i32>', "#spirv.resource_limits<>"),
    *('#tile.layout<"S[(8,8):(8,1)]">', "#builtin.strided_layout<[1]>", "#linalg.type_fn<cast_signed>"),
)


def _schedules(kind: str) -> None:
    a = np.ones((64, 64), np.float16)
    fields = {"block": "array<i64: 64, 64, 64>", "warps": "array<i64: 2, 2>", "stages": "3"}
    for name in (*fields, "other"):
        text = ", ".join(f"{key} = {value}" for key, value in (fields | {name: kind}).items())
        with _answered():
            weft.matmul(a, a, schedule=f"{{{text}}}", arch="sm_80")


def _kernels(kind: str) -> None:
    names = [each.name for each in vars(launch_contract).values() if hasattr(each, "written_by")]
    names += [
        "known_block_size",
        "known_grid_size",
        "nvvm.minctasm",
        "nvvm.cluster_dim",
        "nvvm.reqntid",
        "kernel",
    ]
    for name in (*names, "weft.other", "llvm.other"):
        _compiled(
            f"gpu.module @m {{ gpu.func @k(%x: memref<4xf32>) kernel attributes {{{name} = {kind}}} "
            "{ gpu.return } }"
        )
    _compiled(f"gpu.module @m [{kind}] {{ gpu.func @k() kernel {{ gpu.return }} }}")
    _compiled(
        f"module attributes {{a.b = {kind}}} {{ gpu.module @m {{ gpu.func @k() kernel {{ gpu.return }} }} }}"
    )
    for name in ("llvm.noalias", "nvvm.grid_constant", "weft.other"):
        argument = f"%x: memref<4xf32> {{{name} = {kind}}}"
        _compiled(f"gpu.module @m {{ gpu.func @k({argument}) kernel {{ gpu.return }} }}")
    _compiled(f'gpu.module @m {{ gpu.func @k() kernel {{ gpu.return }} }} loc(fused<{kind}>["a"])')


def _products(kind: str) -> None:
    memory = "memref<64x64xf16>, memref<64x64xf16>, memref<64x64xf16>"
    sizes = "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>"
    for name in (
        "schedule",
        "activation",
        "alpha",
        "beta",
        "transpose_a",
        "bit_op",
        "other",
        "weft.other",
    ):
        _compiled(
            f"func.func @f(%a: memref<64x64xf16>, %b: memref<64x64xf16>, %d: memref<64x64xf16>) {{"
            f' "tile.matmul"(%a, %b, %d) {{{sizes}, {name} = {kind}}} : ({memory}) -> () return }}'
        )


def _types(kind: str) -> None:
    layout = '#tile.layout<"S[(8,8):(8,1)]">'
    for parameters in ("{}, f16, {}, {}", "array<i64: 8, 8>, {}, {}, {}"):
        for name in ("buffer", "fragment", "map", "ring", "other"):
            with _answered(), context():
                mlir.ir.Type.parse(
                    f"!tile.{name}<{parameters.format(kind, layout, chr(34) + 'shared' + chr(34))}>"
                )
    with _answered(), context():
        mlir.ir.Attribute.parse(f"#tile.layout<{kind}>")


def _linalg(kind: str) -> None:
    for text in (
        f"func.func @f(%d: tensor<2xf32>) -> tensor<2xf32> attributes {{a.b = {kind}}} {{ {_EXP} }}",
        f"func.func @f(%d: tensor<2xf32> {{a.b = {kind}}}) -> tensor<2xf32> "
        f"{{ %c = arith.constant {kind} {_EXP} }}",
    ):
        with _answered():
            weft.from_linalg(text, "sm_80")


_EXP = (
    "%r = linalg.exp ins(%d : tensor<2xf32>) outs(%d : tensor<2xf32>) -> tensor<2xf32> "
    "return %r : tensor<2xf32>"
)


def _options(kind: str) -> None:
    for text in (
        "select-schedule{{chip={}}}",
        "weft{{{}=1}}",
        "raise-linalg{{plain={}}}",
        "canonicalize{{{}}}",
        "{}",
    ):
        with _answered():
            passes.manager(text.format(kind), context())


def _files(kind: str) -> None:
    with tempfile.TemporaryDirectory() as folder, _answered():
        file = Path(folder) / "x.mlir"
        file.write_text(
            f"module attributes {{a.b = {kind}}} "
            f"{{ func.func private @f() attributes {{weft.other = {kind}}} }}"
        )
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
            weft_opt.main([str(file), "--weft-to-llvm"])
        if "defect" in errors.getvalue():
            raise AssertionError(errors.getvalue())


def _verifiers(kind: str) -> None:
    """Every attribute of every operation in the tests of dialects."""
    for module in _examples():
        with module.context, mlir.ir.Location.unknown():
            try:
                attribute = mlir.ir.Attribute.parse(kind)
            except mlir.MLIRError:
                return
            found: list[mlir.ir.Operation] = []
            module.operation.walk(lambda op, found=found: found.append(op) or mlir.ir.WalkResult.ADVANCE)
            for op in found:
                for name in [*op.attributes, "other"]:
                    before = op.attributes.get(name)
                    op.attributes[name] = attribute
                    with contextlib.suppress(mlir.MLIRError):
                        op.verify()
                    if before is not None:
                        op.attributes[name] = before
                    elif name in op.attributes:
                        del op.attributes[name]


_parsed: list[mlir.ir.Module] = []


def _examples() -> Iterator[mlir.ir.Module]:
    if not _parsed:
        for file in sorted(TESTS.glob("dialects/*/ops.mlir")):
            parts = re.split(r"^// -----$", file.read_text("utf-8"), flags=re.MULTILINE)
            _parsed.extend(mlir.parse(part, context()) for part in parts)
    return iter(_parsed)


def _compiled(text: str) -> None:
    with _answered():
        stages.compile_module(text, "sm_90a")


@contextlib.contextmanager
def _answered() -> Iterator[None]:
    try:
        yield
    except WeftInternalError:
        raise
    except (WeftError, mlir.MLIRError, ValueError):
        pass


PLACES: dict[str, Callable[[str], None]] = {
    "schedules": _schedules,
    "kernels": _kernels,
    "products": _products,
    "types": _types,
    "linalg": _linalg,
    "options": _options,
    "files": _files,
    "verifiers": _verifiers,
}


def main(place: str, every: int, first: int) -> None:
    """Tries the kinds in a place."""
    for kind in KINDS[first::every]:
        print(f"{place}: {kind}", end=" ", flush=True)
        try:
            PLACES[place](kind)
        except Exception as failure:  # which is to be found
            print(f"{type(failure).__name__}: {failure}")
        else:
            print("answered")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
