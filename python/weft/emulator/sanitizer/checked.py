"""Accesses that are checked, and what stores of several threads change."""

from dataclasses import dataclass

import numpy as np

from weft.emulator.memory.access import Access
from weft.emulator.reading.types import Array, Bools
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.findings import Findings
from weft.emulator.sanitizer.shadow import Index


@dataclass(frozen=True)
class Checked:
    """What is checked: granules, the warp that accesses each, and the line. Of threads: their access, the
    number of granules of each lane, and the lanes, by default all; otherwise a unit accesses them for a warp.
    """

    index: Index
    rows: Index
    line: int
    access: Access | None = None
    count: int = 1
    lanes: Bools | None = None

    def report(self, findings: Findings, wave: Wave, rule: str, name: str, what: str, bad: Bools) -> None:
        """Records what is wrong with `bad` granules; `name` is that of the first, with its address last."""
        if self.access is not None:
            findings.add_lanes(rule, what, wave, self.access, bad, self.count, self.lanes)
            return
        thread, count = wave.thread(int(self.rows[0]), 0), int(np.count_nonzero(bad))
        findings.add(rule, f"{name} {what}", self.line, thread, int(name.split()[-1], 16), count)


def at_once(of: Checked, wave: Wave, writers: Index, level: int) -> tuple[str, Bools]:
    """What is wrong with a store by which several warps write the same granules, whose last writers are
    `writers`, and which of them are.
    """
    mixed: Bools = writers != of.rows
    if np.count_nonzero(mixed):
        assert of.access is not None
        if level:
            mixed &= wave.distances(of.rows, writers) >= level
        else:
            mixed &= np.repeat(disagree(of.access, wave), of.count)
    alone = ", and their scopes don't include each other" if level else ""
    return f"is written by two warps at once{alone}", mixed


def changes(access: Access, wave: Wave) -> Bools:
    """The lanes of a store that change the value in memory; warps may write the same value without a race."""
    value = wave.memory.storing
    if value is None or value.shape != access.offsets.shape:
        return np.ones(access.lanes.active, np.bool_)
    enabled = access.lanes.enabled()
    there = access.segment.view(access.width)[access.offsets[enabled].view(np.intp) // access.width]
    return _differ(there, value[enabled])


def disagree(access: Access, wave: Wave) -> Bools:
    """The lanes of a store that write another value than the last lane with the same address."""
    value = wave.memory.storing
    if value is None or value.shape != access.offsets.shape:
        return np.ones(access.lanes.active, np.bool_)
    enabled = access.lanes.enabled()
    offsets, values = access.offsets[enabled], value[enabled]
    _, last, inverse = np.unique(offsets[::-1], return_index=True, return_inverse=True)
    winner = len(offsets) - 1 - last
    return _differ(values, values[winner[inverse[::-1]]])


def _differ(a: Array, b: Array) -> Bools:
    """The elements whose bits differ; as numbers, a NaN would differ from itself."""
    as_bytes = [np.ascontiguousarray(x).view(np.uint8).reshape(len(x), -1) for x in (a, b)]
    differ: Bools = np.logical_or.reduce(as_bytes[0] != as_bytes[1], axis=1)
    return differ
