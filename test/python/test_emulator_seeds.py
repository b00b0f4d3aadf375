"""Kernels of other compilers have no finding in any order that a few seeds produce."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CORPUS = ("nvcc_async", "nvcc_control", "nvcc_library", "numba", "triton", "triton_more", "cute")


def run(file, seeds=4):
    """Runs the default tests of a file with the plugin; its output."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n0",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "emulator_seeds",
        file,
    ]
    setting = {"WEFT_SEEDS": str(seeds), "PYTHONPATH": str(HERE)}
    done = subprocess.run(
        command, cwd=HERE, env=os.environ | setting, capture_output=True, text=True, timeout=1800
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", CORPUS)
def test_seeds_find_nothing_in_kernels_of_other_compilers(name):
    code, output = run(f"test_emulator_{name}.py")
    assert code == 0, output[-4000:]
    (tried,) = re.findall(r"(\d+) launches with a seed", output)
    assert int(tried) >= 8


ONLY_SOMETIMES = """
import numpy as np
from weft import emulator

def test_it():
    text = '''.version 8.6
    .target sm_80
    .address_size 64
    .visible .entry k(.param .u64 p) {
      .reg .b64 %l1; .reg .b32 %r<3>; .reg .pred %p<3>; .shared .b32 s; .shared .b32 t;
      ld.param.u64 %l1, [p]; mov.u32 %r0, %tid.x; setp.ne.u32 %p1, %r0, 32; setp.eq.u32 %p2, %r0, 0;
      @%p2 st.shared.u32 [t], 0; @%p2 st.shared.u32 [s], 0; bar.sync 0; @%p1 bra FIRST;
      atom.shared.exch.b32 %r1, [t], 1; setp.ne.u32 %p1, %r1, 2; @%p1 bra END;
      st.shared.u32 [s+64], 1;
    FIRST: @%p2 atom.shared.exch.b32 %r1, [t], 2;
    END: ret;
    }'''
    report = emulator.Module(text).launch("k", block=64, args=[np.zeros(4, np.uint32)])
    assert report.findings == ()
"""


@pytest.mark.slow
def test_the_plugin_notices_what_only_a_seed_shows(tmp_path):
    path = tmp_path / "test_sometimes.py"
    path.write_text(ONLY_SOMETIMES)
    assert run(str(path), seeds=0)[0] == 0
    code, output = run(str(path), seeds=8)
    assert code == 1
    assert "out-of-bounds" in output
