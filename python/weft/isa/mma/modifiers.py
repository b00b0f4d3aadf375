"""The modifiers that several `mma` instructions share; some of them occur in `wmma` and `wgmma` too."""

from weft.isa.template import ELEMENT_TYPE, LAYOUT, SHAPE, Field, Flag, Word

ROUNDINGS = ("rn", "rz", "rm", "rp")
_BIT_OPS = "xor|and|or|popc"

SYNC, ALIGNED = Word("sync"), Word("aligned")
SHAPES = Field("shape", ("{}", SHAPE))
LAYOUTS = Field("a_layout b_layout", ("{}.{}", LAYOUT))
RESULT_FIRST = Field("d_type a_type b_type c_type", ("{}.{}.{}.{}", ELEMENT_TYPE))
KIND = Field("kind", ("kind::{}", "[^.]+"), default="")
DENSE = (SYNC, ALIGNED, SHAPES, LAYOUTS, KIND)
"""What every `mma` begins with; a sparse one has `ORDERED` before it."""
SATFINITE = Flag("satfinite")
BIT_OP = Field("bit_op", ("{}", ".+"), default="", each=_BIT_OPS)
ROUNDING = Field("rounding", ("{}", "|".join(ROUNDINGS)), default="")
ORDERED = Field("ordered", ("sp::ordered_metadata", True), ("sp", False), repeats=True)
