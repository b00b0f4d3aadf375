"""Products whose sums are added up over all GPUs: a kernel sends sums of others' rows and adds its own."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, Self

import numpy as np

from weft.dialects.product_types import ceil_div
from weft.dialects.schedule import AnySchedule, WarpgroupSchedule
from weft.distributed.added import added_to, check_added
from weft.distributed.devices import Memory
from weft.distributed.products import (
    Plan,
    Product,
    Sizes,
    check_scaled_rows,
    described,
    run_planned,
)
from weft.distributed.teams import Half, Team
from weft.errors import WeftError, shown
from weft.launch import arrays
from weft.launch.arrays import ArrayView
from weft.launch.kernel import Kernel
from weft.multiply.matmul import Epilogue

_FLAG = 4
_FEWEST_TILES = 120  # of a GPU's rows, so that copies of the last sums end before they are computed
_TILES_OF_BAND = 128  # at least: about as many as run at the same time
_MOST_BANDS = 8
_OPERANDS = ("signals", "i32", 1), ("peers", "i64", 2), ("team", "i32", 1)
"""What a kernel takes after the sums that come."""
_MOST_SUMS = (1 << 31) - 1  # indices have 32 bits


def queued(a: Any, b: Any, *, team: Team, **options: Any) -> Any:
    """`matmul_reduce_scatter` of arrays with memory, without gradients."""
    return queued_sums(
        "matmul_reduce_scatter",
        planned,
        a,
        b,
        team=team,
        check=lambda product: check_rows(product, team.size),
        **options,
    )


def queued_sums(
    name: str,
    make: Callable[[str | None, Product, Team], Plan],
    a: Any,
    b: Any,
    *,
    team: Team,
    check: Callable[[Product], None] | None = None,
    transpose_b: bool = False,
    epilogue: Epilogue | None = None,
    partials: str | None = None,
    schedule: AnySchedule | str | None = None,
    scales: Any = None,
) -> Any:
    """Queues a product whose sums are added up over all ranks, by the plan that `make` returns. `check`, if
    given, raises WeftError for a product that the ranks can't share.
    """
    added = added_to(epilogue, scales)
    activation = None if epilogue is None else epilogue.activation
    operands = a, b, *added.values()
    options = transpose_b, *added, activation, schedule, partials

    def describe() -> Product:
        product = described(name, a, b, transpose_b, epilogue, schedule, scales)
        if type_of(product, partials) not in ("f32", product.out):
            raise WeftError(f"{name}: partials must be f32 or {product.out}, got {shown(partials)}")
        rows = product.a[0]
        if check is not None:
            check(product)
            rows //= team.size
        check_added(name, epilogue, (rows, product.n))
        return replace(product, partials=partials and type_of(product, partials))

    return run_planned(name, partial(make, partials), team, operands, options, describe)


def planned(partials: str | None, product: Product, team: Team) -> Plan:
    """The plan by which sums of this size come fastest."""
    return _way(product, team)(partials, product, team)


def _way(product: Product, team: Team) -> "type[Scatter]":
    """How sums are sent: a function of shapes alone."""
    if team.size == 1:
        return Scatter
    sizes = team.size, product.a[0] // team.size, product.n, product.a[1]
    schedule = schedule_of(product, team.devices.chip, sizes)
    parts, sums = slots(product, schedule, team.size, sizes[1])
    has_many = parts // team.size // schedule.warpgroups >= _FEWEST_TILES
    return CopiedScatter if has_many and 2 * sums <= _MOST_SUMS else Scatter


def check_rows(product: Product, ranks: int) -> None:
    """Raises WeftError for rows that so many ranks can't share."""
    name, rows = product.name, product.a[0]
    if rows % ranks:
        near = ceil_div(rows, ranks) * ranks
        raise WeftError(
            f"{name}: rows of a must be a multiple of {ranks}, the number of ranks, got {rows}; "
            f"the next is {near}"
        )
    if product.is_scaled:
        check_scaled_rows(name, rows // ranks, "each rank's rows")


def type_of(product: Product, partials: str | None) -> str:
    """The type of sums that are sent."""
    return product.out if partials is None else str(arrays.type_name(partials))


def schedule_of(product: Product, chip: str, sizes: Sizes) -> WarpgroupSchedule:
    """The schedule for these sizes. Raises WeftError for a chip without `wgmma`."""
    schedule = product.schedule_of(chip, sizes, whole=True)
    if not isinstance(schedule, WarpgroupSchedule):
        raise WeftError(f"{product.name}: needs a schedule of wgmma, on sm_90a, got {schedule}")
    return schedule


def slots(product: Product, schedule: WarpgroupSchedule, ranks: int, rows: int) -> tuple[int, int]:
    """The parts of tiles of so many rows, and their sums, of all ranks. Raises WeftError for too many."""
    extents = zip(schedule.swapped(rows, product.n), schedule.block[:2], schedule.cluster, strict=True)
    tiles = prod(ceil_div(extent, block * ctas) * ctas for extent, block, ctas in extents)
    sums = ranks * tiles * schedule.block[0] * schedule.block[1]
    if sums > _MOST_SUMS:
        raise WeftError(f"{product.name}: the sums of all ranks must be at most {_MOST_SUMS}, got {sums}")
    return ranks * tiles * schedule.warpgroups, sums


class Sums(Plan):
    """A product whose kernel sends sums to other ranks, and adds up those that come."""

    ranks = 2, 2, 2
    """The dimensions of A, B and D."""

    def __init__(self, partials: str | None, product: Product, team: Team, members: int, rows: int) -> None:
        """Compiles the kernel for this many matrices of so many rows, and makes room for the sums."""
        self.kind = type_of(product, partials)
        self.shape, self.out = (rows, product.n), product.out
        sizes = members, rows, product.n, product.a[1]
        self.schedule = schedule_of(product, team.devices.chip, sizes)
        kernel = self.kernel_of(product, self.kind, team.devices.chip, sizes)
        super().__init__(team, product, kernel)
        self.parts, self.sums = slots(product, self.schedule, team.size, rows)
        self.reserve()

    def reserve(self) -> None:
        """Makes room for the sums."""
        width = arrays.numpy_dtype(self.kind).itemsize
        self.memory = self.team.counted("sums", self.sums * width, self.parts * _FLAG)

    @classmethod
    def kernel_of(cls, product: Product, kind: str, chip: str, sizes: Sizes) -> Kernel:
        """The kernel of a product of these sizes, whose sums are sent in elements of a type."""
        added = ("partials", kind, 1), *_OPERANDS
        return product.kernel(chip, ranks=cls.ranks, added=added, sizes=sizes, whole=True)

    def run(self, operands: Sequence[Any]) -> Any:
        devices = self.team.devices
        out = devices.empty(self.shape, operands[0], self.out)
        self.add(devices.caller(), operands, out)
        return out

    def add(self, queue: Any, operands: Sequence[Any], d: Any) -> None:
        """Queues the product, with its result in `d`."""
        self.launch(queue, operands, d, self.memory.operands)

    def views(self, operands: Sequence[Any], d: Any, memory: Sequence[Memory]) -> list[ArrayView]:
        return [*self.product.views(operands, d), *self.of_team(memory)]

    def of_team(self, memory: Sequence[Memory]) -> list[ArrayView]:
        """The memory of the team, as the kernel takes it."""
        return self.memory.of_sums(self.sums, self.kind, self.parts)


class Scatter(Sums):
    """Each rank gets the sums of its own rows."""

    ranks = 3, 2, 2

    def __init__(self, partials: str | None, product: Product, team: Team) -> None:
        super().__init__(partials, product, team, team.size, product.a[0] // team.size)

    def views(self, operands: Sequence[Any], d: Any, memory: Sequence[Memory]) -> list[ArrayView]:
        left, right, d, *rest = super().views(operands, d, memory)
        for number, (role, *_) in enumerate(self.product.added):
            if role == "scale_a":
                rest[number] = self._of_members(rest[number])
        return [self.product.batch(left, self.team.size), right, d, *rest]

    def _of_members(self, scales: ArrayView) -> ArrayView:
        """Scales of A as a batch: columns of each rank's rows."""
        (blocks, _), rows = scales.shape, self.shape[0]
        return replace(scales, shape=(self.team.size, blocks, rows), strides=(rows, *scales.strides))


class CopiedScatter(Scatter):
    """The same, but the kernel leaves sums of other ranks' rows in this GPU's memory, in bands of tiles. Copy
    engines send a band as soon as the kernel has set its flag. In captures of graphs that can't wait for
    flags, the kernel sends them.
    """

    def __init__(self, partials: str | None, product: Product, team: Team) -> None:
        super().__init__(partials, product, team)
        size, ctas = team.size, self.schedule.ctas
        of_tile = ctas * self.schedule.warpgroups
        tiles = self.parts // size // of_tile
        bands = max(min(tiles * ctas // _TILES_OF_BAND, _MOST_BANDS, tiles), 1)
        in_band = ceil_div(tiles, bands)
        self._bands = ceil_div(tiles, in_band)
        width = self.sums // (size * tiles) * arrays.numpy_dtype(self.kind).itemsize
        self._bytes, self._in_band = tiles * width, in_band * width
        self._done = team.devices.constant(np.zeros((size, self._bands), np.int32))
        self.exchange = team.exchange("scatter")
        team.barrier()  # of which captured calls need one
        parts = 2 * (size - 1)
        self.exchange.reserve(parts * self._bytes, parts * _MOST_BANDS * _FLAG)
        self._captured = None if team.devices.graphs_wait else Scatter(partials, product, team)

    def for_others(self) -> Self:
        other = super().for_others()
        other._captured = self._captured and self._captured.for_others()
        return other

    def reserve(self) -> None:
        """The exchange has the memory."""

    @classmethod
    def kernel_of(cls, product: Product, kind: str, chip: str, sizes: Sizes) -> Kernel:
        added = (*_OPERANDS, ("bands", "i32", 2))
        of_kind = ("partials", kind, 1), *added
        return product.kernel(chip, ranks=cls.ranks, added=of_kind, sizes=sizes, whole=True)

    def add(self, queue: Any, operands: Sequence[Any], d: Any) -> None:
        team, pushes = self.team, self.team.devices.pushes
        if self._captured and team.devices.captures:
            self._captured.add(queue, operands, d)
            return
        turn = team.begin(self.exchange)
        half = turn.half
        pushes.wait(queue.record())
        data, flags = half.data[team.rank], half.flags[team.rank]
        self.launch(queue, operands, d, (data, flags, half.peers, turn.state, self._done))
        # The kernel comes first: with one queue for all streams, it would wait for these.
        for done, to, source, flag in half.routes.get((self.product, self._bands)) or self._routes(half):
            pushes.await_value(done, turn.call % (1 << 32))
            pushes.copy(to, source)
            pushes.copy(flag, turn.number)
        queue.wait(pushes.record())

    def of_team(self, memory: Sequence[Memory]) -> list[ArrayView]:
        data, flags, peers, state, done = memory
        others, size = self.team.size - 1, self.team.size
        return [
            data.view((others * self.sums // size,), self.kind),
            flags.view((2 * others * self._bands,), "i32"),
            peers.view((size, 2), "i64"),
            state.view((4,), "i32"),
            done.view((size, self._bands), "i32"),
        ]

    def _routes(self, half: Half) -> list[tuple[Memory, Memory, Memory, Memory]]:
        """The copies of each band of sums for each rank, in the order in which they are computed: the flag
        for which a copy waits, to where and from where it copies, and the flag that follows.
        """
        rank, size, routes = self.team.rank, self.team.size, list[tuple[Memory, Memory, Memory, Memory]]()
        data, flags = half.data, half.flags
        for step in range(1, size):
            peer = (rank + step) % size
            sent, come = size - 1 + _among_others(peer, rank), _among_others(rank, peer)
            for band in range(self._bands):
                begin = band * self._in_band
                length = min(self._in_band, self._bytes - begin)
                done, flag = (
                    each.part((number * self._bands + band) * _FLAG, _FLAG)
                    for each, number in ((flags[rank], sent), (flags[peer], come))
                )
                to, source = (
                    each.part(number * self._bytes + begin, length)
                    for each, number in ((data[peer], come), (data[rank], sent))
                )
                routes.append((done, to, source, flag))
        half.routes[self.product, self._bands] = routes
        return routes


def _among_others(rank: int, own: int) -> int:
    """The number of a rank among those other than `own`."""
    return rank - (rank > own)
