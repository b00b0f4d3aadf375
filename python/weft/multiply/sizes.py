"""The sizes of a product of `weft.matmul`, and the views of arrays that have to fit them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from weft.dialects.operand_roles import BLOCK_SCALES, FACTORS, GROUPINGS, WORD, extents, role_of
from weft.dialects.product_types import ceil_div
from weft.errors import WeftError
from weft.launch import arrays, overlaps
from weft.launch.arrays import ArrayView
from weft.launch.libraries import Library
from weft.multiply import array_views, block_formats, scale_factors
from weft.multiply.array_views import COPY, refuse
from weft.multiply.block_formats import Kind
from weft.multiply.product import kind_of


@dataclass(frozen=True)
class Sizes:
    """The sizes of a product, from which those of every array follow."""

    m: int
    n: int
    k: int
    members: int | None  # of a batch; None for one result
    matrices: int | None  # with groups: those from which each row of a has one
    leading: tuple[int, ...] = ()  # of the result
    grouped: bool = False
    vectors: tuple[bool, bool] = (False, False)  # whether a and b are

    @classmethod
    def of(
        cls,
        a: ArrayView,
        b: ArrayView,
        transposed: tuple[bool, bool],
        grouping: str | None = None,
        count: int = 0,
        asked: tuple[bool, bool] = (False, False),
    ) -> "Sizes":
        """The sizes of a product of a and b, with groups if there is an array for them, of `count` elements.
        The caller `asked` for transposes of a and b. Raises WeftError for sizes that don't fit.
        """
        (m, k), (k_b, n) = (
            view.shape[-2:][::-1] if flipped else view.shape[-2:]
            for view, flipped in zip((a, b), transposed, strict=True)
        )
        if complaint := k_complaint((m, k), (k_b, n), asked):
            raise WeftError(complaint)
        batches = {name: v.shape[0] for name, v in (("a", a), ("b", b)) if len(v.shape) == 3}
        if grouping and (wrong := next((n for n, v in (("a", a), ("b", b)) if len(v.shape) > 3), None)):
            many = len((a if wrong == "a" else b).shape)
            raise refuse(f"{wrong} must have at most 3 dimensions with {grouping}, got {many}: reshape it")
        if grouping == "k_ends":
            if batches:
                raise refuse(f"{next(iter(batches))} must be a matrix with k_ends, got a batch")
            return cls(m, n, k, count, None, (count,), True)
        if grouping == "row_ends" and list(batches) != ["b"]:
            got = " and ".join(batches) or "none"
            raise refuse(f"only b must be a batch with row_ends, got {got}")
        if grouping and not batches:
            raise refuse("b, or a and b, must be a batch with groups")
        if grouping and not batches.get("b", 1):
            raise refuse(f"b must have at least one matrix with {grouping}, got 0")
        if grouping and "a" not in batches:
            return cls(m, n, k, None, batches["b"], (), True)
        leading = _broadcast(a.shape[:-2], b.shape[:-2])
        return cls(m, n, k, prod(leading) if leading else None, None, leading, grouping is not None)

    def of_array(
        self, name: str, element: str = "f32", words: int = 0, columns: bool = False
    ) -> tuple[int, ...]:
        """The shape of an array, by its role and its elements; it may lack leading dimensions or have 1
        there, but `out` may not. `words` is how many elements share a scale where these come as words; with
        `columns` each column of b has float32 scales.
        """
        groups = self.m if self.members is None else self.members
        sizes = extents(self.m, self.n, self.k, groups, ceil_div, self.products)
        role = role_of("c" if kind_of(name) == "out" else name, element, words, columns)
        shape = tuple(sizes[dimension] for dimension in role.sizes)
        if len(shape) == 1:
            return shape
        if words or columns or (name == "scale_a" and element == "f32"):
            shape = shape[::-1]  # as a lies, whose rows it scales
        of_b = name == "scale_b" and self.matrices is not None
        return (self.matrices, *shape) if of_b and self.matrices is not None else (*self.leading, *shape)

    def as_given(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the result, C or the residual, without the 1 of a vector."""
        sizes = [size for size, is_vector in zip(shape[-2:], self.vectors, strict=True) if not is_vector]
        return *shape[:-2], *sizes

    def _as_matrices(self, view: ArrayView) -> ArrayView:
        """The view of the result, C or the residual with the 1 of a vector, of which it has no dimension."""
        shape, strides = view.shape, view.strides
        if self.vectors[1]:
            shape, strides = (*shape, 1), (*strides, 1)
        if self.vectors[0] and shape:
            shape, strides = (
                (*shape[:-1], 1, shape[-1]),
                (*strides[:-1], shape[-1] * strides[-1], strides[-1]),
            )
        return replace(view, shape=shape, strides=strides)

    def view(
        self, name: str, array: object, kinds: tuple[Kind, Kind] | None = None, block: int = 0
    ) -> tuple[Library, ArrayView]:
        """The library of an array, and its view as the kernel has it; `block` elements share a scale where
        scales come as words. Raises WeftError for another shape.
        """
        library, view = array_views.read(name, array)
        if name == "alpha":
            return library, self._alpha(view)
        if kind_of(name) == "extra":
            return library, self._broadcast_to_result(name, view)
        if name in FACTORS:
            return library, scale_factors.vector(name, view)
        words = name in BLOCK_SCALES and block_formats.are_words(name, view, kinds, block)
        if name in BLOCK_SCALES and not words and (scale := block_formats.scale_type(name, view, kinds)):
            shape = self.of_array(name, scale)
            if len(self.leading) > 1:
                shape = (self.products, *shape[-2:])
            return library, arrays.as_scales(f"weft.matmul: {name}", view, scale, shape)
        columns = not words and self.has_columns(name, view)
        shape, given = self.of_array(name, WORD if words else "f32", block if words else 0, columns), view
        by_columns = words or columns or name == "scale_a"
        is_result = kind_of(name) == "out"
        of_result = is_result or name in ("c", "residual")
        view = self._as_matrices(view) if of_result else view
        broadcast = name in ("c", "residual", "scale_a", "scale_b") and self.matrices is None
        if view.shape != shape and not (broadcast and _fits(view.shape, shape)):
            sizes = self.as_given(shape) if of_result else shape
            wanted = " x ".join(map(str, sizes)) + (" elements" if len(sizes) == 1 else "")
            wanted = wanted or "a single number"
            hint = ": a vector for all rows is a bias" if of_result and given.shape == (self.n,) else ""
            raise refuse(f"{name} must be {wanted}, got {array_views.shape_text(given)}{hint}")
        if not is_result and name not in GROUPINGS and self.matrices is None and self.grouped:
            view = array_views.without_copies(view)
        if by_columns:
            view = array_views.transposed(view)
        if is_result and overlaps.overlaps_itself(view):
            found = f"strides {view.strides}"
            raise refuse(f"elements of {name} must not share memory, got {found}")
        if view.shape[-1] > 1 and view.strides[-1] != 1 and all(view.shape):
            what = {1: ""}.get(len(shape), " columns" if by_columns else " rows")
            found = f"strides {given.strides}"
            if by_columns:
                found += f": transpose an array with a row for each {'word' if words else 'K block'}"
            elif not is_result:
                found += f": {COPY}"
            raise refuse(f"{name} must have contiguous{what or ' elements'}, got {found}")
        return library, view

    def _broadcast_to_result(self, name: str, view: ArrayView) -> ArrayView:
        """The view of an extra array of an epilogue with all dimensions of the result, or of one row for each
        `b` that rows of a select. Those of one element have a stride of 0. Raises WeftError for sizes that
        don't broadcast.
        """
        matrices = self._as_matrices(view)
        wanted = self.of_array("out")
        if self.matrices is not None and len(matrices.shape) > 2:
            wanted = self.matrices, 1, self.n
        before = len(wanted) - len(matrices.shape)
        shape, strides = (1,) * before + matrices.shape, (0,) * before + matrices.strides
        if len(shape) > len(wanted) or any(n not in (1, of) for n, of in zip(shape, wanted, strict=True)):
            hint = ": reshape it to M x 1 for a number for each row" if view.shape == (self.m,) else ""
            sizes = " x ".join(map(str, self.as_given(wanted)))
            got = f"got {array_views.shape_text(view)}{hint}"
            raise refuse(f"{name} must be {sizes}, with 1 where it is the same for all, {got}")
        strides = tuple(0 if size == 1 else stride for size, stride in zip(shape, strides, strict=True))
        return replace(view, shape=shape, strides=strides)

    def has_columns(self, name: str, view: ArrayView) -> bool:
        """Whether an array has float32 scales of each column of b, as one of a has them of each row."""
        return name == "scale_b" and self.n > 1 and view.shape[-2:] == self.of_array(name, columns=True)[-2:]

    def _alpha(self, view: ArrayView) -> ArrayView:
        """A vector of one number, or of one for each product. Raises WeftError for any other array."""
        if view.dtype != "f32":
            raise refuse(f"alpha must be a number or an array of f32, got one of {view.dtype}")
        if prod(view.shape) == 1:
            return replace(view, shape=(1,), strides=(1,))
        count = self.products
        if view.shape not in ((count,), self.leading):
            legal = "1 element" if count == 1 else f"1 element or {count}, one for each product"
            raise refuse(f"alpha must be a number or {legal}, got {array_views.shape_text(view)}")
        if view.strides != arrays.contiguous_strides(view.shape):
            raise refuse(f"alpha must have contiguous elements, got strides {view.strides}: {COPY}")
        return replace(view, shape=(count,), strides=(1,))

    @property
    def products(self) -> int:
        """The products that may have an alpha each: those of a batch, or one for each `b` where rows of
        `a` select one.
        """
        counts = (count for count in (self.matrices, self.members) if count is not None)
        return next(counts, 1)


def k_complaint(a: Sequence[int], b: Sequence[int], asked: tuple[bool, bool]) -> str | None:
    """The complaint about matrices that are multiplied, M x K and K x N, of which the caller `asked` for
    transposes; None for those of one K.
    """
    (m, k), (k_b, n) = a, b
    if k == k_b:
        return None
    hint = f": pass transpose_b={not asked[1]}" if k == n else ""
    hint = f": pass transpose_a={not asked[0]}" if m == k_b and not hint else hint
    return f"weft.matmul: a and b must have the same K, got {m} x {k} and {k_b} x {n}{hint}"


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The leading dimensions of a product; NumPy takes at most 32. Raises WeftError if they don't fit."""
    rank = max(len(a), len(b))
    pairs = list(zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True))
    if any(1 not in pair and pair[0] != pair[1] for pair in pairs):
        got_a, got_b = (" x ".join(map(str, each)) for each in (a, b))
        raise refuse(f"leading dimensions of a and b must be equal or 1, got {got_a} and {got_b}")
    return tuple(x if y == 1 else y for x, y in pairs)


def _fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether matrices of a shape have the leading dimensions of another, or fewer or 1."""
    if len(shape) > len(wanted) or shape[-2:] != wanted[-2:]:
        return False
    leading = wanted[:-2]
    return all(size in (1, of) for size, of in zip(shape[:-2][::-1], leading[::-1], strict=False))
