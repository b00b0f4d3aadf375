"""Which tiles a warpgroup of a `wgmma` kernel multiplies: its rows of every tile, or whole tiles in turns."""

from weft.dialects import tile
from weft.mlir import ir
from weft.passes.builders import emit
from weft.passes.kernels.accumulator import Accumulator
from weft.passes.kernels.promoted import PromotedAccumulator
from weft.passes.kernels.tile_order import Tile


class Together:
    """All warpgroups multiply each tile."""

    count = 1

    def __init__(self, accumulator: Accumulator | PromotedAccumulator) -> None:
        self.accumulator, self.rows = accumulator, accumulator.schedule.rows

    def first(self, warpgroup: ir.Value) -> int:
        """The number of a warpgroup's first tile among those of the CTA."""
        return 0

    def start(self, warpgroup: ir.Value) -> ir.Value:
        """The first row of a tile that a warpgroup multiplies."""
        return emit.mul(warpgroup, self.rows)

    def begin(self, warpgroup: ir.Value) -> list[ir.Value]:
        """What a warpgroup carries from tile to tile: first the position in the ring of stages."""
        return [emit.value(0), emit.value(0)]

    def multiply(self, at: Tile, warpgroup: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        """Multiplies a tile; returns a warpgroup's sums and what it carries to its next tile."""
        return self.accumulator.multiply(at, self.start(warpgroup), carried)


class Turns:
    """Each warpgroup multiplies whole tiles, and one writes its tile while another one multiplies.

    A warpgroup begins when the one before it has seen all of its stages full: earlier, it couldn't tell the
    phases of a stage apart.
    """

    def __init__(self, accumulator: Accumulator | PromotedAccumulator) -> None:
        """Makes a ring with a stage for each warpgroup's turn at the insertion point."""
        assert isinstance(accumulator, Accumulator)
        self.accumulator, self.tiles = accumulator, accumulator.feed.tiles
        self.count = accumulator.schedule.warpgroups
        self.ring = tile.make_ring(self.count, consumers=1)

    def first(self, warpgroup: ir.Value) -> ir.Value:
        """As `Together.first`."""
        return warpgroup

    def start(self, warpgroup: ir.Value) -> int:
        """As `Together.start`."""
        return 0

    def begin(self, warpgroup: ir.Value) -> list[ir.Value]:
        """The phase of the first turn, and the position in the ring of stages."""
        waits = emit.select(emit.equal(warpgroup, 0), 0, 1)  # for nobody, in the first warpgroup
        return [waits, *self._skip([emit.value(0), emit.value(0)], warpgroup)]

    def multiply(self, at: Tile, warpgroup: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        """As `Together.multiply`, in a warpgroup's turn."""
        phase, *position = carried
        tile.acquire(self.ring, warpgroup, phase)
        sums, *position = self.accumulator.multiply(at, 0, position, lambda: self._pass_on(warpgroup))
        return [sums, emit.xor(phase, 1), *self._skip(position, self.count - 1)]

    def _pass_on(self, warpgroup: ir.Value) -> None:
        """Lets the next warpgroup multiply."""
        following = emit.add(warpgroup, 1)
        tile.release(self.ring, emit.select(emit.equal(following, self.count), 0, following))

    def _skip(self, position: list[ir.Value], tiles: ir.Value | int) -> list[ir.Value]:
        """The position in the ring of stages after the K blocks of so many tiles of others."""
        stage, phase = position
        stages = self.tiles.schedule.stages
        end = emit.add(emit.mul(self.tiles.k_blocks, tiles), stage)
        wraps = emit.rem(emit.div(end, stages), 2)
        return [emit.rem(end, stages), emit.xor(phase, wraps)]
