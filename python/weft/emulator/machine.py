"""Runs a wave. Every thread has its own program counter, and threads with the same one execute together.

A group may have threads of many warps and CTAs. It splits when its threads diverge, and merges with a group
that is at the same block of the same call. Of several groups, the one at the lowest rank runs first (see
`flow`), so that threads that diverged meet again. Every QUANTUM instructions, the group that has waited
longest gets a time slice, so that none starves: a thread that spins until another one acts always sees it
act.
"""

import random
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.emulator.compiled.runtime import Runtime, Turn
from weft.emulator.compiled.tiers import Tier
from weft.emulator.decoding.program import Program
from weft.emulator.errors import Fault
from weft.emulator.memory.mbarrier import TEST_TICKS
from weft.emulator.reading.syntax import Bools
from weft.emulator.running.barriers import Barriers, ClusterBarriers
from weft.emulator.running.deadlock import Wait, stuck, waits_of_groups
from weft.emulator.running.function_code import MAX_FRAME
from weft.emulator.running.groups import CallSite, Frame, Group, Key, Priority, copy_frames
from weft.emulator.running.lanes import WARP, Lanes
from weft.emulator.running.totals import Totals
from weft.emulator.running.wave import Wave

QUANTUM = 2000
_SLICE = 500
_TURN = 20_000
_DEPTH_LIMIT = 1000
_PATIENCE = 5000
_BLOCKING_WAIT = 50
_SKEWED = 0.3
_NO_RANK = 1 << 62


class _Ready(dict[Key, Group]):
    """Ready groups; `marks` has their number at each block."""

    def __init__(self, marks: npt.NDArray[np.uint8], groups: dict[Key, Group]) -> None:
        super().__init__()
        self._marks = marks
        for key, group in groups.items():
            self[key] = group

    def __setitem__(self, key: Key, group: Group) -> None:
        self._marks[key[0]] += key not in self
        super().__setitem__(key, group)

    def pop(self, key: Key, *default: Any) -> Any:
        self._marks[key[0]] -= key in self
        return super().pop(key, *default)


class Machine:
    """The `Scheduler` of a wave. `run` is called until it returns True. With `skew` and a seed, lanes run
    ahead of their warps, as far as no instruction needs the whole warp.
    """

    def __init__(
        self,
        wave: Wave,
        program: Program,
        totals: Totals,
        seed: int | None,
        *,
        skew: bool = False,
        compiler: Tier | None = None,
    ) -> None:
        self.wave, self.program, self.totals = wave, program, totals
        self.ready: dict[Key, Group] = {}
        self.barriers, self.clusters = Barriers(wave, self.put), ClusterBarriers(wave, self.put)
        self.random = wave.random = None if seed is None else random.Random(seed)
        self._impatience, self._skew = 0, skew
        self.ticks = _TURN
        """The length of a turn, in instructions."""
        self.running: Lanes | None = None
        """The lanes that ran last: a fault that has no thread is attributed to them."""
        self._whole_warpgroups: Lanes | None = None
        """The lanes that were whole warpgroups last."""
        self._last_change: tuple[int, ...] = ()
        self._lowest: Priority = ()
        self._hold = self._rotated = 0
        wave.memory.reserve_local(program.entry.frame_size)
        root = Frame(None, None, program.entry, 0)
        self._compiler = compiler if compiler is not None and compiler.fits(wave) else None
        self._code: Runtime | None = None
        if self._compiler is not None and self._compiler.ready:
            self._compile(self._compiler)
        for threads in wave.parts(split=seed is not None):
            self.put(Group(program.entry.entry_block, root, Lanes.of(wave, threads)))

    # The loop

    def run(self) -> bool:
        """Runs until every thread has exited (True), or for a turn in which a thread polled memory (False).

        In the second case the thread may wait for another wave, or `totals.pause` has passed.
        """
        over = self._run()
        if self._code is not None:
            self._code.take_counts(self.totals.runs)
        return over

    def close(self) -> None:
        """After the end: drops all that refers to this machine or to its wave."""
        self.wave.close()
        vars(self).clear()

    def _run(self) -> bool:
        wave, totals = self.wave, self.totals
        stop, polls = wave.ticks + self.ticks, wave.polls
        group = self._pick()
        while group is not None:
            arrived = self._execute(group, stop) or self._ended(group)
            if not arrived:
                group = self._pick()
            elif self.ready:
                group = self._choose(group)
            if totals.pause is not None and totals.pauses() and group is not None:
                self.put(group)
                return False
            if wave.ticks > stop and group is not None:
                if wave.delayed:
                    wave.deliver()
                if wave.polls != polls:
                    self.put(group)
                    return False
                stop += self.ticks
        if self.ready or self.barriers.waited_for() or self.clusters.waiting:
            for group in self.ready.values():
                block, watch = self.program.blocks[group.block], wave.watch
                # It waits for lanes or warps that an `.aligned` instruction needs.
                if watch is not None and group.stalled and not group.awaits and block.whole:
                    watch.divergence(block.waits, group.lanes.threads(), block.line)
            raise stuck(self.waiting())
        while wave.delayed:
            wave.deliver()
        if wave.watch is not None:
            wave.watch.done()
        return True

    def _execute(self, group: Group, stop: int) -> bool:
        """Runs the steps of the group's block. True: compiled code has run them and more, and the group has
        just reached another block.
        """
        if self._code is not None:
            return self._execute_compiled(self._code, group, stop)
        steps, lanes = self.program.blocks[group.block].steps, group.lanes
        self.running = lanes
        for step in steps:
            step(lanes)
        if self._compiler is not None and self._compiler.interpreted(group.block, len(steps) + 1):
            self._compile(self._compiler)
        return False

    def _execute_compiled(self, code: Runtime, group: Group, stop: int) -> bool:
        """Runs compiled code, and the steps that there is none for, up to the end of a block."""
        totals, blocks = self.totals, self.program.blocks
        self.running = group.lanes
        at = interpreted = 0
        while True:
            totals.instructions = code.enter(group, at, totals.instructions, self._turn(stop))
            at = code.place
            if at < 0:
                if totals.seconds is not None:
                    totals.check_time(blocks[group.block].line)
                return True
            steps = blocks[group.block].steps
            if at == len(steps):
                break
            steps[at](group.lanes)
            at, interpreted = at + 1, interpreted + 1
        assert self._compiler is not None
        if self._compiler.interpreted(group.block, interpreted):
            self._compile(self._compiler)
        return False

    def _turn(self, stop: int) -> Turn:
        """When compiled code must let `_choose` decide: see `Turn`."""
        lowest = self._lowest[0] if self._lowest else _NO_RANK
        return stop, bool(self.ready), self._hold, self._rotated + QUANTUM, lowest

    def _compile(self, compiler: Tier) -> None:
        """Goes on with code of the host, or with code for more blocks."""
        if self._code is not None:
            self._code.take_counts(self.totals.runs)
        self._code = compiler.code(self.wave, self.totals.limit)
        self.ready = _Ready(self._code.marks, self.ready)

    def _ended(self, group: Group) -> bool:
        """Counts the block that a group has executed, and runs its end. False: the group can't continue."""
        wave, block, totals = self.wave, self.program.blocks[group.block], self.totals
        lanes = group.lanes
        totals.runs[group.block] += lanes.warps
        totals.instructions += len(block.opcodes) * lanes.warps
        wave.ticks += len(block.opcodes) + 1
        if wave.watch is not None:
            wave.watch.executed(group.block, lanes.row_numbers(), wave.ticks)
        if totals.instructions > totals.limit:
            raise Fault(f"reached the instruction limit of {totals.limit}", block.line)
        if totals.seconds is not None:
            totals.check_time(block.line)
        after = block.end.run(self, group)
        if wave.program is not None:
            # Goes on with another form of the program, without code of the host.
            assert isinstance(wave.program, Program)
            if self._code is not None:
                self._code.take_counts(totals.runs)
            self.program, wave.program, self._code, self._compiler = wave.program, None, None, None
        if after >= 0:
            group.block = after
        return after >= 0

    def _key(self, group: Group) -> Key:
        row = -1 if self.random is None else int(group.lanes.row_numbers()[0])
        return group.block, group.frame, row

    def _priority(self, group: Group) -> Priority:
        return (*group.frame.path, self.program.blocks[group.block].rank)

    def put(self, group: Group) -> None:
        key = self._key(group)
        other = self.ready.get(key)
        if other is not None:
            group = self._merged(group, other)
        group.since = self.wave.ticks
        self.ready[key] = group
        priority = self._priority(group)
        if not self._lowest or priority < self._lowest:
            self._lowest = priority

    def _merged(self, group: Group, other: Group) -> Group:
        threads = group.lanes.threads() | other.lanes.threads()
        return Group(group.block, group.frame, Lanes.of(self.wave, threads))

    def _choose(self, group: Group) -> Group | None:
        """The group that runs after `group` has reached its next block."""
        other = self.ready.pop(self._key(group), None)
        if other is not None:
            group = self._merged(group, other)
            self._refresh()
        ticks = self.wave.ticks
        if self._hold > ticks:
            return group
        if self.random is not None or ticks - self._rotated > QUANTUM:
            self.put(group)
            return self._pick()
        if self._lowest and self._lowest < self._priority(group):
            self.put(group)
            return self._pick()
        return group

    def _pick(self) -> Group | None:
        """Takes the group to run next; None if none can run."""
        if self.wave.delayed and self.random is not None and self.random.random() < 0.25:
            self.wave.deliver()
        ticks = self.wave.ticks
        for group in self.ready.values():
            # A group that has waited too long gives up and continues.
            if group.stalled and group.until and ticks > group.until:
                group.stalled, group.gave_up = False, True
        while not (able := [(key, group) for key, group in self.ready.items() if not group.stalled]):
            if not self._unstall():
                return None
        if self.random is not None:
            row = self.random.choice(able)[0][2]
            here = [key for key, _ in able if key[2] == row]
            # Mostly the lowest rank, so that lanes meet again; sometimes any, so that none starves.
            lowest = min(here, key=lambda k: self._priority(self.ready[k]))
            key = lowest if self.random.random() < 0.75 else self.random.choice(here)
            self._hold = ticks + self.random.randrange(1, 50)
        elif ticks - self._rotated > QUANTUM:
            key = min(able, key=lambda item: item[1].since)[0]
            self._rotated, self._hold = ticks, ticks + _SLICE
        else:
            key = min(able, key=lambda item: self._priority(item[1]))[0]
        group = self.ready.pop(key)
        if self._skew and self.random is not None and group.lanes.active > 1:
            group = self._skewed(group, key)
        self._refresh()
        return group

    def _skewed(self, group: Group, key: Key) -> Group:
        """Sometimes the first lane of a warp, or the others, which run ahead; the rest stays."""
        assert self.random is not None
        block = self.program.blocks[group.block]
        if block.whole or block.members is not None or self.random.random() > _SKEWED:
            return group
        threads = group.lanes.threads()
        row, lane = divmod(int(threads.argmax()), WARP)
        first = np.zeros_like(threads)
        first[row, lane] = True
        ahead, rest = (first, threads & ~first) if self.random.random() < 0.5 else (threads & ~first, first)
        staying = Group(group.block, group.frame, Lanes.of(self.wave, rest))
        staying.since = self.wave.ticks
        self.ready[key] = staying
        return Group(group.block, group.frame, Lanes.of(self.wave, ahead))

    def _unstall(self) -> bool:
        """What is left to do when no group can run; False if nothing is."""
        if self._release_warp_syncs():
            return True
        if self.wave.delayed:
            self.wave.deliver()
            return True
        waiting = [group for group in self.ready.values() if group.until]
        change = (self.wave.mbarriers.phases, self.wave.polls, int(np.count_nonzero(self.wave.live)))
        if change != self._last_change:
            self._last_change, self._impatience = change, 0
        # Groups that poll may try again, but not forever if nothing changes.
        blocking = any(g.until - g.since > TEST_TICKS for g in waiting)
        self._impatience += _BLOCKING_WAIT if blocking else 1
        if not waiting or self._impatience > _PATIENCE:
            return False
        for group in waiting:
            group.stalled, group.gave_up = False, True
        return True

    def _release_warp_syncs(self) -> bool:
        """Frees warps whose lanes wait at different `bar.warp.sync`s; False if none do."""
        wave, blocks = self.wave, self.program.blocks
        groups = [group for group in self.ready.values() if blocks[group.block].waits == "bar.warp.sync"]
        if len(groups) < 2:
            return False
        together = np.logical_or.reduce([group.lanes.threads() for group in groups])
        needed = np.zeros_like(together)
        for group in groups:
            rows = group.lanes.row_numbers()
            needed[rows] |= self.members(group.lanes, blocks[group.block].members)
        free = ~(needed & wave.live & ~together).any(axis=1) & together.any(axis=1)
        if not free.any():
            return False
        for key in [key for key, group in self.ready.items() if group in groups]:
            group = self.ready.pop(key)
            threads, end = group.lanes.threads(), blocks[group.block].end
            going, staying = threads & free[:, None], threads & ~free[:, None]
            if staying.any():
                rest = Group(group.block, group.frame, Lanes.of(wave, staying))
                self.put(rest)
                rest.stalled = True
            if going.any():
                self.put(Group(end.targets[0], group.frame, Lanes.of(wave, going)))
        return True

    def stall(self, group: Group, awaits: tuple[tuple[int, int], ...], ticks: int) -> int:
        if self._key(group) in self.ready:
            self.put(group)  # next to lanes of its own warps, which diverged from it: all of them poll again
            return -1
        self.hold(group)
        group.awaits, group.until = awaits, group.since + ticks
        for cta, offset in awaits:
            self.wave.mbarriers.wait(group, cta, offset)
        return -1

    def hold(self, group: Group) -> None:
        group.stalled, group.since = True, self.wave.ticks
        self.ready[self._key(group)] = group

    def _refresh(self) -> None:
        able = [self._priority(group) for group in self.ready.values() if not group.stalled]
        self._lowest = min(able, default=())

    # Called by the ends of blocks

    def part(self, group: Group, mask: Bools, after: int) -> None:
        lanes = group.lanes
        staying = np.zeros((self.wave.warps, 32), np.bool_)
        staying[slice(None) if lanes.rows is None else lanes.rows] = mask
        leaving = lanes.threads() & ~staying
        group.lanes = Lanes.of(self.wave, staying)
        self.put(Group(after, group.frame, Lanes.of(self.wave, leaving)))

    def gather(self, group: Group, members: int | None) -> bool:
        lanes = group.lanes
        lacking = (self.members(lanes, members) & ~lanes.enabled()).any(axis=1)
        if not lacking.any():
            return True
        return self._hold_back(group, lanes.row_numbers()[lacking])

    def join(self, group: Group) -> None:
        for key, other in list(self.ready.items()):
            if other.block == group.block and other.frame is group.frame and other.stalled:
                group.lanes = self._merged(group, self.ready.pop(key)).lanes

    def gather_warpgroups(self, group: Group) -> bool:
        wave = self.wave
        if group.lanes is self._whole_warpgroups:
            return True
        if group.lanes.rows is None and wave.launch.warps % 4 == 0:
            return True  # every warp of whole warpgroups
        rows = group.lanes.row_numbers()
        here = np.zeros(wave.warps, np.bool_)
        here[rows] = True
        first = rows - wave.warp_of_row[rows] % 4
        missing = np.zeros(len(rows), np.bool_)
        for at in range(4):
            mate = np.minimum(first + at, wave.warps - 1)
            there = (first + at < wave.warps) & here[mate] & (wave.cta_of_row[mate] == wave.cta_of_row[rows])
            missing |= ~there
        if not missing.any():
            self._whole_warpgroups = group.lanes
            return True
        return self._hold_back(group, rows[missing])

    def _hold_back(self, group: Group, rows: "np.ndarray[Any, np.dtype[np.intp]]") -> bool:
        """Takes the warps `rows` out of a group, to wait at its block; False if no warp is left."""
        lanes = group.lanes
        waiting = Group(group.block, group.frame, lanes)
        complete = len(rows) < lanes.warps
        if complete:
            threads = lanes.threads()
            staying = threads.copy()
            staying[rows] = False
            group.lanes = Lanes.of(self.wave, staying)
            waiting.lanes = Lanes.of(self.wave, threads & ~staying)
        other = self.ready.get(self._key(waiting))
        if other is None:
            self.hold(waiting)
        elif (waiting.lanes.threads().any(axis=1) & other.lanes.threads().any(axis=1)).any():
            self.put(waiting)  # with lanes of its own warps it may be complete: all of them check again
        else:
            self.hold(self._merged(waiting, other))
        return complete

    def members(self, lanes: Lanes, slot: int | None) -> Bools:
        """The live lanes that some active lane of the same warp names in a member mask, `[warps, 32]`."""
        live = lanes.chosen(self.wave.live)
        if slot is None:
            return live
        named = np.where(lanes.enabled(), lanes.read(slot), np.uint32(0))
        union = np.bitwise_or.reduce(named, axis=1, keepdims=True)
        return live & ((union >> np.arange(32, dtype=np.uint32)) & np.uint32(1)).astype(np.bool_)

    def exit(self, group: Group) -> int:
        wave = self.wave
        threads = group.lanes.threads()
        wave.live = wave.live & ~threads  # a new array, because groups may use the old one as their lanes
        if wave.watch is not None:
            wave.watch.exited(threads, self.program.blocks[group.block].line)
        for other in self.ready.values():
            other.stalled = False
        self._refresh()
        if self.barriers.pending:
            self.barriers.recheck()
        if self.clusters.waiting:
            self.clusters.recheck()
        return -1

    def call(self, group: Group, site: CallSite) -> int:
        lanes, code, caller = group.lanes, site.code, group.frame
        frame = caller.children.get(site)
        if frame is None:
            base = caller.base + caller.code.frame_size
            if base + code.frame_size > MAX_FRAME or len(caller.path) >= _DEPTH_LIMIT:
                raise Fault("stack overflow", self.program.blocks[site.block].line)
            frame = caller.children[site] = Frame(caller, site, code, base)
            frame.path = (*caller.path, self.program.blocks[site.block].rank)
            self.wave.memory.reserve_local(base + code.frame_size)
        values = [lanes.read(t.source) for t in site.arguments if not t.size]
        if code.recursive:
            threads = lanes.threads()
            for slot in range(code.base, code.frame + 1):
                old = frame.saved.get(slot, lanes.regs[slot])
                frame.saved[slot] = np.where(threads, lanes.regs[slot], old)
        for transfer, value in zip([t for t in site.arguments if not t.size], values, strict=True):
            lanes.write(transfer.target, value)
        copy_frames(lanes, site.arguments, caller.base, frame.base)
        lanes.write(code.frame, np.full((lanes.warps, 32), frame.base, np.uint64))
        group.frame = frame
        return code.entry_block

    def leave(self, group: Group) -> int:
        frame, lanes = group.frame, group.lanes
        assert frame.parent is not None and frame.site is not None
        moves = [t for t in frame.site.results if not t.size]
        values = [lanes.read(t.source) for t in moves]
        if frame.code.recursive:
            for slot, value in frame.saved.items():
                lanes.write(slot, lanes.chosen(value))
        for transfer, value in zip(moves, values, strict=True):
            lanes.write(transfer.target, value)
        copy_frames(lanes, frame.site.results, frame.base, frame.parent.base)
        group.frame = frame.parent
        return frame.site.after

    # Deadlock

    def waiting(self) -> list[Wait]:
        """Every warp that waits, or that spins in a loop."""
        groups = waits_of_groups(self.ready.values(), self.program.blocks, self.wave)
        return [*groups, *self.barriers.describe(), *self.clusters.describe()]
