"""The schedules of kernels that multiply with `mma.sync` what TMA copies: persistent CTAs in which one
warpgroup copies and the warps of the others multiply.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from weft.dialects.element_types import FP8_TYPES, NARROW_TYPES, PTX_INPUTS
from weft.dialects.product_types import BITS, BYTES, PROMOTED, Types, ceil_div
from weft.dialects.schedule import mma_sync
from weft.dialects.schedule.family import SWIZZLES, AnySchedule
from weft.dialects.schedule.mma_sync import STEP_BYTES
from weft.dialects.schedule.work import KINDS, Kernel, Kind
from weft.dialects.tile_limits import STAGE_BARRIER_BYTES
from weft.isa import block_scales, mma, tensor_map
from weft.isa.block_scales import BlockScaling
from weft.isa.chips import LANES, WARPGROUP, WARPS, ChipSet, register_share
from weft.isa.mma.matrix_moves import BYTES as BYTE_CHIPS
from weft.isa.register_counts import SETMAXNREG
from weft.isa.tensor_map import EXPANDED_ROW
from weft.isa.wgmma import MMA_ASYNC
from weft.target import Target

SCALED_ROWS = 32
"""Rows of A, or columns of B, of which a warp's register holds scales."""
UNIT_SCALE = "f8E8M0FNU"
"""The type of the scales of 1."""
_OTHER_REGISTERS = 40  # of a thread in addition to its sums and operands, as ptxas counts
_TRANSPOSING_REGISTERS = 12  # for an MN-major operand of 8 or 32 bits
_LANE_ROWS, _LANE_COLUMNS = 8, 4  # of which a lane has the sums of one
_FRAGMENTS = 2  # of each operand: one is loaded while the other is multiplied


def _scaled_form(types: Types, scaling: BlockScaling) -> mma.Scaled:
    """The instruction that multiplies A and B with block scales."""
    a, b, depth = PTX_INPUTS[types.a], PTX_INPUTS[types.b], STEP_BYTES * 8 // scaling.bits
    return mma.Scaled(f"m16n8k{depth}", scaling.kind, scaling.scale_vec, a, b, scaling.scale)


def _takes_unit_scales(types: Types) -> bool:
    """Whether A and B are floats of at most 8 bits, without scales, and sums are of f32."""
    return {types.a, types.b} <= set(NARROW_TYPES) and not types.scale and not types.half_sums


def _transposing_registers(types: Types, target: Target | None) -> int:
    """Registers of a thread for MN-major operands, as ptxas counts: none with 16 bits, nor for one operand of
    8 bits where ldmatrix transposes bytes.
    """
    mn_major = sum(types.transposed)
    if types.input_bits == 16:
        return 0
    if types.input_bits == 8 and (target is None or target.chip.name in BYTE_CHIPS):
        mn_major //= 2
    return _TRANSPOSING_REGISTERS * mn_major


@dataclass(frozen=True)
class TmaMmaSchedule(AnySchedule):
    """A schedule for `mma.sync` with copies by TMA: `schedule = {block = array<i64: 128, 128, 64>,
    consumers = array<i64: 4, 2>, stages = 3, group = 8}`.

    A CTA computes one tile of `block` (M, N, K) after the other. One warpgroup copies K blocks by TMA into a
    ring of `stages`; `consumers` warps along M and along N multiply, four or eight in all. Tiles are computed
    in groups of `group` rows of tiles. With `unit_scales`, products of floats of 8 bits and less without
    scales are block-scaled with scales of 1: many chips multiply these at twice the rate of plain fp8.
    """

    block: tuple[int, int, int]
    consumers: tuple[int, int]
    stages: int
    group: int = 8
    unit_scales: bool = False

    counts: ClassVar[dict[str, int]] = {"block": 3, "consumers": 2}
    instruction: ClassVar[str] = "mma.sync with TMA"
    family: ClassVar[str] = "mma"
    key: ClassVar[str] = "consumers"
    starts_early: ClassVar[bool] = True

    @property
    def warps(self) -> int:
        """Warps that multiply."""
        return self.consumers[0] * self.consumers[1]

    @property
    def warpgroups(self) -> int:
        """Warpgroups that multiply."""
        return self.warps // WARPS

    @property
    def threads(self) -> int:
        """Threads of a CTA: those that copy, and those that multiply."""
        return WARPGROUP * (1 + self.warpgroups)

    @property
    def registers(self) -> tuple[int, int]:
        """Registers of a thread that copies, and of one that multiplies. With a single warpgroup that
        multiplies, both keep the registers of the launch (0).
        """
        return {1: (0, 0), 2: (40, 232)}[self.warpgroups]

    @property
    def warp_tile(self) -> tuple[int, int]:
        """Rows and columns of a tile that one warp computes."""
        return self.block[0] // self.consumers[0], self.block[1] // self.consumers[1]

    @property
    def resident_ctas(self) -> int:
        return 1

    def row_alignment(self, types: Types, operand: str, element_bytes: int) -> int:
        """16 bytes where TMA copies an operand; otherwise one element."""
        return tensor_map.ROW_BYTES if operand in ("a", "b") else 1

    def scaling(self, types: Types) -> BlockScaling | None:
        """How tensor cores multiply with block scales, those of the product or scales of 1."""
        if self.unit_scales and _takes_unit_scales(types):
            return replace(types, scale=UNIT_SCALE, a=FP8_TYPES[0], b=FP8_TYPES[0]).block_scaling
        return types.block_scaling

    def form(self, types: Types) -> mma.Sync | mma.Scaled:
        """The instruction that multiplies."""
        scaling = self.scaling(types)
        return _scaled_form(types, scaling) if scaling else mma_sync.form(types)

    def scale_tiles(self, types: Types, extent: int) -> tuple[int, int]:
        """The tiles of scales (`weft.isa.block_scales`) that a stage has, along `extent` rows and along K."""
        scaling = types.block_scaling
        if scaling is None:
            return 0, 0
        return ceil_div(extent, block_scales.ROWS), self.block[2] // (scaling.group * block_scales.GROUPS)

    def _scale_bytes(self, types: Types) -> int:
        """Bytes of a stage's scales."""
        tiles = (self.scale_tiles(types, extent) for extent in self.block[:2])
        return sum(down * deep for down, deep in tiles) * block_scales.TILE_BYTES

    def stage_bytes(self, types: Types) -> int:
        return super().stage_bytes(types) + self._scale_bytes(types)

    def copied_bytes(self, types: Types) -> int:
        """Bytes that copies bring into a stage. They count elements of 4 and 6 bits as packed ones."""
        m, n, k = self.block
        return (m * BITS[types.a] + n * BITS[types.b]) * k // 8 + self._scale_bytes(types)

    def shared_bytes(self, types: Types) -> int:
        """Shared memory of all stages and their barriers."""
        return self.stages * (self.stage_bytes(types) + STAGE_BARRIER_BYTES)

    def most_stages(self, types: Types, shared_bytes: int) -> int:
        """The most stages in that much shared memory."""
        return shared_bytes // (self.stage_bytes(types) + STAGE_BARRIER_BYTES)

    def element_kind(self, types: Types) -> Kind:
        """With scales of 1, elements are multiplied at the rate of mxfp8, without scales to copy."""
        kind = super().element_kind(types)
        return replace(KINDS["mxfp8"], bits=kind.bits, group=0) if self.unit_scales else kind

    def kernel(self, types: Types, chip: str | None = None) -> Kernel:
        """What the kernel does: persistent CTAs, whose warps share tiles."""
        return self._kernel(types, warps=self.consumers)

    def k_step(self, types: Types, chip: str) -> tuple[object, ...]:
        """The whole instruction: with `unit_scales` it's another one."""
        return (self.form(types),)

    @classmethod
    def chips(cls, types: Types) -> ChipSet:
        """The chips for which these schedules are chosen: those without `tcgen05`, and of those with `wgmma`
        for operands that this can't read. A product may name such a schedule on every chip with TMA and
        `setmaxnreg`.
        """
        if not {types.a, types.b} <= set(PTX_INPUTS) or types.d not in BYTES:
            return frozenset()
        if types.words or types.a == "f64":
            return frozenset()
        sync = None if types.scale else mma.SYNC.table.get(mma_sync.form(types))
        scaling = cls((64, 64, 64), (2, 2), 2, unit_scales=True).scaling(types)
        row = mma.SCALED.table.get(_scaled_form(types, scaling)) if scaling else sync
        fastest = row.chips & mma.SCALED.chips() if row else frozenset[str]()
        beside_wgmma = sync.chips & MMA_ASYNC.chips() if sync else frozenset[str]()
        return (fastest | beside_wgmma) & SETMAXNREG

    @classmethod
    def layout_complaint(cls, types: Types) -> str | None:
        """Why fragments can't be loaded from A and B as they are stored."""
        sides = zip("AB", ("transpose_a = false", "transpose_b = true"), (types.a, types.b), strict=True)
        for (name, legal, element), mn_major in zip(sides, types.transposed, strict=True):
            if mn_major and BITS[element] < 8:
                return f"{name} must be K-major ({legal}), as ldmatrix expands {element}, got an MN-major one"
        return None

    def complaint(self, types: Types, target: Target | None = None) -> str | None:
        return (
            self.least_complaint()
            or self._types_complaint(types, target)
            or self.count_complaint()
            or self._warp_complaint(types, target)
            or self.layout_complaint(types)
            or self._row_complaint(types)
            or self._promotion_complaint(types)
            or self.group_complaint(types)
            or self.shared_complaint(types, target)
        )

    def _types_complaint(self, types: Types, target: Target | None) -> str | None:
        """Why there is no such instruction."""
        if types.a == "f64" or types.packs_integers:
            return (
                f"{types.a} needs a schedule of mma.sync without TMA (warps), got one of {self.instruction}"
            )
        if types.words:
            what = f"scales must be in the 128x4 layout with a schedule of {self.instruction}"
            return f"{what}, got words of i32: weft.tiled_scales converts them"
        if self.unit_scales and not _takes_unit_scales(types):
            what = f"scales of {types.scale}" if types.scale else f"A of {types.a}"
            return f"unit_scales must be false unless A and B are fp8, fp6 or fp4 without scales, got {what}"
        if types.has_packed_inputs and not types.scale and not self.unit_scales:
            return f"unit_scales must be true for elements of 4 and 6 bits without scales, got A of {types.a}"
        chip, form = target.chip.name if target else None, self.form(types)
        verdict = mma.SCALED.judge(form, chip) if isinstance(form, mma.Scaled) else mma.SYNC.judge(form, chip)
        if verdict is not None:
            return f"schedule must have a legal instruction: mma.sync {verdict}"
        if target and target.chip.name not in SETMAXNREG:
            return f"a schedule of {self.instruction} needs a chip with TMA and setmaxnreg, got {target}"
        return None

    def _warp_complaint(self, types: Types, target: Target | None) -> str | None:
        """Why warps can't share a tile."""
        (m, n, _), (down, across) = self.block, self.consumers
        rows, columns, _ = self.form(types).mnk
        if self.warps not in (WARPS, 2 * WARPS):
            return f"consumers must be {WARPS} or {2 * WARPS} warps, got {down} x {across}"
        if m % (down * rows) or n % (across * 2 * columns):
            return (
                f"consumers must divide block M {m} in multiples of {rows} and block N {n} in multiples of "
                f"{2 * columns}, got {down} x {across}"
            )
        height, width = self.warp_tile
        if self.scaling(types) and (height % SCALED_ROWS or width % SCALED_ROWS):
            wanted = f"multiples of {SCALED_ROWS} with scales"
            return f"a warp's rows and columns must be {wanted}, got {height} x {width}"
        inputs = _FRAGMENTS * (height + width) * STEP_BYTES // (4 * LANES)
        sums = height * width // LANES * (2 if types.promoted else 1)
        needed = sums + inputs + self._scale_registers(types) + _OTHER_REGISTERS
        needed += _transposing_registers(types, target)
        if needed > (most := self.registers[1] or register_share(self.threads)):
            what = f"{height} x {width} {'promoted ' if types.promoted else ''}sums"
            return f"a thread must need at most {most} registers, got {needed} for a warp's {what}"
        return None

    def _scale_registers(self, types: Types) -> int:
        """Registers of a thread for the float32 scales of the next K block."""
        if not types.scaled:
            return 0
        rows, columns = self.warp_tile
        return rows // _LANE_ROWS + (columns // _LANE_COLUMNS if types.scale_columns else 1)

    def _promotion_complaint(self, types: Types) -> str | None:
        """Why sums can't be promoted, or scaled."""
        if wrong := self.promoted_complaint(types):
            return wrong
        columns = self.warp_tile[1]
        if types.scaled and not types.scale_columns and PROMOTED % columns:
            return f"columns of a warp must divide {PROMOTED}, which share a scale, got {columns}"
        return None

    def _row_complaint(self, types: Types) -> str | None:
        """Why tiles can't be stored in rows as wide as a swizzle."""
        if wrong := self.k_complaint(types):
            return wrong
        k = f"{self.block[2]} of {types.a}"
        if types.has_packed_inputs and types.input_bits == 8 and self.block[2] % EXPANDED_ROW:
            return f"block K must be a multiple of {EXPANDED_ROW}, which TMA expands at once, got {k}"
        if scaling := types.block_scaling:
            deep = scaling.group * block_scales.GROUPS
            if self.block[2] % deep:
                return f"block K must be a multiple of {deep}, which a tile of scales is for, got {k}"
            for name, extent in zip("MN", self.block, strict=False):
                if extent % block_scales.ROWS and block_scales.ROWS % extent:
                    rows = f"{block_scales.ROWS} or be a multiple of it, as tiles of scales have so many rows"
                    return f"block {name} must divide {rows}, got {extent}"
        for name, extent, mn_major in zip("MN", self.block, types.transposed, strict=False):
            if mn_major and extent * types.input_bytes % min(SWIZZLES):
                unit = min(SWIZZLES) // types.input_bytes
                return f"block {name} must be a multiple of {unit} for an MN-major operand, got {extent}"
        return None

    def __str__(self) -> str:
        m, n, k = self.block
        consumers = f"{self.consumers[0]}x{self.consumers[1]}"
        text = f"block {m}x{n}x{k}, consumers {consumers}, {self.stages} stages, group {self.group}"
        return text + (", unit scales" if self.unit_scales else "")
