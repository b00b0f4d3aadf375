"""A kernel as notebooks show it: its resources, its launch, and its text at each level."""

from typing import Any

from weft.compiler import resources_page
from weft.display.html import Html
from weft.errors import WeftError

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
    more: list[tuple[str, object]] = [
        ("stages", launch.stages),
        ("columns of tensor memory", launch.tensor_columns),
        ("tensor maps", len(launch.maps)),
        ("workspaces", len(launch.workspaces)),
    ]
    facts += [(name, value) for name, value in more if value]
    made.facts(facts)
    made.code(kernel.ir(), "source")
    for stage in kernel.stages:
        if stage.startswith(_BODY):
            made.code(kernel.ir(stage), f"IR after {_BODY}")
    made.code(kernel.ptx, f"PTX, {len(kernel.ptx.splitlines())} lines")
    return made.text()


def of_program(program: Any) -> str:
    """HTML of a `weft.launch.program.Program`: its kernels, in their order."""
    count = len(program.steps)
    made = Html(f"program {program.name}", f"{count} kernel{'' if count == 1 else 's'}, one after the other")
    rows = [
        (step.kernel.name, step.kernel.chip, ", ".join(step.sources), f"{step.written}: {step.element}")
        for step in program.steps
    ]
    made.table(["kernel", "chip", "reads and writes", "result"], rows)
    for remark in program.remarks:
        made.note(str(remark))
    return made.text()


def of_function(function: Any, compiled: Any) -> str:
    """HTML of a kernel of `weft.language`: its parameters, and the kernels compiled so far."""
    made = Html(f"kernel {function.__name__}", "of weft.language")
    signature = function.signature
    made.facts(
        [("arguments", ", ".join(signature.arguments)), ("meta-parameters", ", ".join(signature.meta))]
    )
    if not compiled:
        made.note("Not compiled yet: it is at the first call, or by compile().")
        return made.text()
    made.table(["kernel", "chip", "block"], [(k.name, k.chip, _extents(k.launch.block)) for k in compiled])
    return made.text()


def _extents(extents: Any) -> str:
    return _NOT_TOLD if extents is None else " x ".join(map(str, extents))
