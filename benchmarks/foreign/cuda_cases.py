"""Cooperative groups and CUB by nvcc, against NumPy. Needs nvcc of CUDA 13 in the path, or as WEFT_NVCC."""

import os
import subprocess
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import harness
import numpy as np
from harness import Case, Results

SOURCE = Path(__file__).parent / "cooperative.cu"
CHIPS = ("80", "90a", "100a", "120a")
X = np.random.default_rng(5).integers(-99, 99, 256).astype(np.int32)


def _tiles(x: np.ndarray) -> np.ndarray:
    tiles = x.reshape(-1, 16)
    return (tiles.sum(1) + tiles.max(1)).repeat(16)


def _coalesced(x: np.ndarray) -> np.ndarray:
    warps = x.reshape(-1, 32) > 0
    return np.where(warps, warps.sum(1, keepdims=True) * 100 + warps.cumsum(1) - 1, -1).ravel()


def _labels(x: np.ndarray) -> np.ndarray:
    return np.concatenate([[sum(w[(w & 3) == (v & 3)]) for v in w] for w in x.reshape(-1, 32)])


BLOCKS = X.reshape(2, 128)
EXPECTED = {
    "group_reduce": _tiles(X),
    "group_scan": X.reshape(-1, 32).cumsum(1).ravel(),
    "coalesced": _coalesced(X),
    "labels": _labels(X),
    "copied": BLOCKS[:, ::-1].ravel(),
    "block_reduce": BLOCKS.sum(1),
    "block_scan": (BLOCKS.cumsum(1) - BLOCKS).ravel(),
    "block_sort": np.sort(X),
    "warp_max": X.reshape(-1, 32).max(1),
}


@cache
def compiled(chip: str) -> str:
    nvcc = os.environ.get("WEFT_NVCC", "nvcc")
    flags = ["-std=c++17", "-O3", "--ptx", "-w", f"-arch=compute_{chip}", "-o", "-"]
    made = subprocess.run([nvcc, *flags, SOURCE], capture_output=True, text=True, check=False)
    if made.returncode:
        raise RuntimeError(made.stderr[-400:])
    return made.stdout


def case(name: str, chip: str) -> Results:
    want = EXPECTED[name].astype(np.int32)
    y = np.zeros_like(want)
    harness.launch(harness.parse(compiled(chip)), name, (1 if name == "block_sort" else 2,), 128, [X, y])
    yield y, want, 0.0


def cases() -> Iterator[Case]:
    for chip in CHIPS:
        for name in EXPECTED:
            yield f"{name} sm_{chip}", partial(case, name, chip)
