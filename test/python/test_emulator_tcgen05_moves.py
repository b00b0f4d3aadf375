"""`tcgen05.ld` and `st` against the figures of the PTX ISA, lane by lane."""

import emulator_tensor as tensor
import numpy as np
import pytest

from weft import emulator
from weft.isa.tcgen05 import copy as tcgen05_copy

RNG = np.random.default_rng(3)
PER_COUNT = {"16x64b": 1, "16x128b": 2, "16x256b": 4, "32x32b": 1, "16x32bx2": 1}
SPLIT = 256


def place(shape, lane, register):
    """Row and column of what register `register` of a lane holds."""
    if shape == "32x32b":
        return lane, register
    if shape == "16x32bx2":
        return lane % 16, register + SPLIT * (lane // 16)
    if shape == "16x64b":
        # Two rows of lanes share four lanes: the even ones have rows 0 to 7, the odd ones rows 8 to 15.
        return lane // 4 + 8 * (lane & 1), 2 * register + (lane >> 1 & 1)
    if shape == "16x128b":
        return lane // 4 + 8 * (register & 1), 4 * (register // 2) + lane % 4
    return lane // 4 + 8 * (register >> 1 & 1), 8 * (register // 4) + 2 * (lane % 4) + (register & 1)


def places(shape, registers, half, half_row=0):
    """For each register and thread, the lane of tensor memory and the (first) column."""
    thread = np.arange(128)
    row, column = np.zeros((registers, 128), int), np.zeros((registers, 128), int)
    for n in range(registers):
        for t in thread:
            r, c = place(shape, t % 32, n)
            split = SPLIT * (t % 32 // 16) if shape == "16x32bx2" else 0
            row[n, t], column[n, t] = 32 * (t // 32) + half_row + r, (c - split) * half + split
    return row, column


FORMS = [
    (shape, num, packed)
    for shape, per in PER_COUNT.items()
    for num in (1, 2, 4, 8, 16, 32, 64, 128)
    for packed in (False, True)
    if per * num <= 128
]


def test_these_are_all_forms():
    for family in (tcgen05_copy.LD, tcgen05_copy.ST):
        assert len(FORMS) == len(list(family.forms("sm_100a")))


@pytest.mark.each_value(3)
@pytest.mark.sampled(20)
@pytest.mark.parametrize(("shape", "num", "packed"), FORMS)
def test_load(shape, num, packed):
    count = PER_COUNT[shape] * num
    first = 0 if count * (2 if packed else 1) > 120 else 3
    start = 16 if shape.startswith("16") and num % 2 else 0
    memory, out = tensor.words(RNG, (512, 128)), np.zeros((count, 128), np.uint32)
    offset = f", {SPLIT}" if shape == "16x32bx2" else ""
    pack = ".pack::16b" if packed else ""
    body = f"""
      {tensor.cells(0, 512, "data")}
      add.u32 %r299, %t, %b; add.u32 %r299, %r299, {(start << 16) + first};
      tcgen05.ld.sync.aligned.{shape}.x{num}{pack}.b32 {tensor.registers(count)}, [%r299]{offset};
      tcgen05.wait::ld.sync.aligned;
      {tensor.thread_words(count, "out", load=False)}"""
    tensor.launch(body, {"data": memory, "out": out})
    row, column = places(shape, count, 2 if packed else 1, start)
    expected = memory[column + first, row]
    if packed:
        expected = (expected & 0xFFFF) | memory[column + first + 1, row] << 16
    np.testing.assert_array_equal(out, expected)


@pytest.mark.each_value(1)
@pytest.mark.sampled(40)
@pytest.mark.parametrize(("shape", "num", "packed"), FORMS)
def test_store(shape, num, packed):
    count = PER_COUNT[shape] * num
    first = 0 if count * (2 if packed else 1) > 120 else 5
    memory, out = tensor.words(RNG, (512, 128)), np.zeros((512, 128), np.uint32)
    data = tensor.words(RNG, (count, 128))
    offset = f", {SPLIT}" if shape == "16x32bx2" else ""
    unpack = ".unpack::16b" if packed else ""
    body = f"""
      {tensor.cells(0, 512, "memory")}
      {tensor.thread_words(count, "data")}
      add.u32 %r299, %t, %b; add.u32 %r299, %r299, {first};
      tcgen05.st.sync.aligned.{shape}.x{num}{unpack}.b32 [%r299]{offset}, {tensor.registers(count)};
      tcgen05.wait::st.sync.aligned;
      {tensor.cells(0, 512, "out", load=False)}"""
    tensor.launch(body, {"memory": memory, "data": data, "out": out})
    expected = memory.copy()
    row, column = places(shape, count, 2 if packed else 1)
    expected[column + first, row] = data & 0xFFFF if packed else data
    if packed:
        expected[column + first + 1, row] = data >> 16
    np.testing.assert_array_equal(out, expected)


def test_a_store_unpacks_the_halves_of_its_registers():
    data, out = tensor.words(RNG, (2, 128)), np.zeros((4, 128), np.uint32)
    body = f"""
      {tensor.thread_words(2, "data")}
      add.u32 %r299, %t, %b;
      tcgen05.st.sync.aligned.32x32b.x2.unpack::16b.b32 [%r299], {tensor.registers(2)};
      tcgen05.wait::st.sync.aligned;
      {tensor.cells(0, 4, "out", load=False)}"""
    tensor.launch(body, {"data": data, "out": out})
    np.testing.assert_array_equal(out, np.stack([data & 0xFFFF, data >> 16], axis=1).reshape(4, 128))


REDUCTIONS = [
    (shape, op, kind, absolute, nan)
    for shape in ("32x32b", "16x32bx2")
    for op in ("min", "max")
    for kind in ("u32", "s32", "f32")
    for absolute in (False, True)
    for nan in (False, True)
    if kind == "f32" or not (absolute or nan)
]


@pytest.mark.sampled(16)
@pytest.mark.parametrize(("shape", "op", "kind", "absolute", "nan"), REDUCTIONS)
@pytest.mark.parametrize("num", [2, 128])
def test_load_and_reduce(shape, op, kind, absolute, nan, num):
    if kind == "f32":
        values = RNG.standard_normal((512, 128)).astype(np.float32)
        values[RNG.random((512, 128)) < 0.02] = np.nan
        values[:, 5], values[:, 6] = np.nan, -0.0
        values[3:6, 6] = 0
        memory = values.view(np.uint32)
    else:
        memory = tensor.words(RNG, (512, 128))
    out = np.zeros((num + 1, 128), np.uint32)
    flags = (".abs" if absolute else "") + (".NaN" if nan else "")
    offset = f", {SPLIT}" if shape == "16x32bx2" else ""
    body = f"""
      {tensor.cells(0, 512, "data")}
      add.u32 %r299, %t, %b;
      tcgen05.ld.red.sync.aligned.{shape}.x{num}.{op}{flags}.{kind}
        {tensor.registers(num)}, %r{num}, [%r299]{offset};
      tcgen05.wait::ld.sync.aligned;
      {tensor.thread_words(num + 1, "out", load=False)}"""
    tensor.launch(body, {"data": memory, "out": out}, target="sm_103a")
    row, column = places(shape, num, 1)
    held = memory[column, row]
    np.testing.assert_array_equal(out[:num], held)
    if kind != "f32":
        typed = held.view(np.int32) if kind == "s32" else held
        np.testing.assert_array_equal(out[num].view(typed.dtype), getattr(np, op)(typed, axis=0))
        return
    typed = np.abs(held.view(np.float32)) if absolute else held.view(np.float32)
    with np.errstate(invalid="ignore"):
        plain = {"min": np.fmin, "max": np.fmax} if not nan else {"min": np.minimum, "max": np.maximum}
        expected = plain[op].reduce(typed, axis=0)
    found = out[num].view(np.float32)
    np.testing.assert_array_equal(found, expected)
    assert (out[num][np.isnan(found)] == 0x7FFFFFFF).all()


@pytest.mark.each_value
@pytest.mark.parametrize("named", [0, 32, 96])
@pytest.mark.parametrize("shape", PER_COUNT)
def test_a_warp_takes_its_own_lanes_whatever_the_address_says(shape, named):
    """All warps have the address of one warp's lanes, the second half of them where these are 16."""
    start, count = 16 * shape.startswith("16"), 2 * PER_COUNT[shape]
    memory = tensor.words(RNG, (512, 128))
    found, out = np.zeros((count, 128), np.uint32), np.zeros((512, 128), np.uint32)
    offset = f", {SPLIT}" if shape == "16x32bx2" else ""
    body = f"""
      {tensor.cells(0, 512, "data")}
      add.u32 %r299, %t, {named + start << 16};
      tcgen05.ld.sync.aligned.{shape}.x2.b32 {tensor.registers(count)}, [%r299]{offset};
      tcgen05.wait::ld.sync.aligned;
      {tensor.thread_words(count, "found", load=False)}
      add.u32 %r299, %r299, 8;
      tcgen05.st.sync.aligned.{shape}.x2.b32 [%r299]{offset}, {tensor.registers(count)};
      tcgen05.wait::st.sync.aligned;
      {tensor.cells(0, 512, "out", load=False)}"""
    tensor.launch(body, {"data": memory, "found": found, "out": out})
    row, column = places(shape, count, 1, start)
    np.testing.assert_array_equal(found, memory[column, row])
    expected = memory.copy()
    expected[column + 8, row] = found
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(("shape", "rows", "lane"), [("32x32b", 32, 16), ("16x64b", 16, 20)])
def test_a_warp_reaches_its_own_lanes_only(shape, rows, lane):
    body = f"""
      mov.u32 %r0, 1; add.u32 %r299, %t, {lane << 16};
      tcgen05.st.sync.aligned.{shape}.x1.b32 [%r299], {{%r0}};"""
    legal = "0" if rows == 32 else r"in 0\.\.16"
    match = rf"must access {rows} of its own 32 lanes .*, the first of them {legal}, got lanes {lane}\.\."
    with pytest.raises(emulator.Fault, match=match):
        tensor.launch(body, {})


def test_columns_end():
    body = """
      mov.u32 %r0, 1; add.u32 %r299, %b, 511;
      tcgen05.st.sync.aligned.32x32b.x2.b32 [%r299], {%r0, %r0};"""
    with pytest.raises(emulator.Fault, match=r"lanes 0\.\.127 and columns 0\.\.511, got lane 0, column 512"):
        tensor.launch(body, {})
