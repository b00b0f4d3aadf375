"""`--lower-flags`: waits for flags of other GPUs become loads in a loop with an end, and signals stores."""

from typing import Any

from weft.dialects import tile
from weft.dialects.tile_flags import AwaitFlagOp, IsLastOp, RemoteOp, SendAsyncOp, SignalOp
from weft.mlir import arith, ir, llvm, nvvm
from weft.passes.builders import addresses, atomics, emit
from weft.passes.registry.pass_ import Lowering, Pass, rewrite

_NANOSECONDS = 1_000_000  # of a millisecond
_MOST = (1 << 31) - 1  # elements of memory of unknown size


def _await_flag(op: AwaitFlagOp) -> None:
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


def _now() -> ir.Value:
    """Nanoseconds of a clock that never stops."""
    return nvvm.read_ptx_sreg_globaltimer(results=[emit.i64()])


def _signal(op: SignalOp) -> None:
    """A store with release at the scope of the system, LLVM's default."""
    address = addresses.Vector(op.flags).element_of(op.index)
    llvm.StoreOp(op.value, address, alignment=4, ordering=llvm.AtomicOrdering.release)


def _is_last(op: IsLastOp) -> ir.Value:
    """An addition at the scope of the GPU between fences: LLVM's addition orders nothing. Later launches find
    the counter at 0.
    """
    address = addresses.Vector(op.counters).element_of(op.index)
    atomics.fence()
    one = emit.value(1)
    add = llvm.AtomicBinOp.add
    before = llvm.atomicrmw(add, address, one, atomics.RELAXED, syncscope=atomics.GPU)
    last = emit.equal(before, emit.sub(op.count, 1))
    with emit.when(last):
        atomics.fence()
        llvm.StoreOp(emit.value(0), address, alignment=4)
    return last


def _remote(op: RemoteOp) -> ir.Value:
    """A memref's descriptor with the address: pointers, offset, sizes and strides."""
    pointer = llvm.inttoptr(addresses.pointer_type(1), op.address)
    i64 = emit.i64()
    kind = ir.Type.parse("!llvm.struct<(ptr<1>, ptr<1>, i64, array<1 x i64>, array<1 x i64>)>")
    zero, one, most = (emit.constant(i64, number) for number in (0, 1, _MOST))
    fields = ([0], pointer), ([1], pointer), ([2], zero), ([3, 0], most), ([4, 0], one)
    descriptor = llvm.mlir_undef(kind)
    for position, value in fields:
        descriptor = llvm.insertvalue(descriptor, value, position)
    cast = "builtin.unrealized_conversion_cast"
    return ir.Operation.create(cast, results=[op.memory.type], operands=[descriptor]).result


def _send_async(op: SendAsyncOp) -> None:
    """One bulk copy of the whole buffer."""
    kind = op.tile.type
    to = addresses.Vector(op.memory).element_of(op.index)
    size = kind.shape[0] * kind.shape[1] * int(kind.element_type.width) // 8
    nvvm.CpAsyncBulkSharedCTAToGlobalOp(to, tile.address(op.tile), emit.value(size))


_LOWERINGS: dict[Any, Lowering] = {
    AwaitFlagOp: _await_flag,
    SignalOp: _signal,
    IsLastOp: _is_last,
    RemoteOp: _remote,
    SendAsyncOp: _send_async,
}

LOWER_FLAGS = Pass(
    "lower-flags",
    "lower flags and memory of other GPUs to loads, stores and pointers",
    lambda module: rewrite(module, _LOWERINGS),
    lowers=tuple(_LOWERINGS),
)
