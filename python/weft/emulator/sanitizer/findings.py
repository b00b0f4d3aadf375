"""The sanitizer's rules, and the findings of a launch.

What a launch executed, and the sanitizer's findings, as notebooks show them.
"""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from weft.display.html import Html
from weft.emulator.errors import Source, Thread, source_of_lines, with_sources
from weft.emulator.memory.segments import Access
from weft.emulator.reading.syntax import Bools
from weft.emulator.running.wave import Wave
from weft.errors import WeftError, shown, with_cells
from weft.isa.computed import computed
from weft.isa.suggest import did_you_mean


def list_findings(page: Html, findings: Sequence["Finding"]) -> None:
    """Adds a table of findings to a page."""
    if not findings:
        page.note("The sanitizer found nothing.")
        return
    rows = []
    for each in findings:
        where = f"{each.line} ({each.source})" if each.source else each.line
        who = "" if each.thread is None else each.thread
        seed = "" if each.seed is None else each.seed
        rows.append((each.rule, each.message, where, who, each.count, seed))
    columns = ["rule", "what is wrong", "line of the PTX", "first thread", "times", "seed"]
    kept = columns if any(each.seed is not None for each in findings) else columns[:-1]
    page.table(kept, [row[: len(kept)] for row in rows])


RULES: dict[str, str] = {
    "fault": "The launch ended in a fault that no other rule names.",
    "endless": "A thread is in a loop that changes nothing and can't end.",
    "out-of-bounds": "An access is partly or wholly outside of allocated memory.",
    "misaligned": "The address of an access is not a multiple of its size.",
    "read-only": "A kernel writes to read-only memory.",
    "descriptor": "A matrix descriptor or a tensor map breaks a rule, such as one of alignment or swizzle.",
    "mbarrier-uninitialized": "An mbarrier is used before init, after inval, or after being overwritten.",
    "mbarrier-count": "An mbarrier's counts leave their range: more arrivals than pending, too many bytes. "
    "Or threads arrive, and nothing orders that after the phase before: its count may be too small.",
    "deadlock": "No warp could continue.",
    "uninitialized-shared": "Shared memory is read before anything has written it.",
    "uninitialized-local": "Local memory is read before its thread has written it.",
    "uninitialized-tensor": "Tensor memory is read before anything has written it.",
    "uninitialized-register": "A register is read before its thread has written it, and an address, a branch "
    "or a store depends on it.",
    "shared-race": "Warps access the same shared memory, one of them writes, and nothing orders them.",
    "global-race": "Warps access the same global memory, one of them writes, and nothing orders them; "
    "or ld.global.nc reads what the kernel has written.",
    "uninitialized-global": "Memory of malloc or an Unwritten array is read before anything has written it.",
    "async-not-awaited": "Shared memory is read or written before an asynchronous write to it was awaited.",
    "async-source-overwritten": "Shared memory is overwritten while an asynchronous unit may still read it.",
    "missing-proxy-fence": "An asynchronous unit accesses what threads wrote, or overwrites what they read, "
    "without a proxy fence before.",
    "async-at-exit": "A CTA ends while an asynchronous unit may still read or write its shared memory.",
    "cluster-exit": "A CTA accesses another CTA's shared memory, and that CTA may have ended.",
    "mbarrier-race": "An mbarrier is used, and initialized or invalidated, by threads that nothing orders.",
    "mbarrier-init-fence": "An mbarrier is used by another CTA or by a unit without a fence.mbarrier_init.",
    "wait-ignored": "No instruction uses the result of a wait for an mbarrier.",
    "mbarrier-init-twice": "mbarrier.init on a barrier that is in use, without an mbarrier.inval before.",
    "griddepcontrol-wait": "Global memory is accessed while the previous launch may still write it.",
    "mbarrier-transactions": "A kernel ends while an mbarrier's transaction count isn't zero.",
    "mbarrier-arrivals": "A kernel ends, and an mbarrier had some arrivals, but too few for a single phase.",
    "divergent-aligned": "An .aligned instruction is executed by a part of a warp.",
    "shuffle-source": "shfl.sync reads a register of a lane that has exited, or isn't in its member mask.",
    "register-pool": "setmaxnreg asks for too many registers, inc for fewer than before, dec for more, "
    "or only a part of a warpgroup executes it.",
    "wgmma-fence": "wgmma.mma_async uses registers that were read or written since the last wgmma.fence.",
    "wgmma-in-flight": "Registers of a wgmma.mma_async are used before wgmma.wait_group.",
    "launch-cancel": "A cluster's launch is requested after a response without a cluster was seen.",
    "tmem-access": "Tensor memory is accessed outside of its size or of the warp's lanes, or wrongly freed.",
    "tmem-race": "Tensor memory is accessed before earlier work on it has been awaited.",
    "tcgen05-fence": "Threads pass tensor memory to others without a tcgen05.fence on both sides.",
    "tcgen05-in-flight": "Registers of a tcgen05.ld are used before tcgen05.wait::ld.",
    "tmem-unallocated": "Columns of tensor memory are used without being allocated.",
    "tmem-pair": "A CTA allocates tensor memory for a pair before its peer is known to run.",
    "tmem-leaked": "Tensor memory is still allocated when its CTA ends.",
    "tmem-permit-kept": "A CTA that allocated tensor memory ends without tcgen05.relinquish_alloc_permit.",
}
_OLD_SPELLING = "uninitialised", "uninitialized"  # of rules, which `ignore` still takes
_MOST = 100


@dataclass(frozen=True)
class Finding:
    """One kind of mistake at one line of the PTX.

    `source` is file:line if the PTX has it, with the column in `column`, otherwise empty; where `line` is 0,
    it is the stream that did it.
    `thread` and `address` are those of the first of `count` occurrences. `seed` is that of the launch, if
    `explore` has tried several.
    """

    rule: str
    message: str
    line: int
    source: str = ""
    thread: Thread | None = None
    address: int | None = None
    count: int = 1
    seed: int | None = None
    column: int = 0

    def __str__(self) -> str:
        where = f"line {self.line}" + (f" ({self.source})" if self.source else "")
        where = self.source if not self.line and self.source else where
        who = f" in {self.thread}" if self.thread else ""
        seed = "" if self.seed is None else f" (seed {self.seed})"
        return with_cells(f"{where}: {self.rule}: {self.message}{who}{seed}")

    def _repr_html_(self) -> str:
        return FoundList([self])._repr_html_()


class FoundList(tuple[Finding, ...]):
    """Findings in the order of their lines."""

    def _repr_html_(self) -> str:
        page = Html("findings of the sanitizer")
        list_findings(page, self)
        return page.text()


def ignored_rules(names: object) -> frozenset[str]:
    """The rules to ignore, by their names. Raises WeftError for an unknown rule."""
    if isinstance(names, str) or not isinstance(names, Sequence | Set):
        raise WeftError(f"ignore must be a list of rules, got {shown(names)}")
    listed = [name.replace(*_OLD_SPELLING) if isinstance(name, str) else name for name in names]
    for name in listed:
        if name not in RULES:
            hint = did_you_mean(name, RULES) if isinstance(name, str) else ""
            raise WeftError(f"ignore must name rules of the sanitizer, got {shown(name)}{hint}")
    return frozenset(listed)


class Findings:
    """The findings of a launch: one for each rule and line, and at most `_MOST`. `user`: what has findings
    without a line.
    """

    def __init__(self, text: str, ignored: frozenset[str] = frozenset(), user: str = "") -> None:
        self._text, self._ignored, self._user = text, ignored, user
        self._found: dict[tuple[str, int], Finding] = {}
        self.told: Callable[[Finding], None] | None = None
        """Called with each finding of another rule or line than those before."""

    @computed
    def sources(self) -> dict[int, Source]:
        """The source location of each line of the PTX, if it has them."""
        return source_of_lines(self._text)

    def add(
        self,
        rule: str,
        message: str,
        line: int,
        thread: Thread | None = None,
        address: int | None = None,
        count: int = 1,
    ) -> None:
        """Records `count` occurrences of a mistake."""
        assert rule in RULES
        if rule in self._ignored:
            return
        known = self._found.get((rule, line))
        if known is not None:
            self._found[rule, line] = replace(known, count=known.count + count)
        elif len(self._found) < _MOST:
            at = self.sources.get(line)
            source = (str(at) if at else "") if line else self._user
            message, column = with_sources(message, self.sources), at.column if at else 0
            found = Finding(rule, message, line, source, thread, address, count, column=column)
            self._found[rule, line] = found
            if self.told is not None:
                self.told(found)

    def add_lanes(
        self,
        rule: str,
        what: str,
        wave: Wave,
        access: Access,
        bad: Bools,
        count: int = 1,
        lanes: Bools | None = None,
    ) -> None:
        """Records a mistake of an access: `bad` are its wrong parts, `count` for each of its lanes, or of
        `lanes` alone.
        """
        chosen = access.lanes.enabled() if lanes is None else lanes
        at = int(np.flatnonzero(chosen)[int(bad.argmax()) // count])
        thread = wave.thread(int(access.lanes.row_numbers()[at // 32]), at % 32)
        address = int(access.address.flat[at])
        message = f"{access.space} memory at 0x{address:x} {what}"
        times = int(np.count_nonzero(bad.reshape(-1, count).any(axis=1)))
        self.add(rule, message, access.line, thread, address, times)

    def all(self) -> FoundList:
        """The findings, in the order of their lines."""
        return FoundList(sorted(self._found.values(), key=lambda f: (f.line, f.rule)))
