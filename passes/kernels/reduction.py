"""The part of a `wgmma` kernel that adds up what several CTAs have computed of a tile, and has it written."""

from typing import Any

from weft.mlir import ir
from weft.passes.builders import emit
from weft.passes.kernels.tile_order import Tile
from weft.passes.kernels.writer import Writer


class Reduction:
    """What happens to a warpgroup's sums of a tile."""

    def begin(self) -> list[Any]:
        """What a warpgroup keeps from one tile to the next, before the first."""
        return []

    def prepare(
        self, at: Tile, row: ir.Value, column: ir.Value, warpgroup: ir.Value, kept: list[ir.Value]
    ) -> None:
        """Asks L2, before a tile's products, for what `collect_next` will read."""
        return

    def collect_next(
        self, sums: ir.Value, at: Tile, row: ir.Value, column: ir.Value, warpgroup: ir.Value, kept: list[Any]
    ) -> list[Any]:
        """As `collect`, with what the warpgroup keeps. Returns what it keeps then."""
        self.collect(sums, at, row, column, warpgroup)
        return kept

    def collect(self, sums: ir.Value, at: Tile, row: ir.Value, column: ir.Value, warpgroup: ir.Value) -> None:
        """Takes a warpgroup's sums at a row and a column of the left and the right operand. A reduction that
        keeps something has a `collect_next` instead.
        """
        raise NotImplementedError

    def end(self, warpgroup: ir.Value, kept: list[ir.Value]) -> None:
        """Ends the consumers' role, after all tiles, with what the warpgroup keeps."""
        self.finish_consumers(warpgroup)

    def finish_consumers(self, warpgroup: ir.Value) -> None:
        """Ends the consumers' role, after all tiles."""
        return

    def assist(self) -> None:
        """What warps of the warpgroup that copies do, all but the first one."""
        return

    def finish_producer(self) -> None:
        """Ends the producer's role."""
        return

    def finish(self) -> None:
        """Ends the kernel, in all threads."""
        return


class NoReduction(Reduction):
    """One CTA computes all of a tile, and writes it."""

    def __init__(self, writer: Writer) -> None:
        self.writer, self.preloads = writer, writer.preload()

    def begin(self) -> list[ir.Value]:
        return [emit.value(0)] if self.preloads else []

    def prepare(
        self, at: Tile, row: ir.Value, column: ir.Value, warpgroup: ir.Value, kept: list[ir.Value]
    ) -> None:
        self.writer.ask(row, column, at.member, warpgroup)

    def collect_next(
        self,
        sums: ir.Value,
        at: Tile,
        row: ir.Value,
        column: ir.Value,
        warpgroup: ir.Value,
        kept: list[ir.Value],
    ) -> list[ir.Value]:
        phase = self.writer.write(sums, row, column, at.member, warpgroup, *kept)
        return [phase] if self.preloads else []

    def finish_consumers(self, warpgroup: ir.Value) -> None:
        self.writer.finish()
