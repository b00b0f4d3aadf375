"""Weft's passes and pipelines, and the passes that other packages register. A pass of Weft's is in the file
that its flag names.

The import of this package, and of functions in it that write IR, doesn't import all passes.
"""

from typing import TYPE_CHECKING, Any

from weft.system import late_imports

if TYPE_CHECKING:
    from weft.passes.registered import (
        PASSES,
        PIPELINES,
        Candidate,
        Pass,
        Predicate,
        check_printed,
        elements,
        every,
        manager,
        names,
        register_candidate,
        register_pass,
        register_schedule,
        source,
    )

__all__ = [
    "PASSES",
    "PIPELINES",
    "Candidate",
    "Pass",
    "Predicate",
    "check_printed",
    "elements",
    "every",
    "manager",
    "names",
    "register_candidate",
    "register_pass",
    "register_schedule",
    "source",
]


def __getattr__(name: str) -> Any:
    return late_imports.attribute(__name__, name, "registered" if name in __all__ else None)
