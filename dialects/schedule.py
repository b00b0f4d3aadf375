"""How a whole product is laid over the chip: the `schedule` attribute of `tile.matmul`."""

from dataclasses import dataclass, fields
from typing import Any

from weft.errors import WeftError
from weft.isa import async_copy, mma
from weft.isa.chips import LANES, ChipSet
from weft.mlir import ir
from weft.target import Target

INPUT_BYTES = 2
COPY = async_copy.copy_of(16)  # what fills the stages


def atom(element: str) -> mma.Sync:
    """The instruction that warp tiles with inputs of a type are made of."""
    return mma.Sync("m16n8k16", element, element, "f32", "f32")


def needed_chips(element: str) -> ChipSet:
    """The chips that have the instructions of every schedule."""
    return mma.SYNC.table[atom(element)].chips & async_copy.CP_ASYNC.table[COPY].chips


ATOM = atom("f16").mnk  # the same for every type


@dataclass(frozen=True)
class Schedule:
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

    @classmethod
    def of(cls, attribute: Any) -> "Schedule":
        """The schedule that an attribute states. Raises WeftError for a field that is missing, odd or
        unknown.
        """
        if not isinstance(attribute, ir.DictAttr):
            raise WeftError(f"expects attribute 'schedule' to be a dictionary, got {attribute}")
        names = [f.name for f in fields(cls)]
        given = {named.name: named.attr for named in attribute}
        if unknown := sorted(set(given) - set(names)):
            raise WeftError(f"has no schedule field '{unknown[0]}': fields are {', '.join(names)}")
        if missing := [n for n in names if n not in given and n != "group"]:
            raise WeftError(f"expects the schedule to say '{missing[0]}'")
        return cls(**{name: _value(name, attr) for name, attr in given.items()})

    def attribute(self) -> Any:
        """The attribute that states this schedule."""
        i64 = ir.IntegerType.get_signless(64)
        return ir.DictAttr.get(
            {
                "block": ir.DenseI64ArrayAttr.get(self.block),
                "warps": ir.DenseI64ArrayAttr.get(self.warps),
                "stages": ir.IntegerAttr.get(i64, self.stages),
                "group": ir.IntegerAttr.get(i64, self.group),
            }
        )

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return LANES * self.warps[0] * self.warps[1]

    @property
    def warp_tile(self) -> tuple[int, int]:
        """Rows and columns of the product that one warp computes."""
        return self.block[0] // self.warps[0], self.block[1] // self.warps[1]

    @property
    def shared_bytes(self) -> int:
        """Shared memory of all stages."""
        m, n, k = self.block
        return self.stages * (m + n) * k * INPUT_BYTES

    def complaint(self, target: Target | None = None) -> str | None:
        """Why the schedule can't be lowered, or can't run on `target`."""
        m, n, k = self.block
        if min(*self.block, *self.warps, self.stages, self.group) < 1:
            return f"has a schedule with a field below 1: {self}"
        if self.stages < 2:
            return f"expects a schedule of at least 2 stages, got {self.stages}"
        if self.threads > 1024:
            return f"expects a schedule of at most 32 warps, got {self.warps[0]} x {self.warps[1]}"
        if m % (self.warps[0] * ATOM[0]) or n % (self.warps[1] * 2 * ATOM[1]):
            return (
                f"expects a schedule whose warps ({self.warps[0]} x {self.warps[1]}) divide block M {m} "
                f"in multiples of {ATOM[0]} and block N {n} in multiples of {2 * ATOM[1]}"
            )
        if k not in (32, 64):
            return f"expects a schedule of block K 32 or 64 (a shared row of 64 or 128 bytes), got {k}"
        if target and self.shared_bytes > target.chip.shared_bytes:
            stage, most = self.shared_bytes // self.stages, target.chip.shared_bytes
            return (
                f"expects a schedule of at most {most} bytes of shared memory on {target}, "
                f"got {self.shared_bytes} ({self.stages} stages of {stage})"
            )
        return None

    def __str__(self) -> str:
        m, n, k = self.block
        warps = f"{self.warps[0]}x{self.warps[1]}"
        return f"block {m}x{n}x{k}, warps {warps}, {self.stages} stages, group {self.group}"


def _value(name: str, attribute: Any) -> Any:
    counts = {"block": 3, "warps": 2}
    if name in counts:
        if not isinstance(attribute, ir.DenseI64ArrayAttr) or len(attribute) != counts[name]:
            raise WeftError(
                f"expects schedule field '{name}' to be array<i64> of {counts[name]}, got {attribute}"
            )
        return tuple(attribute)
    if not isinstance(attribute, ir.IntegerAttr):
        raise WeftError(f"expects schedule field '{name}' to be an integer, got {attribute}")
    return attribute.value
