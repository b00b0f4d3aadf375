"""Teams of processes on the CPU, which meet through gloo and one of which emulates the GPUs of all."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs PyTorch")

ROOT = Path(__file__).resolve().parents[2]
DIFFERENT = """
import os, torch, weft
from torch import distributed
from weft.distributed import Team, all_gather_matmul
distributed.init_process_group("gloo")
team = Team()
a = torch.ones(16 + 8 * team.rank, 32, dtype=torch.bfloat16)
try:
    all_gather_matmul(a, torch.ones(32, 16, dtype=torch.bfloat16), team=team)
except weft.WeftError as error:
    os.write(1, f"rank {team.rank}: {error}\\n".encode())
distributed.destroy_process_group()
"""


def processes(count, *command):
    """What processes print together."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(count)}
    common |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    started = [
        subprocess.Popen(
            [sys.executable, *command],
            env=os.environ | common | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(count)
    ]
    try:
        printed = [each.communicate(timeout=200)[0] for each in started]
    finally:
        for each in started:
            each.kill()
    assert all(each.returncode == 0 for each in started), "\n".join(printed)
    return "".join(printed)


@pytest.mark.slow
@pytest.mark.cpu_seconds(120)
def test_several_processes_train_as_one_does():
    options = str(ROOT / "examples/distributed_training.py"), "--steps", "4"
    losses = [
        [float(loss) for loss in re.findall(r"step \d+: loss (\S+)", processes(count, *options))]
        for count in (1, 2)
    ]
    assert len(losses[0]) == len(losses[1]) == 4
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)
    assert losses[0][-1] < 0.95 * losses[0][0]


@pytest.mark.slow
def test_an_error_is_one_of_all_processes():
    found = processes(2, "-c", DIFFERENT)
    for rank in range(2):
        assert re.search(rf"rank {rank}: all ranks must multiply.*16 x 32.*24 x 32", found), found
