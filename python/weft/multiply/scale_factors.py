"""Scales of rows of `a`, of columns of `b` and of whole tensors: factors of the result's rows and columns.

They have the shapes of PyTorch's `torch._scaled_mm`: M x 1, 1 x N, or one element.
"""

from dataclasses import replace
from math import prod

from weft.dialects.operand_roles import element_types
from weft.dialects.product_types import PROMOTED, ceil_div
from weft.launch.arrays import ArrayView
from weft.multiply.array_views import refuse, shape_text

ROLES = {"scale_a": "row_factors", "scale_b": "column_factors"}
"""The roles that such scales have in `tile.matmul`."""
_NAMES = {role: name for name, role in ROLES.items()}
_FP8 = ("f8E4M3FN", "f8E5M2")  # only these have scales of blocks
_FLOATS = (*_FP8, "f16", "bf16", "f32")


def are_factors(of_a: ArrayView, of_b: ArrayView, sizes: tuple[int, int, int], element: str) -> bool:
    """Whether scales of a product of these sizes (M, N, K) are factors, not scales of blocks of 128 elements
    along K. With a single block, scales of rows are both; then those of b decide. Raises WeftError for pairs
    of which only one has factors, and for factors of elements that have none.
    """
    for name, view in (("scale_a", of_a), ("scale_b", of_b)):
        scales = element_types(name)
        if view.dtype not in (*scales, "ui8"):  # bytes need a kind
            raise refuse(f"{name} must have elements of {', '.join(scales)}, got {view.dtype}: convert it")
    if of_a.dtype != "f32" or of_b.dtype != "f32":
        return False
    m, n, k = sizes
    blocks = ceil_div(k, PROMOTED)
    blocks_of_b = (ceil_div(n, PROMOTED), blocks), (n, blocks)
    of_blocks = element in _FP8 and of_a.shape[-2:] == (m, blocks)
    if of_blocks and of_b.shape[-2:] in blocks_of_b:
        return False
    rows, columns = _is_factor(of_a, (m, 1)), _is_factor(of_b, (1, n))
    if rows and columns:
        if element not in _FLOATS:
            legal = ", ".join(_FLOATS)
            raise refuse(f"scales of rows, columns or tensors must come with a of {legal}, got {element}")
        return True
    if not rows and not of_blocks:
        also = f"{m} x {blocks}, " if blocks > 1 and element in _FP8 else ""
        legal = f"{also}{m} x 1 or one element"
        raise refuse(f"scale_a must be {legal}, got {shape_text(of_a)}")
    if rows and not of_blocks:
        legal, beside = f"1 x {n} or one element", f"beside scale_a of {shape_text(of_a)}"
        raise refuse(f"scale_b must be {legal}, got {shape_text(of_b)} {beside}")
    return False


def vector(role: str, view: ArrayView) -> ArrayView:
    """The factors as a vector, of one element if all are one in memory. Raises WeftError for elements that
    aren't contiguous.
    """
    size = prod(view.shape)
    along = 0 if role == "row_factors" else -1
    if size == 1 or view.strides[along] == 0:
        return replace(view, shape=(1,), strides=(1,))
    if view.strides[along] != 1:
        raise refuse(f"{_NAMES[role]} must have contiguous elements, got strides {view.strides}")
    return replace(view, shape=(size,), strides=(1,))


def _is_factor(view: ArrayView, shape: tuple[int, int]) -> bool:
    return view.shape == shape or prod(view.shape) == 1
