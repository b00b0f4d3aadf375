"""Weft's dialects and those that other packages register. `context()` gives an MLIR context with them all.

The import of this package, and of `schedule` in it, doesn't import MLIR.
"""

from typing import TYPE_CHECKING, Any

from weft.system import late_imports

if TYPE_CHECKING:
    from weft.dialects.registered import (
        DIALECTS,
        context,
        dialects,
        instruction_ops,
        names_in,
        register_dialect,
    )

__all__ = ["DIALECTS", "context", "dialects", "instruction_ops", "names_in", "register_dialect"]


def __getattr__(name: str) -> Any:
    return late_imports.attribute(__name__, name, "registered" if name in __all__ else None)
