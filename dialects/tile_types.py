"""The types of the `tile` dialect, and what they require of values.

Two types hold a tile. A fragment (`tensor<MxNxT, #tile.layout<"S[…]">>`) is in the registers of a warp, or
of the four warps of a warpgroup if its layout contains `warpid` (a vector: of any warps of a CTA); the layout
maps each element to a lane and a register. As it is a tensor, upstream's `arith`, `math` and `scf` take it.
`tensor<MxNxT>` is a tile for which a pass will decide a layout. A buffer
(`!tile.buffer<array<i64: …>, T, #tile.layout<"S[…]">, "shared">`) is in a memory; in tensor memory
(`"tmem"`), its layout maps each element to a lane and a column. Global operands are memrefs; `!tile.map<…>`
is a memref as TMA copies its tiles. `!tile.ring<stages>` is the barriers of a pipeline.
"""

import operator
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

from weft.dialects.element_types import ELEMENT_TYPES
from weft.dialects.kinds import of_type
from weft.dialects.tile_limits import MOST_REGISTERS, MOST_STAGES
from weft.errors import WeftError, shown
from weft.isa.chips import LANES, WARPS
from weft.isa.family import choice
from weft.isa.launch_limits import MOST_THREADS
from weft.isa.tcgen05 import tensor_layouts
from weft.isa.tcgen05.family import CTA_GROUPS
from weft.layout import Iter, Layout, LayoutError
from weft.layout.arguments import unflatten
from weft.layout.iterators import AXES
from weft.mlir import cast, ext, ir, strides

CONDITION = "i1"
"""The type of conditions, which only tiles in registers have."""
TMEM = "tmem"
ADDRESS_SPACES = {"shared": 3, "cluster": 7, TMEM: 6}
"""The memories of buffers with LLVM's address spaces: the CTA's own shared memory, that of a peer, or tensor
memory.
"""


class Tile(ext.Dialect, name="tile"):
    """Tiles, their layouts, and operations on them."""


class LayoutAttr(Tile.Attribute, name="layout"):
    """A `weft.layout.Layout` in its notation."""

    text: ir.StringAttr

    @staticmethod
    def of(layout: Layout | str) -> ir.Attribute:
        """The attribute of a layout or of its notation. Raises LayoutError for an invalid one."""
        return LayoutAttr.get(ir.StringAttr.get(_canonical(str(layout))))

    @property
    def layout(self) -> Layout:
        """The layout itself. Raises LayoutError for an invalid notation."""
        return _parsed(ir.StringAttr(self.text).value)

    def complaint(self) -> str | None:
        """Why the notation is illegal."""
        try:
            _ = self.layout
        except LayoutError as error:
            return f"has an invalid layout: {error.diagnostics[0].message}"
        return None


@cache
def _parsed(text: str) -> Layout:
    return Layout.parse(text)


@cache
def _canonical(text: str) -> str:
    """A layout's notation as `Layout` prints it."""
    return str(_parsed(text))


def _check_context(what: str) -> None:
    """Raises WeftError if there is no MLIR context."""
    if ir.Context.current is None:
        raise WeftError(f"{what} needs an MLIR context: use it inside 'with weft.Module()'")


def _parts(
    shape: Sequence[int], element: ir.Type, layout: Layout | str
) -> tuple[ir.Attribute, ir.Type, ir.Attribute]:
    """A tile's shape, element type and layout as attributes."""
    _check_context("a tile's type")
    try:
        extents = [operator.index(extent) for extent in shape]
    except TypeError:
        raise WeftError(f"shape must be a sequence of integers, got {shown(shape)}") from None
    if not all(0 < extent < 2**31 for extent in extents):
        raise WeftError(f"shape must have extents in 1..2147483647, got {shown(shape)}")
    if not isinstance(element, ir.Type):
        raise WeftError(f"element must be an MLIR type, got {shown(element)}")
    return ir.DenseI64ArrayAttr.get(extents), element, LayoutAttr.of(layout)


@of_type
def _shape(kind: ir.Type) -> tuple[int, ...]:
    return tuple(ir.DenseI64ArrayAttr(kind.extents))


def _element_type(kind: ir.Type) -> ir.Type:
    return ir.TypeAttr(kind.element).value


@of_type
def _layout(kind: ir.Type) -> Layout:
    return LayoutAttr(kind.map).layout


@of_type
def _groups(kind: ir.Type) -> tuple[tuple[Iter, ...], ...]:
    """The iterators of each dimension of a tile."""
    layout: Layout = kind.layout
    return layout.group(kind.shape)


class _TileType(Tile.Type):
    extents: Any
    element: Any
    map: LayoutAttr

    shape = property(_shape)
    element_type = property(_element_type)
    layout = property(_layout)
    groups = property(_groups)


class FragmentType(ir.RankedTensorType):
    """A tile in the registers of a warp or warpgroup: a tensor with a layout."""

    @staticmethod
    def of(shape: Sequence[int], element: ir.Type, layout: Layout | str) -> ir.Type:
        """The type of a tile of `shape` with this layout."""
        extents, element, encoding = _parts(shape, element, layout)
        if str(element) not in _elements("fragment"):
            raise WeftError(_of_element("fragment", element).removeprefix("has "))
        return _sound(FragmentType(ir.RankedTensorType.get(list(extents), element, encoding)))

    @property
    @of_type
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return tuple(super().shape)

    @property
    @of_type
    def layout(self) -> Layout:
        """Which lane and register holds which element."""
        return LayoutAttr(self.encoding).layout

    groups = property(_groups)

    @property
    @of_type
    def warps(self) -> int:
        """The number of warps that hold it: one, or a warpgroup's four; a vector, any number."""
        return int(self.layout.span("warpid"))

    @property
    @of_type
    def registers(self) -> int:
        """The number of elements that one lane holds."""
        return int(self.layout.span("m"))

    @property
    def lane_type(self) -> ir.Type:
        """The vector of one lane's elements, in register order."""
        return ir.VectorType.get([self.registers], self.element_type)

    @of_type
    def complaint(self) -> str | None:
        """Why the type's parameters are illegal."""
        return _complaint(self, "fragment")


class BufferType(_TileType, name="buffer"):
    """A tile in a memory."""

    memory: ir.StringAttr

    @staticmethod
    def of(shape: Sequence[int], element: ir.Type, layout: Layout | str, space: str = "shared") -> ir.Type:
        """The type of a tile of `shape` in the memory `space`, with this layout. Raises WeftError for
        arguments that no tile has.
        """
        if space not in ADDRESS_SPACES:
            raise WeftError(f"space must be one of {', '.join(ADDRESS_SPACES)}, got {shown(space)}")
        return _sound(BufferType.get(*_parts(shape, element, layout), ir.StringAttr.get(space)))

    @property
    @of_type
    def space(self) -> str:
        return str(ir.StringAttr(self.memory).value)

    @property
    @of_type
    def element_bits(self) -> int:
        """The distance of neighboring elements: 8 for elements of 6 bits, of which 16 take 16 bytes."""
        bits = int(self.element_type.width)
        return 8 if bits == 6 else bits

    @property
    def bytes(self) -> int:
        """The bytes of memory that the tile spans, outside of tensor memory."""
        return -(-int(self.layout.span("m")) * self.element_bits // 8)

    @property
    def columns(self) -> int:
        """The 32-bit columns of tensor memory that the tile spans."""
        return -(-int(self.layout.span("TCol")) * self.element_bits // tensor_layouts.COLUMN_BITS)

    @of_type
    def complaint(self) -> str | None:
        """Why the type's parameters are illegal."""
        if self.space not in ADDRESS_SPACES:
            return f"has a buffer whose memory must be one of {', '.join(ADDRESS_SPACES)}, got '{self.space}'"
        if wrong := _complaint(self, TENSOR_BUFFER if self.space == TMEM else "buffer"):
            return wrong
        return _tensor_complaint(self) if self.space == TMEM else None


class MapType(_TileType, name="map"):
    """A matrix in global memory as TMA copies it: in tiles that have this layout in shared memory."""

    @staticmethod
    def of(tile: ir.Type | int | None) -> ir.Type:
        """The type of a matrix that is copied to and from buffers of type `tile`. Raises WeftError for
        another type.
        """
        if not isinstance(tile, BufferType):
            actual = tile if isinstance(tile, ir.Type) else shown(tile)
            raise WeftError(f"tile must be the type of a tile.buffer, got {actual}")
        return _sound(MapType.get(tile.extents, tile.element, tile.map))

    @property
    def buffer_type(self) -> ir.Type:
        """The type of its tiles in shared memory."""
        return BufferType.get(self.extents, self.element, self.map, ir.StringAttr.get("shared"))

    @of_type
    def complaint(self) -> str | None:
        """Why the type's parameters are illegal."""
        return _complaint(self, "map")


class RingType(Tile.Type, name="ring"):
    """The barriers of a ring of stages: for each stage, one for full and one for empty."""

    count: ir.IntegerAttr

    @staticmethod
    def of(stages: int) -> ir.Type:
        """The type of a ring of this number of stages. Raises WeftError for a number that no ring has."""
        _check_context("tile.ring")
        if not isinstance(stages, int) or not 1 <= stages <= MOST_STAGES:
            raise WeftError(f"stages must be an integer in 1..{MOST_STAGES}, got {shown(stages)}")
        return RingType.get(ir.IntegerAttr.get(ir.IntegerType.get_signless(64), stages))

    @property
    def stages(self) -> int:
        return int(ir.IntegerAttr(self.count).value)

    def complaint(self) -> str | None:
        """Why the number of stages is illegal."""
        if 1 <= self.stages <= MOST_STAGES:
            return None
        return f"has a ring whose stages must be in 1..{MOST_STAGES}, got {shown(self.stages)}"


def _sound(kind: ir.Type) -> ir.Type:
    """The type. Raises WeftError if its parameters are wrong."""
    if wrong := kind.complaint():
        raise WeftError(wrong.removeprefix("has "))
    return kind


def _complaint(tile: ir.Type, kind: str) -> str | None:
    if not isinstance(tile, FragmentType):
        if cast(ir.DenseI64ArrayAttr, tile.extents) is None:
            return f"has a {kind} whose shape must be array<i64: ...>, got {tile.extents}"
        if cast(ir.TypeAttr, tile.element) is None:
            return _of_element(kind, tile.element)
    elif not tile.has_static_shape:
        return f"has a {kind} of type {tile}: every extent must be a number"
    if not tile.shape or min(tile.shape) < 1:
        return f"has a {kind} of shape {list(tile.shape)}: every extent must be at least 1"
    if str(tile.element_type) not in _elements(kind):
        return _of_element(kind, tile.element_type)
    try:
        _ = tile.groups
        wrong = _layout_complaint(tile.layout, kind, tuple(tile.shape))
    except LayoutError as error:
        reason = error.diagnostics[0].message
        return f"has a {kind} of shape {list(tile.shape)} whose layout doesn't fit: {reason}"
    return wrong and f"has a {kind} of layout {tile.layout}: {wrong}"


def _of_element(kind: str, element: object) -> str:
    return f"has a {kind} of {element}: elements must be one of {', '.join(_elements(kind))}"


def _elements(kind: str) -> Sequence[str]:
    return (CONDITION, *ELEMENT_TYPES) if kind == "fragment" else ELEMENT_TYPES


def _tensor_complaint(buffer: ir.Type) -> str | None:
    """Why a buffer with a sound layout doesn't fit into tensor memory."""
    if buffer.element_bits > tensor_layouts.COLUMN_BITS:
        most = tensor_layouts.COLUMN_BITS
        return f"has a {TENSOR_BUFFER} of {buffer.element_type}: elements must have at most {most} bits"
    # Stages may overlap: sums that are read while others grow need not be there whole.
    stage = buffer.groups[1 if len(buffer.shape) > _MATRIX_RANK else 0 :]
    inner = replace(buffer.layout, shard=tuple(it for digits in stage for it in digits))
    if wrong := _overlap(inner, _AXES[TENSOR_BUFFER]):
        return f"has a {TENSOR_BUFFER} of layout {buffer.layout}: {wrong}"
    lanes = buffer.layout.span("TLane")
    for name, got, most in (
        ("lanes", lanes, tensor_layouts.LANES),
        ("columns", buffer.columns, tensor_layouts.COLUMNS),
    ):
        if got > most:
            what = f"has a {TENSOR_BUFFER} of layout {buffer.layout}"
            return f"{what}: it must span at most {most} {name}, got {got}"
    return None


_MATRIX_RANK = 2
_MOST_COMPARED = 1 << 16  # elements; a table of more would take long
TENSOR_BUFFER = "buffer in tensor memory"
_AXES = {"fragment": ("warpid", "laneid", "m"), TENSOR_BUFFER: ("TLane", "TCol")}


@cache
def _layout_complaint(layout: Layout, kind: str, shape: tuple[int, ...]) -> str | None:
    """Why a layout can't be that of a fragment, or of a buffer."""
    axes = _AXES.get(kind, ("m",))
    if other := [axis for axis in layout.axes if axis not in axes]:
        if axes == ("m",):
            return f"strides in memory have no axis, got @{other[0]}"
        return f"its axes must be among {', '.join(axes)}, got {other[0]}"
    if kind == TENSOR_BUFFER:
        if layout.offset or layout.swizzle:
            return "it must not have an offset or swizzle"
        return None
    if kind != "fragment":
        if layout.offset or layout.has_replica:
            return "it must not have a replica or offset"
        wrong = _overlap(layout, axes)
        return wrong and wrong + _collision(layout, shape)
    registers = layout.span("m")
    if layout.swizzle:
        return "it must not have a swizzle"
    if registers > MOST_REGISTERS:
        return f"a lane must hold at most {MOST_REGISTERS} elements, got {registers}"
    warps = layout.span("warpid")
    if len(shape) > 1 and warps not in (1, WARPS):
        return f"it must span 1 warp or the {WARPS} of a warpgroup, got {warps}"
    if warps > MOST_THREADS // LANES:
        return f"it must span at most the {MOST_THREADS // LANES} warps of a CTA, got {warps}"
    if not layout.is_bijective({"warpid": warps, "laneid": LANES, "m": registers}):
        each = f"each of {LANES} lanes must hold one element in each of {registers} registers"
        return each + (_collision(layout, shape) or _gap(layout, warps, registers))
    return None


def _collision(layout: Layout, shape: tuple[int, ...]) -> str:
    """Two elements that are at the same position, to append to a message; nothing if there are none."""
    if layout.size > _MOST_COMPARED:
        return ""
    at: dict[tuple[int, ...], int] = {}
    for number, position in enumerate(map(tuple, layout.first_positions().tolist())):
        if (other := at.setdefault(position, number)) != number:
            first, second = (unflatten(each, shape) for each in (other, number))
            return f", got {tuple(first)} and {tuple(second)} at the same position"
    return ""


def _gap(layout: Layout, warps: int, registers: int) -> str:
    """A register that holds no element, to append to a message; nothing if there is none."""
    if layout.has_replica:
        return ""
    rows = layout.first_positions()[:, [AXES.index(axis) for axis in _AXES["fragment"]]]
    held = set(map(tuple, rows.tolist()))
    box = product(range(warps), range(LANES), range(registers))
    if (empty := next((each for each in box if each not in held), None)) is None:
        return ""
    return f", got none in register {empty[2]} of lane {empty[1]}" + f" of warp {empty[0]}" * (warps > 1)


def _overlap(layout: Layout, axes: Sequence[str]) -> str | None:
    """A complaint where two elements, or copies, may be at the same position."""
    for axis in axes:
        reach = 0
        digits = (it for it in layout.shard + layout.replica if it.axis == axis and it.extent > 1)
        for it in sorted(digits, key=lambda it: it.stride):
            if it.stride <= reach:
                return "its elements must not overlap"
            reach += (it.extent - 1) * it.stride
    return None


def _tensor(kind: ir.Type) -> ir.Type:
    """A tensor as the bindings return it: a fragment if it has a layout."""
    tensor = ir.RankedTensorType(kind)
    return FragmentType(kind) if isinstance(tensor.encoding, LayoutAttr) else tensor


ir.register_type_caster(ir.RankedTensorType.static_typeid, replace=True)(_tensor)


def is_fragment(value: ir.Value) -> bool:
    """Whether a value is a tile in registers with a layout."""
    return isinstance(value.type, FragmentType)


def is_tile(value: ir.Value) -> bool:
    """Whether a value is a tile in registers, with a layout or without one."""
    return is_free(value) or is_fragment(value)


def is_free(value: ir.Value) -> bool:
    """Whether a value is a tile whose layout no pass has decided yet."""
    kind = value.type
    return isinstance(kind, ir.RankedTensorType) and kind.encoding is None and kind.has_static_shape


def is_buffer(value: ir.Value) -> bool:
    """Whether a value is a tile in a memory."""
    return isinstance(value.type, BufferType)


def is_tensor_buffer(value: ir.Value) -> bool:
    """Whether a value is a tile in tensor memory."""
    return is_buffer(value) and value.type.space == TMEM


def is_map(value: ir.Value) -> bool:
    """Whether a value is a matrix in global memory as TMA copies it."""
    return isinstance(value.type, MapType)


def is_memref(value: ir.Value) -> bool:
    """Whether a value is a matrix in global memory."""
    return isinstance(value.type, ir.MemRefType)


def matrix_complaint(name: str, value: ir.Value, elements: Sequence[str], *ranks: int) -> str | None:
    """Why `value` isn't a row-major memref in global memory, of one of these element types and `ranks` (2 by
    default).
    """
    if not is_memref(value):
        return f"expects {name} to be a memref, got {value.type}"
    kind = value.type
    if kind.rank not in (ranks or (2,)):
        return f"expects {name} of rank {' or '.join(map(str, ranks or (2,)))}, got {kind}"
    if (element := str(kind.element_type)) not in elements:
        signless = element.removeprefix("s")
        instead = f": {signless} is signed, too" if signless != element and signless in elements else ""
        return f"expects {name} of element type {choice(elements)}, got {kind}{instead}"
    if kind.memory_space is not None and str(kind.memory_space) not in (
        "1 : i64",
        "#gpu.address_space<global>",
    ):
        return f"expects {name} in global memory, got {kind}"
    if 0 in kind.shape:
        return f"expects no empty dimension in {name}, got {kind}"
    if (layout := strides(kind)) is None:
        return f"expects rows of {name} at one stride, got {kind}"
    if layout[0][-1] != 1:
        what = name if kind.rank == 1 else f"rows of {name}"
        return f"expects {what} to be contiguous (innermost stride 1), got {kind}"
    return None


def index_complaint(values: Sequence[ir.Value]) -> str | None:
    """Why a value isn't a coordinate or number, an i32."""
    for value in values:
        if str(value.type) != "i32":
            return f"expects i32 coordinates, got {value.type}"
    return None


def group_complaint(op: ir.OpView) -> str | None:
    """Why an op can't have its attribute `cta_group`."""
    if (group := op.attribute("cta_group")) in CTA_GROUPS:
        return None
    return f"cta_group must be {' or '.join(map(str, CTA_GROUPS))}, got {group}"


def element_complaint(one: ir.Value, other: ir.Value) -> str | None:
    """Why two values aren't tiles or matrices of the same elements."""
    if one.type.element_type == other.type.element_type:
        return None
    return f"expects equal element types, got {one.type} and {other.type}"


def tensor_complaint(matrix: ir.Value, tile: ir.Value) -> str | None:
    """Why TMA can't copy between a matrix and a buffer."""
    if not is_map(matrix):
        return f"expects the matrix to be a tile.map, got {matrix.type}"
    if not is_buffer(tile):
        return f"expects a tile.buffer, got {tile.type}"
    if matrix.type.buffer_type != tile.type:
        return f"expects a buffer of the map's type, {matrix.type.buffer_type}, got {tile.type}"
    return None


def ring_complaint(ring: ir.Value) -> str | None:
    """Why a value isn't a ring."""
    return None if isinstance(ring.type, RingType) else f"expects a tile.ring, got {ring.type}"
