"""Products by `mma.sync` of integers of less than a byte, which are packed along K."""

import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from launches import complaint
from products import Case, Product

import weft
from weft import reference
from weft.dialects.schedule import Schedule, Types
from weft.isa import mma
from weft.launch import arrays
from weft.layout import packed_elements
from weft.schedules import choice
from weft.target import Target
from weft.tools.weft import main

NIBBLES = (("i4", "i4"), ("i4", "ui4"), ("ui4", "ui4"))
CHIPS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_120a")
EVERYTHING: dict[str, Any] = {
    "beta": 1.0,
    "added": (("c", "i32"), ("bias", "i32"), ("residual", "i32")),
    "activation": "relu",
}


def right(made: Product, chip: str, *cases: tuple[int, int, int]) -> weft.Kernel:
    """The kernel of a product, which multiplies all of these sizes rightly in the emulator."""
    kernel = weft.compile(made.module(), chip)
    for number, mnk in enumerate(cases):
        assert complaint(made, Case(mnk, ("integers", "largest")[number % 2]), kernel, "emulator") is None
    assert kernel.resources.spill_stores == kernel.resources.stack_bytes == 0
    return kernel


@pytest.mark.sampled(24)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("a", "b"), NIBBLES)
def test_products_of_nibbles(chip: str, a: str, b: str) -> None:
    kernel = right(Product(a, b, "i32"), chip, (33, 70, 74), (16, 8, 160), (1, 1, 2))
    shape = "m8n8k32" if chip == "sm_75" else "m16n8k64"
    types = ".".join(("s32", *({"i4": "s4", "ui4": "u4"}[each] for each in (a, b)), "s32"))
    assert set(re.findall(r"mma\.sync\S+", kernel.ptx)) == {f"mma.sync.aligned.{shape}.row.col.{types}"}


@pytest.mark.sampled(16)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("bit_op", mma.BIT_OPS)
def test_products_of_bits(chip: str, bit_op: str) -> None:
    made = Product("i1", "i1", "i32", bit_op=bit_op)
    if (chip, bit_op) == ("sm_75", "and.popc"):
        with pytest.raises(weft.WeftError, match=r"i1 and i1 with and\.popc: it needs sm_80 or later"):
            weft.compile(made.module(), chip)
        return
    kernel = right(made, chip, (33, 70, 1000), (16, 8, 384), (1, 1, 8))
    shape = "m8n8k128" if chip == "sm_75" else "m16n8k256"
    wanted = f"mma.sync.aligned.{shape}.row.col.s32.b1.b1.s32.{bit_op}"
    assert set(re.findall(r"mma\.sync\S+", kernel.ptx)) == {wanted}


@pytest.mark.slow
@pytest.mark.sampled(12)
@pytest.mark.parametrize("chip", ["sm_90a", "sm_75", "sm_80", "sm_120a"])
@pytest.mark.parametrize("layout", [(True, False), (True, True), (False, False)], ids=str)
@pytest.mark.parametrize(("a", "b", "bit_op"), [("i4", "ui4", None), ("i1", "i1", "xor.popc")])
def test_any_layout(chip: str, layout: tuple[bool, bool], a: str, b: str, bit_op: str | None) -> None:
    made = Product(a, b, "i32", transposed=layout, bit_op=bit_op, many="batch", members=2)
    right(made, chip, (256, 128, 136), (40, 72, 200), (8, 16, 8))  # rows of the first are aligned


@pytest.mark.slow
@pytest.mark.parametrize("many", ["rows", "masked", "one b"])
@pytest.mark.parametrize("layout", [(True, False), (True, True)], ids=str)
def test_groups_of_any_layout(many: str, layout: tuple[bool, bool]) -> None:
    right(Product("i4", "i4", "i32", transposed=layout, many=many, members=2), "sm_80", (144, 66, 72))


@pytest.mark.slow
@pytest.mark.parametrize("many", ["batch", "one a", "one b", "rows", "masked"])
@pytest.mark.parametrize("chip", ["sm_75", "sm_80", "sm_90a"])
def test_batches_and_groups_with_an_epilogue(chip: str, many: str) -> None:
    added = EVERYTHING if many != "rows" else {"activation": "relu"}
    for types in ({"a": "i4", "b": "ui4"}, {"a": "i1", "b": "i1", "bit_op": "xor.popc"}):
        right(Product(d="i32", many=many, members=2, **types, **added), chip, (140, 66, 64), (130, 35, 48))


@pytest.mark.slow
@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("layout", "chip"), [("tn", "sm_80"), ("nt", "sm_80"), ("nt", "sm_75"), ("nn", "sm_75")]
)
def test_rows_begin_at_any_byte(layout: str, chip: str) -> None:
    rng = np.random.default_rng(0)
    transposed = layout[0] == "t", layout[1] == "t"
    kernel = weft.compile(Product("i4", "ui4", "i32", transposed=transposed).module(), chip)
    memory = rng.integers(0, 256, 1 << 14).astype(np.uint8)
    for first, pitch in ((16, 48), (16, 45), (3, 48)):
        rows = [arrays.strided(memory[first + i :], (88, 44), (pitch, 1)) for i in (0, 8192)]
        a, b = (arrays.view(each).unpacked_from(t) for each, t in zip(rows, ("i4", "ui4"), strict=True))
        d = np.zeros((88, 88), np.int32)
        assert not kernel.emulate(a, b, d).findings
        codes = [packed_elements.unpack(each, 4).astype(np.int32) for each in rows]
        left, other = (x.T if t else x for x, t in zip(codes, transposed, strict=True))
        assert (d == ((left ^ 8) - 8) @ other).all()


@pytest.mark.slow
@pytest.mark.parametrize("block", [(64, 64, 256), (32, 128, 128), (128, 64, 128)], ids=str)
def test_any_legal_schedule_multiplies(block: tuple[int, int, int]) -> None:
    right(Product("i4", "i4", "i32", Schedule(block, (2, 2), 2)), "sm_80", (70, 140, 288), (33, 34, 70))


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_75"])
def test_arrays_of_nibbles(arch: str) -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(-8, 8, (2, 34, 48)).astype(ml_dtypes.int4)
    b = rng.integers(0, 16, (50, 48)).astype(ml_dtypes.uint4)
    wanted = a.astype(np.int32) @ b.astype(np.int32).T
    packed = [reference.pack(each) for each in (a, b)]
    assert (reference.unpack(packed[1], "u4") == b).all()
    bias = rng.integers(-9, 9, 50).astype(np.int32)
    found = weft.matmul(a, b, transpose_b=True, epilogue=weft.Epilogue(bias, "relu"), arch=arch)
    assert found.dtype == np.int32 and (found == np.maximum(wanted + bias, 0)).all()
    assert (weft.matmul(a, b.T, arch=arch) == wanted).all()
    kinds = "int4", "uint4"
    assert (weft.matmul(packed[0], packed[1].T, kind=kinds, arch=arch) == wanted).all()
    assert (weft.matmul(packed[0], b.T, kind=kinds, arch=arch) == wanted).all()


@pytest.mark.each_value(1)
@pytest.mark.parametrize("bit_op", mma.BIT_OPS)
def test_arrays_of_bits(bit_op: str) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 2, (2, 34, 96)).astype(bool), rng.integers(0, 2, (50, 96)).astype(bool)
    wanted = (np.logical_xor if bit_op == "xor.popc" else np.logical_and)(a[:, :, None], b).sum(-1)
    packed = [packed_elements.pack(each, 1) for each in (a, b)]
    assert (weft.matmul(a, b.T, bit_op=bit_op, arch="sm_80") == wanted).all()
    how: dict[str, Any] = {"kind": "bool", "bit_op": bit_op, "arch": "sm_80"}
    assert (weft.matmul(*packed, transpose_b=True, **how) == wanted).all()
    assert (weft.matmul(packed[0], b.T, **how) == wanted).all()


@pytest.mark.each_value
@pytest.mark.parametrize("shape", [(0, 128, 128), (128, 0, 128), (128, 128, 0), (0, 128, 0)], ids=str)
@pytest.mark.parametrize("kind", ["int4", "bool", "float4_e2m1fn", "float6_e2m3fn"])
def test_empty_arrays(kind: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    element: Any = np.bool_ if kind == "bool" else getattr(ml_dtypes, kind)
    a, b = np.ones((2, m, k), element), np.ones((n, k), element)
    how: dict[str, Any] = {"bit_op": "xor.popc"} if kind == "bool" else {}
    d = weft.matmul(a, b, transpose_b=True, arch="sm_120a", **how)
    assert d.shape == (2, m, n) and not d.any()


def _nibbles(*shape: int) -> Any:
    return np.zeros(shape, ml_dtypes.int4)


_BYTES = np.zeros((16, 16), np.uint8)
_BITS = np.zeros((16, 32), bool)


@pytest.mark.parametrize(
    ("arguments", "how", "message"),
    [
        ((_nibbles(16, 32).T, _nibbles(32, 16)), {}, "the same K"),
        ((_nibbles(16, 32), _nibbles(32, 15)), {}, "b: rows of packed .* must have a multiple of 2, got 15"),
        ((_nibbles(16, 31), _nibbles(16, 31).T), {}, "packed elements of 4 bits must have a multiple of 2"),
        ((_nibbles(16, 32), np.zeros((16, 32), np.int8).T), {}, "a and b must have one element type"),
        ((_BYTES, _BYTES.T), {"kind": ("int4", "nvfp4")}, "one type of scales .* got int4 and nvfp4"),
        ((_BYTES, _BYTES.T), {"kind": "int4", "scales": (_BYTES, _BYTES)}, "scales must not be given with"),
        ((_BYTES, _BYTES.T), {"kind": "int4", "alpha": 2.0}, "alpha 1 and beta 0 or 1 where A and B are int"),
        (
            (_BYTES, _BYTES.T),
            {"kind": "int4", "out_dtype": "f32"},
            "elements of i32 where a and b are integers",
        ),
        ((_BYTES, _BYTES.T), {"kind": "int4", "promote": True}, "A and B of fp8 where promote is true"),
        ((_BYTES, _BYTES.T), {"kind": "int4", "arch": "sm_72"}, "sm_75 or later, or A and B of i8"),
        ((_BYTES, _BYTES.T), {"kind": "uint4", "arch": "sm_70"}, "sm_75 or later, or A and B of f16"),
        ((_BITS, _BITS.T), {}, "bit_op must be xor.popc or and.popc for A and B of i1, got none"),
        ((_BITS, _BITS.T), {"bit_op": "xor"}, "must be xor.popc or and.popc for A and B of i1, got 'xor'"),
        ((_BITS, _BITS.T), {"bit_op": 1}, "must be xor.popc or and.popc for A and B of i1, got 1"),
        (
            (_BYTES, _BYTES.T),
            {"bit_op": "and.popc"},
            "omitted unless A and B are i1, got 'and.popc' with ui8",
        ),
        ((_BITS, _BITS.T), {"bit_op": "and.popc", "arch": "sm_75"}, "it needs sm_80 or later, or xor.popc"),
        ((_BITS, _BITS.T), {"bit_op": "and.popc", "arch": "sm_72"}, "sm_80 or later, or A and B of i8"),
        (
            (_BITS[:12].T.copy().T, _BITS.T),
            {"bit_op": "and.popc"},
            "1 bits must have a multiple of 8, got 12",
        ),
        (
            (_BITS[:, :30], _BITS[:, :30].T),
            {"bit_op": "xor.popc"},
            "1 bits must have a multiple of 8, got 30",
        ),
    ],
)
def test_arrays_are_refused(arguments: tuple[Any, Any], how: dict[str, Any], message: str) -> None:
    with pytest.raises(weft.WeftError, match=message):
        weft.matmul(*arguments, **{"arch": "sm_80", **how})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"b": "i8"}, "expects A and B of one element type"),
        ({"d": "f32"}, "D and what is added to it to be i32 if and only if A and B are integers"),
        ({"schedule": Schedule((64, 64, 64), (2, 2), 2)}, "block K must be 128 or 256"),
        (
            {"transposed": (True, True), "schedule": Schedule((48, 64, 128), (1, 2), 2)},
            "block M must be a multiple of 32 for an MN-major operand, got 48",
        ),
    ],
    ids=str,
)
def test_products_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(weft.WeftError, match=message):
        weft.compile(Product(**{"a": "i4", "b": "i4", "d": "i32", **given}).module(), "sm_80")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bit_op": None}, "bit_op must be xor.popc or and.popc for A and B of i1, got none"),
        ({"bit_op": "xor"}, "bit_op must be xor.popc or and.popc for A and B of i1, got 'xor'"),
        ({"a": "i8", "b": "i8"}, "bit_op must be omitted unless A and B are i1, got 'xor.popc' with i8"),
        ({"b": "i4"}, "expects A and B of one element type"),
        ({"schedule": Schedule((64, 64, 256), (2, 2), 2)}, "block K must be 512 or 1024"),
        ({"accumulate": "f16"}, "accumulate must be i32|accumulate is f16, got i1"),
    ],
    ids=str,
)
def test_products_of_bits_are_refused(given: dict[str, Any], message: str) -> None:
    bits = {"a": "i1", "b": "i1", "d": "i32", "bit_op": "xor.popc"}
    with pytest.raises(weft.WeftError, match=message):
        weft.compile(Product(**{**bits, **given}).module(), "sm_80")


def test_bits_have_no_groups_along_k() -> None:
    types = Types("i1", "i1", "i32", grouped=True, k_groups=True, bit_op="xor.popc")
    with pytest.raises(
        weft.WeftError, match="groups along K for D of i32: use a product without groups along K"
    ):
        choice.choose(64, 64, 512, types, "sm_80")
    named = Schedule((64, 64, 512), (2, 2), 2)
    assert named.complaint(types) == "block K must divide 128 with k_ends, got 512"


@pytest.mark.parametrize(
    ("family", "chip", "message"),
    [
        ("wmma", "sm_80", "wmma.mma must multiply elements of 8 to 32 bits, got i4 and ui4"),
        ("wgmma", "sm_90a", r"i4 needs a schedule of mma.sync \(warps\), got one of wgmma"),
        ("tcgen05", "sm_100a", "A and B must be of types of one kind of tcgen05.mma, got i4 and ui4"),
        ("mma", "sm_120a", r"i4 needs a schedule of mma.sync without TMA \(warps\)"),
    ],
)
def test_schedules_of_other_families_are_refused(family: str, chip: str, message: str) -> None:
    named = choice.choose(4096, 4096, 4096, Types("f16", "f16", "f32"), chip, family=family)
    types = Types("i4", "ui4", "i32")
    assert re.match(message, named.complaint(types, Target.of(chip)) or "")
    if family != "mma":
        with pytest.raises(weft.WeftError, match="family must be mma for i4 and ui4"):
            choice.choose(4096, 4096, 4096, types, chip, family=family)


def test_k_is_a_multiple_of_what_a_byte_has() -> None:
    with weft.Module() as module:
        kinds = [weft.memref("8x31", "i4"), weft.memref("8x31", "i4"), weft.memref("8x8", "i32")]
        with (
            module.func("product", kinds) as values,
            pytest.raises(weft.WeftError, match="K must be a multiple of 2 for A and B of i4 and i4, got 31"),
        ):
            weft.dialects.tile.matmul(*values, transpose_b=True)


def test_launches_require_whole_bytes() -> None:
    made = Product("i4", "i4", "i32", transposed=(True, False))
    required = str(weft.compile(made.module(), "sm_80").ir("outline-matmul"))
    assert "d0 mod 2, d1 mod 2, d3 mod 2)" in required  # K, M and N of A as K x M and B as K x N


def test_rows_of_mn_major_operands_are_whole_bytes() -> None:
    with weft.Module() as module:
        kinds = [weft.memref("8x32", "i4"), weft.memref("32x7", "i4"), weft.memref("8x7", "i32")]
        with (
            module.func("product", kinds) as values,
            pytest.raises(weft.WeftError, match=r"N must be a multiple of 2 for an MN-major .* N, got 7"),
        ):
            weft.dialects.tile.matmul(*values)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("a", "b", "bit_op"), [("i4", "ui4", None), pytest.param("i1", "i1", "and.popc", marks=pytest.mark.slow)]
)
def test_weft_run_checks_packed_integers(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], a: str, b: str, bit_op: str | None
) -> None:
    file = tmp_path / "packed.mlir"
    file.write_text(str(Product(a, b, "i32", bit_op=bit_op).module()))
    assert main(["run", str(file), "--arch", "sm_80", "--on", "emulator", "--shape", "40x33x72"]) == 0
    assert f"A[40,72] {a} * B[33,72]ᵀ {b}" in capfd.readouterr().out
