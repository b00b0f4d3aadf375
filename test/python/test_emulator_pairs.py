"""The CTAs of a cluster that form a pair."""

import numpy as np
import pytest

from weft import emulator
from weft.emulator.instructions.tcgen05_order import pair_of
from weft.emulator.memory.device import Device
from weft.emulator.running.ctas import Grid, Launch, Slots
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.wave import Wave


def lanes(ctas, cluster):
    launch = Launch((ctas, 1, 1), (32, 1, 1), 0, 0, "hardware", (cluster, 1, 1))
    wave = Wave(launch, Slots(), Device(), list(range(ctas)), Grid(launch))
    return Lanes.of(wave, np.ones((ctas, 32), np.bool_))


def test_neighbors_with_an_even_rank_first():
    every = lanes(8, 4)
    assert [pair_of(every, cta, 2, 1) for cta in range(8)] == [(cta & ~1, cta | 1) for cta in range(8)]
    assert [pair_of(every, cta, 1, 1) for cta in range(8)] == [(cta,) for cta in range(8)]


def test_the_last_of_an_odd_cluster_has_no_peer():
    every = lanes(6, 3)
    assert pair_of(every, 4, 2, 1) == (3, 4)
    for cta in (2, 5):
        with pytest.raises(emulator.Fault, match="needs a pair of CTAs, but the cluster has 3"):
            pair_of(every, cta, 2, 1)
