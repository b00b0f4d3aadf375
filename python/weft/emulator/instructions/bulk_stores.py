"""`st.bulk`: fills shared memory with zeros."""

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import Step, Table
from weft.emulator.instructions.bulk import fault
from weft.emulator.reading.syntax import Integer, Name
from weft.emulator.reading.types import STORAGE, U32, U64
from weft.emulator.running.lanes import Lanes
from weft.isa import bulk_stores as isa

table = Table()
_WIDE = 16
"""The most bytes of one access."""


@table.step("st.bulk")
def st_bulk(op: Op) -> Step:
    """`st.bulk{.weak}{.shared::cta} [to], bytes, 0`: each thread fills its own bytes."""
    op.flag("weak")
    space = "shared" if op.flag("shared::cta") else "generic"
    op.count(3)
    address = op.address(0, space)
    size = op.operand(1)
    if isinstance(size, Integer) and (complaint := _complaint(size.value)):
        op.fail(complaint, size.location)
    narrow = isinstance(size, Name) and op.register_type(size, U64).bits == 32
    count, line = op.source(1, U32 if narrow else U64), op.line
    value = op.operand(2)
    if not isinstance(value, Integer) or value.value != isa.VALUE:
        op.fail(f"the value must be the constant {isa.VALUE}", value.location)

    def run(lanes: Lanes) -> None:
        memory = lanes.wave.memory
        sizes, begins = lanes.read(count), address(lanes)
        for one, at, _ in lanes.singles():
            size, begin = int(sizes[at]), int(begins[at])
            if complaint := _complaint(size):
                raise fault(one, f"{op.opcode}: {complaint}", line, begin, "misaligned")
            # Memory outside of shared memory is a fault, in the generic space, too.
            memory.shared_offsets(one, address.space, begins, isa.STEP, line)
            offset = 0
            while offset < size:
                width = _WIDE if size - offset >= _WIDE and (begin + offset) % _WIDE == 0 else isa.STEP
                zeros = np.zeros(begins.shape, STORAGE[8 * width])
                memory.store(one, address.space, begins + np.uint64(offset), zeros, width, line)
                offset += width

    return run


def _complaint(size: int) -> str | None:
    """Why so many bytes can't be filled; None if they can."""
    if size % isa.STEP or not 0 <= size <= isa.MOST_BYTES:
        nearest = min(max(size + isa.STEP // 2, 0) // isa.STEP * isa.STEP, isa.MOST_BYTES)
        return (
            f"the number of bytes must be a multiple of {isa.STEP} in 0..{isa.MOST_BYTES}, got {size}; "
            f"the nearest is {nearest}"
        )
    return None
