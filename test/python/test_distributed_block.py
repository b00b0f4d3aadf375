"""The benchmark of a block of Llama over several GPUs, on the CPU: both sides have the same results."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs PyTorch")

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "distributed" / "llama_block.py"


@pytest.mark.slow
def test_the_block_of_weft_is_that_of_pytorch():
    run = [sys.executable, str(SCRIPT), "--gpus", "2", "--tokens", "32", "1024"]
    done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{n} tokens: the results are the same" for n in (32, 1024)]
