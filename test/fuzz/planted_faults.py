"""A kind whose inputs fail in each way that the driver must detect."""

import os
import time

_FAULTS = {3: "abort", 5: "hang", 7: "traceback", 11: "exit"}


def make(number: int) -> str:
    """What the attempt is to do."""
    return _FAULTS.get(number, "nothing")


def attempt(text: str) -> str:
    """Does it."""
    if text == "abort":
        os.write(2, b"last words")
        os.abort()
    if text == "hang":
        time.sleep(3600)
    if text == "traceback":
        raise KeyError(text)
    if text == "exit":
        os._exit(3)
    return "ran"
