"""The schedules of kernels that multiply with `wgmma`: persistent CTAs in which one warpgroup copies and the
others multiply.
"""

from dataclasses import dataclass, replace
from math import gcd
from typing import ClassVar, TypeVar

from weft.dialects.schedule.family import SWIZZLES, AnySchedule, Workspace
from weft.dialects.schedule.product_types import BYTES, GROUP_ROWS, PROMOTED, Types, ceil_div
from weft.dialects.tile_claims import COUNTER_STRIDE, MOST_PARTIES
from weft.dialects.tile_types import PTX_INPUTS
from weft.isa import tensor_map, wgmma
from weft.isa.chips import WARPGROUP, WARPS, ChipSet, register_share
from weft.isa.types import ELEMENT_TYPES
from weft.target import Target

MOST_RUNS = MOST_PARTIES - 1
"""CTAs for each tile that stream_k divides: one more may have a part of it."""
OTHER_REGISTERS = 32
"""Registers that a thread needs beside its sums, as ptxas counts."""
_MOST_SPLITS = 8  # the CTAs that any chip puts in a cluster
_UNEQUAL_REGISTERS = 26  # and of an equal share beside one instruction's, whatever its role is given
_BARRIER_BYTES = 16  # of a stage: one barrier says that it is full, one that it is empty

_T = TypeVar("_T")


@dataclass(frozen=True)
class WarpgroupSchedule(AnySchedule):
    """A choice of tiles for `wgmma`: `schedule = {block = array<i64: 128, 256, 64>, warpgroups = 2,
    stages = 3, group = 8, splits = 1, swap = false}`.

    A CTA stays on its multiprocessor and computes a `block` (M, N, K) after the other: one warpgroup copies
    (TMA) into a ring of `stages`, `warpgroups` others multiply, each its share of the rows. Tiles go in
    groups of `group` block rows. With `swap` the rows of a block are columns of D: for products of few rows.
    With `splits` a cluster of so many CTAs shares a block, each a part of K; with `global_splits` so many
    CTAs do that, or clusters, and add up through global memory. With `stream_k` that is for the tiles alone
    that the last wave would have: all CTAs divide their K evenly. A `cluster` of CTAs, so many along rows and
    along columns of blocks, shares what it copies: a part comes to all of them (multicast).
    """

    block: tuple[int, int, int]
    warpgroups: int
    stages: int
    group: int = 8
    splits: int = 1
    swap: bool = False
    cluster: tuple[int, int] = (1, 1)
    global_splits: int = 1
    stream_k: bool = False

    counts: ClassVar[dict[str, int]] = {"block": 3, "cluster": 2}
    instruction: ClassVar[str] = "wgmma"
    key: ClassVar[str] = "warpgroups"
    starts_early: ClassVar[bool] = True

    @property
    def threads(self) -> int:
        """Threads of a CTA: the warpgroups that multiply, and the one that copies."""
        return WARPGROUP * (self.warpgroups + 1)

    @property
    def registers(self) -> tuple[int, int]:
        """What a thread that copies and one that multiplies get: with the rest they fill the multiprocessor.
        One that multiplies alone has enough from the start (0).
        """
        return {1: (0, 0), 2: (40, 232), 3: (32, 160)}[self.warpgroups]

    @property
    def rows(self) -> int:
        """Rows of a block that one warpgroup computes."""
        return self.block[0] // self.warpgroups

    @property
    def rows_of_d(self) -> int:
        """Rows of D, and of A, that a block has."""
        return self.swapped(*self.block[:2])[0]

    def swapped(self, row: _T, column: _T) -> tuple[_T, _T]:
        """What a block has along its rows and columns as D has it, and the other way round."""
        return (column, row) if self.swap else (row, column)

    def products(self, types: Types) -> int:
        """Instructions' sums that lie beside a warpgroup's promoted ones: two where its threads hold them, so
        that one is under way while the other is added up.
        """
        if not types.promoted:
            return 0
        n = self.block[1]
        of_a, of_b = (n // 4, 1) if self.swap else (2, n // gcd(n, PROMOTED))  # scales that a thread has
        needed = 3 * wgmma.M * n // WARPGROUP + (of_a * of_b if types.scaled else 0) + OTHER_REGISTERS
        # Not what a role is given: ptxas spills rather than to use little more than an equal share.
        return 2 if self.rows == wgmma.M and needed <= register_share(self.threads) else 1

    @property
    def overlaps(self) -> bool:
        """Whether a warpgroup that multiplies alone leaves a block's products under way while it starts the
        next one's. With a block N that is no power of two ptxas would have each wait for the one before.
        """
        return self.warpgroups == 1 and self.block[1].bit_count() == 1

    @property
    def workspace(self) -> Workspace | None:
        """Rows of four sums for each thread of a warpgroup, and a counter for each warp: with `global_splits`
        for each K slice of a tile, with `stream_k` for each CTA, which may have parts of two tiles.
        """
        if not self.stream_k and self.global_splits == 1:
            return None
        parts = 2 if self.stream_k else 1
        counters = self.warpgroups * WARPS * COUNTER_STRIDE
        return Workspace(parts * self.warpgroups * self.vectors, counters, of_each_cta=self.stream_k)

    @property
    def tile_ctas(self) -> int:
        """CTAs that compute a tile together, at most."""
        return MOST_RUNS if self.stream_k else self.splits * self.global_splits

    @property
    def resident_ctas(self) -> int:
        """The limit of CTAs on a multiprocessor (0: none)."""
        return 0 if self.splits > 1 else 1

    def row_alignment(self, types: Types, operand: str, element_bytes: int) -> int:
        """16 bytes where TMA copies an operand; otherwise two elements where it's accessed in pairs."""
        if operand in ("a", "b", "scale_a") or (operand == "d" and self.staged(types)):
            return tensor_map.ROW_BYTES
        return 2 * element_bytes if operand in ("c", "d", "residual") else 1

    def form(self, types: Types) -> wgmma.MmaAsync:
        """The instruction that multiplies."""
        a, b = self.swapped(PTX_INPUTS[types.a], PTX_INPUTS[types.b])
        depth = wgmma.depth(ELEMENT_TYPES[a])
        d = {"f32": "f32", "i32": "s32"}[types.sums]
        return wgmma.MmaAsync(f"m{wgmma.M}n{self.block[1]}k{depth}", a, b, d)

    def stage_bytes(self, types: Types) -> int:
        """Shared memory of one stage."""
        scales = 4 * self.scale_stride if types.scaled else 0
        return super().stage_bytes(types) + scales

    def copied_bytes(self, types: Types) -> int:
        """What copies bring into a stage: as much as it has, but for what fills up a row of scales."""
        unused = self.scale_stride - self.rows_of_d
        return self.stage_bytes(types) - (4 * unused if types.scaled else 0)

    @property
    def scale_stride(self) -> int:
        """Scales of A in a stage: one for each row of A, in whole 128 bytes, where TMA may write."""
        return ceil_div(self.rows_of_d, 32) * 32

    def staging_bytes(self, types: Types) -> int:
        """Shared memory beside the stages in which a block of D is put together."""
        m, n, _ = self.block
        return m * n * types.output_bytes if self.staged(types) else 0

    @property
    def sums_stride(self) -> int:
        """With splits, how many sums two rows of D are apart in shared memory: what a warp stores at once of
        a fragment reaches every bank.
        """
        return self.block[0] + 4 if self.swap else self.block[1] + 8

    @property
    def sums_bytes(self) -> int:
        """Shared memory of the sums that splits add up, in the place of the stages."""
        if self.splits == 1:
            return 0
        return self.rows_of_d * self.sums_stride * 4

    def staged(self, types: Types) -> bool:
        """Whether blocks of D go through shared memory: elements of 16 bits (stmatrix) and of 8 do."""
        return types.output_bytes <= 2 and self.splits == self.global_splits == 1

    @property
    def vectors(self) -> int:
        """Runs of four sums that a thread has of a block."""
        return self.rows * self.block[1] // (4 * WARPGROUP)

    @property
    def shares(self) -> int:
        """Equal parts of a block's columns, in whole columns of fragments, one each for `global_splits`: as
        many as there can be.
        """
        return gcd(self.global_splits, self.block[1] // 8)

    def shared_bytes(self, types: Types) -> int:
        """Shared memory of all stages, their barriers and D."""
        taken = max(self.stages * self.stage_bytes(types), self.sums_bytes)
        return taken + self.stages * _BARRIER_BYTES + self.staging_bytes(types)

    def most_stages(self, types: Types, shared_bytes: int) -> int:
        """How many stages so much shared memory holds beside D."""
        rest = shared_bytes - self.staging_bytes(types)
        return rest // (self.stage_bytes(types) + _BARRIER_BYTES)

    @classmethod
    def chips(cls, types: Types) -> ChipSet:
        """The chips that have the instructions of every such schedule."""
        if not {types.a, types.b} <= set(PTX_INPUTS) or types.d not in BYTES:
            return frozenset()
        row = wgmma.MMA_ASYNC.table.get(cls((64, 64, 64), 1, 2).form(types))
        return row.chips if row else frozenset()

    @classmethod
    def layout_complaint(cls, types: Types) -> str | None:
        """Why `wgmma` can't read A and B as they are stored."""
        if any(types.transposed) and types.input_bytes != 2:
            return f"expects A and B with K inside, as wgmma reads {types.a}, got one with K outside"
        return None

    def complaint(self, types: Types, target: Target | None = None) -> str | None:
        """Why the schedule can't be lowered, or can't run on `target`."""
        m, n, k = self.block
        if min(*self.block, self.warpgroups, self.stages, self.group, self.splits, self.global_splits) < 1:
            return f"has a schedule with a field below 1: {self}"
        if verdict := wgmma.MMA_ASYNC.judge(self.form(types), target.chip.name if target else None):
            if verdict.rule == "shape":
                near = sorted(self._columns(types), key=lambda columns: abs(columns - n))[:2]
                verdict = replace(verdict, nearest=tuple(self._with(c).form(types).ptx for c in sorted(near)))
            return f"has a schedule whose instruction isn't legal: wgmma.mma_async {verdict}"
        if found := self.count_complaint():
            return found
        if self.warpgroups > 3 or m % (self.warpgroups * wgmma.M):
            return (
                f"expects a schedule of 1 to 3 warpgroups that divide block M {m} in multiples of {wgmma.M}, "
                f"got {self.warpgroups}"
            )
        each = self.registers[1] or register_share(self.threads)
        # Promoted sums lie beside those of one instruction, which are under way, or of two where they fit.
        beside = wgmma.M * self.products(types)
        if (most := (each - OTHER_REGISTERS) * WARPGROUP) < (self.rows + beside) * n:
            both = f" and {beside} x {n} under way" if beside else ""
            return (
                f"expects a schedule whose warpgroups hold at most {most} sums each, as their "
                f"threads have {each} registers, got {self.rows} x {n}{both}"
            )
        if n // 2 > (most := register_share(self.threads) - _UNEQUAL_REGISTERS):
            fitting = max(columns for columns in self._columns(types) if columns // 2 <= most)
            return (
                f"expects a schedule of block N up to {fitting} with {self.warpgroups} warpgroups, as one "
                f"instruction's sums must fit an equal share of the registers, got {n}"
            )
        if types.promoted and k != PROMOTED:
            return f"expects a schedule of block K {PROMOTED}, after which sums are promoted, got {k}"
        if types.scaled and (rows := self.rows_of_d) > (most := tensor_map.MOST_BOX):
            return f"expects a schedule of at most {most} rows of D, whose scales one copy brings, got {rows}"
        if self.splits > _MOST_SPLITS or self.splits & (self.splits - 1) or n % (8 * self.splits):
            return (
                f"expects a schedule of 1, 2, 4 or 8 splits that divide block N {n} in multiples of 8, "
                f"got {self.splits}"
            )
        if self.global_splits > MOST_PARTIES or (self.splits > 1 and self.global_splits > 1):
            return (
                f"expects a schedule of 1 to {MOST_PARTIES} global_splits, and no splits beside them, got "
                f"{self.global_splits} and {self.splits}"
            )
        if self.stream_k and (self.ctas > 1 or self.global_splits > 1):
            return f"expects a schedule of stream_k without splits, global_splits and a cluster, got {self}"
        if found := self._cluster_complaint(types) or self._group_complaint(types):
            return found
        if found := self.layout_complaint(types):
            return found
        if found := self._panel_complaint(types):
            return found
        row = k * types.input_bytes
        if row % 128 and row not in SWIZZLES:
            return (
                f"expects a schedule of block K of 32, 64 or a multiple of 128 bytes, got {row} "
                f"({k} of {types.a})"
            )
        return self.shared_complaint(types, target)

    @property
    def ctas(self) -> int:
        """CTAs of a cluster."""
        return self.splits * self.cluster[0] * self.cluster[1]

    def _cluster_complaint(self, types: Types) -> str | None:
        """Why the CTAs of a cluster can't share their copies."""
        down, across = self.cluster
        if (down, across) == (1, 1):
            return None
        if min(down, across) < 1 or self.splits > 1 or down * across not in (2, 4, 8):
            return (
                f"expects a cluster of 2, 4 or 8 CTAs and no splits, got {down} x {across} and {self.splits}"
            )
        outside = self.swapped(*types.transposed)
        for extent, parts, k_outside in zip(self.block, (across, down), outside, strict=False):
            # A part must be whole groups of rows of a swizzle, or whole panels.
            unit = 128 // types.input_bytes if k_outside else 8
            if extent % (parts * unit):
                return f"expects a cluster that divides {extent} in multiples of {unit}, got {parts} parts"
        return None

    def _group_complaint(self, types: Types) -> str | None:
        """Why the rows of D that a cluster computes may not be of one group."""
        if not types.grouped:
            return None
        for name in ("splits", "global_splits"):
            if (count := getattr(self, name)) > 1:
                return f"expects {name} of 1 with groups, got {count}"
        if self.stream_k:
            return "expects a schedule without stream_k with groups"
        rows = self.rows_of_d * self.swapped(*self.cluster)[0]
        if GROUP_ROWS % rows:
            found = f"rows that divide {GROUP_ROWS} with groups, got {rows}"
            return f"expects a schedule whose clusters have {found}"
        return None

    def _with(self, columns: int) -> "WarpgroupSchedule":
        """This schedule with another block N."""
        return replace(self, block=(self.block[0], columns, self.block[2]))

    def _columns(self, types: Types) -> list[int]:
        """Each block N that has an instruction, and panels."""
        table, near = wgmma.MMA_ASYNC.table, map(self._with, wgmma.COLUMNS)
        return [s.block[1] for s in near if s.form(types) in table and not s._panel_complaint(types)]

    def _panel_complaint(self, types: Types) -> str | None:
        """Why a tile with block N inside, of an operand or of D, can't lie in panels as wide as a swizzle."""
        n = self.block[1]
        outside = types.transposed[0 if self.swap else 1]
        for what, bytes_, has in (
            ("an operand with K outside", types.input_bytes, outside),
            ("a D that TMA writes", types.output_bytes, self.staged(types) and not self.swap),
        ):
            if has and n * bytes_ % min(SWIZZLES):
                unit = min(SWIZZLES) // bytes_
                return f"expects a schedule of block N in multiples of {unit} for {what}, got {n}"
        return None

    def __str__(self) -> str:
        m, n, k = self.block
        text = f"block {m}x{n}x{k}, {self.warpgroups} warpgroups, {self.stages} stages, group {self.group}"
        text += f", {self.splits} splits" if self.splits > 1 else ""
        text += f", {self.global_splits} global splits" if self.global_splits > 1 else ""
        text += ", stream-K" if self.stream_k else ""
        text += f", cluster {self.cluster[0]}x{self.cluster[1]}" if self.ctas > self.splits else ""
        return text + (", swapped" if self.swap else "")
