"""Products with rows of A from all GPUs: copy engines send them to the others while a kernel multiplies."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from operator import mul
from typing import Any

from weft.dialects.activations import ACTIVATIONS, GATES
from weft.dialects.product_types import ceil_div
from weft.dialects.schedule import AnySchedule, WarpgroupSchedule
from weft.distributed import small_kernels
from weft.distributed.devices import Array, Memory, Queue
from weft.distributed.gates import check_gate
from weft.distributed.plans import Function, Plan, plan_of
from weft.distributed.products import SCALES, Scales, TeamProduct, added_to
from weft.distributed.teams import HALVES, MOST_SLICES, Half, Team, Turn
from weft.errors import WeftError, shown
from weft.launch import arrays
from weft.launch.arrays import ArrayView
from weft.launch.kernel import Kernel
from weft.multiply.matmul import Epilogue
from weft.multiply.product import Product

_NAME = "all_gather_matmul"
_MOST_CHUNKS = 4
_CHUNK = 1 << 24  # bytes, at least: a copy of fewer doesn't reach the speed of the links
_MOST_PUSHED = 6 << 20  # bytes that a kernel sends before the product
_MOST_SENT = 5 << 20  # bytes that the product's kernel sends itself
_SLICE = 768 << 10  # bytes of a slice of K that it sends, at least
_FEWEST_TILES = 64  # of it: a few CTAs would send slowly
_MOST_CTAS = 128
_ALIGNED = 16  # bytes: a vector of the kernel that sends rows
_FLAG = _WORD = 4


def _check(product: TeamProduct, ranks: int) -> None:
    """Raises WeftError for a gate without its columns."""
    if product.options.activation in GATES:
        name = f"{_NAME}: {product.options.activation}"
        check_gate(name, product.columns, any(role not in SCALES for role, *_ in product.added))


def epilogues(bs: Sequence[Array], epilogues: Any) -> Sequence[Epilogue | None]:
    """The epilogues of several products. Raises WeftError unless there is one for each."""
    if epilogues is None:
        epilogues = [None] * len(bs)
    fits = isinstance(epilogues, list | tuple) and len(epilogues) == len(bs)
    if not bs or not fits or not all(isinstance(each, Epilogue | None) for each in epilogues):
        raise WeftError(
            f"{_NAME}: with a list of b, epilogue must be None or a list of as many, at least one, "
            f"got {len(bs)} and {shown(epilogues)}"
        )
    return epilogues


def several(
    a: Array,
    bs: Sequence[Array],
    *,
    team: Team,
    epilogue: Sequence[Epilogue | None],
    scales: tuple[Array, Sequence[Array]] | None,
    transpose_b: bool,
    schedule: AnySchedule | str | None,
) -> list[Array]:
    """The products with several `b`."""
    groups = list(map(added_to, epilogue, pairs(scales, len(bs))))
    activations = [None if each is None else each.activation for each in epilogue]

    def describe() -> Products:
        product = Product(transpose_b=transpose_b, schedule=schedule)
        each = zip(bs, groups, activations, strict=True)
        return Products(
            tuple(
                FUNCTION.described(a, b, team.size, added, replace(product, activation=activation))
                for b, added, activation in each
            )
        )

    operands = (a, *(x for b, added in zip(bs, groups, strict=True) for x in (b, *added.values())))
    options = transpose_b, *map(tuple, groups), *activations, schedule
    with team.lock:
        return plan_of(_NAME, Several, team, operands, options, describe).run(operands)


def pairs(scales: object, count: int) -> list[Scales | None]:
    """The scales of A and of each of several B."""
    if scales is None:
        return [None] * count
    pair = scales if isinstance(scales, list | tuple) and len(scales) == 2 else (None, None)
    of_a, of_bs = pair
    if not isinstance(of_bs, list | tuple) or len(of_bs) != count:
        raise WeftError(f"{_NAME}: with a list of b, scales must be those of a, and a list of as many")
    return [(of_a, of_b) for of_b in of_bs]


@dataclass(frozen=True)
class Products:
    """Several products with the same rows."""

    each: tuple[TeamProduct, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, self.each))


def planned(product: TeamProduct, team: Team) -> "GatherPlan":
    """The plan by which rows of this size come fastest."""
    return _way(product, team)(product, team)


def _way(product: TeamProduct, team: Team, *, before: bool = False) -> "type[GatherPlan]":
    """How rows are sent: a function of shapes alone. `before`: not by the product's kernel."""
    sent = product.a_bytes * (team.size - 1)
    if not before and 0 < sent <= _MOST_SENT and _sends(product, team):
        return SendingGather
    return PushedGather if 0 < sent <= _MOST_PUSHED else Gather


def _slices(product: TeamProduct, team: Team) -> int:
    """In how many slices of K a kernel sends rows."""
    sent: int = product.a_bytes * (team.size - 1)
    return max(min(sent // _SLICE, MOST_SLICES), 1)


def _sends(product: TeamProduct, team: Team) -> bool:
    """Whether a product's kernel can send rows, and fast."""
    schedule = product.schedule_of(team.devices.chip, product.sizes(team.size))
    if not isinstance(schedule, WarpgroupSchedule) or schedule.loaders or product.is_scaled:
        return False
    tiles = team.size * prod(map(ceil_div, schedule.swapped(product.a[0], product.columns), schedule.block))
    return tiles >= _FEWEST_TILES and arrays.numpy_dtype(product.dtype).itemsize == 2


FUNCTION = Function(_NAME, planned, mul, _check, (*ACTIVATIONS, *GATES))


class Several:
    """Several products of rows that are sent once: by the first kernel that can, which is launched before the
    others, or before all of them.
    """

    def __init__(self, products: Products, team: Team) -> None:
        ways = [_way(each, team) for each in products.each]
        if SendingGather not in ways:
            ways = [_way(each, team, before=True) for each in products.each]
            self._first = 0
        else:
            self._first = ways.index(SendingGather)
            ways = [SendingGather if number == self._first else ReceivedGather for number in range(len(ways))]
        self._plans = [way(each, team) for way, each in zip(ways, products.each, strict=True)]

    def run(self, operands: Sequence[Array]) -> list[Array]:
        """Queues the products of A, and of each B and what its epilogue reads. Returns the results."""
        a, *rest = operands
        first = self._plans[self._first]
        queue = first.team.devices.caller()
        sent = first.send(queue, first.rows_of(operands))
        operands_of = list[Sequence[Any]]()
        for plan in self._plans:
            count = 1 + len(plan.product.added)
            operands_of.append((a, *rest[:count]))
            rest = rest[count:]
        results = {self._first: first.multiply(queue, operands_of[self._first], sent)}
        sent = first.received(sent)
        for number, plan in enumerate(self._plans):
            if number != self._first:
                results[number] = plan.multiply(queue, operands_of[number], sent)
        first.end(queue)
        return [results[number] for number in range(len(operands_of))]


class GatherPlan(Plan):
    """A product with rows of all ranks, in matrices of this GPU's memory. `halves`: the kernel selects one of
    two halves of them. `chunks`: the flags of a rank's rows. `sends`: the kernel sends own rows.
    """

    halves = HALVES
    chunks = 1
    sends = False

    def __init__(self, product: TeamProduct, team: Team) -> None:
        """Compiles the kernel. Raises WeftError for a gate on a chip without `wgmma`."""
        activation = product.options.activation
        self.schedule = product.schedule_of(team.devices.chip, product.sizes(team.size))
        if activation in GATES and not isinstance(self.schedule, WarpgroupSchedule):
            raise WeftError(
                f"{_NAME}: {activation} needs a schedule of wgmma, on sm_90a, got {self.schedule}"
            )
        super().__init__(team, product, self.kernel_of(product, team.size, team.devices.chip))
        self.shape, self.out = (team.size * product.a[0], product.n), product.out

    @classmethod
    def kernel_of(cls, product: TeamProduct, ranks: int, chip: str) -> Kernel:
        """The kernel of a product with the rows of so many ranks."""
        of_scales = [("gathered_scales", "f32", 3)] if product.is_scaled else []
        of_peers = [("peers", "i64", 2)] if cls.sends else []
        of_team = ("arrivals", "i32", 2), *of_peers, ("team", "i32", 1)
        added = ("gathered", product.dtype, 3), *of_scales, *of_team
        return product.kernel(chip, ranks=(2, 2, 3), added=added, sizes=product.sizes(ranks))

    def run(self, operands: Sequence[Array]) -> Array:
        return self.multiplied(operands)[0]

    def multiplied(self, operands: Sequence[Array]) -> tuple[Array, Sequence[Memory]]:
        """Queues the product. Returns the result, and the memory of rows as `send` does."""
        queue = self.team.devices.caller()
        sent = self.send(queue, self.rows_of(operands))
        out = self.multiply(queue, operands, sent)
        self.end(queue)
        return out, sent

    def rows_of(self, operands: Sequence[Array]) -> Sequence[Array]:
        """The operands that a rank sends: A, and its scales if it has them."""
        a, _, *rest = operands
        return (a, *rest[:1]) if self.is_scaled else (a,)

    def memory_of(self, rows: Sequence[Array]) -> list[Memory]:
        """The memory of what a rank sends."""
        of = self.team.devices.of
        return [of(rows[0]), of(rows[1].T)] if self.is_scaled else [of(rows[0])]

    @abstractmethod
    def send(self, queue: Queue, rows: Sequence[Array]) -> Sequence[Memory]:
        """Begins to send this rank's rows. Returns the memory of the rows of others, and of their scales if
        they have them, their flags, the addresses of memory if the kernel sends rows, and the team's state.
        """

    def multiply(self, queue: Queue, operands: Sequence[Array], sent: Sequence[Memory]) -> Array:
        """Queues the product with rows that come. Returns the result."""
        out = self.team.devices.empty(self.shape, operands[0], self.out)
        self.launch(queue, operands, out, sent)
        return out

    def received(self, sent: Sequence[Memory]) -> Sequence[Memory]:
        """Converts the result of `send` for other products of the same rows."""
        return sent

    def end(self, queue: Queue) -> None:
        """Lets what follows wait until this rank's rows have been sent."""
        return

    def views(self, operands: Sequence[Array], d: Array, memory: Sequence[Memory]) -> list[ArrayView]:
        size, count = self.team.size, self.halves * self.team.size
        rows, *scales, state = memory
        peers = [scales.pop().view((size, 2), "i64")] if self.sends else []
        arrivals = scales.pop()
        return [
            *self.product.views(operands, d, size),
            rows.view((count, *self.product.a), self.product.dtype),
            *(each.view((count, *self.product.scale_shape), "f32") for each in scales),
            arrivals.view((size, self.chunks), "i32"),
            *peers,
            state.view((state.size // _WORD,), "i32"),
        ]


class SendingGather(GatherPlan):
    """The product's kernel sends the rows, in slices of K: tiles of other ranks begin with the first one."""

    sends = True

    def __init__(self, product: TeamProduct, team: Team) -> None:
        super().__init__(product, team)
        self.chunks = _slices(product, team)
        self.memory = team.counted("rows", team.size * product.a_bytes, team.size * self.chunks * _FLAG)

    def send(self, queue: Queue, rows: Sequence[Array]) -> Sequence[Memory]:
        return self.memory.operands

    def received(self, sent: Sequence[Memory]) -> Sequence[Memory]:
        rows, arrivals, _, state = sent
        return rows, arrivals, state


class ReceivedGather(SendingGather):
    """Another product of rows that a kernel before has sent, and waited for: all flags have been raised."""

    sends = False


class PushedGather(GatherPlan):
    """A kernel before the product sends the rows, and counts the calls: for few rows, that takes less time
    than copy engines take to begin.
    """

    def __init__(self, product: TeamProduct, team: Team) -> None:
        super().__init__(product, team)
        size, of_scales = product.a_bytes, product.scale_bytes
        self.memory = team.counted("rows", team.size * (size + of_scales), team.size * _FLAG)
        ctas = min(-(-size // small_kernels.PUSHED), _MOST_CTAS)
        self._push = small_kernels.push(ctas, team.devices.chip, 2 if of_scales else 1)
        rows, scales = (HALVES * team.size * each for each in (size, of_scales))
        memory = self.memory.data.part(rows, scales)
        self._sent = self.memory.data, *([memory] if scales else []), self.memory.flags, self.memory.state

    def send(self, queue: Queue, rows: Sequence[Array]) -> Sequence[Memory]:
        memory = self.memory
        self.start(queue, self._push, rows, (memory.peers, memory.state), self._pushed, rows)
        return self._sent

    def _pushed(self, rows: Sequence[Array]) -> list[ArrayView]:
        """The arguments of the kernel that sends rows. Raises WeftError for rows that it can't load."""
        for role, each in zip(("a", "scale_a"), rows, strict=False):
            if arrays.view(each).address % _ALIGNED:
                raise WeftError(f"{self.product.name}: {role} must begin at a multiple of {_ALIGNED} bytes")
        words = [each.view((each.size // _WORD,), "i32") for each in self.memory_of(rows)]
        return [*words, *self.memory.views()]


class Gather(GatherPlan):
    """Copy engines send the rows while the kernel multiplies."""

    halves = 1

    def __init__(self, product: TeamProduct, team: Team) -> None:
        super().__init__(product, team)
        self.chunks = max(min(product.a_bytes // _CHUNK, _MOST_CHUNKS), 1)
        self.exchange = team.exchange("gather")
        team.barrier()  # of which captured calls need one
        sent = product.a_bytes + product.scale_bytes
        self.exchange.reserve(team.size * sent, team.size * _MOST_CHUNKS * _FLAG)

    def send(self, queue: Queue, rows: Sequence[Array]) -> Sequence[Memory]:
        team, pushes = self.team, self.team.devices.pushes
        turn = team.begin(self.exchange)
        half = turn.half
        pushes.wait(queue.record())
        self._push(*self.memory_of(rows), turn=turn)
        data, flags = half.data[team.rank], half.flags[team.rank]
        scales = [self._of_scales(data)] if self.is_scaled else []
        return data, *scales, flags, turn.state

    def end(self, queue: Queue) -> None:
        queue.wait(self.team.devices.pushes.record())

    def _of_scales(self, data: Memory) -> Memory:
        """The memory of the scales of all ranks' rows, which follow the rows."""
        size = self.team.size
        return data.part(size * self.product.a_bytes, size * self.product.scale_bytes)

    def _push(self, *sources: Memory, turn: Turn) -> None:
        """Queues the copies of what this rank sends."""
        pushes, number = self.team.devices.pushes, turn.number
        for which, begin, to, flag in turn.half.routes.get(self) or self._routes(turn.half):
            source = sources[which]
            if to.size:
                pushes.copy(to, source if source.size == to.size else source.part(begin, to.size))
            if flag is not None:
                pushes.copy(flag, number)

    def _routes(self, half: Half) -> list[tuple[int, int, Memory, Memory | None]]:
        """The copies of this rank's rows to the others, first to the rank that needs them first: which of
        what a rank sends, from which byte on, to where, and the flag that follows.
        """
        team, size, of_scales = self.team, self.product.a_bytes, self.product.scale_bytes
        row, routes = size // self.product.a[0], list[tuple[int, int, Memory, Memory | None]]()
        rows = -(-self.product.a[0] // self.chunks)
        for step in range(1, team.size):
            peer = (team.rank - step) % team.size
            if of_scales:
                into = self._of_scales(half.data[peer])
                routes.append((1, 0, into.part(team.rank * of_scales, of_scales), None))
            for chunk in range(self.chunks):
                begin = min(chunk * rows * row, size)
                to = half.data[peer].part(team.rank * size + begin, min(rows * row, size - begin))
                flag = (team.rank * self.chunks + chunk) * _FLAG
                routes.append((0, begin, to, half.flags[peer].part(flag, _FLAG)))
        half.routes[self] = routes
        return routes
