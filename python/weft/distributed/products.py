"""The products of a team: what all ranks must agree on, checks of it, and kernels."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import prod

from weft.dialects.activations import GATES
from weft.dialects.element_types import FP8_TYPES
from weft.dialects.operand_roles import GATED_COLUMNS
from weft.dialects.product_types import PROMOTED, Types, ceil_div
from weft.dialects.schedule import AnySchedule, WarpgroupSchedule
from weft.dialects.schedule.coercion import as_schedule
from weft.distributed.devices import Array
from weft.errors import WeftError, not_a_multiple, shown
from weft.launch import arrays
from weft.launch.arrays import ArrayView
from weft.launch.kernel import Kernel
from weft.multiply import array_views, product_kernel
from weft.multiply.matmul import Epilogue
from weft.multiply.operands import default_result
from weft.multiply.product import Product, checked_activation, checked_pair
from weft.multiply.product_kernel import Asked
from weft.schedules import choice

Scales = tuple[Array, Array]
SCALES = ("scale_a", "scale_b")
_ELEMENTS = ("bf16", "f16", *FP8_TYPES)
_ADDED = ("f32", "f16", "bf16")  # elements of a bias and a residual
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
        roles = "a", "b", *(role for role, *_ in self.added)
        views = dict(zip(roles, map(arrays.view, operands), strict=True))
        out = arrays.view(d)
        if "scale_a" in views:
            views["scale_a"] = array_views.transposed(views["scale_a"])
        if members:
            out = self.batch(out, members)
            if "residual" in views:
                views["residual"] = self.batch(views["residual"], members)
        a, b, *rest = views.values()
        return [a, b, out, *rest]

    def batch(self, view: ArrayView, members: int) -> ArrayView:
        """A matrix as a batch of so many matrices, one below the other."""
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


def added_to(epilogue: Epilogue | None, scales: Scales | None = None) -> dict[str, Array]:
    """The operands of a call other than A and B, by role: the scales, and what an epilogue reads."""
    added = {}
    if not isinstance(epilogue, Epilogue | None):
        raise WeftError(f"weft.distributed: epilogue must be a weft.Epilogue or None, got {shown(epilogue)}")
    if scales is not None:
        added = dict(zip(SCALES, checked_pair("weft.distributed", scales), strict=True))
    if epilogue is not None:
        by_role = {"bias": epilogue.bias, "residual": epilogue.residual}
        added |= {role: array for role, array in by_role.items() if array is not None}
    return added


def described(
    name: str, a: Array, b: Array, added: Mapping[str, Array], options: Product, activations: Sequence[str]
) -> TeamProduct:
    """The product of a call, with one of these activations. Raises WeftError for arrays that don't fit."""
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
    checked_activation(options.activation, name, activations)
    partials = options.out_dtype
    options = replace(
        options,
        out_dtype=None if partials is None else str(arrays.type_name(partials)),
        transpose_b=bool(transpose_b),
        schedule=as_schedule(options.schedule),
    )
    shapes = left.shape, right.shape, right.strides
    product = TeamProduct(name, *shapes, left.dtype, kinds, options)  # type: ignore[arg-type]
    if product.sums not in ("f32", product.out):
        raise WeftError(f"{name}: partials must be f32 or {product.out}, got {shown(partials)}")
    return product


def check_added(name: str, added: Mapping[str, Array], shape: tuple[int, int]) -> None:
    """Raises WeftError for a bias or a residual that doesn't fit a result of this shape."""
    rows, columns = shape
    for role, array in added.items():
        if role in SCALES:
            continue
        view = arrays.view(array)
        if view.dtype not in _ADDED:
            wanted = f"{', '.join(_ADDED[:-1])} or {_ADDED[-1]}"
            raise WeftError(f"{name}: {role} must be of {wanted}, got {view.dtype}")
        if role == "bias" and view.shape != (columns,):
            raise WeftError(
                f"{name}: bias must have {columns} elements, one for each column, got shape {view.shape}"
            )
        if role == "residual" and view.shape != shape:
            raise WeftError(
                f"{name}: residual must be {rows} x {columns}, the shape of this rank's result, "
                f"got shape {view.shape}"
            )
        if view.shape[-1] > 1 and view.strides[-1] != 1:
            raise WeftError(f"{name}: rows of {role} must be contiguous, got strides {view.strides}")


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
