"""Mutation testing of `isa`, `emulator` and `passes`: which small changes of the source no test notices.

    pip install coverage
    python test/mutation/run.py cover --processes 2       which tests run which lines; build/mutation has it
    python test/mutation/run.py try --count 500 --seed 1  mutants at random, each in a copy of the checkout

`try` runs the tests that run a mutant's line, the quickest first, until one fails; then what tests all passes
or all tables at once. It prints the survivors and leaves all outcomes in build/mutation/outcomes-SEED.jsonl,
where a later run goes on; `--names FILE` tries the mutants that a file names. A survivor is a test to write,
unless the change makes no difference: `equivalent.txt` lists those, each with its reason.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import mutants
from mutants import Mutant

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "mutation"
EQUIVALENT = Path(__file__).parent / "equivalent.txt"
_MOST_TESTS = 40
_QUICK_SECONDS = 2.0
_PATIENCE_SECONDS = 100
_ALL_PASSED = 0  # a status of pytest


def cover(processes: int) -> None:
    """Runs the default tests with coverage, each process some files of them."""
    BUILD.mkdir(parents=True, exist_ok=True)
    for old in BUILD.glob("lines-*.json"):
        old.unlink()
    files = sorted((ROOT / "test" / "python").glob("test_*.py"))
    running = []
    for number in range(processes):
        out = BUILD / f"lines-{number}.json"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n0",
            "-p",
            "no:cacheprovider",
            "-p",
            "line_contexts",
        ]
        place = {"PYTHONPATH": str(Path(__file__).parent), "WEFT_MUTATION_LINES": str(out)}
        command += map(str, files[number::processes])
        running.append(subprocess.Popen(command, cwd=ROOT, env=os.environ | place))
    for process in running:
        process.wait()


def tests_by_line() -> tuple[dict[str, dict[int, list[str]]], dict[str, float]]:
    """For each file and line the tests that run it, and the seconds of each test."""
    found: dict[str, dict[int, list[str]]] = {}
    seconds: dict[str, float] = {}
    for path in sorted(BUILD.glob("lines-*.json")):
        said = json.loads(path.read_text())
        seconds |= said["seconds"]
        for file, lines in said["lines"].items():
            into = found.setdefault(file, {})
            for line, names in lines.items():
                into.setdefault(int(line), []).extend(names)
    return found, seconds


def tests_of(mutant: Mutant, lines: dict[int, list[str]], seconds: dict[str, float]) -> list[str]:
    """Tests that run a mutant's line, the quickest first. For a line that runs when the file is imported,
    those that run the most lines of it. One case of each test comes before further cases.
    """
    own = lines[mutant.line]
    if own:
        ordered = sorted(own, key=lambda test: seconds.get(test, 0.0))
    else:
        run_by = Counter(test for names in lines.values() for test in names)
        ordered = [test for test, _ in run_by.most_common() if seconds.get(test, 0.0) < _QUICK_SECONDS]
    first: dict[str, str] = {}
    for test in ordered:
        first.setdefault(test.partition("[")[0], test)
    return [*dict.fromkeys([*first.values(), *ordered])][:_MOST_TESTS]


def copy(number: int) -> Path:
    """A copy of the checkout's files, with the links of an editable install, in which mutants are made."""
    made = BUILD / f"copy-{number}"
    shutil.rmtree(made, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, made / name)
    for name in ("dialects", "passes", "tools"):
        (made / "python" / "weft" / name).symlink_to(f"../../{name}")
    # Bytecode of the rest, so that a mutant costs little more than its tests.
    pytest(made, "--collect-only", keep_bytecode=True)
    return made


def pytest(place: Path, *arguments: str, keep_bytecode: bool = False) -> subprocess.CompletedProcess[str]:
    """Runs pytest over a copy; raises TimeoutExpired."""
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *arguments]
    return run(place, command, keep_bytecode)


def run(place: Path, command: list[str], keep_bytecode: bool = False) -> subprocess.CompletedProcess[str]:
    """Runs a command over a copy; raises TimeoutExpired."""
    environment = os.environ | {
        "PYTHONPATH": str(place / "python"),
        "WEFT_CACHE_DIR": str(place / "cache"),
        "PYTHONDONTWRITEBYTECODE": "" if keep_bytecode else "1",
    }
    return subprocess.run(
        command,
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_SECONDS,
        check=False,
    )


def outcome(mutant: Mutant, tests: list[str], place: Path) -> str:
    """What the tests say of a mutant in a copy of the checkout: "killed", "survived" or "timeout"; "broken"
    where the test that fails does so without the mutant, too.
    """
    try:
        with _changed(place / mutant.path, mutant.text):
            done = pytest(place, "-x", *tests)
            if done.returncode == _ALL_PASSED and not _passes_the_rest(mutant.path, place):
                return "killed"
    except subprocess.TimeoutExpired:
        return "timeout"
    if done.returncode == _ALL_PASSED:
        return "survived"
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+\.py(?:::\w+)?)", done.stdout, re.MULTILINE)
    if failed and failed[0] not in _sound and pytest(place, *failed[:1]).returncode != _ALL_PASSED:
        return "broken"
    _sound.update(failed[:1])
    return "killed"


def _passes_the_rest(path: str, place: Path) -> bool:
    """Whether what tests all of a folder at once says nothing either: lit's files, pages made from tables."""
    if path.startswith("passes/"):
        return run(place, [str(Path(sys.executable).parent / "lit"), "-q", "test/passes"]).returncode == 0
    if path.startswith("python/weft/isa/"):
        whole = ("test_isa_docs.py", "test_recertify.py")
        return pytest(place, "-x", *(f"test/python/{name}" for name in whole)).returncode == _ALL_PASSED
    return True


@contextlib.contextmanager
def _changed(file: Path, text: str) -> Iterator[None]:
    """Has another text in a file for a while, and a time by which no bytecode is taken for its own."""
    kept, times = file.read_text("utf-8"), file.stat()
    file.write_text(text, "utf-8")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns + 10**12))
    try:
        yield
    finally:
        file.write_text(kept, "utf-8")
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


_sound: set[str] = set()
"""Tests that have passed in a copy without a mutant."""


def attempt(count: int, seed: int, names: Path | None, processes: int) -> int:
    """Tries mutants at random, or those that a file names, and prints what came of them; the exit status is 1
    where one survived.
    """
    lines, seconds = tests_by_line()
    equivalent = set(_listed(EQUIVALENT))
    every = [m for path in sorted(lines) for m in mutants.of_file(ROOT, path) if m.line in lines[path]]
    if names:
        wanted = set(_listed(names))
        picked = [mutant for mutant in every if str(mutant) in wanted]
    else:
        picked = mutants.chosen(every, count, seed)
    log = BUILD / f"outcomes-{names.stem if names else seed}.jsonl"
    known = dict(map(json.loads, log.read_text().splitlines())) if log.exists() else {}
    places: SimpleQueue[Path] = SimpleQueue()
    for number in range(processes):
        places.put(copy(number))

    def one(mutant: Mutant) -> tuple[str, str]:
        if (name := str(mutant)) in known:
            return name, known[name]
        place = places.get()
        try:
            result = outcome(mutant, tests_of(mutant, lines[mutant.path], seconds), place)
        finally:
            places.put(place)
        with log.open("a") as file:
            file.write(json.dumps([name, result]) + "\n")
        return name, result

    with ThreadPoolExecutor(processes) as pool:
        found = list(pool.map(one, picked))
    lines_of = {str(mutant): mutant.line for mutant in picked}
    survivors = [name for name, result in found if result == "survived" and name not in equivalent]
    for name in survivors:
        print(f"line {lines_of[name]} of {name}")
    print(f"{len(found)} of {len(every)} mutants, {len(survivors)} survived")
    return 1 if survivors else 0


def _listed(path: Path) -> list[str]:
    """The mutants that a file names."""
    return [line for line in path.read_text("utf-8").splitlines() if line and not line.startswith("#")]


def main() -> int:
    parser = argparse.ArgumentParser(description="Which small changes of the source no test notices.")
    commands = parser.add_subparsers(dest="command", required=True)
    covering, trying = commands.add_parser("cover"), commands.add_parser("try")
    trying.add_argument("--count", type=int, default=500)
    trying.add_argument("--seed", type=int, default=1)
    trying.add_argument("--names", type=Path, help="a file of mutants, a line each, instead of a choice")
    for each in (covering, trying):
        each.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if options.command == "cover":
        cover(options.processes)
        return 0
    return attempt(options.count, options.seed, options.names, options.processes)


if __name__ == "__main__":
    sys.exit(main())
