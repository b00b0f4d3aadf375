"""How a whole product is laid over the chip: the `schedule` attribute of `tile.matmul`.

A schedule with `warps` is for `mma.sync`, one with `warpgroups` for `wgmma`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from math import gcd
from typing import Any, ClassVar, TypeVar

from weft import mlir, mlir_text
from weft.dialects.schedule_fields import Written, check_names
from weft.dialects.tile_claims import COUNTER_STRIDE, MOST_PARTIES
from weft.dialects.tile_types import FP8_TYPES, MOST_REGISTERS, PTX_INPUTS
from weft.errors import WeftError
from weft.isa import async_copy, mma, tensor_map, wgmma
from weft.isa.chips import LANES, MOST_SHARED_BYTES, WARPGROUP, WARPS, ChipSet, describe, register_share
from weft.isa.conversion import FP8_ROUNDING
from weft.isa.types import ELEMENT_TYPES
from weft.mlir import ir
from weft.target import Target

COPY = async_copy.copy_of(16)  # what fills the stages of a schedule for mma.sync
SWIZZLES = {128: "128B", 64: "64B", 32: "32B"}  # of rows of so many bytes
PROMOTED = 128  # of K, after which sums leave the tensor cores; a scale's rows and columns of B too
GROUP_ROWS = 128  # of D, from a multiple of as many on, that are of one group
MOST_RUNS = MOST_PARTIES - 1  # CTAs for each tile that stream_k divides: one more may have a part of it
MOST_SPLITS = 8  # the CTAs that any chip puts in a cluster
MOST_GROUP = 1024  # block rows of a group: far more than a chip has CTAs under way
OTHER_REGISTERS = 32  # that a thread of wgmma needs beside its sums, as ptxas counts
_UNEQUAL_REGISTERS = 26  # and of an equal share beside one instruction's, whatever its role is given
_BARRIER_BYTES = 16  # of a stage: one barrier says that it is full, one that it is empty
_WIDTHS = {name: ELEMENT_TYPES[ptx].bits // 8 for name, ptx in {**PTX_INPUTS, "i32": "s32"}.items()}

_T = TypeVar("_T")


@dataclass(frozen=True)
class Types:
    """The element types of A, B and D, as MLIR names them, and which of A and B have K outside.

    `promoted`: sums leave the tensor cores every `PROMOTED` of K, to be added up in f32; `scaled`: each
    is multiplied by scales of A and B on the way. `grouped`: rows of D have different matrices B, or
    products of a batch have different numbers of rows.
    """

    a: str
    b: str
    d: str
    transposed: tuple[bool, bool] = (False, False)
    promoted: bool = False
    scaled: bool = False
    grouped: bool = False

    @property
    def input_bytes(self) -> int:
        """Of an element of A, which is one of B's too."""
        return _WIDTHS[self.a]

    @property
    def output_bytes(self) -> int:
        """Of an element of D."""
        return _WIDTHS[self.d]


def ceil_div(a: int, b: int) -> int:
    """How many of size `b` cover `a`."""
    return -(-a // b)


def atom(element: str) -> mma.Sync:
    """The instruction that warp tiles with inputs of a type are made of."""
    return mma.Sync("m16n8k16", element, element, "f32", "f32")


ATOM = atom("f16").mnk  # the same for every type


class _Staged(Written):
    """What the schedules share beside how they are written."""

    block: tuple[int, int, int]
    stages: int
    group: int

    def stage_bytes(self, types: Types) -> int:
        """Shared memory of the parts of A and B in one stage."""
        m, n, k = self.block
        return (m + n) * k * types.input_bytes

    def _count_complaint(self) -> str | None:
        """Why there can't be as many stages, or block rows in a group."""
        if self.stages < 2:
            return f"expects a schedule of at least 2 stages, got {self.stages}"
        if self.group > MOST_GROUP:
            return f"expects a schedule whose groups have at most {MOST_GROUP} block rows, got {self.group}"
        return None


@dataclass(frozen=True)
class Schedule(_Staged):
    """A choice of tiles: `schedule = {block = array<i64: 128, 128, 64>, warps = array<i64: 2, 2>, stages = 3,
    group = 8}`.

    A CTA computes a `block` (M, N, K) of the product with a grid of `warps` (along M, along N), reads its
    operands through `stages` shared-memory tiles, and CTAs go through the product in groups of `group` block
    rows, so that they share what they read in the L2 cache.
    """

    block: tuple[int, int, int]
    warps: tuple[int, int]
    stages: int
    group: int = 8

    counts: ClassVar[dict[str, int]] = {"block": 3, "warps": 2}
    inputs: ClassVar[Sequence[str]] = ("f16", "bf16")

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return LANES * self.warps[0] * self.warps[1]

    @property
    def warp_tile(self) -> tuple[int, int]:
        """Rows and columns of the product that one warp computes."""
        return self.block[0] // self.warps[0], self.block[1] // self.warps[1]

    def shared_bytes(self, types: Types) -> int:
        """Shared memory of all stages."""
        return self.stages * self.stage_bytes(types)

    @classmethod
    def chips(cls, types: Types) -> ChipSet:
        """The chips that have the instructions of every such schedule."""
        plain = not (types.transposed[0] or types.promoted or types.grouped)
        row = mma.SYNC.table.get(atom(types.a)) if plain else None
        chips = row.chips & async_copy.CP_ASYNC.table[COPY].chips if row else frozenset()
        return chips & FP8_ROUNDING if types.d in FP8_TYPES else chips

    def complaint(self, types: Types, target: Target | None = None) -> str | None:
        """Why the schedule can't be lowered, or can't run on `target`."""
        m, n, k = self.block
        if types.a not in self.inputs or types.a != types.b or types.d == "i32":
            return f"has a schedule of mma.sync for f16 or bf16 alone, got {types.a}, {types.b} and {types.d}"
        if types.d in FP8_TYPES and target and target.chip.name not in FP8_ROUNDING:
            return f"rounds to {types.d}, which needs {describe(FP8_ROUNDING)}, not {target}"
        if types.transposed[0]:
            return "has a schedule of mma.sync, which takes no transpose_a"
        if types.grouped:
            return "has a schedule of mma.sync, which takes no groups"
        if min(*self.block, *self.warps, self.stages, self.group) < 1:
            return f"has a schedule with a field below 1: {self}"
        if found := self._count_complaint():
            return found
        if self.threads > 1024:
            return f"expects a schedule of at most 32 warps, got {self.warps[0]} x {self.warps[1]}"
        if m % (self.warps[0] * ATOM[0]) or n % (self.warps[1] * 2 * ATOM[1]):
            return (
                f"expects a schedule whose warps ({self.warps[0]} x {self.warps[1]}) divide block M {m} "
                f"in multiples of {ATOM[0]} and block N {n} in multiples of {2 * ATOM[1]}"
            )
        rows, columns = self.warp_tile
        if rows * columns > MOST_REGISTERS * LANES:
            return (
                f"expects a schedule whose warps hold at most {MOST_REGISTERS * LANES} sums each, "
                f"{MOST_REGISTERS} a lane, got {rows} x {columns}"
            )
        if k not in (32, 64):
            return f"expects a schedule of block K 32 or 64 (a shared row of 64 or 128 bytes), got {k}"
        return _shared_complaint(self.shared_bytes(types), self.stages, self.stage_bytes(types), target)

    def __str__(self) -> str:
        m, n, k = self.block
        warps = f"{self.warps[0]}x{self.warps[1]}"
        return f"block {m}x{n}x{k}, warps {warps}, {self.stages} stages, group {self.group}"


@dataclass(frozen=True)
class WarpgroupSchedule(_Staged):
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
    def workspace(self) -> tuple[int, int]:
        """With `global_splits`, what a part of a block takes of global memory: rows of four sums for each
        thread of a warpgroup, and counters, one for each warp. With `stream_k` what a CTA does, which may
        have parts of two tiles.
        """
        parts = 2 if self.stream_k else 1
        return parts * self.warpgroups * self.vectors, self.warpgroups * WARPS * COUNTER_STRIDE

    def form(self, types: Types) -> wgmma.MmaAsync:
        """The instruction that multiplies."""
        a, b = self.swapped(PTX_INPUTS[types.a], PTX_INPUTS[types.b])
        depth = wgmma.depth(ELEMENT_TYPES[a])
        d = "f32" if ELEMENT_TYPES[a].kind == "float" else "s32"
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
        if not {types.a, types.b} <= set(PTX_INPUTS) or types.d not in _WIDTHS:
            return frozenset()
        row = wgmma.MMA_ASYNC.table.get(cls((64, 64, 64), 1, 2).form(types))
        return row.chips if row else frozenset()

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
        if found := self._count_complaint():
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
        if self.splits > MOST_SPLITS or self.splits & (self.splits - 1) or n % (8 * self.splits):
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
        if any(types.transposed) and types.input_bytes != 2:
            return f"expects A and B with K inside, as wgmma reads {types.a}, got one with K outside"
        if found := self._panel_complaint(types):
            return found
        row = k * types.input_bytes
        if row % 128 and row not in SWIZZLES:
            return (
                f"expects a schedule of block K of 32, 64 or a multiple of 128 bytes, got {row} "
                f"({k} of {types.a})"
            )
        return _shared_complaint(self.shared_bytes(types), self.stages, self.stage_bytes(types), target)

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


AnySchedule = Schedule | WarpgroupSchedule


def schedule_of(attribute: Any) -> AnySchedule:
    """The schedule that an attribute states. Raises WeftError for one that is none."""
    if not isinstance(attribute, ir.DictAttr):
        raise WeftError(f"expects attribute 'schedule' to be a dictionary, got {attribute}")
    names = {named.name for named in attribute}
    if "warpgroups" in names:
        return WarpgroupSchedule.of(attribute)
    if "warps" in names:
        return Schedule.of(attribute)
    check_names(names, *([f.name for f in fields(kind)] for kind in (Schedule, WarpgroupSchedule)))
    raise WeftError("expects the schedule to say 'warps', for mma.sync, or 'warpgroups', for wgmma")


def read_schedule(text: str) -> AnySchedule:
    """The schedule that a text states, as the attribute is written. Raises WeftError for one that is none."""
    mlir_text.check(text, "<schedule>")
    if not text:
        raise WeftError("expects a schedule, got nothing")  # of which MLIR's parser dies
    with ir.Context():
        return schedule_of(mlir.parse_attribute(text, "<schedule>"))


def needed_chips(types: Types) -> ChipSet:
    """The chips that have the instructions of some schedule."""
    return Schedule.chips(types) | WarpgroupSchedule.chips(types)


def _shared_complaint(needed: int, stages: int, stage: int, target: Target | None) -> str | None:
    limit, where = (target.chip.shared_bytes, target) if target else (MOST_SHARED_BYTES, "any chip")
    what = f"expects a schedule of at most {limit} bytes of shared memory on {where}"
    return f"{what}, got {needed} ({stages} stages of {stage})" if needed > limit else None
