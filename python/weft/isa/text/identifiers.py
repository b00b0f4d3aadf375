"""What PTX takes for a name (PTX ISA, "Identifiers")."""

import re

NAME = r"[A-Za-z][\w$]*|[_$%][\w$]+"
PREDEFINED = {"WARP_SZ": 32}  # besides special registers, whose names begin with %

_FUNCTION = re.compile(rf"(?!%)(?:{NAME})", re.ASCII)


def function_complaint(name: str) -> str | None:
    """Why a function can't have this name, as the rest of a sentence; instructions' names are free.

    Those with % are for registers: LLVM's and ours have no others.
    """
    if not _FUNCTION.fullmatch(name):
        rule = "letters, digits, _ and $; no digit first, no lone _ or $"
        return f"expects a name as PTX has them ({rule}), got '{name}'"
    return f"can't have the name '{name}', which PTX has taken" if name in PREDEFINED else None
