"""Compiles what callers pass: text and files in a separate process, since MLIR crashes on some of them."""

import contextlib
import json
import os
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from weft import mlir
from weft.cache import disk_cache as cache
from weft.cache import loaded
from weft.compiler import cache_keys, reproducer, stages, worker
from weft.compiler.channels import Message
from weft.compiler.compiled import Compiled, of_entry, to_entry
from weft.dialects import context as new_context
from weft.errors import Diagnostic, Location, WeftError, WeftInternalError, warn
from weft.mlir import ir
from weft.schedules import tuned_files
from weft.system import phase

TIMEOUT_SECONDS = 300.0
NAME = "-"  # what locations in a text without a file call it

_worker = worker.Worker(__name__, "MLIR's process")


def compile_input(
    module: stages.Source,
    arch: str | None,
    *,
    name: str = NAME,
    default: str | None,
    rows: str = "aligned",
    own: bool = False,
    kernel: str | None = None,
) -> Compiled:
    """Compiles a module, a text or a Path as `stages.compile_module` does. Raises WeftError as that does, and
    WeftInternalError for a crash of MLIR or an unexpected exception.
    """
    name = str(module) if isinstance(module, Path) else name
    before = stages.bytecode(module) if own and isinstance(module, ir.Module) else None
    if isinstance(module, (str, Path)) and not phase.shared() and (decides := cache_keys.lowering()):
        with contextlib.suppress(_ChangedError):
            options = {"arch": arch, "name": name, "default": default, "rows": rows, "kernel": kernel}
            return _compiled_apart(module, options, decides)
    try:
        return stages.compile_module(
            module, arch, name=name, default=default, rows=rows, own=own, kernel=kernel
        )
    except WeftError:
        raise
    except Exception as error:
        module = module if before is None else mlir.parse_bytecode(before, new_context(), name)
        raise reproducer.internal_error(error, (name, _text(module))) from error


def check_parses(module: str | Path) -> None:
    """Parses a text or a file in the separate process: a module that is parsed here afterwards doesn't crash
    the parser. Raises WeftError for its mistakes, and WeftInternalError for a crash.
    """
    name = str(module) if isinstance(module, Path) else NAME
    if phase.shared() or (decides := cache_keys.lowering()) is None or not loaded.unchanged():
        return

    def make() -> bytes:
        _asked(module, {"name": name}, "parse")
        return b"parsed"

    content = _content(module)
    key = [name, content, *decides]
    cache.default().get_or_make("parsed", key, make, same=lambda: _content(module) == content)


def _text(module: stages.Source) -> str:
    if isinstance(module, Path):
        return reproducer.text_of(module)
    return module if isinstance(module, str) else str(module)


def _content(module: str | Path) -> str | bytes:
    """The bytes that the other process will read: files that aren't UTF-8 may decode to the same text."""
    try:
        return module.read_bytes() if isinstance(module, Path) else module
    except OSError as failure:
        return f"cannot be read: {failure.strerror}"  # an error, which is never kept


def _compiled_apart(module: str | Path, options: Message, decides: cache.Key) -> Compiled:
    """The result of the separate process, or of an earlier one from the cache."""

    def make() -> bytes:
        if not loaded.unchanged():
            raise _ChangedError
        answer = _asked(module, options)
        entry = to_entry(answer["compiled"])
        if not answer["lasting"]:
            raise _Passing(entry)
        return entry

    content = _content(module)
    key = [json.dumps(options), content, str(tuned_files.asks_files()), *decides]
    try:
        entry = cache.default().get_or_make("llvm", key, make, same=lambda: _content(module) == content)
    except _Passing as passing:
        entry = passing.entry
    return of_entry(entry)


class _ChangedError(Exception):
    """Files have changed: a new process would lower the module with other code than this one's."""


class _Passing(Exception):
    """Carries a result that must not be kept: it depends on more than the cache's key."""

    def __init__(self, entry: bytes) -> None:
        super().__init__()
        self.entry = entry


def _asked(module: str | Path, options: Message, work: str = "compile") -> Message:
    """The other process's answer. Raises the error that was raised there."""
    request = {
        "path": str(module) if isinstance(module, Path) else None,
        "text": None if isinstance(module, Path) else module,
        "folder": str(Path.cwd()),  # what a path is relative to
        "options": options,
        "work": work,
        "environment": {k: v for k, v in os.environ.items() if k.startswith("WEFT_")},
    }
    try:
        answer, _ = _worker.ask(request, TIMEOUT_SECONDS)
    except TimeoutError:
        what = f"{options['name']}: MLIR didn't finish within {TIMEOUT_SECONDS:g} s"
        raise WeftError(what) from None
    except worker.DeathError as death:
        text = options["name"], _text(module)
        raise reproducer.crash(death.cause, death.phase, death.said, text) from None
    for message in answer["warnings"]:
        warn(message)
    if "error" in answer:
        kind = WeftInternalError if answer["internal"] else WeftError
        raise kind(*map(_diagnostic, answer["error"]))
    return answer


def _diagnostic(plain: Message) -> Diagnostic:
    location = plain["location"] and Location(**plain["location"])
    return Diagnostic(plain["message"], location, plain["severity"], tuple(map(_diagnostic, plain["notes"])))


def serve(opened: list[str]) -> None:
    """Answers requests in the separate process."""
    worker.serve(_answer, opened)


def _answer(request: Message) -> Message:
    for name in [name for name in os.environ if name.startswith("WEFT_")]:
        del os.environ[name]
    os.environ.update(request["environment"] | {"WEFT_CACHE": "0"})  # the parent process has the cache
    os.chdir(request["folder"])
    module = request["text"] if request["path"] is None else Path(request["path"])
    options = request["options"]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        phase.enter(f"reading {options['name']}")
        try:
            answer = _WORK[request["work"]](module, **options)
        except WeftError as error:
            answer = {"error": [asdict(d) for d in error.diagnostics], "internal": False}
        except Exception as error:
            failure = reproducer.internal_error(error, (options["name"], _text(module)))
            answer = {"error": [asdict(d) for d in failure.diagnostics], "internal": True}
    return answer | {"warnings": [str(warning.message) for warning in said]}


def _compile(module: str | Path, **options: Any) -> Message:
    compiled = stages.compile_module(module, **options)
    return {"compiled": compiled.record(), "lasting": stages.decides_all(compiled.module())}


def _parse(module: str | Path, name: str) -> Message:
    if isinstance(module, Path):
        mlir.parse_file(module, new_context())
    else:
        mlir.parse(module, new_context(), name)
    return {}


_WORK: dict[str, Callable[..., Message]] = {"compile": _compile, "parse": _parse}
