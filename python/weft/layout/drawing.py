"""Draws layouts: a cell for each element, with the lane and register, or the address, that holds it."""

from math import log, prod
from typing import Any

from weft.display.svg import Svg
from weft.layout.arguments import Shape, whole
from weft.layout.iterators import MEMORY

_HEIGHT, _LEFT, _TOP = 18, 30, 36
_MOST_ROWS, _MOST_COLUMNS = 32, 32
_NAMES = {"warpid": "w", "laneid": "T", "TLane": "L", "TCol": "C", "reg": "r", MEMORY: ""}
_MEANINGS = {
    "warpid": "w: warp",
    "laneid": "T: lane",
    "TLane": "L: lane of tensor memory",
    "TCol": "C: column of tensor memory",
    "reg": "r: register",
}
_HUES = ("#a5d8ff", "#b2f2bb", "#ffec99", "#ffc9c9", "#d0bfff", "#99e9f2", "#ffd8a8", "#eebefa")


def draw(layout: Any, shape: Shape = (), element_bits: int | None = None) -> Svg:
    """A drawing of the layout of a matrix: at most its first 32 rows and columns. Without a shape, iterators
    become rows and columns so that the matrix is as square as can be. A swizzle needs `element_bits`; 16 is
    assumed. Raises LayoutError for a shape that isn't the layout's.
    """
    given = whole("a shape", shape)
    if given:
        rows, columns = prod(given[:-1]), given[-1]
    else:  # of whole iterators, of the first ones and of the others, and nearly square
        extents = [it.extent for it in layout.shard]
        splits = [(prod(extents[:i]), prod(extents[i:])) for i in range(len(extents) + 1)]
        rows, columns = min(splits, key=lambda each: (abs(log(each[0]) - log(each[1])), each[0]))
    if layout.swizzle and element_bits is None:
        element_bits = 16
    shown = min(rows, _MOST_ROWS), min(columns, _MOST_COLUMNS)
    places = [
        [layout.positions((i, j), (rows, columns), element_bits) for j in range(shown[1])]
        for i in range(shown[0])
    ]
    texts = [[_text(each[0], MEMORY in layout.axes) for each in line] for line in places]
    width = max(26, 8 + 7 * max((len(text) for line in texts for text in line), default=0))
    caption = [str(layout), _note(layout, rows, columns, shown, len(places[0][0]), element_bits)]
    full = _LEFT + width * shown[1] + 8, _TOP + 12 + _HEIGHT * shown[0] + 8
    svg = Svg(max(full[0], 20 + 6.4 * max(map(len, caption))), full[1])
    svg.add("text", caption[0], x=8, y=14, font_family="monospace")
    svg.add("text", caption[1], x=8, y=30, fill="#495057")
    for j in range(shown[1]):
        svg.add("text", str(j), x=_LEFT + width * (j + 0.5), y=_TOP + 8, font_size=9, text_anchor="middle")
    for i, (line, words) in enumerate(zip(places, texts, strict=True)):
        y = _TOP + 12 + _HEIGHT * i
        svg.add("text", str(i), x=_LEFT - 4, y=y + 12, font_size=9, text_anchor="end")
        for j, (each, text) in enumerate(zip(line, words, strict=True)):
            x = _LEFT + width * j
            copies = (_text(position, MEMORY in layout.axes) for position in each)
            tip = f"({i}, {j}): {'; '.join(copies)}" if len(each) > 1 else ""
            svg.add(
                "rect", title=tip, x=x, y=y, width=width, height=_HEIGHT, fill=_color(each[0]), stroke="white"
            )
            svg.add("text", text, x=x + width / 2, y=y + 12, font_size=10, text_anchor="middle")
    return svg


def _text(position: dict[str, int], has_memory: bool) -> str:
    """A position in a cell: T3 r1 of lane 3's register 1, T3:1 of the second element that lane 3 has."""
    apart = [f"{_NAMES[axis]}{value}" for axis, value in position.items() if axis != MEMORY]
    if not has_memory:
        return " ".join(apart) or "0"
    return f"{' '.join(apart)}:{position[MEMORY]}" if apart else str(position[MEMORY])


def _color(position: dict[str, int]) -> str:
    """One color for a lane, or for 8 elements of memory."""
    for axis in ("laneid", "TLane", "warpid", "reg"):
        if axis in position:
            return _HUES[position[axis] % len(_HUES)]
    return _HUES[position.get(MEMORY, 0) // 8 % len(_HUES)]


def _note(layout: Any, rows: int, columns: int, shown: tuple[int, int], copies: int, bits: int | None) -> str:
    """What a reader must know of the cells."""
    parts = [f"{rows} x {columns}", *(_MEANINGS[axis] for axis in layout.axes if axis in _MEANINGS)]
    if MEMORY in layout.axes:
        apart = [axis for axis in layout.axes if axis != MEMORY]
        parts.append(":n the element of the lane" if apart else "the number of the element in memory")
    if (rows, columns) != shown:
        parts.append(f"the first {shown[0]} x {shown[1]}")
    if copies > 1:
        parts.append(f"the first of {copies} copies")
    if layout.swizzle:
        parts.append(f"elements of {bits} bits")
    return ", ".join(parts)
