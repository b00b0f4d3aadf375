"""A kernel as notebooks show it: its resources, its launch, and its text at each level."""

from typing import Any

from weft.compiler import resources_page
from weft.errors import WeftError
from weft.html import Html

_NOT_TOLD = "not set"
_BODY = "expand-matmul"  # the pass that writes a product's kernel


def page(kernel: Any) -> str:
    """HTML of a `weft.launch.kernel.Kernel`."""
    made = Html(f"kernel {kernel.name}", f"for {kernel.chip}")
    launch = kernel.launch
    facts: list[tuple[str, object]] = []
    try:
        facts += resources_page.facts(kernel.resources)
    except WeftError as error:
        facts.append(("resources", error.diagnostics[0].message))
    facts.append(("block", _extents(launch.block)))
    if launch.cluster != (1, 1, 1):
        facts.append(("cluster", _extents(launch.cluster)))
    grid = _NOT_TOLD if launch.grid is None else f"({', '.join(launch.grid.texts)})"
    facts.append(("tiles" if launch.persistent is not None else "grid", grid))
    facts += [(name, value) for name, value in _more(launch) if value]
    made.facts(facts)
    made.code(kernel.ir(), "source")
    for stage in kernel.stages:
        if stage.startswith(_BODY):
            made.code(kernel.ir(stage), f"IR after {_BODY}")
    made.code(kernel.ptx, f"PTX, {len(kernel.ptx.splitlines())} lines")
    return made.text()


def _more(launch: Any) -> list[tuple[str, object]]:
    return [
        ("stages", launch.stages),
        ("columns of tensor memory", launch.tensor_columns),
        ("tensor maps", len(launch.maps)),
        ("workspaces", len(launch.workspaces)),
    ]


def _extents(extents: Any) -> str:
    return _NOT_TOLD if extents is None else " x ".join(map(str, extents))
