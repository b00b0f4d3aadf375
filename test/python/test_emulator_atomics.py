"""Atomic operations on every type, NaN, and operations that a type lacks."""

import re

import ml_dtypes
import numpy as np
import pytest
from emulator_ptx import module, run

from weft.emulator import PtxError

ELEMENTS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
INTEGERS = [f"{kind}{bits}" for kind in "usb" for bits in (32, 64)]
HALVES = ["f16", "f16x2", "bf16", "bf16x2"]
LEGAL = {
    **dict.fromkeys(("and", "or", "xor", "inc", "dec"), INTEGERS),
    "add": [*INTEGERS, *HALVES, "f32", "f64"],
    **{key: [*INTEGERS, *HALVES] for key in ("min", "max")},
    "exch": [*INTEGERS, "b128"],
    "cas": [*INTEGERS, "b16", "b128"],
}
BITS = {"f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "tf32": 32, "f32x2": 64, "e4m3x2": 16, "pred": 1}
KINDS = sorted({*(kind for kinds in LEGAL.values() for kind in kinds), "b8", "u8", "s16", "u16", *BITS})


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("kind", [*HALVES, "f32", "f64"])
def test_sums_of_odd_floats_are_those_of_add(kind, space):
    edges = np.array(
        [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 3.0], ELEMENTS[kind.removesuffix("x2")]
    )
    x, y = np.repeat(edges, 8), np.tile(edges, 8)
    bits = BITS.get(kind, 8 * x.itemsize)
    x, y = (v.repeat(bits // 8 // v.itemsize).view(f"u{bits // 8}") for v in (x, y))
    begin = "mov.u64 %at, own;" if space == "shared" else "ld.param.u64 %at, [p_a0];"
    # In global memory NaN of the operand comes before that in memory.
    order = "%a0, %a1" if space == "global" else "%a1, %a0"
    declare, noftz = f".shared .align 8 .b{bits} own[64]; .reg .u64 %at;", ".noftz" * (kind in HALVES)
    body = f"""
    {begin} mad.wide.u32 %at, %i, {bits // 8}, %at; st.{space}.b{bits} [%at], %a0;
    atom.{space}.add{noftz}.{kind} %d1, [%at], %a1; ld.{space}.b{bits} %d0, [%at]; add.{kind} %d2, {order};
    """
    total, before, expected = run(body, x.copy(), y, out=(x.dtype,) * 3, declare=declare, target="sm_90a")
    assert (total == expected).all() and (before == x).all()


@pytest.mark.parametrize("returns", [True, False])
@pytest.mark.parametrize("space", ["global", "shared", "generic"])
def test_sums_of_f32_flush_subnormals_in_global_memory_alone(space, returns):
    x = np.array([0x100, 0x018EA6F4, 0x00900000, 0x80000001, 0x00900000], np.uint32)
    y = np.array([0x200, 0x8FD, 0x808FFFFF, 0, 0x80900000], np.uint32)
    flushed = np.array([0, 0x018EA6F4, 0, 0, 0], np.uint32)
    exact = (x.view(np.float32) + y.view(np.float32)).view(np.uint32)
    where = "" if space == "generic" else f".{space}"
    atom = f"atom{where}.add.f32 %r0, [%at], %a1" if returns else f"red{where}.add.f32 [%at], %a1"
    bodies = {
        "global": "ld.param.u64 %at, [p_a0]; mad.wide.u32 %at, %i, 4, %at;",
        "shared": "mov.u64 %at, own; mad.wide.u32 %at, %i, 4, %at;",
    }
    bodies["shared"] += "cvta.shared.u64 %at, %at;" * (space == "generic")
    for memory in ("global", "shared") if space == "generic" else (space,):
        body = f"{bodies[memory]} st{where}.b32 [%at], %a0; {atom}; ld{where}.b32 %d0, [%at];"
        declare = ".shared .align 8 .b32 own[64]; .reg .u64 %at;"
        got = run(body, x.copy(), y, out=np.uint32, declare=declare)
        np.testing.assert_array_equal(got, flushed if memory == "global" else exact)


def atomic(returns, operation, kind):
    """A kernel of one atomic operation on its parameter's memory."""
    bits = BITS.get(kind) or int(re.sub(r"\D", "", kind))
    register = ".reg .pred" if bits == 1 else f".reg .b{max(bits, 16)}"
    value = "%v" if operation != "cas" else "%v, %v"
    noftz = ".noftz" * (kind in LEGAL[operation] and kind in HALVES)
    instruction = f"atom.global.{operation}{noftz}.{kind} %v, [%p], {value};"
    if not returns:
        instruction = f"red.global.{operation}{noftz}.{kind} [%p], {value};"
    body = f".reg .u64 %p; {register} %v; ld.param.u64 %p, [p]; {instruction} ret;"
    return module(f".visible .entry k(.param .u64 p) {{ {body} }}", "sm_100a")


@pytest.mark.each_value(5)
@pytest.mark.sampled(3)
@pytest.mark.parametrize("returns", [True, False])
@pytest.mark.parametrize("operation", LEGAL)
def test_operations_have_the_types_of_the_isa_alone(operation, returns):
    for kind in KINDS:
        if kind in LEGAL[operation]:
            for pattern in (0x00, 0x7F, 0xFF):
                memory = np.full(64, pattern, np.uint8)
                atomic(returns, operation, kind).launch("k", block=32, args=[memory])
        else:
            with pytest.raises(PtxError, match=rf"\.{operation} isn't defined for \.{kind}, but for \.b?u?"):
                atomic(returns, operation, kind).launch("k", block=32, args=[np.zeros(64, np.uint8)])
