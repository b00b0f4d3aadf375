"""Random kernels of Python's statements compute what Python computes, or are refused at a line."""

import traceback

import numpy as np
import pytest
from statement_programs import Program

import weft

CHIPS = ("sm_90a", "sm_80")
FAST = 48


@pytest.mark.parametrize(
    "seed", [*range(FAST), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(FAST, 500))]
)
def test_random_statements_compute_what_python_does(seed, tmp_path):
    program, file = Program(seed), str(tmp_path / "random_statements.py")
    try:
        found, expected = program.run(tmp_path, CHIPS[seed % len(CHIPS)])
    except weft.WeftError as error:
        where = error.diagnostics[0].location
        assert where is not None and where.file == file, error
        return
    except AttributeError as error:  # of an object with slots, in a side of a branch that Python doesn't take
        assert traceback.extract_tb(error.__traceback__)[-1].filename == file
        return
    assert np.array_equal(found, expected), program.text


def test_most_programs_run():
    """Python runs most of these programs, so that they compare something."""
    assert sum(Program(seed).in_python() is not None for seed in range(FAST)) > FAST // 2
