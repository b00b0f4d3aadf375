"""How `tcgen05.mma` computes a `tile.gemm_async`: the shape of one instruction, and which part of each buffer
each instruction uses. Parts of tensor memory must be laid out as the instruction's operands.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.dialects.element_types import PTX_INPUTS, PTX_SCALES
from weft.dialects.tile_async import GemmAsyncOp
from weft.dialects.tile_types import is_tensor_buffer
from weft.isa.tcgen05 import tensor_layouts
from weft.isa.tcgen05.descriptors import (
    KINDS,
    LONG_K,
    BlockScaledDescriptor,
    InstructionDescriptor,
    legal_m,
    legal_n,
    steps,
)
from weft.layout import AXES, Iter, Layout
from weft.layout.iterators import point_table
from weft.mlir import ir
from weft.passes.builders.tcgen05_operands import (
    BYTE,
    SharedOperand,
    Steps,
    container_bits,
    container_of,
    scale_size,
    scale_vec,
)

Indices = tuple[int, ...]
_AXES = [AXES.index(axis) for axis in ("TLane", "TCol")]
_WORD = tensor_layouts.SCALES_OF_COLUMN
_PAIR_M = 128  # of the pair whose D is divided into two parts


def part(buffer: ir.Type, rows: Indices, columns: Indices, wanted: Layout) -> int | None:
    """The address of a part of a tile from that of the tile; None where the part isn't laid out as `wanted`
    or begins within a column.
    """
    begin = _part(buffer.layout, buffer.shape, rows, columns, wanted)
    if begin is None or begin[1] * buffer.element_bits % tensor_layouts.COLUMN_BITS:
        return None
    lane, column = begin
    return lane << tensor_layouts.LANE_SHIFT | column * int(buffer.element_bits) // tensor_layouts.COLUMN_BITS


@lru_cache(maxsize=4096)
def _part(
    layout: Layout, shape: tuple[int, int], rows: Indices, columns: Indices, wanted: Layout
) -> tuple[int, int] | None:
    """Lane and column, in elements, where a part begins that is laid out as `wanted`."""
    down, across = _positions(layout, shape)
    want_down, want_across = _positions(wanted, (len(rows), len(columns)))
    down, across = down[list(rows)], across[list(columns)]
    same = np.array_equal(down - down[0], want_down) and np.array_equal(across - across[0], want_across)
    if not same or _copies(layout) != _copies(wanted):
        return None
    lane, column = (down[0] + across[0]).tolist()
    return lane, column


@lru_cache(maxsize=4096)
def _scale_part(
    layout: Layout, shape: tuple[int, int], rows: Indices, first: int, count: int, banks: int
) -> int | None:
    """The address of the column with scale number `first` of these rows of a buffer, from that of the buffer;
    None where the `count` scales from there on of each row aren't laid out as those of one instruction, whose
    D has so many `banks` of lanes.
    """
    each = len(rows) // banks
    padded = -(-each // tensor_layouts.PART) * tensor_layouts.PART
    wanted, kept = (
        _scales(padded, banks),
        [bank * padded + row for bank in range(banks) for row in range(each)],
    )
    word, inside = first - first % _WORD, first % _WORD
    columns = list(range(word, first + count))
    if rows[-1] >= shape[0] or columns[-1] >= shape[1] or _copies(layout) != _copies(wanted):
        return None
    down, across = _positions(layout, shape)
    want_down, want_across = _positions(wanted, (padded * banks, 2 * _WORD))
    down, across = down[list(rows)], across[columns]
    moved = (across - across[0])[inside:]
    if not np.array_equal(down - down[0], want_down[kept]):
        return None
    if not np.array_equal(moved, want_across[inside : len(columns)]):
        return None
    lane, column = (down[0] + across[0]).tolist()
    return None if lane or column % _WORD else int(column) // _WORD


def layout_of_scales(rows: int, banks: int) -> Layout:
    """The layout of eight scales of each of these rows, for one instruction."""
    each = -(-rows // banks // tensor_layouts.PART) * tensor_layouts.PART
    return _scales(each, banks)


def _scales(padded: int, banks: int) -> Layout:
    groups = 2 * _WORD
    if banks == 1:
        return Layout.parse(tensor_layouts.scales(padded, groups))
    return Layout.parse(tensor_layouts.scales_of_b(padded * banks, groups, _PAIR_M, cta_group=2))


@lru_cache(maxsize=256)
def _positions(layout: Layout, shape: tuple[int, int]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Lane and column, in elements, of each row and of each column of a tile, from its first element."""
    down, across = (point_table(digits)[:, _AXES] for digits in layout.group(shape))
    return down, across


def _copies(layout: Layout) -> tuple[Iter, ...]:
    return layout.canonical().replica


ACCUMULATORS = {"f32": "f32", "f16": "f16", "i32": "s32"}
"""The element types of D, and what PTX calls them."""


@dataclass(frozen=True)
class Product:
    """A `tile.gemm_async` whose kind is known, on one instruction shape: `m` and `n` are those of the pair if
    there is one. With `long_rows`, instructions have a K of 96 where that fits into rows of 128 bytes.
    """

    op: GemmAsyncOp
    kind: str
    m: int = 0
    n: int = 0
    long_rows: bool = False

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
    def scale_type(self) -> str | None:
        """The PTX type of the scales; None without scales."""
        return None if self.op.scales is None else PTX_SCALES[str(self.op.scales[0].type.element_type)]

    @cached_property
    def scale_vec(self) -> str:
        """The modifier that selects how many elements share a scale."""
        spelled = scale_vec(self.kind, self.scale_type or "", scale_size(self.op))
        assert spelled is not None
        return spelled

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, N and K of both CTAs."""
        m, n, k = self.op.mnk
        return m * self.group, n * self.group, k

    @property
    def memory_of_a(self) -> str:
        return "tensor" if is_tensor_buffer(self.op.a) else "shared"

    @property
    def b_is_mn_major(self) -> bool:
        buffer = self.op.b.type
        rows = buffer.layout.group(buffer.shape)[0 if self.op.attribute("transpose_b") else 1]
        return bool(rows) and rows[-1].stride == 1

    # Shapes

    @property
    def rows(self) -> int:
        """The rows of D of one instruction in one CTA."""
        return self.m // self.group

    @property
    def columns(self) -> int:
        """The columns of B of one instruction in one CTA."""
        return self.n // self.group

    @property
    def banks(self) -> int:
        """The groups of lanes among which D's columns are divided."""
        return tensor_layouts.banks_of(self.m, self.group, weight_stationary=self.weight_stationary)

    @property
    def blocks(self) -> tuple[int, int]:
        """How many instructions there are along M and N."""
        return self.shape[0] // self.m, self.shape[1] // self.n

    @cached_property
    def steps(self) -> Steps:
        """Where along K each instruction begins, and its K."""
        return steps(self.shape[2], KINDS[self.kind].k, long=self.long_rows)

    @property
    def legal_m(self) -> tuple[int, ...]:
        return legal_m(self.kind, self.group, ws=self.weight_stationary)

    @property
    def legal_n(self) -> tuple[int, ...]:
        return legal_n(self.kind, self.group, ws=self.weight_stationary, transpose_b=self.b_is_mn_major)

    def shapes(self) -> list["Product"]:
        """The product on every legal shape that divides it, the largest first."""
        m, n, _ = self.shape
        stated = self.op.attribute("mma_m"), self.op.attribute("mma_n")
        return [
            replace(self, m=each_m, n=each_n)
            for each_m in sorted(self.legal_m, reverse=True)
            for each_n in sorted(self.legal_n, reverse=True)
            if m % each_m == 0 and n % each_n == 0 and stated in ((0, 0), (each_m, each_n))
        ]

    # Operands in shared memory

    @cached_property
    def shared_a(self) -> SharedOperand | str:
        """A in shared memory, or what its layout must be."""
        return self._shared("A", self.op.a, self.rows, bool(self.op.attribute("transpose_a")))

    @cached_property
    def shared_b(self) -> SharedOperand | str:
        """B, or what its layout must be."""
        return self._shared("B", self.op.b, self.columns, not self.op.attribute("transpose_b"))

    def _shared(self, name: str, buffer: ir.Value, rows: int, k_first: bool) -> SharedOperand | str:
        element = self.types["AB".index(name)]
        bits = container_of(self.kind, element)
        if container_bits(buffer.type) != bits:
            packing = "16 elements in 16 bytes" if bits == BYTE else "two elements in a byte"
            return f"a layout with {packing} for type {element} of kind {self.kind}, got {buffer.type.layout}"
        return SharedOperand.of(
            buffer.type, self.kind, rows=rows, steps=self.steps, container_bits=bits, k_first=k_first
        )

    # Operands in tensor memory

    @property
    def layout_of_d(self) -> Layout:
        """The layout of one instruction's D in one CTA."""
        bits = self.op.c.type.element_bits
        text = tensor_layouts.accumulator(
            self.m, self.n, self.group, bits, weight_stationary=self.weight_stationary
        )
        return Layout.parse(text)

    def layout_of_a(self, depth: int) -> Layout:
        """The layout of what an instruction with this K reads of A in tensor memory, in one CTA."""
        spacing = container_of(self.kind, self.types[0]) // self.op.a.type.element_bits
        text = tensor_layouts.operand_a(
            self.m, depth, self.group, spacing=spacing, weight_stationary=self.weight_stationary
        )
        return Layout.parse(text)

    def layout_of_scales(self, name: str) -> Layout:
        """The layout of eight scales of each row of A (or column of B) of one instruction in one CTA."""
        return layout_of_scales(*((self.rows, 1) if name == "A" else (self.n, self.banks)))

    def rows_of(self, number: int) -> tuple[int, ...]:
        """The rows of D that the instruction of this number along M computes."""
        return tuple(range(number * self.rows, (number + 1) * self.rows))

    def columns_of(self, number: int) -> tuple[int, ...]:
        """The columns of D that the instruction of this number along N computes: those of each CTA's part of
        B.
        """
        half = self.shape[1] // self.group
        begins = (cta * half + number * self.columns for cta in range(self.group))
        return tuple(begin + i for begin in begins for i in range(self.columns))

    def part_of_d(self, i: int, j: int) -> int | None:
        """The address of an instruction's D, by its numbers along M and N, from that of C; None where C has
        another layout.
        """
        return part(self.op.c.type, self.rows_of(i), self.columns_of(j), self.layout_of_d)

    def part_of_a(self, i: int, step: int) -> int | None:
        """The address of what an instruction reads of A in tensor memory from that of A; None where A has
        another layout.
        """
        k, depth = self.steps[step]
        columns = tuple(range(k, k + depth))
        return part(self.op.a.type, self.rows_of(i), columns, self.layout_of_a(depth))

    def part_of_scales(self, name: str, number: int, step: int) -> int | None:
        """The address of the column with an instruction's first scale of A (or B), by its number along M (or
        N), from that of the scales; None where they have another layout.
        """
        assert self.op.scales is not None
        buffer = self.op.scales["AB".index(name)].type
        rows, banks = (self.rows_of(number), 1) if name == "A" else (self.columns_of(number), self.banks)
        return _scale_part(buffer.layout, buffer.shape, rows, *self.scales_of(step), banks)

    def scales_of(self, step: int) -> tuple[int, int]:
        """The first scale of a step along K, and how many it has. With `scale_block`, the first is found at
        run time (`block_of`).
        """
        (k, depth), size = self.steps[step], scale_size(self.op)
        assert size is not None
        if self.op.attribute("scale_block"):
            return 0, depth // size
        return k // size, depth // size

    def block_of(self, step: int) -> int:
        """With `scale_block`, the number of the block of K in which a step along K is."""
        return self.steps[step][0] // int(self.op.attribute("scale_block"))

    def has_layout_of_d(self) -> bool:
        """Whether C has the layout that every instruction needs for D."""
        m, n = self.blocks
        return all(self.part_of_d(i, j) is not None for i in range(m) for j in range(n))

    def has_layout_of_a(self) -> bool:
        """Whether A, in tensor memory, has the layout that every instruction reads."""
        steps = range(len(self.steps))
        return all(self.part_of_a(i, step) is not None for i in range(self.blocks[0]) for step in steps)

    def has_layout_of_scales(self, name: str) -> bool:
        """Whether the scales of A (or B) have the layout that every instruction reads."""
        count, steps = self.blocks["AB".index(name)], range(len(self.steps))
        return all(self.part_of_scales(name, i, step) is not None for i in range(count) for step in steps)

    # The instruction descriptor

    def descriptor(self, step: int = 0) -> InstructionDescriptor | BlockScaledDescriptor:
        """The instruction descriptor of a step along K, legal or not."""
        a = self.shared_a if self.memory_of_a == "shared" else None
        a_type, b_type = self.types
        common: dict[str, Any] = {
            "kind": self.kind,
            "m": self.m,
            "n": self.n,
            "a_type": a_type,
            "b_type": b_type,
            "cta_group": self.group,
            "a": self.memory_of_a,
            "transpose_a": isinstance(a, SharedOperand) and a.mn_major,
            "transpose_b": self.b_is_mn_major,
        }
        if self.scale_type is None:
            d_type = ACCUMULATORS[str(self.op.c.type.element_type)]
            return InstructionDescriptor(**common, d_type=d_type, ws=self.weight_stationary)
        # The id selects a byte of the first scale's column.
        number = self.scales_of(step)[0] % tensor_layouts.SCALES_OF_COLUMN
        return BlockScaledDescriptor(
            **common,
            scale_type=self.scale_type,
            scale_vec=self.scale_vec,
            a_scale_id=number,
            b_scale_id=number,
            k=LONG_K if self.steps[step][1] == LONG_K else 0,
        )
