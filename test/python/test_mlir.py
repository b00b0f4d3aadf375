"""The only import of MLIR, and the defects that it works around."""

from contextlib import nullcontext

import numpy as np
import pytest

import weft
from weft import mlir
from weft.compiler import codegen, translation
from weft.compiler.stages import compile_module
from weft.dialects import context, names_in
from weft.dialects.mma import SyncOp
from weft.errors import Location, WeftError


def test_a_parse_error_has_its_source_location():
    with pytest.raises(WeftError) as caught:
        mlir.parse("\n  foo", context(), "a.mlir")
    assert caught.value.diagnostics[0].location == Location("a.mlir", 2, 3)


DEEP = {
    "modules": lambda count: "module {\n" * count + "}" * count,
    "types": lambda count: f"func.func private @f({'tuple<' * count}i1{'>' * count})",
    "attributes": lambda count: f"module attributes {{a.b = {'[' * count}{']' * count}}} {{}}",
    "expressions": lambda count: f"#m = affine_map<(i) -> ({'(' * count}i{')' * count})>",
}


@pytest.mark.parametrize("case", list(DEEP))
@pytest.mark.parametrize("from_file", [False, True])
def test_nesting_that_ends_the_parser_is_refused_before_it(case, from_file, tmp_path):
    assert mlir.parse(DEEP[case](990), context())
    text, path = DEEP[case](20_000), tmp_path / "deep.mlir"
    path.write_text(text)
    with pytest.raises(WeftError, match="brackets must be nested at most 1000 deep") as caught:
        mlir.parse_file(path, context()) if from_file else mlir.parse(text, context(), str(path))
    place = caught.value.diagnostics[0].location
    line = text.splitlines()[place.line - 1]
    assert place.file == str(path) and place.line == (1001 if case == "modules" else 1)
    assert line[place.column - 1] in "([{<"


def test_result_numbers_that_end_the_parser_are_refused_before_it():
    text = 'func.func @f(%a: i32) {\n  "func.return"(%a // why\n #N) : (i32) -> ()\n}'
    with pytest.raises(WeftError, match=r"-:3:2: error: result number must be below 65536, got 21"):
        mlir.parse(text.replace("N", "2147483647"), context())
    with pytest.raises(WeftError, match="reference to invalid result number"):
        mlir.parse(text.replace("N", "65535"), context())


def test_brackets_and_numbers_that_are_none_are_no_hazard():
    many = "(" * 2000
    signatures = "\n".join(f"func.func private @f{i}(i32) -> (i32)" for i in range(1200))
    text = f'''// {many} %a#2147483647
      module attributes {{a.b = "{many} \\22 %a#2147483647"}} {{ {signatures} }}'''
    assert mlir.parse(text, context())


def test_an_operation_that_is_not_lowered_is_refused_before_translation():
    module = mlir.parse("module { func.func @f() { return } }", context(), "a.mlir")
    with pytest.raises(WeftError, match=r"'func.func' op isn't lowered to LLVM"):
        translation.translate(module)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("f32", ["0x7F800000", "0xFF800000", "0x7FC00000", "0x7FC00001"]),
        ("f64", ["0x7FF0000000000000", "0xFFF0000000000000", "0x7FF8000000000000"]),
        ("f16", ["0x7C00", "0xFC00", "0x7E00"]),
        ("bf16", ["0x7F80", "0xFF80", "0x7FC0"]),
    ],
)
def test_infinities_and_nans_reach_ptx_with_their_bits(kind, words):
    count = len(words)
    stores = "\n".join(
        f"%v{i} = arith.constant {word} : {kind} %i{i} = arith.constant {i} : index "
        f"memref.store %v{i}, %d[%i{i}] : memref<{count}x{kind}>"
        for i, word in enumerate(words)
    )
    text = f"""gpu.module @m {{ gpu.func @k(%d: memref<{count}x{kind}>) kernel attributes {{
      known_block_size = array<i32: 32, 1, 1>, weft.grid = affine_map<(d0) -> (1, 1, 1)>}} {{
        {stores}
        gpu.return }} }}"""
    kernel = weft.compile(text, arch="sm_80")
    kernel.emulate(out := np.zeros(count, weft_dtype(kind)))
    width = out.dtype.itemsize
    assert [int(x) for x in out.view(f"u{width}")] == [int(word, 16) for word in words]


def weft_dtype(kind):
    from weft.launch.arrays import numpy_dtype

    return numpy_dtype(kind)


def test_the_worker_understands_the_text_that_mlir_writes():
    module = mlir.parse(
        "module { llvm.func @k() attributes {nvvm.kernel} { llvm.return } }", context(), "a.mlir"
    )
    assert ".entry k" in codegen.to_ptx(translation.translate(module), "sm_80", (8, 4)).ptx


def test_a_translation_that_takes_too_long_is_given_up(monkeypatch):
    module = mlir.parse("module { llvm.func @k() { llvm.return } }", context(), "a.mlir")
    monkeypatch.setattr(translation, "_TIMEOUT_SECONDS", 0.001)
    with pytest.raises(WeftError, match=r"MLIR's translation didn't finish within 0\.001 s"):
        translation.translate(module, apart=True)


UNREACHABLE = """
gpu.module @m [#nvvm.target<chip = "sm_80">] {
  gpu.func @f() kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %h = arith.constant dense<1.0> : vector<2xf16>
    %f = arith.constant 1.0 : f32
    %x = SYNC
    gpu.return
  ^bb1:
    %y = SYNC
    gpu.return
  }
}
""".replace(
    "SYNC",
    """"mma.sync"(%h, %h, %h, %f, %f, %f, %f) {
      shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32",
      operandSegmentSizes = array<i32: 2, 1, 4>
    } : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32)
      -> !llvm.struct<(f32, f32, f32, f32)>""",
)


def test_operations_in_unreachable_blocks_are_found():
    """MLIR's search by patterns passes over them, and its translation would end the process."""
    module = mlir.parse(UNREACHABLE, context())
    with mlir.only_reachable_blocks(module):
        assert len(mlir.operations(module, SyncOp)) == 2
    assert "mma.sync" not in compile_module(UNREACHABLE).llvm


@pytest.mark.parametrize("reachable", [False, True])
def test_operations_come_in_the_order_of_the_text(reachable):
    lines = UNREACHABLE.partition("  ^bb1")[0] + "}\n}"
    inside = "scf.if %c {\n scf.if %c {\n %a = arith.constant 1 : i32\n }\n %b = arith.constant 2 : i32\n }\n"
    text = lines.replace("gpu.return", f"%c = arith.constant true\n{inside}gpu.return")
    module = mlir.parse(text, context())
    with mlir.only_reachable_blocks(module) if reachable else nullcontext():
        found = mlir.operations(module, mlir.arith.ConstantOp, mlir.scf.IfOp)
        names = [op.operation.name.partition(".")[2] for op in found][2:]
        assert names == ["constant", "if", "if", "constant", "constant"]
        constants = [str(op.value) for op in mlir.operations(module, mlir.arith.ConstantOp)][2:]
        assert constants == ["true", "1 : i32", "2 : i32"]
        (function,) = mlir.operations(module, mlir.gpu.GPUFuncOp)
        assert mlir.operations(function, mlir.gpu.GPUFuncOp) == [function]


def test_dialects_of_other_hardware_are_loaded_where_text_has_them():
    made = context()
    assert {"tosa", "spirv", "transform"} <= set(names_in(made))
    assert made.is_registered_operation("nvvm.barrier") and not made.is_registered_operation("tosa.exp")
    text = "func.func @f(%a: tensor<4xf32>) { %0 = tosa.exp %a : (tensor<4xf32>) -> tensor<4xf32> return }"
    assert mlir.parse(text, made) and made.is_registered_operation("tosa.exp")
