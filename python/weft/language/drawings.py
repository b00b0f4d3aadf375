"""Drawings of layouts: where fragments, buffers and rings are."""

import sys
from pathlib import Path
from typing import Any

from weft.display.svg import Svg
from weft.errors import shown
from weft.language.buffers import Buffer
from weft.language.fragments import Fragment
from weft.language.mistakes import mistake
from weft.language.rings import Ring
from weft.language.slots import Slot
from weft.layout import Layout
from weft.system import output_files, processes

_LEFT, _TOP, _HEIGHT, _WIDTH, _BARRIER = 60, 34, 40, 480, 150
_COLORS = ("#a5d8ff", "#b2f2bb", "#ffec99", "#ffc9c9", "#d0bfff")


def show(what: Any, file: Any = None) -> Svg:
    """Draws a layout: that of a fragment (which lane has which element), of a buffer (the position of each
    element in shared memory, with the swizzle), or the stages of a ring with their barriers.

    A notebook shows the drawing. `file` is where to write it as SVG. Without both, the layout is printed as
    text. Draws while the kernel is traced; no
    code of the kernel results.
    """
    drawing = _drawn(what)
    if file is not None:
        if not isinstance(file, str | Path):
            raise mistake(f"file of w.show must be a path, got {shown(file)}")
        try:
            output_files.write(Path(file), drawing.text().encode())
        except OSError as error:
            raise processes.refusal(f"cannot write '{file}'", error) from None
    notebook = sys.modules.get("IPython")
    if notebook is not None and notebook.get_ipython() is not None:
        notebook.display.display(drawing)
    elif file is None:
        layout = f", {what.layout}" if isinstance(what, Fragment | Buffer) else ""
        print(f"{what}{layout}: file= of w.show writes the drawing")
    return drawing


def _drawn(what: Any) -> Svg:
    if isinstance(what, Layout):
        return what.drawn()
    if isinstance(what, Fragment):
        return what.layout.drawn(what.shape)
    if isinstance(what, Buffer):
        return what.layout.drawn(tuple(what.value.type.shape), what.dtype.bits)
    if isinstance(what, Slot):
        what = what.ring
    if isinstance(what, Ring):
        return _ring(what)
    raise mistake(f"w.show draws a layout, a fragment, a buffer or a ring, got {shown(what)}")


def _ring(ring: Ring) -> Svg:
    """The stages below each other: their buffers, as wide as they have bytes, and the barriers of each."""
    sizes = {name: rows * columns * dtype.bytes for name, (rows, columns, dtype) in ring.kinds.items()}
    whole = sum(sizes.values())
    drawing = Svg(_LEFT + _WIDTH + 2 * _BARRIER + 16, _TOP + _HEIGHT * ring.stages + 12)
    title = f"ring of {ring.stages} stages of {whole} bytes, taken by {ring.takers} warpgroup"
    drawing.add("text", title + ("" if ring.takers == 1 else "s"), x=8, y=16)
    for stage in range(ring.stages):
        y, x = _TOP + _HEIGHT * stage, float(_LEFT)
        drawing.add("text", f"stage {stage}", x=8, y=y + 22)
        for number, (name, (rows, columns, dtype)) in enumerate(ring.kinds.items()):
            width = _WIDTH * sizes[name] / whole
            text = f"{name}: {rows} x {columns} {dtype}"
            _box(drawing, text, x, y, width, _COLORS[number % len(_COLORS)], f"{sizes[name]} bytes")
            x += width
        full, empty = f"full: {whole} bytes", f"empty: {ring.takers} taker{'' if ring.takers == 1 else 's'}"
        for text in (full, empty):
            _box(drawing, text, x + 4, y, _BARRIER - 8, "#e9ecef", "an mbarrier")
            x += _BARRIER
    return drawing


def _box(drawing: Svg, text: str, x: float, y: float, width: float, color: str, title: str) -> None:
    drawing.add("rect", title=title, x=x, y=y, width=width, height=_HEIGHT - 8, fill=color, stroke="white")
    drawing.add("text", text, x=x + width / 2, y=y + 20, font_size=10, text_anchor="middle")
