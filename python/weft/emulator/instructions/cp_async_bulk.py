"""`cp.async.bulk` and `cp.reduce.async.bulk` of plain bytes, and the groups that threads wait for.

Data is read when a copy is issued. With a seed, it may arrive later, except for copies to global memory,
which a thread's `wait_group` must have completed.

The bulk copy unit: contiguous bytes of global and shared memory, and the events for observers. `st.bulk`:
fills shared memory with zeros.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from weft.emulator.compiled.boxes import Boxes
from weft.emulator.decoding.decode import AddressOf, Op
from weft.emulator.decoding.table import Step, Table, notify
from weft.emulator.errors import Fault
from weft.emulator.instructions.atomics import Update, update_of
from weft.emulator.instructions.one_thread import address, by_code, in_shared, marks_of
from weft.emulator.memory.mbarrier import Key
from weft.emulator.memory.segments import Segment
from weft.emulator.reading.syntax import STORAGE, TYPES, U32, U64, Bools, Integer, Name, Type
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.wave import Wave
from weft.emulator.watch import CHUNK, Chunks, UnitAccess, Watch
from weft.isa import bulk_stores as isa

PROXY = "bulk"
_WIDE = np.dtype(np.complex128)
"""Elements as large as a chunk."""
Octets = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


def fault(one: Lanes, what: str, line: int, address: int, rule: str) -> Fault:
    """A fault of the active thread of `one`."""
    return Fault(what, line, one.first(), address, rule)


def aligned(one: Lanes, what: str, value: int, step: int, line: int) -> None:
    """Faults if an address or a size is not a multiple of `step`."""
    if value % step:
        wrong = f"misaligned {what} 0x{value:x}, which must be a multiple of {step}"
        raise fault(one, wrong, line, value, "misaligned")


def global_segment(one: Lanes, address: int, first: int, last: int, line: int, writes: bool) -> Segment:
    """The buffer with the bytes from `address + first` up to, but not including, `address + last`.

    The address may be outside of all buffers: some tensor maps begin before their tensor.
    """
    device = one.wave.memory.device
    segment = device.find(address if device.has(address) else address + first)
    if segment is None or address + first < segment.base or address + last > segment.base + segment.size:
        near = f", in {segment.name} of {segment.size} bytes" if segment is not None else ""
        what = (
            f"out-of-bounds global access by a bulk copy of bytes {first} to {last} from 0x{address:x}{near}"
        )
        raise fault(one, what, line, address, "out-of-bounds")
    if writes and not segment.writable:
        raise fault(one, f"{segment.name} is read-only, but is written", line, address, "read-only")
    return segment


def notify_global(
    one: Lanes,
    kind: str,
    addresses: Numbers | Chunks,
    line: int,
    barrier: Key | None = None,
    data: Octets | None = None,
) -> None:
    """Reports an access to bytes of global memory to observers, and the `data` of a store."""
    one.wave.changes += kind != "load"
    one.wave.memory.moving = data
    _notify(one, "global", kind, 0, addresses, line, barrier)


def notify_shared(
    one: Lanes,
    kind: str,
    cta: int,
    offsets: Numbers | Chunks,
    line: int,
    barrier: Key | None = None,
    used: Numbers | None = None,
) -> None:
    """Reports an access to bytes of a CTA's shared memory to observers. `used`: those that a store takes into
    global memory; None: all.
    """
    one.wave.memory.used = used
    _notify(one, "shared", kind, cta, offsets, line, barrier)


def _notify(
    one: Lanes, space: str, kind: str, cta: int, octets: Numbers | Chunks, line: int, barrier: Key | None
) -> None:
    wave, flat = one.wave, octets if isinstance(octets, Chunks) else octets.reshape(-1)
    wave.memory.bytes[space] += len(flat)
    if wave.watch is not None:
        wave.watch.async_access(UnitAccess(kind, PROXY, cta, space, flat, one.threads(), line, barrier))


def get(memory: Octets, offsets: Numbers | Chunks) -> Octets:
    """Reads bytes or chunks."""
    if not isinstance(offsets, Chunks):
        return memory[offsets]
    octets: Octets = _in_chunks(memory).take(offsets.first // CHUNK).view(np.uint8)
    return octets


def put(memory: Octets, offsets: Numbers | Chunks, data: Octets) -> None:
    """Writes bytes or chunks."""
    if isinstance(offsets, Chunks):
        _in_chunks(memory)[offsets.first // CHUNK] = data.reshape(-1).view(_WIDE)
    else:
        memory[offsets] = data


def _in_chunks(memory: Octets) -> npt.NDArray[np.complex128]:
    return memory[: len(memory) // CHUNK * CHUNK].view(_WIDE)


def bounded(one: Lanes, cta: int, offsets: Numbers | Chunks, line: int) -> Octets:
    """The shared memory of a CTA, which must have all of these bytes."""
    shared = one.wave.memory.shared_of(cta)
    if isinstance(offsets, Chunks):
        most = int(offsets.first.max(initial=0)) + CHUNK - 1
    else:
        most = int(offsets.max(initial=0))
    if most >= len(shared):
        what = f"out-of-bounds shared access by a bulk copy at 0x{most:x}, {one.wave.memory.extent()}"
        raise fault(one, what, line, most, "out-of-bounds")
    return shared


def checked_mask(one: Lanes, mask: int, line: int) -> int:
    """A multicast mask. Fault if it selects a CTA that the cluster doesn't have."""
    size = one.wave.launch.cluster_size
    if mask >> size:
        what = f"the mask 0x{mask:x} names CTA {mask.bit_length() - 1}, but the cluster has {size} CTAs"
        raise fault(one, what, line, mask, "out-of-bounds")
    return mask


table = Table()
_WIDE_STORES = 16
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
                wide = size - offset >= _WIDE_STORES and (begin + offset) % _WIDE_STORES == 0
                width = _WIDE_STORES if wide else isa.STEP
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


_SPACES = ("shared::cluster", "shared::cta", "global")
_ROUTES = {
    ("shared::cluster", "global"),
    ("shared::cta", "global"),
    ("shared::cluster", "shared::cta"),
    ("global", "shared::cta"),
}
_ALIGN = 16

Write = Callable[[Octets, Numbers, Octets], None]


class Ends:
    """The source and target of a copy: the first two modifiers that name a space. Takes the completion
    mechanism, too: an mbarrier for copies into shared memory, groups for copies out of it.
    """

    def __init__(self, op: Op) -> None:
        spaces = [m for m in op.modifiers if m in _SPACES]
        if len(spaces) != 2:
            op.fail(f"needs two spaces of .{', .'.join(_SPACES)}")
        for space in spaces:
            op.modifiers.remove(space)
        self.target, self.source = spaces
        if (self.target, self.source) not in _ROUTES:
            op.fail(f"can't copy from .{self.source} to .{self.target}")
        self.loads = self.target != "global"
        op.choice(["mbarrier::complete_tx::bytes"] if self.loads else ["bulk_group"])
        op.flag("L2::cache_hint")


class SharedAddress:
    """An operand that is an address of shared memory, of this CTA or another one of its cluster."""

    def __init__(self, op: Op, index: int) -> None:
        self._address: AddressOf = op.address(index, "shared")
        self._line = op.line

    def of(self, lanes: Lanes) -> Numbers:
        """`[warps, 32]`: the offset in the shared memory of the wave's CTAs, which follow each other."""
        memory, of = lanes.wave.memory, self._address
        return memory.shared_offsets(lanes, of.space, of(lanes), 1, self._line).astype(np.int64)

    def of_one(self, wave: Wave, row: int, lane: int) -> Key | None:
        """The CTA and the offset of one thread; None if the address is illegal."""
        return in_shared(self._address, wave, row, lane)


@table.step("cp.async.bulk")
def copy(op: Op) -> Step:
    """`cp.async.bulk.target.source… [to], [from], size{, [mbarrier]}{, mask}{, policy}`."""
    ends = Ends(op)
    multicast, masked = op.flag("multicast::cluster"), op.flag("cp_mask")
    hinted = "L2::cache_hint" in op.opcode
    lenient = 2 * op.flag("ignore_oob")
    op.count(3 + ends.loads + multicast + masked + hinted + lenient)
    if lenient and ends.target + ends.source != "shared::ctaglobal":
        op.fail(".ignore_oob must copy from .global to .shared::cta")
    if masked and ends.loads:
        op.fail(".cp_mask must copy to .global")
    size, line = op.source(2, U32), op.line
    if not ends.loads:
        mask = op.source(3 + hinted, TYPES["u16"]) if masked else 0
        return _to_global(op, size, mask, line, put)
    barrier, target = SharedAddress(op, 3 + lenient), SharedAddress(op, 0)
    ctas = op.source(4, TYPES["u16"]) if multicast else 0
    ignored = [op.source(3 + n, U32) for n in range(lenient)]
    source = op.address(1, "global") if ends.source == "global" else SharedAddress(op, 1)

    def quick(copies: Boxes, wave: Wave, row: int, lane: int) -> bool:
        if isinstance(source, SharedAddress) or lenient:
            return False
        place, mark = target.of_one(wave, row, lane), barrier.of_one(wave, row, lane)
        count, begin = wave.regs[size].item(row, lane), address(source, wave, row, lane)
        if place is None or mark is None or not count or (count | begin | place[1]) % _ALIGN:
            return False
        mask = wave.regs[ctas].item(row, lane) if ctas else None
        marks = marks_of(wave, wave.cta_of_row.item(row), place[0], mark, mask)
        box = copies.run(begin, count)
        return len(marks) > 0 and copies.load(row, box, (0,), place[1], marks, line, awaited=mask is None)

    return by_code(quick, _into_shared(size, target, source, barrier, line, ctas, ignored))


def _into_shared(
    size: int,
    target: SharedAddress,
    source: AddressOf | SharedAddress,
    barrier: SharedAddress,
    line: int,
    ctas: int = 0,
    ignored: Sequence[int] = (),
    write: Write | None = None,
) -> Step:
    """A copy into shared memory, also of CTAs in the mask `ctas`, that signals mbarriers. It may leave out as
    many bytes at the ends as two registers in `ignored` have.
    """

    def run(lanes: Lanes) -> None:
        sizes, marks, offsets = lanes.read(size), barrier.of(lanes), target.of(lanes)
        begins = source.of(lanes) if isinstance(source, SharedAddress) else source(lanes)
        masks = lanes.read(ctas) if ctas else None
        stride = lanes.wave.memory.shared_stride
        edges = [lanes.read(slot) for slot in ignored]
        for one, at, cta in lanes.singles():
            count = _checked(one, int(sizes[at]), int(offsets[at]), int(begins[at]), line)
            mark = divmod(int(marks[at]), stride)
            if isinstance(source, SharedAddress):
                data = _from_shared(one, int(begins[at]), count, line, mark)
            else:
                left, right = (int(edge[at]) for edge in edges) if edges else (0, 0)
                # A multicast signals several mbarriers.
                signaled = None if masks is not None else mark
                data = _from_global(one, int(begins[at]), count, line, left, right, signaled)
            owner, offset = divmod(int(offsets[at]), stride)
            mask = None if masks is None else checked_mask(one, int(masks[at]), line)
            signals = marks_of(one.wave, cta, owner, mark, mask)
            arrive(one, data, signals, offset + np.arange(count), line, write)

    return run


def arrive(
    one: Lanes,
    data: Octets,
    marks: Sequence[tuple[int, Key]],
    offsets: Numbers | Chunks,
    line: int,
    write: Write | None = None,
) -> None:
    """Writes data to the same offsets of several CTAs, and signals the mbarrier of each."""
    wave = one.wave
    for owner, mark in marks:
        bounded(one, owner, offsets, line)
        wave.mbarriers.state(*mark, line)
        notify_shared(one, "store" if write is None else "reduce", owner, offsets, line, mark)
    threads = one.threads() if wave.watch is not None else None

    def finish() -> None:
        for owner, mark in marks:
            if write is None:
                put(wave.memory.shared_of(owner), offsets, data)
            else:
                assert not isinstance(offsets, Chunks)
                write(wave.memory.shared_of(owner), offsets, data)
            wave.mbarriers.complete_tx(*mark, len(data), line, threads)

    wave.later(finish)


def _checked(one: Lanes, size: int, target: int, source: int, line: int) -> int:
    aligned(one, "size of a bulk copy", size, _ALIGN, line)
    aligned(one, "target of a bulk copy at", target, _ALIGN, line)
    aligned(one, "source of a bulk copy at", source, _ALIGN, line)
    return size


def _from_global(
    one: Lanes, address: int, size: int, line: int, left: int, right: int, barrier: tuple[int, int] | None
) -> Octets:
    """Bytes, of which the first `left` and last `right` are read if they exist, otherwise zeros."""
    if left >= _ALIGN or right >= _ALIGN:
        what = f"a bulk copy must ignore at most {_ALIGN - 1} bytes at each end, got {left} and {right}"
        raise fault(one, what, line, address, "misaligned")
    segment = global_segment(one, address, left, size - right, line, writes=False)
    notify_global(one, "load", address + np.arange(left, size - right), line, barrier)
    begin = address - segment.base
    out = np.zeros(size, np.uint8)
    out[left : size - right] = segment.data[begin + left : begin + size - right]
    return out


def _from_shared(
    one: Lanes, start: int, size: int, line: int, barrier: tuple[int, int] | None = None
) -> Octets:
    cta, offset = divmod(start, one.wave.memory.shared_stride)
    offsets = offset + np.arange(size)
    shared = bounded(one, cta, offsets, line)
    notify_shared(one, "load", cta, offsets, line, barrier)
    return shared[offsets]


def _to_global(op: Op, size: int, mask: int, line: int, write: Write) -> Step:
    target, source = op.address(0, "global"), SharedAddress(op, 1)

    def quick(copies: Boxes, wave: Wave, row: int, lane: int) -> bool:
        place, begin = source.of_one(wave, row, lane), address(target, wave, row, lane)
        count = wave.regs[size].item(row, lane)
        if place is None or not count or (count | begin | place[1]) % _ALIGN:
            return False
        return copies.store(row, copies.run(begin, count), (0,), *place, line)

    def run(lanes: Lanes) -> None:
        sizes, begins, offsets = lanes.read(size), source.of(lanes), target(lanes)
        masks = lanes.read(mask) if mask else None
        for one, at, _ in lanes.singles():
            address = int(offsets[at])
            count = _checked(one, int(sizes[at]), address, int(begins[at]), line)
            data = _from_shared(one, int(begins[at]), count, line)
            segment = global_segment(one, address, 0, count, line, writes=True)
            chosen = np.arange(count)
            if masks is not None:
                # A bit for each byte of every 16.
                chosen = chosen[(int(masks[at]) >> chosen % _ALIGN & 1).astype(np.bool_)]
            kind = "store" if write is put else "reduce"
            notify_global(one, kind, address + chosen, line, data=data[chosen])
            write(segment.data, address - segment.base + chosen, data[chosen])

    return run if mask or write is not put else by_code(quick, run)


@table.step("cp.reduce.async.bulk")
def reduce(op: Op) -> Step:
    """`cp.reduce.async.bulk.target.source….op.type [to], [from], size{, [mbarrier]}{, policy}`."""
    ends = Ends(op)
    hinted = "L2::cache_hint" in op.opcode
    op.count(3 + ends.loads + hinted)
    size, line = op.source(2, U32), op.line
    write = reduction(op, reduction_name(op), op.type())
    if not ends.loads:
        return _to_global(op, size, 0, line, write)
    barrier, target, source = SharedAddress(op, 3), SharedAddress(op, 0), SharedAddress(op, 1)
    return _into_shared(size, target, source, barrier, line, write=write)


def reduction_name(op: Op) -> str:
    """Takes the operation of a reduction."""
    name = op.choice(["add", "min", "max", "inc", "dec", "and", "or", "xor"])
    op.flag("noftz")
    return name


def reduction(op: Op, name: str, kind: Type, in_l2: bool = True) -> Write:
    """How to combine the data with the contents of memory, in elements of a type."""
    update: Update = update_of(op, name, kind, in_l2)
    width = kind.bytes

    def write(memory: Octets, offsets: Numbers, data: Octets) -> None:
        if not len(offsets):
            return
        rows = offsets.reshape(-1, width)
        old = np.ascontiguousarray(memory[rows]).reshape(-1).view(kind.storage)
        new = update(old, np.ascontiguousarray(data).reshape(-1).view(kind.storage))
        memory[rows] = np.ascontiguousarray(new).view(np.uint8).reshape(rows.shape)

    return write


@table.step("cp.async.bulk.commit_group")
def commit_group(op: Op) -> Step:
    """`cp.async.bulk.commit_group`."""
    op.count(0)
    return notify(lambda watch, threads: watch.async_commit(PROXY, threads, op.line))


@table.step("cp.async.bulk.wait_group")
def wait_group(op: Op) -> Step:
    """`cp.async.bulk.wait_group{.read} pending`."""
    reads = op.flag("read")
    op.count(1)
    pending = op.immediate(0)
    if pending < 0:
        op.fail(f"the number of pending groups must be at least 0, got {pending}")

    def waited(watch: Watch, threads: Bools) -> None:
        watch.async_done(PROXY, threads, op.line, pending)
        if not reads:
            watch.async_written(PROXY, threads, op.line, pending)

    return notify(waited)


@table.step("cp.async.bulk.prefetch")
def prefetch(op: Op) -> Step:
    """`cp.async.bulk.prefetch.L2.global{.L2::cache_hint} [from], size{, policy}`: a hint."""
    op.flag("L2")
    op.choice(["global"])
    hinted = op.flag("L2::cache_hint")
    op.count(2 + hinted)
    op.address(0, "global")
    op.source(1, U32)
    if hinted:
        op.source(2, U64)
    return lambda lanes: None
