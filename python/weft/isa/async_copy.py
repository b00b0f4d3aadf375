"""`cp.async`: asynchronous copies from global to shared memory, and additions by TMA (PTX ISA, "Data Movement
and Conversion Instructions: cp.async" and "cp.reduce.async.bulk.tensor"); and where ptxas makes a copy by
TMA a function call.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from weft.isa.chips import since
from weft.isa.family import Family, Form, Registers, Support
from weft.isa.template import Field, Template, Unnamed, Values, Word
from weft.isa.tensor_map import MAX_RANK


@dataclass(frozen=True)
class Copy(Form):
    """One form of `cp.async`: `bytes` at a time, cached at all levels (`ca`) or only in L2 (`cg`)."""

    bytes: int
    cache: str

    templates = (
        Template(
            "cp.async",
            Field("cache", ("{}", "ca|cg")),
            Word("shared", also="shared::cta"),
            Word("global"),
            Unnamed(r"L2::\w+", optional=True),
        ),
    )
    assembly = "[{destination}], [{source}], {size}, {source_bytes}"

    @classmethod
    def operand_values(cls, values: Values, operands: Sequence[str]) -> Values | None:
        size = operands[2] if len(operands) > 2 else ""
        return {"bytes": int(size)} if size.isdigit() else None

    @property
    def intrinsic(self) -> str:
        return f"llvm.nvvm.cp.async.{self.cache}.shared.global.{self.bytes}"

    @property
    def operands(self) -> tuple[Registers, ...]:
        """Where to, where from, how many bytes, and how many of them are read: the rest become zeros."""
        return (
            Registers("destination", 1, "!llvm.ptr<3>"),
            Registers("source", 1, "!llvm.ptr<1>"),
            Registers("size", 1, "i32", role="immediate", values=(self.bytes,)),
            Registers("source_bytes", 1, "i32"),
        )


_COPIES = ((4, "ca"), (8, "ca"), (16, "ca"), (16, "cg"))
COPIES = Support(since("sm_80"), (7, 0))
TENSOR_COPIES = Support(since("sm_90"), (8, 0))
TMA = TENSOR_COPIES.chips
"""The chips with `cp.async.bulk.tensor`."""
CP_ASYNC = Family("cp.async", Copy, lambda: ((Copy(*copy), COPIES) for copy in _COPIES))
CLUSTER_COPY_BY_CALL = since("sm_120")
"""Where ptxas 12.9 to 13.5 compile `cp.async.bulk.tensor` to `.shared::cluster` to a call for destinations in
other CTAs, which also makes them ignore `setmaxnreg`. To `.shared::cta` it is one instruction.
"""


def copy_of(bytes_: int) -> Copy:
    """The form that copies this number of bytes, legal or not: past the L1 cache where it can."""
    past = Copy(bytes_, "cg")
    return past if past in CP_ASYNC.table else Copy(bytes_, "ca")


@dataclass(frozen=True)
class AddTensor(Form):
    """`cp.reduce.async.bulk.tensor`: adds a box in shared memory to one of a tensor of this rank, given by a
    map. `hinted` takes a cache policy as its last operand.
    """

    rank: int
    hinted: bool = False

    templates = (
        Template(
            "cp.reduce.async.bulk.tensor",
            Field("rank", ("{}d", "[1-5]"), number=True),
            Word("global"),
            Word("shared::cta"),
            Word("add"),
            Word("tile"),
            Word("bulk_group"),
            Field("hinted", ("L2::cache_hint", True), default=False),
        ),
    )

    @property
    def assembly(self) -> str:
        """The operands."""
        return "[{map}, {{{coordinates}}}], [{source}]" + (", {policy}" if self.hinted else "")


ADD_TENSOR = Family(
    "cp.reduce.async.bulk.tensor",
    AddTensor,
    lambda: ((AddTensor(*axes), TENSOR_COPIES) for axes in product(range(1, MAX_RANK + 1), (False, True))),
)
ADDED_TYPES = ("f32", "f16", "bf16", "i64", "i32", "ui64", "ui32")
"""MLIR's names of the types of elements that TMA adds; for others, the map has no such operation."""
