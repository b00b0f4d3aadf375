"""Clusters: addresses of other CTAs' shared memory, asynchronous stores to it, and canceling launches."""

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import Step, Table, computing
from weft.emulator.instructions.atomics import apply, update_of
from weft.emulator.instructions.mbarrier import BarrierOperand, targets, threads_of
from weft.emulator.memory.segments import RANK_SHIFT, WINDOWS, Addresses, Piece, put
from weft.emulator.reading.syntax import PRED, STORAGE, TYPES, U32, Array, Bools, Sink
from weft.emulator.running.lanes import Lanes
from weft.emulator.watch import UnitAccess

table = Table()
_OFFSET = (1 << RANK_SHIFT) - 1
_RESPONSE = 16
_MOST_BYTES = 16


@table.step("mapa")
def mapa(op: Op) -> Step:
    """`mapa{.shared::cluster}.u32|u64 d, a, rank`: the address of `a` in the CTA of that rank."""
    in_space = op.flag("shared::cluster")
    kind = op.type("u32 u64")
    window = 0 if in_space or kind.bits == 32 else WINDOWS["shared"]
    kept, base = kind.storage.type(_OFFSET), kind.storage.type(window)
    shift = kind.storage.type(RANK_SHIFT)

    def function(address: Array, rank: Array) -> Array:
        return (address & kept) | (rank.astype(kind.storage) << shift) | base

    return computing(op, function, kind, kind, U32)


@table.step("getctarank")
def getctarank(op: Op) -> Step:
    """`getctarank{.shared::cluster}.u32|u64 d, a`: the rank of the CTA that has a shared address."""
    op.flag("shared::cluster")
    kind = op.type("u32 u64")
    shift = kind.storage.type(RANK_SHIFT)
    return computing(op, lambda address: (address >> shift).astype(np.uint32) & np.uint32(0xFF), U32, kind)


# Asynchronous stores and reductions


@table.step("st.async", "red.async")
def asynchronous(op: Op) -> Step:
    """`st.async….mbarrier::complete_tx::bytes{.v2|.v4}.type [a], b, [barrier]` and
    `red.async….mbarrier::complete_tx::bytes.op.type [a], b, [barrier]`.
    """
    op.flag("weak", "relaxed", "release", "mmio")
    op.flag("cluster", "gpu", "sys")
    counted = op.flag("mbarrier::complete_tx::bytes")
    space = "global" if op.flag("global") else "shared" if op.flag("shared::cluster") else "generic"
    count = int(op.choice(["v2", "v4"], "v1")[1:])
    kind = op.type("b32 b64 u32 u64 s32 s64 f32 f64 b8 b16 u8 u16 s8 s16")
    event, update, line = "store", None, op.line
    if op.prefix == "red.async":
        name = op.choice(["inc", "dec", "min", "max", "add", "and", "or", "xor"])
        event, update = "reduce", update_of(op, name, kind)
    op.count(3 if counted else 2)
    if kind.bytes * count > _MOST_BYTES:
        op.fail(f"must move at most {_MOST_BYTES} bytes, got {kind.bytes * count}")
    address = op.address(0, space)
    barrier = BarrierOperand(op, 2, "generic" if space == "generic" else "shared") if counted else None
    items = op.items(1)
    if len(items) != count:
        op.fail(f"expects {count} registers, got {len(items)}")
    sources = [op.source(item, kind, any_width=kind.bits < 32) for item in items]
    width, storage = kind.bytes, kind.storage

    def run(lanes: Lanes) -> None:
        memory, addresses = lanes.wave.memory, address(lanes)
        marks = barrier.offsets(lanes) if barrier is not None else None
        memory.check_alignment(lanes, address.space, addresses, width * count, line)
        work: list[tuple[Piece, Array]] = []
        for part, source in enumerate(sources):
            value = lanes.read(source).astype(storage, copy=False)
            at = addresses + np.uint64(part * width)
            if marks is None:
                pieces = memory.locate(lanes, address.space, at, width, "store", line)
            else:
                first = memory.shared_offsets(lanes, address.space, at, width, line)
                elements = (first // np.uint64(width)).view(np.intp)
                pieces = [Piece(memory.shared.view(width), elements, lanes.mask)]
                _notify(lanes, event, first, width, marks, line)
            work += [(piece, value) for piece in pieces]

        def finish() -> None:
            for piece, value in work:
                if update is None:
                    put(piece, value)
                else:
                    apply(piece, update, [value], np.zeros_like(value))
            for cta, offset, mask in targets(lanes, marks) if marks is not None else ():
                size = width * count * int(np.count_nonzero(mask))
                lanes.wave.mbarriers.complete_tx(cta, offset, size, line, threads_of(lanes, mask))

        lanes.wave.later(finish)

    return run


def _notify(lanes: Lanes, event: str, addresses: Addresses, size: int, marks: Addresses, line: int) -> None:
    """Reports the bytes of shared memory that an asynchronous operation accesses to observers."""
    watch, stride = lanes.wave.watch, lanes.wave.memory.shared_stride
    if watch is None:
        return
    for cta, offset, mask in targets(lanes, marks):
        threads = lanes.narrowed(mask).threads()
        chosen = addresses[mask].astype(np.intp)
        for owner in np.unique(chosen // stride):
            begin = chosen[chosen // stride == owner] % stride
            offsets = (begin[:, None] + np.arange(size)).ravel()
            watch.async_access(
                UnitAccess(event, "st.async", int(owner), "shared", offsets, threads, line, (cta, offset))
            )


# Taking over CTAs that have not started


@table.step("clusterlaunchcontrol.try_cancel.async")
def try_cancel(op: Op) -> Step:
    """`clusterlaunchcontrol.try_cancel.async….b128 [response], [barrier]`: takes over a cluster's work."""
    op.choice(["mbarrier::complete_tx::bytes"])
    everywhere = op.flag("multicast::cluster::all")
    space = "shared" if op.flag("shared", "shared::cta") else "generic"
    op.type("b128")
    op.count(2)
    response, barrier, line = op.address(0, space), BarrierOperand(op, 1, space), op.line

    def run(lanes: Lanes) -> None:
        memory = lanes.wave.memory
        offsets = memory.shared_offsets(lanes, response.space, response(lanes), _RESPONSE, line)
        marks = barrier.offsets(lanes)
        for one, at, _ in lanes.singles():
            cta, offset = divmod(int(offsets[at]), memory.shared_stride)
            mark = int(marks[at]) % memory.shared_stride
            ctas = lanes.wave.cluster_ctas(cta) if everywhere else range(cta, cta + 1)
            _ask(one, ctas, offset, mark, line)

    return run


def _ask(lanes: Lanes, ctas: range, offset: int, mark: int, line: int) -> None:
    """One thread requests a cluster. These CTAs get the response, at `offset`, and their mbarriers the bytes:
    whether a cluster was canceled, and its first CTA.
    """
    wave = lanes.wave
    first = wave.grid.cancel()
    data = np.array([first is not None, *(first or (0, 0, 0))], np.uint32).view(np.uint8)
    if wave.watch is not None:
        marks = tuple((cta, mark) for cta in ctas)
        wave.watch.launch_cancel(first is not None, marks, lanes.threads(), line)
        bytes_, threads = np.arange(offset, offset + _RESPONSE), lanes.threads()
        for cta in ctas:
            access = UnitAccess("store", "bulk", cta, "shared", bytes_, threads, line, (cta, mark))
            wave.watch.async_access(access)

    def finish() -> None:
        for cta in ctas:
            wave.memory.shared_of(cta)[offset : offset + _RESPONSE] = data
            wave.mbarriers.complete_tx(cta, mark, _RESPONSE, line)

    wave.later(finish)


@table.step("clusterlaunchcontrol.query_cancel")
def query_cancel(op: Op) -> Step:
    """`.is_canceled.pred.b128 p, response`, `.get_first_ctaid{::x|::y|::z}{.v4}.b32.b128 d, response`."""
    asked = op.choice(["is_canceled", "get_first_ctaid", *(f"get_first_ctaid::{axis}" for axis in "xyz")])
    vector = op.flag("v4")
    op.type("pred" if asked == "is_canceled" else "b32")
    op.type("b128")
    op.count(2)
    response = op.source(1, TYPES["b128"])

    def words(lanes: Lanes) -> Array:
        value = np.ascontiguousarray(lanes.read(response))
        return value.view(STORAGE[32]).reshape(*value.shape, 4)

    if asked == "is_canceled":
        canceled = op.destination(0, PRED)

        def run_told(lanes: Lanes) -> None:
            flags: Bools = words(lanes)[..., 0] != 0
            lanes.write(canceled, flags)

        return run_told
    wanted = list(enumerate("xyz", 1)) if asked == "get_first_ctaid" else [("xyz".index(asked[-1]) + 1, "")]
    items = op.items(0)
    if vector != (len(wanted) == 3) or len(items) != (4 if vector else 1):
        op.fail(f"expects {4 if len(wanted) == 3 else 1} results")
    results = [
        (at, op.destination(item, U32))
        for (at, _), item in zip(wanted, items, strict=False)
        if not isinstance(item, Sink)
    ]

    def run(lanes: Lanes) -> None:
        parts = words(lanes)
        for at, result in results:
            lanes.write(result, parts[..., at].copy())

    return run
