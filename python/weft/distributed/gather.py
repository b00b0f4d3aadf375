"""Products with rows of A from all GPUs: copy engines send them to the others while a kernel multiplies."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from weft.dialects.schedule import AnySchedule
from weft.distributed import small_kernels
from weft.distributed.devices import Memory
from weft.distributed.products import Plan, Product, added_to, described, plan_of
from weft.distributed.teams import HALVES, Team, Turn
from weft.errors import WeftError
from weft.launch import arrays
from weft.launch.arrays import ArrayView
from weft.multiply.matmul import Epilogue

_MOST_CHUNKS = 4
_CHUNK = 1 << 24  # bytes, at least: a copy of fewer doesn't reach the speed of the links
_MOST_PUSHED = 6 << 20  # bytes that a kernel sends
_MOST_CTAS = 128
_ALIGNED = 16  # bytes: a vector of the kernel that sends rows
_FLAG = 4


def all_gather_matmul(
    a: Any,
    b: Any,
    *,
    team: Team,
    transpose_b: bool = False,
    epilogue: Epilogue | None = None,
    schedule: AnySchedule | str | None = None,
) -> Any:
    """`A @ b`, where A has the rows of `a` of all ranks, in the order of ranks. Returns a new array.

    Each rank calls it with `a` (M x K) and its own part of B (K x N, or N x K with `transpose_b`), and gets
    (size * M) x N. `a` must be contiguous. `epilogue` is that of `weft.matmul`; its residual has the shape of
    the result. All ranks must call products in the same order with the same shapes, types and options: the
    first call with new ones compares them. Elements are f16, bf16 and fp8. Nothing is waited for: kernels and
    copies are queued. Raises WeftError for arrays that don't fit.
    """
    name, added = "all_gather_matmul", added_to(epilogue)
    activation = None if epilogue is None else epilogue.activation
    operands, options = (a, b, *added.values()), (transpose_b, *added, activation, schedule)
    plan = plan_of(
        name, _plan, team, operands, options, lambda: described(name, a, b, transpose_b, epilogue, schedule)
    )
    return plan.run(operands)


def _plan(product: Product, team: Team) -> "GatherPlan":
    """The plan by which rows of this size come fastest: a function of shapes alone."""
    small = product.a_bytes * (team.size - 1) <= _MOST_PUSHED
    return (PushedGather if small and team.size > 1 else Gather)(product, team)


class GatherPlan(Plan):
    """A product with rows of all ranks, in matrices of this GPU's memory. `halves`: the kernel selects one of
    two halves of them. `chunks`: the flags of a rank's rows.
    """

    halves = 1
    chunks = 1

    def __init__(self, product: Product, team: Team) -> None:
        """Compiles the kernel."""
        m, k = product.a
        kernel = product.kernel(
            team.devices.chip,
            ranks=(2, 2, 3),
            added=(("gathered", product.dtype, 3), ("arrivals", "i32", 2), ("team", "i32", 1)),
            sizes=(team.size * m, product.n, k),
        )
        super().__init__(team, product, kernel)

    def result(self, operands: Sequence[Any]) -> Any:
        """A new array for the result."""
        shape = self.team.size * self.product.a[0], self.product.n
        return self.team.devices.empty(shape, operands[0])

    def views(self, operands: Sequence[Any], d: Any, memory: Sequence[Memory]) -> list[ArrayView]:
        size = self.team.size
        rows, arrivals, state = memory
        return [
            *self.product.views(operands, d, size),
            rows.view((self.halves * size, *self.product.a), self.product.dtype),
            arrivals.view((size, self.chunks), "i32"),
            state.view((4,), "i32"),
        ]


class PushedGather(GatherPlan):
    """A kernel before the product sends the rows, and counts the calls: for few rows, that takes less time
    than copy engines take to begin.
    """

    halves = HALVES

    def __init__(self, product: Product, team: Team) -> None:
        """Compiles the kernels, and makes room for the rows."""
        super().__init__(product, team)
        size = product.a_bytes
        self.memory = team.counted("rows", team.size * size, team.size * _FLAG)
        ctas = min(-(-size // small_kernels.PUSHED), _MOST_CTAS)
        self._push = small_kernels.push(ctas, team.devices.chip)

    def run(self, operands: Sequence[Any]) -> Any:
        devices, memory = self.team.devices, self.memory
        out, queue = self.result(operands), devices.caller()
        self.start(
            queue, self._push, operands[:1], (memory.peers, memory.state), partial(self._pushed, operands[0])
        )
        self.launch(queue, operands, out, (memory.data, memory.flags, memory.state))
        return out

    def _pushed(self, a: Any) -> list[ArrayView]:
        """What the kernel takes that sends rows. Raises WeftError for rows that it can't load."""
        if arrays.view(a).address % _ALIGNED:
            raise WeftError(f"{self.product.name}: a must begin at a multiple of {_ALIGNED} bytes")
        words = self.team.devices.of(a).view((self.product.a_bytes // 4,), "i32")
        return [words, *self.memory.views()]


class Gather(GatherPlan):
    """Copy engines send the rows while the kernel multiplies."""

    def __init__(self, product: Product, team: Team) -> None:
        """Compiles the kernel, and makes room for the rows."""
        super().__init__(product, team)
        self.chunks = max(min(product.a_bytes // _CHUNK, _MOST_CHUNKS), 1)
        self.exchange = team.exchange("gather")
        self.exchange.reserve(team.size * product.a_bytes, team.size * _MOST_CHUNKS * _FLAG)

    def run(self, operands: Sequence[Any]) -> Any:
        return self.queue(operands)[0]

    def queue(self, operands: Sequence[Any]) -> tuple[Any, Turn]:
        """Queues the product. Returns the result, and the memory to which rows of others come."""
        team, devices = self.team, self.team.devices
        if devices.captures:
            raise WeftError(
                f"{self.product.name}: calls with more than {_MOST_PUSHED >> 20} MiB of rows for other ranks "
                f"can't be captured in a graph, got {self.product.a_bytes * (team.size - 1)} bytes"
            )
        out = self.result(operands)
        caller, pushes = devices.caller(), devices.pushes
        turn = self.exchange.next()
        pushes.wait(caller.record())
        self._push(devices.of(operands[0]), turn)
        memory = turn.data[team.rank], turn.flags[team.rank], turn.state
        self.launch(caller, operands, out, memory)
        caller.wait(pushes.record())
        return out, turn

    def _push(self, a: Any, turn: Any) -> None:
        """Copies this rank's rows to the others, first to the rank that needs them first."""
        team, size = self.team, self.product.a_bytes
        row = size // self.product.a[0]
        rows = -(-self.product.a[0] // self.chunks)
        for step in range(1, team.size):
            peer = (team.rank - step) % team.size
            for chunk in range(self.chunks):
                begin = min(chunk * rows * row, size)
                count = min(rows * row, size - begin)
                to = turn.data[peer].part(team.rank * size + begin, count)
                if count:
                    team.devices.pushes.copy(to, a.part(begin, count))
                flag = (team.rank * self.chunks + chunk) * _FLAG
                team.devices.pushes.copy(turn.flags[peer].part(flag, _FLAG), turn.number)
