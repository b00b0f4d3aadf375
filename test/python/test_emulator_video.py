"""Selectors and masks of packed video instructions, which name lanes from the highest down."""

import itertools
import re

import numpy as np
import pytest
from emulator_ptx import run

from weft import emulator

A, B, C = np.random.default_rng(1).integers(0, 1 << 32, (3, 32), np.uint32)


@pytest.mark.parametrize(
    ("lanes", "operands", "said"),
    [
        (4, "%d0, %a0.b012, %a0, %a0", "a selector must name 4 lanes of 0..7, got 012"),
        (4, "%d0, %a0, %a0.b01234, %a0", "a selector must name 4 lanes of 0..7, got 01234"),
        (4, "%d0, %a0, %a0.h0123, %a0", "h0123"),
        (4, "%d0.b02, %a0, %a0, %a0", "a mask must name lanes of 0..3, the highest first, got 02"),
        (4, "%d0.b11, %a0, %a0, %a0", "a mask must name lanes of 0..3, the highest first, got 11"),
        (4, "%d0.b4, %a0, %a0, %a0", "a mask must name lanes of 0..3, the highest first, got 4"),
        (4, "%d0, %a0, %a0", "operands"),
        (2, "%d0, %a0.h04, %a0, %a0", "a selector must name 2 lanes of 0..3, got 04"),
        (2, "%d0, %a0, %a0.h012, %a0", "a selector must name 2 lanes of 0..3, got 012"),
        (2, "%d0, %a0.b01, %a0, %a0", "b01"),
        (2, "%d0.h01, %a0, %a0, %a0", "a mask must name lanes of 0..1, the highest first, got 01"),
        (2, "%d0.h2, %a0, %a0, %a0", "a mask must name lanes of 0..1, the highest first, got 2"),
    ],
)
def test_what_ptxas_refuses_is_refused(lanes, operands, said):
    run(f"vadd{lanes}.u32.u32.u32 %d0, %a0, %a0, %a0;", A, out=np.uint32)
    with pytest.raises(emulator.PtxError, match=re.escape(said)):
        run(f"vadd{lanes}.u32.u32.u32 {operands};", A, out=np.uint32)


@pytest.mark.parametrize(
    ("lanes", "first", "second", "mask"),
    [(4, "7045", "0123", "31"), (4, "3210", "7654", "3210"), (2, "13", "02", "0"), (2, "10", "32", "1")],
)
def test_lanes_come_from_either_source_and_go_where_the_mask_has_them(lanes, first, second, mask):
    letter, kind = {2: ("h", np.uint16), 4: ("b", np.uint8)}[lanes]
    operands = f"%d0.{letter}{mask}, %a0.{letter}{first}, %a1.{letter}{second}, %a2"
    got = run(f"vadd{lanes}.u32.u32.u32 {operands};", A, B, C, out=np.uint32).view(kind).reshape(32, lanes)
    both = np.concatenate([x.view(kind).reshape(32, lanes) for x in (A, B)], axis=1)
    want = C.view(kind).reshape(32, lanes).copy()
    for lane in map(int, mask):
        want[:, lane] = both[:, int(first[-1 - lane])] + both[:, int(second[-1 - lane])]
    assert (got == want).all()


@pytest.mark.each_value(43)
@pytest.mark.parametrize("down", ["", ".shr7", ".shr15"])
@pytest.mark.parametrize("plus", ["", ".po"])
@pytest.mark.parametrize("kinds", list(itertools.product(("u32", "s32"), repeat=3)), ids=".".join)
def test_vmad_has_the_sign_of_its_factors(kinds, plus, down):
    signed = "s32" in kinds[1:]
    a, b = (
        x.view(np.int32 if kind == "s32" else x.dtype).tolist()
        for x, kind in zip((A, B), kinds[1:], strict=True)
    )
    c = C.view(np.int32 if signed else C.dtype).tolist()
    wide = [x * y + z + len(plus) // 3 >> int(down[4:] or 0) for x, y, z in zip(a, b, c, strict=True)]
    low, high = (-(1 << 31), (1 << 31) - 1) if signed else (0, (1 << 32) - 1)
    for mode, want in (("", wide), (".sat", [min(max(v, low), high) for v in wide])):
        body = f"vmad.{'.'.join(kinds)}{plus}{mode}{down} %d0, %a0, %a1, %a2;"
        assert run(body, A, B, C, out=np.uint32).tolist() == [v & 0xFFFFFFFF for v in want]
