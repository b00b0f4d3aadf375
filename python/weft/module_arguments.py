"""Checks of what users give `weft.Module` and `weft.memref`: the bindings' own errors show C++ signatures."""

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

from weft import mlir
from weft.dialects.op import string_complaint
from weft.errors import WeftError, shown
from weft.isa import launch_limits
from weft.mlir import ir
from weft.target import Target

_SIZE = re.compile(r"\?|[0-9]{1,20}")
_ELEMENT = re.compile(r"\w+", re.ASCII)
_MOST_STRIDE = 2**63 - 1


def symbol(name: object) -> str:
    """The name of a function or kernel."""
    if not isinstance(name, str) or not name:
        raise WeftError(f"name must be a string of at least one character, got {shown(name)}")
    if complaint := string_complaint(name):
        raise WeftError(f"name {complaint}")
    return name


def types(arguments: object) -> list[Any]:
    """The types of a function's arguments."""
    kinds = _listed("arguments", arguments, "MLIR types, such as weft.memref gives")
    for kind in kinds:
        if not isinstance(kind, ir.Type):
            raise WeftError(f"arguments must be MLIR types, such as weft.memref gives, got {shown(kind)}")
        if kind.context is not ir.Context.current:
            raise WeftError(f"arguments must be types of this module, got {kind} of another one")
    return kinds


def block(given: object) -> list[int]:
    """The threads of a CTA on x, y and z."""
    return _extents("block", given, launch_limits.block_complaint)


def grid(given: object) -> list[int]:
    """The CTAs of a launch on x, y and z."""
    return _extents("grid", given, launch_limits.grid_complaint)


def target(chip: object) -> Any:
    """The attribute of a `gpu.module` for a chip."""
    if not isinstance(chip, str):
        raise WeftError(f"chip must be a string such as 'sm_90a', got {shown(chip)}")
    return ir.Attribute.parse(f'#nvvm.target<chip = "{Target.of(chip)}">')


def memref(shape: object, element: object, strides: object) -> Any:
    """The type of a matrix, in the current context."""
    sizes = [_size(each) for each in (shape.split("x") if isinstance(shape, str) else _sizes("shape", shape))]
    if not sizes:
        raise WeftError("shape must have at least one size, got none")
    if not isinstance(element, str) or not _ELEMENT.fullmatch(element):
        raise WeftError(f"element must be the name of a number type, such as 'bf16', got {shown(element)}")
    layout = None
    if strides is not None:
        apart = [_stride(each) for each in _sizes("strides", strides)]
        if len(apart) != len(sizes):
            raise WeftError(f"strides must be as many as sizes, {len(sizes)}, got {len(apart)}")
        layout = ir.StridedLayoutAttr.get(0, apart)
    with mlir.located():
        return ir.MemRefType.get(sizes, ir.Type.parse(element), layout, loc=ir.Location.unknown())


def _size(given: object) -> int:
    if isinstance(given, str) and given == "?":
        return int(ir.ShapedType.get_dynamic_size())
    size = int(given) if isinstance(given, str) and _SIZE.fullmatch(given) else _integer(given)
    if size is None:
        raise WeftError(f"shape must hold integers and '?', got {shown(given)}")
    if complaint := launch_limits.size_complaint(size):
        raise WeftError(complaint)
    return size


def _stride(given: object) -> int:
    if isinstance(given, str) and given == "?":
        return int(ir.ShapedType.get_dynamic_stride_or_offset())
    stride = int(given) if isinstance(given, str) and _SIZE.fullmatch(given) else _integer(given)
    if stride is None:
        raise WeftError(f"strides must hold integers and '?', got {shown(given)}")
    if not 0 <= stride <= _MOST_STRIDE:
        raise WeftError(f"strides must be in 0..2**63 - 1, got {shown(stride)}")
    return stride


def _extents(what: str, given: object, complaint: Callable[[Sequence[int]], str | None]) -> list[int]:
    found = [_integer(each) for each in _sizes(what, given)]
    extents = [each for each in found if each is not None]
    if len(extents) != len(found):
        raise WeftError(f"{what} must be three integers (x, y, z), got {shown(given)}")
    if wrong := complaint(extents):
        raise WeftError(wrong)
    return extents


def _sizes(what: str, given: object) -> list[Any]:
    return _listed(what, given, "integers")


def _listed(what: str, given: object, of: str) -> list[Any]:
    try:
        return list(given)  # type: ignore[call-overload, no-any-return]
    except TypeError:
        raise WeftError(f"{what} must be a sequence of {of}, got {shown(given)}") from None


def _integer(given: object) -> int | None:
    if isinstance(given, bool):
        return None
    try:
        return operator.index(given)  # type: ignore[arg-type]
    except TypeError:
        return None
