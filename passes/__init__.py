"""Weft's passes and pipelines, and the passes that other packages register. A pass of Weft's is in the file
that its flag names.

The import of this package, and of functions in it that write IR, doesn't import all passes.
"""

import sys
from typing import TYPE_CHECKING, Any

from weft import late_imports

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
        own,
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
    "own",
    "register_candidate",
    "register_pass",
    "register_schedule",
    "source",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(
            f"module 'weft.passes' has no attribute '{name}'", name=name, obj=sys.modules[__name__]
        )
    with late_imports.whole():
        from weft.passes import registered

    return getattr(registered, name)
