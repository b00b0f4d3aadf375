"""`cp.async`: copies from global to shared memory that become visible when a thread has waited for them."""

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import Step, Table
from weft.emulator.errors import Fault
from weft.emulator.instructions.mbarrier import BarrierOperand
from weft.emulator.memory.mbarrier import COMMIT
from weft.emulator.memory.segments import Addresses, Copy
from weft.emulator.reading.syntax import STORAGE, U32, Array, Bools
from weft.emulator.running.lanes import Lanes

table = Table()


@table.step("cp.async")
def cp_async(op: Op) -> Step:
    """`cp.async.ca|cg.shared.global [to], [from], size{, source size | ignore-src}{, cache policy}`."""
    cached = op.choice(["ca", "cg"])
    op.choice(["shared", "shared::cta"])
    op.choice(["global"])
    hinted = op.flag("L2::cache_hint")
    op.flag("L2::64B", "L2::128B", "L2::256B")
    op.count(3, 5)
    size = op.immediate(2)
    if size not in ((16,) if cached == "cg" else (4, 8, 16)):
        op.fail(f"can't copy {size} bytes")
    target, source, line = op.address(0, "shared"), op.address(1, "global"), op.line
    extra = len(op.operands) - 3 - hinted
    if extra not in (0, 1):
        op.fail(f"expects {3 + hinted} or {4 + hinted} operands, got {len(op.operands)}")
    limit, ignore = 0, (0, False)
    if extra:
        operand = op.operand(3)
        if op.register_type(operand, U32).bits == 1:
            ignore = op.predicate(operand)
        else:
            limit = op.source(operand, U32)

    def wanted(lanes: Lanes) -> Array:
        """The number of bytes that each lane reads; the others are filled with zeros."""
        if limit:
            read = lanes.read(limit)
            wrong: Bools = lanes.enabled() & (read > size)
            if wrong.any():  # which is undefined in PTX
                what = f"cp.async of {size} bytes must read at most {size}, got {int(read[wrong][0])}"
                raise Fault(what, line, lanes.first(wrong))
            return read
        return np.where(lanes.read(ignore[0]) ^ ignore[1], np.uint32(0), np.uint32(size))

    def run(lanes: Lanes) -> None:
        memory = lanes.wave.memory
        pieces = memory.locate(lanes, "shared", target(lanes), size, "async", line)
        memory.by_unit = True
        try:
            if limit or ignore[0]:
                value = _filled(lanes, source(lanes), wanted(lanes), size, line)
            else:
                value = memory.load(lanes, "global", source(lanes), size, line)
        finally:
            memory.by_unit = False
        group = np.zeros((lanes.wave.warps, 32), np.int64)
        lanes.wave.copies.copies.append(Copy(lanes.threads(), lanes.row_numbers(), pieces, value, group))

    return run


@table.step("cp.async.mbarrier.arrive")
def mbarrier_arrive(op: Op) -> Step:
    """`cp.async.mbarrier.arrive{.noinc}{.shared}.b64 [barrier]`: arrives when all copies so far are complete.

    Without `.noinc` the phase first expects one more arrival, so that the arrival changes nothing on balance.
    """
    counted = not op.flag("noinc")
    space = "shared" if op.flag("shared", "shared::cta") else "generic"
    op.type("b64")
    op.count(1)
    barrier, line = BarrierOperand(op, 0, space), op.line

    def run(lanes: Lanes) -> None:
        mbarriers = lanes.wave.mbarriers
        for cta, offset, mask in barrier.targets(lanes):
            threads = lanes.narrowed(mask).threads()
            count = int(np.count_nonzero(mask))
            if counted:
                mbarriers.expect_arrivals(cta, offset, count, line)

            def finish(
                cta: int = cta, offset: int = offset, threads: Bools = threads, count: int = count
            ) -> None:
                lanes.wave.copies.wait(threads, None)
                for _ in range(count):
                    mbarriers.arrive(cta, offset, line, COMMIT, threads=threads)

            lanes.wave.later(finish)

    return run


def _filled(lanes: Lanes, address: Addresses, wanted: Array, size: int, line: int) -> Array:
    """Elements of `size` bytes, of which only the first `wanted` are read."""
    memory = lanes.wave.memory
    out = np.zeros((lanes.warps, 32, size), np.uint8)
    full = lanes.enabled() & (wanted == size)
    if full.any():
        value = memory.load(lanes.narrowed(full), "global", address, size, line)
        out[full] = value[full][:, None].view(np.uint8)
    some = lanes.enabled() & (wanted != size)
    for at in range(size if (some & (wanted > 0)).any() else 0):
        reads = some & (wanted > at)
        if reads.any():
            part = memory.load(lanes.narrowed(reads), "global", address + np.uint64(at), 1, line)
            out[reads, at] = part[reads]
    return out.view(STORAGE[8 * size])[..., 0]


@table.step("cp.async.commit_group")
def commit_group(op: Op) -> Step:
    op.count(0)
    line = op.line

    def run(lanes: Lanes) -> None:
        threads = lanes.threads()
        lanes.wave.copies.commit(threads)
        if lanes.wave.watch is not None:
            lanes.wave.watch.async_commit("cp.async", threads, line)

    return run


@table.step("cp.async.wait_group", "cp.async.wait_all")
def wait(op: Op) -> Step:
    waits_for_all, line = op.prefix == "cp.async.wait_all", op.line
    op.count(0 if waits_for_all else 1)
    pending = None if waits_for_all else op.immediate(0)
    if pending is not None and not 0 <= pending < 1 << 31:
        op.fail(f"the number of pending groups must be in 0..2147483647, got {pending}")

    def run(lanes: Lanes) -> None:
        threads = lanes.threads()
        lanes.wave.copies.wait(threads, pending)
        if lanes.wave.watch is not None:
            if pending is None:
                lanes.wave.watch.async_commit("cp.async", threads, line)
            lanes.wave.watch.async_done("cp.async", threads, line, pending or 0)

    return run
