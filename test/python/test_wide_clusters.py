"""Clusters of several pairs, or of several single CTAs, that copy A and B for each other, in the emulator:
what they compute, and faults in their protocol.
"""

from dataclasses import MISSING, dataclass, fields
from functools import cache

import numpy as np
import pytest

import weft
from weft import emulator
from weft.dialects import tile
from weft.dialects.tile import BufferType, FragmentType
from weft.isa.tcgen05 import tensor_layouts
from weft.mlir import arith, ir
from weft.passes.builders import emit, thread_ids
from weft.passes.kernels.cluster import meet_cluster

BLOCKS, STAGES, K, ROWS = 3, 2, 64, 128
THREADS = 256


@dataclass(frozen=True)
class Cluster:
    """`down` x `across` tiles, each of one CTA, or of a pair if `group` is 2. Ranks count the CTAs of a pair
    first, then the tiles of a column.

    The rest are mistakes: `wrong_mask` frees stages of the own tile's CTAs only, `consumers_less` counts too
    few of those who must free a stage, `bytes_less` too few bytes, and without `drains` a CTA may end early.
    """

    down: int
    across: int
    group: int
    wrong_mask: bool = False
    consumers_less: int = 0
    bytes_less: int = 0
    drains: bool = True

    def __str__(self):
        changed = [
            f.name for f in fields(self) if f.default is not MISSING and getattr(self, f.name) != f.default
        ]
        return f"{self.down}x{self.across} of {self.group} {' '.join(changed)}".strip()

    @property
    def ctas(self):
        return self.down * self.across * self.group

    @property
    def columns(self):
        """The columns of B in each CTA: 8 for each CTA that copies a share of them."""
        return max(16 // self.group, 8 * self.down)

    @property
    def n(self):
        """The columns of a tile."""
        return self.columns * self.group

    def mask(self, ranks, first):
        """The mask of some ranks, from a run-time one on."""
        bits = arith.shli(emit.value(sum(1 << rank for rank in ranks)), emit.value(first))
        return arith.trunci(ir.IntegerType.get_signless(16), bits)

    def row_mask(self, row, half):
        """The CTAs that read the same rows of A."""
        ranks = [self.group * self.down * column for column in range(self.across)]
        return self.mask(ranks, emit.add(emit.mul(row, self.group), half))

    def column_mask(self, column, half):
        """The CTAs that read the same columns of B."""
        ranks = [self.group * row for row in range(self.down)]
        return self.mask(ranks, emit.add(emit.mul(column, self.group * self.down), half))


def stages_of(rows):
    layout = f"S[({STAGES},{rows},{K}):({rows * K},{K},1)] xor 128B"
    return tile.alloc(BufferType.of((STAGES, rows, K), ir.F16Type.get(), layout))


class Product:
    """The parts of the kernel D = A * B^T, one tile for each CTA or pair of one cluster."""

    def __init__(self, cluster, a, b, d):
        self.cluster, self.d = cluster, d
        self.a, self.b = stages_of(ROWS), stages_of(cluster.columns)
        self.row_share, self.column_share = ROWS // cluster.across, cluster.columns // cluster.down
        parts = ((self.a, self.row_share), (self.b, self.column_share))
        kinds = [tile.slice_type(tile.stage_type(buffer.type), (rows, K)) for buffer, rows in parts]
        self.map_a, self.map_b = (tile.tensor_map(m, kind) for m, kind in zip((a, b), kinds, strict=True))
        consumers = cluster.down + cluster.across - 1 - cluster.consumers_less
        group = {"cta_group": cluster.group}
        self.ring = tile.make_ring(STAGES, emptied_by="mma", consumers=consumers, **group)
        self.sums = tile.make_ring(1, filled_by="mma", emptied_by="warps", consumers=4, **group)
        rank = thread_ids.cluster_rank()
        self.half, at = emit.rem(rank, cluster.group), emit.div(rank, cluster.group)
        self.row, self.column = emit.rem(at, cluster.down), emit.div(at, cluster.down)

    def start(self, index, size):
        """The first row of this CTA's rows of A, or of B."""
        return emit.mul(emit.add(emit.mul(index, self.cluster.group), self.half), size)

    def copy(self):
        """What a thread of each CTA does: it copies its shares for all CTAs that read them."""
        cluster, zero = self.cluster, emit.value(0)
        in_row = cluster.row_mask(self.row, self.half)
        in_column = cluster.column_mask(self.column, self.half)
        shares = (
            (self.map_a, self.a, self.start(self.row, ROWS), self.column, self.row_share, in_row),
            (
                self.map_b,
                self.b,
                self.start(self.column, cluster.columns),
                self.row,
                self.column_share,
                in_column,
            ),
        )

        def block(number, position):
            stage, phase = position
            tile.acquire(self.ring, stage, phase)
            tile.expect(self.ring, stage, (ROWS + cluster.columns) * K * 2 - cluster.bytes_less)
            full = tile.full_barrier(self.ring, stage)
            for map_, buffer, start, share, rows, mask in shares:
                inside = emit.value(emit.mul(share, rows))
                part = tile.slice_(tile.stage(buffer, stage), inside, zero, (rows, K))
                row, depth = emit.value(emit.add(start, inside)), emit.value(emit.mul(number, K))
                tile.copy_multicast(map_, row, depth, part, full, mask, cta_group=cluster.group)
            return list(tile.advance(self.ring, stage, phase))

        end = emit.loop(0, BLOCKS, 1, [zero, zero], block)
        if cluster.drains:
            tile.drain(self.ring, *end)

    def multiply(self, accumulator):
        """What a thread of each leader does."""
        cluster, zero = self.cluster, emit.value(0)
        masks = []
        if not cluster.wrong_mask:
            halves = range(cluster.group)
            masks = [cluster.row_mask(self.row, half) for half in halves]
            masks += [cluster.column_mask(self.column, half) for half in halves]
        mask = None
        for each in masks:
            mask = each if mask is None else arith.ori(mask, each)

        def block(number, position):
            stage, phase = position
            tile.await_(self.ring, stage, phase)
            a, b = tile.stage(self.a, stage), tile.stage(self.b, stage)
            more = emit.less(0, number)
            tile.gemm_async(a, b, accumulator, more, transpose_b=True, cta_group=cluster.group)
            tile.release(self.ring, stage, mask)
            return list(tile.advance(self.ring, stage, phase))

        tile.acquire(self.sums, zero, zero)
        emit.loop(0, BLOCKS, 1, [zero, zero], block)
        tile.commit(self.sums, zero)

    def store(self, accumulator):
        """What four warps of each CTA do."""
        cluster, zero = self.cluster, emit.value(0)
        layout = f"S[(4,32,{cluster.n}):(1@warpid,1@laneid,1)]"
        tile.await_(self.sums, zero, zero)
        sums = tile.load(
            accumulator, zero, zero, FragmentType.of((ROWS, cluster.n), ir.F32Type.get(), layout)
        )
        row, column = self.start(self.row, ROWS), emit.mul(self.column, cluster.n)
        tile.store(sums, self.d, emit.value(row), emit.value(column), vector_bytes=16)


def module_of(cluster):
    with weft.Module() as module:
        matrices = [weft.memref("?x?", element) for element in ("f16", "f16", "f32")]
        sizes = {"block": (THREADS, 1, 1), "grid": (cluster.ctas, 1, 1), "cluster": (cluster.ctas, 1, 1)}
        with module.kernel("product", matrices, **sizes) as arguments:
            product = Product(cluster, *arguments)
            meet_cluster()
            with tile.tensor_memory(warp=5, cta_group=cluster.group):
                layout = tensor_layouts.accumulator(ROWS * cluster.group, cluster.n, cluster.group)
                accumulator = tile.alloc(BufferType.of((ROWS, cluster.n), ir.F32Type.get(), layout, "tmem"))
                with tile.role(4, warps=1), thread_ids.elected():
                    product.copy()
                with tile.role(5, warps=1), thread_ids.elected():
                    if cluster.group == 2:
                        with thread_ids.leader():
                            product.multiply(accumulator)
                    else:
                        product.multiply(accumulator)
                with tile.role(0, warpgroups=1):
                    product.store(accumulator)
    return module


@cache
def kernel_of(cluster):
    return weft.compile(module_of(cluster), arch="sm_100a")


def multiply(cluster, seed=None):
    """A * B^T, what a cluster computed, and the rules of the findings."""
    chance = np.random.default_rng(0)
    rows, columns = ROWS * cluster.group * cluster.down, cluster.n * cluster.across
    a, b = (chance.integers(-4, 5, (size, K * BLOCKS)).astype(np.float16) for size in (rows, columns))
    d = np.full((rows, columns), np.nan, np.float32)
    try:
        found = kernel_of(cluster).emulate(a, b, d, seed=seed, max_instructions=100_000).findings
    except (emulator.Fault, emulator.Deadlock) as error:
        found = error.findings
    return a.astype(np.float32) @ b.T.astype(np.float32), d, {finding.rule for finding in found}


CLUSTERS = [Cluster(1, 2, 2), Cluster(2, 1, 2), Cluster(2, 2, 2), Cluster(2, 2, 1), Cluster(1, 4, 1)]


@pytest.mark.each_value(1)
@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("cluster", CLUSTERS, ids=str)
def test_ctas_copy_for_each_other(cluster, seed):
    wanted, d, rules = multiply(cluster, seed)
    assert not rules
    np.testing.assert_array_equal(d, wanted)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("cluster", "rule"),
    [
        (Cluster(2, 2, 1, drains=False), "cluster-exit"),
        (Cluster(2, 2, 1, wrong_mask=True), "deadlock"),
        (Cluster(2, 2, 1, consumers_less=1), "async-source-overwritten"),
        (Cluster(2, 2, 2, wrong_mask=True), "deadlock"),
        (Cluster(1, 2, 2, consumers_less=1), "deadlock"),
        (Cluster(2, 1, 2, bytes_less=1024), "async-not-awaited"),
    ],
    ids=str,
)
def test_faults_in_the_protocol_of_a_cluster_are_found(cluster, rule):
    assert rule in multiply(cluster)[-1]
