"""Runs the tests: lit over the .mlir files, then pytest, which runs the linters too.

`lit` or `pytest` as an argument runs that one alone, `slow` the tests that take minutes, which are left out
otherwise: about an hour of mutated input and more cases of what the others test. The exit status is 0 only if
all that ran passed.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# The program, since `python -m lit.main` runs nothing and exits 0.
SUITES = {
    "lit": [str(Path(sys.executable).parent / "lit"), "-sv", "test"],
    # A process per core, which takes tests from others when its own are done; beyond eight memory is short.
    "pytest": [sys.executable, "-m", "pytest", "-n", "auto", "--maxprocesses", "8", "--dist", "worksteal"],
}
SLOW = {"slow": [*SUITES["pytest"], "-m", "slow"]}


def main(names: list[str]) -> int:
    suites = SUITES | SLOW
    if unknown := sorted(set(names) - set(suites)):
        print(f"no suite '{unknown[0]}': there is {', '.join(suites)}", file=sys.stderr)
        return 1
    # Hundreds of processes import Weft, which takes three times as long where no bytecode may be kept.
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
