"""The tables of the `wmma` dialect: warp-level matrices in fragments whose layout PTX doesn't specify."""

from weft.isa.wmma.forms import SPACES, Load, Mma, Store, h200_layout
from weft.isa.wmma.rows import FAMILIES, LOAD, MMA, STORE, UNPUBLISHED

__all__ = ["FAMILIES", "LOAD", "MMA", "SPACES", "STORE", "UNPUBLISHED", "Load", "Mma", "Store", "h200_layout"]
