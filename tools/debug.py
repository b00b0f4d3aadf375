"""`weft debug`: breakpoints and steps through a kernel in the emulator, by lines of its source."""

import io
import os
import runpy
import sys
import traceback
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import WeftError
from weft.language.capture import tracing_state
from weft.tools import cli, emulate
from weft.tools.command import Command

if TYPE_CHECKING:
    from weft.tools.debugger.session import Session


def _arguments(parser: ArgumentParser) -> None:
    emulate.add_launch(
        parser, "a Python file that calls kernels (its arguments follow --), a .mlir file, or PTX", "no limit"
    )
    parser.set_defaults(bar=False, max_instructions="0")
    cli.declare(parser, "-x, --script COMMANDS*  carry out the commands of a file first; may be repeated")
    help_, empty = "carry out a command first; may be repeated", list[str]()
    parser.add_argument(
        "--command", dest="commands", metavar="COMMAND", action="append", default=empty, help=help_
    )
    cli.declare(parser, "--batch  end the session after these commands")


def _run(options: Namespace) -> int:
    from weft.emulator.watching.hooks import hooked
    from weft.tools.debugger.prompt import Prompt
    from weft.tools.debugger.session import Quit, Session

    if sys.stdout is None:
        raise WeftError("cannot write: stdout is closed")
    commands = [line for file in options.script for line in cli.read(file).splitlines()]
    stdin = io.StringIO() if options.batch or sys.stdin is None else sys.stdin
    prompt = Prompt([*commands, *options.commands], stdin, echo=True)
    session = prompt.session = Session(prompt, options.file)
    is_python = options.file.endswith(".py")
    if options.following and not is_python:
        raise WeftError(f"arguments after -- are those of a Python file, got {options.following}")
    try:
        with hooked(session.hooks), tracing_state.keeping_variables(), session.interruptible():
            status = _python(options) if is_python else emulate.run(options)
    except Quit:
        return _status(session)
    if session.launches == 0 and status == 0:
        raise WeftError(f"{options.file} has launched no kernel in the emulator")
    if session.launches:
        prompt.say(f"{cli.name_of(options.file)} has ended")
    return status or _status(session)


def _status(session: "Session") -> int:
    """1 if there were findings or faults."""
    return int(bool(session.findings or session.errors))


def _python(options: Namespace) -> int:
    """Runs a Python file as the main program, with kernels in the emulator."""
    path = Path(options.file)
    if not path.is_file():
        raise WeftError(f"no file '{options.file}'")
    sys.argv = [options.file, *options.following]
    sys.path.insert(0, str(path.parent.resolve()))
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # without a GPU, calls run in the emulator
    try:
        runpy.run_path(options.file, run_name="__main__")
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)  # as Python does
        return 1
    except WeftError:
        raise
    except Exception as error:  # of the program, not of the debugger
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename != options.file:
            frames = frames.tb_next
        cli.say("".join(traceback.format_exception(type(error), error, frames)))
        return 1
    return 0


_SUMMARY = "break and step through a kernel in the emulator, by lines of its source"
DEBUG = Command("debug", _SUMMARY, _arguments, _run, interactive=True)
