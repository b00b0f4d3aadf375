"""`weft.quantize`: a matrix cast to fp8 with scales, and its transpose."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

import numpy as np

from weft.dialects.product_types import ceil_div
from weft.errors import WeftError, about, shown
from weft.isa.chips import describe
from weft.isa.conversion import FP8_ROUNDING
from weft.isa.tensor_map import ROW_BYTES
from weft.launch import arrays, libraries, runtime, torch_tensors
from weft.launch.arrays import ArrayView
from weft.launch.kernel_arguments import aligned_to
from weft.launch.libraries import Library
from weft.launch.plans import Plans
from weft.launch.runtime import Prepared
from weft.multiply import cast_kernels, plans
from weft.multiply.cast_kernels import PITCH, Cast, Sizes
from weft.multiply.cast_options import GRADIENTS, Options, Quantized
from weft.system import upper

SOURCES = ("f32", "bf16", "f16")
_SWAPPED = {"row": "column", "column": "row"}
_EMULATED = "sm_90a"
_MOST_SIZE = 2**31 - 1
_UNIT = 4  # bytes


def _watched(*arguments: Any, **options: Any) -> Any:
    """`quantize` by an operator of PyTorch, which calls `plain`."""
    return upper.torch().quantized(*arguments, **options)


@torch_tensors.traced_as(_watched)
def quantize(
    x: Any,
    dtype: Any = "f8E4M3FN",
    *,
    scales: str = "tensor",
    values: bool = True,
    transposed: bool = False,
    powers_of_two: bool = False,
    arch: str | None = None,
) -> Quantized:
    """A matrix `x` (M x K of f32, bf16 or f16) in fp8 with scales, and, with `transposed`, its transpose (K x
    M), so that both are K-major in products. Both come from one read of `x`.

    `dtype` is "f8E4M3FN" or "f8E5M2", or PyTorch's or ml_dtypes' type. A scale is the largest magnitude of
    the elements that share it, divided by the largest number of `dtype` (448 or 57344), at least 2**-100, and
    with `powers_of_two` rounded up to a power of two. It is 1 for zeros. An element is multiplied by the
    reciprocal of its scale in f32, rounded to the nearest number, to even in a tie, and saturates. NaN
    becomes NaN and doesn't affect scales. With an infinity, the scale is infinite, the infinity becomes NaN,
    and finite elements become 0.

    | `scales` | what shares a scale | `Quantized.scales` |
    |---|---|---|
    | "tensor" | all elements | one element |
    | "row" | a row | M x 1 |
    | "column" | a column | 1 x K |
    | "group" | 128 elements along K | M x ceil(K / 128), with contiguous columns |
    | "block" | 128 x 128 elements | ceil(M / 128) x ceil(K / 128) |

    Scales are f32, and factors of a product: `weft.matmul` takes those of groups and blocks as `scales`, and
    the product of two scales of tensors as `alpha`. With "group", the transpose has scales of its own, of 128
    elements along its rows (along M), and other elements than `values`.

    `x` is an array of PyTorch, CuPy or NumPy with contiguous rows or columns. Without `values`, the matrix
    itself isn't stored. Rows of the results begin at multiples of 16 bytes, so that kernels need no copies.
    On a GPU, launches are queued on the library's current stream: one for groups and blocks, otherwise two,
    where the first one finds the largest magnitudes. Arrays on the CPU are cast by the GPU, or without one by
    the emulator; `arch` selects the chip that it emulates.

    Raises WeftError for arrays and options that don't fit, and for chips without `cvt.rn.satfinite` to fp8,
    which sm_89 and later have.
    """
    options = Options(dtype, scales, values, transposed, powers_of_two, arch).checked()
    key, found = _by_plan(x, options)
    if found is not None:
        return found
    if torch_tensors.are_watched((x,), gradients=False):
        watched: Quantized = _watched(x, **vars(options))
        return watched
    return _planned(x, key, options)


def plain(x: Any, dtype: str, **given: Any) -> Quantized:
    """`quantize` of a tensor that PyTorch needn't see."""
    options = Options(dtype, **given).checked()
    key, found = _by_plan(x, options)
    return _planned(x, key, options) if found is None else found


def _by_plan(x: Any, options: Options) -> tuple[Hashable, Quantized | None]:
    """The key of the plan for an array, or None, and the result if there is a plan."""
    try:
        of_x, address = plans.described(x)
        key = of_x, options
        plan = _plans.get(key) if options.arch is None else None
    except (WeftError, *arrays.BROKEN):  # `_view` reports what is wrong
        return None, None
    if plan is None or (stream := plan.stream(None)) is None:
        return key, None
    return key, plan.run(address, stream)


def _planned(x: Any, key: Hashable, options: Options) -> Quantized:
    """Casts a matrix that has no plan yet. Keeps the plan of one on a GPU by `key`, if that isn't None."""
    library, view = _view(x)
    problem = _Problem.of(view, options)
    if 0 in view.shape:
        return problem.empty(x, library, view)
    if view.device == "cpu":
        return problem.run(x, library, view)
    plan = _Plan.of(problem, x, library, view)
    if key is not None:
        _plans.add(key, plan)
    return plan.run(view.address, plan.current())


def _view(x: Any) -> tuple[Library, ArrayView]:
    """The library and the view of a matrix. Raises WeftError for one that can't be cast."""
    if (name := arrays.library(type(x))) not in ("torch", "cupy", "numpy"):
        got = type(x).__name__
        raise WeftError(f"weft.quantize: x must be an array of PyTorch, CuPy or NumPy, got {shown(got)}")
    library = libraries.of(x)
    if library.wants_gradients(x):
        raise WeftError(GRADIENTS)
    with about("weft.quantize: x"):
        view = arrays.view(x)
    if view.dtype not in SOURCES:
        raise WeftError(f"weft.quantize: x must have elements of {', '.join(SOURCES)}, got {view.dtype}")
    if len(view.shape) != 2 or not all(size <= _MOST_SIZE for size in view.shape):
        raise WeftError(
            f"weft.quantize: x must be a matrix with sizes in 0..{_MOST_SIZE}, got a shape of {view.shape}"
        )
    if not (_has_rows(view) or _has_rows(_turned(view))):
        advice = {"torch": "x.contiguous()", "cupy": "cupy.ascontiguousarray(x)"}.get(
            name, "numpy.ascontiguousarray(x)"
        )
        raise WeftError(
            "weft.quantize: x must have contiguous rows or columns and strides that aren't negative, got "
            f"strides of {view.strides} elements: pass {advice}"
        )
    return library, view


def _has_rows(view: ArrayView) -> bool:
    """Whether the rows are contiguous."""
    (rows, columns), (down, across) = view.shape, view.strides
    return 0 in view.shape or ((columns == 1 or across == 1) and (rows == 1 or down >= 0))


def _turned(view: ArrayView) -> ArrayView:
    return replace(view, shape=view.shape[::-1], strides=view.strides[::-1])


Array = tuple[tuple[int, ...], str]
"""The shape and type of a new array."""


@dataclass(frozen=True)
class _Problem:
    """A cast of the matrix `of` with contiguous rows, which is x, or its transpose if `turned`."""

    cast: Cast
    sizes: Sizes
    row_bytes: int
    turned: bool

    @classmethod
    def of(cls, view: ArrayView, options: Options) -> "_Problem":
        turned = not _has_rows(view)
        view = _turned(view) if turned else view
        chip = _chip(view, options.arch)
        if chip not in FP8_ROUNDING:
            raise WeftError(
                f"weft.quantize: a chip that rounds to fp8 must be {describe(FP8_ROUNDING)}, got {chip}"
            )
        (rows, columns), size = view.shape, arrays.numpy_dtype(view.dtype).itemsize
        row_bytes = (view.strides[0] if rows > 1 else columns) * size
        aligned = aligned_to(replace(view, strides=(row_bytes // size, 1)))
        unit = ROW_BYTES if aligned % ROW_BYTES == 0 else gcd(_UNIT, aligned)
        first, second = options.values, options.transposed
        kept, transposed = (second, first) if turned else (first, second)
        grain = _SWAPPED.get(options.scales, options.scales) if turned else options.scales
        cast = Cast(view.dtype, unit, options.dtype, grain, kept, transposed, options.powers_of_two, chip)
        return cls(cast, Sizes(rows, columns), row_bytes, turned)

    @property
    def new(self) -> dict[str, Array]:
        """The arrays to create, by the names of the kernel's arguments."""
        rows, columns = self.sizes.rows, self.sizes.columns
        down, across = self.sizes.tiles
        grain, element = self.cast.scales, self.cast.element
        of_scales = {
            "tensor": ((1,), (1,)),
            "row": ((rows, 1), (rows, 1)),
            "column": ((1, columns), (1, columns)),
            "group": ((across, _up(rows, PITCH)), (down, _up(columns, PITCH))),
            "block": ((down, across), (across, down)),
        }[grain]
        every: dict[str, Array] = {
            "kept": ((rows, _up(columns, ROW_BYTES)), element),
            "transposed": ((columns, _up(rows, ROW_BYTES)), element),
            "scales": (of_scales[0], "f32"),
            "transposed_scales": (of_scales[1], "f32"),
        }
        if self.cast.has_partials:
            every["partials"] = ((self.sizes.partial_count(grain),), "f32")
        return {name: every[name] for name in cast_kernels.arrays_of(self.cast) if name in every}

    def launches(self, flat: dict[str, Any]) -> "list[tuple[Any, tuple[str, ...], list[Any], Any]]":
        """The kernels to launch in order: each with the names of its arrays, its arguments and its grid."""
        cast, sizes = self.cast, self.sizes
        shape, grain, found = (sizes.rows, sizes.columns), cast.scales, []
        count = 0
        if cast.has_partials:
            count = sizes.partials(grain)
            kernel = cast_kernels.maxima(cast.source, cast.unit, grain, cast.chip)
            names: tuple[str, ...] = ("x", "partials")
            numbers = [self.row_bytes, *shape, sizes.per_cta(grain), count]
            found.append(
                (kernel, names, [*(flat[name] for name in names), *numbers], sizes.maxima_grid(grain))
            )
        kernel, names = cast_kernels.casting(cast), cast_kernels.arrays_of(cast)
        numbers = [self.row_bytes, *(_up(size, ROW_BYTES) for size in shape[::-1]), *shape, count]
        found.append((kernel, names, [*(flat[name] for name in names), *numbers], sizes.grid))
        return found

    def flat(self, view: ArrayView) -> ArrayView:
        """The elements of the source from the first to the last."""
        size = arrays.numpy_dtype(view.dtype).itemsize
        span = (self.sizes.rows - 1) * self.row_bytes // size + self.sizes.columns
        return replace(view, shape=(span,), strides=(1,))

    def empty(self, x: Any, library: Library, view: ArrayView) -> Quantized:
        """The result for a matrix without elements, whose scales are 1."""
        made = {name: library.empty(x, view, *array) for name, array in self.new.items()}
        for name in set(made) - {"kept", "transposed"}:
            made[name][...] = 1
        return self.result(made)

    def run(self, x: Any, library: Library, view: ArrayView) -> Quantized:
        """Casts an array of the CPU."""
        made = {name: library.empty(x, view, *array) for name, array in self.new.items()}
        views = {name: arrays.view(array) for name, array in made.items()}
        flat = {"x": self.flat(view)} | {name: _as_flat(each) for name, each in views.items()}
        on = "emulator" if self.emulated else "gpu"
        for kernel, _, arguments, grid in self.launches(flat):
            kernel(*arguments, grid=grid, on=on)
        return self.result(made)

    @property
    def emulated(self) -> bool:
        return runtime.available() is not None or runtime.current().chip != self.cast.chip

    def result(self, made: dict[str, Any]) -> Quantized:
        """The arrays as the caller gets them."""
        rows, columns = self.sizes.rows, self.sizes.columns
        kept, transposed = made.get("kept"), made.get("transposed")
        scales, of_transposed = made.get("scales"), made.get("transposed_scales")
        if columns % ROW_BYTES and kept is not None:
            kept = kept[:, :columns]
        if rows % ROW_BYTES and transposed is not None:
            transposed = transposed[:, :rows]
        if self.cast.scales == "group":
            scales = None if scales is None else scales[:, :rows].T
            of_transposed = None if of_transposed is None else of_transposed[:, :columns].T
        elif self.cast.has_partials and scales is not None:
            of_transposed = scales if self.cast.scales == "tensor" else scales.T
            scales = scales if self.cast.kept else None
            of_transposed = of_transposed if self.cast.transposed else None
        pairs = (kept, scales), (transposed, of_transposed)
        first, second = pairs[::-1] if self.turned else pairs
        return Quantized(*first, *second)


def _as_flat(view: ArrayView) -> ArrayView:
    """A contiguous array as a vector."""
    return replace(view, shape=(int(np.prod(view.shape)),), strides=(1,))


def _up(size: int, multiple: int) -> int:
    return ceil_div(size, multiple) * multiple


def _chip(view: ArrayView, arch: str | None) -> str:
    """The chip that casts an array. Raises WeftError for an `arch` with arrays on a GPU."""
    if view.device != "cpu":
        chip = runtime.device(runtime.holder([view])).chip
        if arch is not None:
            raise WeftError(
                f"weft.quantize: arch must be None for arrays on a GPU, here of {chip}, got {arch}"
            )
        return chip
    if arch is not None:
        return arch
    return _EMULATED if runtime.available() is not None else runtime.current().chip


@dataclass(frozen=True)
class _Plan:
    """The launches for all matrices with one key, on a GPU."""

    problem: _Problem
    makers: dict[str, tuple[Callable[[], Any], Callable[[Any], int]]]
    launches: list[tuple[Prepared, tuple[str, ...]]]
    stream: Callable[[Any], int | None]
    """`stream(None)` is the handle of the current stream, or None if the array must be checked again."""
    current: Callable[[], int]

    @classmethod
    def of(cls, problem: _Problem, x: Any, library: Library, view: ArrayView) -> "_Plan":
        with runtime.on(runtime.holder([view])):
            ordinal = runtime.current().ordinal
        new = problem.new
        for array in new.values():
            library.empty(x, view, *array)  # raises WeftError for a type that the library lacks
        makers = {name: library.maker(x, ordinal, *array) for name, array in new.items()}
        plain = replace(view, owner=None, device_id=ordinal)
        flat = {"x": problem.flat(plain)}
        for name, (shape, dtype) in new.items():
            size = int(np.prod(shape))
            flat[name] = replace(plain, address=0, shape=(size,), strides=(1,), dtype=dtype, readonly=False)
        with runtime.on(ordinal):
            launches = [
                (kernel.plan(arguments, grid=grid), names)
                for kernel, names, arguments, grid in problem.launches(flat)
            ]
        stream = libraries.stream_finder([x], ordinal, [view])
        return cls(problem, makers, launches, stream, library.current_stream(ordinal))

    def run(self, address: int, stream: int) -> Quantized:
        """Queues the launches for the matrix at an address on a stream."""
        made, at = {}, {"x": address}
        for name, (create, address_of) in self.makers.items():
            made[name] = array = create()
            at[name] = address_of(array)
        for launch, names in self.launches:
            launch.launch(stream, *[at[name] for name in names])
        return self.problem.result(made)


_plans: Any = Plans()
