"""`tcgen05.mma` in all its forms."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import Step, Table
from weft.emulator.instructions.mma import legal_form
from weft.emulator.instructions.tcgen05_code import Quick
from weft.emulator.instructions.tcgen05_matrices import Product
from weft.emulator.instructions.tcgen05_order import pair_of
from weft.emulator.reading.syntax import U32, U64, Address, Array, Vector
from weft.emulator.running.lanes import Lanes
from weft.isa.tcgen05 import mma_rows as tcgen05_mma
from weft.isa.tcgen05.descriptors import KINDS

table = Table()


@table.step("tcgen05.mma")
def mma(op: Op) -> Step:
    """`tcgen05.mma… [d], a, b, …`: the operands are those of the form's table, in PTX's order."""
    form = legal_form(op, tcgen05_mma.FAMILIES, tuple(map(_spelled, op.operands)))
    if form.kind not in KINDS or getattr(form, "decompress", None):
        op.fail("isn't emulated: sm_107's own forms have descriptors of their own")
    op.count(len(form.operands))
    readers, slots, line = dict[str, Callable[[Lanes], Array]](), list[int](), op.line
    for index, operand in enumerate(form.operands):
        readers[operand.name], registers = _reader(op, index, operand)
        slots += registers
    constants = set(op.slots.constants.values())
    slots = [slot for slot in slots if slot not in constants]

    def read(lanes: Lanes) -> dict[str, Array]:
        return {name: reader(lanes) for name, reader in readers.items()}

    def product(lanes: Lanes, at: tuple[int, int], row: int, values: dict[str, Array]) -> Product:
        operands = {name: value[at] for name, value in values.items()}
        pair = pair_of(lanes, int(lanes.wave.cta_of_row[row]), form.cta_group, line)
        return Product(lanes.single(at), form, operands, pair, line, op.chip)

    quick = Quick(product, line)

    def run(lanes: Lanes) -> None:
        regs = lanes.regs
        threads = [(at, (row, *[regs[s].item(row, at[1]) for s in slots])) for at, row in lanes.places()]
        if quick.run(lanes, threads, lambda: read(lanes)):
            return
        values = read(lanes)
        for at, held in threads:
            if len(threads) == 1 or not quick.run(lanes, [(at, held)], lambda: values):
                product(lanes, at, held[0], values).run()

    return run


def _spelled(operand: object) -> str:
    """The part of an operand's text that distinguishes forms."""
    if isinstance(operand, Vector):
        return "{" + "," * (len(operand.items) - 1) + "}"
    return "[" if isinstance(operand, Address) else ""


def _reader(op: Op, index: int, operand: Any) -> tuple[Callable[[Lanes], Array], Sequence[int]]:
    """How to read an operand of all lanes, and the registers that have it; lists have a last axis."""
    if isinstance(op.operand(index), Address):
        address = op.address(index, "tensor")
        return address, (address.base, address.offset) if address.offset else (address.base,)
    if operand.role == "immediate":
        value = op.immediate(index)
        if value not in operand.values:
            last = operand.values[-1]
            op.fail(f"{operand.name} must be in 0..{last}, got {value}", op.operand(index).location)
        return lambda lanes: np.full((lanes.warps, 32), value), ()
    if operand.type == "i1":
        slot, negated = op.predicate(index)
        return lambda lanes: lanes.read(slot) ^ negated, (slot,)
    if operand.name == "disable_output_lane":
        slots = [op.source(item, U32) for item in op.items(index)]
        return lambda lanes: np.stack([lanes.read(slot) for slot in slots], axis=-1), slots
    wide = op.source(index, U64 if operand.type == "i64" else U32)
    return lambda lanes: lanes.read(wide), (wide,)
