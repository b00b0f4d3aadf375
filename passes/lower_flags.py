"""`--lower-flags`: waits for flags of other GPUs become loads in a loop, with an end."""

from collections.abc import Callable
from typing import Any

from weft.dialects.tile_flags import AwaitFlagOp
from weft.mlir import arith, ir, llvm, nvvm
from weft.passes.builders import addresses, emit
from weft.passes.registry.pass_ import Pass, rewrite

_NANOSECONDS = 1_000_000  # of a millisecond


def run(module: Any) -> None:
    """Lowers every op of flags."""
    rewrite(module, list(_LOWERINGS), lambda op: _LOWERINGS[type(op)](op))


def _await_flag(op: AwaitFlagOp) -> list[Any]:
    """Loads with acquire at the scope of the system, LLVM's default."""
    address, i64 = addresses.Vector(op.flags).element_of(op.index), ir.IntegerType.get_signless(64)
    limit = arith.muli(arith.extui(i64, op.limit), emit.constant(i64, _NANOSECONDS))
    start = _now()

    def poll() -> tuple[Any, list[Any]]:
        flag = llvm.load(emit.i32(), address, alignment=4, ordering=llvm.AtomicOrdering.acquire)
        return emit.less(emit.sub(flag, op.value), 0), []

    def check_time() -> list[Any]:
        passed = arith.subi(_now(), start)
        with emit.when(arith.cmpi(arith.CmpIPredicate.ugt, passed, limit)):
            llvm.intr_trap()
        return []

    emit.repeat([], poll, check_time, [])
    if ir.StringAttr(op.proxy).value == "async":
        nvvm.FenceProxyOp(nvvm.ProxyKind.async_global)
    return []


def _now() -> Any:
    """Nanoseconds of a clock that never stops."""
    return nvvm.read_ptx_sreg_globaltimer(results=[ir.IntegerType.get_signless(64)])


_LOWERINGS: dict[Any, Callable[[Any], list[Any]]] = {AwaitFlagOp: _await_flag}

LOWER_FLAGS = Pass(
    "lower-flags", "lower waits for flags of other GPUs to loads", run, lowers=tuple(_LOWERINGS)
)
