"""wmma in float64, as nvcc makes it, against fused multiply-adds on fractions."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from emulator_ptx import module

KERNEL = """
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c) {{ .reg .b64 %l<4>; .reg .f64 %d<9>;
  ld.param.u64 %l1, [a]; ld.param.u64 %l2, [b]; ld.param.u64 %l3, [c];
  wmma.load.a.sync.aligned.{a}.m8n8k4.global.f64 {{%d1}}, [%l1], 11;
  wmma.load.b.sync.aligned.{b}.m8n8k4.f64 {{%d2}}, [%l2];
  wmma.load.c.sync.aligned.{c}.m8n8k4.global.f64 {{%d3, %d4}}, [%l3], 9;
  wmma.mma.sync.aligned.{a}.{b}.m8n8k4.f64.f64.f64.f64{mode} {{%d5, %d6}}, {{%d1}}, {{%d2}}, {{%d3, %d4}};
  wmma.store.d.sync.aligned.{c}.m8n8k4.global.f64 [%l3], {{%d5, %d6}}, 9;
  ret; }}"""


def laid_out(matrix, layout, stride):
    """The matrix in memory, its rows or columns `stride` elements apart."""
    lines = matrix if layout == "row" else matrix.T
    memory = np.zeros((len(lines), stride))
    memory[:, : lines.shape[1]] = lines
    return memory


@pytest.mark.parametrize("mode", ["", ".rn"])
@pytest.mark.parametrize("layouts", list(itertools.product(("row", "col"), repeat=3)))
def test_products(layouts, mode):
    rng = np.random.default_rng(1)
    a, b, c = (rng.standard_normal(s) * 2.0 ** rng.integers(-20, 20, s) for s in ((8, 4), (4, 8), (8, 8)))
    stored = laid_out(c, layouts[2], 9)
    text = KERNEL.format(a=layouts[0], b=layouts[1], c=layouts[2], mode=mode)
    dense = laid_out(b, layouts[1], 8 if layouts[1] == "row" else 4)
    module(text).launch("k", block=32, args=[laid_out(a, layouts[0], 11), dense, stored])
    got = stored[:, :8] if layouts[2] == "row" else stored[:, :8].T
    for i in range(8):
        for j in range(8):
            total = float(c[i, j])
            for k in range(4):
                total = float(Fraction(float(a[i, k])) * Fraction(float(b[k, j])) + Fraction(total))
            assert got[i, j] == total
