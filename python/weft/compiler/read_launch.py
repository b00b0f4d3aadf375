"""Reads a kernel's launch attributes (`weft.dialects.launch_contract`) into a `Launch`."""

import math
from collections.abc import Sequence
from dataclasses import MISSING, fields
from itertools import takewhile

from weft import mlir
from weft.compiler import launch_record as record
from weft.compiler.kernel_functions import argument_types
from weft.compiler.kernel_functions import block as block_of
from weft.compiler.kernel_functions import cluster as cluster_of
from weft.dialects import launch_contract
from weft.dialects.launch_contract import CONTRACT, CTA_WORKSPACE, GRID, WORKSPACE, LaunchAttribute
from weft.dialects.op import refuse
from weft.errors import Diagnostic, WeftError
from weft.isa.launch_limits import block_complaint, grid_complaint
from weft.isa.suggest import did_you_mean
from weft.isa.tensor_map import L2_PROMOTIONS, MOST_BOX, SWIZZLE_NAMES, one_of
from weft.mlir import ir, llvm

_MAPS = launch_contract.TENSOR_MAPS.name
_FLAGS = ("padded", "any_rows", "skewed", "joined", "tf32")
_RANKS = range(2, 5)  # of matrices, batches and batches of batches


def read_launch(kernel: ir.OpView) -> record.Launch:
    """The launch that a kernel's attributes describe. Raises WeftError for attributes that don't fit it."""
    attributes = kernel.operation.attributes
    for name in attributes:
        if name.startswith("weft.") and name not in CONTRACT:
            known = ", ".join(CONTRACT)
            meant = did_you_mean(name, CONTRACT)
            raise refuse(kernel, f"has an unknown launch attribute '{name}': they are {known}{meant}")
    kinds = argument_types(kernel)
    writes = _writes(kernel, kinds)
    maps = _read_maps(kernel, kinds)
    kinds = kinds[: len(kinds) - len(maps)]
    workspaces = _read_workspaces(kernel, kinds)
    callers = kinds[: len(kinds) - len(workspaces)]
    arguments = tuple(_argument(kind, number in writes, kernel) for number, kind in enumerate(callers))
    sizes = sum(len(a.shape) for a in arguments if isinstance(a, record.MemrefArgument))
    block = block_of(kernel)
    if block and (complaint := block_complaint(block)):
        raise refuse(kernel, f"has a block that no launch can have: {complaint}")
    return record.Launch(
        mlir.symbol(kernel),
        arguments,
        block,
        _grid(kernel, arguments),
        _sizes_map(kernel, launch_contract.REQUIRES, sizes, 0, None),
        _count(kernel, launch_contract.SHARED_BYTES) or 0,
        maps,
        _bytes(kernel, launch_contract.ALIGNED, len(arguments)),
        _count(kernel, launch_contract.PERSISTENT),
        cluster_of(kernel) or (1, 1, 1),
        launch_contract.DEPENDENT.on(kernel),
        workspaces,
        _count(kernel, launch_contract.TENSOR_COLUMNS) or 0,
        _count(kernel, launch_contract.STAGES) or 0,
        _bytes(kernel, launch_contract.WHOLE, len(arguments)),
    )


def _writes(kernel: ir.OpView, kinds: Sequence[ir.Type]) -> set[int]:
    """The numbers of the arguments that the kernel writes: all where it doesn't say."""
    numbers = launch_contract.WRITES.of(kernel)
    if numbers is None:
        return set(range(len(kinds)))
    for number in numbers:
        if not 0 <= number < len(kinds) or not isinstance(kinds[number], ir.MemRefType | llvm.PointerType):
            raise refuse(kernel, f"weft.writes must have the numbers of memref arguments, got {number}")
    return set(numbers)


def _count(kernel: ir.OpView, attribute: LaunchAttribute) -> int | None:
    name, count = attribute.name, attribute.of(kernel)
    if count is None:
        return None
    if not mlir.is_integer(count):
        raise refuse(kernel, f"{name} must be {mlir.INTEGER}, got {count}")
    if count.value < 0:
        raise refuse(kernel, f"{name} must be at least 0, got {count.value}")
    return int(count.value)


def _bytes(kernel: ir.OpView, attribute: LaunchAttribute, arguments: int) -> tuple[int, ...]:
    """An attribute with a number of bytes for each argument."""
    bytes_ = tuple(attribute.of(kernel) or ())
    if bytes_ and (len(bytes_) != arguments or min(bytes_) < 1):
        rule = f"must have a number above 0 for each of {arguments} arguments"
        raise refuse(kernel, f"{attribute.name} {rule}, got {attribute.of(kernel)}")
    return bytes_


def _argument(kind: ir.Type, writes: bool, kernel: ir.OpView) -> record.Argument:
    dynamic = ir.MemRefType.get_dynamic_stride_or_offset()
    what, location = f"a kernel argument of type {kind} can't be passed", mlir.location(kernel.location)
    if isinstance(kind, ir.MemRefType):
        if kind.memory_space is not None and str(kind.memory_space) not in _GLOBAL:
            raise WeftError(Diagnostic(f"{what}: it isn't in global memory", location))
        strides = mlir.strides(kind)
        if strides is None or strides[1] not in (0, dynamic):
            raise WeftError(Diagnostic(f"{what}: it needs strides and no offset", location))
        return record.MemrefArgument(
            str(kind.element_type),
            mlir.shape_of(kind),
            tuple(None if s == dynamic else s for s in strides[0]),
            not isinstance(kind.layout, ir.StridedLayoutAttr),
            writes,
        )
    if isinstance(kind, (ir.IntegerType, ir.FloatType, ir.IndexType)):
        return record.ScalarArgument(str(kind))
    if isinstance(kind, llvm.PointerType):
        if kind.address_space not in (0, 1):
            raise WeftError(Diagnostic(f"{what}: it isn't in global memory", location))
        return record.PointerArgument(writes)
    legal = "arguments must be memrefs, numbers or pointers to global memory"
    raise WeftError(Diagnostic(f"{what}: {legal}", location))


_GLOBAL = ("1 : i64", "1 : i32", "#gpu.address_space<global>")


def _grid(kernel: ir.OpView, arguments: Sequence[record.Argument]) -> record.SizesMap | None:
    """The map that gives the grid. Raises WeftError where it gives one that no launch can have."""
    sizes = [size for a in arguments if isinstance(a, record.MemrefArgument) for size in a.shape]
    numbers = sum(isinstance(a, record.ScalarArgument) and a.is_integer for a in arguments)
    grid = _sizes_map(kernel, GRID, len(sizes), numbers, 3)
    if grid is None or launch_contract.PERSISTENT.on(kernel):  # that one counts tiles
        return grid
    if (numbers or None in sizes) and any(map(_has_size, grid.results)):
        return grid  # which a launch checks
    if complaint := grid_complaint(grid([size or 0 for size in sizes])):
        raise refuse(kernel, f"weft.grid: {complaint}")
    return grid


def _has_size(expression: record.Expression) -> bool:
    if isinstance(expression, int):
        return False
    return expression[0] == record.SIZE or any(_has_size(each) for each in expression[1:])


def _sizes_map(
    kernel: ir.OpView, attribute: LaunchAttribute, sizes: int, numbers: int, count: int | None
) -> record.SizesMap | None:
    """An affine map of all sizes of the memref arguments, with `count` results. The sizes are its dimensions,
    or its symbols, which may be multiplied by each other, and which the integer arguments may follow.
    """
    name, written = attribute.name, attribute.of(kernel)
    if written is None:
        return None
    affine_map = written.value
    if (affine_map.n_dims, affine_map.n_symbols) not in ((sizes, 0), (0, sizes), (0, sizes + numbers)):
        raise refuse(
            kernel,
            f"{name} must map the {sizes} sizes of the memref arguments, as dimensions or as symbols, got "
            f"{written}",
        )
    if count is not None and len(affine_map.results) != count:
        raise refuse(kernel, f"{name} must have {count} results, got {written}")
    return record.SizesMap(tuple(_expression(e, kernel) for e in affine_map.results))


_BINARY = {
    ir.AffineAddExpr: "+",
    ir.AffineMulExpr: "*",
    ir.AffineCeilDivExpr: "ceildiv",
    ir.AffineFloorDivExpr: "floordiv",
    ir.AffineModExpr: "mod",
}
_DIVISIONS = (ir.AffineCeilDivExpr, ir.AffineFloorDivExpr, ir.AffineModExpr)


def _expression(expression: ir.AffineExpr, kernel: ir.OpView) -> record.Expression:
    if (constant := mlir.cast(ir.AffineConstantExpr, expression)) is not None:
        return int(constant.value)
    if (dimension := mlir.cast(ir.AffineDimExpr, expression)) is not None:
        return record.SIZE, int(dimension.position)
    if (symbol := mlir.cast(ir.AffineSymbolExpr, expression)) is not None:
        return record.SIZE, int(symbol.position)
    for kind, operation in _BINARY.items():
        if (binary := mlir.cast(kind, expression)) is not None:
            divisor = mlir.cast(ir.AffineConstantExpr, binary.rhs)
            if kind in _DIVISIONS and (divisor is None or divisor.value < 1):
                raise refuse(
                    kernel, f"launch attributes must divide by constants above 0 only, got {expression}"
                )
            return operation, _expression(binary.lhs, kernel), _expression(binary.rhs, kernel)
    raise refuse(
        kernel, f"launch attributes must have expressions that a launch can compute, got {expression}"
    )


def _read_maps(kernel: ir.OpView, kinds: Sequence[ir.Type]) -> tuple[record.MapParameter, ...]:
    """The tensor maps among a kernel's arguments, of these types: the last ones, as its attribute describes
    them. Raises WeftError for an attribute that doesn't fit.
    """
    if (entries := launch_contract.TENSOR_MAPS.of(kernel)) is None:
        return ()
    maps = tuple(_read_map(kernel, one) for one in entries)
    pointers = list(takewhile(lambda kind: str(kind) == "!llvm.ptr", reversed(kinds)))
    if len(maps) > len(pointers):
        last = f"its last arguments, {len(pointers)} of type !llvm.ptr"
        raise refuse(kernel, f"{_MAPS} must not have more entries than {last}, got {len(maps)}")
    for one in maps:
        if not 0 <= one.matrix < len(kinds) or not isinstance(kinds[one.matrix], ir.MemRefType):
            raise refuse(
                kernel, f"matrix of {_MAPS} must be the number of a memref argument, got {one.matrix}"
            )
        if kinds[one.matrix].rank not in _RANKS:
            got = f"argument {one.matrix}, {kinds[one.matrix]}"
            raise refuse(kernel, f"matrix of {_MAPS} must have rank 2, 3 or 4, got {got}")
        box = one.box[:1] if one.chunk else one.box
        if len(one.box) != 2 or not all(1 <= extent <= MOST_BOX for extent in box):
            legal = f"rows and columns in 1..{MOST_BOX}"
            raise refuse(kernel, f"box of {_MAPS} must have {legal}, got {list(one.box)}")
    return maps


def _read_map(kernel: ir.OpView, entry: ir.Attribute) -> record.MapParameter:
    kinds = {"box": ir.DenseI64ArrayAttr, "matrix": ir.IntegerAttr, "chunk": ir.IntegerAttr}
    kinds |= dict.fromkeys(_FLAGS, ir.UnitAttr)
    names = sorted(field.name for field in fields(record.MapParameter) if field.default is MISSING)
    values = {named.name: named.attr for named in entry} if isinstance(entry, ir.DictAttr) else {}
    wrong = any(not isinstance(values[n], kinds.get(n, ir.StringAttr)) for n in values)
    optional = [field.name for field in fields(record.MapParameter) if field.default is not MISSING]
    if wrong or sorted({*values, *optional}) != sorted([*names, *optional]):
        raise refuse(kernel, f"entries of {_MAPS} must have the fields {', '.join(names)}, got {entry}")
    if not mlir.is_integer(values["matrix"]):
        raise refuse(kernel, f"matrix of {_MAPS} must be {mlir.INTEGER}, got {values['matrix']}")
    swizzle = values["swizzle"].value
    promotion = values["l2_promotion"].value
    verdict = one_of("swizzle", swizzle, SWIZZLE_NAMES) or one_of("l2_promotion", promotion, L2_PROMOTIONS)
    if verdict:
        raise refuse(kernel, f"{_MAPS}: {verdict.reason}")
    return record.MapParameter(
        values["matrix"].value,
        tuple(values["box"]),
        swizzle,
        promotion,
        chunk=values["chunk"].value if "chunk" in values else 0,
        **{flag: flag in values for flag in _FLAGS},
    )


def _read_workspaces(kernel: ir.OpView, kinds: Sequence[ir.Type]) -> tuple[record.WorkspaceParameter, ...]:
    """The last of a kernel's arguments, of these types, for which it has numbers of rows. Raises WeftError
    for an attribute that doesn't fit.
    """
    if not (present := [each for each in (WORKSPACE, CTA_WORKSPACE) if each.on(kernel)]):
        return ()
    attribute, *more = present
    name = attribute.name
    if more:
        raise refuse(kernel, f"must have one of {name} and {more[0].name}, got both")
    rows = attribute.of(kernel)
    assert rows is not None
    if attribute is WORKSPACE and not GRID.on(kernel):
        raise refuse(kernel, f"must have weft.grid with {name}, whose rows are counted by tile")
    if not 0 < len(rows) <= len(kinds) or min(rows) < 1:
        raise refuse(
            kernel, f"{name} must have numbers above 0, one for each of the last arguments, got {rows}"
        )
    return tuple(_workspace(kernel, name, *each) for each in zip(kinds[-len(rows) :], rows, strict=True))


def _workspace(kernel: ir.OpView, name: str, kind: ir.Type, rows: int) -> record.WorkspaceParameter:
    plain = isinstance(kind, ir.MemRefType) and isinstance(kind.layout, ir.AffineMapAttr) and kind.rank > 0
    if not plain or [i for i in range(kind.rank) if kind.is_dynamic_dim(i)] != [0]:
        raise refuse(
            kernel, f"memrefs of {name} must have a dynamic first size and fixed other sizes, got {kind}"
        )
    element = kind.element_type
    count, scalar = 1, element
    if isinstance(element, ir.VectorType):
        count, scalar = math.prod(element.shape), element.element_type
    width = count * int(scalar.width) // 8
    return record.WorkspaceParameter(int(rows), tuple(kind.shape[1:]), width, name == CTA_WORKSPACE.name)
