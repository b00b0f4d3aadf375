"""Products over several GPUs of one host, in a process for each."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

SCRIPT = Path(__file__).with_name("distributed_ranks.py")


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs 2 GPUs")
@pytest.mark.parametrize("size", [2, 4, 8])
def test_products_over_several_gpus(size: int) -> None:
    if torch.cuda.device_count() < size:
        pytest.skip(f"needs {size} GPUs, got {torch.cuda.device_count()}")
    outcomes = run_ranks(size)
    assert all(status == 0 for status, _ in outcomes), "\n".join(text for _, text in outcomes)


def run_ranks(size: int, *arguments: str) -> list[tuple[int, str]]:
    """The exit status and the output of each rank."""
    common = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29534"}
    processes = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), *arguments],
            env=os.environ | common | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        texts = [process.communicate(timeout=240)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, text) for process, text in zip(processes, texts, strict=True)]
