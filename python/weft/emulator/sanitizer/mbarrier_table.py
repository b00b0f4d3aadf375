"""What the sanitizer knows of the mbarriers of a wave, in arrays that code of the host changes, too."""

import numpy as np
import numpy.typing as npt

from weft.emulator.memory.mbarrier import Key, Mbarriers
from weft.emulator.reading.types import Array
from weft.emulator.sanitizer.clocks import Clocks, Rows, VectorClocks

_ROOM = 16
NONE = -1


def _extended(old: Array, more: int, wider: int, fill: int) -> Array:
    """An array with more rows and wider ones. `np.pad` takes longer, and writes all zeros."""
    rows, *others = old.shape
    if others:
        others[-1] += wider
    shape = rows + more, *others
    new = np.full(shape, fill, old.dtype) if fill else np.zeros(shape, old.dtype)
    new[tuple(map(slice, old.shape))] = old
    return new


class MbarrierTable:
    """Arrays by the numbers of the mbarriers, and by clock columns where that is said.

    `pending` is what precedes the arrivals of this phase, `done` those of completed phases, `[mbarriers,
    layers, columns]`. `columns` has each mbarrier's own column. `init_rows` and `init_times` have the warp
    and time of the init. Warps that know `fenced_times` of `fenced_columns` are ordered after a fence after
    the init. `use_times`, `use_lines` and `use_orders` have the last use by each column, and the number of
    its first one (0: none).
    """

    def __init__(self, mbarriers: Mbarriers, clocks: VectorClocks) -> None:
        self._mbarriers, self._clocks = mbarriers, clocks
        self._size = self._width = 0
        self.pending: Clocks = np.zeros((0, clocks.layers, 0), np.int32)
        self.done = self.pending
        self.columns: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self.init_rows, self.init_times = self.columns, self.columns
        self.fenced_columns, self.fenced_times = self.columns, self.columns
        self.use_times: Clocks = np.zeros((0, 0), np.int32)
        self.use_lines, self.use_orders = self.use_times, self.use_times
        self.uses: npt.NDArray[np.int64] = np.zeros(1, np.int64)
        """The number of first uses."""

    def fit(self) -> None:
        """Makes the arrays large enough for all mbarriers and columns."""
        count, width = len(self._mbarriers.keys), self._clocks.all.shape[2]
        if count <= self._size and width == self._width:
            return
        more = max(2 * count, _ROOM) - self._size if count > self._size else 0
        wider = width - self._width
        self._size, self._width = self._size + more, width
        for name in ("columns", "init_rows", "init_times", "fenced_columns", "fenced_times"):
            setattr(self, name, _extended(getattr(self, name), more, 0, NONE))
        for name in ("use_times", "use_lines", "use_orders", "pending", "done"):
            setattr(self, name, _extended(getattr(self, name), more, wider, 0))

    def arrays(self) -> tuple[npt.NDArray[np.generic], ...]:
        """All arrays, in the order of `compiled.mbarrier_state.Field`."""
        return (
            *(self.pending, self.done, self.columns, self.init_rows, self.init_times),
            *(self.fenced_columns, self.fenced_times, self.use_times, self.use_lines, self.use_orders),
            self.uses,
        )

    def number(self, key: Key) -> int:
        """The number of an mbarrier, which the arrays have."""
        at = self._mbarriers.number(key)
        self.fit()
        return at

    def clocks(self, key: Key) -> tuple[Clocks, Clocks]:
        """Its `pending` and `done`, to be changed in place."""
        at = self.number(key)
        return self.pending[at], self.done[at]

    def phase_known(self, key: Key, row: int) -> bool:
        """Whether something orders what a warp does next after the end of an mbarrier's last phase."""
        at, column = self.number(key), self.column(key)
        known, signaled = self._clocks.known[row], self.use_orders[at, column]
        if signaled and known[column] < self.use_times[at, column]:
            return False
        return bool((self.done[at, 0] <= known).all())

    def column(self, key: Key) -> int:
        """Its own column."""
        column = self._clocks.column(("mbarrier", *key))
        at = self.number(key)
        self.columns[at] = column
        return column

    def begin(self, keys: list[Key], rows: Rows, times: Clocks) -> list[int]:
        """Different mbarriers are initialized; their uses begin anew. Returns their numbers."""
        numbers = [self._mbarriers.number(key) for key in keys]
        columns = [self._clocks.column(("mbarrier", *key)) for key in keys]
        self.fit()
        self.init_rows[numbers], self.init_times[numbers] = rows, times
        self.fenced_columns[numbers], self.columns[numbers] = NONE, columns
        self.use_orders[numbers] = 0
        return numbers

    def use(self, at: int, column: int, time: int, line: int) -> None:
        """The last use by a column."""
        self.use_times[at, column], self.use_lines[at, column] = time, line
        if not self.use_orders[at, column]:
            self.uses[0] += 1
            self.use_orders[at, column] = self.uses[0]

    def used(self, at: int) -> list[tuple[int, int, int]]:
        """Column, time and line of the uses, in the order of the first ones."""
        orders = self.use_orders[at]
        columns = np.flatnonzero(orders)
        columns = columns[np.argsort(orders[columns])]
        times, lines = self.use_times[at, columns], self.use_lines[at, columns]
        return list(zip(columns.tolist(), times.tolist(), lines.tolist(), strict=True))
