"""What both kernels share: packed weights in stages of K, with the scales and zeros of their groups."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import weft.language as w
from weft.int4.kernels.layout import DEPTH, LINES, ROWS


@dataclass(frozen=True)
class Weights:
    """Packed weights whose stages have `span` columns. `group` columns share a scale, all of them if it is
    0; zeros are 8 unless `asymmetric`.
    """

    packed: Any
    scales: Any
    zeros: Any
    blocks: Any  # of a row of tiles
    span: int
    group: int
    asymmetric: bool

    @property
    def groups(self) -> int:
        """The number of groups in a stage."""
        return max(self.span // self.group, 1) if self.group else 1

    @property
    def lines(self) -> int:
        """The lines of a tile in a stage."""
        return self.span // DEPTH * LINES

    def buffers(self, tiles: int, x: tuple[int, int, Any]) -> dict[str, Any]:
        """Those of a stage, for so many tiles, beside a buffer of x."""
        vectors = dict.fromkeys(self._vectors(), (1, tiles * self.groups * ROWS, x[-1]))
        return vectors | {"x": x, "q": (tiles * self.lines, 32, w.i32)}

    def places(self, tiles: list[Any], k: Any) -> dict[str, Any]:
        """From where these are filled: stage k of tiles."""
        places = {"q": tuple(self.packed[self._line(tile, k), 0] for tile in tiles)}
        for name, each in self._vectors().items():
            places[name] = tuple(each[tile, self._of_group(k)] for tile in tiles)
        return places

    def prefetch(self, tiles: list[Any], k: Any, count: Any, most: int) -> None:
        """Asks for the first `count` stages from k on in L2, at most `most`."""
        for tile in tiles:
            w.prefetch(self.packed[self._line(tile, k), 0], w.minimum(count, most) * self.lines, 32)
            for each in self._vectors().values():
                w.prefetch(each[tile, self._of_group(k)], 1, most * self.groups * ROWS)

    def _vectors(self) -> dict[str, Any]:
        return {"scale": self.scales, "zero": self.zeros} if self.asymmetric else {"scale": self.scales}

    def _line(self, tile: Any, k: Any) -> Any:
        return tile * self.blocks * LINES + k * self.lines

    def _of_group(self, k: Any) -> Any:
        """The column of scales of the first group of a stage."""
        return k * self.span // self.group * ROWS if self.group else 0


def loaded(slot: Any, groups: list[Any]) -> tuple[list[Any], list[Any]]:
    """The scales and zeros of groups of a stage, vectors of 64 rows."""
    like = w.zeros(ROWS, slot.x.dtype)

    def of(name: str) -> list[Any]:
        return [w.load_column(getattr(slot, name).columns(ROWS * each, ROWS), like=like) for each in groups]

    return of("scale"), of("zero") if "zero" in slot.ring.kinds else [8] * len(groups)


def dequantized(weights: Weights, slot: Any, tile: Any) -> Any:
    """A tile of a stage of 64 columns."""
    scales, zeros = loaded(slot, [weights.groups * tile + n for n in range(weights.groups)])
    return w.dequantize_int4(w.load_contiguous(slot.q.rows(LINES * tile, LINES)), scales, zeros)


def total(buffers: Iterable[w.Buffer]) -> Any:
    """The sum of equal buffers, whose contiguous elements the threads of a warpgroup load."""
    return reduce(add, map(w.load_contiguous, buffers))


def multiplied(weights: Weights, slot: Any, total: Any, half: Any, part: Any, blocks: int) -> Any:
    """The sums with the products of a warpgroup: of part `part` of a stage, by `blocks` blocks of columns, of
    its tile `half`. Sums of a group are scaled, not its weights.
    """
    group, sums = weights.group, None
    for block in range(blocks):
        number = part * blocks + block
        if block == 0 or 0 < group < DEPTH * blocks:  # another group begins
            first = half * weights.groups + (number * DEPTH // group if weights.groups > 1 else 0)
            groups = [first + n for n in range(max(DEPTH // group, 1) if group else 1)]
            scales, zeros = loaded(slot, groups)
        words = w.load_contiguous(slot.q.rows(half * weights.lines + LINES * number, LINES))
        x = slot.x.columns(DEPTH * number, DEPTH)
        if len(groups) > 1:
            total = w.warp_gemm(w.dequantize_int4(words, scales, zeros), x.T, total)
            continue
        sums = w.warp_gemm(w.dequantize_int4(words, zero=zeros[0], dtype=slot.x.dtype), x.T, sums)
        if block == blocks - 1 or 0 < group < DEPTH * blocks:
            total, sums = total + sums * scales[0].to(w.f32), None
    return total
