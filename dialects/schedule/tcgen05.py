"""The schedules of kernels that multiply with `tcgen05.mma`: persistent CTAs, alone or in pairs, whose sums
are in tensor memory.
"""

from dataclasses import dataclass
from typing import ClassVar

from weft.dialects.element_types import PTX_INPUTS
from weft.dialects.product_types import BYTES, Types, ceil_div
from weft.dialects.schedule import tcgen05_scales
from weft.dialects.schedule.family import SWIZZLES, AnySchedule, Workspace
from weft.dialects.schedule.tcgen05_scales import ScaleTiles
from weft.dialects.schedule.work import Kernel
from weft.dialects.tile_limits import COUNTER_STRIDE, MOST_PARTIES, STAGE_BARRIER_BYTES
from weft.isa import tensor_map
from weft.isa.chips import WARPGROUP, WARPS, ChipSet, register_share
from weft.isa.cluster_features import ANSWER_BYTES
from weft.isa.family import Verdict
from weft.isa.launch_limits import PORTABLE_CLUSTER
from weft.isa.tcgen05 import control, descriptors
from weft.isa.tcgen05.mma_forms import Mma
from weft.isa.tcgen05.mma_rows import MMA, MMA_BLOCK_SCALE
from weft.isa.tcgen05.tensor_layouts import LANES, ROWS
from weft.isa.tensor_map import BOX_ALIGNMENT
from weft.isa.wgmma.descriptors import GROUP, WIDEST
from weft.target import Target

CTA_ROWS = (*ROWS, 2 * LANES)
"""Rows of a tile that one CTA can have: those of one product, or of two side by side."""
MOST_ACCUMULATORS = 2
MOST_SUMS = {1: 128, 2: 96}
"""Promoted sums that a thread of the epilogue can hold beside what it adds to them, whatever the epilogue, by
the number of warpgroups that share the registers.
"""
MOST_SWAPPED = 48
"""As `MOST_SUMS`, where `swap` makes columns of a tile of the rows of A, which have scales of their own."""
_UNEQUAL_SHARES = 72, 216
"""Registers of a thread of the first warpgroup and of each of two of the epilogue, in all those of a CTA."""
STAGING_SLOTS = 2
"""Slots of shared memory of an epilogue warpgroup: TMA stores one while the other is filled."""
ANSWERS = 2
"""Tiles that `dynamic` asks for ahead of the slowest warp."""
_SHARED_UNIT = 16  # columns, so that an accumulator begins where published kernels let it
_SLICE_COLUMNS = 64  # that a warpgroup takes at a time, at most
_ADDRESS_BYTES = 4  # through which threads learn the address of the columns


@dataclass(frozen=True)
class TensorMemorySchedule(AnySchedule):
    """A schedule for `tcgen05.mma`: `schedule = {block = array<i64: 256, 256, 64>, accumulators = 2,
    stages = 5, cta_group = 2, group = 8}`.

    A CTA, or with `cta_group` 2 a pair of CTAs, computes one tile of `block` (M, N, K) after the other. One
    warp copies K blocks by TMA into a ring of `stages`, one issues the products, and `epilogues` warpgroups
    finish the sums. These are in tensor memory, in `accumulators` buffers: with two, the epilogue of a tile
    overlaps with the products of the next. Where columns of block scales leave no room for two whole ones,
    the two share columns, which the epilogue reads first. A CTA has 64, 128 or 256 rows of a tile; 256 are
    two products of 128 rows side by side. With two `epilogues`, each warpgroup finishes one of these, or half
    of the columns.

    Tiles are computed in groups of `group` rows of tiles. With `swap`, the rows of a tile are columns of D,
    for products of few rows. A `cluster` of tiles along rows and columns of tiles shares its copies by
    multicast. `global_splits` CTAs or pairs compute one tile, each a K slice, and add their sums through
    global memory. With `dynamic`, cluster launch control assigns the tiles while the kernel runs; otherwise
    their order is fixed.
    """

    block: tuple[int, int, int]
    accumulators: int
    stages: int
    cta_group: int = 1
    group: int = 8
    swap: bool = False
    cluster: tuple[int, int] = (1, 1)
    global_splits: int = 1
    dynamic: bool = False
    epilogues: int = 1

    counts: ClassVar[dict[str, int]] = {"block": 3, "cluster": 2}
    instruction: ClassVar[str] = "tcgen05"
    family: ClassVar[str] = "tcgen05"
    key: ClassVar[str] = "accumulators"
    takes_any_result: ClassVar[bool] = True
    starts_early: ClassVar[bool] = True

    @property
    def threads(self) -> int:
        """Threads of a CTA: the warps that copy, multiply and assign tiles, and the epilogue's warpgroups."""
        return WARPGROUP * (1 + self.epilogues)

    def registers(self, types: Types) -> tuple[int, int]:
        """The registers of a thread of the first warpgroup, and of the epilogue's. All keep those of the
        launch (0), except where two warpgroups hold promoted sums.
        """
        return _UNEQUAL_SHARES if types.promoted and self.epilogues > 1 else (0, 0)

    @property
    def halves(self) -> bool:
        """Whether each CTA of a pair has 64 rows: its upper lanes then hold the upper half of the columns."""
        return self.cta_group == 2 and self.cta_rows < LANES

    @property
    def cta_rows(self) -> int:
        """Rows of a tile, and of the left operand, that one CTA has."""
        return self.block[0] // self.cta_group

    @property
    def cta_columns(self) -> int:
        """Columns of the right operand that one CTA copies; a pair has half of them each."""
        return self.block[1] // self.cta_group

    @property
    def parts(self) -> int:
        """Products side by side that compute a tile."""
        return max(self.cta_rows // LANES, 1)

    @property
    def mma_m(self) -> int:
        """M of one instruction."""
        return self.block[0] // self.parts

    @property
    def part_columns(self) -> int:
        """Columns of tensor memory that hold the sums of one product of a tile."""
        return self.block[1] // 2 if self.halves else self.block[1]

    def shared_columns(self, types: Types) -> int:
        """Columns of tensor memory that two accumulators share, so that they fit beside block scales: the
        last ones of the first and the first ones of the second. The products of a tile may begin when the
        epilogue has read those of the tile before.
        """
        if (scales := self.scales(types)) is None or self.accumulators == 1 or self.parts > 1:
            return 0
        wanted = self.accumulators * self.part_columns + scales.columns - control.COLUMNS[-1]
        shared = _aligned(max(wanted, 0), _SHARED_UNIT)
        return shared if shared <= self.part_columns // 2 else 0

    @property
    def tensor_columns(self) -> int:
        """Columns of tensor memory that all accumulators take: a number that a CTA can allocate if at most
        512.
        """
        used = self.accumulators * self.parts * self.part_columns
        return next((count for count in control.COLUMNS if used <= count), used)

    @property
    def tile_ctas(self) -> int:
        return self.cta_group * self.global_splits

    @property
    def resident_ctas(self) -> int | None:
        """The limit of CTAs on a multiprocessor: one. With `dynamic` there is a CTA for each tile (0)."""
        return 0 if self.dynamic else 1

    @property
    def workspace(self) -> Workspace | None:
        """With `global_splits`, rows of four sums for each thread of a warpgroup and a counter for each warp,
        for each K slice of a tile.
        """
        if self.global_splits == 1:
            return None
        return Workspace(self.epilogues * self.vectors, self.epilogues * WARPS * COUNTER_STRIDE, False)

    @property
    def vectors(self) -> int:
        """Vectors of four sums that a thread of the epilogue has of a tile."""
        return self.epilogue_columns // self.vector_columns

    @property
    def vector_columns(self) -> int:
        """Columns of a tile for each of these vectors: with 64 rows, two rows share one."""
        return 4 * LANES // self.slice_rows

    @property
    def epilogue_columns(self) -> int:
        """Columns of tensor memory that one warpgroup of the epilogue reads of a tile."""
        return self.parts * self.part_columns // self.epilogues

    def row_alignment(self, types: Types, operand: str, element_bytes: int) -> int:
        """16 bytes where TMA alone copies an operand; otherwise one element."""
        if operand in ("a", "b"):
            return tcgen05_scales.row_bytes(types, operand)
        tiles = operand in ("scale_a", "scale_b") and types.scale and not types.words
        return tensor_map.ROW_BYTES if tiles else 1

    @staticmethod
    def kind(types: Types) -> str | None:
        """The kind of `tcgen05.mma` that multiplies elements of these types."""
        if not {types.a, types.b} <= set(PTX_INPUTS) or types.scale:
            return None
        elements = {PTX_INPUTS[types.a], PTX_INPUTS[types.b]}
        plain = (kind for kind in descriptors.KINDS.values() if kind.scales is None)
        return next((kind.name for kind in plain if elements <= set(kind.elements)), None)

    def _verdict(self, types: Types, chip: str | None) -> Verdict | None:
        """Why there is no such instruction."""
        a, b = self.swapped(PTX_INPUTS[types.a], PTX_INPUTS[types.b])
        shape = (self.mma_m, self.block[1])
        group = self.cta_group
        mn_major = self.swapped(*types.transposed)
        if (scaling := types.block_scaling) is not None:
            form = tcgen05_scales.form(scaling, group)
            scaled = descriptors.BlockScaledDescriptor(
                *(scaling.kind, *shape, a, b),
                scale_type=scaling.scale,
                cta_group=group,
                scale_vec=form.scale_vec,
                transpose_a=mn_major[0],
                transpose_b=mn_major[1],
            )
            return MMA_BLOCK_SCALE.judge(form, chip) or scaled.complaint(chip)
        kind = self.kind(types) or ""
        plain = descriptors.InstructionDescriptor(
            *(kind, *shape, a, b, types.ptx_sums, group), transpose_a=mn_major[0], transpose_b=mn_major[1]
        )
        return MMA.judge(Mma(kind, group), chip) or plain.complaint(chip)

    def stage_bytes(self, types: Types) -> int:
        """Shared memory of one stage in each CTA."""
        scales = self.scales(types)
        tiles = (self.cta_rows + self.cta_columns) * self.block[2] * types.input_bits // 8
        return tiles + (scales.bytes if scales else 0)

    def copied_bytes(self, types: Types) -> int:
        """Bytes that copies into a stage of one CTA count."""
        scales, extents = self.scales(types), (self.cta_rows, self.cta_columns)
        copied = tcgen05_scales.copied_bytes(extents, self.block[2], types, self.swap)
        return copied + (scales.bytes if scales else 0)

    def scales(self, types: Types) -> ScaleTiles | None:
        """The block scales of a stage; None without such scales. Each CTA of a pair needs those of all
        columns.
        """
        return ScaleTiles.of(self.cta_rows, self.block[1], self.block[2], types)

    def word_period(self, types: Types) -> int:
        """How many K blocks have their scales in the same words."""
        return tcgen05_scales.word_period(self.block[2], types, self.global_splits)

    def kernel(self, types: Types, chip: str | None = None) -> Kernel:
        """What the kernel does. Two accumulators share the columns of the slices that are read first."""
        shared = self.shared_columns(types) and self.kept_slices(types) * self.slice_columns(types)
        of_mma = self.mma_m, *self.block[1:], self.cta_group
        return self._kernel(
            types,
            parts=self.parts,
            accumulators=self.accumulators,
            shared=shared,
            epilogues=self.epilogues,
            k_96=tcgen05_scales.long_share(types, *of_mma, chip),
        )

    def k_step(self, types: Types, chip: str) -> tuple[object, ...]:
        """The kind of instruction. Those with a K of 96 and others take turns in each K block."""
        scaling, share = types.block_scaling, self.kernel(types, chip).k_96
        kind = scaling.kind if scaling else self.kind(types)
        return (kind, share, self.block[2]) if share else (kind,)

    def staged(self, types: Types) -> bool:
        """Whether D is stored from shared memory: by TMA where its rows are aligned."""
        return not self.swap and self.global_splits == 1

    @property
    def slice_rows(self) -> int:
        """Rows of sums, by lanes of tensor memory, that a warpgroup finishes at a time."""
        return LANES if self.halves else min(self.cta_rows, LANES)

    def slice_columns(self, types: Types) -> int:
        """Columns of sums that a warpgroup takes at a time: as wide as a swizzle of D, if it divides the
        columns and is at most 64 of them, otherwise 16 bytes; 8 columns where these don't divide them.
        """
        columns = self.epilogue_columns // (1 if self.epilogues == self.parts else self.parts)
        widths = [width // types.output_bytes for width in (*SWIZZLES, tensor_map.ROW_BYTES)]
        most = _SLICE_COLUMNS // 2 if self.swap else _SLICE_COLUMNS
        return next((width for width in widths if width <= most and columns % width == 0), 8)

    def kept_slices(self, types: Types) -> int:
        """Slices that a warpgroup takes before it releases an accumulator: all, or those with the columns
        that two accumulators share.
        """
        columns = self.slice_columns(types)
        return ceil_div(self.shared_columns(types) or self.epilogue_columns, columns)

    def staging_bytes(self, types: Types) -> int:
        """Shared memory in addition to the stages, in which slices of D are staged."""
        each = self.slice_rows * self.slice_columns(types) * types.output_bytes
        return self.epilogues * STAGING_SLOTS * each if self.staged(types) else 0

    def shared_bytes(self, types: Types) -> int:
        """Shared memory of all stages and accumulators, their barriers and the staged D."""
        return self._ring_bytes(self.stages, types) + self._other_bytes(types)

    def most_stages(self, types: Types, shared_bytes: int) -> int:
        """The most stages in that much shared memory, in addition to what else is there."""
        room = shared_bytes - self._other_bytes(types)
        most = room // self.stage_bytes(types)
        return next((n for n in range(most, 0, -1) if self._ring_bytes(n, types) <= room), 0)

    def _ring_bytes(self, stages: int, types: Types) -> int:
        """Shared memory of so many stages of A, B and their scales, and of the barriers of these stages."""
        bits, scales = stages * self.block[2] * types.input_bits, self.scales(types)
        copied = sum(_aligned(each * bits // 8, WIDEST.period) for each in (self.cta_rows, self.cta_columns))
        copied += stages * scales.bytes if scales else 0
        return copied + _aligned(STAGE_BARRIER_BYTES * stages, BOX_ALIGNMENT)

    def _other_bytes(self, types: Types) -> int:
        """Shared memory that doesn't depend on the number of stages."""
        scales = self.scales(types)
        rings = sum(
            _aligned(STAGE_BARRIER_BYTES * each, BOX_ALIGNMENT)
            for each in (self.accumulators, scales.stages if scales else 0)
        )
        rings += scales.ring_bytes if scales else 0
        answers = sum(_aligned(ANSWERS * each, BOX_ALIGNMENT) for each in (ANSWER_BYTES, STAGE_BARRIER_BYTES))
        staged = _aligned(self.staging_bytes(types), BOX_ALIGNMENT)
        return rings + staged + (answers if self.dynamic else 0) + _ADDRESS_BYTES

    @classmethod
    def chips(cls, types: Types) -> ChipSet:
        scaling = types.block_scaling
        kind = cls.kind(types)
        if types.d not in BYTES or (kind is None and scaling is None):
            return frozenset()
        if scaling:
            rows = [MMA_BLOCK_SCALE.table.get(tcgen05_scales.form(scaling, group)) for group in (1, 2)]
        else:
            rows = [MMA.table.get(Mma(kind or "", group)) for group in (1, 2)]
        return frozenset.intersection(*(row.chips if row else frozenset() for row in rows))

    @classmethod
    def layout_complaint(cls, types: Types) -> str | None:
        """Why `tcgen05.mma` can't read A and B as they are stored."""
        return tcgen05_scales.layout_complaint(types)

    def complaint(self, types: Types, target: Target | None = None) -> str | None:
        return (
            self.least_complaint()
            or self.count_complaint()
            or self._field_complaint()
            or self._instruction_complaint(types, target)
            or tcgen05_scales.complaint(self.block, self.cta_rows, types)
            or self._tensor_memory_complaint(types)
            or self._epilogue_complaint(types)
            or self._promoted_complaint(types)
            or self._split_complaint()
            or self._cluster_complaint(types)
            or self._group_complaint(types)
            or self._row_complaint(types)
            or self.layout_complaint(types)
            or self.shared_complaint(types, target)
        )

    def _field_complaint(self) -> str | None:
        """Why the fields alone aren't legal."""
        m, legal = self.block[0], [rows * self.cta_group for rows in CTA_ROWS]
        if self.cta_group not in (1, 2):
            return f"cta_group must be 1 or 2, got {self.cta_group}"
        if m not in legal:
            *most, last = map(str, legal)
            both = f"{', '.join(most)} or {last}"
            return f"block M must be {both} with cta_group {self.cta_group}, got {m}"
        if self.accumulators > MOST_ACCUMULATORS:
            return f"accumulators must be 1 or {MOST_ACCUMULATORS}, got {self.accumulators}"
        if self.epilogues not in (1, 2):
            return f"epilogues must be 1 or 2, got {self.epilogues}"
        return None

    def _instruction_complaint(self, types: Types, target: Target | None) -> str | None:
        """Why there is no such instruction."""
        if types.block_scaling is None and self.kind(types) is None:
            return f"A and B must be of types of one kind of tcgen05.mma, got {types.a} and {types.b}"
        verdict = self._verdict(types, target.chip.name if target else None)
        return None if verdict is None else f"schedule must have a legal instruction: tcgen05.mma {verdict}"

    def _tensor_memory_complaint(self, types: Types) -> str | None:
        """Why tensor memory can't hold the accumulators."""
        most = control.COLUMNS[-1]
        scales = self.scales(types)
        of_scales = scales.columns if scales else 0
        used = self.accumulators * self.parts * self.part_columns + of_scales - self.shared_columns(types)
        if used <= most:
            return None
        each = f"{self.accumulators} of {self.parts} x {self.part_columns}"
        each += f", and {of_scales} of scales" if of_scales else ""
        return f"accumulators must take at most {most} columns of tensor memory, got {used} ({each})"

    def _epilogue_complaint(self, types: Types) -> str | None:
        """Why the warpgroups of the epilogue can't share a tile."""
        n, unit = self.part_columns, 8 * (1 if self.parts > 1 else self.epilogues)
        if n % unit:
            with_ = f"with {self.epilogues} epilogues and cta_group {self.cta_group}"
            return f"columns of tensor memory must be a multiple of {unit} {with_}, got {n}"
        columns = self.slice_columns(types)
        if self.staged(types) and columns * types.output_bytes % tensor_map.ROW_BYTES:
            unit = unit * tensor_map.ROW_BYTES // (columns * types.output_bytes)
            return f"block N must be a multiple of {unit} for D of {types.d}, got {self.block[1]}"
        return None

    def _promoted_complaint(self, types: Types) -> str | None:
        """Why sums can't be promoted, or scaled."""
        if not types.promoted:
            return None
        if wrong := self.promoted_complaint(types):
            return wrong
        sums, most, beside = 4 * self.vectors, MOST_SUMS[self.epilogues], ""
        # With scales of columns of a tile, each sum has a factor of its own.
        if types.scale_columns or (types.scaled and self.swap):
            most, beside = min(most // 2, MOST_SWAPPED if self.swap else most), " with as many factors"
        if sums > most:
            registers = self.registers(types)[1] or register_share(self.threads)
            held = f"at most {most} promoted sums{beside} in its {registers} registers"
            return f"a thread of the epilogue must hold {held}, got {sums}"
        return None

    def _split_complaint(self) -> str | None:
        """Why CTAs can't share the K blocks of a tile, or get tiles while they run."""
        if self.global_splits > MOST_PARTIES:
            return f"global_splits must be in 1..{MOST_PARTIES}, got {self.global_splits}"
        if self.global_splits > 1 and self.parts > 1:
            most = LANES * self.cta_group
            return f"block M must be at most {most} with global_splits, got {self.block[0]}"
        if self.global_splits > 1 and self.epilogues > 1:
            return f"epilogues must be 1 with global_splits, got {self.epilogues}"
        if self.dynamic and self.global_splits > 1:
            return f"global_splits must be 1 with dynamic, got {self.global_splits}"
        return None

    def _cluster_complaint(self, types: Types) -> str | None:
        """Why the CTAs of a cluster can't share their copies."""
        if self.ctas not in (1, 2, 4, PORTABLE_CLUSTER):
            each = f"{self.cluster[0]} x {self.cluster[1]} of cta_group {self.cta_group}"
            return f"cluster must have 1, 2, 4 or {PORTABLE_CLUSTER} CTAs, got {self.ctas} ({each})"
        down, across = self.cluster
        mn_major, extents = self.swapped(*types.transposed), (self.cta_rows, self.cta_columns)
        for name, extent, ctas, is_mn_major in zip("MN", extents, (across, down), mn_major, strict=True):
            # Each CTA copies whole groups of rows of a swizzle, or whole panels.
            unit = 8 * WIDEST.width // types.input_bits if is_mn_major else GROUP
            if ctas > 1 and extent % (ctas * unit):
                what = f"a CTA's block {name} {extent}"
                return f"cluster must divide {what} in multiples of {unit}, got {ctas} tiles"
        return None

    def _group_complaint(self, types: Types) -> str | None:
        """Why the rows of D that a cluster computes may not be of one group."""
        if not types.grouped:
            return None
        if self.global_splits > 1 or self.dynamic:
            field = "dynamic must be false" if self.dynamic else "global_splits must be 1"
            return f"{field} with groups, got {self}"
        if self.cta_group > 1 and types.divides_k_blocks:
            return f"cta_group must be 1 with k_ends, got {self}"
        return self.cluster_group_complaint(types)

    def _row_complaint(self, types: Types) -> str | None:
        """Why a tile can't be stored in rows as wide as a swizzle, or copied in one box."""
        if wrong := self.k_complaint(types):
            return wrong
        mn_major = self.swapped(*types.transposed)
        # MN-major elements of 32 bits have one swizzle only.
        narrowest = 8 * (max if types.input_bits == 32 else min)(SWIZZLES) // types.input_bits
        for name, extent, transposed in zip("MN", (self.cta_rows, self.cta_columns), mn_major, strict=True):
            if transposed and extent % narrowest:
                what = f"a CTA's block {name} must be a multiple of {narrowest} for an MN-major operand"
                return f"{what}, got {extent}"
        return None

    def __str__(self) -> str:
        m, n, k = self.block
        text = f"block {m}x{n}x{k}, {self.accumulators} accumulators, {self.stages} stages"
        text += f", group {self.group}"
        text += f", {self.epilogues} epilogues" if self.epilogues > 1 else ""
        text += ", pairs" if self.cta_group == 2 else ""
        text += f", {self.global_splits} global splits" if self.global_splits > 1 else ""
        text += f", cluster {self.cluster[0]}x{self.cluster[1]}" if self.cluster != (1, 1) else ""
        return text + (", dynamic" if self.dynamic else "") + (", swapped" if self.swap else "")


def _aligned(bytes_: int, unit: int) -> int:
    return ceil_div(bytes_, unit) * unit
