"""Random kernels of tiles and vectors compute what NumPy does."""

import pytest
from language_programs import Program

CHIPS = ("sm_80", "sm_90a", "sm_100a", "sm_120a")


@pytest.mark.parametrize(
    "seed", [*range(16), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(16, 200))]
)
def test_random_kernels_compute_what_numpy_does(seed, tmp_path):
    program = Program(seed)
    findings, differ = program.run(tmp_path, CHIPS[seed % len(CHIPS)])
    assert not findings and not differ, f"{findings}\n{differ}\n{program.text}"
