"""Whether the warps of a dependent launch have waited for the previous launch."""

from weft.emulator.memory.access import Access
from weft.emulator.reading.types import Bools
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.clocks import Clocks, VectorClocks, rows_of
from weft.emulator.sanitizer.findings import Findings
from weft.emulator.watch import Chunks, Offsets


class LaunchBefore:
    """A column of the clocks. Warps that have waited for the previous launch, or are ordered after such a
    wait, know its time.
    """

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
