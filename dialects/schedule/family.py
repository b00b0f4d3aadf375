"""The base class of all schedules: what the passes, `weft.matmul` and the tuner ask of any family."""

from abc import abstractmethod
from dataclasses import Field, dataclass, fields
from functools import cache
from typing import Any, ClassVar, TypeVar

from weft.dialects.element_types import FP8_TYPES
from weft.dialects.product_types import GROUP_ROWS, PROMOTED, Types
from weft.dialects.schedule.attribute import Written
from weft.dialects.schedule.work import Kernel, Kind, kind_of
from weft.errors import WeftError
from weft.isa.chips import MOST_SHARED_BYTES, ChipSet, describe
from weft.isa.conversion import FP8_ROUNDING
from weft.isa.wgmma import descriptors
from weft.target import Target

SWIZZLES = {mode.width: mode.name for mode in reversed(descriptors.SWIZZLES.values()) if mode.name != "none"}
"""The swizzle of a tile in shared memory, by the bytes of its rows."""
_MOST_GROUP = 1024  # rows of tiles: far more than a chip computes at a time

_T = TypeVar("_T")


@dataclass(frozen=True)
class Workspace:
    """Global memory that a launch provides for each tile, or for each CTA: rows of sums, and counters."""

    sum_rows: int
    counters: int
    of_each_cta: bool


@dataclass(frozen=True)
class Order:
    """In which order the products of an element of D are added along K. An `instruction` adds those of `step`
    elements of K (and of what else its steps depend on) to its sum, the first ones first. `divided`: what
    makes several sums of them, as messages name it. Promoted sums are those of `PROMOTED` elements.
    """

    instruction: str
    step: tuple[object, ...]
    divided: tuple[str, ...] = ()


class AnySchedule(Written):
    """A schedule of any family.

    A family is a frozen dataclass that derives from this class. Its fields are the entries of the attribute
    `schedule`: integers, flags, or tuples of integers (whose lengths are in `counts`). A family must have the
    fields `block`, `stages` and `group`, `key` and what is abstract here. The other facts have defaults: one
    CTA for each tile, no cluster, no workspace.
    """

    block: tuple[int, int, int]
    stages: int
    group: int
    cluster: tuple[int, int] = 1, 1
    """CTAs of a cluster along rows and columns of tiles."""
    swap: bool = False
    """Whether the rows of a tile are columns of D."""
    cta_group: int = 1
    """CTAs that multiply a tile with one instruction: 2 for pairs."""
    splits: int = 1
    """CTAs of a cluster that compute a K slice of one tile each."""
    global_splits: int = 1
    """CTAs, pairs or clusters that compute a K slice of one tile each."""
    stream_k: bool = False
    """Whether CTAs divide the K blocks of the last wave's tiles evenly."""
    loaders: int = 0
    """Warpgroups that load A and B; 0 where TMA copies them, or all warps load."""
    skewed: bool = False
    """Whether TMA copies K-major A and B that may begin at any element."""
    joined: bool = False
    """Whether TMA copies several rows of an MN-major A at a time."""
    alternating: bool = False
    """Whether warpgroups compute tiles in turns."""
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    instruction: ClassVar[str]
    """The instructions that multiply, as messages name them."""
    family: ClassVar[str] = ""
    """How a user names the instructions: `wmma`, `mma`, `wgmma` or `tcgen05`. Classes may share a name. The
    `instruction` where it's empty.
    """
    key: ClassVar[str]
    """A field that is always written, and that no other family has."""
    takes_any_rows: ClassVar[bool] = False
    """Whether rows of A, B and D may begin at any element, in all schedules of the family."""
    takes_any_result: ClassVar[bool] = False
    """Whether rows of D may begin at any element, in all schedules of the family."""
    starts_early: ClassVar[bool] = False
    """Whether the kernel itself waits for earlier work in its stream."""

    @property
    @abstractmethod
    def threads(self) -> int:
        """Threads of a CTA."""

    @abstractmethod
    def shared_bytes(self, types: Types) -> int:
        """Shared memory of a CTA."""

    @classmethod
    @abstractmethod
    def chips(cls, types: Types) -> ChipSet:
        """The chips that have the instructions of every schedule of the family for these types."""

    @classmethod
    def layout_complaint(cls, types: Types) -> str | None:
        """Why no schedule of the family can read A and B as they are stored, where the types are legal."""
        return None

    @abstractmethod
    def complaint(self, types: Types, target: Target | None = None) -> str | None:
        """Why the schedule can't be lowered, or can't run on `target`."""

    def _repr_html_(self) -> str:
        from weft.dialects.schedule import page

        return page.page(self)

    def swapped(self, row: _T, column: _T) -> tuple[_T, _T]:
        """From rows and columns of D to rows and columns of tiles, and back."""
        return (column, row) if self.swap else (row, column)

    @property
    def rows_of_d(self) -> int:
        """Rows of D, and of A, in a tile."""
        return self.swapped(*self.block[:2])[0]

    @property
    def ctas(self) -> int:
        """CTAs of a cluster."""
        return self.cta_group * self.splits * self.cluster[0] * self.cluster[1]

    @property
    def tile_ctas(self) -> int:
        """CTAs that compute a tile together, at most."""
        return 1

    @property
    def resident_ctas(self) -> int | None:
        """For CTAs that compute one tile after the other: the limit of CTAs on a multiprocessor (0: none)."""
        return None

    def has_room(self, registers: int) -> bool:
        """Whether a thread has so many registers for an epilogue beside its sums: of kernels whose sums are
        few, or aren't in registers, all have.
        """
        return True

    @property
    def workspace(self) -> Workspace | None:
        """Global memory that a launch provides in addition to the arguments."""
        return None

    def same_results(self, other: "AnySchedule") -> bool:
        """Whether kernels of both schedules have the same results, to the last bit, for arrays with any rows
        that one of them takes.
        """
        return self == other

    def k_step(self, types: Types, chip: str) -> tuple[object, ...] | None:
        """The K of the instructions, where the schedule is legal; None in a family that doesn't state it."""
        return None

    @property
    def k_division(self) -> tuple[str, ...]:
        """What divides K, or shifts the steps along it."""
        counts = {"splits": self.splits, "global_splits": self.global_splits}
        found = [f"{name} {count}" for name, count in counts.items() if count > 1]
        if self.stream_k:
            found.append("stream_k True")
        if found:
            found.append(f"block K {self.block[2]}")
        if self.skewed:
            found.append("skewed")
        return tuple(found)

    def order(self, types: Types, chip: str) -> Order | None:
        """The order of sums along K: schedules with the same one have the same results, to the last bit."""
        step = self.k_step(types, chip)
        return None if step is None else Order(self.instruction, step, self.k_division)

    def row_alignment(self, types: Types, operand: str, element_bytes: int) -> int:
        """Bytes at whose multiples the rows of an operand must begin: "a", "b", "d" or an operand role."""
        return 1

    def stored(self, types: Types) -> tuple[int, int]:
        """Rows and columns of a tile's operands as a stage holds them: those of the tile, or more."""
        return self.block[:2]

    def stage_bytes(self, types: Types) -> int:
        """Shared memory of the tiles of A and B in one stage."""
        return sum(self.stored(types)) * self.block[2] * types.input_bits // 8

    def copied_bytes(self, types: Types) -> int:
        """Bytes that copies bring into a stage."""
        return self.stage_bytes(types)

    def element_kind(self, types: Types) -> Kind:
        """The elements at whose rate the kernel multiplies. Raises WeftError for a kind without a model."""
        return kind_of(types)

    def kernel(self, types: Types, chip: str | None = None) -> Kernel:
        """What the kernel does, for a model of its time; on `chip` where that matters. Raises WeftError for a
        family that doesn't state it.
        """
        raise WeftError(f"schedule must be of a family with a model, got {type(self).__name__}")

    def _kernel(self, types: Types, **others: Any) -> Kernel:
        """A kernel of this schedule's numbers, and of others."""
        rows, columns, depth = self.block
        numbers: dict[str, Any] = {
            "tile": (rows, columns),
            "k_block": depth,
            "stages": self.stages,
            "cta_group": self.cta_group,
            "cluster": self.cluster,
            "splits": self.global_splits,
            "group": self.group,
            "swap": self.swap,
            "promoted": types.promoted,
        }
        return Kernel(**numbers | others)

    def least_complaint(self, but: str = "") -> str | None:
        """Which of the schedule's numbers, `but` one of them, is less than 1."""
        family: Any = type(self)
        for name in _field_names(family):
            if name == but:
                continue
            value = getattr(self, name)
            if isinstance(value, tuple) and min(value) < 1:
                return f"{name} must have numbers of at least 1, got {' x '.join(map(str, value))}"
            if not isinstance(value, tuple | bool) and value < 1:
                return f"{name} must be at least 1, got {value}"
        return None

    def count_complaint(self) -> str | None:
        """Why there can't be as many stages, or rows of tiles in a group."""
        if self.stages < 2:
            return f"stages must be at least 2, got {self.stages}"
        if self.group > _MOST_GROUP:
            return f"group must be at most {_MOST_GROUP}, got {self.group}"
        return None

    def promoted_complaint(self, types: Types) -> str | None:
        """Why sums can't be promoted: each scale is for as many elements along K."""
        k = self.block[2]
        wrong = types.promoted and k != PROMOTED
        return f"block K must be {PROMOTED}, after which sums are promoted, got {k}" if wrong else None

    @staticmethod
    def output_complaint(types: Types, target: Target | None) -> str | None:
        """Why the target can't round to the elements of D."""
        if types.d not in FP8_TYPES or target is None or target.chip.name in FP8_ROUNDING:
            return None
        return f"D of {types.d} needs {describe(FP8_ROUNDING)}, got {target}"

    def k_complaint(self, types: Types) -> str | None:
        """Why a K block can't be stored in rows as wide as a swizzle."""
        (widest, *narrow), k = SWIZZLES, self.block[2]
        row = k * types.input_bits // 8
        if row % widest == 0 or row in narrow:
            return None
        fewer = ", ".join(map(str, sorted(narrow)))
        return f"block K must have {fewer} or a multiple of {widest} bytes, got {row} ({k} of {types.a})"

    def group_complaint(self, types: Types) -> str | None:
        """Why a K block, or the rows of D in a tile, may not be of one group."""
        m, _, k = self.block
        if types.k_groups:
            legal = types.divides_k_blocks or GROUP_ROWS % k == 0
            return None if legal else f"block K must divide {GROUP_ROWS} with k_ends, got {k}"
        legal = not types.grouped or GROUP_ROWS % m == 0
        return None if legal else f"block M must divide {GROUP_ROWS} with groups, got {m}"

    def cluster_group_complaint(self, types: Types) -> str | None:
        """Why a K block, or the rows of D that a cluster computes, may not be of one group."""
        if types.k_groups:
            return self.group_complaint(types)
        rows = self.rows_of_d * self.swapped(*self.cluster)[0]
        if GROUP_ROWS % rows == 0:
            return None
        return f"the rows of D of a cluster must divide {GROUP_ROWS} with groups, got {rows}"

    def shared_complaint(self, types: Types, target: Target | None) -> str | None:
        """Why the schedule's shared memory doesn't fit a CTA."""
        needed = self.shared_bytes(types)
        limit, where = (target.chip.shared_bytes, target) if target else (MOST_SHARED_BYTES, "any chip")
        if needed <= limit:
            return None
        what = f"shared memory must be at most {limit} bytes on {where}"
        return f"{what}, got {needed} ({self.stages} stages of {self.stage_bytes(types)})"


@cache
def _field_names(family: Any) -> tuple[str, ...]:
    """The names of the numbers of a family's schedules."""
    return tuple(field.name for field in fields(family))
