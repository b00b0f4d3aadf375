"""Local memory that a thread allocates while it runs: alloca, stacksave and stackrestore."""

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import Step, Table
from weft.emulator.memory.segments import STACK
from weft.emulator.running.lanes import Lanes

table = Table()


@table.step("alloca")
def alloca(op: Op) -> Step:
    """`alloca d, size{, alignment}`: the local address of `size` new bytes."""
    kind = op.type("u32 u64")
    op.count(2, 3)
    align = op.immediate(2) if len(op.operands) == 3 else 8
    if align < 1 or align & (align - 1) or align > 4096:
        op.fail(f"the alignment must be a power of two in 1..4096, got {align}")
    result, size, line = op.destination(0, kind), op.source(1, kind), op.line

    def run(lanes: Lanes) -> None:
        sizes = lanes.read(size).astype(np.uint64)
        addresses = lanes.wave.memory.allocate_local(lanes, sizes, align, line)
        lanes.write(result, addresses.astype(kind.storage))

    return run


@table.step("stacksave")
def stacksave(op: Op) -> Step:
    kind = op.type("u32 u64")
    op.count(1)
    result = op.destination(0, kind)

    def run(lanes: Lanes) -> None:
        top = lanes.chosen(lanes.wave.memory.stack_top)
        lanes.write(result, (top + np.uint64(STACK)).astype(kind.storage))

    return run


@table.step("stackrestore")
def stackrestore(op: Op) -> Step:
    """Frees what was allocated since `stacksave`."""
    kind = op.type("u32 u64")
    op.count(1)
    source = op.source(0, kind)

    def run(lanes: Lanes) -> None:
        memory, threads = lanes.wave.memory, lanes.threads()
        saved = np.zeros(threads.shape, np.uint64)
        saved[lanes.row_numbers()] = lanes.read(source).astype(np.uint64) - np.uint64(STACK)
        memory.stack_top = np.where(threads & (saved < memory.stack_top), saved, memory.stack_top)

    return run
