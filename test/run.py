"""Runs the tests: lit over the .mlir files, then pytest, which runs the linters too.

`lit` or `pytest` as an argument runs only that suite. `slow` runs the tests that are otherwise omitted: about
an hour of mutated input and of more cases. The exit status is 0 only if all tests passed.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# lit's program, since `python -m lit.main` runs no tests and exits with 0.
SUITES = {
    "lit": [str(Path(sys.executable).parent / "lit"), "-sv", "test"],
    # One process for each core, up to eight because of memory. Idle ones steal tests from others.
    "pytest": [sys.executable, "-m", "pytest", "-n", "auto", "--maxprocesses", "8", "--dist", "worksteal"],
}
SLOW = {"slow": [*SUITES["pytest"], "-m", "slow"]}


def main(names: list[str]) -> int:
    suites = SUITES | SLOW
    if unknown := sorted(set(names) - set(suites)):
        print(f"suite must be one of {', '.join(suites)}, got '{unknown[0]}'", file=sys.stderr)
        return 1
    # Hundreds of processes import Weft, which takes three times as long without cached bytecode.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    failed = []
    for name in names or SUITES:
        print(f"== {name}", flush=True)
        if subprocess.run(suites[name], cwd=ROOT, env=environment, check=False).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
