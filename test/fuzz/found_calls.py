"""The calls in `found`. Each ended the process, or raised an exception other than WeftError."""

from pathlib import Path

from mutated_calls import attempt, begin

FILE = Path(__file__).with_name("found") / "calls.txt"
__all__ = ["attempt", "begin", "make"]


def make(number: int) -> str:
    """A line of the file."""
    return FILE.read_text("utf-8").splitlines()[number]
