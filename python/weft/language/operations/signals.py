"""CTAs that wait for others: counters in memory."""

from weft.language.capture import trace
from weft.language.messages.mistakes import mistake
from weft.language.operations.orders import ordered
from weft.language.operations.roles import once, one_thread, warpgroup_barrier
from weft.language.values.dtypes import i32
from weft.language.values.matrices import Place
from weft.language.values.scalars import as_scalar
from weft.mlir import ir, nvvm
from weft.passes.builders import addresses, atomics, emit


def signal(counter: object, *, order: str = "release", scope: str = "gpu") -> None:
    """Adds 1 to an element of an array of i32, by each warpgroup that comes here, after all that it has
    stored in arrays and added, also by TMA. CTAs that wait for this number by `w.await_signals` then see it.

    In `w.one_thread()`, after what that thread has added, and what it has seen of others.

    `scope` is that of those who wait: cta, cluster, gpu or sys, such as another GPU. With `order="relaxed"`,
    it is a number only: nothing that was stored becomes visible.
    """
    address, current = _address(counter, "w.signal"), trace.current()
    how = ordered("w.signal", order, scope, ("relaxed", "release"))
    assert how is not None
    if current.one_thread or how.name == "relaxed":
        with one_thread():
            _signal(address, how)
        return
    if current.has_tma:
        nvvm.FenceProxyOp(nvvm.ProxyKind.async_global)
    warpgroup_barrier()
    with one_thread():
        _signal(address, how)


def _signal(address: ir.Value, how: atomics.Order) -> None:
    def add() -> None:
        if how.name == "release":
            if trace.current().has_tma:
                nvvm.cp_async_bulk_wait_group(0)
            atomics.fence(how)
        relaxed = None if how.scope == "gpu" else how._replace(name="relaxed")
        atomics.update("add", address, emit.value(1), relaxed)

    once(add)


def await_signals(counter: object, number: object, *, order: str = "acquire", scope: str = "gpu") -> None:
    """Waits until an element of an array of i32 is at least `number`. What was stored before these signals is
    then visible to the warpgroup, in loads and in additions by TMA.

    In `w.one_thread()`, that thread waits, and what it then stores and adds comes after.

    A CTA may wait only for CTAs with smaller numbers, which start earlier: others may not start before this
    one ends. `order` and `scope` are as for `w.signal`.
    """
    how = ordered("w.await_signals", order, scope, ("relaxed", "acquire"))
    assert how is not None
    if not trace.current().one_thread:
        trace.current().check_whole("w.await_signals")
    address, count = _address(counter, "w.await_signals"), as_scalar(number, i32).value

    def poll() -> tuple[ir.Value, list[ir.Value]]:
        return emit.less(atomics.acquired(address, how), count), []

    emit.repeat([], poll)
    if trace.current().has_tma and how.name == "acquire":
        nvvm.FenceProxyOp(nvvm.ProxyKind.async_global)


def _address(counter: object, caller: str) -> ir.Value:
    if trace.current().role is None:
        raise mistake(f"{caller} must be in a role")
    if not isinstance(counter, Place) or len(counter.indices) != 1 or counter.matrix.rank != 1:
        raise mistake(f"{caller} expects an element of an array of one dimension, got {counter}")
    if counter.dtype != i32 or not counter.matrix.writes:
        raise mistake(f"{caller} expects an element of a w.Out of {i32}, got {counter}")
    return addresses.Vector(counter.matrix.value).element_of(counter.indices[0].value)
