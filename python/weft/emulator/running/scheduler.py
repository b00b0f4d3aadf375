"""What the last instruction of a block asks of the scheduler."""

from typing import Protocol

from weft.emulator.reading.syntax import Bools
from weft.emulator.running.barriers import Barriers, ClusterBarriers
from weft.emulator.running.groups import CallSite, Group
from weft.emulator.running.wave import Wave


class Scheduler(Protocol):
    """Runs the groups of a wave. Methods that return a block return -1 if the group can't continue."""

    wave: Wave
    barriers: Barriers
    clusters: ClusterBarriers

    def put(self, group: Group) -> None:
        """Makes a group ready to run, merged with the group at the same block of the same call."""

    def part(self, group: Group, mask: Bools, after: int) -> None:
        """Keeps the lanes of `mask` in `group` and sends its other lanes to block `after`."""

    def gather(self, group: Group, members: int | None) -> bool:
        """Whether the lanes that a collective instruction needs are together.

        `members` is the slot of the member mask (None: all lanes that haven't exited). Warps that lack a lane
        are taken out of the group and wait at its block; False when no warp is left.
        """

    def join(self, group: Group) -> None:
        """Adds threads that wait at the group's block: with random turns, warps don't merge by themselves."""

    def gather_warpgroups(self, group: Group) -> bool:
        """Whether all four warps of each of the group's warpgroups are there; the other warps wait."""

    def hold(self, group: Group) -> None:
        """Leaves `group` at its block until its `stalled` is cleared."""

    def stall(self, group: Group, awaits: tuple[tuple[int, int], ...], ticks: int) -> int:
        """Leaves `group` at its block until a phase of one of these mbarriers completes, or `ticks` pass."""

    def call(self, group: Group, site: CallSite) -> int:
        """Enters a function, whose frame follows the caller's, and returns its first block."""

    def leave(self, group: Group) -> int:
        """Returns from a function; returns the block after the call."""

    def exit(self, group: Group) -> int:
        """Ends the group's threads, and lets threads continue that waited for them."""
