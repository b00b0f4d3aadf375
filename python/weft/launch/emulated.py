"""What a call shows of a kernel that the emulator ran: what it printed, and the mistakes in it."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from weft.errors import WeftError, warn

if TYPE_CHECKING:
    from weft import emulator

ACTIONS = ("warn", "error", "ignore")
_MOST_REPORTED = 5  # kinds of mistakes in one message


def report(
    name: str, found: "Sequence[emulator.Finding]", action: str, remedies: Mapping[str, str] | None = None
) -> None:
    """Warns of the sanitizer's findings in a kernel, or raises WeftError with them if `action` is "error".

    Those of one rule at one source line are one entry of the message. `remedies` has what to do about the
    findings of some rules.
    """
    if not found:
        return
    kinds: dict[tuple[str, str], list[emulator.Finding]] = {}
    for each in found:
        kinds.setdefault((each.rule, each.source or str(each.line)), []).append(each)
    entries = [_entry(each, remedies or {}) for each in kinds.values()]
    if len(entries) > _MOST_REPORTED:
        entries[_MOST_REPORTED:] = [f"and mistakes at {len(entries) - _MOST_REPORTED} more lines"]
    count = f"{len(found)} mistake{'' if len(found) == 1 else 's'}"
    before = " " if len(entries) == 1 else "\n  "
    message = f"kernel {name}: the emulator found {count}:{before}" + "\n  ".join(entries)
    if action == "error":
        raise WeftError(message)
    warn(message)


def _entry(found: "Sequence[emulator.Finding]", remedies: Mapping[str, str]) -> str:
    """Findings of one rule at one source line."""
    first = found[0]
    text = str(first)
    if first.source and first.line:
        column = f":{first.column}" if first.column else ""
        who = f" in {first.thread}" if first.thread else ""
        text = f"{first.source}{column}: {first.rule}: {first.message}{who} (line {first.line} of the PTX)"
    if len(found) > 1:
        text += f", and {len(found) - 1} like it at this line"
    return text + (f": {remedies[first.rule]}" if first.rule in remedies else "")


@contextmanager
def told(remedies: Mapping[str, str]) -> "Iterator[list[emulator.Report]]":
    """Prints what a kernel has printed: that of a report which the block adds to the list, or of the fault
    that ends it. The fault gets the remedy for its rule as a note.
    """
    from weft.emulator.errors import Deadlock, Fault, advise

    reports: list[emulator.Report] = []
    try:
        yield reports
    except (Fault, Deadlock) as error:
        sys.stdout.write(error.printed)
        rule = "shuffle-source" if isinstance(error, Deadlock) and error.lanes_apart else error.rule
        if rule in remedies:
            advise(error, remedies[rule])
        raise
    for each in reports:
        sys.stdout.write(each.printed)
