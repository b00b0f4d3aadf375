"""The resources of a kernel, as notebooks show them."""

from typing import Any

from weft.display.html import Html


def page(resources: Any) -> str:
    """HTML of a `weft.compiler.ptxas.Resources`."""
    made = Html("resources")
    made.facts(facts(resources))
    return made.text()


def facts(resources: Any) -> list[tuple[str, object]]:
    """Its values with their names and units."""
    spills = resources.spill_stores, resources.spill_loads
    found: list[tuple[str, object]] = [
        ("registers of a thread", resources.registers),
        ("shared memory of a CTA", f"{resources.shared_bytes:,} bytes"),
        ("spilled", f"{spills[0]:,} bytes stored, {spills[1]:,} loaded" if any(spills) else "nothing"),
    ]
    if resources.stack_bytes:
        found.append(("stack of a thread", f"{resources.stack_bytes:,} bytes"))
    return found
