"""`captured_code`, imported when captured code first runs: it needs MLIR, which a compiled kernel doesn't."""

from typing import Any

from weft import late_imports


def __getattr__(name: str) -> Any:
    with late_imports.whole():
        from weft.language import captured_code

    found = getattr(captured_code, name)
    globals()[name] = found  # so that the next access doesn't call this function
    return found
