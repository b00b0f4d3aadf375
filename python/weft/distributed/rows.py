"""Rows of all GPUs in one array: for products along these rows, such as gradients of weights.

Copy engines push each rank's rows to the others while other kernels run. A barrier of all ranks follows
before the rows are read, which needs the memory of both halves as kernels do (`teams`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from operator import mul

from weft.distributed.devices import Array, Memory
from weft.distributed.gather import Gather
from weft.distributed.plans import Function, plan_of
from weft.distributed.teams import Team
from weft.errors import WeftError
from weft.launch import arrays


@dataclass(frozen=True)
class Rows:
    """The rows that one rank gives."""

    shape: tuple[int, int]
    dtype: str

    def __str__(self) -> str:
        return f"all_gather_rows of {' x '.join(map(str, self.shape))} of {self.dtype}"

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * arrays.numpy_dtype(self.dtype).itemsize

    @classmethod
    def of(cls, array: Array) -> "Rows":
        """Those of a matrix. Raises WeftError for other arrays."""
        view = arrays.view(array)
        contiguous = view.strides == arrays.contiguous_strides(view.shape)
        if len(view.shape) != 2 or not contiguous or 0 in view.shape:
            raise WeftError(
                f"all_gather_rows: a must be a contiguous matrix with elements, got shape {view.shape} and "
                f"strides {view.strides}"
            )
        return cls(view.shape, view.dtype)


def all_gather_rows(a: Array, *, team: Team) -> Array:
    """The rows of `a` of all ranks, in the order of ranks, as a new array."""
    return gathering(a, team)()


def gathering(a: Array, team: Team) -> Callable[[], Array]:
    """Begins to gather the rows of `a` of all ranks. What the caller queues before it calls the result runs
    beside the copies. The call returns the rows as a new array.
    """
    with team.lock:
        finish = plan_of("all_gather_rows", Gathering, team, (a,), (), lambda: Rows.of(a)).start((a,))

    def finished() -> Array:
        with team.lock:
            return finish()

    return finished


class Gathering:
    """Gathers rows of one shape again and again."""

    def __init__(self, rows: Rows, team: Team) -> None:
        self.rows, self.team = rows, team
        self.exchange = team.exchange("rows")
        self.exchange.reserve(team.size * rows.nbytes, 0)
        self.barrier = team.barrier()

    def run(self, operands: Sequence[Array]) -> Array:
        return self.start(operands)()

    def start(self, operands: Sequence[Array]) -> Callable[[], Array]:
        """Queues the copies. The result queues the rest, and returns all rows."""
        team, devices, size = self.team, self.team.devices, self.rows.nbytes
        (a,) = operands
        pushes, half = devices.pushes, team.begin(self.exchange).half
        pushes.wait(devices.caller().record())
        own = devices.of(a)
        routes = half.routes.get(self)
        if routes is None:
            peers = [(team.rank - step) % team.size for step in range(1, team.size)]
            routes = half.routes[self] = [half.data[peer].part(team.rank * size, size) for peer in peers]
        for to in routes:
            pushes.copy(to, own)
        return partial(self._finish, a, half.data[team.rank])

    def _finish(self, a: Array, arrived: Memory) -> Array:
        devices = self.team.devices
        caller = devices.caller()
        caller.wait(devices.pushes.record())
        self.barrier()
        return _all_rows(self.team, a, arrived)


def _all_rows(team: Team, a: Array, arrived: Memory) -> Array:
    """The rows of all ranks, of which those of others have arrived, as a new array; `a` are its own."""
    devices = team.devices
    count, columns = a.shape
    rows = devices.empty((team.size * count, columns), a)
    into, own, caller = devices.of(rows), devices.of(a), devices.caller()
    size = own.size
    before, after = team.rank * size, (team.rank + 1) * size
    caller.copy(into.part(before, size), own)
    for begin, end in ((0, before), (after, into.size)):
        if end > begin:
            caller.copy(into.part(begin, end - begin), arrived.part(begin, end - begin))
    return rows


class GatherWithRows(Gather):
    """A product with rows of all ranks, and these rows."""

    def run(self, operands: Sequence[Array]) -> Array:
        out, (arrived, *_) = self.multiplied(operands)
        return out, _all_rows(self.team, operands[0], arrived)


WITH_ROWS = Function("all_gather_matmul with rows", GatherWithRows, mul)
"""Returns the result of `all_gather_matmul`, and the rows of all ranks: of D and of A."""
