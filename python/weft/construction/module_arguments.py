"""Checks of the arguments of `weft.Module` and `weft.memref`. The bindings' errors show C++ signatures."""

import re

from weft import mlir
from weft.construction.launch_extents import integer, listed
from weft.dialects.op import string_complaint
from weft.errors import WeftError, shown
from weft.isa import launch_limits
from weft.mlir import ir
from weft.target import Target

_SIZE = re.compile(r"\?|[0-9]{1,20}")
_ELEMENT = re.compile(r"\w+", re.ASCII)
_MOST_STRIDE = 2**63 - 1


def symbol(name: object) -> str:
    """A valid name of a function or kernel. Raises WeftError for another."""
    if not isinstance(name, str) or not name:
        raise WeftError(f"name must be a string of at least one character, got {shown(name)}")
    if complaint := string_complaint(name):
        raise WeftError(f"name {complaint}")
    return name


def types(arguments: object) -> list[ir.Type]:
    """The types of a function's arguments. Raises WeftError for anything else."""
    kinds = listed("arguments", arguments, "MLIR types, such as results of weft.memref")
    for kind in kinds:
        if not isinstance(kind, ir.Type):
            raise WeftError(
                f"arguments must be MLIR types, such as results of weft.memref, got {shown(kind)}"
            )
        if kind.context is not ir.Context.current:
            raise WeftError(f"arguments must be types of this module, got {kind} of another module")
    return kinds


def writes(value: object, arguments: int) -> list[int]:
    """The numbers of the arguments that a kernel writes. Raises WeftError for one that it doesn't have."""
    numbers = [integer(each) for each in listed("writes", value, "integers")]
    known = [each for each in numbers if each is not None and 0 <= each < arguments]
    if len(known) != len(numbers):
        raise WeftError(f"writes must be numbers of arguments, in 0..{arguments - 1}, got {shown(value)}")
    return known


def target(chip: object) -> ir.Attribute:
    """The target attribute of a `gpu.module` for a chip. Raises WeftError for an unknown chip."""
    if not isinstance(chip, str):
        raise WeftError(f"chip must be a string such as 'sm_90a', got {shown(chip)}")
    return ir.Attribute.parse(f'#nvvm.target<chip = "{Target.of(chip)}">')


def memref(shape: object, element: object, strides: object) -> ir.Type:
    """The type of a matrix, in the current context. Raises WeftError for an invalid type."""
    given = shape.split("x") if isinstance(shape, str) else listed("shape", shape, "integers")
    sizes = [_size(each) for each in given]
    if not sizes:
        raise WeftError("shape must have at least one size, got none")
    if not isinstance(element, str) or not _ELEMENT.fullmatch(element):
        raise WeftError(f"element must be the name of a number type, such as 'bf16', got {shown(element)}")
    layout = None
    if strides is not None:
        distances = [_stride(each) for each in listed("strides", strides, "integers")]
        if len(distances) != len(sizes):
            raise WeftError(f"each of the {len(sizes)} sizes must have a stride, got {len(distances)}")
        layout = ir.StridedLayoutAttr.get(0, distances)
    try:
        type_ = ir.Type.parse(element)
    except mlir.MLIRError:
        type_ = None
    if type_ is None:
        raise WeftError(f"element must be the name of a number type, such as 'bf16', got {shown(element)}")
    with mlir.located():
        return ir.MemRefType.get(sizes, type_, layout, loc=ir.Location.unknown())


def _size(value: object) -> int:
    if isinstance(value, str) and value == "?":
        return int(ir.ShapedType.get_dynamic_size())
    size = int(value) if isinstance(value, str) and _SIZE.fullmatch(value) else integer(value)
    if size is None:
        raise WeftError(f"shape must consist of integers and '?', got {shown(value)}")
    if complaint := launch_limits.size_complaint(size):
        raise WeftError(complaint)
    return size


def _stride(value: object) -> int:
    if isinstance(value, str) and value == "?":
        return int(ir.ShapedType.get_dynamic_stride_or_offset())
    stride = int(value) if isinstance(value, str) and _SIZE.fullmatch(value) else integer(value)
    if stride is None:
        raise WeftError(f"strides must consist of integers and '?', got {shown(value)}")
    if not 0 <= stride <= _MOST_STRIDE:
        raise WeftError(f"strides must be in 0..2**63 - 1, got {shown(stride)}")
    return stride
