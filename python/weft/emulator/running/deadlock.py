"""What warps wait for when none can continue. The report groups them by cluster, and warps with the same
state.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.emulator.errors import Deadlock
from weft.emulator.memory.mbarrier import State
from weft.emulator.running.groups import Group
from weft.emulator.running.lanes import Lanes, runs
from weft.emulator.running.wave import Wave
from weft.isa.mbarriers import BYTES

Block = tuple[int, int, int]
_MOST_LINES = 24
_WARP = 32
# What instructions wait for, other than lanes and mbarriers.
_AWAITED = {"tcgen05.alloc": "free columns of tensor memory, or for the other CTA of its pair"}

_FOR_LANES = "for other lanes of its warp"


@dataclass(frozen=True)
class Awaited:
    """An mbarrier that a warp waits for: the coordinates of its CTA, its rank in the cluster, and its state.
    `stage` is the stage of the ring that it guards, if it guards one.
    """

    block: Block
    rank: int
    offset: int
    state: State
    stage: "Stage | None" = None

    def __str__(self) -> str:
        return f"mbarrier at 0x{self.offset:x} of block {self.block}: {self.lacks()}"

    def lacks(self) -> str:
        """Its state."""
        state = self.state
        pending = f"{state.pending} of {state.expected} arrivals pending"
        count = f"transaction count {state.tx}" + (f": {_bytes_of(state.tx)}" if state.tx else "")
        return f"phase parity {state.parity}, {pending}, {count}"


@dataclass(frozen=True)
class Stage:
    """One stage of a ring whose mbarriers were initialized from `line` on. A warp waits for it to be `full`,
    or to be empty.
    """

    line: int
    number: int
    full: bool

    def verdict(self, state: State) -> str:
        """The event that never happens, and what is missing."""
        missing = f"{state.pending} of {state.expected} arrivals are missing"
        if state.tx > 0:
            missing = f"{state.pending} of {state.expected} arrivals and {_bytes_of(state.tx)}"
        elif state.tx:
            missing += f", and {_bytes_of(state.tx)}"
        what = "filled" if self.full else "released"
        return f"stage {self.number} of the ring created at line {self.line} is never {what}: {missing}"


def _bytes_of(transactions: int) -> str:
    """What a transaction count that isn't 0 means."""
    if transactions > 0:
        return f"{transactions} bytes are missing"
    return f"{-transactions} bytes more have arrived than were expected"


@dataclass(frozen=True)
class Wait:
    """A warp that waits `at` a line for `what`, or for mbarriers. `cluster` is the first CTA of its
    cluster.
    """

    cluster: Block
    block: Block
    rank: int
    warp: int
    lanes: int
    at: str
    what: str = ""
    awaits: tuple[Awaited, ...] = ()
    line: int = 0

    def __str__(self) -> str:
        names = [f"the mbarrier at 0x{b.offset:x} of block {b.block}" for b in self.awaits]
        what = self.what or "for " + " and ".join(names)
        return f"block {self.block} warp {self.warp} ({self.lanes} lanes) waits {self.at} {what}"

    @property
    def like(self) -> tuple[object, ...]:
        """What warps that share a line of the report have in common."""
        ranks = ("" if b.rank == self.rank else f" of rank {b.rank}" for b in self.awaits)
        names = [f"the mbarrier at 0x{b.offset:x}{rank}" for b, rank in zip(self.awaits, ranks, strict=True)]
        what = self.what or "for " + " and ".join(names)
        return self.rank, self.lanes, self.at, what, tuple((b.lacks(), b.stage) for b in self.awaits)


def waits_of(
    lanes: Lanes, line: int, at: str, what: str, awaits: Mapping[int, Sequence[Awaited]] | None = None
) -> list[Wait]:
    """One for each warp of `lanes`. `awaits` has the awaited mbarriers by the first CTA of their cluster."""
    wave, waits = lanes.wave, list[Wait]()
    enabled = lanes.enabled()
    for position, row in enumerate(lanes.row_numbers().tolist()):
        cta = int(wave.cta_of_row[row])
        first = wave.cluster_ctas(cta).start
        seen = tuple((awaits or {}).get(first, ()))
        own = tuple(b for b in seen if b.block == wave.cta(row)) or seen
        waits.append(
            Wait(
                wave.cta(wave.rows_of(first).start),
                wave.cta(row),
                wave.cluster_rank(cta),
                int(wave.warp_of_row[row]),
                int(np.count_nonzero(enabled[position])),
                *(at, what, own, line),
            )
        )
    return waits


def stuck(waits: Sequence[Wait]) -> Deadlock:
    """The error that reports these warps."""
    line = min((wait.line for wait in waits if wait.line), default=0)
    barriers = dict.fromkeys(barrier for wait in waits for barrier in wait.awaits)
    error = Deadlock((*sorted(map(str, waits)), *map(str, barriers)), report(waits), line)
    error.lanes_apart = bool(_apart(waits))
    return error


def _apart(waits: Iterable[Wait]) -> list[int]:
    """The warps of which some lanes wait at one instruction for others, and these at another one."""
    lines: dict[tuple[Block, int], set[int]] = {}
    for wait in waits:
        if wait.what == _FOR_LANES:
            lines.setdefault((wait.block, wait.warp), set()).add(wait.line)
    return sorted({warp for (_, warp), found in lines.items() if len(found) > 1})


def report(waits: Sequence[Wait]) -> list[str]:
    """The lines of the message: what each cluster waits for, once for all clusters that wait for the same."""
    clusters: dict[Block, list[Wait]] = {}
    for wait in waits:
        clusters.setdefault(wait.cluster, []).append(wait)
    alone = all(wait.cluster == wait.block for wait in waits)
    kinds: dict[tuple[str, ...], list[Block]] = {}
    for first, members in clusters.items():
        kinds.setdefault(tuple(_of_cluster(members, alone)), []).append(first)
    lines: list[str] = []
    for texts, firsts in sorted(kinds.items(), key=lambda kind: -len(kind[1])):
        name = f"block {firsts[0]}" if alone else f"the cluster of block {firsts[0]}"
        more = f" and {len(firsts) - 1} more like it, up to {firsts[-1]}" if len(firsts) > 1 else ""
        lines += [f"{name}{more}:", *(f"  {line}" for line in texts)]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"and {len(lines) - _MOST_LINES} more lines: `waiting` has every warp"]
    return lines


def _of_cluster(waits: Sequence[Wait], alone: bool) -> Iterable[str]:
    groups: dict[tuple[object, ...], list[Wait]] = {}
    for wait in sorted(waits, key=lambda wait: (wait.rank, wait.line, wait.warp)):
        groups.setdefault(wait.like, []).append(wait)
    for like, members in groups.items():
        rank, lanes, at, what, _ = like
        warps = sorted({wait.warp for wait in members})
        who = f"warp{'s' if len(warps) > 1 else ''} {_ranges(warps)}"
        each = (
            ""
            if lanes == _WARP
            else f" ({lanes} lane{'' if lanes == 1 else 's'}{' each' * (len(warps) > 1)})"
        )
        of = "" if alone else f"rank {rank}, "
        yield f"{of}{who}{each} wait{'' if len(warps) > 1 else 's'} {at} {what}"
        for barrier in members[0].awaits:
            yield "  " + (barrier.stage.verdict(barrier.state) if barrier.stage else barrier.lacks())
    if apart := _apart(waits):
        of = f"warp{'s' if len(apart) > 1 else ''} {_ranges(apart)}"
        yield f"lanes of {of} wait for each other at several instructions: all must execute one"


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers, with runs of them written as first and last."""
    return ", ".join(
        f"{a}" if a == b else f"{a} to {b}" if b > a + 1 else f"{a}, {b}" for a, b in runs(numbers)
    )


def stages(inits: Sequence[tuple[int, int]]) -> dict[int, Stage]:
    """The stages that mbarriers guard, by offset, if they were initialized in the order of Weft's rings: full
    and empty of each stage in turn, with all full ones before all empty ones in memory. `inits` has offsets
    and lines.
    """
    by_offset: dict[int, Stage] = {}
    at = 0
    while at + 3 < len(inits):
        (full, line), (empty, _) = inits[at : at + 2]
        count = max(empty - full, 0) // BYTES
        ring = [full + BYTES * (number + part) for number in range(count) for part in (0, count)]
        if count < 2 or [offset for offset, _ in inits[at : at + len(ring)]] != ring:
            at += 1
            continue
        for position, offset in enumerate(ring):
            by_offset[offset] = Stage(line, position // 2, full=position % 2 == 0)
        at += len(ring)
    return by_offset


def waits_of_groups(groups: Iterable[Group], blocks: Sequence[Any], wave: Wave) -> list[Wait]:
    """Every warp of these groups that waits, or that spins in a loop. `blocks` are those of the program."""
    waits: list[Wait] = []
    for group in groups:
        block = blocks[group.block]
        if not group.stalled:
            near = f"near line {block.line}"
            waits += waits_of(group.lanes, block.line, near, "for memory that no thread changes")
            continue
        what = f"for {_AWAITED[block.waits]}" if block.waits in _AWAITED else _FOR_LANES
        at, awaits = f"at line {block.line} ({block.waits})", dict[int, list[Awaited]]()
        for cta, offset in group.awaits:
            inits = [(begin, line) for (owner, begin), line in wave.mbarriers.alive.items() if owner == cta]
            state, first = wave.mbarriers.state(cta, offset, 0), wave.cta(wave.rows_of(cta).start)
            awaited = Awaited(first, wave.cluster_rank(cta), offset, state, stages(inits).get(offset))
            awaits.setdefault(wave.cluster_ctas(cta).start, []).append(awaited)
        waits += waits_of(group.lanes, block.line, at, "" if awaits else what, awaits)
    return waits
