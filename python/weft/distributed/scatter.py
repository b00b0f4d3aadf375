"""Products whose sums are added up over all GPUs: a kernel sends sums of others' rows and adds its own."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from operator import floordiv

import numpy as np

from weft.dialects.product_types import ceil_div
from weft.dialects.schedule import WarpgroupSchedule
from weft.distributed.devices import Array, Memory, Queue
from weft.distributed.plans import Function, Plan
from weft.distributed.products import Sizes, TeamProduct, check_scaled_rows
from weft.distributed.teams import HALVES, Half, Team
from weft.errors import WeftError, not_a_multiple
from weft.launch import arrays
from weft.launch.arrays import ArrayView
from weft.launch.kernel import Kernel

_FLAG = 4
_FEWEST_TILES = 120  # of a GPU's rows, so that copies of the last sums end before they are computed
_TILES_OF_BAND = 128  # at least: about as many as run at the same time
_MOST_BANDS = 8
_OPERANDS = ("signals", "i32", 1), ("peers", "i64", 2), ("team", "i32", 1)
"""The arguments of a kernel after the sums that come."""
_MOST_SUMS = (1 << 31) - 1  # indices have 32 bits


def planned(product: TeamProduct, team: Team) -> Plan:
    """The plan by which sums of this size come fastest."""
    return (_way(product, team) if team.devices.awaits_values else Scatter)(product, team)


def _way(product: TeamProduct, team: Team) -> "type[Scatter]":
    """How sums are sent: a function of shapes alone."""
    if team.size == 1:
        return Scatter
    sizes = team.size, product.a[0] // team.size, product.n, product.a[1]
    schedule = schedule_of(product, team.devices.chip, sizes)
    parts, sums = slots(product, schedule, team.size, sizes[1])
    has_many = parts // team.size // schedule.warpgroups >= _FEWEST_TILES
    return CopiedScatter if has_many and 2 * sums <= _MOST_SUMS else Scatter


def _check(product: TeamProduct, ranks: int) -> None:
    """Raises WeftError for rows that so many ranks can't share."""
    name, rows = product.name, product.a[0]
    if rows % ranks:
        raise not_a_multiple(f"{name}: rows of a", rows, ranks, ", the number of ranks")
    if product.is_scaled:
        check_scaled_rows(name, rows // ranks, "each rank's rows")


def schedule_of(product: TeamProduct, chip: str, sizes: Sizes) -> WarpgroupSchedule:
    """The schedule for these sizes. Raises WeftError for a chip without `wgmma`."""
    schedule = product.schedule_of(chip, sizes, whole=True)
    if not isinstance(schedule, WarpgroupSchedule):
        raise WeftError(f"{product.name}: needs a schedule of wgmma, on sm_90a, got {schedule}")
    return schedule


def slots(product: TeamProduct, schedule: WarpgroupSchedule, ranks: int, rows: int) -> tuple[int, int]:
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
    more: tuple[tuple[str, str, int], ...] = ()
    """Arguments of the kernel after `_OPERANDS`."""

    def __init__(self, product: TeamProduct, team: Team, members: int, rows: int) -> None:
        """Compiles the kernel for this many matrices of so many rows, and makes room for the sums."""
        self.shape, self.out = (rows, product.n), product.out
        sizes = members, rows, product.n, product.a[1]
        self.schedule = schedule_of(product, team.devices.chip, sizes)
        kernel = self.kernel_of(product, team.devices.chip, sizes)
        super().__init__(team, product, kernel)
        self.parts, self.sums = slots(product, self.schedule, team.size, rows)
        self.reserve()

    def reserve(self) -> None:
        """Makes room for the sums."""
        width = arrays.numpy_dtype(self.product.sums).itemsize
        self.memory = self.team.counted("sums", self.sums * width, self.parts * _FLAG)

    @classmethod
    def kernel_of(cls, product: TeamProduct, chip: str, sizes: Sizes) -> Kernel:
        """The kernel of a product of these sizes."""
        added = ("partials", product.sums, 1), *_OPERANDS, *cls.more
        return product.kernel(chip, ranks=cls.ranks, added=added, sizes=sizes, whole=True)

    def run(self, operands: Sequence[Array]) -> Array:
        devices = self.team.devices
        out = devices.empty(self.shape, operands[0], self.out)
        self.add(devices.caller(), operands, out)
        return out

    def add(self, queue: Queue, operands: Sequence[Array], d: Array) -> None:
        """Queues the product, with its result in `d`."""
        self.launch(queue, operands, d, self.memory.operands)

    def views(self, operands: Sequence[Array], d: Array, memory: Sequence[Memory]) -> list[ArrayView]:
        return [*self.product.views(operands, d), *self.of_team(memory)]

    def of_team(self, memory: Sequence[Memory]) -> list[ArrayView]:
        """The memory of the team, as the kernel takes it."""
        data, flags, *_ = memory
        sums = data.view((HALVES * self.sums,), self.product.sums)
        return [sums, flags.view((HALVES * self.parts,), "i32"), *self.memory.views()]


class Scatter(Sums):
    """Each rank gets the sums of its own rows."""

    ranks = 3, 2, 2

    def __init__(self, product: TeamProduct, team: Team) -> None:
        super().__init__(product, team, team.size, product.a[0] // team.size)

    def views(self, operands: Sequence[Array], d: Array, memory: Sequence[Memory]) -> list[ArrayView]:
        left, right, d, *rest = super().views(operands, d, memory)
        for number, (role, *_) in enumerate(self.product.added):
            if role == "scale_a":
                # As a batch: columns of each rank's rows.
                scales, rows = rest[number], self.shape[0]
                shape = self.team.size, scales.shape[0], rows
                rest[number] = replace(scales, shape=shape, strides=(rows, *scales.strides))
        return [self.product.batch(left, self.team.size), right, d, *rest]


class CopiedScatter(Scatter):
    """The same, but the kernel leaves sums of other ranks' rows in this GPU's memory, in bands of tiles. Copy
    engines send a band as soon as the kernel has set its flag. In captures of graphs that can't wait for
    flags, the kernel sends them.
    """

    more = (("bands", "i32", 2),)

    def reserve(self) -> None:
        team, size, ctas = self.team, self.team.size, self.schedule.ctas
        of_tile = ctas * self.schedule.warpgroups
        tiles = self.parts // size // of_tile
        bands = max(min(tiles * ctas // _TILES_OF_BAND, _MOST_BANDS, tiles), 1)
        in_band = ceil_div(tiles, bands)
        self._bands = ceil_div(tiles, in_band)
        width = self.sums // (size * tiles) * arrays.numpy_dtype(self.product.sums).itemsize
        self._bytes, self._in_band = tiles * width, in_band * width
        self._done = team.devices.constant(np.zeros((size, self._bands), np.int32))
        self.exchange = team.exchange("scatter")
        team.barrier()  # of which captured calls need one
        parts = 2 * (size - 1)
        self.exchange.reserve(parts * self._bytes, parts * _MOST_BANDS * _FLAG)
        self._captured = None if team.devices.graphs_wait else Scatter(self.product, team)

    def add(self, queue: Queue, operands: Sequence[Array], d: Array) -> None:
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
            data.view((others * self.sums // size,), self.product.sums),
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


FUNCTION = Function("matmul_reduce_scatter", planned, floordiv, _check)
