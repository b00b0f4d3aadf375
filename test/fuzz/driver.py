"""Runs random inputs of a kind in processes that may die, counts what came of them, and minimizes failures.

A kind is a module of this folder with two functions: `make(number)` returns the input of that number, the
same in every run, as text; `attempt(text)` gives it to what is tested and returns the outcome in a word
("compiled", "refused"). A `WeftError` is an outcome; the module catches it. Every other exception is a
failure, as are the death of the process and a wait of more than `PATIENCE_SECONDS`. A module may have
`begin()`, called once before all, which imports what is slow to import; it must start no thread, since
every attempt runs in a forked process. Where what is tested may crash but must tell it, `after_death(text)`
attempts an input once more that has killed a process, and returns or raises as `attempt` does.

A test calls `run`. By hand: `python test/fuzz/driver.py KIND --seconds 60 --first 1000`, or `--only 1234`
to see the input of one number and what comes of it, or `--minimize 1234`.
"""

import argparse
import dataclasses
import importlib
import json
import os
import re
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import everywhere

sys.path.append(str(Path(__file__).parents[1]))
warm_tools = importlib.import_module("warm_tools")
sys.path.pop()

SECONDS = 4.0  # of one kind, unless told otherwise
PATIENCE_SECONDS = 20.0  # of a processor, for one input; what takes longer hangs
MEMORY_BYTES = 12 << 30  # of address space for a process of attempts
_SHARE = 4  # how many times as long an input may wait on a machine that has other work
_BATCH = 400  # inputs of one process, so that what they leave behind in it stays small
_GRACE_SECONDS = 120.0  # for imports, and for a last input that hangs
MINIMIZING_SECONDS = 20.0  # of each of the first failures
MINIMIZED = 3  # failures at most
_DETAIL = 4000  # characters of what a dying process said


def slow_seconds() -> float:
    """How long a slow test runs its kind: `WEFT_FUZZ_SECONDS`, or a ninth of an hour for each of nine."""
    return float(os.environ.get("WEFT_FUZZ_SECONDS", "400"))


@dataclass(frozen=True)
class Failure:
    """An input that got no answer: its `kind` is "abort", "hang" or "traceback". `text` may be minimized."""

    number: int
    kind: str
    detail: str
    text: str

    def __str__(self) -> str:
        return f"input {self.number}: {self.kind}\n{self.text}\n{self.detail}"

    @property
    def sign(self) -> tuple[str, str]:
        """What is the same of another input that fails alike: the signal, or the exception, its function and
        how its message begins, which may go on with values.
        """
        if self.kind != "traceback":
            return self.kind, self.detail.partition("\n")[0]
        place = re.findall(r"File \".*?([^/]*)\", line \d+, in (.*)", self.detail)[-1:]
        raised = re.findall(r"^(\w[\w.]*)(?:: (?:\S*/\S*: )?(.{,25})|$)", self.detail, re.MULTILINE)[-1:]
        return self.kind, f"{raised} {place}"


@dataclass
class Report:
    """How many inputs had each outcome, the first of each, and those that failed."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    firsts: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The inputs that were tried."""
        return self.outcomes.total() + len(self.failures)

    def __str__(self) -> str:
        kinds = Counter(failure.kind for failure in self.failures)
        lines = [f"{self.count} inputs"]
        for name, count in (self.outcomes + kinds).most_common():
            first = self.firsts.get(name)
            lines.append(f"{count:7} {name}" + ("" if first is None else f" (first: {first})"))
        return "\n".join([*lines, *map(str, self.failures)])


def run(
    kind: str,
    *,
    seconds: float,
    first: int = 0,
    count: int | None = None,
    patience: float = PATIENCE_SECONDS,
) -> Report:
    """Tries the inputs from `first` on until the time is over or `count` were tried; nothing is cached."""
    given = {"seconds": seconds, "first": first, "count": count, "patience": patience}
    command = [warm_tools.folder() / "warm-python", __file__, kind, "--json"]
    command += [f"--{name}={value}" for name, value in given.items() if value is not None]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        timeout=seconds + _GRACE_SECONDS + MINIMIZED * MINIMIZING_SECONDS,
        env=os.environ | {"WEFT_CACHE": "0"},
        check=True,
    )
    record = json.loads(done.stdout)
    failures = [Failure(**each) for each in record["failures"]]
    return Report(Counter(record["outcomes"]), failures, record["firsts"])


class _Process:
    """A forked process that attempts the inputs of `numbers` and answers one line of JSON for each."""

    def __init__(self, make: Callable[[int], str], attempt: Callable[[str], str], numbers: range) -> None:
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._answers, theirs = os.pipe()
        self._buffer = b""
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._answers)
            _attempt_all(make, attempt, numbers, theirs, self._said.fileno())
        os.close(theirs)

    def answer(self, patience: float) -> dict[str, str] | None:
        """The next answer, or None where the process died. Raises TimeoutError.

        The process has so many seconds of a processor; where it gets less of one, as many times as long.
        """
        deadline, spent = time.monotonic() + patience * _SHARE, self._processor_seconds()
        while b"\n" not in self._buffer:
            if not select.select([self._answers], [], [], min(1.0, patience))[0]:
                if time.monotonic() > deadline or self._processor_seconds() > spent + patience:
                    raise TimeoutError
                continue
            if not (data := os.read(self._answers, 1 << 16)):
                return None
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        found: dict[str, str] = json.loads(line)
        return found

    def _processor_seconds(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # its own, and its dead children's

    def end(self) -> str:
        """Ends it; returns its status and its last words."""
        os.close(self._answers)
        os.kill(self._pid, signal.SIGKILL)  # a dead one keeps the status that it had
        status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        self._said.seek(0)
        words = self._said.read().decode(errors="replace")
        self._said.close()
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        return f"{how}\n{words[-_DETAIL:]}"


def _attempt_all(
    make: Callable[[int], str], attempt: Callable[[str], str], numbers: range, answers: int, said: int
) -> None:
    """The forked process: never returns."""
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    os.dup2(said, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not everywhere.has_driver():  # CUDA reserves more addresses than that
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    for number in numbers:
        os.ftruncate(said, 0)
        os.lseek(said, 0, os.SEEK_SET)
        try:
            answer = {"outcome": attempt(make(number))}
        except BaseException:
            answer = {"traceback": traceback.format_exc()[-_DETAIL:]}
        os.write(answers, json.dumps(answer).encode() + b"\n")
    os._exit(0)


def supervise(kind: Any, first: int, count: int | None, seconds: float, patience: float) -> Report:
    """Tries the inputs of a module, as `run`, and minimizes the first failures."""
    report, deadline, number = Report(), time.monotonic() + seconds, first
    end = sys.maxsize if count is None else first + count
    while number < end and time.monotonic() < deadline:
        batch = range(number, min(number + _BATCH, end))
        number = _attempt_batch(kind, kind.attempt, batch, deadline, patience, report)
    for at, failure in enumerate(report.failures[:MINIMIZED]):
        report.failures[at] = minimized(kind, failure, patience, time.monotonic() + MINIMIZING_SECONDS)
    return report


def _attempt_batch(
    kind: Any, attempt: Any, batch: range, deadline: float, patience: float, report: Report
) -> int:
    """Enters what comes of the batch's inputs, up to the first that ends their process; returns the next."""
    process = _Process(kind.make, attempt, batch)
    number, failed = batch.start, None
    for number in batch:
        try:
            answer = process.answer(patience)
        except TimeoutError:
            failed = "hang"
            break
        if answer is None:
            failed = "abort"
            break
        if "traceback" in answer:
            report.failures.append(_failure(kind, number, "traceback", answer["traceback"]))
        else:
            report.outcomes[answer["outcome"]] += 1
            report.firsts.setdefault(answer["outcome"], number)
        if time.monotonic() >= deadline:
            break
    words = process.end()
    again = getattr(kind, "after_death", None)
    if failed == "abort" and again is not None and attempt != again:
        return _attempt_batch(kind, again, range(number, number + 1), deadline, patience, report)
    if failed is not None:
        report.failures.append(_failure(kind, number, failed, words))
    return number + 1


def _failure(kind: Any, number: int, failed: str, detail: str) -> Failure:
    return Failure(number, failed, detail, kind.make(number))


# Minimizing


class _Given:
    """A kind with one input."""

    def __init__(self, kind: Any, text: str) -> None:
        self.attempt, self._text = kind.attempt, text
        if hasattr(kind, "after_death"):
            self.after_death = kind.after_death

    def make(self, _: int) -> str:
        return self._text


def minimized(kind: Any, failure: Failure, patience: float, deadline: float) -> Failure:
    """The same failure of the fewest and shortest lines, as far as the time suffices."""

    def failing(lines: list[str]) -> Failure | None:
        if time.monotonic() > deadline:
            return None
        given, report = _Given(kind, "\n".join(lines)), Report()
        _attempt_batch(given, given.attempt, range(1), deadline, patience, report)
        return next((each for each in report.failures if each.sign == failure.sign), None)

    best, lines, before = failure, failure.text.splitlines(), []
    while lines != before:
        before, size = lines, len(lines)
        while size > 0:
            at = 0
            while at < len(lines):
                fewer = lines[:at] + lines[at + size :]
                if (found := failing(fewer)) is not None:
                    lines, best = fewer, found
                else:
                    at += size
            size //= 2
        at = 0
        while at < len(lines):
            for shorter in _shorter(lines[at]):
                changed = [*lines[:at], shorter, *lines[at + 1 :]]
                if (found := failing(changed)) is not None:
                    lines, best = changed, found
                    break
            else:
                at += 1
    return dataclasses.replace(best, number=failure.number)


def _shorter(line: str) -> Iterator[str]:
    """A line without some of its parts, or with the contents of parentheses in place of what they are in."""
    if line.startswith("@"):  # a predicate of PTX
        yield line.partition(" ")[2]
    parts = line.split("; ")
    for at in range(len(parts)):
        yield "; ".join(parts[:at] + parts[at + 1 :])
    pairs, opened = [], []
    for at, letter in enumerate(line):
        if letter == "(":
            opened.append(at)
        elif letter == ")" and opened:
            pairs.append((opened.pop(), at + 1))
    for begin, end in sorted(pairs, key=lambda pair: pair[0] - pair[1]):
        yield line[:begin] + "(1)" * (line[begin:end] != "(1)") + line[end:]
        for first, last in pairs:
            if begin < first and last < end:
                yield line[:begin] + line[first:last] + line[end:]


def main() -> None:
    """The command line; see the module's text."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", help="a module of this folder")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int)
    parser.add_argument("--patience", type=float, default=PATIENCE_SECONDS)
    parser.add_argument(
        "--only", type=int, help="one number: its input, and what comes of it in this process"
    )
    parser.add_argument("--minimize", type=int, help="one number: the least of its input that fails alike")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("WEFT_CACHE", "0")
    sys.path.insert(0, str(Path(__file__).parent))
    kind = importlib.import_module(options.kind)
    getattr(kind, "begin", lambda: None)()
    if options.only is not None:
        text = kind.make(options.only)
        print(text, flush=True)
        print(kind.attempt(text))
        return
    if options.minimize is not None:
        options.first, options.count = options.minimize, 1
    report = supervise(kind, options.first, options.count, options.seconds, options.patience)
    if options.json:
        failures = [vars(failure) for failure in report.failures]
        print(json.dumps(vars(report) | {"failures": failures}))
    else:
        print(report)


if __name__ == "__main__":
    main()
