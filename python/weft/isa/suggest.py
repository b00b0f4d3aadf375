"""The name that a misspelled one may have meant, for messages."""

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, to append to a message; nothing where no known name is similar."""
    from difflib import get_close_matches  # milliseconds that only a mistake should cost

    spelled = {each.lower(): each for each in known}
    matches = get_close_matches(name.lower(), list(spelled), 1)
    return f"; did you mean '{spelled[matches[0]]}'?" if matches and spelled[matches[0]] != name else ""
