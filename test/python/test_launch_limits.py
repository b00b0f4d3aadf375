"""The limits of a launch on every chip: values at a limit are accepted, values beyond it refused."""

import pytest

from weft.isa.launch_limits import block_complaint, grid_complaint, size_complaint

MOST = 2**31 - 1


@pytest.mark.parametrize("block", [(1, 1, 1), (1024, 1, 1), (1, 1024, 1), (4, 4, 64)])
def test_blocks_up_to_the_limits_are_taken(block):
    assert block_complaint(block) is None


@pytest.mark.parametrize(
    "block, said",
    [
        ((1025, 1, 1), "block must be in 1..1024 on x, got 1025: (1025, 1, 1)"),
        ((1, 1025, 1), "block must be in 1..1024 on y, got 1025: (1, 1025, 1)"),
        ((1, 1, 65), "block must be in 1..64 on z, got 65: (1, 1, 65)"),
        ((1, 0, 1), "block must be in 1..1024 on y, got 0: (1, 0, 1)"),
        ((5, 5, 41), "block must have at most 1024 threads, got 1025: (5, 5, 41)"),
        ((1, 1), "block must be three integers (x, y, z), got 2: (1, 1)"),
        (
            (2**64, 1, 1),
            "block must be in 1..1024 on x, got a number of 65 bits: (a number of 65 bits, 1, 1)",
        ),
    ],
)
def test_blocks_beyond_a_limit_are_refused(block, said):
    assert block_complaint(block) == said


def test_grids_have_more_ctas_on_x_than_on_y_and_z():
    assert grid_complaint((MOST, 65535, 65535)) is None
    assert grid_complaint((MOST + 1, 1, 1)) == f"grid must be in 1..{MOST} on x, got {2**31}: ({2**31}, 1, 1)"
    assert grid_complaint((1, 65536, 1)) == "grid must be in 1..65535 on y, got 65536: (1, 65536, 1)"
    assert grid_complaint((1, 1, 65536)) == "grid must be in 1..65535 on z, got 65536: (1, 1, 65536)"


def test_sizes_are_positive_and_of_31_bits():
    assert size_complaint(1) is None and size_complaint(MOST) is None
    for size in (0, MOST + 1):
        assert size_complaint(size) == f"sizes must be in 1..{MOST}, got {size}"
    assert size_complaint(2**64 - 1) == f"sizes must be in 1..{MOST}, got {2**64 - 1}"
