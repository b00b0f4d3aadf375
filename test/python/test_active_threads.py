"""Which threads of a CTA reach an operation, from the conditions around it."""

import contextlib

import numpy as np
import pytest

import weft
from weft.mlir import arith, gpu, nvvm
from weft.passes.analysis import active_threads, uniformity
from weft.passes.analysis.uniformity import Scope
from weft.passes.builders import emit

CONDITIONS = {
    "thread 5": (lambda: [emit.equal(emit.thread(), 5)], [5]),
    "elected in warp 1": (
        lambda: [emit.equal(emit.uniform(emit.div(emit.thread(), 32)), 1), elect],
        [32],
    ),
    "both conditions in one": (
        lambda: [arith.andi(emit.less(emit.thread(), 8), emit.less(5, emit.thread()))],
        [6, 7],
    ),
    "one of two": (
        lambda: [arith.ori(emit.equal(emit.thread(), 3), emit.equal(emit.thread(), 70))],
        [3, 70],
    ),
    "an unknown condition as well": (
        lambda: [arith.andi(unknown(), emit.equal(emit.thread(), 9))],
        [9],
    ),
    "an unknown alternative": (
        lambda: [arith.ori(unknown(), emit.equal(emit.thread(), 9))],
        list(range(128)),
    ),
    "not the first lanes": (
        lambda: [emit.negate(emit.less(emit.rem(emit.thread(), 32), 31))],
        [31, 63, 95, 127],
    ),
    "bits": (
        lambda: [emit.equal(emit.bit_and(emit.shift_right(emit.thread(), 2), 31), 31)],
        [124, 125, 126, 127],
    ),
    "a product that wraps around": (
        lambda: [emit.equal(emit.mul(emit.thread(), 1 << 30), 0)],
        [0, *range(2, 128)],
    ),
    "below zero": (lambda: [emit.less(emit.sub(emit.thread(), 126), 0)], list(range(126))),
}


def elect():
    return nvvm.ElectSyncOp(results=[emit.i1()]).pred


def unknown():
    return emit.equal(emit.as_i32(gpu.block_id(gpu.Dimension.x)), 0)


def reached(conditions):
    """The threads of 128 that reach an operation under these conditions, within each other."""
    with weft.Module() as module, module.kernel("k", [], block=(128, 1, 1)):
        with contextlib.ExitStack() as inside:
            for condition in conditions():
                inside.enter_context(emit.when(condition() if callable(condition) else condition))
            op = gpu.barrier()
        return np.flatnonzero(active_threads.may_reach(op)).tolist()


def test_one_thread_of_each_warp_is_told_apart_from_more():
    with weft.Module() as module, module.kernel("k", [], block=(128, 1, 1)):
        with emit.when(elect()):
            elected = gpu.barrier()
        with emit.when(emit.equal(emit.rem(emit.thread(), 32), 7)):
            chosen = gpu.barrier()
        with emit.when(emit.less(emit.rem(emit.thread(), 64), 2)):
            several = gpu.barrier()
        found = [
            (active_threads.one_of_each_warp(op), active_threads.is_elected(op))
            for op in (elected, chosen, several)
        ]
    assert found == [(True, True), (True, False), (False, False)]


@pytest.mark.parametrize(("conditions", "threads"), CONDITIONS.values(), ids=CONDITIONS)
def test_threads_are_those_for_which_no_condition_is_false(conditions, threads):
    assert reached(conditions) == threads


def test_a_pass_asks_once_for_each_basic_block(monkeypatch):
    """Whether threads reach it together. An operation in a branch of some lanes is still refused."""
    asked = []
    complaint = uniformity._complaint
    monkeypatch.setattr(uniformity, "_complaint", lambda *given: asked.append(given) or complaint(*given))
    with weft.Module() as module, module.kernel("k", [], block=(128, 1, 1)):
        both = [gpu.barrier() for _ in range(2)]
        with emit.when(emit.less(emit.thread(), 5)):
            few = [gpu.barrier() for _ in range(2)]
        for scope in (Scope.WARP, Scope.CTA):
            with uniformity.remembered():
                assert [uniformity.complaint(op, scope) for op in both] == [None, None]
                assert len(asked) == 1
                assert all("depends on the" in uniformity.complaint(op, scope) for op in few)
            asked.clear()
            assert [uniformity.complaint(op, scope) for op in both] == [None, None]
            assert len(asked) == 2
            asked.clear()
