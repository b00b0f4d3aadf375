"""The products of a team: what all ranks must agree on, and their kernels."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, fields, replace
from math import prod
from typing import Any, Self

from weft.dialects.activations import ACTIVATIONS, GATES
from weft.dialects.element_types import FP8_TYPES
from weft.dialects.operand_roles import GATED_COLUMNS
from weft.dialects.product_types import PROMOTED, Types, ceil_div
from weft.dialects.schedule import AnySchedule, WarpgroupSchedule
from weft.dialects.schedule.coercion import as_schedule
from weft.distributed.added import SCALES, Scales, added_to, check_added
from weft.distributed.devices import Array, Make, Memory, Queue
from weft.distributed.teams import Team
from weft.errors import WeftError, not_a_multiple, shown
from weft.launch import arrays
from weft.launch.arrays import ArrayView
from weft.launch.kernel import Kernel
from weft.multiply import product_kernel
from weft.multiply.matmul import Epilogue
from weft.multiply.operands import default_result
from weft.multiply.product import Product, checked_activation
from weft.multiply.product_kernel import Asked
from weft.schedules import choice

_ELEMENTS = ("bf16", "f16", *FP8_TYPES)
_ROW_BYTES = 16
_SCALE = 4  # bytes
_SCALED_ROWS = 4  # rows of A must be a multiple of it with scales: 16 bytes of scales
Sizes = tuple[int, int, int, int]
"""How many ranks' rows are multiplied, each apart from the others; the rows of each, N and K."""


@dataclass(frozen=True)
class TeamProduct:
    """A product of one rank: shapes and types, the same on all ranks. The `out_dtype` of its options is the
    type of sums that ranks send, if the caller has set it.
    """

    name: str
    a: tuple[int, int]
    b: tuple[int, int]
    b_strides: tuple[int, int]
    dtype: str
    added: tuple[tuple[str, str, int], ...]
    options: Product

    def __str__(self) -> str:
        sizes = " and ".join(f"{rows} x {columns}" for rows, columns in (self.a, self.b))
        asked = self.options
        options = ["transpose_b"] if asked.transpose_b else []
        options += [f"{role} of {kind}" for role, kind, _ in self.added]
        options += [asked.activation] if asked.activation else []
        options += [f"partials of {asked.out_dtype}"] if asked.out_dtype else []
        options += [f"schedule {asked.schedule}"] if asked.schedule else []
        return f"{self.name} of {sizes} of {self.dtype}" + f" with {', '.join(options)}" * bool(options)

    @property
    def n(self) -> int:
        """The columns of the result."""
        return self.columns // (2 if self.options.activation in GATES else 1)

    @property
    def columns(self) -> int:
        """The columns of B."""
        return self.b[0 if self.options.transpose_b else 1]

    @property
    def a_bytes(self) -> int:
        """The bytes of A."""
        return prod(self.a) * arrays.numpy_dtype(self.dtype).itemsize

    @property
    def out(self) -> str:
        """The type of the result."""
        return default_result(self.dtype)

    @property
    def sums(self) -> str:
        """The type of sums that ranks send."""
        return self.options.out_dtype or self.out

    @property
    def is_scaled(self) -> bool:
        """Whether there are scales."""
        return any(role in SCALES for role, *_ in self.added)

    @property
    def scale_shape(self) -> tuple[int, int]:
        """The scales of A in memory: K blocks by rows."""
        return ceil_div(self.a[1], PROMOTED), self.a[0]

    @property
    def scale_bytes(self) -> int:
        """The bytes of the scales of A; 0 without scales."""
        return prod(self.scale_shape) * _SCALE if self.is_scaled else 0

    @property
    def types(self) -> Types:
        """The types, as schedules have them."""
        layout, scaled = (False, not self.options.transpose_b), self.is_scaled
        return Types(self.dtype, self.dtype, self.out, layout, promoted=scaled, scaled=scaled)

    def sizes(self, ranks: int) -> Sizes:
        """Those of a product with the rows of so many ranks."""
        return ranks, self.a[0], self.columns, self.a[1]

    def schedule_of(self, chip: str, sizes: Sizes, whole: bool = False) -> AnySchedule:
        """The schedule: the caller's, or one for these sizes; `whole`: one that stages whole tiles."""
        chosen = as_schedule(self.options.schedule)
        return chosen or _chosen(self.types, chip, sizes, whole, self.options.activation in GATES)

    def kernel(
        self,
        chip: str,
        *,
        ranks: tuple[int, int, int],
        added: tuple[tuple[str, str, int], ...],
        sizes: Sizes,
        whole: bool = False,
    ) -> Kernel:
        """The kernel, compiled once."""
        schedule = self.schedule_of(chip, sizes, whole)
        batches = {"residual": ranks[2], "scale_a": 3 if ranks[0] == 3 else 2}
        of_batch = tuple((role, kind, batches.get(role, rank)) for role, kind, rank in self.added)
        layout = False, self.options.transpose_b
        asked = Asked(self.types, ranks, (*of_batch, *added), layout, activation=self.options.activation)
        return product_kernel.compiled(asked, schedule, chip)

    def views(self, operands: Sequence[Array], d: Array, members: int | None = None) -> list[ArrayView]:
        """A, B, D and what the epilogue reads; with `members`, D and the residual as batches of so many
        matrices.
        """
        a, b, *rest = map(arrays.view, operands)
        views = [a, b, arrays.view(d), *rest]
        roles = [role for role, *_ in self.added]
        for number, role in enumerate(roles):
            if role == "scale_a":
                views[3 + number] = transposed(views[3 + number])
        batched = [2, *(3 + number for number, role in enumerate(roles) if role == "residual")]
        for number in batched if members else []:
            views[number] = self.batch(views[number], members or 1)
        return views

    def batch(self, array: ArrayView, members: int) -> ArrayView:
        """A matrix as a batch of so many matrices, one below the other."""
        view = arrays.view(array)
        rows, columns = view.shape
        shape = members, rows // members, columns
        return replace(view, shape=shape, strides=(shape[1] * view.strides[0], *view.strides))


@functools.lru_cache(maxsize=256)
def _chosen(types: Types, chip: str, sizes: Sizes, whole: bool, gate: bool = False) -> AnySchedule:
    """The schedule for sizes alone: all ranks choose the same. One CTA computes all of a tile, and if `whole`
    stages it at once, since copies send sums from there. `gate`: there is one.
    """
    members, m, n, k = sizes
    chosen = choice.choose(m, n, k, types, chip, members)
    if not _is_able(chosen, types, whole, gate):
        ranked = choice.by_promise(choice.Request(m, n, k, types, chip, members))
        able = (s for s in ranked if type(s) is type(chosen) and _is_able(s, types, whole, gate))
        chosen = next(able, chosen)
    plain = {"stream_k": False, "global_splits": 1, "splits": 1, "loaders": 0}
    settable = {each.name for each in fields(chosen) if each.init}
    return replace(chosen, **{name: value for name, value in plain.items() if name in settable})


def _is_able(schedule: AnySchedule, types: Types, whole: bool, gate: bool = False) -> bool:
    """Whether one CTA computes all of a tile, its warpgroups together, and if `whole` stages it at once,
    and with a `gate` if so.
    """
    if gate and (schedule.swap or schedule.block[1] % GATED_COLUMNS):
        return False
    if schedule.joined or schedule.alternating:  # rows of A come from other GPUs
        return False
    parts = schedule.staging_parts(types) if whole and isinstance(schedule, WarpgroupSchedule) else 1
    return parts * schedule.global_splits * schedule.splits == 1


def transposed(view: ArrayView) -> ArrayView:
    """The transpose of a matrix."""
    return replace(view, shape=view.shape[::-1], strides=view.strides[::-1])


class Plan(ABC):
    """A product that is called again and again with arrays of the same kinds."""

    def __init__(self, team: Team, product: TeamProduct, kernel: Kernel) -> None:
        self.team, self.product, self.kernel = team, product, kernel
        self.is_scaled = product.is_scaled
        self._prepared: dict[Kernel, Any] = {}

    @abstractmethod
    def run(self, operands: Sequence[Array]) -> Array:
        """Queues the product of arrays: A, B and what the epilogue reads. Returns the result."""

    def for_others(self) -> Self:
        """The plan, for arrays with other strides or alignment."""
        other = copy(self)
        other._prepared = {}
        return other

    def launch(self, queue: Queue, operands: Sequence[Array], d: Array, memory: Sequence[Memory]) -> None:
        """Queues the kernel, with memory of the team after the arrays."""
        all_arrays = (*operands[:2], d, *operands[2:])
        prepared = self._prepared.get(self.kernel)
        if prepared is None:
            prepared = self._prepare(queue, self.kernel, all_arrays, self.views(operands, d, memory))
        queue.launch(prepared, all_arrays, memory)

    def start(
        self,
        queue: Queue,
        kernel: Kernel,
        arrays_: Sequence[Array],
        memory: Sequence[Memory],
        views: Callable[[], Sequence[ArrayView]],
    ) -> None:
        """Queues a kernel of arrays and memory of the team; `views` returns them as the kernel takes them."""
        prepared = self._prepared.get(kernel)
        if prepared is None:
            prepared = self._prepare(queue, kernel, arrays_, views())
        queue.launch(prepared, arrays_, memory)

    def _prepare(
        self, queue: Queue, kernel: Kernel, all_arrays: Sequence[Array], views: Sequence[ArrayView]
    ) -> Any:
        """A launch, which is kept if other arrays like these can take it."""
        prepared = queue.prepared(kernel, views)
        if self.team.devices.key(all_arrays) is not None:
            self._prepared[kernel] = prepared
        return prepared

    @abstractmethod
    def views(self, operands: Sequence[Array], d: Array, memory: Sequence[Memory]) -> list[ArrayView]:
        """All that the kernel takes."""


def run_planned(
    name: str,
    make: Make,
    team: Team,
    operands: Sequence[Array],
    options: tuple[Hashable, ...],
    describe: Callable[[], object],
) -> Any:
    """The result of a call by its plan. The calls of several threads follow each other."""
    lock = team.lock if isinstance(team, Team) else lock_of(name, team)
    with lock:
        return plan_of(name, make, team, operands, options, describe).run(operands)


def lock_of(name: str, team: Team | None) -> AbstractContextManager[object]:
    """The lock of a thread that calls a team. Raises WeftError for anything but a team."""
    if not isinstance(team, Team):
        raise WeftError(f"{name}: team must be a weft.distributed.Team, got {shown(team)}")
    return team.lock


def plan_of(
    name: str,
    make: Make,
    team: Team,
    operands: Sequence[Array],
    options: tuple[Hashable, ...],
    describe: Callable[[], object],
) -> Any:
    """The plan of a call, made at the first call of its kind. The caller holds the team's lock."""
    kinds = team.devices.key(operands)
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
        plan = team.known[key] = plan.for_others()
    return plan


def described(
    name: str, a: Array, b: Array, added: Mapping[str, Array], options: Product, *, gates: bool = False
) -> TeamProduct:
    """The product of a call; with `gates`, it may have one. Raises WeftError for arrays that don't fit."""
    left, right, transpose_b = arrays.view(a), arrays.view(b), options.transpose_b
    for what, view in (("a", left), ("b", right)):
        if len(view.shape) != 2:
            raise WeftError(f"{name}: {what} must be a matrix, got an array of shape {view.shape}")
        if view.dtype not in _ELEMENTS:
            legal = f"{', '.join(_ELEMENTS[:-1])} or {_ELEMENTS[-1]}"
            raise WeftError(f"{name}: {what} must be of {legal}, got {view.dtype}")
    if left.dtype != right.dtype:
        raise WeftError(f"{name}: a and b must have one element type, got {left.dtype} and {right.dtype}")
    if 0 in (*left.shape, *right.shape):
        raise WeftError(f"{name}: a and b must have elements, got shapes {left.shape} and {right.shape}")
    if left.strides != arrays.contiguous_strides(left.shape):
        raise WeftError(f"{name}: a must be contiguous, got strides {left.strides}")
    if right.shape[1] > 1 and right.strides[1] != 1:
        hint = f": b.T is, with transpose_b={not transpose_b}" if right.strides[0] == 1 else ""
        raise WeftError(f"{name}: rows of b must be contiguous, got strides {right.strides}{hint}")
    k = right.shape[1 if transpose_b else 0]
    if left.shape[1] != k:
        raise WeftError(f"{name}: a and b must agree in K, got {left.shape[1]} and {k}")
    for what, view in (("a", left), ("b", right)):
        if view.shape[1] * view.bits // 8 % _ROW_BYTES:
            unit = _ROW_BYTES * 8 // view.bits
            near = -(-view.shape[1] // unit) * unit
            raise WeftError(
                f"{name}: rows of {what} must have a multiple of {unit} elements, got {view.shape[1]}; "
                f"the next is {near}"
            )
    if "scale_a" in added:
        _check_scales(name, added, (left.shape[0], right.shape[0 if transpose_b else 1], k), left.dtype)
    kinds = tuple((role, arrays.view(x).dtype, len(arrays.view(x).shape)) for role, x in added.items())
    checked_activation(options.activation, name, (*ACTIVATIONS, *GATES) if gates else ACTIVATIONS)
    schedule = as_schedule(options.schedule)
    options = replace(options, roles=tuple(added), transpose_b=bool(transpose_b), schedule=schedule)
    shapes = left.shape, right.shape, right.strides
    return TeamProduct(name, *shapes, left.dtype, kinds, options)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Function:
    """A function of `weft.distributed`. `make` plans a product. `rows` returns the rows of a rank's result,
    and raises WeftError for a product that the ranks can't share. `gates`: the product may have a gate.
    """

    name: str
    make: Callable[[TeamProduct, Team], "Plan"]
    rows: Callable[[TeamProduct, Team], int]
    gates: bool = False

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
        """Queues the product of arrays with memory, without gradients. Returns its result."""
        added = {} if epilogue is None and scales is None else added_to(epilogue, scales)
        activation = None if epilogue is None else epilogue.activation

        def describe() -> TeamProduct:
            options = Product((), activation, partials, transpose_b=transpose_b, schedule=schedule)
            return self.described(a, b, team, added, options)

        options = transpose_b, *added, activation, schedule, partials
        return run_planned(self.name, self.make, team, (a, b, *added.values()), options, describe)

    def described(
        self, a: Array, b: Array, team: Team, added: Mapping[str, Array], options: Product
    ) -> TeamProduct:
        """The product of a call. Raises WeftError for arrays that don't fit."""
        name, partials = self.name, options.out_dtype
        if partials is not None:
            options = replace(options, out_dtype=str(arrays.type_name(partials)))
        product = described(name, a, b, added, options, gates=self.gates)
        if product.sums not in ("f32", product.out):
            raise WeftError(f"{name}: partials must be f32 or {product.out}, got {shown(partials)}")
        check_added(name, added, (self.rows(product, team), product.n))
        return product


def _check_scales(name: str, added: Mapping[str, Array], sizes: tuple[int, int, int], element: str) -> None:
    """Raises WeftError for scales that don't fit A and B."""
    m, n, k = sizes
    if element not in FP8_TYPES:
        raise WeftError(f"{name}: a and b must be of fp8 with scales, got {element}")
    blocks = ceil_div(k, PROMOTED)
    of_a, of_b = (arrays.view(added[role]) for role in SCALES)
    for role, view, shape in (
        ("scale_a", of_a, (m, blocks)),
        ("scale_b", of_b, (ceil_div(n, PROMOTED), blocks)),
    ):
        if view.dtype != "f32" or view.shape != shape:
            wanted, got = (" x ".join(map(str, each)) for each in (shape, view.shape))
            raise WeftError(f"{name}: {role} must be {wanted} of f32, got {got} of {view.dtype}")
    check_scaled_rows(name, m, "rows of a")
    if of_a.strides != (1, m):
        raise WeftError(
            f"{name}: scale_a must have contiguous columns without gaps, strides (1, {m}), got {of_a.strides}"
        )
    if of_b.strides != arrays.contiguous_strides(of_b.shape):
        raise WeftError(f"{name}: scale_b must be contiguous, got strides {of_b.strides}")


def check_scaled_rows(name: str, rows: int, subject: str) -> None:
    """Raises WeftError for a number of rows whose scales TMA doesn't copy."""
    if rows % _SCALED_ROWS:
        raise not_a_multiple(f"{name}: {subject}", rows, _SCALED_ROWS, " with scales")
