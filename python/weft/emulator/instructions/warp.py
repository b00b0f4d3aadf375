"""Instructions by which the lanes of a warp exchange values."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import Collective, Exchange, Step, Table
from weft.emulator.numerics.floats import canonical
from weft.emulator.numerics.shuffles import beyond_segment, named_lane
from weft.emulator.reading.syntax import B32, PRED, U32, Array, Bools, Operand
from weft.emulator.running.lanes import Lanes
from weft.emulator.watch import Watch

table = Table()
_LANE = np.arange(32, dtype=np.int64)
_BIT = np.uint32(1) << np.arange(32, dtype=np.uint32)
_EVERY = np.uint32(0xFFFFFFFF)


def ballot(votes: Bools) -> Array:
    """The votes of each warp as a bit mask, `[warps, 1]`."""
    return np.bitwise_or.reduce(np.where(votes, _BIT, np.uint32(0)), axis=1, keepdims=True)


def _optional(op: Op, operand: Operand | None) -> int:
    return op.slots.scrap(PRED) if operand is None else op.destination(operand, PRED)


@table.collective("shfl.sync")
def shfl(op: Op) -> Collective:
    mode = op.choice(["up", "down", "bfly", "idx"])
    op.type("b32")
    op.count(5)
    first, second = op.pair(0)
    result, valid = op.destination(first, U32), _optional(op, second)
    value, by, control = (op.source(i, B32) for i in (1, 2, 3))
    members, line = op.source(4, U32), op.line

    def sources(read: Callable[[int], Array]) -> tuple[Array, Bools]:
        """The lane that each lane reads, and whether the one that it names is in its segment."""
        distance, ends = (read(by) & np.uint32(31)).astype(np.int64), read(control).astype(np.int64)
        lane = named_lane(_LANE, distance, ends, mode)
        inside: Bools = beyond_segment(_LANE, lane, ends, mode) <= 0
        return np.where(inside, lane, _LANE), inside

    op.sources.append((value, lambda read: sources(read)[0]))

    def run(lanes: Lanes) -> None:
        lane, inside = sources(lanes.read)
        if (watch := lanes.wave.watch) is not None:
            _check_sources(watch, lanes, lane, lanes.read(members), line)
        source = lanes.read(value)
        lanes.write(result, np.take_along_axis(source, lane, axis=1))
        if second is not None:
            lanes.write(valid, inside)

    exchange = Exchange(f"shfl.{mode}", (result, valid, value, by, control, members))
    return Collective(run, members, exchange=exchange)


def _check_sources(
    watch: Watch, lanes: Lanes, sources: npt.NDArray[np.int64], members: Array, line: int
) -> None:
    """Reports lanes that read registers of lanes that don't take part, for which PTX defines no result."""
    if lanes.mask is None and (members == _EVERY).all():
        return
    enabled = lanes.enabled()
    named = (members >> sources.astype(np.uint32) & np.uint32(1)).astype(np.bool_)
    absent: Bools = enabled & ~(named & np.take_along_axis(enabled, sources, axis=1))
    if absent.any():
        at = divmod(int(absent.argmax()), 32)
        why = "doesn't run" if named[at] else f"isn't in the member mask 0x{members[at]:x}"
        what = f"lane {sources[at]}, which {why}, is read by shfl.sync"
        watch.absent_source(lanes.narrowed(absent).threads(), what, line)


@table.collective("vote.sync")
def vote(op: Op) -> Collective:
    mode = op.choice(["all", "any", "uni", "ballot"])
    op.type("b32" if mode == "ballot" else "pred")
    op.count(3)
    result = op.destination(0, U32 if mode == "ballot" else PRED)
    slot, negated = op.predicate(1)
    members = op.source(2, U32)

    def run(lanes: Lanes) -> None:
        enabled = lanes.enabled()
        votes = lanes.read(slot) ^ negated
        asked = ballot(enabled) & lanes.read(members)
        held = ballot(votes & enabled) & asked
        if mode == "ballot":
            lanes.write(result, held)
        elif mode == "any":
            lanes.write(result, held != 0)
        else:
            agreed = held == asked
            lanes.write(result, agreed | (held == 0) if mode == "uni" else agreed)

    exchange = Exchange(f"vote.{mode}", (result, slot, members), negated)
    return Collective(run, members, exchange=exchange)


@table.step("activemask")
def activemask(op: Op) -> Step:
    op.type("b32")
    op.count(1)
    result = op.destination(0, U32)

    def run(lanes: Lanes) -> None:
        lanes.write(result, np.repeat(ballot(lanes.enabled()), 32, axis=1))

    return run


@table.collective("match.any.sync", "match.all.sync", "match.sync")
def match(op: Op) -> Collective:
    mode = (
        "all"
        if op.prefix == "match.all.sync"
        else "any"
        if op.prefix != "match.sync"
        else op.choice(["all", "any"])
    )
    kind = op.type("b32 b64")
    op.count(3)
    first, second = op.pair(0)
    result, same = op.destination(first, U32), _optional(op, second)
    value, members = op.source(1, kind), op.source(2, U32)

    def run(lanes: Lanes) -> None:
        values, asked = lanes.read(value), lanes.read(members)
        together = lanes.enabled()[:, None, :] & ((asked[:, :, None] & _BIT) != 0)
        equal = values[:, :, None] == values[:, None, :]
        if mode == "any":
            mask = np.bitwise_or.reduce(np.where(equal & together, _BIT, np.uint32(0)), axis=2)
            lanes.write(result, mask)
            return
        agreed = (equal | ~together).all(axis=2)
        mask = np.bitwise_or.reduce(np.where(together, _BIT, np.uint32(0)), axis=2)
        lanes.write(result, np.where(agreed, mask, np.uint32(0)))
        lanes.write(same, agreed)

    return Collective(run, members)


@table.collective("elect.sync")
def elect(op: Op) -> Collective:
    """The lowest of the member lanes is elected."""
    op.count(2)
    first, second = op.pair(0)
    leader, elected = op.destination(first, U32), _optional(op, second)
    members = op.source(1, U32)

    def run(lanes: Lanes) -> None:
        asked = ballot(lanes.enabled()) & lanes.read(members)
        lowest = asked & (~asked + np.uint32(1))
        lanes.write(leader, np.bitwise_count(lowest - np.uint32(1)).astype(np.uint32))
        lanes.write(elected, lowest == _BIT)

    return Collective(run, members, exchange=Exchange("elect", (leader, elected, members)))


@table.collective("redux.sync")
def redux(op: Op) -> Collective:
    name = op.choice(["add", "min", "max", "and", "or", "xor"])
    absolute, nan = op.flag("abs"), op.flag("NaN")
    kind = op.type("u32 s32 b32 f32")
    op.count(3)
    result, value, members = op.destination(0, U32), op.source(1, U32), op.source(2, U32)
    reduce, idle = _reduction(op, name, kind.name, nan)
    view = np.dtype(np.float32) if kind.is_float else kind.view

    def run(lanes: Lanes) -> None:
        values = lanes.read(value).view(view)
        if absolute:
            values = np.abs(values)
        asked = lanes.read(members)
        together = lanes.enabled()[:, None, :] & ((asked[:, :, None] & _BIT) != 0)
        lanes.write(result, reduce(np.where(together, values[:, None, :], idle)).view(np.uint32))

    return Collective(run, members)


def _reduction(op: Op, name: str, kind: str, nan: bool) -> tuple[Callable[[Array], Array], Any]:
    """How to reduce the last axis, and the neutral value."""
    ufuncs = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    ufunc = ufuncs[name]
    if kind == "f32":
        if name not in ("min", "max"):
            op.fail(f".{name} isn't defined for .f32")
        # If numbers win over NaN, NaN is neutral, and the result if there are no numbers.
        neutral = np.nan
        if nan:
            neutral = np.inf if name == "min" else -np.inf
        else:
            ufunc = np.fmin if name == "min" else np.fmax
        return lambda v: canonical(ufunc.reduce(v, axis=2), "f32").view(np.float32), np.float32(neutral)
    limits = np.iinfo(np.int32 if kind == "s32" else np.uint32)
    dtype = limits.dtype.type
    idle = {"min": dtype(limits.max), "max": dtype(limits.min), "and": _EVERY}.get(name, dtype(0))
    return lambda v: ufunc.reduce(v, axis=2, dtype=v.dtype), idle
