"""The arrays of one call of `weft.matmul`, read once and checked: the operands of its product."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from weft.dialects import element_types as elements
from weft.dialects.activations import activation_complaint
from weft.dialects.operand_roles import GROUPINGS, OUTPUT_TYPES, ROLES, SCALE_OF_WORDS, WORD
from weft.dialects.product_types import (
    GROUP_ROWS,
    HALF,
    PROMOTED,
    Types,
    accumulate_complaint,
    bit_op_complaint,
    ceil_div,
)
from weft.launch import arrays, libraries, overlaps, runtime
from weft.launch.arrays import ArrayView, Planned
from weft.launch.launcher import Extents
from weft.launch.libraries import Library
from weft.multiply import array_views, block_formats, scale_factors
from weft.multiply.array_views import COPY, refuse
from weft.multiply.block_formats import Kind
from weft.multiply.leading import Folded, fold
from weft.multiply.product import Product, Traced, kind_of
from weft.multiply.sizes import Sizes

# The result's type without `out` and `out_dtype`: sums of bytes are i32, and narrow floats have too few bits.
_OUTPUTS = {
    **dict.fromkeys((*elements.BYTE_TYPES, *elements.PTX_PACKED), "i32"),
    **dict.fromkeys(elements.NARROW_TYPES, "bf16"),
}

_BY_SUMS = {"f64": "f64", "i32": "integers"}
"""The types of sums that all other arrays share, and what a and b are then."""
_IN_BYTES = {
    **dict.fromkeys(("i16", "i32", "i64"), "i8 if its values are in -128..127"),
    **dict.fromkeys(("ui16", "ui32", "ui64"), "ui8 if its values are in 0..255"),
}
"""For other types of integers, the type to which they may be converted without a loss."""
_LEGAL = {name: role.elements for name, role in ROLES.items() if role.is_added or name in GROUPINGS}
_LEGAL["out"] = _LEGAL["extra"] = OUTPUT_TYPES
_ADDED = {name for name, role in ROLES.items() if role.is_added}


def default_result(element: str) -> str:
    """The type of the result for `a` of an element type, without `out` and `out_dtype`."""
    return _OUTPUTS.get(element, element)


@dataclass(frozen=True)
class Operands:
    """The arrays of one call and their views, with transposes as their strides have them.

    Arrays, views and names are in the order a, b, the result, and the other operands by their roles. `views`
    and `sizes` are those of one launch; the `whole` views have all leading dimensions, and a vector's 1.
    `turns` has, for each launch, the bytes from each array to its part. `created`: the call creates the
    results' arrays. `axes` are those of the extra arrays of an epilogue that is a function.
    """

    names: tuple[str, ...]
    arrays: tuple[Any, ...]
    views: tuple[ArrayView, ...]
    libraries: tuple[Library, ...]
    created: bool
    ordinal: int | None  # of the GPU that holds the arrays; None for the CPU
    extents: Extents
    types: Types
    transposed: tuple[bool, bool]
    sizes: Sizes
    product: Product
    whole: tuple[ArrayView, ...]
    turns: tuple[tuple[int, ...], ...]
    axes: Mapping[str, str]

    @classmethod
    def of(
        cls, a: object, b: object, out: object, added: Mapping[str, object], product: Product
    ) -> "Operands":
        """Raises WeftError for arrays that make no product, and for options that aren't legal."""
        product = product.checked()
        kind_a, kind_b = product.kinds or (None, None)
        array_views.check_before_gradients({"a": a, "b": b, **({} if out is None else {"out": out}), **added})
        library, view_a, transposed_a, vector_a = _matrix("a", a, product.transpose_a, kind_a)
        library_b, view_b, transposed_b, vector_b = _matrix("b", b, product.transpose_b, kind_b)
        transposed = transposed_a, transposed_b
        asked = product.transpose_a, product.transpose_b
        sizes = Sizes.of(view_a, view_b, transposed, *_grouping(added), asked=asked)
        sizes = replace(sizes, vectors=(vector_a, vector_b))
        if complaint := block_formats.complaint(product.kinds, (view_a, view_b), "scale_a" in added):
            raise refuse(complaint)
        if "scale_a" in added and product.kind is None:
            added = _with_factors(added, view_a, sizes)
        created = out is None
        if created and product.beta and "c" not in added:
            raise refuse("beta must have a c or an out to scale: pass one of them")
        outs = None if created else 1 + sum(kind_of(name) == "out" for name in added)
        product, kinds = _with_results(product, view_a.dtype, outs)
        if created and len(kinds) > 1 and isinstance(a, Planned):
            what = "the epilogue must return one element in functions that JAX traces"
            raise refuse(f"{what}, got {len(kinds)}")
        if created:
            shape = sizes.as_given(sizes.of_array("out"))
            usual = default_result(view_a.dtype)
            new = {name: library.empty(a, view_a, shape, kind or usual) for name, kind in kinds.items()}
            out = new.pop("out")
            added = {**added, **new}
        if product.scale_block and "scale_a" not in added:
            raise refuse("scale_block must be given with scales of int32 only, got no scales")
        scales = product.kinds, product.block
        read = {name: sizes.view(name, each, *scales) for name, each in {"out": out, **added}.items()}
        for name, kind in kinds.items():
            _check_result(name, *read[name], kind)
        rest = list(read.values())
        names, views = ("a", "b", "out", *added), (view_a, view_b, *(view for _, view in rest))
        if wrong := _types_complaint(dict(zip(names, (view.dtype for view in views), strict=True))):
            raise refuse(wrong)
        types = _types(views, names, transposed, product, sizes)
        if complaint := activation_complaint(product.activation, types.sums):
            raise refuse(complaint)
        if sizes.k % types.multiple_of_k:
            what = f"K must be a multiple of {types.multiple_of_k} for a and b of {types.a} and {types.b}"
            raise refuse(f"{what}, got {sizes.k}")
        extents = _extents(names, views)
        if sizes.grouped:
            shared = "ab" if sizes.matrices is None else ""
            of_launch = tuple(
                array_views.without_copies(view) if name in shared else view
                for name, view in zip(names, views, strict=True)
            )
            folded = Folded(of_launch, sizes.m, sizes.members, ((0,) * len(views),))
        else:
            reads_row = product.traced is not None and product.traced.reads_row
            folded = fold(names, views, sizes.leading, sizes.m, transposed_a or reads_row)
        passed = dict(zip(names, folded.views, strict=True))
        along = {n: array_views.along_axes(n, view) for n, view in passed.items() if kind_of(n) == "extra"}
        passed |= {name: view for name, (_, view) in along.items()}
        return cls(
            names=names,
            arrays=(a, b, out, *added.values()),
            views=tuple(passed.values()),
            libraries=(library, library_b, *(each for each, _ in rest)),
            created=created,
            ordinal=_ordinal(views),
            extents=extents,
            types=types,
            transposed=transposed,
            sizes=replace(sizes, m=folded.m, members=folded.members),
            product=product,
            whole=views,
            turns=folded.turns,
            axes={name: axes for name, (axes, _) in along.items()},
        )

    @property
    def is_empty(self) -> bool:
        """Whether the result has no elements."""
        return 0 in self.whole[2].shape

    @property
    def results(self) -> list[int]:
        """The numbers of the results' arrays."""
        return [number for number, name in enumerate(self.names) if kind_of(name) == "out"]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result's array."""
        return self.sizes.as_given(self.whole[2].shape)

    def of_turn(self, offsets: Sequence[int]) -> "Operands":
        """The operands of the launch whose arrays begin at these offsets, one of `turns`."""
        shifted = zip(self.views, offsets, strict=True)
        return replace(self, views=tuple(replace(v, address=v.address + by) for v, by in shifted))

    @property
    def result(self) -> Any:
        """What the call returns, once the product is computed."""
        library = self.libraries[0]
        a = self.arrays[0]
        results = [self.arrays[n] for n in self.results]
        if self.created:
            results = [library.handed_over(each, a) for each in results]
        return results[0] if len(results) == 1 else tuple(results)

    def k_major(self, numbers: tuple[int, ...]) -> "Operands":
        """The operands of the product that reads K-major copies of some of a and b, whose views are kept."""
        if not numbers:
            return self
        mn_major = self.types.transposed
        a, b = (mn and number not in numbers for number, mn in enumerate(mn_major))
        return replace(self, types=replace(self.types, transposed=(a, b)), transposed=(a, not b))

    def check_groups(self) -> None:
        """Raises WeftError for groups in CPU memory with illegal values."""
        a, b, out, *_ = self.views
        for name, view in zip(self.names, self.views, strict=True):
            if name == "groups":
                _check_groups(view.numpy(), out.shape[-2], None if len(out.shape) == 3 else b.shape[0])
            elif name in GROUPINGS:
                size = self.sizes.k if name == "k_ends" else self.sizes.m
                _check_ends(name, view.numpy(), size, self.types.group_unit)
            if name == "k_ends" and not self.types.divides_k_blocks:
                for number, x in enumerate((a, b)):
                    k_first = self.transposed[number] == (number == 0)
                    _check_padding("ab"[number], x.numpy() if k_first else x.numpy().T, view.numpy())

    def refuse_layout(self) -> NoReturn:
        """Raises WeftError for the operand that isn't K-major, which no instruction reads."""
        types = self.types
        wanted = (
            "M x K with contiguous rows (without transpose_a)",
            "N x K with contiguous rows (transpose_b=True)",
        )
        number = types.transposed.index(True)
        name, element, view = "ab"[number], (types.a, types.b)[number], arrays.view(self.arrays[number])
        raise refuse(
            f"{name} must be {wanted[number]}, since tensor cores read {element} K-major only, got "
            f"{array_views.shape_text(view)} with strides {view.strides}"
        )


def _types_complaint(given: Mapping[str, str]) -> str | None:
    """Why arrays of these types, by their names, make no product."""
    for name in ("a", "b"):
        if given[name] not in elements.INPUT_TYPES:
            got = given[name]
            if got in _IN_BYTES:  # f32 is rounded to tf32, which has integers up to 2048
                got += (
                    f": convert it to {_IN_BYTES[got]}, or to f64, which is exact while sums are below 2**53"
                )
            return f"{name} must have elements of {', '.join(elements.INPUT_TYPES)}, got {got}"
    if not elements.may_be_mixed(given["a"], given["b"]):
        a, b = given["a"], given["b"]
        return f"a and b must have one element type, got {a} and {b}: convert one of them"
    for name, dtype in given.items():
        legal = _LEGAL.get(kind_of(name), (dtype,))
        if dtype not in legal:
            return f"{name} must have elements of {', '.join(legal)}, got {dtype}: convert it"
    sums = Types(given["a"], given["b"], given["out"]).sums
    for name, dtype in given.items():
        if kind_of(name) not in ("out", "extra", *_ADDED):
            continue
        what = "the result (out, out_dtype)" if name == "out" else name
        if sums in _BY_SUMS and dtype != sums:
            inputs = _BY_SUMS[sums]
            return f"{what} must have elements of {sums} where a and b are {inputs}, got {dtype}"
        if sums not in _BY_SUMS and dtype in _BY_SUMS:
            legal = f"elements of {dtype} only where a and b are {_BY_SUMS[dtype]}"
            return f"{what} may have {legal}, got a of {given['a']}: use f32"
    return None


def _types(
    views: Sequence[ArrayView],
    names: Sequence[str],
    transposed: tuple[bool, bool],
    product: Product,
    sizes: Sizes,
) -> Types:
    """The element types, and which of a and b are MN-major. Raises WeftError for sums of no such type."""
    a, b, d, *_ = (view.dtype for view in views)
    mn_major = transposed[0], not transposed[1]
    scales = [view.dtype for name, view in zip(names, views, strict=True) if name == "scale_a"]
    words = product.block if WORD in scales else 0
    scale = SCALE_OF_WORDS if words else next((each for each in scales if each in elements.PTX_SCALES), "")
    scaled = bool(scales) and not scale
    of_groups = not set(GROUPINGS).isdisjoint(names), "k_ends" in names
    promoted = product.promote or scaled
    of_columns = ceil_div(sizes.k, PROMOTED), sizes.n  # which isn't the shape of other scales of b if n > 1
    given = (view.shape[-2:] for name, view in zip(names, views, strict=True) if name == "scale_b")
    columns = scaled and sizes.n > 1 and of_columns in given
    sums = promoted, scaled, of_groups[0], scale, words, of_groups[1], columns, product.accumulate == HALF
    types = Types(a, b, d, mn_major, *sums, product.bit_op or "")
    if wrong := accumulate_complaint(product.accumulate, types) or bit_op_complaint(product.bit_op, types):
        raise refuse(wrong)
    return types


def _with_factors(added: Mapping[str, object], a: ArrayView, sizes: Sizes) -> dict[str, Any]:
    """The operands with row and column factors in the place of scales, if these are of rows, of columns or of
    whole tensors. Raises WeftError for those of a product that has none.
    """
    left, right = (array_views.read(name, added[name])[1] for name in ("scale_a", "scale_b"))
    factors = scale_factors.are_factors(left, right, (sizes.m, sizes.n, sizes.k), a.dtype)
    if factors and (grouping := _grouping(added)[0]) is not None:
        legal = "M x ceil(K / 128) and of blocks or columns of b, or an alpha for each group"
        what = f"scales of rows, columns or tensors must come without {grouping}"
        raise refuse(f"{what}: pass scales of {legal}")
    return {scale_factors.ROLES.get(name, name) if factors else name: x for name, x in added.items()}


def _grouping(added: Mapping[str, object]) -> tuple[str | None, int]:
    """The role that makes products of different sizes, and its elements. Raises WeftError for several."""
    given = [name for name in GROUPINGS if name in added]
    if len(given) > 1:
        legal = ", ".join(GROUPINGS)
        raise refuse(f"at most one of {legal} must be given, got {' and '.join(given)}")
    if not given:
        return None, 0
    return given[0], prod(array_views.read(given[0], added[given[0]])[1].shape)


def _with_results(product: Product, element: str, given: int | None) -> tuple[Product, dict[str, str | None]]:
    """The product with its function traced, and the types of its results, where the caller chose them, by
    their names. Raises WeftError for another number of results than are `given`.
    """
    if product.function is not None and not isinstance(product.function, Traced):
        sums = default_result(element)
        product = replace(product, function=product.function(sums if sums in _BY_SUMS else "f32"))
    count = 1 if product.traced is None else product.traced.results
    kinds = product.out_dtype if isinstance(product.out_dtype, tuple) else (product.out_dtype,) * count
    for name, found in (("out", given or count), ("out_dtype", len(kinds))):
        if found != count:
            what = "one" if count == 1 else f"a tuple of {count}, one for each result of the epilogue"
            raise refuse(f"{name} must be {what}, got {found}")
    names = ["out", *(f"out[{number}]" for number in range(1, count))]
    return product, dict(zip(names, kinds, strict=True))


def _check_result(name: str, library: Library, view: ArrayView, out_dtype: str | None) -> None:
    """Raises WeftError for a result that can't be written, or has elements of another type."""
    if view.readonly:
        why = " (JAX's arrays never change: call without out, which returns one)" * (library is libraries.JAX)
        raise refuse(f"{name} must be writable{why}")
    if out_dtype not in (None, view.dtype):
        raise refuse(f"{name} must have elements of out_dtype {out_dtype}, got {view.dtype}")


def _ordinal(views: Sequence[ArrayView]) -> int | None:
    """The number of the GPU that holds all arrays; None for the CPU. Raises WeftError for several devices."""
    devices = {(v.device, v.device_id) for v in views if v.device_id >= 0}
    if len({v.device for v in views}) > 1 or len(devices) > 1:
        names = ", ".join(sorted(f"{device}:{number}" for device, number in devices))
        raise refuse(f"all arrays must be on one device, got {names}")
    # Empty arrays of `__cuda_array_interface__` have no address, by which the driver could find their GPU.
    return runtime.holder(view for view in views if view.device_id >= 0 or all(view.shape))


def _matrix(
    name: str, array: object, transpose: bool, kind: Kind | None = None
) -> tuple[Library, ArrayView, bool, bool]:
    """The library of a or b, its view with contiguous rows, whether that is the transpose of what is
    multiplied, and whether the array is a vector, whose view is a matrix of one row (of a) or column (of b).
    """
    library, view = array_views.read(name, array)
    if is_vector := array_views.is_vector(name, view.shape, transpose):
        of_1 = view.shape[0] * view.strides[0]
        axis = 0 if name == "a" else 1
        shape, strides = (
            (*each[:axis], x, *each[axis:]) for each, x in ((view.shape, 1), (view.strides, of_1))
        )
        view = replace(view, shape=shape, strides=strides)
    view = block_formats.elements(name, view, kind)
    (height, width), (rows, columns) = view.shape[-2:], view.strides[-2:]
    flipped = columns != 1 and width > 1 and (rows == 1 or height == 1)
    if not flipped and columns != 1 and width > 1:
        raise refuse(f"{name} must have contiguous rows or columns, got strides {view.strides}: {COPY}")
    transposed = transpose != flipped
    view, other = (array_views.transposed(view), view) if flipped else (view, array_views.transposed(view))
    # A single row or column may be either. Elements that don't have 16 bits must be K-major.
    k_major = transposed == (name == "b") or arrays.numpy_dtype(view.dtype).itemsize == 2
    if not k_major and 1 in view.shape[-2:] and (other.shape[-1] == 1 or other.strides[-1] == 1):
        return library, other, not transposed, is_vector
    return library, view, transposed, is_vector


def _extents(names: Sequence[str], views: Sequence[ArrayView]) -> Extents:
    """The extents of the arrays, and which of them the result may be, element for element. Raises WeftError
    if the kernel would write memory before it has read it.
    """
    alone = dict(zip(names, map(array_views.without_copies, views), strict=True))
    in_place = [name for name in names if kind_of(name) in ("c", "residual", "extra")]
    extents, name = overlaps.extents(alone, in_place)
    if name is not None:
        what = "which is written, too" if kind_of(name) == "out" else "which is read while out is written"
        what += "; it may be the same, element for element" * (name in in_place)
        raise refuse(f"out must not overlap {name}, {what}")
    for further in (name for name in names[3:] if kind_of(name) == "out"):
        others = {name: view for name, view in alone.items() if name not in ("out", further)}
        _, name = overlaps.extents({"out": alone[further], **others}, ())
        if name is not None:
            raise refuse(f"{further} must not overlap {name}")
    return extents


def _check_groups(groups: npt.NDArray[np.int32], rows: int, matrices: int | None) -> None:
    """Raises WeftError for illegal values of `groups` in CPU memory. With `matrices` of None they are numbers
    of rows, up to `rows`; otherwise numbers of matrices, one for each row.
    """
    if matrices is None:
        wrong = np.flatnonzero((groups < 0) | (groups > rows))
        what = f"numbers of rows in 0..{rows}"
    else:
        wrong = np.flatnonzero(groups >= matrices)
        what = f"numbers of matrices below {matrices}"
    if len(wrong):
        at = int(wrong[0])
        raise refuse(f"groups must be {what}, got {groups[at]} at index {at}")
    if matrices is None:
        return
    first = groups[np.arange(len(groups)) // GROUP_ROWS * GROUP_ROWS]
    if len(wrong := np.flatnonzero((groups != first) & (groups >= 0))):
        at = int(wrong[0])
        begin = at // GROUP_ROWS * GROUP_ROWS
        raise refuse(
            f"groups must have one number for the {GROUP_ROWS} rows from {begin} on, got {groups[begin]} "
            f"and, at index {at}, {groups[at]}"
        )


def _check_ends(name: str, ends: npt.NDArray[np.int32], size: int, unit: int) -> None:
    """Raises WeftError for illegal values of `row_ends` or `k_ends`, of groups of `size` rows or columns
    that begin at multiples of `unit`.
    """
    what = "rows of a" if name == "row_ends" else "K"
    if len(wrong := np.flatnonzero((ends < 0) | (ends > size))):
        at = int(wrong[0])
        raise refuse(f"{name} must be in 0..{size} ({what}), got {ends[at]} at index {at}")
    before = 0
    for at, end in enumerate(ends.tolist()):
        begin = -(-before // unit) * unit
        if end != before and end < begin:
            rounded = f" ({before} rounded up to a multiple of {unit})" * (unit > 1)
            empty = f", or {before} for an empty group" * (begin > before)
            least = f"at least {begin} at index {at}, where its group begins{rounded}{empty}"
            raise refuse(f"{name} must be {least}, got {end}")
        before = end


def _check_padding(name: str, matrix: npt.NDArray[Any], ends: npt.NDArray[np.int32]) -> None:
    """Raises WeftError for a matrix with K first that isn't 0 between the end of a group and the multiple of
    128 up to which a kernel reads it.
    """
    for end in ends.tolist():
        padding = slice(end, -(-end // GROUP_ROWS) * GROUP_ROWS)
        if len(wrong := np.flatnonzero((matrix[padding] != 0).any(axis=1))):
            raise refuse(
                f"{name} must be 0 from the end of a group to the next multiple of {GROUP_ROWS} along K, "
                f"{padding.start}..{padding.stop - 1}, got another value at {end + int(wrong[0])}"
            )
