"""Products whose sums are added up over all GPUs: a kernel sends sums of others' rows and adds its own."""

from dataclasses import dataclass
from math import prod
from typing import Any

from weft.dialects.schedule import AnySchedule, WarpgroupSchedule, ceil_div
from weft.distributed.products import Product, described
from weft.distributed.teams import Team
from weft.errors import WeftError, shown
from weft.launch import arrays
from weft.launch.kernel import Kernel
from weft.multiply.matmul import Epilogue

_FLAG = 4


def matmul_reduce_scatter(
    a: Any,
    b: Any,
    *,
    team: Team,
    transpose_b: bool = False,
    epilogue: Epilogue | None = None,
    partials: str | None = None,
    schedule: AnySchedule | str | None = None,
) -> Any:
    """This rank's rows of the sum of `a @ b` of all ranks, as a new array.

    Each rank calls it with its own part of K: `a` (size * M x K) and `b` (K x N, or N x K with
    `transpose_b`), and gets M x N: rank i the rows from i * M on. Sums of other ranks are rounded to
    `partials` (f32, or f16 or bf16 as `a`, the default) before they are added: own sums first, then those of
    the others in the order of ranks, in f32. So the bits are the same in each run. `epilogue` is that of
    `weft.matmul`, for this rank's rows of the sum. The rest is as in `all_gather_matmul`. Raises WeftError
    for arrays that don't fit.
    """
    name = "matmul_reduce_scatter"
    product = described(name, team, a, b, transpose_b, epilogue, schedule)
    kind = product.dtype if partials is None else arrays.type_name(partials)
    if kind not in ("f32", product.dtype):
        raise WeftError(f"{name}: partials must be f32 or {product.dtype}, got {shown(partials)}")
    if product.a[0] % team.size:
        near = ceil_div(product.a[0], team.size) * team.size
        raise WeftError(
            f"{name}: rows of a must be a multiple of {team.size}, the number of ranks, got {product.a[0]}; "
            f"the next is {near}"
        )
    key = product, kind
    plan = team.plans.get(key)
    if plan is None:
        plan = team.plans[key] = _plan(product, kind, team)
    return plan.run(a, b, epilogue)


def _plan(product: Product, kind: str, team: Team) -> "_Scatter":
    """Agrees with the other ranks on a product, and compiles its kernel."""
    team.devices.agree((str(product), product, kind))
    rows, n = product.a[0] // team.size, product.n
    sizes = product.a[0], n, product.a[1]
    schedule = product.schedule_of(team.devices.chip, sizes)
    if not isinstance(schedule, WarpgroupSchedule):
        raise WeftError(f"{product.name}: needs a schedule of wgmma, on sm_90a, got {schedule}")
    kernel = product.kernel(
        team.devices.chip,
        ranks=(3, 2, 2),
        added=(("partials", kind, 1), ("signals", "i32", 1), ("peers", "i64", 2), ("team", "i32", 1)),
        sizes=sizes,
    )
    tiles = prod(
        ceil_div(extent, block * ctas) * ctas
        for extent, block, ctas in zip(
            schedule.swapped(rows, n), schedule.block[:2], schedule.cluster, strict=True
        )
    )
    parts = team.size * tiles * schedule.warpgroups
    sums = team.size * tiles * schedule.block[0] * schedule.block[1]
    exchange = team.exchange("scatter")
    exchange.reserve(sums * arrays.numpy_dtype(kind).itemsize, parts * _FLAG)
    return _Scatter(team, product, kernel, kind, sums, parts)


@dataclass
class _Scatter:
    """A product that is called again and again."""

    team: Team
    product: Product
    kernel: Kernel
    kind: str
    sums: int
    parts: int

    def run(self, a: Any, b: Any, epilogue: Epilogue | None) -> Any:
        """Queues the kernel."""
        team, product, devices = self.team, self.product, self.team.devices
        out = devices.empty((product.a[0] // team.size, product.n), a)
        left, *operands = product.views(a, b, out, epilogue, 1)
        exchange = team.exchange("scatter")
        caller = devices.caller()
        turn, rank = exchange.next(), team.rank
        views = [
            product.batch(left, team.size),
            *operands,
            turn.data[rank].view((self.sums,), self.kind),
            turn.flags[rank].view((self.parts,), "i32"),
            turn.peers.view((team.size, 2), "i64"),
            turn.state.view((4,), "i32"),
        ]
        caller.launch(self.kernel, views)
        return out
