"""The inputs in `found`. Each ended or hung a tool, or showed a traceback."""

from pathlib import Path

from mutated_mlir import after_death, attempt, begin

FILES = sorted(Path(__file__).with_name("found").glob("*.mlir"))
__all__ = ["after_death", "attempt", "begin", "make"]


def make(number: int) -> str:
    """The text of a file."""
    return FILES[number].read_text("utf-8")
