"""Runs the tests: lit over the .mlir files and, at the same time, pytest, which runs the linters too.

lit's output follows that of pytest. `lit` or `pytest` as an argument runs only that suite. `slow` runs the
tests that are otherwise omitted: about an hour of mutated input and of more cases. The lines of Python in
each folder come last. The exit status is 0 only if all tests passed.
"""

import collections
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import warm_tools

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ("python/weft", "dialects", "passes", "tools")

# lit's program, since `python -m lit.main` runs no tests and exits with 0.
SUITES = {
    "lit": [str(Path(sys.executable).parent / "lit"), "-sv", "test"],
    "pytest": [sys.executable, "test/parallel.py" if hasattr(os, "fork") else "-mpytest"],
}
SLOW = {"slow": [*SUITES["pytest"], "-m", "slow"]}
# Beside pytest's processes, which suffice for all cores, lit's use the time in which these wait.
BESIDE = {"lit": [f"-j{max((os.cpu_count() or 1) // 2, 1)}"]}


def lines() -> str:
    """The lines of Python in each folder, the most first."""
    counts = collections.Counter[str]()
    for top in ("dialects", "passes", "python/weft", "test", "tools"):
        for path in (ROOT / top).rglob("*.py"):
            folder = "/".join(path.relative_to(ROOT).parts[:-1][: top.count("/") + 2])
            counts[folder] += path.read_bytes().count(b"\n")
    return "\n".join(f"{count:7,}  {folder}" for folder, count in counts.most_common())


def main(names: list[str]) -> int:
    suites = SUITES | SLOW
    if unknown := sorted(set(names) - set(suites)):
        print(f"suite must be one of {', '.join(suites)}, got '{unknown[0]}'", file=sys.stderr)
        return 1
    # Hundreds of processes import Weft, which takes three times as long without cached bytecode.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    if hasattr(os, "fork"):
        environment[warm_tools.VARIABLE] = warm_tools.start()
    *beside, last = names or SUITES
    with contextlib.ExitStack() as stack:
        running, outputs = {}, {}
        for name in beside:
            outputs[name] = output = stack.enter_context(tempfile.TemporaryFile())
            command = suites[name] + BESIDE.get(name, [])
            running[name] = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT
            )
        print(f"== {last}", flush=True)
        statuses = {last: subprocess.run(suites[last], cwd=ROOT, env=environment, check=False).returncode}
        for name, process in running.items():
            statuses[name] = process.wait()
            print(f"== {name}", flush=True)
            outputs[name].seek(0)
            shutil.copyfileobj(outputs[name], sys.stdout.buffer)
            sys.stdout.flush()
    if failed := [name for name, status in statuses.items() if status]:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    status = main(sys.argv[1:])
    print(f"== lines of Python\n{lines()}", flush=True)
    sys.exit(status)
