"""`weft tune --gpus`: processes that share products."""

from argparse import ArgumentParser
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import pytest
import tuning_work
from bench_fakes import SMALL

from weft.bench import compiling, gpu
from weft.bench.compiling import product_of
from weft.errors import WeftError
from weft.schedules.database import Entry
from weft.tools import tune
from weft.tuning import gpus, tuner
from weft.tuning.gpus import Found
from weft.tuning.tuner import SEARCHED

OWN = "{block = array<i64: 64, 64, 128>, warpgroups = 1, stages = 6}"


def options(line):
    parser = ArgumentParser()
    tune._arguments(parser)
    return parser.parse_args(line.split())


@pytest.mark.slow
def test_each_process_has_a_gpu_and_failures_are_told(monkeypatch):
    found = list(gpus.search(["3", "5"], tuning_work.visible))
    assert sorted(found, key=lambda each: each.number) == [Found(0, "3", []), Found(1, "5", [])]
    found = list(gpus.search(["3", "5"], tuning_work.failing))
    assert sorted(map(str, found)) == [
        "Found(number=1, line='line', remarks=[])",
        "GPU 3: no schedule",
        "the process of GPU 5 has ended with status 7",
    ]


def test_processes_begin_with_their_own_share(monkeypatch):
    assert gpus.order(1, 3, 7, again=False) == [1, 4, 0, 2, 3, 5, 6]
    assert gpus.order(1, 3, 7, again=True) == [1, 4]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert gpus.names(2, 4) == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "6,2,4")
    assert gpus.names(2, 3) == ["6", "2"]
    with pytest.raises(WeftError, match="--gpus must be at most 3, the number of GPUs, got 4"):
        gpus.names(4, 3)


def test_each_product_is_printed_once(monkeypatch, tmp_path, capfd):
    line = Entry(
        product_of(SMALL, "sm_90a"), OWN, 2.0, {"model": {"schedule": OWN, "microseconds": 3.0}}
    ).line()
    sent = [Found(0, line, []), Found(1, None, ["no schedule fits"]), Found(0, line, []), "GPU 1: lost"]
    monkeypatch.setattr(tune, "_check_gpu", lambda: None)
    monkeypatch.setattr(tune, "_count_gpus", lambda: 2)
    asked = []
    monkeypatch.setattr(gpus, "search", lambda visible, work: asked.append((visible, work)) or iter(sent))
    given = options(f"512x512x512 64x64x64 8x8x16 --gpus 2 --database {tmp_path / 'kept'}")
    assert tune._run(given) == 1
    out = capfd.readouterr().out.splitlines()
    assert out[0] == f"2 GPUs; results go to {tmp_path / 'kept'}"
    assert sum(each.startswith("512x512x512") for each in out) == 1
    assert out[3].startswith("64x64x64") and out[3].endswith("no schedule fits")
    assert "GPU 1: lost" in out and out[-1].startswith("8x8x16") and out[-1].endswith(SEARCHED)
    ((visible, work),) = asked
    assert len(visible) == 2 and isinstance(work, partial) and work.func is tune._share


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("square --gpus 0", "--gpus must be at least 1; got 0"),
    ],
)
def test_wrong_numbers_of_gpus_are_named(tmp_path, line, message):
    with pytest.raises(WeftError, match=message):
        tune._run(options(f"{line} --database {tmp_path / 'kept'}"))


class Tuner:
    """Finds an entry for what no other process searches."""

    searched: list

    def __init__(self, *given):
        pass

    def tune(self, problem, product, following, progress):
        self.searched.append((problem.shape, len(following)))
        if problem.m == 64:
            return None, [SEARCHED]
        if problem.m == 8:
            raise WeftError("no schedule fits")
        return Entry(product, "s", 2.0, {}), []


def test_a_process_sends_what_it_finds(monkeypatch, tmp_path):
    described = {"name": "H200", "chip": "sm_90a"}
    monkeypatch.setattr(gpu, "TorchGpu", lambda: SimpleNamespace(describe=lambda: described))
    monkeypatch.setattr(compiling, "Compiler", lambda jobs: nullcontext())
    monkeypatch.setattr(tuner, "Tuner", Tuner)
    Tuner.searched, sent = [], []
    given = options(f"512x512x512 64x64x64 8x8x16 --gpus 2 --database {tmp_path / 'kept'}")
    tune._share(given, 1, sent.append)
    assert Tuner.searched == [("64x64x64", 1), ("512x512x512", 1), ("8x8x16", 0)]
    assert [(each.number, each.line is None, each.remarks) for each in sent] == [
        (0, False, []),
        (2, True, ["no schedule fits"]),
    ]
