"""Products with rows of A from all GPUs: copy engines send them to the others while a kernel multiplies."""

from dataclasses import dataclass
from typing import Any

from weft.dialects.schedule import AnySchedule
from weft.distributed.products import Product, described
from weft.distributed.teams import Team
from weft.launch.kernel import Kernel
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
    product = described("all_gather_matmul", team, a, b, transpose_b, epilogue, schedule)
    plan = team.plans.get(product)
    if plan is None:
        plan = team.plans[product] = _plan(product, team)
    return plan.run(a, b, epilogue)


def _plan(product: Product, team: Team) -> "_Gather":
    """Agrees with the other ranks on a product, and compiles its kernel."""
    team.devices.agree(product)
    m, k = product.a
    n = product.n
    kernel = product.kernel(
        team.devices.chip,
        ranks=(2, 2, 3),
        added=(("gathered", product.dtype, 3), ("arrivals", "i32", 2), ("team", "i32", 1)),
        sizes=(team.size * m, n, k),
    )
    chunks = max(min(product.a_bytes // _CHUNK, _MOST_CHUNKS), 1)
    exchange = team.exchange("gather")
    exchange.reserve(team.size * product.a_bytes, team.size * _MOST_CHUNKS * _FLAG)
    return _Gather(team, product, kernel, chunks)


@dataclass
class _Gather:
    """A product that is called again and again."""

    team: Team
    product: Product
    kernel: Kernel
    chunks: int

    def run(self, a: Any, b: Any, epilogue: Epilogue | None) -> Any:
        """Queues copies and the kernel."""
        team, product, devices = self.team, self.product, self.team.devices
        (m, k), n = product.a, product.n
        out = devices.empty((team.size * m, n), a)
        operands = product.views(a, b, out, epilogue, team.size)
        turn = team.exchange("gather").next()
        mine = turn.data[team.rank], turn.flags[team.rank]
        views = [
            *operands,
            mine[0].view((team.size, m, k), product.dtype),
            mine[1].view((team.size, self.chunks), "i32"),
            turn.state.view((4,), "i32"),
        ]
        caller, pushes = devices.caller(), devices.pushes
        pushes.wait(caller.record())
        self._push(devices.of(operands[0]), turn)
        caller.launch(self.kernel, views)
        caller.wait(pushes.record())
        return out

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
