"""Printing and checking in kernels, and drawings of layouts: where fragments, buffers and rings are."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.display.svg import Svg
from weft.errors import shown
from weft.language.capture import trace
from weft.language.messages.mistakes import mistake
from weft.language.operations import reductions
from weft.language.operations.roles import once
from weft.language.values.buffers import Buffer
from weft.language.values.coordinates import of_lanes
from weft.language.values.dtypes import NUMBERS, f64, i1, i32, i64, u32, u64
from weft.language.values.fragments import Fragment
from weft.language.values.rings import Ring
from weft.language.values.scalars import Scalar, as_scalar, condition, converted
from weft.language.values.stages import Slot
from weft.layout import Layout
from weft.mlir import gpu, ir
from weft.passes.builders import emit, thread_ids
from weft.system import output_files, processes


def print_(*values: object) -> None:
    """Prints strings and numbers, separated by spaces, once for each thread that executes it. With a tile or
    vector among them, a line for each of its elements, with row and column: `t [3, 5] 0.25`.
    """
    trace.current()
    fragments = [each for each in values if isinstance(each, Fragment)]
    if len(fragments) > 1:
        raise mistake("w.print takes one tile or vector: print others by calls of their own")
    if not fragments:
        once(lambda: _printed(values))
        return
    trace.current().check_whole_warps("w.print of a tile or vector")
    (fragment,) = fragments
    axes = [of_lanes(fragment, axis) for axis in range(len(fragment.shape))]
    with emit.when(thread_ids.first_of_copies(fragment.layout)):
        for register, element in enumerate(fragment.elements()):
            index = [Scalar(emit.value(emit.add(each.base.value, each.offsets[register]))) for each in axes]
            _printed([_At(index, Scalar(element)) if each is fragment else each for each in values])


@dataclass(frozen=True)
class _At:
    """An element of a fragment, and its row and column, or its number in a vector."""

    coordinates: list[Scalar]
    element: Scalar


def _printed(values: Sequence[object]) -> None:
    """Prints strings and numbers in a line."""
    texts, numbers = list[str](), list[ir.Value]()

    def add(scalar: Scalar) -> str:
        if scalar.dtype.is_float:
            numbers.append(converted(scalar.value, f64))
            return "%g"
        kinds = (u32, u64) if scalar.dtype.is_unsigned else (i32, i64)
        wide = scalar.dtype.bits > i32.bits
        numbers.append(emit.signless(converted(scalar.value, kinds[wide])))
        return ("%ll" if wide else "%") + ("u" if scalar.dtype.is_unsigned else "d")

    for value in values:
        if isinstance(value, (str, *NUMBERS)):
            texts.append(str(value).replace("%", "%%"))
        elif isinstance(value, _At):
            texts.append(f"[{', '.join(map(add, value.coordinates))}] {add(value.element)}")
        elif isinstance(value, Scalar) or callable(getattr(value, "loaded", None)):
            texts.append(add(as_scalar(value)))
        else:
            got = shown(value) if value is None else value
            raise mistake(f"w.print takes strings, numbers, and a tile or vector, got {got}")
    gpu.PrintfOp(" ".join(texts) + "\n", numbers)


def check(holds: object, message: str) -> None:
    """Stops the kernel with the message and this source line if a condition is false on the GPU, or that of
    an element of a fragment. A condition that Python knows is checked during tracing.
    """
    trace.current()
    if not isinstance(message, str) or not message:
        raise mistake(f"the message of w.check must be a string, got {shown(message)}")
    condition_: bool | Scalar
    if isinstance(holds, Fragment) and holds.dtype == i1:
        condition_ = Scalar(reductions.reduced("and", holds.elements()))
    else:
        condition_ = condition(holds)
    if isinstance(condition_, Scalar):
        attributes = {"msg": ir.StringAttr.get(message)}
        ir.Operation.create("cf.assert", operands=[condition_.value], attributes=attributes)
    elif not condition_:
        raise mistake(f"check failed: {message}")


_LEFT, _TOP, _HEIGHT, _WIDTH, _BARRIER = 60, 34, 40, 480, 150
_COLORS = ("#a5d8ff", "#b2f2bb", "#ffec99", "#ffc9c9", "#d0bfff")


def show(what: object, file: object = None) -> Svg:
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


def _drawn(what: object) -> Svg:
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
    sizes = {name: rows * columns * dtype.bits // 8 for name, (rows, columns, dtype) in ring.kinds.items()}
    total = sum(sizes.values())
    drawing = Svg(_LEFT + _WIDTH + 2 * _BARRIER + 16, _TOP + _HEIGHT * ring.stages + 12)
    title = f"ring of {ring.stages} stages of {total} bytes, taken by {ring.takers} warpgroup"
    drawing.add("text", title + ("" if ring.takers == 1 else "s"), x=8, y=16)
    for stage in range(ring.stages):
        y, x = _TOP + _HEIGHT * stage, float(_LEFT)
        drawing.add("text", f"stage {stage}", x=8, y=y + 22)
        for number, (name, (rows, columns, dtype)) in enumerate(ring.kinds.items()):
            width = _WIDTH * sizes[name] / total
            text = f"{name}: {rows} x {columns} {dtype}"
            _box(drawing, text, x, y, width, _COLORS[number % len(_COLORS)], f"{sizes[name]} bytes")
            x += width
        full, empty = f"full: {total} bytes", f"empty: {ring.takers} taker{'' if ring.takers == 1 else 's'}"
        for text in (full, empty):
            _box(drawing, text, x + 4, y, _BARRIER - 8, "#e9ecef", "an mbarrier")
            x += _BARRIER
    return drawing


def _box(drawing: Svg, text: str, x: float, y: float, width: float, color: str, title: str) -> None:
    drawing.add("rect", title=title, x=x, y=y, width=width, height=_HEIGHT - 8, fill=color, stroke="white")
    drawing.add("text", text, x=x + width / 2, y=y + 20, font_size=10, text_anchor="middle")
