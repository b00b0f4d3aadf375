"""The ranks of blocks in random flow graphs, by which the scheduler chooses threads."""

import numpy as np
import pytest

from weft.emulator.decoding import program


def reach(successors):
    """Whether there is a way of one edge or more from a node to another, `[from, to]`."""
    count = len(successors)
    way = np.zeros((count, count), bool)
    for node, after in enumerate(successors):
        way[node, after] = True
    for through in range(count):
        way |= way[:, through, None] & way[through]
    return way


@pytest.mark.parametrize("seed", range(40))
def test_ranks_follow_the_flow_and_keep_loops_together(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 12))
    successors = [rng.integers(0, count, rng.integers(0, 3)).tolist() for _ in range(count)]
    entry = int(rng.integers(0, count))
    rank, way = program.ranks(successors, entry), reach(successors)
    assert sorted(rank) == list(range(count))
    live = [n for n in range(count) if n == entry or way[entry, n]]
    assert max(rank[n] for n in live) == len(live) - 1
    for node in live:
        for after in successors[node]:
            assert rank[node] < rank[after] or way[after, node]
        loop = [rank[n] for n in live if way[node, n] and way[n, node]]
        assert not loop or max(loop) - min(loop) == len(loop) - 1
