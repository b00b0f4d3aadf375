"""`--lower-flags`: waits for flags of other GPUs become loads in a loop with an end, and signals stores."""

from collections.abc import Callable
from typing import Any

from weft.dialects import tile
from weft.dialects.tile_flags import AwaitFlagOp, IsLastOp, RemoteOp, SendAsyncOp, SignalOp
from weft.mlir import arith, ir, llvm, nvvm
from weft.passes.builders import addresses, emit
from weft.passes.registry.pass_ import Pass, rewrite

_NANOSECONDS = 1_000_000  # of a millisecond
_GPU = "device"  # LLVM's name of the scope
_MOST = (1 << 31) - 1  # elements of memory of unknown size


def run(module: ir.Operation) -> None:
    """Lowers every op of flags."""
    rewrite(module, list(_LOWERINGS), lambda op: _LOWERINGS[type(op)](op))


def _await_flag(op: AwaitFlagOp) -> list[ir.Value]:
    """Loads with acquire at the scope of the system, LLVM's default."""
    address, i64 = addresses.Vector(op.flags).element_of(op.index), emit.i64()
    limit = arith.muli(arith.extui(i64, op.limit), emit.constant(i64, _NANOSECONDS))
    start = _now()

    def poll() -> tuple[ir.Value, list[ir.Value]]:
        flag = llvm.load(emit.i32(), address, alignment=4, ordering=llvm.AtomicOrdering.acquire)
        return emit.less(emit.sub(flag, op.value), 0), []

    def check_time() -> list[ir.Value]:
        passed = arith.subi(_now(), start)
        with emit.when(arith.cmpi(arith.CmpIPredicate.ugt, passed, limit)):
            llvm.intr_trap()
        return []

    emit.repeat([], poll, check_time, [])
    if ir.StringAttr(op.proxy).value == "async":
        nvvm.FenceProxyOp(nvvm.ProxyKind.async_global)
    return []


def _now() -> ir.Value:
    """Nanoseconds of a clock that never stops."""
    return nvvm.read_ptx_sreg_globaltimer(results=[emit.i64()])


def _signal(op: SignalOp) -> list[ir.Value]:
    """A store with release at the scope of the system, LLVM's default."""
    address = addresses.Vector(op.flags).element_of(op.index)
    llvm.StoreOp(op.value, address, alignment=4, ordering=llvm.AtomicOrdering.release)
    return []


def _is_last(op: IsLastOp) -> list[ir.Value]:
    """An addition at the scope of the GPU between fences: LLVM's addition orders nothing. Later launches find
    the counter at 0.
    """
    address = addresses.Vector(op.counters).element_of(op.index)
    add, relaxed = llvm.AtomicBinOp.add, llvm.AtomicOrdering.monotonic
    llvm.FenceOp(llvm.AtomicOrdering.acq_rel, syncscope=_GPU)
    before = llvm.atomicrmw(add, address, emit.value(1), relaxed, syncscope=_GPU)
    last = emit.equal(before, emit.sub(op.count, 1))
    with emit.when(last):
        llvm.FenceOp(llvm.AtomicOrdering.acq_rel, syncscope=_GPU)
        llvm.StoreOp(emit.value(0), address, alignment=4)
    return [last]


def _remote(op: RemoteOp) -> list[ir.Value]:
    """A memref's descriptor with the address: pointers, offset, sizes and strides."""
    pointer = llvm.inttoptr(addresses.pointer_type(1), op.address)
    i64 = emit.i64()
    kind = ir.Type.parse("!llvm.struct<(ptr<1>, ptr<1>, i64, array<1 x i64>, array<1 x i64>)>")
    zero, one, most = (emit.constant(i64, number) for number in (0, 1, _MOST))
    fields = ([0], pointer), ([1], pointer), ([2], zero), ([3, 0], most), ([4, 0], one)
    descriptor = llvm.mlir_undef(kind)
    for position, value in fields:
        descriptor = llvm.insertvalue(descriptor, value, position)
    cast = ir.Operation.create(
        "builtin.unrealized_conversion_cast", results=[op.memory.type], operands=[descriptor]
    )
    return [cast.result]


def _send_async(op: SendAsyncOp) -> list[ir.Value]:
    """One bulk copy of the whole buffer."""
    kind = op.tile.type
    to = addresses.Vector(op.memory).element_of(op.index)
    size = kind.shape[0] * kind.shape[1] * int(kind.element_type.width) // 8
    nvvm.CpAsyncBulkSharedCTAToGlobalOp(to, tile.address(op.tile), emit.value(size))
    return []


_LOWERINGS: dict[Any, Callable[[Any], list[ir.Value]]] = {
    AwaitFlagOp: _await_flag,
    SignalOp: _signal,
    IsLastOp: _is_last,
    RemoteOp: _remote,
    SendAsyncOp: _send_async,
}

LOWER_FLAGS = Pass(
    "lower-flags",
    "lower flags and memory of other GPUs to loads, stores and pointers",
    run,
    lowers=tuple(_LOWERINGS),
)
