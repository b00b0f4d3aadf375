"""Weft's dialects and those that other packages register. `context()` gives an MLIR context with them all.

The import of this package, and of `schedule` in it, doesn't import MLIR.
"""

import sys
from typing import TYPE_CHECKING, Any

from weft import late_imports

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
    if name not in __all__:
        raise AttributeError(
            f"module 'weft.dialects' has no attribute '{name}'", name=name, obj=sys.modules[__name__]
        )
    with late_imports.whole():
        from weft.dialects import registered

    return getattr(registered, name)
