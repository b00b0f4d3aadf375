"""The schedules of kernels that multiply with `wgmma`: persistent CTAs in which one warpgroup copies and the
others multiply.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any, ClassVar

from weft.dialects.element_types import PTX_INPUTS
from weft.dialects.product_types import BYTES, PROMOTED, Types, ceil_div
from weft.dialects.schedule.attribute import LEFT_OUT
from weft.dialects.schedule.family import SWIZZLES, AnySchedule, Workspace
from weft.dialects.schedule.staging import Staging
from weft.dialects.schedule.work import Kernel
from weft.dialects.tile_limits import COUNTER_STRIDE, MOST_PARTIES, STAGE_BARRIER_BYTES
from weft.isa import tensor_map, wgmma
from weft.isa.chips import LINE_BYTES, MOST_SHARED_BYTES, WARPGROUP, WARPS, ChipSet, register_share
from weft.isa.launch_limits import PORTABLE_CLUSTER
from weft.isa.tensor_map import BOX_ALIGNMENT, SWIZZLED_ROWS
from weft.isa.types import ELEMENT_TYPES
from weft.target import Target

MOST_RUNS = MOST_PARTIES - 1
"""CTAs for each tile that stream_k divides: one more may have a part of it."""
OTHER_REGISTERS = 32
"""Registers of a thread in addition to its sums, as ptxas counts."""
_UNEQUAL_REGISTERS = 26
"""The same with an equal share of the registers, in addition to one instruction's sums."""
_SWAPPED_REGISTERS = 8
"""The same in the epilogue of swapped tiles, beside what it loads and stores."""
_MOST_ADDED = 96
"""Sums of K slices that a thread loads before it adds them, with enough registers."""
_MOST_LOADERS = 3
_ROUND = 8  # columns of vectors that take as long to add up as the latency of a piece


@dataclass(frozen=True)
class WarpgroupSchedule(AnySchedule):
    """A schedule for `wgmma`: `schedule = {block = array<i64: 128, 256, 64>, warpgroups = 2, stages = 3,
    group = 8, splits = 1, swap = false}`.

    A CTA computes one tile of `block` (M, N, K) after the other. One warpgroup copies K blocks by TMA into a
    ring of `stages`; `warpgroups` others multiply, each some of the rows. Tiles are computed in groups of
    `group` rows of tiles. With `swap`, the rows of a tile are columns of D, for products of few rows.

    The CTAs of a cluster of `splits` compute one tile, each a K slice, and add their sums in shared memory;
    `global_splits` CTAs or clusters do the same through global memory. With `stream_k`, all CTAs divide the K
    blocks of the last wave's tiles evenly. A `cluster` of CTAs along rows and columns of tiles shares its
    copies by multicast.

    With `loaders`, so many warpgroups load A and B, whose rows may then begin at any element, in place of the
    one that copies by TMA. With `copies_a`, they load B alone, and TMA copies A.

    If it is `skewed`, TMA copies K-major A and B that may begin at any element: both must begin at the same
    distance from a multiple of 16 bytes, and their rows must be multiples of 16 bytes apart.

    If it is `joined`, TMA copies eight rows of an MN-major A with up to eight columns (M) at a time; K must
    be a multiple of eight.

    If they are `alternating`, the warpgroups that multiply compute whole tiles in turns: one writes its tile
    while another one multiplies.
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
    loaders: int = 0
    skewed: bool = field(default=False, metadata=LEFT_OUT)
    copies_a: bool = field(default=False, metadata=LEFT_OUT)
    joined: bool = field(default=False, metadata=LEFT_OUT)
    alternating: bool = field(default=False, metadata=LEFT_OUT)

    counts: ClassVar[dict[str, int]] = {"block": 3, "cluster": 2}
    instruction: ClassVar[str] = "wgmma"
    family: ClassVar[str] = "wgmma"
    key: ClassVar[str] = "warpgroups"
    starts_early: ClassVar[bool] = True

    @property
    def threads(self) -> int:
        """Threads of a CTA: the warpgroups that multiply, and those that copy."""
        return WARPGROUP * (self.warpgroups + self.producers)

    @property
    def producers(self) -> int:
        """Warpgroups that copy."""
        return self.loaders or 1

    @property
    def registers(self) -> tuple[int, int]:
        """Registers of a thread that copies, and of one that multiplies: together they fill the
        multiprocessor. A single warpgroup that multiplies keeps the registers of the launch (0), and so do
        all beside loaders.
        """
        if self.loaders:
            return 0, 0
        return {1: (0, 0), 2: (40, 232), 3: (32, 160)}[self.warpgroups]

    @property
    def registers_beside_sums(self) -> int:
        """Registers of a thread that multiplies, without those of its sums."""
        return (self.registers[1] or register_share(self.threads)) - self.rows * self.block[1] // WARPGROUP

    def has_room(self, registers: int) -> bool:
        others = _SWAPPED_REGISTERS if self.swap else OTHER_REGISTERS
        return registers <= self.registers_beside_sums - others

    @property
    def rows(self) -> int:
        """Rows of a tile that one warpgroup computes."""
        return self.block[0] // self.sharers

    @property
    def sharers(self) -> int:
        """Warpgroups that multiply the same tile."""
        return 1 if self.alternating else self.warpgroups

    def products(self, types: Types) -> int:
        """Instructions whose sums a warpgroup holds in addition to the promoted ones: two where its registers
        suffice, so that one is in flight while the other's sums are added.
        """
        if not types.promoted:
            return 0
        n = self.block[1]
        of_a, of_b = (n // 4, 1) if self.swap else (2, n // gcd(n, PROMOTED))  # a thread's scales
        if types.scale_columns:
            of_a, of_b = 2, n // 4
        needed = 3 * wgmma.M * n // WARPGROUP + (of_a * of_b if types.scaled else 0) + OTHER_REGISTERS
        # ptxas spills rather than use more than an equal share, whatever registers the role has.
        return 2 if self.rows == wgmma.M and needed <= register_share(self.threads) else 1

    @property
    def overlaps(self) -> bool:
        """Whether a warpgroup leaves a K block's products in flight while it starts the next one's."""
        return self.sharers == 1

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

    def same_results(self, other: AnySchedule) -> bool:
        """Tensor cores add the products of an element in the order of K, in tiles of any size. So only the K
        slices, and how D is written, must be the same.
        """
        if not isinstance(other, WarpgroupSchedule) or self.stream_k or other.stream_k:
            return False
        if self.loaders or other.loaders:  # the model doesn't know their time
            return self == other
        same = (self.joined, self.swap) == (other.joined, other.swap)
        return same and self.k_division == other.k_division

    def k_step(self, types: Types, chip: str) -> tuple[object, ...]:
        return (wgmma.depth(ELEMENT_TYPES[PTX_INPUTS[types.a]]),)

    @property
    def tile_ctas(self) -> int:
        return MOST_RUNS if self.stream_k else self.splits * self.global_splits

    @property
    def resident_ctas(self) -> int:
        return 0 if self.splits > 1 else 1

    def kernel(self, types: Types, chip: str | None = None) -> Kernel:
        """What the kernel does: an instruction multiplies 64 rows of a tile."""
        return self._kernel(types, parts=self.block[0] // wgmma.M, cluster_splits=self.splits)

    def row_alignment(self, types: Types, operand: str, element_bytes: int) -> int:
        """16 bytes where TMA alone copies an operand from its first element on; otherwise one element."""
        if self.skewed or (self.loaders and not (self.copies_a and operand == "a")):
            return 1
        of_columns = operand == "scale_b" and types.scale_columns
        return tensor_map.ROW_BYTES if of_columns or operand in ("a", "b", "scale_a") else 1

    def form(self, types: Types) -> wgmma.MmaAsync:
        """The instruction that multiplies."""
        a, b = self.swapped(PTX_INPUTS[types.a], PTX_INPUTS[types.b])
        depth = wgmma.depth(ELEMENT_TYPES[a])
        return wgmma.MmaAsync(f"m{wgmma.M}n{self.block[1]}k{depth}", a, b, types.ptx_sums)

    def stored(self, types: Types) -> tuple[int, int]:
        """Rows and columns of a tile's operands as a stage holds them. An MN-major operand has whole panels
        of 128 bytes, or a narrower one: TMA copies a row of any panel in the same time.
        """
        m, n, _ = self.block
        is_mn_major = types.transposed[0 if self.swap else 1]
        if not is_mn_major or self.loaders or self.joined:
            return m, n
        widths = [width // types.input_bytes for width in SWIZZLES]
        narrow = [width for width in widths if width >= n]
        return m, min(narrow, default=ceil_div(n, max(widths)) * max(widths))

    def stage_bytes(self, types: Types) -> int:
        """Shared memory of one stage; with loaders, also of the aligned vectors that contain its rows."""
        scales = 4 * sum(map(self.padded_scales, self._scales(types)))
        tiles = super().stage_bytes(types)
        return tiles + scales + self._unshifted_bytes(types)

    def _unshifted_bytes(self, types: Types) -> int:
        """Of what loaders bring into a stage as it is in memory, with a vector more for each row."""
        if not self.loaders:
            return 0
        *extents, k = self.block
        of_a, of_b = zip(self.swapped(*extents), types.transposed, strict=True)
        total = 0
        for extent, mn_major in (of_b,) if self.copies_a else (of_a, of_b):
            rows, columns = (k, extent) if mn_major else (extent, k)
            total += rows * (columns * types.input_bytes + tensor_map.ROW_BYTES)
        return total + STAGE_BARRIER_BYTES * self.copies_a  # of a ring of their own

    def copied_bytes(self, types: Types) -> int:
        """Bytes that copies bring into a stage: all, except the padding of rows of scales."""
        unused = sum(self.padded_scales(extent) - extent for extent in self._scales(types))
        return self.stage_bytes(types) - 4 * unused

    def _scales(self, types: Types) -> list[int]:
        """The rows of scales in a stage: of a tile's rows of A, and where they have some its columns of B."""
        rows, columns = self.swapped(*self.block[:2])
        return [rows, columns][: types.scaled + (types.scaled and types.scale_columns)]

    @staticmethod
    def padded_scales(extent: int) -> int:
        """So many scales, padded to 128 bytes for TMA."""
        return ceil_div(extent, 32) * 32

    def staging(self, types: Types) -> Staging:
        """How a tile of D is staged beside the stages."""
        room = MOST_SHARED_BYTES - self.stages * self.stage_bytes(types) - self.barrier_bytes
        width = LINE_BYTES // types.output_bytes
        unit = 8 if self.swap else min(SWIZZLES) // types.output_bytes  # rows of a fragment, or a panel
        column = self.warpgroups // self.sharers * self.block[0] * types.output_bytes * self.staged(types)
        whole, strip = self.block[1] * column, width * column
        divides = self.block[1] > width and self.block[1] % unit == 0
        measured = types.input_bytes == types.output_bytes == 2 and not (self.swap or self.alternating)
        return Staging(whole, room, self.block[1], unit, strip if divides and measured else 0, width)

    def staging_parts(self, types: Types) -> int:
        """In how many parts a tile of D is staged, one after the other: few enough for the stages."""
        return int(self.staging(types).parts)

    @property
    def sums_stride(self) -> int:
        """With splits, the distance of two rows of D in shared memory, in sums: chosen so that a warp's
        stores of a fragment access all banks.
        """
        return self.block[0] + 4 if self.swap else self.block[1] + 8

    @property
    def sums_bytes(self) -> int:
        """Shared memory of the sums that splits add, which overlaps the stages."""
        if self.splits == 1:
            return 0
        return self.rows_of_d * self.sums_stride * 4

    def staged(self, types: Types) -> bool:
        """Whether tiles of D are staged in shared memory: those of elements of 16 bits (stmatrix) and 8."""
        return types.output_bytes <= 2 and self.splits == self.global_splits == 1

    @property
    def vectors(self) -> int:
        """Vectors of four sums that a thread has of a tile."""
        return self.rows * self.block[1] // (4 * WARPGROUP)

    @property
    def dealt(self) -> tuple[int, int]:
        """With global splits, how CTAs add up sums, as `added_pieces` returns it."""
        return added_pieces(self.block[1] // 8, self.vectors, self.global_splits, self.added_at_once)

    @property
    def added_at_once(self) -> int:
        """The most sums of K slices that a thread loads before it adds them."""
        registers = self.registers[1] or register_share(self.threads)
        return min((registers - OTHER_REGISTERS) // 2, _MOST_ADDED)

    def shared_bytes(self, types: Types) -> int:
        """Shared memory of all stages, their barriers and the staged D."""
        taken = max(self.stages * self.stage_bytes(types), self.sums_bytes)
        return taken + self.barrier_bytes + int(self.staging(types).bytes)

    @property
    def barrier_bytes(self) -> int:
        """Shared memory of the barriers of stages, and of turns."""
        return int(barrier_bytes(self.stages, self.warpgroups if self.alternating else 0))

    def most_stages(self, types: Types, shared_bytes: int, parts: int = 1, slots: int = 0) -> int:
        """The most stages in that much shared memory, in addition to the staged D, one of its equal `parts`,
        or so many `slots` for strips.
        """
        return self.fitting(types)(shared_bytes, parts, slots)

    def fitting(self, types: Types) -> Callable[[int, int, int], int]:
        """`most_stages` for these types, of which a caller asks for several numbers."""
        staging, each = self.staging(types), self.stage_bytes(types) + STAGE_BARRIER_BYTES
        turns = int(barrier_bytes(1, self.warpgroups)) if self.alternating else 0

        def most(shared_bytes: int, parts: int = 1, slots: int = 0) -> int:
            staged = int(slots * staging.strip or staging.whole // parts)
            return (shared_bytes - staged - turns) // each

        return most

    @classmethod
    def chips(cls, types: Types) -> ChipSet:
        if not {types.a, types.b} <= set(PTX_INPUTS) or types.d not in BYTES or types.scale:
            return frozenset()
        row = wgmma.MMA_ASYNC.table.get(cls((64, 64, 64), 1, 2).form(types))
        return row.chips if row else frozenset()

    @classmethod
    def layout_complaint(cls, types: Types) -> str | None:
        """Why `wgmma` can't read A and B as they are stored."""
        if types.input_bits == 16 or not any(types.transposed):
            return None
        name, legal = ("A", "transpose_a = false") if types.transposed[0] else ("B", "transpose_b = true")
        return f"{name} must be K-major ({legal}), as wgmma reads {types.a}, got an MN-major one"

    def complaint(self, types: Types, target: Target | None = None) -> str | None:
        return (
            self.least_complaint(but="" if self.loaders else "loaders")  # which may be 0
            or self._loader_complaint(types)
            or self._skew_complaint(types)
            or self._joined_complaint(types)
            or self._instruction_complaint(types, target)
            or self.count_complaint()
            or self._register_complaint(types)
            or self._scale_complaint(types)
            or self._split_complaint()
            or self._turns_complaint(types)
            or self._cluster_complaint(types)
            or self._group_complaint(types)
            or self.layout_complaint(types)
            or self._panel_complaint(types)
            or self.k_complaint(types)
            or self.shared_complaint(types, target)
        )

    def _loader_complaint(self, types: Types) -> str | None:
        """Why threads can't load A and B."""
        if self.loaders == 0:
            return "loaders must be at least 1 with copies_a, got 0" if self.copies_a else None
        if self.loaders > _MOST_LOADERS:
            return f"loaders must be in 0..{_MOST_LOADERS}, got {self.loaders}"
        excluded = {
            "promoted sums": types.promoted,
            "groups": types.grouped,
            "stream_k": self.stream_k,
            "a cluster that shares copies": self.cluster != (1, 1),
        }
        if what := next((what for what, has in excluded.items() if has), None):
            return f"loaders must be 0 with {what}, got {self.loaders}"
        if self.stages < 2 * self.loaders or self.stages % self.loaders:
            least = max(ceil_div(self.stages, self.loaders), 2) * self.loaders
            return f"stages must be a multiple of loaders {self.loaders}, at least {least}, got {self.stages}"
        return None

    def _skew_complaint(self, types: Types) -> str | None:
        """Why TMA can't copy matrices that begin at any element."""
        excluded = {
            "loaders": self.loaders > 0,
            "stream_k": self.stream_k,
            "groups": types.grouped,
            f"elements of {types.a}": types.input_bits != 16,
            "MN-major operands": any(types.transposed),
        }
        return _excluded("skewed", excluded) if self.skewed else None

    def _joined_complaint(self, types: Types) -> str | None:
        """Why TMA can't copy several rows of A at a time."""
        columns = 8 * tensor_map.ROW_BYTES // types.input_bits
        excluded = {
            "a K-major A": not types.transposed[0],
            f"elements of {types.a}": types.input_bits != 16,
            "loaders": self.loaders > 0,
            "groups": types.grouped,
            f"tiles of more than {columns} rows of A": not self.swap or self.block[1] != columns,
        }
        return _excluded("joined", excluded) if self.joined else None

    def _turns_complaint(self, types: Types) -> str | None:
        """Why warpgroups can't compute tiles in turns."""
        excluded = {
            "warpgroups = 1": self.warpgroups == 1,
            "splits": self.splits * self.global_splits > 1,
            "stream_k": self.stream_k,
            "loaders": self.loaders > 0,
            "skewed": self.skewed,
            "groups": types.grouped,
            "promoted sums": types.promoted,
        }
        return _excluded("alternating", excluded) if self.alternating else None

    def _instruction_complaint(self, types: Types, target: Target | None) -> str | None:
        """Why there is no such instruction."""
        if types.scale:
            return f"scales of {types.scale} need a schedule of tcgen05, got one of wgmma"
        if types.packs_integers:
            return f"{types.a} needs a schedule of mma.sync (warps), got one of wgmma"
        verdict = wgmma.MMA_ASYNC.judge(self.form(types), target.chip.name if target else None)
        if verdict is None:
            return None
        if verdict.rule == "shape":
            legal = (columns for columns in wgmma.COLUMNS if self._has_columns(columns, types))
            near = sorted(legal, key=lambda columns: abs(columns - self.block[1]))[:2]
            verdict = replace(verdict, nearest=tuple(self._with(c).form(types).ptx for c in sorted(near)))
        return f"schedule must have a legal instruction: wgmma.mma_async {verdict}"

    def _register_complaint(self, types: Types) -> str | None:
        """Why warpgroups can't hold the sums of their rows."""
        m, n, _ = self.block
        if self.warpgroups > 3 or m % (self.sharers * wgmma.M):
            return (
                f"warpgroups must be in 1..3 and divide block M {m} in multiples of {wgmma.M}, "
                f"got {self.warpgroups}"
            )
        each = self.registers[1] or register_share(self.threads)
        # Promoted sums need registers in addition to those of the instructions in flight.
        beside = wgmma.M * self.products(types)
        factors = self.rows if types.scale_columns else 0  # each sum has one of its own
        if (most := (each - OTHER_REGISTERS) * WARPGROUP) < (self.rows + beside + factors) * n:
            both = f" and {beside} x {n} in flight" if beside else ""
            both += f" with {factors} x {n} factors" if factors else ""
            return (
                f"a warpgroup must hold at most {most} sums, as its threads have {each} registers, "
                f"got {self.rows} x {n}{both}"
            )
        if n // 2 > (most := register_share(self.threads) - _UNEQUAL_REGISTERS):
            fits = (columns for columns in reversed(wgmma.COLUMNS) if columns // 2 <= most)
            fitting = next(columns for columns in fits if self._has_columns(columns, types))
            return (
                f"block N must be at most {fitting} with {self.warpgroups} warpgroups, as one instruction's "
                f"sums must fit an equal share of the registers, got {n}"
            )
        return None

    def _scale_complaint(self, types: Types) -> str | None:
        """Why sums can't be promoted, or scaled."""
        if wrong := self.promoted_complaint(types):
            return wrong
        for name, extent in zip(("rows", "columns"), self._scales(types), strict=False):
            if extent > (most := tensor_map.MOST_BOX):
                return (
                    f"a tile must have at most {most} {name} of D, whose scales one copy brings, got {extent}"
                )
        return None

    def _split_complaint(self) -> str | None:
        """Why CTAs can't share the K blocks of a tile."""
        n = self.block[1]
        if self.splits > PORTABLE_CLUSTER or self.splits & (self.splits - 1) or n % (8 * self.splits):
            legal = f"1, 2, 4 or {PORTABLE_CLUSTER} and divide block N {n} in multiples of 8"
            return f"splits must be {legal}, got {self.splits}"
        if self.global_splits > MOST_PARTIES or (self.splits > 1 and self.global_splits > 1):
            return (
                f"global_splits must be in 1..{MOST_PARTIES}, and splits must be 1 where global_splits > 1, "
                f"got {self.global_splits} and {self.splits}"
            )
        if self.stream_k and (self.ctas > 1 or self.global_splits > 1):
            return f"splits, global_splits and cluster must be 1 with stream_k, got {self}"
        return None

    def _cluster_complaint(self, types: Types) -> str | None:
        """Why the CTAs of a cluster can't share their copies."""
        down, across = self.cluster
        if (down, across) == (1, 1):
            return None
        if min(down, across) < 1 or self.splits > 1 or down * across not in (2, 4, 8):
            both = f"{down} x {across} and {self.splits}"
            return f"cluster must have 2, 4 or 8 CTAs, and splits must be 1 with a cluster, got {both}"
        mn_major = self.swapped(*types.transposed)
        extents = zip("MN", self.block, self.stored(types), (across, down), mn_major, strict=False)
        for name, extent, stored, ctas, is_mn_major in extents:
            # Each CTA copies whole groups of rows of a swizzle: all columns of some, or whole panels.
            unit, k = (128 // types.input_bytes, self.block[2]) if is_mn_major else (SWIZZLED_ROWS, 0)
            if stored % (ctas * unit) == 0 or (k and k % (ctas * SWIZZLED_ROWS) == 0):
                continue
            block = f"block {name} {extent}" + (f", stored as {stored}," if stored != extent else "")
            other = f" or block K {k} in multiples of {SWIZZLED_ROWS}" if k else ""
            return f"cluster must divide {block} in multiples of {unit}{other}, got {ctas} CTAs"
        return None

    def _group_complaint(self, types: Types) -> str | None:
        """Why the rows of D that a cluster computes may not be of one group."""
        if not types.grouped:
            return None
        for name in ("splits", "global_splits"):
            if (count := getattr(self, name)) > 1:
                return f"{name} must be 1 with groups, got {count}"
        if self.stream_k:
            return "stream_k must be false with groups, got true"
        return self.cluster_group_complaint(types)

    def _with(self, columns: int) -> "WarpgroupSchedule":
        """This schedule with another block N."""
        return replace(self, block=(self.block[0], columns, self.block[2]))

    def _has_columns(self, columns: int, types: Types) -> bool:
        """Whether a block N has an instruction, and panels."""
        s = self._with(columns)
        return s.form(types) in wgmma.MMA_ASYNC.table and not s._panel_complaint(types)

    def _panel_complaint(self, types: Types) -> str | None:
        """Why a tile with rows of block N elements, of an operand or of D, can't be stored in panels."""
        n = self.block[1]
        mn_major = types.transposed[0 if self.swap else 1]
        for what, bytes_, has in (
            ("an MN-major operand that threads load", types.input_bytes, mn_major and self.loaders > 0),
            ("a D that TMA writes", types.output_bytes, self.staged(types) and not self.swap),
        ):
            if has and n * bytes_ % min(SWIZZLES):
                unit = min(SWIZZLES) // bytes_
                return f"block N must be a multiple of {unit} for {what}, got {n}"
        return None

    def __str__(self) -> str:
        m, n, k = self.block
        text = f"block {m}x{n}x{k}, {self.warpgroups} warpgroups, {self.stages} stages, group {self.group}"
        text += f", {self.splits} splits" if self.splits > 1 else ""
        text += f", {self.global_splits} global splits" if self.global_splits > 1 else ""
        text += ", stream-K" if self.stream_k else ""
        text += f", {self.loaders} loaders" if self.loaders else ""
        text += " of B" if self.copies_a else ""
        text += ", skewed" if self.skewed else ""
        text += ", joined" if self.joined else ""
        text += ", alternating" if self.alternating else ""
        text += f", cluster {self.cluster[0]}x{self.cluster[1]}" if self.ctas > self.splits else ""
        return text + (", swapped" if self.swap else "")


def _excluded(name: str, excluded: Mapping[str, bool]) -> str | None:
    """Why a flag can't be set: the first of what it can't be combined with that is there."""
    what = next((what for what, has in excluded.items() if has), None)
    return what and f"{name} must be false with {what}"


def barrier_bytes(stages: Any, turns: Any) -> Any:
    """Shared memory of the barriers of so many stages, and of turns. Of numbers, or of arrays of them."""
    before = stages * STAGE_BARRIER_BYTES
    return before + (turns > 0) * (-before % BOX_ALIGNMENT + turns * STAGE_BARRIER_BYTES)


def added_pieces(across: int, vectors: int, slices: int, most: int) -> tuple[int, int]:
    """The columns of vectors in a piece, and how many CTAs add up pieces: they deal those of a tile among
    themselves. A thread holds `vectors` vectors of four sums in `across` columns, and loads at most `most`
    sums of all `slices` at once. A CTA adds up one piece after the other, so it gets few large ones.
    """
    each = 4 * vectors // across
    able = [w for w in range(1, across + 1) if across % w == 0 and (w == 1 or w * each * slices <= most)]
    width = min(able, key=lambda w: -(-across // (w * slices)) * (_ROUND + w))
    return width, min(slices, across // width)
