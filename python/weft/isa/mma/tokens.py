"""Reads the opcodes of `mma`, dense, sparse and block-scaled: a bag of tokens, since ptxas takes them in any
order; only types and layouts among themselves are in order.
"""

import re
from dataclasses import dataclass

from weft.isa.types import ELEMENT_TYPES


@dataclass(frozen=True)
class Opcode:
    """What the tokens of an `mma` say; `types` are D, A, B, C and, block-scaled, the scales'."""

    shape: str
    layouts: tuple[str, ...]
    types: tuple[str, ...]
    satfinite: bool
    bit_op: str
    kind: str
    sparse: bool
    ordered: bool
    block_scale: bool
    scale_vec: str
    rounding: str = ""


_SHAPE = re.compile(r"m\d+n\d+k\d+")
_FLAGS = {"sync", "aligned", "satfinite", "sp", "sp::ordered_metadata", "block_scale"}
_BIT_OPS = ("xor", "and", "or", "popc")
ROUNDINGS = ("rn", "rz", "rm", "rp")


def read(opcode: str) -> Opcode | None:
    """The parts of an `mma` opcode, legal or not; None for another instruction and for tokens that no `mma`
    has.
    """
    head, *tokens = opcode.split(".")
    if head != "mma":
        return None
    shapes = [t for t in tokens if _SHAPE.fullmatch(t)]
    layouts = tuple(t for t in tokens if t in ("row", "col"))
    types = tuple(t for t in tokens if t in ELEMENT_TYPES)
    bit_ops = [t for t in tokens if t in _BIT_OPS]
    kinds = [t for t in tokens if t.startswith("kind::")]
    scales = [t for t in tokens if t.startswith("scale_vec::")]
    roundings = [t for t in tokens if t in ROUNDINGS]
    known = {*_FLAGS, *roundings, *shapes, *layouts, *types, *bit_ops, *kinds, *scales}
    single = (
        len(shapes) == 1
        and len(kinds) <= 1
        and len(scales) <= 1
        and len(roundings) <= 1
        and not {"sp", "sp::ordered_metadata"} <= {*tokens}
    )
    if not single or not {"sync", "aligned"} <= set(tokens) or not known.issuperset(tokens):
        return None
    ordered = "sp::ordered_metadata" in tokens
    return Opcode(
        shape=shapes[0],
        layouts=layouts,
        types=types,
        satfinite="satfinite" in tokens,
        bit_op=".".join(bit_ops),
        kind=kinds[0].removeprefix("kind::") if kinds else "",
        sparse=ordered or "sp" in tokens,
        ordered=ordered,
        block_scale="block_scale" in tokens,
        scale_vec=scales[0].removeprefix("scale_vec::") if scales else "",
        rounding="".join(roundings),
    )
