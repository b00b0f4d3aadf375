"""A or B in a kernel that copies by TMA: its shared-memory stages and the tensor map that fills them."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from weft.dialects import tile
from weft.dialects.schedule import SWIZZLES, AnySchedule, TensorMemorySchedule
from weft.dialects.tile import BufferType, MatmulOp
from weft.isa.l2_cache import NORMAL
from weft.mlir import arith, ir, llvm
from weft.passes.builders import addresses, emit
from weft.passes.builders.shared_tiles import Point, SharedTile
from weft.passes.builders.shifted_words import WORDS, first_bytes, from_byte
from weft.passes.kernels.matrices import VECTOR_BYTES, element_bytes, map_of_member, narrow_panels, panels
from weft.passes.kernels.team import Team


@dataclass
class StagedOperand:
    """A or B: its buffer, built at the insertion point, and the map that fills it."""

    matrix: ir.Value
    k_major: bool
    extent: int  # rows of the left operand's tile, or columns of the right one's, in one CTA
    block_k: int
    stages: int
    shares: int  # parts of a tile, each copied by one CTA of a cluster for all
    slices: int  # of K that take turns
    cta_group: int = 1
    expanded: bool = False  # elements of 4 or 6 bits to bytes
    wide_atoms: bool = False  # of the swizzle, as tcgen05 reads MN-major elements of 32 bits
    buffer: ir.Value = field(init=False)
    map: ir.Value = field(init=False)
    skewed: ClassVar[bool] = False
    joined: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self.buffer = tile.alloc(self._buffer_type)
        self.map = self._map_of(self.matrix)

    def _map_of(self, matrix: ir.Value) -> ir.Value:
        """The map that fills stages from a matrix, or a batch."""
        extent, depth = self._share
        shape = (extent, depth) if self.k_major else (depth, extent)
        copied = tile.slice_type(tile.stage_type(self.buffer.type), shape)
        # CTAs that read the same data do so at the same time; the slices' sums should stay in L2 instead.
        eviction = "evict_first" if self.slices > 1 else NORMAL
        # The size of L2's reads from memory: 256 bytes where half of them belong to this CTA's next K block.
        # With longer rows, with MN-major data and with K slices, another copy asks for them at about the same
        # time.
        row = self.block_k * element_bytes(self.matrix)
        promotion = "256B" if self.k_major and row <= 128 and self.slices == 1 else "128B"
        kind = {"skewed": self.skewed, "joined": self.joined}
        return tile.tensor_map(matrix, copied, l2_promotion=promotion, l2_eviction=eviction, **kind)

    @property
    def _buffer_type(self) -> ir.Type:
        """The type of the stages: K-major tiles, or MN-major ones."""
        rows, columns = (self.extent, self.block_k) if self.k_major else (self.block_k, self.extent)
        element = self.matrix.type.element_type
        bits = int(element.width)
        if bits < 8:
            layout = narrow_panels(rows, columns, bits, self.stages, expanded=self.expanded)
        else:
            wide_atoms = self.wide_atoms and bits == 32 and not self.k_major
            layout = panels(rows, columns, bits // 8, self.stages, wide_atoms=wide_atoms)
        return BufferType.of((self.stages, rows, columns), element, layout)

    @property
    def expands(self) -> bool:
        """Whether its elements of 4 or 6 bits take a byte each."""
        return self.expanded and self.matrix.type.element_type.width < 8

    @property
    def _share(self) -> tuple[int, int]:
        """The rows or columns of the tile that one CTA copies, and their depth along K. CTAs divide K where
        they can't divide the panels of an MN-major tile.
        """
        panel = 1 if self.k_major else max(SWIZZLES) // element_bytes(self.matrix)
        if self.extent % (self.shares * panel):
            return self.extent, self.block_k // self.shares
        return self.extent // self.shares, self.block_k

    def keep_only(
        self, first: ir.Value, end: ir.Value, stage: ir.Value, thread: ir.Value, threads: int
    ) -> None:
        """Sets elements of a stage to zero except for those from depth `first` on and before `end`. `threads`
        threads run this, each with its number `thread`.
        """
        kind = self.buffer.type
        size = element_bytes(self.matrix)
        shared = SharedTile(tile.stage_type(kind))
        base = tile.address(tile.stage(self.buffer, stage))
        (_, rows, columns) = kind.shape
        across = VECTOR_BYTES // size
        vector = ir.VectorType.get([WORDS], emit.i32())
        with emit.each(thread, rows * columns // across, threads) as number:
            row = emit.div(number, columns // across)
            column = emit.mul(emit.rem(number, columns // across), across)
            depth = column if self.k_major else row
            # In an MN-major vector, all elements have one depth.
            unit = size if self.k_major else VECTOR_BYTES
            before, kept = (emit.mul(emit.sub(each, depth), unit) for each in (first, end))
            with emit.when(arith.ori(emit.less(0, before), emit.less(kept, VECTOR_BYTES))):
                address = addresses.offset(base, shared.offset(Point(row), Point(column)))
                words = emit.elements(llvm.load(vector, address))
                for i, word in enumerate(words):
                    masks = from_byte(emit.sub(before, 4 * i)), first_bytes(emit.sub(kept, 4 * i))
                    words[i] = arith.andi(word, arith.andi(*masks))
                llvm.store(emit.vector_of(words), address)

    def copy(
        self,
        start: ir.Value,
        k: ir.Value | int,
        member: ir.Value | None,
        stage: ir.Value,
        barrier: ir.Value,
        share: ir.Value | int,
        mask: Any,
    ) -> None:
        """Starts to copy the block at (`start`, `k`), or this CTA's `share` of it, into a stage. `member` is
        the index in a batch, `mask` the CTAs of the cluster that receive a share.
        """
        extent, depth = self._share
        inside, below = emit.mul(share, extent % self.extent), emit.mul(share, depth % self.block_k)
        start, k = emit.add(start, inside), emit.add(k, below)
        row, column = (emit.value(x) for x in ((start, k) if self.k_major else (k, start)))
        source = map_of_member(self.matrix, self.map, member)
        if self.shares == 1:
            part = tile.stage(self.buffer, stage)
            tile.copy_async(source, row, column, part, barrier=barrier, cta_group=self.cta_group)
            return
        part = self._slice(stage, inside, below, extent, depth)
        tile.copy_multicast(source, row, column, part, barrier, mask, cta_group=self.cta_group)

    def begin_member(self, member: ir.Value) -> None:
        """Begins to copy from a matrix of a team's other GPUs, by its index."""
        return

    def part(self, stage: ir.Value, start: ir.Value | int, extent: int) -> ir.Value:
        """`extent` rows of the left operand's stage, or columns of the right one's, from `start` on."""
        return self._slice(stage, start, 0, extent, self.block_k)

    def _slice(
        self, stage: ir.Value, start: ir.Value | int, k: ir.Value | int, extent: int, depth: int
    ) -> ir.Value:
        """The part of a stage from (`start`, `k`) on."""
        whole = tile.stage(self.buffer, stage)
        if (extent, depth) == (self.extent, self.block_k):
            return whole
        start, k = emit.value(start), emit.value(k)
        if self.k_major:
            return tile.slice_(whole, start, k, (extent, depth))
        return tile.slice_(whole, k, start, (depth, extent))


class JoinedOperand(StagedOperand):
    """An MN-major A of at most eight columns, of which TMA copies eight rows at a time."""

    joined = True

    @property
    def _buffer_type(self) -> ir.Type:
        """Without a swizzle, eight rows are a core matrix."""
        size, columns = self.block_k * self.extent, self.extent
        layout = f"S[({self.stages},{self.block_k},{columns}):({size},{columns},1)]"
        return BufferType.of((self.stages, self.block_k, columns), self.matrix.type.element_type, layout)


@dataclass
class GatheredOperand(StagedOperand):
    """A of a team of GPUs: `matrix` is this one's, `others` has those of the others."""

    team: Any = None
    others: Any = None
    _other: StagedOperand = field(init=False)
    _member: ir.Value | None = field(init=False, default=None)  # of `others`

    def __post_init__(self) -> None:
        super().__post_init__()
        self._other = copy(self)
        self._other.matrix = self.others
        self._other.map = self._map_of(self.others)

    def copy(
        self,
        start: ir.Value,
        k: ir.Value | int,
        member: ir.Value | None,
        stage: ir.Value,
        barrier: ir.Value,
        share: ir.Value | int,
        mask: ir.Value,
    ) -> None:
        own, other = (
            partial(StagedOperand.copy, operand, start, k, index, stage, barrier, share, mask)
            for operand, index in ((self, member), (self._other, self._member))
        )
        emit.branch(emit.equal(member, self.team.rank), own, other)

    def begin_member(self, member: ir.Value) -> None:
        self._member = member


def staged_operands(
    op: MatmulOp,
    schedule: AnySchedule,
    of_a: Callable[..., StagedOperand] = StagedOperand,
    of_b: Callable[..., StagedOperand] = StagedOperand,
) -> tuple[StagedOperand, StagedOperand]:
    """The left and the right operand of the products, built at the insertion point: A and B of these kinds,
    or with `swap` B and A.
    """
    k = schedule.block[2]
    a, b = (op.a, not op.attribute("transpose_a")), (op.b, bool(op.attribute("transpose_b")))
    if op.role("gathered") is not None:
        of_a = partial(GatheredOperand, team=Team.of(op), others=op.role("gathered"))
    kinds = schedule.swapped(of_a, of_b)
    left, right = (
        of_kind(
            *(matrix, k_major, extent // schedule.cta_group, k, schedule.stages, shares),
            slices=schedule.global_splits,
            cta_group=schedule.cta_group,
            expanded=op.types.input_bits == 8,
            wide_atoms=isinstance(schedule, TensorMemorySchedule),
        )
        for of_kind, (matrix, k_major), extent, shares in zip(
            kinds, schedule.swapped(a, b), schedule.stored(op.types), schedule.cluster[::-1], strict=True
        )
    )
    return left, right
