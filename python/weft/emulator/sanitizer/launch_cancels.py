"""Requests for clusters that have not started: none must follow a response without a cluster."""

from collections import defaultdict

from weft.emulator.errors import Thread
from weft.emulator.sanitizer.clocks import VectorClocks
from weft.emulator.sanitizer.findings import Findings


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
