"""Moves expressions from the shape that a tensor is reshaped to back to the shape it had."""

import math
from dataclasses import replace

from weft.passes.raising.expressions import (
    ZERO,
    Element,
    Expression,
    Reshaped,
    Sum,
    Unraisable,
    leaves,
    mapped,
)


def in_one_shape(expression: Expression, leaf: Reshaped) -> tuple[Expression, tuple[int | None, ...]]:
    """The expression over the coordinates that one of its leaves has before it is reshaped, and their sizes.
    Raises Unraisable where another leaf has none there.
    """
    outer = leaf.large if leaf.expands else leaf.small
    inner = leaf.small if leaf.expands else leaf.large
    if leaf.dims != tuple(range(len(outer))):
        raise Unraisable("transposes what is reshaped", leaf.op)

    def change(each: Expression) -> Expression:
        if isinstance(each, Reshaped):
            if (each.groups, each.dims, each.expands) != (leaf.groups, leaf.dims, leaf.expands):
                raise Unraisable("is reshaped in two ways", each.op)
            return each.inner
        if isinstance(each, Element):
            return _reshaped(each, leaf)
        if isinstance(each, Sum):
            raise Unraisable("adds products of different shapes", leaf.op)
        return each

    changed = mapped(expression, change)
    if any(isinstance(each, Reshaped) for each in leaves(changed)):
        raise Unraisable("is reshaped twice", leaf.op)
    return changed, inner


def _reshaped(element: Element, leaf: Reshaped) -> Element:
    """An element at the coordinates before a reshape."""
    dims: list[int] = []
    shape: list[int | None] = []
    at = 0
    while at < len(element.dims):
        dim = element.dims[at]
        if dim == ZERO:
            at += 1
            continue
        if leaf.expands:
            number, group = next((i, g) for i, g in enumerate(leaf.groups) if dim in g)
            if element.dims[at : at + len(group)] != group:
                raise Unraisable("adds an operand along a part of what is reshaped", leaf.op)
            sizes = element.buffer.shape[at : at + len(group)]
            dims.append(number)
            shape.append(math.prod(s for s in sizes if s) if None not in sizes else None)
            at += len(group)
        else:
            dims += leaf.groups[dim]
            shape += [leaf.large[i] for i in leaf.groups[dim]]
            at += 1
    return replace(element, buffer=replace(element.buffer, shape=tuple(shape)), dims=tuple(dims))
