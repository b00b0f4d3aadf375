"""`batch_invariant=True`: the bits of a row depend on its data, B and K alone.

The proof has two parts. Whatever M is, the schedule that is chosen adds the products of an element in one
described order (`AnySchedule.order`). And schedules of one order have equal bits: those that can be chosen
multiply in the emulator, with each row at several indices.
"""

import re
from dataclasses import replace
from itertools import chain
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.dialects.product_types import Types, ceil_div
from weft.dialects.schedule import (
    AnySchedule,
    DirectSchedule,
    Schedule,
    TensorMemorySchedule,
    WarpgroupSchedule,
)
from weft.schedules import choice
from weft.schedules.choice import Request

CHIPS = ("sm_80", "sm_90a", "sm_100a", "sm_120a")
FP8 = "f8E4M3FN"
BF16, TF32 = Types("bf16", "bf16", "f32"), Types("f32", "f32", "f32")
E4M3 = Types(FP8, FP8, "f32")
TYPES = {
    "f16": Types("f16", "f16", "f32"),
    "bf16": BF16,
    "tf32": TF32,
    "e4m3": E4M3,
    "promoted": replace(E4M3, promoted=True),
}
KINDS: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    FP8: ml_dtypes.float8_e4m3fn,
}
SIZES = (1, 7, 64, 129, 300)
CASES = [(chip, name) for chip in CHIPS for name in TYPES if not choice.complaint(TYPES[name], chip)]
CASES = [("sm_70", "f16"), *(case for case in CASES if case[1] != "f16")]


def operands(types: Types, n: int, k: int, rows: int = SIZES[-1]) -> tuple[Any, Any]:
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((rows, k)), rng.standard_normal((n, k))
    return a.astype(KINDS[types.a]), b.astype(KINDS[types.b])


def multiplied(types: Types, chip: str, a: Any, b: Any, **options: Any) -> Any:
    options = {"transpose_b": True, "promote": types.promoted, "batch_invariant": True} | options
    return weft.matmul(a, b, out_dtype="f32", arch=chip, **options)


def same_bits(some: Any, of_all: Any) -> bool:
    return some.tobytes() == np.ascontiguousarray(of_all).tobytes()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("n, k", [(48, 1000), (4096, 4096), (1000, 32768)])
@pytest.mark.parametrize("chip, name", CASES)
def test_whatever_m_is_one_order_is_chosen(chip: str, name: str, n: int, k: int) -> None:
    for types in (TYPES[name], replace(TYPES[name], grouped=True)):
        found = {
            choice.choose(m, n, k, types, chip, members, batch_invariant=True).order(types, chip)
            for m in (*SIZES, 16, 17, 48, 1024, 8192)
            for members in (1, 8)
        }
        (order,) = found
        assert order is not None and order.divided == ()


def of_one_order(types: Types, chip: str, n: int, k: int) -> list[AnySchedule]:
    """The schedules that may be chosen for some M and N, one for each kind and size of tile."""
    requests = [Request(m, each, k, types, chip, batch_invariant=True) for m in SIZES for each in (n, 4096)]
    chosen = [choice.choose(r.m, r.n, r.k, types, chip, batch_invariant=True) for r in requests]
    order, found = chosen[0].order(types, chip), dict[object, AnySchedule]()
    for s in chain(chosen, *map(choice.by_promise, requests)):
        key = type(s), s.block[:2], s.swap, s.cluster != (1, 1), s.cta_group, s.alternating
        if s.order(types, chip) == order:
            found.setdefault(key, s)
    return list(found.values())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("most", [3, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("chip, name", CASES)
def test_schedules_of_one_order_have_equal_bits(chip: str, name: str, most: int) -> None:
    types = TYPES[name]
    a, b = operands(types, 40, 520, 150)
    schedules = of_one_order(types, chip, 40, 520)
    first, *others = (
        multiplied(types, chip, a, b, schedule=s) for s in schedules[:: ceil_div(len(schedules), most)]
    )
    assert all(same_bits(first, each) for each in others)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("chip, name", CASES)
def test_a_row_has_the_same_bits_in_any_batch(chip: str, name: str) -> None:
    types = TYPES[name]
    a, b = operands(types, 40, 520)
    whole = multiplied(types, chip, a, b)
    for m, first in zip(SIZES, (299, 100, 3, 128, 0), strict=True):
        assert same_bits(multiplied(types, chip, a[first : first + m], b), whole[first : first + m])
    if len(types.a) > 3:  # other types may have rows that TMA can't copy, and layouts that it can't read
        return
    last = multiplied(types, chip, a[:, 3:], b[:, 3:])[-7:]
    assert same_bits(
        multiplied(types, chip, a[-7:, 3:].T, b[:, 3:].T, transpose_a=True, transpose_b=False), last
    )


@pytest.mark.parametrize("chip, name", [("sm_80", "bf16"), ("sm_90a", "e4m3"), ("sm_100a", "tf32")])
def test_groups_have_the_bits_of_products(chip: str, name: str) -> None:
    types = TYPES[name]
    a, b = operands(types, 3 * 24, 264, 140)
    each = b.reshape(3, 24, 264)
    d = multiplied(types, chip, a, each, row_ends=np.array([7, 7, 140], np.int32))
    assert same_bits(multiplied(types, chip, a[:7], each[0]), d[:7])
    assert same_bits(multiplied(types, chip, a[139:], each[2]), d[139:])


def test_the_free_choice_has_other_bits() -> None:
    a, b = operands(TF32, 48, 1000, 7)
    one, free = (multiplied(TF32, "sm_90a", a, b, batch_invariant=each) for each in (True, False))
    assert not same_bits(one, free)


WGMMA, TCGEN05 = WarpgroupSchedule((64, 40, 64), 1, 4), TensorMemorySchedule((128, 64, 64), 2, 3)


@pytest.mark.parametrize(
    "chip, schedules",
    [
        ("sm_90a", (WGMMA, replace(WGMMA, swap=True), replace(WGMMA, loaders=2))),
        ("sm_100a", (TCGEN05, replace(TCGEN05, swap=True), replace(TCGEN05, dynamic=True))),
    ],
)
def test_kinds_of_kernels_finish_sums_alike(chip: str, schedules: tuple[AnySchedule, ...]) -> None:
    a, b = operands(BF16, 40, 264, 64)
    c = np.linspace(-1, 1, 64 * 40, dtype=np.float32).reshape(64, 40)
    options = {"c": c, "beta": 0.3, "alpha": 0.7, "epilogue": weft.Epilogue(c[0], "gelu", c)}
    first, *others = (multiplied(BF16, chip, a, b, schedule=s, **options) for s in schedules)
    assert all(same_bits(first, each) for each in others)


@pytest.mark.parametrize(
    "chip, schedule, got",
    [
        (
            "sm_90a",
            replace(WGMMA, global_splits=2),
            "global_splits 2, block K 64; nearest legal: global_splits 1",
        ),
        ("sm_90a", replace(WGMMA, stream_k=True), "stream_k True, block K 64; nearest legal: stream_k false"),
        ("sm_90a", replace(WGMMA, skewed=True), "skewed; nearest legal: skewed false"),
        ("sm_90a", Schedule((64, 64, 64), (2, 2), 3), "mma.sync; nearest legal: block 64x"),
        (
            "sm_80",
            DirectSchedule((16, 8, 64), (1, 8)),
            "readers 1 x 8, block K 64; nearest legal: block 16x32x",
        ),
        (
            "sm_100a",
            replace(TCGEN05, global_splits=4),
            "global_splits 4, block K 64; nearest legal: global_splits 1",
        ),
    ],
)
def test_schedules_of_other_orders_are_refused(chip: str, schedule: AnySchedule, got: str) -> None:
    a, b = operands(BF16, 40, 264, 8)
    rule = "weft.matmul: schedule must add products by .* in the order of K with batch_invariant, got "
    with pytest.raises(weft.WeftError, match=rule + re.escape(got)):
        multiplied(BF16, chip, a, b, schedule=schedule)
    assert multiplied(BF16, chip, a, b, schedule=schedule, batch_invariant=False).shape == (8, 40)


def test_the_option_is_a_flag() -> None:
    a, b = operands(BF16, 8, 16, 8)
    with pytest.raises(weft.WeftError, match="batch_invariant must be True or False, got 1"):
        weft.matmul(a, b, transpose_b=True, batch_invariant=1)


def test_pytorch_and_its_gradients() -> None:
    torch = pytest.importorskip("torch")
    a, b = (torch.randn(n, 520, requires_grad=True) for n in (300, 40))
    options = {"transpose_b": True, "batch_invariant": True}
    with pytest.raises(weft.WeftError, match=r"batch_invariant must be False .*set_float32_matmul_precision"):
        weft.matmul(a.detach(), b.detach(), **options)
    options["arch"] = "sm_90a"
    d, few = weft.matmul(a, b, **options), weft.matmul(a[129:136], b, **options)
    assert few.equal(d[129:136])
    (of_a,), (of_few,) = (torch.autograd.grad(x.square().sum(), a) for x in (d, few))
    assert of_few[129:136].equal(of_a[129:136])


def test_jax() -> None:
    jax = pytest.importorskip("jax")
    from weft import jax as weft_jax

    a, b = operands(BF16, 40, 520)
    f = jax.jit(lambda a, b: weft_jax.matmul(a, b, transpose_b=True, batch_invariant=True, out_dtype="f32"))
    assert same_bits(np.asarray(f(a[129:136], b)), multiplied(BF16, "sm_90a", a, b)[129:136])
    text = "batch_invariant must be False .*default_matmul_precision"
    with jax.default_matmul_precision("highest"), pytest.raises(weft.WeftError, match=text):
        f(a.astype(np.float32), b.astype(np.float32))
