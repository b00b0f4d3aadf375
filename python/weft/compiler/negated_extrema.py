"""Integer negations in PTX, spelled so that ptxas doesn't lose them.

On chips with an instruction for three numbers (VIMNMX3, sm_90 and later), ptxas 12.9 and 13.0 lose the second
negation of `max(max(-a, -b), c)`, and of minima and unsigned numbers alike. ptxas 13.5 doesn't.
"""

import re

_EXTREMUM = re.compile(r"\b(max|min)\.[su]32\b")
_NEGATION = re.compile(r"^(\s*(?:@!?%\w+\s+)?)neg\.s32(\s+)(%\w+), (%\w+);", re.MULTILINE)


def spelled(ptx: str) -> str:
    """The same PTX, where `~a + 1` is in place of each negation if there are extrema of 32 bits, too."""
    if _EXTREMUM.search(ptx) is None:
        return ptx
    return _NEGATION.sub(r"\1not.b32\2\3, \4;\n\1add.s32\2\3, \3, 1;", ptx)
