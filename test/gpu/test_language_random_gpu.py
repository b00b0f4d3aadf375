"""Random kernels of `weft.language` compute on the GPU what NumPy and Python do."""

import language_programs
import numpy as np
import pytest
import statement_programs
from gpu_marks import GPU

import weft

pytestmark = GPU
PTXAS_LOST_A_NEGATION = 12000201
"""A seed whose kernel has the maximum of three negated numbers."""


def on_gpu(kernel, *arrays):
    kernel(*arrays, on="gpu")


@pytest.mark.parametrize("seed", [PTXAS_LOST_A_NEGATION, *range(1000, 1200)])
def test_random_kernels_compute_what_numpy_does(seed, tmp_path):
    program = language_programs.Program(seed)
    differ = program.differing(tmp_path, on_gpu)
    assert not differ, f"{differ}\n{program.text}"


@pytest.mark.parametrize("seed", range(1000, 1200))
def test_random_statements_compute_what_python_does(seed, tmp_path):
    program = statement_programs.Program(seed)
    try:
        found, expected = program.launched(tmp_path, on_gpu)
    except (weft.WeftError, AttributeError):  # the test of the emulator examines refusals
        return
    assert np.array_equal(found, expected), program.text
