"""The roles of the `tile` dialect: what some warpgroups, or some warps, of a CTA do."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod

from weft.dialects.effects import ORDERS
from weft.dialects.op import Op, as_attribute, check_in_a_module, kernel_of
from weft.dialects.tile_types import Tile
from weft.isa.chips import LANES, WARPGROUP, WARPS
from weft.isa.launch_limits import MOST_THREADS
from weft.isa.register_counts import COUNTS
from weft.mlir import ext, ir

MOST_WARPGROUPS = MOST_THREADS // WARPGROUP
MOST_WARPS = MOST_WARPGROUPS * WARPS


class RoleOp(Op, dialect=Tile, name="role", traits=[ir.NoTerminatorTrait, ORDERS]):
    """Code for some warpgroups or some warps of a CTA. The others skip it.

    Its agents are `warpgroups` warpgroups or `warps` warps, beginning with number `first` of the CTA. The
    region's argument is the agent's number in the role (i32). Each thread of a role of warpgroups gets
    `registers` registers, or keeps what it has if that is 0. A role of warps cannot change registers, because
    `setmaxnreg` changes those of a whole warpgroup: put it inside a role of warpgroups.
    """

    first: ir.IntegerAttr
    body: ext.Region
    optional = {"warpgroups": 0, "warps": 0, "registers": 0}  # noqa: RUF012

    @property
    def by_warps(self) -> bool:
        """Whether it is a role of warps."""
        return "warps" in self.attributes

    @property
    def count(self) -> int:
        """How many warps, or warpgroups, it has."""
        return int(self.attribute("warps" if self.by_warps else "warpgroups"))

    def check(self) -> str | None:
        if ("warps" in self.attributes) == ("warpgroups" in self.attributes):
            got = "both" if self.by_warps else "neither"
            return f"expects one of the attributes 'warpgroups' and 'warps', got {got}"
        name, most = ("warps", MOST_WARPS) if self.by_warps else ("warpgroups", MOST_WARPGROUPS)
        if self.first.value < 0:
            return f"first must be at least 0, got {self.first.value}"
        if not 1 <= self.count <= most:
            return f"{name} must be in 1..{most}, got {self.count}"
        registers = self.attribute("registers")
        if registers and self.by_warps:
            why = "setmaxnreg changes the registers of a whole warpgroup"
            return f"registers must be 0 in a role of warps, got {registers}: {why}"
        if registers and registers not in COUNTS:
            counts = f"a multiple of {COUNTS.step} in {COUNTS[0]}..{COUNTS[-1]}"
            return f"registers must be 0 or {counts}, got {registers}"
        if len(self.body.blocks) != 1 or [str(a.type) for a in self.body.blocks[0].arguments] != ["i32"]:
            return "expects a region of one block with one argument of type i32"
        return self._block_complaint(name, LANES if self.by_warps else WARPGROUP)

    def _block_complaint(self, name: str, unit: int) -> str | None:
        """Why the CTA lacks some of the agents, of `unit` threads each. A kernel may not state its block."""
        kernel = kernel_of(self)
        block = kernel and kernel.attributes.get("known_block_size")
        if not isinstance(block, ir.DenseI32ArrayAttr):
            return None
        most, last = prod(block) // unit, self.first.value + self.count
        limit = f"{most}, as known_block_size is {prod(block)}"
        return f"first + {name} must be at most {limit}, got {last}" if last > most else None


@contextmanager
def role(
    first: int, warpgroups: int | None = None, *, warps: int | None = None, registers: int = 0
) -> Iterator[ir.Value]:
    """Builds `tile.role` of `warpgroups` or of `warps`; in the block, ops are built in its region.

    Yields the number of the warpgroup, or warp, in the role.
    """
    numbers = {"first": first, "warpgroups": warpgroups, "warps": warps}
    if warps is None or registers:
        numbers["registers"] = registers
    stated = {name: value for name, value in numbers.items() if value is not None}
    with in_region(RoleOp, stated, "i32") as op:
        yield op.regions[0].blocks[0].arguments[0]


@contextmanager
def in_region(kind: type[Op], numbers: Mapping[str, int], *arguments: str) -> Iterator[ir.Operation]:
    """Builds an op with these attributes; in the block, ops are built in its region, whose block has such
    arguments.
    """
    check_in_a_module(kind)
    attributes = {name: as_attribute(value) for name, value in numbers.items()}
    op = ir.Operation.create(kind.OPERATION_NAME, attributes=attributes, regions=1)
    with ir.InsertionPoint(op.regions[0].blocks.append(*map(ir.Type.parse, arguments))):
        yield op
