"""The name that a misspelled one may have meant, for messages."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, to append to a message; nothing where no known name is similar."""
    # milliseconds that only a mistake should cost
    from difflib import SequenceMatcher, get_close_matches

    def similar(each: str) -> tuple[float, int]:
        """How similar a name is; among equals, those with the same letters, as a_layout for layout_a."""
        return SequenceMatcher(None, each, wrong).ratio(), -(Counter(each) - Counter(wrong)).total()

    spelled, wrong = {each.lower(): each for each in known}, name.lower()
    matches = get_close_matches(wrong, list(spelled))
    if not matches or (best := spelled[max(matches, key=similar)]) == name:
        return ""
    return f"; did you mean '{best}'?"


def no_parameter(function: Callable[..., object], name: str, instead: Mapping[str, str]) -> str:
    """The complaint about an argument of this name. `instead` has a remedy for each name that others use."""
    import inspect

    own = inspect.getfullargspec(function)
    advice = f": {instead[name]}" if name in instead else ""
    return f"has no parameter '{name}'{advice or did_you_mean(name, [*own.args, *own.kwonlyargs, *instead])}"
