"""What every command-line tool shares: reading and writing files, and reporting mistakes as MLIR does."""

import json
import math
import os
import re
import sys
import warnings
from argparse import Action, ArgumentError, ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent
from typing import IO, Any, NoReturn

from weft.errors import BEGINS_WITH_MARK, BYTE_ORDER_MARK, Diagnostic, Location, WeftError
from weft.ir import mlir_text
from weft.isa.suggest import did_you_mean
from weft.system import output_files, processes

Record = dict[str, Any]
"""An object of JSON."""
STDIN = "<stdin>"
_PTX = re.compile(r"^\s*\.(version|target)\b", re.MULTILINE)

# What was read of the user's, by the name that locations give it: diagnostics quote it.
_texts: dict[str, str] = {}

# Where another process looks for what was read first, as JSON, should this one die.
_kept: IO[bytes] | None = None


class UsageError(WeftError):
    """A command line that can't be read; the exit status is 2."""


class Parser(ArgumentParser):
    """An argument parser whose complaints are UsageErrors, and which takes no abbreviations."""

    def _check_value(self, action: Action, value: object) -> None:
        try:
            super()._check_value(action, value)
        except ArgumentError as error:
            error.message += did_you_mean(str(value), map(str, action.choices or ()))
            raise

    def print_help(self, file: object = None) -> None:
        """Raises WeftError where stdout takes nothing, which argparse ignores."""
        say(self.format_help().removesuffix("\n"))

    def unknown(self, arguments: Sequence[str]) -> NoReturn:
        """Ends with the complaint about arguments that nothing takes."""
        name, known = arguments[0].partition("=")[0], self._option_string_actions
        self.error(f"unrecognized arguments: {' '.join(arguments)}{did_you_mean(name, known)}")

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def declare(parser: ArgumentParser, table: str) -> None:
    """Declares the arguments and options of a table, a line each, with what it is for after two blanks.

    `--json` is a switch, `--arch CHIP` takes a text, `--jobs N:int` an integer, `--on {gpu,emulator}` one of
    these words. `--arg VALUE*` may be repeated, `--files FILE+` takes several. A default follows ` = `.
    `file FILE.mlir` is an argument; `[file]` may be missing, `what*` may be any number of them.
    """
    for row in re.split(r"\n(?=\S)", dedent(table).strip()):
        spelled, _, text = row.partition("  ")
        spelled, _, default = spelled.partition(" = ")
        names = re.split(",? ", spelled)
        value = names.pop() if len(names) > 1 else ""
        how: Record = {"help": " ".join(text.split())}
        if value.startswith("{"):
            how["choices"] = tuple(value[1:-1].split(","))
        elif value:
            how["metavar"] = value.rstrip("+*").removesuffix(":int")
        if value.endswith(":int"):
            how["type"] = int
        if default:
            how["default"] = how.get("type", str)(default)
        if not names[0].startswith("-"):
            how |= {"]": {"nargs": "?"}, "*": {"nargs": "*"}}.get(names[0][-1], {})
        elif not value:
            how["action"] = "store_true"
        elif value[-1] in "+*":
            how |= {"default": []} | ({"nargs": "+"} if value[-1] == "+" else {"action": "append"})
        parser.add_argument(*(name.strip("[]*") for name in names), **how)


def guarded(tool: str, body: Callable[[], int]) -> int:
    """The exit status of `body`; a WeftError from it is printed and gives 1, a UsageError 2.

    Any other exception is a defect of Weft: it is reported as one, with a reproducer, and gives 1.
    """
    try:
        with _warnings_told_by(tool):
            status = body()
        _to_stdout(b"")
        return status
    except WeftError as error:
        report(error.diagnostics, tool)
        return 2 if isinstance(error, UsageError) else 1
    except BrokenPipeError:
        _abandon_stdout()
        return 141
    except KeyboardInterrupt:
        tell_interrupted(tool)
        return 130
    except Exception as error:
        from weft.compiler import reproducer

        report(reproducer.internal_error(error, first_read()).diagnostics, tool)
        return 1


def tell_interrupted(tool: str) -> None:
    """Prints that the user has ended the work, in one line."""
    if sys.stderr is not None:
        print(f"{tool}: interrupted", file=sys.stderr)


def first_read() -> tuple[str, str] | None:
    """The name and the text of the user's first file."""
    return next(iter(_texts.items()), None)


def keep_for_crash(file: IO[bytes] | None) -> None:
    """From now on, what the report of a crash needs goes into `file`, for `Kept.read` in another process."""
    global _kept
    _kept = file


def keep_reproducer(path: str, text: str | None) -> None:
    """Has a crash write `text` to the file at `path`; None takes that back."""
    _keep("reproducer", path, text)


def _keep(what: str, name: str, text: str | None) -> None:
    if _kept is not None:
        with suppress(OSError):  # a full disk
            _kept.write(json.dumps((what, name, text)).encode() + b"\n")
            _kept.flush()


@dataclass(frozen=True)
class Kept:
    """What a process has kept for the case that it crashes: names and texts."""

    first_read: tuple[str, str] | None = None
    reproducer: tuple[str, str] | None = None

    @classmethod
    def read(cls, file: IO[bytes] | None) -> "Kept":
        """What another process has kept in `file`."""
        if file is None:
            return cls()
        file.seek(0)
        texts: dict[str, tuple[str, str] | None] = {}
        for line in file.read().splitlines():
            what, name, text = json.loads(line)
            texts[what] = None if text is None else (name, text)
        return cls(texts.get("first_read"), texts.get("reproducer"))


@contextmanager
def _warnings_told_by(tool: str) -> Iterator[None]:
    """Prints Python's warnings as messages: the line of Weft's that raised one means nothing to a user."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        report([Diagnostic(str(message), severity="warning")], tool)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def report(diagnostics: Iterable[Diagnostic], tool: str) -> None:
    """Prints messages to stderr as MLIR does, each with its source line and a caret under the column."""
    if sys.stderr is None:
        return
    for diagnostic in diagnostics:
        print("\n".join(_lines(diagnostic, tool)), file=sys.stderr)


def _lines(diagnostic: Diagnostic, tool: str = "", shown: Location | None = None) -> list[str]:
    """What is printed of a message; its source line, unless that is at the location which was `shown`."""
    location = diagnostic.location
    prefix = f"{location}: " if location else f"{tool}: " if tool else ""
    printed = [f"{prefix}{diagnostic.severity}: {diagnostic.message}"]
    if location is not None and location != shown:
        text = _text_of(location.file).split("\n")
        if 1 <= location.line <= len(text) and text[location.line - 1].strip():
            line = text[location.line - 1].rstrip("\r")
            before = line[: max(location.column - 1, 0)]
            printed += [line, "".join("\t" if c == "\t" else " " for c in before) + "^"]
    for note in diagnostic.notes:
        printed += _lines(note, shown=location)
    return printed


def _text_of(file: str) -> str:
    """The text of a file that a location names, or nothing where it can't be had."""
    if file in _texts:
        return _texts[file]
    if not Path(file).is_file():
        return ""
    try:
        return Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def read(path: str, *, python: bool = False) -> str:
    """The text of a file, or of stdin for `-`, which may be MLIR's bytecode, or with `python` a program.
    Raises WeftError where there is none to be had.
    """
    if path == "-" and sys.stdin is None:
        raise WeftError("cannot read: stdin is closed")
    if path.encode("utf-8", "replace") != os.fsencode(path):
        raise WeftError(f"cannot read {path!r}: its name is no UTF-8 text")  # MLIR wants names to be
    if path.endswith(".py") and not python:
        raise WeftError(
            f"'{path}' is a program of Python: run it, or step through it by weft debug; kernels of "
            "weft.language are printed by kernel.show(…) and written by kernel.export(…)"
        )
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as failure:
        raise WeftError(f"cannot read '{path}': {failure.strerror}") from None
    if data.startswith(mlir_text.BYTECODE):
        from weft import mlir
        from weft.dialects import context

        module = mlir.parse_bytecode(data, context(), name_of(path))
        data = str(module.operation.get_asm(enable_debug_info=True)).encode()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as failure:
        line = data.count(b"\n", 0, failure.start) + 1
        raise WeftError(f"cannot read '{name_of(path)}': no UTF-8 text in line {line}") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise WeftError(f"cannot read '{name_of(path)}': no text but a zero byte in line {line}")
    name = name_of(path)
    if not _texts:
        _keep("first_read", name, text)
    _texts[name] = text
    if text.startswith(BYTE_ORDER_MARK) and not python:
        raise WeftError(Diagnostic(BEGINS_WITH_MARK, Location(name_of(path), 1, 1)))
    return text


def is_ptx(path: str, text: str) -> bool:
    """Whether a file is PTX rather than MLIR: by its name, or by its text where the name doesn't tell."""
    suffix = Path(path).suffix
    return suffix == ".ptx" or (suffix != ".mlir" and bool(_PTX.search(text)))


def name_of(path: str) -> str:
    """What messages call the input at `path`."""
    return STDIN if path == "-" else path


@contextmanager
def speaking_of(name: str) -> Iterator[None]:
    """Errors that leave the block call a text that was parsed from memory `name`."""
    try:
        yield
    except WeftError as error:
        raise WeftError(*(renamed(d, "-", name) for d in error.diagnostics)) from None


def renamed(diagnostic: Diagnostic, before: str, after: str) -> Diagnostic:
    """The diagnostic and its notes, where locations in the file `before` are in the file `after`."""
    location = diagnostic.location
    if location is not None and location.file == before:
        location = replace(location, file=after)
    notes = tuple(renamed(note, before, after) for note in diagnostic.notes)
    return replace(diagnostic, location=location, notes=notes)


def write(path: str, data: str | bytes) -> None:
    """Writes a file whole or not at all; `-` is stdout. Raises WeftError where it can't be written."""
    raw = data.encode("utf-8") if isinstance(data, str) else data
    if path == "-":
        _to_stdout(raw)
        return
    _refused(path, lambda target: output_files.write(target, raw))


def check_least(options: Namespace, **least: int) -> None:
    """Raises WeftError for an option, by its name, that is less than the least legal number."""
    for name, bound in least.items():
        if (value := getattr(options, name)) is not None and value < bound:
            raise WeftError(f"--{name} must be at least {bound}; got {value}")


def check_writable(path: str) -> None:
    """Raises WeftError where `write` would, as far as a check that leaves no file can find it."""
    _refused(path, output_files.check_writable)


def _refused(path: str, action: Callable[[Path], None]) -> None:
    try:
        action(Path(path))
    except OSError as failure:
        raise processes.refusal(f"cannot write '{path}'", failure) from None


def say_json(value: object) -> None:
    """Prints a value as one JSON document; numbers that aren't finite, which JSON lacks, as null."""
    say(json.dumps(_finite(value), indent=2, ensure_ascii=False))


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def say(text: str) -> None:
    """Prints a text to stdout."""
    _to_stdout(f"{text}\n".encode(sys.stdout.encoding if sys.stdout else "utf-8", "replace"))


def _to_stdout(raw: bytes) -> None:
    """Writes after what was printed, so that a full disk is noticed here."""
    if sys.stdout is None:
        raise WeftError("cannot write: stdout is closed")
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(raw)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as failure:
        _abandon_stdout()
        raise WeftError(f"cannot write stdout: {failure.strerror}") from None


def _abandon_stdout() -> None:
    """Discards what stdout still buffers: otherwise Python would complain again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
