"""The options of scripts that measure or test GPUs, and their answer where there are none."""

import argparse

from weft.bench import gpu


def parser(description: str) -> argparse.ArgumentParser:
    """A parser of options for a script, whose `--help` is the description of its file."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def parsed(options: argparse.ArgumentParser, gpus: int = 1, seen: int | None = None) -> argparse.Namespace:
    """The options of the command line. Ends the script with a sentence if there are fewer GPUs, or fewer than
    its option `gpus` asks for. `seen` is the number that a library other than PyTorch has.
    """
    arguments = options.parse_args()
    reason = missing(options.prog, max(gpus, getattr(arguments, "gpus", 0)), seen)
    if reason is not None:
        options.exit(1, f"{reason}\n")
    return arguments


def missing(program: str, gpus: int, seen: int | None) -> str | None:
    """Why a program doesn't have so many GPUs, or None."""
    if (reason := gpu.unavailable(program, with_torch=seen is None)) is not None:
        return reason
    if seen is None:
        import torch

        seen = torch.cuda.device_count()
    return f"{program} needs {gpus} GPU{'s' * (gpus > 1)}, got {seen}" if seen < gpus else None
