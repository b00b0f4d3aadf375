"""What a subcommand of `weft` is."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """`weft NAME …`: `arguments` declares its options, or is their table (`cli.declare`); `run` carries them
    out and returns the exit status.

    `run` imports what it needs by itself, so that `weft --help` costs nothing. Its WeftErrors are printed.
    An `interactive` command isn't supervised by another process, so that Ctrl-C comes to it alone. It gets
    the words after `--`, as `following`.
    """

    name: str
    summary: str
    arguments: str | Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]
    interactive: bool = False
