"""Calls of the functions of this package: what they plan at the first call of its kind, and run in each."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.dialects.activations import ACTIVATIONS
from weft.dialects.schedule import AnySchedule
from weft.distributed.devices import Array, Make, Memory, Queue
from weft.distributed.products import Scales, TeamProduct, added_to, check_added, described
from weft.distributed.teams import Team
from weft.errors import WeftError
from weft.launch.arrays import ArrayView
from weft.launch.kernel import Kernel
from weft.multiply.matmul import Epilogue
from weft.multiply.product import Product


class Plan(ABC):
    """A product that is called again and again with arrays of the same kinds."""

    def __init__(self, team: Team, product: TeamProduct, kernel: Kernel) -> None:
        self.team, self.product, self.kernel = team, product, kernel
        self.is_scaled = product.is_scaled
        self._prepared: dict[tuple[Kernel, Hashable], Any] = {}

    @abstractmethod
    def run(self, operands: Sequence[Array]) -> Array:
        """Queues the product of arrays: A, B and what the epilogue reads. Returns the result."""

    def launch(self, queue: Queue, operands: Sequence[Array], d: Array, memory: Sequence[Memory]) -> None:
        """Queues the kernel, with memory of the team after the arrays."""
        all_arrays = (*operands[:2], d, *operands[2:])
        self.start(queue, self.kernel, all_arrays, memory, self.views, operands, d, memory)

    @abstractmethod
    def views(self, operands: Sequence[Array], d: Array, memory: Sequence[Memory]) -> list[ArrayView]:
        """All that the kernel takes."""

    def start(
        self,
        queue: Queue,
        kernel: Kernel,
        arrays: Sequence[Array],
        memory: Sequence[Memory],
        views: Callable[..., Sequence[ArrayView]],
        *of: Any,
    ) -> None:
        """Queues a kernel of arrays and memory of the team; `views` returns them as the kernel takes them.
        The launch is kept if the arrays of the call have a key.
        """
        key = kernel, self.team.kinds
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = queue.prepared(kernel, views(*of))
            if self.team.kinds is not None:
                self._prepared[key] = prepared
        queue.launch(prepared, arrays, memory)


def plan_of(
    name: str,
    make: Make,
    team: Team,
    operands: Sequence[Array],
    options: tuple[Hashable, ...],
    describe: Callable[[], object],
) -> Any:
    """The plan of a call, made at the first call of its kind. The caller holds the team's lock."""
    kinds = team.kinds = team.devices.key(operands)
    key = name, kinds, options
    if kinds is not None and (plan := team.known.get(key)) is not None:
        return plan
    description = describe(), *options
    plan = team.plans.get(description)
    if plan is None:
        if team.devices.captures:
            raise WeftError(
                f"{description[0]}: a first call with new shapes, types or options compiles and allocates, "
                "so it can't be captured in a CUDA graph: call it once before the capture"
            )
        team.devices.agree(description)
        plan = team.plans[description] = team.devices.planned(make, description[0], team)
    if kinds is not None:
        team.known[key] = plan
    return plan


@dataclass(frozen=True)
class Function:
    """A function of `weft.distributed`. `make` plans a product. `rows` returns the rows of a rank's result,
    from those of A and the number of ranks. `check` raises WeftError for a product that so many ranks can't
    share.
    """

    name: str
    make: Callable[[TeamProduct, Team], "Plan"]
    rows: Callable[[int, int], int]
    check: Callable[[TeamProduct, int], None] | None = None
    activations: tuple[str, ...] = (*ACTIVATIONS,)

    def queued(
        self,
        a: Array,
        b: Array,
        *,
        team: Team,
        transpose_b: bool = False,
        epilogue: Epilogue | None = None,
        partials: str | None = None,
        schedule: AnySchedule | str | None = None,
        scales: Scales | None = None,
    ) -> Any:
        """Queues the product of arrays with memory, without gradients. Returns its result. The calls of
        several threads follow each other.
        """
        added = {} if epilogue is None and scales is None else added_to(epilogue, scales)
        activation = None if epilogue is None else epilogue.activation

        def describe() -> TeamProduct:
            options = Product((), activation, partials, transpose_b=transpose_b, schedule=schedule)
            return self.described(a, b, team.size, added, options)

        operands, options = (a, b, *added.values()), (transpose_b, *added, activation, schedule, partials)
        with team.lock:
            return plan_of(self.name, self.make, team, operands, options, describe).run(operands)

    def described(
        self, a: Array, b: Array, ranks: int, added: Mapping[str, Array], options: Product
    ) -> TeamProduct:
        """The product of a call. Raises WeftError for arrays that don't fit."""
        product = described(self.name, a, b, added, options, self.activations)
        if self.check is not None:
            self.check(product, ranks)
        check_added(self.name, added, (self.rows(product.a[0], ranks), product.n))
        return product
