"""What tests of products over several emulated GPUs have in common."""

import functools

import ml_dtypes
import numpy as np

from weft import emulator
from weft.dialects.schedule import WarpgroupSchedule
from weft.distributed import gather
from weft.launch.kernel import Kernel

SMALL = WarpgroupSchedule(block=(64, 32, 64), warpgroups=1, stages=2)
M, N, K = 72, 32, 64

WAYS = ["copies", "kernel", "product"]
"""What sends rows: copy engines, a kernel before the product, or the product's kernel."""


def send_by(monkeypatch, way):
    """All rows are sent in this way, few as they are."""
    monkeypatch.setattr(gather, "_MOST_SENT", 1 << 20 if way == "product" else -1)
    monkeypatch.setattr(gather, "_MOST_PUSHED", 1 << 20 if way == "kernel" else -1)
    monkeypatch.setattr(gather, "_FEWEST_TILES", 1)
    monkeypatch.setattr(gather, "_SLICE", M * K)  # two slices for each other rank


def numbers(*shape, seed, dtype=ml_dtypes.bfloat16):
    """Small whole numbers, whose sums are exact."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def product(a, b):
    """A @ B, where B is N x K."""
    return (a.astype(np.float32) @ b.astype(np.float32).T).astype(a.dtype)


def rules(report):
    return sorted({finding.rule for finding in report.findings})


def with_ptx(monkeypatch, old, new):
    """Kernels that run in a world have changed PTX."""

    @functools.cache
    def changed(text):
        return emulator.Module(text.replace(old, new))

    launch = Kernel.emulate_on

    def emulate_on(self, stream, *args):
        kernel = Kernel(self.compiled, self.launch)
        kernel.__dict__["_module"] = changed(self.ptx)
        launch(kernel, stream, *args)

    monkeypatch.setattr(Kernel, "emulate_on", emulate_on)
