"""Plans as bytes, for another process of the same program."""

import marshal

import numpy as np

from weft.emulator.compiled import driver
from weft.emulator.compiled.pieces import Layout
from weft.emulator.compiled.plan import Plan, link
from weft.emulator.compiled.state import BlockPart, Operand
from weft.emulator.decoding.program import Program


def packed(plan: Plan) -> bytes:
    """A plan that isn't linked, and the code that runs operations."""
    arrays = [array.tobytes() for array in (plan.saved, plan.offsets, plan.table, plan.blocks)]
    layout = plan.layout.offsets, plan.layout.size
    code = plan.functions, plan.code, driver.object_file()
    return marshal.dumps((layout, plan.entries, plan.needs, plan.steps, code, arrays))


def unpacked(program: Program, data: bytes) -> Plan:
    """The plan, linked in this process."""
    layout, entries, needs, steps, (functions, code, generic), arrays = marshal.loads(data)
    saved, offsets, table, blocks = (np.frombuffer(array, np.int64).copy() for array in arrays)
    driver.give(generic)
    return link(
        Plan(
            program,
            Layout(program.slots.bits, *layout),
            entries=entries,
            needs=needs,
            steps=steps,
            functions=functions,
            code=code,
            saved=saved.reshape(-1, 2),
            offsets=offsets,
            table=table.reshape(-1, len(Operand)),
            blocks=blocks.reshape(-1, len(BlockPart)),
        )
    )
