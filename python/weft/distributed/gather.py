"""Products with rows of A from all GPUs: copy engines send them to the others while a kernel multiplies."""

from collections.abc import Sequence
from typing import Any

from weft.dialects.schedule import AnySchedule
from weft.distributed.devices import Memory
from weft.distributed.products import Plan, Product, added_to, described, plan_of
from weft.distributed.teams import Team
from weft.launch.arrays import ArrayView
from weft.multiply.matmul import Epilogue

_MOST_CHUNKS = 4
_CHUNK = 1 << 24  # bytes, at least: a copy of fewer doesn't reach the speed of the links
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
        name, _Gather, team, operands, options, lambda: described(name, a, b, transpose_b, epilogue, schedule)
    )
    return plan.run(operands)


class _Gather(Plan):
    """A product with rows of all ranks."""

    def __init__(self, product: Product, team: Team) -> None:
        """Compiles the kernel, and makes room for the rows."""
        m, k = product.a
        kernel = product.kernel(
            team.devices.chip,
            ranks=(2, 2, 3),
            added=(("gathered", product.dtype, 3), ("arrivals", "i32", 2), ("team", "i32", 1)),
            sizes=(team.size * m, product.n, k),
        )
        super().__init__(team, product, kernel)
        self.chunks = max(min(product.a_bytes // _CHUNK, _MOST_CHUNKS), 1)
        self.exchange = team.exchange("gather")
        self.exchange.reserve(team.size * product.a_bytes, team.size * _MOST_CHUNKS * _FLAG)

    def run(self, operands: Sequence[Any]) -> Any:
        team, devices = self.team, self.team.devices
        out = devices.empty((team.size * self.product.a[0], self.product.n), operands[0])
        caller, pushes = devices.caller(), devices.pushes
        turn = self.exchange.next()
        pushes.wait(caller.record())
        self._push(devices.of(operands[0]), turn)
        memory = turn.data[team.rank], turn.flags[team.rank], turn.state
        self.launch(caller, operands, out, memory)
        caller.wait(pushes.record())
        return out

    def views(self, operands: Sequence[Any], d: Any, memory: Sequence[Memory]) -> list[ArrayView]:
        size = self.team.size
        rows, arrivals, state = memory
        return [
            *self.product.views(operands, d, size),
            rows.view((size, *self.product.a), self.product.dtype),
            arrivals.view((size, self.chunks), "i32"),
            state.view((4,), "i32"),
        ]

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
