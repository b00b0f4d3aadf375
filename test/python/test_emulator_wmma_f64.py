"""Products of float64: `wmma` of nvcc, and `mma.sync` in each rounding, against exact fractions."""

import itertools
import math
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


SYNC = """
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c) {{ .reg .b64 %l<4>; .reg .f64 %d<9>;
  .reg .b32 %r<2>; .reg .b64 %at<3>;
  ld.param.u64 %l1, [a]; ld.param.u64 %l2, [b]; ld.param.u64 %l3, [c];
  mov.u32 %r1, %tid.x; mul.wide.u32 %at1, %r1, 8; mul.wide.u32 %at2, %r1, 16;
  add.u64 %l1, %l1, %at1; add.u64 %l2, %l2, %at1; add.u64 %l3, %l3, %at2;
  ld.global.f64 %d1, [%l1]; ld.global.f64 %d2, [%l2]; ld.global.v2.f64 {{%d3, %d4}}, [%l3];
  mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64{mode} {{%d5, %d6}}, {{%d1}}, {{%d2}}, {{%d3, %d4}};
  st.global.v2.f64 [%l3], {{%d5, %d6}};
  ret; }}"""


def rounded(value, mode):
    """The double on one side of a fraction, or the nearest."""
    nearest = float(value)
    down = mode == ".rm" or (mode == ".rz" and value > 0)
    if mode not in (".rz", ".rm", ".rp") or Fraction(nearest) == value:
        return nearest
    if (Fraction(nearest) > value) == down:
        return math.nextafter(nearest, -math.inf if down else math.inf)
    return nearest


@pytest.mark.parametrize("mode", ["", ".rn", ".rz", ".rm", ".rp"])
def test_mma_sync_rounds_each_sum_as_it_is_told(mode):
    rng = np.random.default_rng(2)
    a, b, c = (rng.standard_normal(s) for s in ((8, 4), (8, 4), (8, 8)))  # b by columns
    got = c.copy()
    module(SYNC.format(mode=mode)).launch("k", block=32, args=[a, b, got])
    for i, j in itertools.product(range(8), repeat=2):
        total = float(c[i, j])
        for k in range(4):
            total = rounded(Fraction(float(a[i, k])) * Fraction(float(b[j, k])) + Fraction(total), mode)
        assert got[i, j] == total
