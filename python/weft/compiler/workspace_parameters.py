"""The memory that a launch provides for a kernel, read from its attribute `weft.workspace` or
`weft.cta_workspace`.
"""

import math
from collections.abc import Sequence

from weft.compiler.launch_record import WorkspaceParameter
from weft.dialects.launch_contract import CTA_WORKSPACE, GRID, WORKSPACE
from weft.dialects.op import refuse
from weft.mlir import ir


def read_workspaces(kernel: ir.OpView, kinds: Sequence[ir.Type]) -> tuple[WorkspaceParameter, ...]:
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
    return tuple(_parameter(kernel, name, *each) for each in zip(kinds[-len(rows) :], rows, strict=True))


def _parameter(kernel: ir.OpView, name: str, kind: ir.Type, rows: int) -> WorkspaceParameter:
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
    return WorkspaceParameter(int(rows), tuple(kind.shape[1:]), width, name == CTA_WORKSPACE.name)
