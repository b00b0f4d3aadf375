"""The names that a misspelt one may have meant, for messages."""

from collections.abc import Iterable

_CUTOFF = 0.7
_MOST = 2


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, to put behind a message; nothing where no known name is near."""
    from difflib import get_close_matches  # milliseconds that only a mistake should cost

    found = get_close_matches(name, list(known), _MOST, _CUTOFF)
    return f"; did you mean {' or '.join(repr(each) for each in found)}?" if found else ""
