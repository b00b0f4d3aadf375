"""How `tcgen05.mma` computes a `tile.gemm_async`: kind, shape of one instruction, and which part of each
buffer each instruction uses.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from weft.dialects.tile_async import GemmAsyncOp
from weft.dialects.tile_types import PTX_INPUTS, is_tensor_buffer
from weft.isa.tcgen05 import tensor_layouts
from weft.isa.tcgen05.descriptors import (
    KINDS,
    BlockScaledDescriptor,
    InstructionDescriptor,
    legal_m,
    legal_n,
)
from weft.isa.types import ELEMENT_TYPES
from weft.layout import AXES, Layout
from weft.layout.iterators import point_table
from weft.passes.builders import tensor_tiles
from weft.passes.builders.tcgen05_operands import SharedOperand, Steps

_AXES = [AXES.index(axis) for axis in ("TLane", "TCol")]
_ACCUMULATORS = {"f32": "f32", "f16": "f16", "i32": "s32"}
ACCUMULATORS = tuple(_ACCUMULATORS)
"""The element types of D."""


def kind_of(op: GemmAsyncOp) -> str | None:
    """The kind of instruction for A's and B's types; None where no kind has both."""
    types = [PTX_INPUTS.get(str(each.type.element_type)) for each in (op.a, op.b)]
    for name, kind in KINDS.items():
        if (kind.scales is not None) == (op.scales is not None) and all(t in kind.elements for t in types):
            return name
    return None


@dataclass(frozen=True)
class Product:
    """A `tile.gemm_async` whose kind is known, on one instruction shape: `m` and `n` are those of the pair if
    there is one.
    """

    op: GemmAsyncOp
    kind: str
    m: int = 0
    n: int = 0

    # What the op states

    @property
    def group(self) -> int:
        return int(self.op.attribute("cta_group"))

    @property
    def weight_stationary(self) -> bool:
        return bool(self.op.attribute("weight_stationary"))

    @property
    def types(self) -> tuple[str, str]:
        """The PTX types of A and B."""
        a, b = (PTX_INPUTS[str(each.type.element_type)] for each in (self.op.a, self.op.b))
        return a, b

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, N and K of both CTAs."""
        m, n, k = self.op.mnk
        return m * self.group, n * self.group, k

    @property
    def memory_of_a(self) -> str:
        return "tensor" if is_tensor_buffer(self.op.a) else "shared"

    def container_bits(self, name: str) -> int:
        """What an element of A or B takes of its memory."""
        return max(ELEMENT_TYPES[self.types["AB".index(name)]].bits, 8)

    # Shapes

    @property
    def rows(self) -> int:
        """The rows of D of one instruction in one CTA."""
        return self.m // self.group

    @property
    def columns(self) -> int:
        """The columns of B of one instruction in one CTA."""
        return self.n // self.group

    @cached_property
    def steps(self) -> Steps:
        """Where along K each instruction begins, and its K."""
        depth = KINDS[self.kind].k
        return tuple((k, depth) for k in range(0, self.shape[2], depth))

    def shapes(self) -> list["Product"]:
        """The product on every legal shape that divides it, the largest first."""
        m, n, _ = self.shape
        stated = self.op.attribute("mma_m"), self.op.attribute("mma_n")
        found = []
        for each_m in sorted(self.legal_m, reverse=True):
            for each_n in sorted(self.legal_n, reverse=True):
                fits = m % each_m == 0 and n % each_n == 0
                if fits and stated in ((0, 0), (each_m, each_n)):
                    found.append(replace(self, m=each_m, n=each_n))
        return found

    @property
    def legal_m(self) -> tuple[int, ...]:
        return legal_m(self.kind, self.group, ws=self.weight_stationary)

    @property
    def legal_n(self) -> tuple[int, ...]:
        return legal_n(self.kind, self.group, ws=self.weight_stationary, transpose_b=self.b_is_mn_major)

    # Operands

    @property
    def b_is_mn_major(self) -> bool:
        return is_mn_major(self.op.b.type, k_first=not self.op.attribute("transpose_b"))

    @cached_property
    def shared_a(self) -> SharedOperand | str:
        """A in shared memory, or what its layout must be."""
        k_first = bool(self.op.attribute("transpose_a"))
        return self._shared("A", self.op.a, self.rows, k_first)

    @cached_property
    def shared_b(self) -> SharedOperand | str:
        """B, or what its layout must be."""
        return self._shared("B", self.op.b, self.columns, not self.op.attribute("transpose_b"))

    def _shared(self, name: str, buffer: Any, rows: int, k_first: bool) -> SharedOperand | str:
        bits = self.container_bits(name)
        return SharedOperand.of(
            buffer.type, self.kind, rows=rows, steps=self.steps, container_bits=bits, k_first=k_first
        )

    @property
    def layout_of_d(self) -> Layout:
        """The layout of one instruction's D in one CTA."""
        bits = self.op.c.type.element_bits
        text = tensor_layouts.accumulator(
            self.m, self.n, self.group, bits, weight_stationary=self.weight_stationary
        )
        return Layout.parse(text)

    @property
    def layout_of_a(self) -> Layout:
        """The layout of what one instruction reads of A in tensor memory, in one CTA."""
        depth, spacing = KINDS[self.kind].k, self.container_bits("A") // self.op.a.type.element_bits
        text = tensor_layouts.operand_a(
            self.m, depth, self.group, spacing=spacing, weight_stationary=self.weight_stationary
        )
        return Layout.parse(text)

    def columns_of(self, number: int) -> tuple[int, ...]:
        """The columns of D that the instruction of this number along N computes: those of each CTA's part of
        B.
        """
        half = self.shape[1] // self.group
        begins = (cta * half + number * self.columns for cta in range(self.group))
        return tuple(begin + i for begin in begins for i in range(self.columns))

    def part_of_d(self, m: int, n: int) -> int | None:
        """The address of an instruction's D from that of C; None where its layout isn't D's."""
        rows = tuple(range(m * self.rows, (m + 1) * self.rows))
        return part(self.op.c.type, rows, self.columns_of(n), self.layout_of_d)

    def part_of_a(self, m: int, step: int) -> int | None:
        """The address of what an instruction reads of A in tensor memory from that of A; None where its
        layout isn't that of A.
        """
        rows = tuple(range(m * self.rows, (m + 1) * self.rows))
        k, depth = self.steps[step]
        return part(self.op.a.type, rows, tuple(range(k, k + depth)), self.layout_of_a)

    def has_layout_of_d(self) -> bool:
        """Whether every instruction's D has its place in C."""
        m, n, _ = self.shape
        parts = (self.part_of_d(i, j) for i in range(m // self.m) for j in range(n // self.n))
        return all(each is not None for each in parts)

    def has_layout_of_a(self) -> bool:
        """Whether every instruction's A, in tensor memory, has its place in A."""
        m = self.shape[0]
        parts = (self.part_of_a(i, k) for i in range(m // self.m) for k in range(len(self.steps)))
        return all(each is not None for each in parts)

    def descriptor(self) -> InstructionDescriptor | BlockScaledDescriptor:
        """The instruction descriptor, legal or not."""
        a = self.shared_a if self.memory_of_a == "shared" else None
        a_type, b_type = self.types
        return InstructionDescriptor(
            kind=self.kind,
            m=self.m,
            n=self.n,
            a_type=a_type,
            b_type=b_type,
            d_type=_ACCUMULATORS[str(self.op.c.type.element_type)],
            cta_group=self.group,
            ws=self.weight_stationary,
            a=self.memory_of_a,
            transpose_a=isinstance(a, SharedOperand) and a.mn_major,
            transpose_b=self.b_is_mn_major,
        )


def is_mn_major(buffer: Any, *, k_first: bool) -> bool:
    """Whether a buffer of this type, K x M (or N) if `k_first`, is contiguous along M (or N)."""
    rows = buffer.layout.group(buffer.shape)[1 if k_first else 0]
    return bool(rows) and rows[-1].stride == 1


@lru_cache(maxsize=4096)
def _part(
    layout: Layout, shape: tuple[int, int], rows: tuple[int, ...], columns: tuple[int, ...], wanted: Layout
) -> tuple[int, int] | None:
    """Lane and column, in elements, where the part of a tile begins; None where it isn't laid out as
    `wanted`.
    """
    down, across = _positions(layout, shape)
    want_down, want_across = _positions(wanted, (len(rows), len(columns)))
    down, across = down[list(rows)], across[list(columns)]
    same = np.array_equal(down - down[0], want_down) and np.array_equal(across - across[0], want_across)
    if not same or _copies(layout) != _copies(wanted):
        return None
    lane, column = (down[0] + across[0]).tolist()
    return lane, column


def part(buffer: Any, rows: tuple[int, ...], columns: tuple[int, ...], wanted: Layout) -> int | None:
    """The address of a part of a tile in tensor memory from that of the tile; None where the part isn't laid
    out as `wanted` or begins within a column.
    """
    begin = _part(buffer.layout, buffer.shape, rows, columns, wanted)
    if begin is None or begin[1] * buffer.element_bits % tensor_layouts.COLUMN_BITS:
        return None
    lane, column = begin
    return lane << tensor_tiles.LANE_SHIFT | column * int(buffer.element_bits) // tensor_layouts.COLUMN_BITS


@lru_cache(maxsize=256)
def _positions(layout: Layout, shape: tuple[int, int]) -> tuple[Any, Any]:
    """Lane and column, in elements, of each row and of each column of a tile, from its first element."""
    down, across = (point_table(digits)[:, _AXES] for digits in layout.group(shape))
    return down, across


def _copies(layout: Layout) -> Any:
    return layout.canonical().replica
