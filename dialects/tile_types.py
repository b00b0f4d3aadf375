"""The types of the `tile` dialect, and what they hold values to.

Two kinds of value hold a tile. A fragment (`!tile.fragment<array<i64: M, N>, T, #tile.layout<"S[…]">>`) lies
in the registers of a warp; its layout says which lane holds which element, and in which order. A buffer
(`!tile.buffer<array<i64: …>, T, #tile.layout<"S[…]">, "shared">`) lies in a memory. Global operands are
memrefs.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from weft.isa.chips import LANES
from weft.layout import Layout, LayoutError
from weft.mlir import cast, ext, ir, strides

INPUT_TYPES = ("f16", "bf16")
OUTPUT_TYPES = ("f32", "f16", "bf16")
SPACES = ("shared",)
MOST_REGISTERS = 1024  # elements in a lane, far beyond what a thread's 255 registers hold


class Tile(ext.Dialect, name="tile"):
    """Tiles, their layouts, and what is done with them."""


class LayoutAttr(Tile.Attribute, name="layout"):
    """A `weft.layout.Layout` in its notation."""

    text: ir.StringAttr

    @staticmethod
    def of(layout: Layout | str) -> Any:
        """The attribute of a layout or of its notation. Raises LayoutError for one that isn't."""
        return LayoutAttr.get(ir.StringAttr.get(str(_parsed(str(layout)))))

    @property
    def layout(self) -> Layout:
        """The layout itself. Raises LayoutError where the notation is wrong."""
        return _parsed(ir.StringAttr(self.text).value)


@cache
def _parsed(text: str) -> Layout:
    return Layout.parse(text)


def _shape(kind: Any) -> tuple[int, ...]:
    return tuple(ir.DenseI64ArrayAttr(kind.extents))


def _element_type(kind: Any) -> Any:
    return ir.TypeAttr(kind.element).value


def _layout(kind: Any) -> Layout:
    return LayoutAttr(kind.map).layout


class FragmentType(Tile.Type, name="fragment"):
    """A tile in the registers of a warp."""

    extents: Any
    element: Any
    map: LayoutAttr

    @staticmethod
    def of(shape: Sequence[int], element: Any, layout: Layout | str) -> Any:
        """The type of a tile of `shape` whose elements lie as `layout` says."""
        return FragmentType.get(ir.DenseI64ArrayAttr.get(list(shape)), element, LayoutAttr.of(layout))

    shape = property(_shape)
    element_type = property(_element_type)
    layout = property(_layout)

    @property
    def registers(self) -> int:
        """Elements that one lane holds."""
        return int(self.layout.span("m"))

    @property
    def lane_type(self) -> Any:
        """What one lane holds, in register order."""
        return ir.VectorType.get([self.registers], self.element_type)

    def complaint(self) -> str | None:
        """What is wrong with the type's parameters."""
        return _complaint(self, "fragment")


class BufferType(Tile.Type, name="buffer"):
    """A tile in a memory."""

    extents: Any
    element: Any
    map: LayoutAttr
    memory: ir.StringAttr

    @staticmethod
    def of(shape: Sequence[int], element: Any, layout: Layout | str, space: str = "shared") -> Any:
        """The type of a tile of `shape` in `space`, whose elements lie as `layout` says."""
        return BufferType.get(
            ir.DenseI64ArrayAttr.get(list(shape)), element, LayoutAttr.of(layout), ir.StringAttr.get(space)
        )

    shape = property(_shape)
    element_type = property(_element_type)
    layout = property(_layout)

    @property
    def space(self) -> str:
        return str(ir.StringAttr(self.memory).value)

    @property
    def element_bits(self) -> int:
        return int(self.element_type.width)

    @property
    def bytes(self) -> int:
        """The memory that the tile spans."""
        return int(self.layout.span("m")) * self.element_bits // 8

    def complaint(self) -> str | None:
        """What is wrong with the type's parameters."""
        if self.space not in SPACES:
            return f"has a buffer in unknown memory '{self.space}': it is one of {', '.join(SPACES)}"
        return _complaint(self, "buffer")


def _complaint(tile: Any, kind: str) -> str | None:
    if cast(ir.DenseI64ArrayAttr, tile.extents) is None:
        return f"has a {kind} whose shape isn't array<i64: ...>: {tile.extents}"
    if not tile.shape or min(tile.shape) < 1:
        return f"has a {kind} of shape {list(tile.shape)}: every extent must be at least 1"
    if cast(ir.TypeAttr, tile.element) is None or str(tile.element_type) not in OUTPUT_TYPES:
        return f"has a {kind} of {tile.element}: elements are one of {', '.join(OUTPUT_TYPES)}"
    try:
        tile.layout.group(tile.shape)
        found = _misplaced(tile.layout, kind)
    except LayoutError as error:
        reason = error.diagnostics[0].message
        return f"has a {kind} of shape {list(tile.shape)} whose layout doesn't fit: {reason}"
    return found and f"has a {kind} of layout {tile.layout}: {found}"


@cache
def _misplaced(layout: Layout, kind: str) -> str | None:
    """Why a layout's places can't be those of a fragment, or of a buffer."""
    axes = ("laneid", "m") if kind == "fragment" else ("m",)
    if other := [axis for axis in layout.axes if axis not in axes]:
        return f"it lies on {' and '.join(axes)} alone, not on {other[0]}"
    if kind == "buffer":
        if layout.offset or layout.has_replica:
            return "it has no replica or offset"
        reach = 0
        for it in sorted(layout.shard, key=lambda it: it.stride):
            if it.extent > 1 and it.stride <= reach:
                return "its elements overlap"
            reach += (it.extent - 1) * it.stride
        return None
    registers = layout.span("m")
    if layout.swizzle:
        return "it has no swizzle"
    if registers > MOST_REGISTERS:
        return f"a lane holds at most {MOST_REGISTERS} elements, not {registers}"
    if not layout.is_bijective({"laneid": LANES, "m": registers}):
        return f"it doesn't give each of {LANES} lanes one element for each of {registers} registers"
    return None


def is_fragment(value: Any) -> bool:
    """Whether a value is a tile in registers."""
    return isinstance(value.type, FragmentType)


def is_buffer(value: Any) -> bool:
    """Whether a value is a tile in a memory."""
    return isinstance(value.type, BufferType)


def is_memref(value: Any) -> bool:
    """Whether a value is a matrix in global memory."""
    return isinstance(value.type, ir.MemRefType)


def tile_complaint(values: Sequence[Any]) -> str | None:
    """What is wrong with the types of those values that are tiles."""
    for value in values:
        if is_fragment(value) or is_buffer(value):
            found = value.type.complaint()
            if found:
                return str(found)
    return None


def matrix_complaint(name: str, value: Any, elements: Sequence[str]) -> str | None:
    """Why `value` is no matrix that a product can take: a row-major memref of rank 2 in global memory."""
    if not is_memref(value):
        return f"expects {name} to be a memref, got {value.type}"
    kind = value.type
    if kind.rank != 2:
        return f"expects {name} of rank 2, got {kind}"
    if str(kind.element_type) not in elements:
        return f"expects {name} of element type {' or '.join(elements)}, got {kind}"
    if kind.memory_space is not None and str(kind.memory_space) not in (
        "1 : i64",
        "#gpu.address_space<global>",
    ):
        return f"expects {name} in global memory, got {kind}"
    if 0 in kind.shape:
        return f"expects sizes of {name} of at least 1, got {kind}"
    if (found := strides(kind)) is None:
        return f"expects rows of {name} at one stride, got {kind}"
    if found[0][1] != 1:
        return f"expects rows of {name} to be contiguous (innermost stride 1), got {kind}"
    return None
