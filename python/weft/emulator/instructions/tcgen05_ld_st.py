"""`tcgen05.ld`, `ld.red` and `st`: between tensor memory and the registers of a warp.

Warp w of a warpgroup accesses lanes 32 * w to 32 * w + 31, whichever warp's lanes the address names: hardware
ignores these bits, and DeepGEMM's and CUTLASS's kernels give all warps the same address.

The positions of `tcgen05.mma`'s operands in tensor memory (PTX ISA, "Data Path Layout Organization",
"Block Scaling", "Sparse Matrices").

Lanes and columns are those of one CTA; each CTA of a pair has half of the rows.
"""

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import Collective, Table
from weft.emulator.errors import Fault
from weft.emulator.instructions.fragments import fragment_index
from weft.emulator.instructions.mma import legal_form
from weft.emulator.memory.tensor_memory import COLUMN_MASK, Numbers, Touch, check
from weft.emulator.numerics.arithmetic import decode
from weft.emulator.reading.syntax import TYPES, Array
from weft.emulator.running.lanes import Lanes
from weft.emulator.sanitizer.checker import Sanitizer
from weft.emulator.watch import Cells as Rectangle
from weft.emulator.watch import UnitAccess
from weft.isa.family import Registers, ptx_registers
from weft.isa.tcgen05 import copy as tcgen05_copy
from weft.isa.tcgen05.descriptors import BlockScaledDescriptor, InstructionDescriptor
from weft.isa.tcgen05.tensor_layouts import LANE_SHIFT

Descriptor = InstructionDescriptor | BlockScaledDescriptor
_WARP_LANES = 32
"""The lanes of tensor memory that one warp can access."""


@dataclass(frozen=True)
class DataPath:
    """How the rows of one CTA are distributed over the lanes.

    There are `banks`, which divide the columns of D among them; each has all of A. If only `half` of the
    lanes are used, an address may begin at lane 16.
    """

    banks: int
    rows: int
    half: bool

    def bank_lanes(self) -> Numbers:
        """`[banks, rows]`."""
        row, first = np.arange(self.rows), np.arange(self.banks)[:, None] * self.rows
        lanes: Numbers = first + (row % 16 + row // 16 * _WARP_LANES if self.half else row)
        return lanes


@cache
def data_path(m: int, cta_group: int, *, sparse: bool, ws: bool) -> DataPath:
    """The data path of an instruction with this M, which is the pair's if `cta_group` is 2."""
    rows = m // cta_group
    if rows == 128:
        return DataPath(1, rows, half=False)
    if ws or (cta_group == 2 and not sparse):
        return DataPath(128 // rows, rows, half=False)
    return DataPath(1, rows, half=True)


def scale_cells(parts: Numbers, rows: int, first: int, scales: int) -> tuple[Numbers, Numbers, Numbers]:
    """Lane, column and byte of each scale of `rows` rows, `[parts, rows, scales]`, from byte `first` on.

    A word has four scales of a row. The next four follow after as many columns as 128-row tiles take.
    """
    row = np.arange(rows)[:, None]
    byte = first + np.arange(scales)
    lane = parts[:, None, None] * _WARP_LANES + row % _WARP_LANES
    column = row // _WARP_LANES + byte // 4 * (-(-rows // 128) * 4)
    shape = (len(parts), rows, scales)
    return np.broadcast_to(lane, shape), np.broadcast_to(column, shape), np.broadcast_to(byte % 4, shape)


def metadata_cells(lanes: Numbers, chunks: int, kind: str, selector: int) -> tuple[Numbers, Numbers, Numbers]:
    """Lane, column and number of the four bits of each chunk, `[..., chunks]`, for rows at these lanes."""
    lane, chunk = np.broadcast_arrays(lanes[..., None], np.arange(chunks))
    if kind not in ("f16", "tf32"):
        return lane, chunk // 8, chunk % 8
    # Rows i and i + 8 share two lanes: four chunks of both are in one word.
    split = lane // 16 * 16 + lane % 8 + chunk // 4 * 8
    return split, np.full_like(lane, selector), lane % 16 // 8 * 4 + chunk % 4


table = Table()
_SUBPARTITIONS = 4
_HALF = np.uint32(0xFFFF)
_SIGN = np.uint32(1 << 31)
_NAN = np.uint32(0x7FFFFFFF)


class Cells:
    """The cells of tensor memory for each lane's registers, `[warps, 32, elements]`, in register order."""

    def __init__(self, op: Op, form: Any, address: int, data: Registers) -> None:
        shape = data.shape
        held = np.unravel_index(fragment_index(data.layout, shape), shape)
        row, column = (part.reshape(_WARP_LANES, -1) for part in held[-2:])
        self._row: Numbers = row
        self._column: Numbers = column
        self._rows = shape[-2]
        if len(shape) == 3:
            legal = next(o for o in form.operands if o.name == "offset").values
            offset, location = op.immediate(address + 1), op.operand(address + 1).location
            if offset not in legal:
                op.fail(f"the offset must be in {legal[0]}..{legal[-1]}, got {offset}", location)
            self._column = column + held[0].reshape(_WARP_LANES, -1) * offset
        operand = op.address(address, "tensor")
        self._address, self._line = operand, op.line

    def of(self, lanes: Lanes) -> tuple[Numbers, Numbers]:
        """Their lanes and columns. Fault if a warp can't access them."""
        first = self._address(lanes)[:, :1, None].astype(np.intp)
        lane, column = first >> LANE_SHIFT, first & COLUMN_MASK
        inside = lane % _WARP_LANES
        wrong = inside + self._rows > _WARP_LANES
        if wrong.any():
            at = int(wrong.argmax())
            most, last = _WARP_LANES - self._rows, int(inside.flat[at]) + self._rows - 1
            what = (
                f"a warp must access {self._rows} of its own 32 lanes of tensor memory, the first of them "
                f"{'0' if not most else f'in 0..{most}'}, got lanes {int(inside.flat[at])}..{last}"
            )
            thread = lanes.wave.thread(int(lanes.row_numbers()[at]), 0)
            raise Fault(what, self._line, thread, int(first.flat[at]), "tmem-access")
        warp = lanes.wave.warp_of_row[lanes.row_numbers()] % _SUBPARTITIONS
        check(lane, column, self._line)
        lane, column = warp[:, None, None] * _WARP_LANES + inside + self._row, column + self._column
        check(lane, column, self._line)
        return lane, column


def _notify(lanes: Lanes, kind: str, form: Any, lane: Numbers, column: Numbers, line: int) -> None:
    """Reports the cells of each warp to observers; loads of rectangles at once, if nothing is wrong."""
    wave, rows, watch = lanes.wave, lanes.row_numbers(), lanes.wave.watch
    if watch is None:
        return
    unit = "tcgen05.ld" if kind == "load" else "tcgen05.st"
    ctas = wave.cta_of_row[rows]
    cells: list[Any]
    if form.shape == "32x32b" and lanes.mask is None:
        firsts = zip(lane[:, 0, 0].tolist(), column[:, 0, 0].tolist(), strict=True)
        cells = [Rectangle(first, _WARP_LANES, begin, lane.shape[-1]) for first, begin in firsts]
        same: defaultdict[tuple[int, Rectangle], list[int]] = defaultdict(list)
        for at, (warp, each) in enumerate(zip(wave.warp_of_row[rows].tolist(), cells, strict=True)):
            same[warp, each].append(at)
        touches = [Touch(kind, unit, ctas[at], each, rows[at]) for (_, each), at in same.items()]
        if isinstance(watch, Sanitizer) and kind == "load" and watch.tensor.record(touches, line):
            return
    else:
        cells = list((lane << LANE_SHIFT | column).reshape(len(rows), -1))
    for at, (cta, each) in enumerate(zip(ctas.tolist(), cells, strict=True)):
        one = np.zeros((lanes.warps, 32), np.bool_)
        one[at] = lanes.enabled()[at]
        threads = lanes.narrowed(one).threads()
        watch.async_access(UnitAccess(kind, unit, cta, "tensor", each, threads, line))


@table.collective("tcgen05.ld")
def load(op: Op) -> Collective:
    """`tcgen05.ld… {registers}, [address]{, offset}`; with `.red` a reduced value follows the registers."""
    form = legal_form(op, (tcgen05_copy.LD, tcgen05_copy.LD_RED))
    reduces = isinstance(form, tcgen05_copy.LdRed)
    op.count(len(form.operands))
    data, line = form.operands[0], op.line
    cells = Cells(op, form, 2 if reduces else 1, data)
    slots = op.registers(0, TYPES["b32"], ptx_registers(data)[1], writes=True)
    reduced = op.destination(1, TYPES["b32"]) if reduces else 0

    def run(lanes: Lanes) -> None:
        lane, column = cells.of(lanes)
        _notify(lanes, "load", form, lane, column, line)
        ctas = lanes.wave.cta_of_row[lanes.row_numbers()]
        words = lanes.wave.tensor_memory.data[ctas[:, None, None], lane, column]
        if getattr(form, "pack", False):
            words = (words[..., ::2] & _HALF) | words[..., 1::2] << np.uint32(16)
        for at, slot in enumerate(slots):
            lanes.write(slot, np.ascontiguousarray(words[..., at]))
        if reduces:
            lanes.write(reduced, _reduction(words, form))

    return Collective(run)


def _reduction(words: Array, form: tcgen05_copy.LdRed) -> Array:
    """The least or greatest of each lane's registers. NaN is ignored without `.NaN`, and wins with it."""
    choose = np.minimum if form.op == "min" else np.maximum
    if form.type != "f32":
        typed = words.view(np.int32 if form.type == "s32" else np.uint32)
        reduced: Array = choose.reduce(typed, axis=-1)
        return reduced.view(np.uint32)
    if form.abs:
        words = words & ~_SIGN
    # As integers, floats other than NaN are ordered by their values, with -0 below +0.
    unordered = np.isnan(decode(words, "f32"))
    ordered = np.where(words & _SIGN, ~words, words | _SIGN)
    last = np.uint32(0xFFFFFFFF if form.op == "min" else 0)
    best = choose.reduce(np.where(unordered, last, ordered), axis=-1)
    value = np.where(best & _SIGN, best & ~_SIGN, ~best)
    none = unordered.any(axis=-1) if form.nan else unordered.all(axis=-1)
    return np.where(none, _NAN, value)


@table.collective("tcgen05.st")
def store(op: Op) -> Collective:
    """`tcgen05.st… [address]{, offset}, {registers}`."""
    form = legal_form(op, (tcgen05_copy.ST,))
    op.count(len(form.operands))
    data, line = form.operands[-1], op.line
    cells = Cells(op, form, 0, data)
    slots = op.registers(len(op.operands) - 1, TYPES["b32"], ptx_registers(data)[1])

    def run(lanes: Lanes) -> None:
        lane, column = cells.of(lanes)
        _notify(lanes, "store", form, lane, column, line)
        words = np.stack([lanes.read(slot) for slot in slots], axis=-1)
        if form.unpack:
            words = np.stack([words & _HALF, words >> np.uint32(16)], axis=-1).reshape(*words.shape[:2], -1)
        ctas = lanes.wave.cta_of_row[lanes.row_numbers()]
        lanes.wave.tensor_memory.data[ctas[:, None, None], lane, column] = words

    return Collective(run)
