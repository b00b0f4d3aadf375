"""The PTX in `found`. Each ended or hung the emulator, or showed a traceback."""

from pathlib import Path

from mutated_ptx import attempt, begin

FILES = sorted(Path(__file__).with_name("found").glob("*.ptx"))
__all__ = ["attempt", "begin", "make"]


def make(number: int) -> str:
    """The text of a file."""
    return FILES[number].read_text("utf-8")
