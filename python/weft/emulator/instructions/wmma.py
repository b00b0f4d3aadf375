"""`wmma.load`, `wmma.store` and `wmma.mma`. PTX leaves the layout of fragments open: it is an H200's."""

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import Collective, Table
from weft.emulator.instructions.fragments import Fragment
from weft.emulator.instructions.mma import legal_form
from weft.emulator.memory.segments import Addresses
from weft.emulator.numerics.native_sums import multiply_accumulate
from weft.emulator.reading.syntax import U32, Array, Operand
from weft.emulator.running.lanes import Lanes
from weft.isa import accumulation, wmma
from weft.isa.family import Family, Registers
from weft.isa.mma.modifiers import ROUNDINGS
from weft.isa.types import ELEMENT_TYPES

table = Table()


def _form(op: Op, family: Family[Any]) -> Any:
    """The form of an opcode. nvcc emits m8n8k4 of f64, although the tables have only `mma.sync` for it, whose
    fragments and sums are the same.
    """
    form = family.parse(op.opcode)
    if form is None or form.shape != "m8n8k4" or {*op.opcode.split(".")} & {*ELEMENT_TYPES} != {"f64"}:
        return legal_form(op, (family,))
    op.modifiers.clear()
    return form


def _fragment(op: Op, operand: Operand, registers: Registers, of: str, shape: str, name: str) -> Fragment:
    layout = wmma.h200_layout(shape, of, name)
    return Fragment(op, operand, registers, ELEMENT_TYPES[name].bits, registers.role == "out", layout=layout)


@table.collective("wmma.mma")
def mma(op: Op) -> Collective:
    form = _form(op, wmma.MMA)
    op.count(4)
    types = (form.a_type, form.b_type, form.c_type, form.d_type)
    registers = {r.name: r for r in form.operands}
    d, a, b, c = (
        _fragment(op, op.operand(i), registers[name], name, form.shape, kind)
        for i, (name, kind) in enumerate(zip("dabc", (types[3], *types[:3]), strict=True))
    )
    rule = accumulation.of("wmma", form, op.chip)
    rounding = next((mode for mode in ROUNDINGS if mode in op.opcode.split(".")), "")

    def run(lanes: Lanes) -> None:
        how = rule if lanes.wave.launch.arithmetic == "hardware" else None
        matrices = (a.read(lanes), b.read(lanes), c.read(lanes))
        options = {"satfinite": form.satfinite, "bit_op": form.bit_op, "rounding": rounding}
        result = multiply_accumulate(*matrices, types, how, **options)
        d.write(lanes, result)

    return Collective(run)


@table.collective("wmma.load")
def load(op: Op) -> Collective:
    form = _form(op, wmma.LOAD)
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
    form = _form(op, wmma.STORE)
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
