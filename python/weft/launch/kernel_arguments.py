"""A kernel's arguments: checks of arrays and numbers, the kernel parameters made from them, and the grid, the
block and the workspaces that follow from their sizes.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weft.compiler.launch_record import Launch, MapParameter, MemrefArgument, PointerArgument, ScalarArgument
from weft.construction import launch_extents
from weft.dialects.product_types import ceil_div
from weft.errors import WeftError, about, shown
from weft.isa import tensor_map
from weft.isa.chips import LINE_BYTES
from weft.isa.launch_limits import size_complaint
from weft.launch import arrays, kernel_handle, overlaps
from weft.launch.arrays import ArrayView
from weft.launch.cuda_driver import Dim
from weft.launch.launcher import Parameter
from weft.layout import packed_elements

# MLIR scalar types as `struct` formats and as NumPy types.
_FORMATS = {"i1": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "index": "q"}
_FORMATS |= {"ui8": "B", "ui16": "H", "ui32": "I", "ui64": "Q", "f16": "e", "f32": "f", "f64": "d"}
_KINDS: dict[str, Any] = {
    name: np.int64 if name == "index" else arrays.numpy_dtype(name).type for name in _FORMATS
}
_EMULATED_MULTIPROCESSORS = 4  # few, so that persistent kernels compute several tiles at small sizes
_MOST_EMULATED = 16  # where each still computes several tiles: the emulator's cores share them
# TMA's names for MLIR types.
_MAP_TYPES = {"f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "i32": "INT32"}


def checked(launch: Launch, args: Sequence[object]) -> tuple[list[ArrayView | float], bool]:
    """A kernel's arguments, with arrays as views, and whether their rows are aligned as the kernel needs it.
    Raises WeftError for arguments that don't fit.
    """
    if len(args) != len(launch.arguments):
        raise WeftError(f"kernel {launch.name} takes {len(launch.arguments)} arguments, got {len(args)}")
    views = [
        _checked(arg, want, f"kernel {launch.name}, {launch.called(number)}")
        for number, (arg, want) in enumerate(zip(args, launch.arguments, strict=True))
    ]
    for number, (view, bytes_) in enumerate(zip(views, launch.whole, strict=False)):
        if isinstance(view, ArrayView) and not view.has_whole_rows(bytes_):
            raise WeftError(
                f"kernel {launch.name}, {launch.called(number)}: is compiled for rows that begin at and are "
                f"multiples of {bytes_} bytes: compile it for this array, or for types alone"
            )
    alignments = zip(views, launch.aligned, strict=False)
    aligned = all(v.row_alignment % bytes_ == 0 for v, bytes_ in alignments if isinstance(v, ArrayView))
    return views, aligned


def _checked(arg: object, want: MemrefArgument | PointerArgument | ScalarArgument, argument: str) -> Any:
    """One argument, with an array as its view."""
    if isinstance(want, ScalarArgument):
        return number_for(arg, want, argument)
    if isinstance(want, PointerArgument) and isinstance(arg, int) and 0 <= arg < 2**63:
        return arg
    try:
        view = arg if isinstance(arg, ArrayView) else arrays.view(arg)
    except WeftError as error:
        raise WeftError(f"{argument}: {error}") from None
    if is_padded(view) and view.device == "cpu" and not want.writes:
        view = packed_copy(view)
    if (isinstance(want, PointerArgument) or want.contiguous) and is_contiguous(view):
        view = replace(view, strides=arrays.contiguous_strides(view.shape))
    if complaint := misfit(view, want):
        raise WeftError(f"{argument}: {complaint}")
    return view


def is_padded(view: ArrayView) -> bool:
    """Whether an array has a byte for each element of a type that kernels read packed."""
    return view.dtype in arrays.PACKED_BITS and not view.packed


def packed_copy(view: ArrayView) -> ArrayView:
    """A copy of an array on the CPU that has a byte for each element, packed along the dimension of stride 1.
    Raises WeftError where that isn't whole bytes.
    """
    along = arrays.contiguous_dimension(view.strides)
    along = len(view.shape) - 1 if along is None else along
    codes = np.moveaxis(view.numpy().view(np.uint8), along, -1)
    octets = packed_elements.pack(codes, arrays.PACKED_BITS[view.dtype])
    # NumPy's strides of an empty array are 0.
    of_bytes = replace(arrays.view(octets), strides=arrays.contiguous_strides(octets.shape))
    packed = of_bytes.unpacked_from(view.dtype)
    order = [*range(along), len(view.shape) - 1, *range(along, len(view.shape) - 1)]
    shape, strides = (tuple(each[i] for i in order) for each in (packed.shape, packed.strides))
    return replace(packed, shape=shape, strides=strides)


def map_of(view: ArrayView, want: MapParameter, address: int) -> tensor_map.TensorMap:
    """A matrix's tensor map at `address`, with the box and swizzle that a kernel's parameter needs. Raises
    WeftError for a matrix that TMA can't copy.
    """
    if want.skewed:
        view, address = _skewed(view, address)
    kind = _map_of_chunks if want.chunk else _map_of_joined_rows if want.joined else _map_of_rows
    fields = kind(view, want, address)
    if verdict := fields.complaint():
        raise WeftError(f"argument {want.matrix}: a tensor map's {verdict}")
    return fields


def map_parameter(view: ArrayView, want: MapParameter, number: int) -> Parameter:
    """The parameter of a prepared launch for a map of array number `number`, whose later addresses are that
    of `view` modulo 32.
    """
    fields = map_of(view, want, view.address if want.skewed else 0)
    return Parameter(fields.encode(), number, fields.address - view.address if want.skewed else 0)


def _map_of_rows(view: ArrayView, want: MapParameter, address: int) -> tensor_map.TensorMap:
    *outer, columns = view.shape
    unit = 2 * tensor_map.ROW_BYTES  # enough for every type
    strides = [
        # The stride of a single row is never used, but must be legal.
        stride * view.bits // 8 if count > 1 else ceil_div(columns * view.bits // 8, unit) * unit
        for count, stride in zip(outer, view.strides, strict=False)
    ]
    if want.any_rows:  # of others than TMA takes, the kernel doesn't use the map
        strides = [ceil_div(stride, tensor_map.ROW_BYTES) * tensor_map.ROW_BYTES for stride in strides]
    if view.packed:
        kind = f"16U{view.bits}_ALIGN{16 if want.padded else 8}B"
    else:
        kind = "TFLOAT32" if want.tf32 else _MAP_TYPES.get(view.dtype, f"UINT{view.bits}")
    swizzle, _, atom = want.swizzle.partition(tensor_map.ATOM)
    return tensor_map.TensorMap(
        address,
        kind,
        view.shape[::-1],
        tuple(strides[::-1]),
        (1,) * len(view.shape),
        box=(*want.box[::-1], *[1] * (len(view.shape) - 2)),
        swizzle=swizzle,
        atom=atom or tensor_map.ATOMS[0],
        l2_promotion=_promotion(want, strides),
    )


def _map_of_joined_rows(view: ArrayView, want: MapParameter, address: int) -> tensor_map.TensorMap:
    """A map in which eight rows have a dimension of their own; or are one row, where they follow each other
    in memory. Both fill shared memory alike. Raises WeftError where not all rows are in groups of eight.
    """
    joined, (*outer, rows, columns) = tensor_map.JOINED_ROWS, view.shape
    if rows % joined:
        raise WeftError(f"argument {want.matrix}: rows must be a multiple of {joined}, got {rows}")
    fields = _map_of_rows(view, want, address)
    (width, height, *one), (pitch, *strides) = fields.box, fields.strides
    one_row = columns * view.bits == 8 * pitch == 8 * tensor_map.ROW_BYTES
    dims, box = (
        ((joined * columns, 1), (joined * width, 1)) if one_row else ((columns, joined), (width, joined))
    )
    return replace(
        fields,
        dims=(*dims, rows // joined, *outer[::-1]),
        strides=(joined * pitch if one_row else pitch, joined * pitch, *strides),
        element_strides=(1,) * (fields.rank + 1),
        box=(*box, height // joined, *one),
    )


def _skewed(view: ArrayView, address: int) -> tuple[ArrayView, int]:
    """A matrix at `address` with the elements between a multiple of 16 bytes and its rows; its address."""
    *rows, columns = view.shape
    before = address % tensor_map.ROW_BYTES
    return replace(view, shape=(*rows, columns + before * 8 // view.bits)), address - before


def _promotion(want: MapParameter, strides: Sequence[int]) -> str:
    """The size of L2's reads: if rows begin inside lines of 128 bytes, one of 256 takes in lines that other
    copies read at another time.
    """
    inside = any(stride % LINE_BYTES for stride in strides)
    return "128B" if inside and want.l2_promotion == "256B" else want.l2_promotion


def _map_of_chunks(view: ArrayView, want: MapParameter, address: int) -> tensor_map.TensorMap:
    """A map of a matrix of bytes whose columns come in chunks, which are pairs of bytes. Raises WeftError
    where they don't.
    """
    *outer, columns = view.shape
    if columns % want.chunk:
        raise WeftError(f"columns must be a multiple of {want.chunk}, got an array of {view.shape}")
    rows, width = want.box
    strides = [s if count > 1 else columns for count, s in zip(outer, view.strides, strict=False)]
    return tensor_map.TensorMap(
        address,
        "UINT16",
        (want.chunk // 2, columns // want.chunk, *outer[::-1]),
        (want.chunk, *strides[::-1]),
        (1,) * (len(view.shape) + 1),
        box=(want.chunk // 2, width // want.chunk, rows, *[1] * (len(outer) - 1)),
        swizzle=want.swizzle,
        l2_promotion=want.l2_promotion,
    )


def packed(view: ArrayView) -> Any:
    """A flat copy of a CPU array, with the array's strides, since the kernel may depend on them. That of a
    packed array is of its bytes.
    """
    view = view.in_bytes
    span = 1 + sum((size - 1) * stride for size, stride in zip(view.shape, view.strides, strict=True))
    flat = np.zeros(span, view.numpy_dtype)
    within(flat, view)[...] = view.numpy()
    return flat


def within(flat: Any, view: ArrayView) -> Any:
    """A view of a flat array with the shape and strides of `view`, or of its bytes."""
    view = view.in_bytes
    return arrays.strided(flat, view.shape, view.strides)


def is_contiguous(view: ArrayView) -> bool:
    """Whether elements follow each other in C order. Strides of dimensions with one element don't count."""
    each = zip(view.shape, view.strides, arrays.contiguous_strides(view.shape), strict=True)
    return 0 in view.shape or all(size == 1 or stride == plain for size, stride, plain in each)


def misfit(view: ArrayView, want: MemrefArgument | PointerArgument) -> str | None:
    """Why an array can't be passed for a memref or pointer argument; None if it can."""
    if want.writes and view.readonly:
        return "is written by the kernel, but the array is read-only"
    if isinstance(want, PointerArgument):
        if view.strides != arrays.contiguous_strides(view.shape):
            return f"expects a contiguous array, whose address is passed, got strides {view.strides}"
        return None
    if view.dtype != want.dtype:
        return f"expects elements of {want.dtype}, got {view.dtype}"
    if is_padded(view):
        return f"expects packed elements of {want.dtype}, got a byte for each of them"
    if len(view.shape) != len(want.shape) or any(
        w is not None and w != f for w, f in zip(want.shape, view.shape, strict=True)
    ):
        shape = "x".join("?" if s is None else str(s) for s in want.shape)
        return f"expects an array of shape {shape}, got {'x'.join(map(str, view.shape))}"
    for size in view.shape:
        if complaint := size_complaint(size):
            return f"{complaint}, in an array of shape {view.shape}"
    if min(view.strides, default=0) < 0:
        return f"expects non-negative strides, got {view.strides}"
    if want.writes and overlaps.overlaps_itself(view):
        return f"is written by the kernel, but elements share memory, with strides {view.strides}"
    if want.contiguous and view.strides != arrays.contiguous_strides(view.shape):
        return (
            f"expects a contiguous array, got strides {view.strides}: copy it, or declare the argument as "
            "memref<…, strided<…>>"
        )
    for dimension, (want_stride, stride) in enumerate(zip(want.strides, view.strides, strict=True)):
        if want_stride is not None and view.shape[dimension] > 1 and stride != want_stride:
            return f"expects stride {want_stride} in dimension {dimension}, got strides {view.strides}"
    return None


def number_for(value: object, want: ScalarArgument, argument: str) -> Any:
    """A caller's number as a Python float or int. Raises WeftError if the argument's type can't hold it;
    `argument` names the argument in the message.
    """
    if want.dtype not in _KINDS:
        raise WeftError(f"{argument}: numbers of type {want.dtype} can't be passed")
    if not isinstance(value, (int, float, np.number, np.bool_)):
        hint = ": x.item() is the number in an array x" if getattr(value, "ndim", None) == 0 else ""
        raise WeftError(
            f"{argument}: expects a number of type {want.dtype}, got {type(value).__name__}{hint}"
        )
    kind = _KINDS[want.dtype]
    if issubclass(kind, np.floating):
        if np.iscomplexobj(value) or (isinstance(value, int) and abs(value) >= 2**1024):
            raise WeftError(f"{argument}: expects a number of type {want.dtype}, got {shown(value)}")
        with np.errstate(over="ignore"):
            is_beyond = math.isinf(kind(value)) and not math.isinf(value)
        if is_beyond:
            raise WeftError(
                f"{argument}: {shown(value)} doesn't fit into {want.dtype}, whose largest number is "
                f"{float(np.finfo(kind).max):.7g}"
            )
        return float(value)
    least, most = (0, 1) if kind is np.bool_ else (np.iinfo(kind).min, np.iinfo(kind).max)
    if isinstance(value, (float, np.inexact)) or not least <= value <= most:
        raise WeftError(f"{argument}: expects an integer in {least}..{most}, got {shown(value)}")
    return int(value)


def parameters_of(
    launch: Launch,
    views: Sequence[Any],
    address: Callable[[ArrayView], Any],
    number: Callable[[str, Any], Any],
) -> list[Any]:
    """The kernel's parameters. Each memref becomes MLIR's descriptor: two pointers, an offset, sizes,
    strides. `address` and `number` convert arrays and numbers for the GPU or the emulator.
    """
    flat: list[Any] = []
    for want, view in zip(launch.arguments, views, strict=True):
        if isinstance(want, ScalarArgument):
            flat.append(number(want.dtype, view))
        elif isinstance(want, PointerArgument):
            flat.append(address(view) if isinstance(view, ArrayView) else number("index", view))
        else:
            pointer = address(view)
            flat += [pointer, pointer]
            flat += [number("index", n) for n in (0, *view.shape, *view.strides)]
    return flat


@dataclass(frozen=True)
class Space:
    """A workspace that a launch provides: a contiguous memref."""

    shape: tuple[int, ...]
    element_bytes: int

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return math.prod(self.shape) * self.element_bytes

    @property
    def layout(self) -> tuple[int, ...]:
        """The memref descriptor after its pointers: offset, sizes and strides."""
        return (0, *self.shape, *arrays.contiguous_strides(self.shape))


def gpu_number(dtype: str, value: Any) -> kernel_handle.Argument:
    """A number as a parameter for `kernel_handle.pack`."""
    return _FORMATS[dtype], value


def emulator_number(dtype: str, value: object) -> Any:
    """A number as a parameter for the emulator: a NumPy scalar."""
    with np.errstate(over="ignore"):
        return _KINDS[dtype](value)


def dimensions(
    launch: Launch,
    views: Sequence[object],
    grid: Sequence[int] | None = None,
    block: Sequence[int] | None = None,
    multiprocessors: int | None = None,
) -> tuple[Dim, Dim]:
    """The grid and block of a launch with these arguments on a GPU with that many multiprocessors, or in
    the emulator (None). Raises WeftError for sizes that the kernel can't take.
    """
    sizes = _sizes(launch, views)
    if launch.requires is not None and any(launch.requires(sizes)):
        _check_clusters(launch, sizes)
        shapes = ", ".join(str(v.shape) for v in views if isinstance(v, ArrayView))
        raise WeftError(f"kernel {launch.name}: the shapes of its arguments don't fit together: {shapes}")
    if grid is None:
        if launch.grid is None:
            raise WeftError(
                f"kernel {launch.name} doesn't set its grid: pass grid=(x, y, z), or --grid X,Y,Z"
            )
        grid = launch.grid(sizes)
        if (each := launch.persistent) is not None:
            tiles, ctas = math.prod(grid), math.prod(launch.cluster)
            if multiprocessors is None:  # of the emulator
                multiprocessors = _EMULATED_MULTIPROCESSORS
                # Their number selects the sums of kernels with a workspace, so it is fixed for these.
                if not launch.workspaces:
                    several = tiles // _EMULATED_MULTIPROCESSORS
                    multiprocessors = max(multiprocessors, min(several, _MOST_EMULATED))
            most = max(each * multiprocessors // ctas, 1) * ctas
            grid = (min(tiles, most) if each else tiles, 1, 1)
    extents = _extents(launch, launch_extents.grid, grid)
    requested = launch.block if block is None else block
    if requested is None:
        raise WeftError(f"kernel {launch.name} doesn't set its block: pass block=(x, y, z), or --block X,Y,Z")
    threads = _extents(launch, launch_extents.block, requested)
    if launch.block not in (None, threads):
        raise WeftError(f"kernel {launch.name}: block must be {launch.block} as compiled, got {threads}")
    return extents, threads


def _check_clusters(launch: Launch, sizes: list[int]) -> None:
    """Raises WeftError for a grid, of CTAs or of tiles, that clusters don't divide."""
    grid = launch.grid(sizes) if launch.grid is not None else ()
    for count, ctas in zip(grid, launch.cluster, strict=False):
        if count % ctas:
            raise WeftError(
                f"kernel {launch.name}: grid must be a multiple of cluster {launch.cluster} in each "
                f"dimension, got {tuple(grid)}: round it up, as by w.ceil_div(x.rows, {ctas} * 64) * {ctas} "
                "for tiles of 64 rows"
            )


def _sizes(launch: Launch, views: Sequence[Any]) -> list[int]:
    """The sizes of all memref arguments, and then the integer arguments."""
    pairs = [*zip(views, launch.arguments, strict=True)]
    sizes = [size for view, want in pairs if isinstance(want, MemrefArgument) for size in view.shape]
    return sizes + [view for view, want in pairs if isinstance(want, ScalarArgument) and want.is_integer]


def workspaces_of(launch: Launch, views: Sequence[object], grid: Dim) -> list[Space]:
    """The workspaces of a launch with this grid and these arguments."""
    of_kernel, count = launch.workspaces, math.prod(grid)
    if not of_kernel:
        return []
    if not of_kernel[0].of_ctas:
        assert launch.grid is not None
        count = math.prod(launch.grid(_sizes(launch, views)))
    return [Space((count * w.rows, *w.row_shape), w.element_bytes) for w in of_kernel]


def _extents(launch: Launch, check: Callable[[Any], list[int]], extents: object) -> Dim:
    """A grid or block that `check`, of `module_arguments`, accepts. Raises WeftError for another."""
    with about(f"kernel {launch.name}"):
        x, y, z = check(extents)
    return x, y, z
