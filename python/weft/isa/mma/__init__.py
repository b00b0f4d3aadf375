"""The tables of the `mma` dialect: `mma` in its dense, sparse and block-scaled forms, and what feeds it."""

from weft.isa.mma import matrix_moves
from weft.isa.mma import scaled as mma_scaled
from weft.isa.mma import sparse as mma_sparse
from weft.isa.mma import sync as mma_sync
from weft.isa.mma.matrix_moves import LDMATRIX, MOVMATRIX, STMATRIX, Ldmatrix, Movmatrix, Stmatrix
from weft.isa.mma.scaled import SCALED, SPARSE_SCALED, Scaled, SparseScaled
from weft.isa.mma.sparse import SPARSE, Sparse
from weft.isa.mma.sync import SYNC, Sync

__all__ = [
    "BIT_OPS",
    "LDMATRIX",
    "MOVMATRIX",
    "SCALED",
    "SPARSE",
    "SPARSE_SCALED",
    "STMATRIX",
    "SYNC",
    "Ldmatrix",
    "Movmatrix",
    "Scaled",
    "Sparse",
    "SparseScaled",
    "Stmatrix",
    "Sync",
]

_MODULES = (mma_sync, mma_sparse, mma_scaled, matrix_moves)
UNSELECTABLE = mma_sync.UNSELECTABLE
UNPUBLISHED = mma_sync.UNPUBLISHED + mma_sparse.UNPUBLISHED + matrix_moves.UNPUBLISHED
BIT_OPS: tuple[str, ...] = tuple(str(name) for name in SYNC.values("bit_op") if name)
"""How b1 is multiplied: each bit of A with its bit of B, of which those that are 1 are counted."""
FAMILIES = tuple(family for module in _MODULES for family in module.FAMILIES)
