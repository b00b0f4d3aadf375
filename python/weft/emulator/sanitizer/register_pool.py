"""Whether whole warpgroups execute setmaxnreg, and request no more registers than the CTA started with."""

from math import prod

from weft.emulator.decoding.program import Program
from weft.emulator.reading.syntax import Integer
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.clocks import Rows
from weft.emulator.sanitizer.findings import Findings
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
