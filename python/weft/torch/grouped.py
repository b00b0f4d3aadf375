"""Products of groups with the arguments of PyTorch's `grouped_mm`."""

import torch
from torch import Tensor

from weft.errors import WeftError
from weft.multiply.matmul import Epilogue, matmul
from weft.torch.signatures import Operand


def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Operand = None,
    bias: Operand = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """`torch.nn.functional.grouped_mm` by Weft's kernels: for f16, bf16, f32, f64, fp8 and integers, with
    gradients, on every chip.

    `offs` (int32) are the ends of consecutive groups of any size: of rows of a matrix `mat_a` (G products
    with the matrices of `mat_b`, G x K x N), of columns of a matrix `mat_b` (with those of `mat_a`,
    G x M x K), or of K if both are matrices (G results). Two batches have no `offs`. `bias` has N elements.

    The result is M x N, or G x M x N for K groups and batches. Its rows or columns after the last end are
    undefined, and their gradients are 0. A result whose columns are in groups is contiguous along M. Raises
    WeftError for other dimensions, a `bias` with groups of columns, and where `weft.matmul` does.
    """
    ranks = mat_a.dim(), mat_b.dim()
    if not {*ranks} <= {2, 3} or (offs is None) != (ranks == (3, 3)):
        what = "mat_a and mat_b must have 2 or 3 dimensions, with offs unless both have 3"
        got = f"{list(mat_a.shape)} and {list(mat_b.shape)} {'without' if offs is None else 'with'} offs"
        raise WeftError(f"weft.torch.grouped_mm: {what}, got {got}")
    options = {} if out_dtype is None else {"out_dtype": out_dtype}
    if ranks == (3, 2):
        if bias is not None:
            raise WeftError(
                "weft.torch.grouped_mm: bias must be None where offs divide columns: add it to the result"
            )
        return matmul(mat_b.mT, mat_a.mT, row_ends=offs, **options).mT
    name = {(2, 3): "row_ends", (2, 2): "k_ends"}.get(ranks)
    groups = {} if name is None else {name: offs}
    epilogue = None if bias is None else Epilogue(bias)
    return matmul(mat_a, mat_b, epilogue=epilogue, **groups, **options)
