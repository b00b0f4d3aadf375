"""Runs a kernel of the language on both paths of the emulator, through ptxas, and on the GPU if there is one.

An input begins with a comment that has a chip: `# sm_90a`. On a GPU, kernels are compiled for its own chip.
"""

import os
import random
import sys
import tempfile
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

CHIPS = ("sm_70", "sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a")
TESTS = Path(__file__).parents[1] / "python"
FILE = "random_program.py"
_ASSEMBLED = 4
"""One of how many kernels also goes through ptxas."""


def begin() -> None:
    """Imports what launches need."""
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
    import numpy  # noqa: F401

    from weft import emulator  # noqa: F401
    from weft.emulator.compiled import plan, runtime  # noqa: F401

    plan.addresses()  # which each process would compile


def chip_line(chance: random.Random) -> str:
    """The first line of an input."""
    return f"# {chance.choice(CHIPS)}{', ptxas' if chance.randrange(_ASSEMBLED) == 0 else ''}"


def ways(text: str) -> list[tuple[str, Callable[..., None]]]:
    """Names and functions that launch a kernel with arrays, for the chip of an input."""
    chip, _, ptxas = text.partition("\n")[0].removeprefix("# ").partition(", ")

    def emulated(compiled: bool) -> Callable[..., None]:
        def launch(kernel: Any, *arrays: Any) -> None:
            os.environ["WEFT_EMULATOR_COMPILED"] = str(int(compiled))
            findings = kernel.emulate(*arrays, arch=chip).findings
            assert not findings, findings

        return launch

    def assembled(kernel: Any, *arrays: Any) -> None:
        assert kernel.compile(*arrays, arch=chip).cubin
        emulated(False)(kernel, *arrays)

    # A GPU's toolkit may have no ptxas for older chips, and its own chip's is used there.
    first = assembled if ptxas and not has_gpu() else emulated(False)
    found = [("the interpreter", first), ("compiled code", emulated(True))]
    return found + ([("the GPU", _on_gpu)] if has_gpu() else [])


def has_driver() -> bool:
    """Whether this machine has an NVIDIA GPU, which this process may not be able to use."""
    return Path("/dev/nvidiactl").exists()


def has_gpu() -> bool:
    from weft.launch import runtime

    reason = runtime.available()
    assert reason is None or not has_driver(), reason
    return reason is None


def _on_gpu(kernel: Any, *arrays: Any) -> None:
    kernel(*arrays, on="gpu")


def check(text: str, run: Callable[[Any, Callable[..., None]], Sequence[str]], **known: Any) -> str:
    """Runs an input in all ways. `run` gets its module and a launch, and returns what differs from the
    expected; `known` are names in the module.
    """
    # The language reads the source.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / FILE
        path.write_text(text, "utf-8")
        module = sys.modules["random_program"] = types.ModuleType("random_program")
        module.__dict__.update(known, __file__=str(path))
        exec(compile(text, str(path), "exec"), module.__dict__)
        for name, launch in ways(text):
            differ = run(module, launch)
            assert not differ, f"on {name}, these differ: {', '.join(differ)}"
    return "agreed"
