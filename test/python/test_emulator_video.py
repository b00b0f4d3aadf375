"""Selectors and masks of packed video instructions, which name lanes from the highest down."""

import re
from pathlib import Path

import numpy as np
import pytest
from emulator_ptx import kernel, run

from weft import emulator

GPU_RESULTS = Path(__file__).parent / "data" / "h200_video.txt"
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


PARTS = {"b0": 0xFF, "b1": 0xFF00, "b2": 0xFF0000, "b3": 0xFF000000, "h0": 0xFFFF, "h1": 0xFFFF0000}


@pytest.mark.each_value
@pytest.mark.parametrize("saturates", ["", ".sat"])
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    ("name", "kind"), [("vadd", "s32"), ("vsub", "u32"), ("vmax", "s32"), ("vshl", "u32")]
)
def test_a_result_replaces_a_part_of_c(name, kind, part, saturates):
    function = {"vadd": np.add, "vsub": np.subtract, "vmax": np.maximum, "vshl": np.left_shift}[name]
    mode, mask = ".clamp" * (name == "vshl"), PARTS[part]
    bits, shift = (8, 8 * int(part[1])) if part[0] == "b" else (16, 16 * int(part[1]))
    signed = kind == "s32"
    a, b = (x.view(np.int32 if signed else np.uint32).astype(np.int64) for x in (A, B % 16 if mode else B))
    value = function(a, b)
    if saturates:  # shifts have 34 bits before, and 32 after it, as on GPUs
        limited, value = (32, value << 30 >> 30) if mode else (bits, value)
        least = -(1 << limited - 1) if signed else 0
        value = np.clip(value, least, least + (1 << limited) - 1)
    want = C & ~np.uint32(mask) | (value << shift).astype(np.uint32) & np.uint32(mask)
    text = f"{name}.{kind}.{kind}.{kind}{saturates}{mode} %d0.{part}, %a0, %a1, %a2;"
    np.testing.assert_array_equal(run(text, A, B % 16 if mode else B, C, out=np.uint32), want)
    plain = text.replace(f".{part}", "")
    whole = run(plain, A, B % 16 if mode else B, C, out=np.uint32)
    np.testing.assert_array_equal(
        whole, run(plain.replace(", %a2", ""), A, B % 16 if mode else B, out=np.uint32)
    )
    with pytest.raises(emulator.PtxError, match="must write a whole register"):
        run(text.replace(" ", ".max ", 1), A, B, C, out=np.uint32)


@pytest.mark.parametrize(
    ("flag", "operands", "said"),
    [
        (".po", "-%a0, %a0, %a0", "no operand with .po"),
        ("", "-%a0, %a0, -%a0", "either the product or the addend"),
    ],
)
def test_vmad_negates_one_of_them_without_po(flag, operands, said):
    with pytest.raises(emulator.PtxError, match=said):
        run(f"vmad.u32.u32.u32{flag} %d0, {operands};", A, out=np.uint32)


@pytest.mark.parametrize("compiled", [False, True])
def test_results_are_those_of_a_gpu(compiled):
    """Saturation, second operations, sums and averages of an H200: up to two results of each form of which
    every release of ptxas makes something else than PTX says.
    """
    body, wanted = [], []
    lines = GPU_RESULTS.read_text("utf-8").splitlines()
    for number, line in enumerate(lines[:: 5 if compiled else 1]):
        instruction, *values, result = line.rsplit(" ", 4)
        body += [f"mov.b32 %{name}, 0x{value};" for name, value in zip("xyz", values, strict=True)]
        body += [instruction, f"st.global.b32 [%to+{4 * number}], %d;"]
        wanted.append((instruction, result))
    out = np.zeros(len(wanted), np.uint32)
    declare = ".reg .b32 %x, %y, %z, %d; .reg .b64 %to;"
    code = "\n".join(["ld.param.u64 %to, [p_d0];", *body, "ld.global.b32 %d0, [%to];"])
    ptx = kernel(code, [], [out], declare)
    emulator.Module(ptx).launch("k", block=1, args=[out], compiled=compiled)
    assert [(i, f"{int(x):x}") for (i, _), x in zip(wanted, out, strict=True)] == wanted


def test_averages_round_halves_away_from_zero():
    x, y = np.array([3, -3, -1, 1], np.int16), np.array([0, 0, 0, 0], np.int16)
    pair = [v.view(np.uint32) for v in (x, y, y)]
    got = run("vavrg2.s32.s32.s32 %d0, %a0, %a1, %a2;", *pair, out=np.uint32).view(np.int16)
    assert got.tolist() == [2, -2, -1, 1]
