"""Workspaces of kernels: launches on a stream share one, and it keeps its contents."""

from types import SimpleNamespace

import pytest

from weft.launch import workspace


class Memory(SimpleNamespace):
    """Stands for a DeviceArray."""


@pytest.fixture
def pool():
    made = []

    def allocate(size):
        made.append(Memory(nbytes=size, address=0x1000 * (len(made) + 1)))
        return made[-1]

    return workspace.Pool(allocate)


def test_a_stream_keeps_its_memory_and_shares_it_with_none(pool):
    first = pool.addresses((1, 0), [100, 8])
    assert first == [0x1000, 0x2000]
    assert pool.addresses((1, 0), [100, 8]) == first and pool.addresses((1, 0), [50, 4]) == first
    assert pool.addresses((2, 0), [100, 8]) == [0x3000, 0x4000]
    assert pool.addresses((1, 7), [100, 8]) == [0x5000, 0x6000]  # what a graph captures on the first stream


def test_a_larger_launch_has_memory_of_its_own(pool):
    """What is queued, or captured, goes on with the old."""
    small = pool.addresses((1, 0), [100, 8])
    large = pool.addresses((1, 0), [100, 16])
    assert not set(small) & set(large)
    assert pool.addresses((1, 0), [100, 8]) == small and pool.addresses((1, 0), [90, 12]) == large
