"""Products whose sums are added up over all GPUs, all of which get them."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from weft.dialects.schedule import AnySchedule
from weft.distributed import scatter
from weft.distributed.devices import Memory
from weft.distributed.products import Plan, Product, added_to, described, plan_of
from weft.distributed.teams import Team
from weft.launch import arrays
from weft.launch.arrays import ArrayView
from weft.multiply.matmul import Epilogue

_FLAG = 4


def matmul_all_reduce(
    a: Any,
    b: Any,
    *,
    team: Team,
    transpose_b: bool = False,
    epilogue: Epilogue | None = None,
    partials: str | None = None,
    schedule: AnySchedule | str | None = None,
) -> Any:
    """The sum of `a @ b` of all ranks, on each rank, as a new array.

    Each rank calls it with its own part of K: `a` (M x K) and `b` (K x N, or N x K with `transpose_b`), and
    gets M x N. Sums are rounded to `partials` (f32, or f16 or bf16 as `a`, the default) and added in f32, in
    the order of ranks: all ranks get the same bits, in each run. `epilogue` is that of `weft.matmul`, for the
    whole sum, and must be the same on all ranks. The rest is as in `matmul_reduce_scatter`. Raises WeftError
    for arrays that don't fit.
    """
    name, added = "matmul_all_reduce", added_to(epilogue)
    activation = None if epilogue is None else epilogue.activation
    operands = a, b, *added.values()
    options = transpose_b, *added, activation, schedule, partials

    def describe() -> Product:
        product = described(name, a, b, transpose_b, epilogue, schedule)
        scatter.check_partials(product, partials)
        return product

    return plan_of(name, partial(_OneShot, partials), team, operands, options, describe).run(operands)


class _OneShot(Plan):
    """Each rank sends its sums to all others, which add them up."""

    def __init__(self, partials: str | None, product: Product, team: Team) -> None:
        """Compiles the kernel, and makes room for the sums."""
        self.kind = scatter.type_of(product, partials)
        rows, n = product.a[0], product.n
        schedule = scatter.schedule_of(product, team, (rows, n, product.a[1]))
        of_sums = ("partials", self.kind, 1), ("signals", "i32", 1), ("peers", "i64", 2), ("team", "i32", 1)
        kernel = product.kernel(
            team.devices.chip, ranks=(2, 2, 2), added=of_sums, sizes=(rows, n, product.a[1])
        )
        super().__init__(team, product, kernel)
        self.parts, self.sums = scatter.slots(product, schedule, team.size, rows)
        width = arrays.numpy_dtype(self.kind).itemsize
        self.memory = team.counted(self.sums * width, self.parts * _FLAG)

    def run(self, operands: Sequence[Any]) -> Any:
        devices = self.team.devices
        out = devices.empty((self.product.a[0], self.product.n), operands[0])
        self.launch(devices.caller(), operands, out, self.memory.operands)
        return out

    def views(self, operands: Sequence[Any], d: Any, memory: Sequence[Memory]) -> list[ArrayView]:
        return [*self.product.views(operands, d), *self.memory.views(self.sums, self.kind, self.parts)]
