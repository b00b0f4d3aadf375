"""The properties of a program that the sanitizer's rules depend on, and rules of a whole launch: registers of
warpgroups (`setmaxnreg`), the wait of a dependent launch for the previous one, and requests for clusters
that have not started, which must not follow a response without a cluster.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod

from weft.emulator.decoding.program import Program
from weft.emulator.decoding.table import Step
from weft.emulator.errors import Thread
from weft.emulator.memory.segments import LEVELS, WORLD_LEVELS, Access
from weft.emulator.reading.syntax import Bools, Integer
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.clocks import Clocks, Rows, VectorClocks, rows_of
from weft.emulator.sanitizer.dataflow import (
    NOTHING,
    Watched,
    constant_loads,
    ignored_waits,
    matrix_loads,
    watched,
)
from weft.emulator.sanitizer.discards import Use, discarding, early
from weft.emulator.sanitizer.findings import Findings
from weft.emulator.sanitizer.global_memory import needed_elements
from weft.emulator.watch import Chunks, Offsets, Traffic
from weft.isa.chips import register_share

_GROUP = 4
_INC = "setmaxnreg.inc"


def registers_at_entry(program: Program) -> int | None:
    """The registers of each thread as a kernel with setmaxnreg begins; None: ptxas ignores setmaxnreg.

    ptxas allocates no more than the largest `setmaxnreg.inc` asks for.
    """
    function = program.entry.function
    directives = function.directives
    threads = directives.get("reqntid") or directives.get("maxntid")
    ctas = directives.get("minnctapersm")
    if "maxnreg" in directives:
        (most,) = directives["maxnreg"]
    elif threads and ctas:
        most = register_share(prod(threads) * ctas[0])
    else:
        return None
    increases = (each.operands[0] for each in function.body or () if each.opcode.startswith(_INC))
    asked = [count.value for count in increases if isinstance(count, Integer)]
    return min(most, max(asked, default=most))


class RegisterPool:
    """The registers of each warp's threads, by CTA of the wave; `setmaxnreg.inc` waits until enough are free.

    `most`: what they are at first; None: the compiler chooses.
    """

    def __init__(self, wave: Wave, findings: Findings, most: int | None) -> None:
        self.wave, self.findings = wave, findings
        self._fixed = most is not None
        self._first = register_share(wave.launch.threads) if most is None else most
        self._held: dict[int, int] = {}
        self._lines: dict[int, int] = {}
        self._short: dict[int, tuple[int, int, int]] = {}

    def changed(self, grows: bool, count: int, rows: Rows, line: int) -> None:
        """Warps request `count` registers for each thread, or release those above."""
        for row in rows.tolist():
            had = self._held.get(row, self._first)
            # Without .maxnreg the compiler may start with fewer than its share.
            known = self._fixed or row in self._held
            if known and count != had and (count > had) != grows:
                suffix, bound = ("inc", "at least") if grows else ("dec", "at most")
                what = f"setmaxnreg.{suffix} must ask for {bound} the {had} registers that the warp has"
                self._report(f"{what}, got {count}", row, line)
            self._held[row], self._lines[row] = count, line
        for cta in dict.fromkeys(self.wave.cta_of_row[rows].tolist()):
            warps = range(*self.wave.rows_of(cta).indices(self.wave.warps))
            asked = sum(self._held.get(row, self._first) for row in warps)
            if asked <= self._first * len(warps):
                self._short.pop(cta, None)
            elif grows or cta in self._short:
                self._short[cta] = int(rows[0]), line if grows else self._short[cta][1], asked

    def done(self) -> None:
        """The CTAs have ended. Warps that still wait for registers would wait forever on a GPU."""
        for row, line, asked in self._short.values():
            pool = self._first * self.wave.launch.warps
            what = f"setmaxnreg: the CTA's warps ask for {asked * 32} registers, but it has {pool * 32}"
            self._report(what, row, line)
        warps = self.wave.launch.warps
        for row, line in self._lines.items():
            rank = row % warps
            group = range(rank - rank % _GROUP, min(rank - rank % _GROUP + _GROUP, warps))
            absent = [each for each in group if row - rank + each not in self._held]
            if absent:
                what = f"setmaxnreg must be executed by a whole warpgroup, but not by warp {absent[0]}"
                self._report(what, row, line)

    def _report(self, what: str, row: int, line: int) -> None:
        self.findings.add("register-pool", what, line, self.wave.thread(row, 0))


class LaunchBefore:
    """A column of the clocks: warps ordered after a wait for the previous launch know its time."""

    def __init__(self, wave: Wave, clocks: VectorClocks, findings: Findings) -> None:
        self.wave, self.clocks, self.findings = wave, clocks, findings
        self._column = clocks.column("launch before", True)

    def waited(self, threads: Bools) -> None:
        """Threads have waited for the previous launch."""
        for row in rows_of(threads).tolist():
            self.clocks.learn(row, self._column, 1)

    def access(self, access: Access) -> None:
        """Threads access memory that the previous launch may still write."""
        rows = access.lanes.row_numbers()
        early = access.lanes.enabled() & (self.clocks.known[rows, self._column] == 0)[:, None]
        if early.any():
            what = f"is {_done(access.kind)} before griddepcontrol.wait"
            bad = early[access.lanes.enabled()]
            self.findings.add_lanes("griddepcontrol-wait", what, self.wave, access, bad)

    def unit_access(self, kind: str, addresses: Offsets | Chunks, threads: Bools, line: int) -> None:
        """An asynchronous unit accesses global memory for threads."""
        if not len(addresses):
            return
        each = addresses.first if isinstance(addresses, Chunks) else addresses
        first, rows = int(each[0]), rows_of(threads)
        segment = self.wave.memory.device.find(first)
        early = rows[self.clocks.known[rows, self._column] == 0]
        if len(early) and segment is not None and segment.of_others:
            row = int(early[0])
            thread = self.wave.thread(row, int(threads[row].argmax()))
            message = f"global memory at 0x{first:x} is {_done(kind)} before griddepcontrol.wait"
            self.findings.add("griddepcontrol-wait", message, line, thread, first)

    def order(self, threads: Bools, clock: Clocks) -> None:
        """Changes the clock of an mbarrier that waits for a unit's bytes. Threads that wait for them are
        ordered after the threads that requested them, and so after the previous launch if those were.
        """
        clock[0, self._column] |= int(self.clocks.known[rows_of(threads), self._column].max())

    def order_for(self, row: int, clock: Clocks) -> None:
        """`order` for threads of one warp."""
        clock[0, self._column] |= self.clocks.known[row, self._column]

    def waited_for(self, row: int) -> bool:
        """Whether a warp is ordered after the previous launch."""
        return self.clocks.known.item(row, self._column) > 0


def _done(kind: str) -> str:
    return "read" if kind == "load" else "written"


class LaunchCancels:
    """The responses without a cluster that clusters of a wave have got: the columns of the mbarriers that
    signal them, with their times, and the lines of the requests.
    """

    def __init__(self, clocks: VectorClocks, findings: Findings) -> None:
        self.clocks, self.findings = clocks, findings
        self._failed: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)

    def request(self, cluster: int, row: int, thread: Thread, line: int) -> None:
        """A thread of a warp, which must not know of such a response."""
        for column, time, since in self._failed[cluster]:
            if time <= self.clocks.known[row, column]:
                what = f"a cluster is requested after the response of line {since}, which has none"
                self.findings.add("launch-cancel", what, line, thread)
                break

    def fail(self, cluster: int, mbarriers: tuple[tuple[int, int], ...], line: int) -> None:
        """A request will get such a response, which these mbarriers signal."""
        for mbarrier in mbarriers:
            column = self.clocks.column(("mbarrier", *mbarrier))
            self._failed[cluster].append((column, self.clocks.times[column] + 1, line))


_COPIES = {f"cp.{unit}.bulk{tensor}" for unit in ("async", "reduce.async") for tensor in ("", ".tensor")}


@dataclass(frozen=True)
class Kernel:
    """The properties of a program that rules depend on.

    `calls`: it has functions. `tensor_fences`: which of tcgen05.fence::before_thread_sync and
    ::after_thread_sync it has; compilers that emit none order tensor memory by barriers alone. `levels`: the
    scopes of its accesses and fences that order others. `global_copies`: it has bulk copies, which may access
    global memory. `most_registers`: a thread's registers according to `.maxnreg`. `ignored_waits`: the lines
    of waits for mbarriers whose result nothing reads. `discarding`: the lines of loads that some lanes
    discard, and which lanes use them. `early`: the steps that compute what this depends on. `matrix_loads`:
    the instructions by which the `program` loads what may be followed: see `Undefined`. `needed`: the
    elements of loads that aren't just copied. `constant`: the lines of `ld.global.nc`. `watched`: the
    registers whose uses the program announces. `init_fences`: asynchronous units need a fence after the init
    of an mbarrier of their own CTA, too. `by_lane`: what a lane of a warp releases or acquires counts for the
    others only from the warp's next barrier on. `in_world`: several GPUs run.
    """

    calls: bool = False
    tensor_fences: frozenset[str] = frozenset()
    global_copies: bool = False
    levels: frozenset[int] = frozenset(LEVELS.values())
    most_registers: int | None = None
    ignored_waits: frozenset[int] = frozenset()
    discarding: Mapping[int, Use] = field(default_factory=dict)
    early: tuple[Step, ...] = ()
    matrix_loads: Mapping[int, Traffic] = field(default_factory=dict)
    program: Program | None = None
    needed: Mapping[int, Bools] = field(default_factory=dict)
    constant: frozenset[int] = frozenset()
    watched: Watched = NOTHING
    init_fences: bool = False
    by_lane: bool = False
    in_world: bool = False

    @classmethod
    def of(cls, program: Program, *, strict: bool = False) -> "Kernel":
        """The properties of a program; `strict`: also what PTX requires and hardware is known not to need."""
        opcodes = {opcode for block in program.blocks for opcode in block.opcodes}
        copies = bool(opcodes & _COPIES)
        tensor = any(opcode.startswith("tcgen05.alloc") for opcode in opcodes)
        fences_inits = strict or any(code.fences_inits for code in program.codes.values())
        fences = frozenset(
            kind
            for kind in ("before", "after")
            if (strict and tensor) or f"tcgen05.fence::{kind}_thread_sync" in opcodes
        )
        registers_to_watch = watched(program)
        if strict:
            registers_to_watch = replace(registers_to_watch, loads_are_waited_for=True)
        levels = frozenset(level for code in program.codes.values() for level in code.levels)
        return cls(
            calls=len(program.codes) > 1,
            tensor_fences=fences,
            global_copies=copies,
            levels=levels,
            most_registers=registers_at_entry(program),
            ignored_waits=ignored_waits(program),
            discarding=discarding(program),
            early=early(program),
            matrix_loads=matrix_loads(program),
            program=program,
            needed=needed_elements(program),
            constant=constant_loads(program),
            watched=registers_to_watch,
            init_fences=fences_inits and (copies or tensor),
            by_lane=strict,
            in_world=program.scopes is WORLD_LEVELS,
        )

    def begin(self, wave: Wave) -> None:
        """Computes registers that no thread changes before the wave does."""
        for step in self.early:
            step(Lanes(wave, None, None, wave.warps))


ANY_KERNEL = Kernel()
"""The properties of a program of which nothing is known."""
