"""`wmma.load`, `wmma.store` and `wmma.mma`. PTX leaves the layout of fragments open: it is an H200's.

wmma in float64, m8n8k4. nvcc still emits it, but the tables have only `mma.sync` for doubles.

The fragments are those of `mma.sync.m8n8k4`, and so are the sums: one fused multiply-add for each k, in
order.
"""

from collections.abc import Callable

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import Collective, Table
from weft.emulator.instructions.fragments import Fragment
from weft.emulator.instructions.memory_ops import state_space
from weft.emulator.instructions.mma import legal_form
from weft.emulator.memory.segments import Addresses
from weft.emulator.numerics.arithmetic import in_mode
from weft.emulator.numerics.floats import fma_f64
from weft.emulator.numerics.native_sums import multiply_accumulate
from weft.emulator.reading.syntax import TYPES, U32, Array, Operand
from weft.emulator.running.lanes import Lanes
from weft.isa import accumulation, wmma
from weft.isa.family import Registers
from weft.isa.types import ELEMENT_TYPES

table = Table()
_LAYOUTS = ("row", "col")
_LANE = np.arange(32)
_ROW, _PART = _LANE // 4, _LANE % 4
# The row and column of each element that a lane has, and the extents of the matrix.
_COORDINATES = {
    "a": ([(_ROW, _PART)], (8, 4)),
    "b": ([(_PART, _ROW)], (4, 8)),
    "c": ([(_ROW, 2 * _PART), (_ROW, 2 * _PART + 1)], (8, 8)),
}
_COORDINATES["d"] = _COORDINATES["c"]
_F64 = TYPES["f64"]


def _opcodes(name: str, fragments: str) -> list[str]:
    return [f"wmma.{name}.{f}.sync.aligned.{layout}.m8n8k4" for f in fragments for layout in _LAYOUTS]


class _Matrix:
    """A matrix in memory: the address of each element that a lane has."""

    def __init__(self, op: Op, at: int) -> None:
        _, _, fragment, _, _, layout, _ = op.prefix.split(".")
        self.coordinates, extents = _COORDINATES[fragment]
        self.across = layout == "row"
        self.dense = extents[1] if self.across else extents[0]
        space = state_space(op)
        op.type("f64")
        op.count(2, 3)
        self.address = op.address(at, space)
        self.stride = op.source(2, U32) if len(op.operands) == 3 else 0

    def addresses(self, lanes: Lanes) -> list[Addresses]:
        """The address and the stride are the same in all lanes: those of the first."""
        base = self.address(lanes)[:, :1].astype(np.int64)
        step = lanes.read(self.stride)[:, :1].astype(np.int64) if self.stride else self.dense
        addresses: list[Addresses] = []
        for row, column in self.coordinates:
            major, minor = (row, column) if self.across else (column, row)
            addresses.append((base + 8 * (major * step + minor)).astype(np.uint64))
        return addresses


@table.collective(*_opcodes("load", "abc"))
def load_f64(op: Op) -> Collective:
    matrix, line = _Matrix(op, 1), op.line
    results = op.registers(0, _F64, len(matrix.coordinates), writes=True)

    def run(lanes: Lanes) -> None:
        for result, addresses in zip(results, matrix.addresses(lanes), strict=True):
            lanes.write(result, lanes.wave.memory.load(lanes, matrix.address.space, addresses, 8, line))

    return Collective(run)


@table.collective(*_opcodes("store", "d"))
def store_f64(op: Op) -> Collective:
    matrix, line = _Matrix(op, 0), op.line
    sources = op.registers(1, _F64, len(matrix.coordinates))

    def run(lanes: Lanes) -> None:
        memory, space = lanes.wave.memory, matrix.address.space
        for source, addresses in zip(sources, matrix.addresses(lanes), strict=True):
            memory.store(lanes, space, addresses, lanes.read(source), 8, line)

    return Collective(run)


@table.collective(*[f"wmma.mma.sync.aligned.{a}.{b}.m8n8k4" for a in _LAYOUTS for b in _LAYOUTS])
def multiply(op: Op) -> Collective:
    mode = op.choice(["rn", "rz", "rm", "rp"], "rn")
    for _ in "dabc":
        op.type("f64")
    op.count(4)
    out = [op.destination(item, _F64) for item in op.items(0)]
    lefts, rights, into = ([op.source(item, _F64) for item in op.items(at)] for at in (1, 2, 3))
    if [len(slots) for slots in (out, lefts, rights, into)] != [2, 1, 1, 2]:
        op.fail("expects two registers for C and for D, and one for A and for B")
    a, b = lefts[0], rights[0]
    fma = fma_f64 if mode == "rn" else in_mode("fma", mode)

    def matrix(lanes: Lanes, slot: int) -> Array:
        return np.ascontiguousarray(lanes.read(slot)).view(np.float64).reshape(-1, 8, 4)

    def run(lanes: Lanes) -> None:
        left, right = matrix(lanes, a), matrix(lanes, b)
        halves = [matrix(lanes, slot) for slot in into]
        for number, slot in enumerate(out):
            total = halves[number]
            for k in range(4):
                x = np.broadcast_to(left[:, :, None, k], total.shape)
                y = np.broadcast_to(right[:, None, number::2, k], total.shape)
                total = fma(np.ascontiguousarray(x), np.ascontiguousarray(y), np.ascontiguousarray(total))
            lanes.write(slot, total.reshape(-1, 32).view(np.uint64))

    return Collective(run)


def _fragment(
    op: Op, operand: Operand, registers: Registers, fragment: str, shape: str, name: str
) -> Fragment:
    layout = wmma.h200_layout(shape, fragment, name)
    return Fragment(op, operand, registers, ELEMENT_TYPES[name].bits, registers.role == "out", layout=layout)


@table.collective("wmma.mma")
def mma(op: Op) -> Collective:
    form = legal_form(op, (wmma.MMA,))
    op.count(4)
    types = (form.a_type, form.b_type, form.c_type, form.d_type)
    registers = {r.name: r for r in form.operands}
    d, a, b, c = (
        _fragment(op, op.operand(i), registers[name], name, form.shape, kind)
        for i, (name, kind) in enumerate(zip("dabc", (types[3], *types[:3]), strict=True))
    )
    rule = accumulation.of("wmma", form, op.chip)

    def run(lanes: Lanes) -> None:
        how = rule if lanes.wave.launch.arithmetic == "hardware" else None
        matrices = (a.read(lanes), b.read(lanes), c.read(lanes))
        result = multiply_accumulate(*matrices, types, how, satfinite=form.satfinite, bit_op=form.bit_op)
        d.write(lanes, result)

    return Collective(run)


@table.collective("wmma.load")
def load(op: Op) -> Collective:
    form = legal_form(op, (wmma.LOAD,))
    op.count(2, 3)
    registers = form.operands[0]
    d = _fragment(op, op.operand(0), registers, form.fragment, form.shape, form.type)
    addresses_of = _addresses(op, 1, form, registers.shape)
    space = op.address(1, form.space or "generic").space
    bits, line = ELEMENT_TYPES[form.type].bits, op.line
    width = (bits + 7) // 8

    def run(lanes: Lanes) -> None:
        addresses, shift = addresses_of(lanes)
        memory, turns = lanes.wave.memory, addresses.reshape(lanes.warps, -1, 32)
        loaded = [memory.load(lanes, space, turns[:, at].copy(), width, line) for at in range(turns.shape[1])]
        elements = np.stack(loaded, axis=1).reshape(lanes.warps, -1)
        if bits < 8:  # separated as in `Fragment`
            elements = (elements >> shift) & np.uint8((1 << bits) - 1)
        d.write(lanes, elements.reshape(lanes.warps, *d.shape))

    return Collective(run)


@table.collective("wmma.store")
def store(op: Op) -> Collective:
    form = legal_form(op, (wmma.STORE,))
    op.count(2, 3)
    registers = form.operands[1]
    d = _fragment(op, op.operand(1), registers, "d", form.shape, form.type)
    addresses_of = _addresses(op, 0, form, registers.shape)
    space = op.address(0, form.space or "generic").space
    width, line = ELEMENT_TYPES[form.type].bits // 8, op.line

    def run(lanes: Lanes) -> None:
        values = d.read(lanes).reshape(lanes.warps, -1, 32)
        addresses = addresses_of(lanes)[0].reshape(lanes.warps, -1, 32)
        for at in range(values.shape[1]):
            lanes.wave.memory.store(lanes, space, addresses[:, at].copy(), values[:, at].copy(), width, line)

    return Collective(run)


def _addresses(
    op: Op, at: int, form: wmma.Load | wmma.Store, shape: tuple[int, ...]
) -> Callable[[Lanes], tuple[Addresses, Array]]:
    """The addresses of a matrix's elements, `[warps, rows * columns]`, in bytes, with the bit in the byte of
    smaller elements.
    """
    base = op.address(at, form.space or "generic")
    stride = op.source(2, U32) if len(op.operands) == 3 else 0
    bits = np.uint64(ELEMENT_TYPES[form.type].bits)
    row, column = (index.reshape(-1).astype(np.uint64) for index in np.indices(shape))
    major, minor = (row, column) if form.layout == "row" else (column, row)
    dense = np.uint64(shape[1] if form.layout == "row" else shape[0])

    def addresses_of(lanes: Lanes) -> tuple[Addresses, Array]:
        # The address and the stride are the same in all lanes: those of the first.
        step = lanes.read(stride)[:, :1].astype(np.uint64) if stride else dense
        bit = (major * step + minor) * bits
        return base(lanes)[:, :1] + (bit >> np.uint64(3)), (bit & np.uint64(7)).astype(np.uint8)

    return addresses_of
