"""`multimem` instructions on multicast objects, whose arrays stand for the memory of several GPUs."""

import ml_dtypes
import numpy as np
import pytest
from emulator_ptx import module

from weft import emulator
from weft.errors import WeftError

BF16 = ml_dtypes.bfloat16
KERNEL = """
.visible .entry k(.param .u64 p_all, .param .u64 p_out, .param .u64 p_two)
{{
  .reg .pred %p<4>; .reg .b16 %h<9>; .reg .b32 %r<16>; .reg .b64 %l<8>;
  ld.param.u64 %l1, [p_all]; ld.param.u64 %l2, [p_out]; ld.param.u64 %l3, [p_two];
  mov.u32 %r1, %tid.x; mul.wide.u32 %l4, %r1, {bytes}; setp.lt.u32 %p1, %r1, 16;
  add.u64 %l1, %l1, %l4; add.u64 %l2, %l2, %l4; add.u64 %l3, %l3, %l4;
  {body}
  ret;
}}"""


def launch(body, arrays, out, two=0, count=32, **options):
    size = arrays[0].nbytes // count
    text = KERNEL.format(body=body, bytes=size)
    args = [emulator.Multicast(arrays), out, two]
    return module(text, "sm_90").launch("k", block=count, args=args, **options)


def random(kind, words, count=32):
    rng = np.random.default_rng(words)
    if np.dtype(kind).kind in "ui":
        most = np.iinfo(kind)
        return [rng.integers(most.min, most.max, count * words, kind, endpoint=True) for _ in range(3)]
    return [rng.standard_normal(count * words).astype(kind) for _ in range(3)]


def added(a, b, c):
    return (a + b).astype(a.dtype) + c


CASES = [
    ("add.u32", "%r2", np.uint32, 1, added),
    ("add.s32", "%r2", np.int32, 1, added),
    ("add.u64", "%l5", np.uint64, 1, added),
    ("min.s32", "%r2", np.int32, 1, lambda *x: np.min(x, axis=0)),
    ("max.s64", "%l5", np.int64, 1, lambda *x: np.max(x, axis=0)),
    ("min.u64", "%l5", np.uint64, 1, lambda *x: np.min(x, axis=0)),
    ("and.b32", "%r2", np.uint32, 1, lambda a, b, c: a & b & c),
    ("or.b64", "%l5", np.uint64, 1, lambda a, b, c: a | b | c),
    ("xor.b32", "%r2", np.uint32, 1, lambda a, b, c: a ^ b ^ c),
    ("add.f32", "%r2", np.float32, 1, added),
    ("add.f64", "%l5", np.float64, 1, added),
    ("add.v2.f32", "{%r2, %r3}", np.float32, 2, added),
    ("add.v4.f32", "{%r2, %r3, %r4, %r5}", np.float32, 4, added),
    ("add.f16x2", "%r2", np.float16, 2, added),
    ("max.v2.f16", "{%h1, %h2}", np.float16, 2, lambda *x: np.max(x, axis=0)),
    ("add.v4.bf16x2", "{%r2, %r3, %r4, %r5}", BF16, 8, added),
    ("add.v8.bf16", "{%h1, %h2, %h3, %h4, %h5, %h6, %h7, %h8}", BF16, 8, added),
    (
        "add.acc::f32.v4.bf16x2",
        "{%r2, %r3, %r4, %r5}",
        BF16,
        8,
        lambda *x: added(*(v.astype(np.float32) for v in x)).astype(BF16),
    ),
]
OUT = {"%r2": "st.global.b32 [%l2], %r2;", "%l5": "st.global.b64 [%l2], %l5;"}


def stored(registers):
    if not registers.startswith("{"):
        return OUT[registers]
    names = registers.strip("{}").split(", ")
    kind, size = ("b16", 2) if names[0].startswith("%h") else ("b32", 4)
    return " ".join(f"st.global.{kind} [%l2+{size * at}], {name};" for at, name in enumerate(names))


@pytest.mark.each_value(35)
@pytest.mark.parametrize(
    ("form", "registers", "kind", "words", "want"), CASES, ids=[case[0] for case in CASES]
)
@pytest.mark.parametrize("order", ["", ".weak", ".acquire.sys"])
def test_loads_reduce_over_the_arrays(form, registers, kind, words, want, order):
    arrays, out = random(kind, words), np.zeros(32 * words, kind)
    report = launch(
        f"multimem.ld_reduce{order}.global.{form} {registers}, [%l1]; {stored(registers)}", arrays, out
    )
    np.testing.assert_array_equal(out.view(np.uint8), want(*arrays).view(np.uint8))
    assert not report.findings and report.counters["multimem.ld_reduce"] == 1


def test_sums_in_f32_are_rounded_once():
    # 1 + 2**-8 + 2**-8 in bf16 is 1 if each sum is rounded, and 1 + 2**-7 otherwise.
    arrays = [np.full(64, value, BF16) for value in (1, 2.0**-8, 2.0**-8)]
    for form, want in (("add", 1), ("add.acc::f32", 1 + 2.0**-7)):
        out = np.zeros(64, BF16)
        launch(f"multimem.ld_reduce.{form}.bf16x2 %r2, [%l1]; st.global.b32 [%l2], %r2;", arrays, out)
        assert (out == want).all()


@pytest.mark.parametrize(
    ("load", "form", "words"),
    [
        ("ld.global.b32 %r2, [%l2];", "st.b32 [%l1], %r2;", 1),
        ("ld.global.b64 %l5, [%l2];", "st.release.gpu.global.u64 [%l1], %l5;", 2),
        ("ld.global.b64 %l5, [%l2];", "st.weak.global.f64 [%l1], %l5;", 2),
        (
            "ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%l2];",
            "st.relaxed.sys.global.v4.f32 [%l1], {%r2, %r3, %r4, %r5};",
            4,
        ),
        ("ld.global.v2.b16 {%h1, %h2}, [%l2];", "st.v2.f16 [%l1], {%h1, %h2};", 1),
    ],
)
def test_stores_reach_every_array(load, form, words):
    values = np.arange(1, 32 * words + 1, dtype=np.uint32)
    arrays = [np.zeros_like(values) for _ in range(4)]
    report = launch(f"{load} multimem.{form}", arrays, values)
    assert all((array == values).all() for array in arrays) and not report.findings


@pytest.mark.parametrize(
    ("form", "value", "kind", "want"),
    [
        ("add.u32", "%r1", np.uint32, lambda old, x: old + x),
        ("max.s32", "%r1", np.int32, np.maximum),
        ("relaxed.gpu.global.xor.b32", "%r1", np.uint32, lambda old, x: old ^ x),
        ("release.sys.global.add.f32", "%r2", np.float32, lambda old, x: old + x),
    ],
)
def test_reductions_reach_every_array(form, value, kind, want):
    arrays = random(kind, 1)
    before = [array.copy() for array in arrays]
    report = launch(
        f"cvt.rn.f32.u32 %r2, %r1; multimem.red.{form} [%l1], {value};", arrays, np.zeros(32, kind)
    )
    for array, old in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, want(old, np.arange(32).astype(kind)))
    assert not report.findings


def test_all_lanes_add_to_one_element():
    arrays = [np.zeros(32, np.float32) for _ in range(2)]
    body = "sub.u64 %l1, %l1, %l4; mov.b32 %r2, 0f3F800000; multimem.red.add.v2.f32 [%l1], {%r2, %r2};"
    launch(body, arrays, np.zeros(1))
    assert all(array[:3].tolist() == [32, 32, 0] for array in arrays)


def test_lanes_may_access_different_objects():
    first, second = ([np.full(32, value + n, np.uint32) for n in range(2)] for value in (10, 20))
    out = np.zeros(32, np.uint32)
    body = "@%p1 mov.u64 %l1, %l3; multimem.ld_reduce.add.u32 %r2, [%l1]; st.global.b32 [%l2], %r2;"
    launch(body, first, out, emulator.Multicast(second))
    assert out.tolist() == [41] * 16 + [21] * 16


def test_arrays_may_be_arguments_of_their_own_and_race():
    arrays = [np.zeros(32, np.uint32) for _ in range(2)]
    body = "multimem.st.u32 [%l1], 7; bar.warp.sync -1; ld.global.b32 %r2, [%l2]; st.global.b32 [%l2], %r2;"
    assert not launch(body, arrays, arrays[1]).findings
    assert (arrays[1] == 7).all()
    arrays = [np.zeros(64, np.uint32) for _ in range(2)]
    body = "sub.u64 %l1, %l1, %l4; multimem.st.u32 [%l1], %r1; st.global.b32 [%l2], 1;"
    found = launch(body, arrays, arrays[1], count=64).findings
    assert {finding.rule for finding in found} == {"global-race"}


@pytest.mark.parametrize(
    ("body", "rule", "message"),
    [
        ("multimem.st.u32 [%l2], 1;", "out-of-bounds", "which isn't in a multicast object"),
        (
            "multimem.ld_reduce.add.u32 %r2, [%l1+4];",
            "out-of-bounds",
            "128 bytes into argument 0, a multicast object",
        ),
        ("multimem.ld_reduce.add.u32 %r2, [%l1+2];", "misaligned", "misaligned multimem access of 4 bytes"),
        ("multimem.red.add.v2.f32 [%l1], {%r1, %r1};", "misaligned", "misaligned multimem access of 8 bytes"),
        ("ld.global.b32 %r2, [%l1];", "out-of-bounds", "which only multimem instructions may access"),
        ("st.b32 [%l1], %r1;", "out-of-bounds", "in argument 0, a multicast object, which only multimem"),
        ("red.global.add.u32 [%l1], 1;", "out-of-bounds", "which only multimem instructions may access"),
    ],
)
def test_faults(body, rule, message):
    with pytest.raises(emulator.Fault, match=message) as error:
        launch(body, [np.zeros(32, np.uint32)] * 2, np.zeros(32, np.uint32))
    assert error.value.rule == rule


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("multimem.ld_reduce.add.s64 %l5, [%l1];", "isn't defined for .s64"),
        ("multimem.ld_reduce.and.u32 %r2, [%l1];", "isn't defined for .u32"),
        ("multimem.ld_reduce.max.f32 %r2, [%l1];", "isn't defined for .f32"),
        ("multimem.ld_reduce.inc.u32 %r2, [%l1];", "needs one of .add"),
        ("multimem.ld_reduce.add.f16 %h1, [%l1];", "got 2 of .f16; the least is .v2"),
        ("multimem.ld_reduce.add.v8.f16x2 {%r2,%r3,%r4,%r5,%r2,%r3,%r4,%r5}, [%l1];", "got 32 of .f16x2"),
        ("multimem.ld_reduce.add.v2.u32 {%r2, %r3}, [%l1];", ".v2 isn't defined for .u32"),
        ("multimem.ld_reduce.add.v2.f64 {%l5, %l6}, [%l1];", ".v2 isn't defined for .f64"),
        ("multimem.ld_reduce.add.acc::f32.f32 %r2, [%l1];", ".acc::f32 must be with .add of .f16"),
        ("multimem.ld_reduce.max.acc::f32.f16x2 %r2, [%l1];", ".acc::f32 must be with .add"),
        ("multimem.ld_reduce.weak.gpu.add.u32 %r2, [%l1];", "no scope"),
        ("multimem.ld_reduce.release.gpu.add.u32 %r2, [%l1];", "unsupported modifier .release"),
        ("multimem.ld_reduce.add.v2.f32 %r2, [%l1];", "expects 2 registers, got 1"),
        ("multimem.ld_reduce.shared.add.u32 %r2, [%l1];", "unsupported modifier .shared"),
        ("multimem.ld_reduce.add.u32 %l5, [%l1];", "expects 32 bits"),
        ("multimem.st.v4.b32 [%l1], {%r2, %r3, %r4, %r5};", ".v4 isn't defined for .b32"),
        ("multimem.st.acquire.gpu.b32 [%l1], %r2;", "unsupported modifier .acquire"),
        ("multimem.st.b16 [%l1], %h1;", "isn't defined for .b16"),
        ("multimem.st.b32 [%l1];", "expects 2 operands, got 1"),
        ("multimem.red.weak.add.u32 [%l1], %r2;", "unsupported modifier .weak"),
        ("multimem.red.max.f16x2 [%l1], %r2;", "isn't defined for .f16x2"),
        ("multimem.red.add.noftz.f16x2 [%l1], %r2;", "unsupported modifier .noftz"),
        ("multimem.red.add.v2.f32 [%l1], {%r2};", "expects 2 registers, got 1"),
    ],
)
def test_illegal_instructions_are_rejected(text, message):
    with pytest.raises(emulator.PtxError, match=message):
        launch(text, [np.zeros(32, np.uint32)] * 2, np.zeros(32, np.uint32))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([], "a list of at least one array"),
        (7, "a list of at least one array"),
        ([np.zeros(4), 3], "array 1 of a Multicast must be an array"),
        ([np.zeros(4), np.zeros(5)], "the same size, got 32 and 40 bytes"),
        ([np.zeros((4, 4)).T[:2]], "array 0 of a Multicast must be contiguous"),
        ([np.array(["a"])], "isn't a numeric type"),
    ],
)
def test_illegal_arrays_are_rejected(arrays, message):
    with pytest.raises(WeftError, match=message):
        emulator.Multicast(arrays)
