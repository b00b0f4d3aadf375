"""The options of `w.kernel`."""

from dataclasses import dataclass
from typing import Any

from weft.errors import WeftError, shown
from weft.isa.chips import LANES
from weft.isa.launch_limits import MOST_THREADS


@dataclass(frozen=True)
class Options:
    """The options of `w.kernel`."""

    grid: Any
    threads: Any
    persistent: Any
    cluster: Any = None
    dependent: bool | str = False

    @property
    def functions(self) -> tuple[Any, ...]:
        """What may be functions, whose global variables the kernel depends on."""
        return self.grid, self.threads, self.persistent, self.cluster


def checked_threads(threads: Any) -> Any:
    """The number of threads of a CTA without roles, or None. Raises WeftError for another value."""
    whole = isinstance(threads, int) and not isinstance(threads, bool)
    if threads is None or (whole and threads % LANES == 0 and LANES <= threads <= MOST_THREADS):
        return threads
    raise WeftError(f"threads must be a multiple of {LANES} in {LANES}..{MOST_THREADS}, got {shown(threads)}")
