"""`captured_code`, imported when captured code first runs: it needs MLIR, which a compiled kernel doesn't."""

from typing import Any

from weft.system import late_imports


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # such as __warningregistry__, which unittest and others ask all modules for
        raise AttributeError(f"weft.language.late_code has no '{name}'")
    with late_imports.whole():
        from weft.language import captured_code

    found = getattr(captured_code, name)
    globals()[name] = found  # so that the next access doesn't call this function
    return found
