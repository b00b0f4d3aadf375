"""`weft.quantize`: a matrix cast to fp8 with scales, and its transpose."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weft.dialects.product_types import ceil_div
from weft.errors import WeftError, about, shown
from weft.isa.chips import describe
from weft.isa.conversion import FP8_ROUNDING
from weft.isa.tensor_map import ROW_BYTES
from weft.launch import arrays, libraries, plans, runtime, torch_tensors
from weft.launch.arrays import ArrayView
from weft.launch.kernel import Kernel
from weft.launch.libraries import Library
from weft.launch.plans import Plans
from weft.launch.runtime import Prepared
from weft.multiply import array_views
from weft.multiply.cast_options import GRADIENTS, Options, Quantized, refuse
from weft.multiply.kernels import casts
from weft.system import upper

SOURCES = ("f32", "bf16", "f16")
_SWAPPED = {"row": "column", "column": "row"}
_EMULATED = "sm_90a"
_MOST_SIZE = 2**31 - 1
_PITCH = 4
"""Rows of scales of groups begin at multiples of this number of elements: of 16 bytes, as TMA requires."""


def _watched(*arguments: object, **options: object) -> Any:
    """`quantize` by an operator of PyTorch, which calls `plain`."""
    return upper.torch().quantized(*arguments, **options)


@torch_tensors.traced_as(_watched)
def quantize(
    x: object,
    dtype: object = "f8E4M3FN",
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
    if libraries.TORCH.is_watching((x,), gradients=False):
        watched: Quantized = _watched(x, **vars(options))
        return watched
    return _planned(x, key, options)


def plain(x: Any, dtype: str, **given: Any) -> Quantized:
    """`quantize` of a tensor that PyTorch needn't see."""
    options = Options(dtype, **given).checked()
    key, found = _by_plan(x, options)
    return _planned(x, key, options) if found is None else found


def _by_plan(x: object, options: Options) -> tuple[Hashable, Quantized | None]:
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


def _planned(x: object, key: Hashable, options: Options) -> Quantized:
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


def _view(x: object) -> tuple[Library, ArrayView]:
    """The library and the view of a matrix. Raises WeftError for one that can't be cast."""
    if (name := arrays.library(type(x))) not in ("torch", "cupy", "numpy"):
        got = type(x).__name__
        raise refuse(f"x must be an array of PyTorch, CuPy or NumPy, got {shown(got)}")
    library = libraries.of(x)
    if library.wants_gradients(x):
        raise refuse(GRADIENTS)
    with about("weft.quantize: x"):
        view = arrays.view(x)
    if view.dtype not in SOURCES:
        raise refuse(f"x must have elements of {', '.join(SOURCES)}, got {view.dtype}")
    if len(view.shape) != 2 or not all(size <= _MOST_SIZE for size in view.shape):
        raise refuse(f"x must be a matrix with sizes in 0..{_MOST_SIZE}, got a shape of {view.shape}")
    if not (_has_rows(view) or _has_rows(array_views.transposed(view))):
        advice = {"torch": "x.contiguous()", "cupy": "cupy.ascontiguousarray(x)"}.get(
            name, "numpy.ascontiguousarray(x)"
        )
        raise refuse(
            "x must have contiguous rows or columns and strides that aren't negative, got strides of "
            f"{view.strides} elements: pass {advice}"
        )
    return library, view


def _has_rows(view: ArrayView) -> bool:
    """Whether the rows are contiguous."""
    (rows, columns), (down, across) = view.shape, view.strides
    return 0 in view.shape or ((columns == 1 or across == 1) and (rows == 1 or down >= 0))


Array = tuple[tuple[int, ...], str]
"""The shape and type of a new array."""
_CTAS = 512
"""The CTAs that find maxima, about: what an H200 runs at once."""
_Launch = tuple[Kernel, tuple[str, ...], Sequence[ArrayView | int]]
"""A kernel, the names of its arrays, and its arguments."""


@dataclass(frozen=True)
class _Problem:
    """A cast of the matrix with contiguous rows which is x, or its transpose if `turned`. `source` is a view
    of it, without an owner. `by`, `keeps` and `transposes` are of this matrix, those of the kernel `cast`.
    """

    source: ArrayView
    chip: str
    element: str
    by: str
    keeps: bool
    transposes: bool
    powers_of_two: bool
    turned: bool

    @classmethod
    def of(cls, view: ArrayView, options: Options) -> "_Problem":
        turned = not _has_rows(view)
        view = array_views.transposed(view) if turned else view
        ordinal = runtime.holder([view])
        chip = runtime.chip_of(ordinal, options.arch, "weft.quantize", lambda: _EMULATED)
        if chip not in FP8_ROUNDING:
            raise refuse(f"a chip that rounds to fp8 must be {describe(FP8_ROUNDING)}, got {chip}")
        rows, columns = view.shape
        source = replace(view, owner=None, strides=(view.strides[0] if rows > 1 else columns, 1))
        kept, transposed = options.values, options.transposed
        if turned:
            kept, transposed = transposed, kept
        by = _SWAPPED.get(options.scales, options.scales) if turned else options.scales
        return cls(source, chip, options.dtype, by, kept, transposed, options.powers_of_two, turned)

    @property
    def tiles(self) -> tuple[int, int]:
        rows, columns = self.source.shape
        return ceil_div(rows, casts.SIDE), ceil_div(columns, casts.SIDE)

    @property
    def has_partials(self) -> bool:
        """Whether a launch finds maxima first."""
        return self.by in ("tensor", "row", "column")

    @property
    def per_cta(self) -> int:
        """The tiles of a CTA that finds maxima."""
        return max(min(ceil_div(math.prod(self.tiles), _CTAS), self._in_line), 1)

    @property
    def _in_line(self) -> int:
        """The tiles whose elements may share a scale."""
        down, across = self.tiles
        return {"tensor": down * across, "row": across, "column": down}[self.by]

    @property
    def new(self) -> dict[str, Array]:
        """The arrays to create, by the names of the kernel's arguments."""
        (rows, columns), (down, across) = self.source.shape, self.tiles
        of_scales = {
            "tensor": ((1,), (1,)),
            "row": ((rows, 1), (rows, 1)),
            "column": ((1, columns), (1, columns)),
            "group": ((across, _up(rows, _PITCH)), (down, _up(columns, _PITCH))),
            "block": ((down, across), (across, down)),
        }[self.by]
        new: dict[str, Array] = {}
        if self.keeps:
            new["kept"] = (rows, _up(columns, ROW_BYTES)), self.element
        if self.transposes:
            new["transposed"] = (columns, _up(rows, ROW_BYTES)), self.element
        if self.has_partials:
            lines = {"tensor": 1, "row": rows, "column": columns}[self.by]
            new["partials"] = (ceil_div(self._in_line, self.per_cta), lines), "f32"
        if self.keeps or self.has_partials:
            new["scales"] = of_scales[0], "f32"
        if self.transposes and not self.has_partials:
            new["transposed_scales"] = of_scales[1], "f32"
        return new

    def launches(self, views: dict[str, ArrayView]) -> list[_Launch]:
        """The launches in order. `views` has the arrays of the kernel `cast`."""
        result = list[_Launch]()
        if self.has_partials:
            arguments: list[ArrayView | int] = [views["x"], views["partials"], self.per_cta]
            kernel = casts.maxima.compile(*arguments, by=self.by, arch=self.chip)
            result.append((kernel, ("x", "partials"), arguments))
        kernel = casts.cast.compile(
            *views.values(),
            by=self.by,
            keeps=self.keeps,
            transposes=self.transposes,
            powers_of_two=self.powers_of_two,
            arch=self.chip,
        )
        result.append((kernel, tuple(views), [*views.values()]))
        return result

    def views(self, view_of: Callable[[str, Array], ArrayView]) -> dict[str, ArrayView]:
        """The arrays of `cast`: x, and those of `view_of`. One that it doesn't access has one element."""
        new, views = self.new, {"x": self.source}
        for name in list(casts.cast.signature.arguments)[1:]:
            kind = self.element if name in ("kept", "transposed") else "f32"
            view = view_of(name, new.get(name, ((1, 1), kind)))
            if name == "scales" and self.has_partials:
                shape = 1, math.prod(view.shape)
                view = replace(view, shape=shape, strides=arrays.contiguous_strides(shape))
            views[name] = view
        return views

    def empty(self, x: object, library: Library, view: ArrayView) -> Quantized:
        """The result for a matrix without elements, whose scales are 1."""
        made = {name: library.empty(x, view, *array) for name, array in self.new.items()}
        for name in set(made) - {"kept", "transposed"}:
            made[name][...] = 1
        return self.result(made)

    def run(self, x: object, library: Library, view: ArrayView) -> Quantized:
        made = dict[str, Any]()

        def view_of(name: str, array: Array) -> ArrayView:
            made[name] = library.empty(x, view, *array)
            return arrays.view(made[name])

        views = self.views(view_of)
        on = "emulator" if self.emulated else "gpu"
        for kernel, _, arguments in self.launches(views):
            kernel(*arguments, on=on)
        return self.result({name: made[name] for name in self.new})

    @property
    def emulated(self) -> bool:
        return runtime.available() is not None or runtime.current().chip != self.chip

    def result(self, made: dict[str, Any]) -> Quantized:
        """The arrays as the caller gets them."""
        rows, columns = self.source.shape
        kept, transposed = made.get("kept"), made.get("transposed")
        scales, of_transposed = made.get("scales"), made.get("transposed_scales")
        if columns % ROW_BYTES and kept is not None:
            kept = kept[:, :columns]
        if rows % ROW_BYTES and transposed is not None:
            transposed = transposed[:, :rows]
        if self.by == "group":
            scales = None if scales is None else scales[:, :rows].T
            of_transposed = None if of_transposed is None else of_transposed[:, :columns].T
        elif self.has_partials and scales is not None:
            of_transposed = scales if self.by == "tensor" else scales.T
            scales = scales if self.keeps else None
            of_transposed = of_transposed if self.transposes else None
        pairs = (kept, scales), (transposed, of_transposed)
        first, second = pairs[::-1] if self.turned else pairs
        return Quantized(*first, *second)


def _up(size: int, multiple: int) -> int:
    return ceil_div(size, multiple) * multiple


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
    def of(cls, problem: _Problem, x: object, library: Library, view: ArrayView) -> "_Plan":
        with runtime.on(runtime.holder([view])):
            ordinal = runtime.current().ordinal
        new, plain = problem.new, replace(problem.source, device_id=ordinal)
        for array in new.values():
            library.empty(x, view, *array)  # raises WeftError for a type that the library lacks
        makers = {name: library.maker(x, ordinal, *array) for name, array in new.items()}

        def view_of(name: str, array: Array) -> ArrayView:
            shape, dtype = array
            strides = arrays.contiguous_strides(shape)
            return replace(plain, address=0, shape=shape, strides=strides, dtype=dtype, readonly=False)

        with runtime.on(ordinal):
            views = problem.views(view_of) | {"x": plain}
            launches = [(kernel.plan(given), names) for kernel, names, given in problem.launches(views)]
        stream = libraries.stream_finder([x], ordinal, [view])
        return cls(problem, makers, launches, stream, library.current_stream(ordinal))

    def run(self, address: int, stream: int) -> Quantized:
        """Queues the launches for the matrix at an address on a stream."""
        made, at = {}, dict.fromkeys(casts.cast.signature.arguments, address)
        for name, (create, address_of) in self.makers.items():
            made[name] = array = create()
            at[name] = address_of(array)
        for launch, names in self.launches:
            launch.launch(stream, *[at[name] for name in names])
        return self.problem.result(made)


_plans: Any = Plans()
