"""`mma.sync` and the moves of its 8x8 matrices; forms and fragments are those of `weft.isa`."""

from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt

from weft.emulator.arithmetic import multiply_accumulate, unit
from weft.emulator.decode import Op
from weft.emulator.instructions.memory_ops import state_space
from weft.emulator.lanes import Lanes
from weft.emulator.steps import compute
from weft.emulator.syntax import Operand
from weft.emulator.table import Collective, Table
from weft.emulator.types import STORAGE, TYPES, U32, Array
from weft.isa import mma
from weft.isa.chips import CHIPS
from weft.isa.family import Registers
from weft.isa.types import ELEMENT_TYPES
from weft.layout import Layout

table = Table()
Index = npt.NDArray[np.intp]
_ROW = 16
_MATRIX = (8, 8)
_SUMMED = ("f16", "bf16")


@cache
def fragment_index(layout: str, shape: tuple[int, ...]) -> Index:
    """The row-major matrix index of every element that the lanes hold, lane after lane in register order."""
    parsed = Layout.parse(layout)
    held = [parsed.lane_elements(lane, shape) for lane in range(32)]
    return np.array([np.ravel_multi_index(at, shape) for lane in held for at in lane], np.intp)


@cache
def matrix_index(layout: str, shape: tuple[int, ...]) -> Index:
    """Where the lanes hold each element, in row-major order: the inverse of `fragment_index`."""
    return np.argsort(fragment_index(layout, shape), kind="stable")


class Fragment:
    """One operand of a matrix instruction: its registers, which spell a matrix of elements of `bits`."""

    def __init__(self, op: Op, operand: Operand, registers: Registers, bits: int, writes: bool) -> None:
        items = op.items(operand)
        kind = TYPES["f32"]
        if len(items) != registers.count:
            op.fail(
                f"expects {registers.count} {registers.name.upper()} registers, got {len(items)}",
                operand.place,
            )
        get = op.destination if writes else op.source
        self.slots = [get(item, kind) for item in items]
        self.shape = registers.shape
        self.held = fragment_index(registers.layout, registers.shape)
        self.order = matrix_index(registers.layout, registers.shape)
        self.storage = STORAGE[bits]

    def read(self, lanes: Lanes) -> Array:
        """The matrices of all warps, `[warps, rows, columns]`, as bits."""
        stacked = np.stack([lanes.read(slot) for slot in self.slots], axis=-1)
        flat = stacked.reshape(lanes.warps, -1).view(self.storage)
        return flat.take(self.order, axis=1).reshape(lanes.warps, *self.shape)

    def write(self, lanes: Lanes, matrix: Array) -> None:
        """Hands the elements of `[warps, rows, columns]` bits out to the registers."""
        flat = matrix.reshape(lanes.warps, -1).take(self.held, axis=1)
        words = flat.view(np.uint32).reshape(lanes.warps, 32, len(self.slots))
        for at, slot in enumerate(self.slots):
            lanes.write(slot, np.ascontiguousarray(words[..., at]))


@table.collective("mma")
def mma_sync(op: Op) -> Collective:
    form = mma.parse_sync(op.opcode)
    if form is None:
        op.fail("unsupported form")
    verdict = mma.SYNC.judge(form, _chip(op))
    if verdict is not None:
        op.fail(str(verdict))
    if (form.c_type, form.d_type) != ("f32", "f32") or form.a_type not in _SUMMED or form.shape == "m8n8k4":
        op.fail("isn't emulated")
    op.modifiers.clear()
    op.count(4)
    types = (form.a_type, form.b_type, form.c_type, form.d_type)
    bits = [ELEMENT_TYPES[t].bits for t in (form.d_type, form.a_type, form.b_type, form.c_type)]
    d, a, b, c = (
        Fragment(op, op.operand(i), registers, width, writes=i == 0)
        for i, (registers, width) in enumerate(zip(form.operands, bits, strict=True))
    )
    hardware = unit(op.target)

    def run(lanes: Lanes) -> None:
        how = hardware if lanes.wave.launch.arithmetic == "hardware" else None
        d.write(lanes, multiply_accumulate(a.read(lanes), b.read(lanes), c.read(lanes), types, how))

    return Collective(run)


def _chip(op: Op) -> str | None:
    return op.target if op.target in CHIPS else None


@table.collective("ldmatrix")
def ldmatrix(op: Op) -> Collective:
    form = mma.parse_ldmatrix(op.opcode)
    if form is None:
        op.fail("unsupported form")
    verdict = mma.LDMATRIX.judge(form, _chip(op))
    if verdict is not None:
        op.fail(str(verdict))
    if form.shape != "m8n8":
        op.fail("isn't emulated")
    op.modifiers.clear()
    op.count(2)
    address, line = op.address(1, form.space), op.line
    slots = _registers(op, op.operand(0), form.num, writes=True)
    held = fragment_index(replace(form, num=1).operands[0].layout, _MATRIX)
    in_order = np.array_equal(held, np.arange(64))
    used = np.arange(32) < 8 * form.num

    def run(lanes: Lanes) -> None:
        reading = lanes if form.num == 4 else lanes.narrowed(lanes.enabled() & used)
        rows = lanes.wave.memory.load(reading, address.space, address(lanes), _ROW, line)
        if not in_order:
            elements = rows.view(np.uint16).reshape(lanes.warps, 4, 64)
            rows = elements.take(held, axis=2)
        words = rows.view(np.uint32).reshape(lanes.warps, 4, 32)
        for at, slot in enumerate(slots):
            lanes.write(slot, words[:, at].copy())

    return Collective(run)


def _registers(op: Op, operand: Operand, count: int, writes: bool) -> list[int]:
    items = op.items(operand)
    if len(items) != count:
        op.fail(f"expects {count} registers, got {len(items)}", operand.place)
    get = op.destination if writes else op.source
    return [get(item, U32) for item in items]


@table.collective("stmatrix")
def stmatrix(op: Op) -> Collective:
    """The way back from `ldmatrix`, with the same fragments."""
    op.flag("sync", "aligned")
    shape = op.choice(["m8n8"])
    count = int(op.choice(["x1", "x2", "x4"])[1:])
    trans = op.flag("trans")
    space = state_space(op)
    op.choice(["b16"])
    op.count(2)
    address, line = op.address(0, space), op.line
    slots = _registers(op, op.operand(1), count, writes=False)
    layout = mma.Ldmatrix(shape, 1, trans).operands[0].layout
    order = matrix_index(layout, _MATRIX)
    used = np.arange(32) < 8 * count

    def run(lanes: Lanes) -> None:
        words = np.zeros((lanes.warps, 4, 32), np.uint32)
        for at, slot in enumerate(slots):
            words[:, at] = lanes.read(slot)
        elements = words.view(np.uint16).reshape(lanes.warps, 4, 64).take(order, axis=2)
        rows = elements.reshape(lanes.warps, 32, 8).view(STORAGE[128])[..., 0]
        writing = lanes if count == 4 else lanes.narrowed(lanes.enabled() & used)
        lanes.wave.memory.store(writing, address.space, address(lanes), rows, _ROW, line)

    return Collective(run)


@table.collective("movmatrix")
def movmatrix(op: Op) -> Collective:
    """Transposes the 8x8 matrix that the lanes hold."""
    op.flag("sync", "aligned")
    shape = op.choice(["m8n8"])
    op.choice(["trans"])
    op.choice(["b16"])
    op.count(2)
    plain, transposed = (mma.Ldmatrix(shape, 1, trans).operands[0].layout for trans in (False, True))
    order = matrix_index(plain, _MATRIX)[fragment_index(transposed, _MATRIX)]

    def function(words: Array) -> Array:
        return words.view(np.uint16).take(order, axis=1).view(np.uint32)

    return Collective(compute(op.destination(0, U32), function, op.source(1, U32)))
