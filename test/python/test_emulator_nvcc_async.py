"""Asynchronous copies, barriers, clusters and tensor maps as nvcc compiles them, against NumPy."""

import numpy as np
import pytest
from bulk_kernels import map_of
from emulator_corpus import launch, since


def integers(count):
    return np.random.default_rng(5).integers(-1000, 1000, count, np.int32)


@since(0)
def test_grid_wide_sync(chip):
    a, out = integers(64), np.zeros(64, np.int32)
    # The cooperative launch's workspace, which the driver would give.
    launch("warps", chip, "grid_sync", [a.copy(), out, 64], 2)
    np.testing.assert_array_equal(out, a[::-1] * 2)


@since(0)
def test_group_copies(chip):
    a, out = integers(96), np.zeros(96, np.int32)
    launch("pipelines", chip, "group_copy", [a, out, 48], 2)
    np.testing.assert_array_equal(out.reshape(2, 48), a.reshape(2, 48)[:, ::-1])


@since(80)
def test_two_stages(chip):
    a, out = integers(64 * 5), np.zeros(64, np.int32)
    launch("pipelines", chip, "two_stages", [a, out, 5], block=64)
    np.testing.assert_array_equal(out, (a.reshape(5, 64)[:, ::-1] * np.arange(1, 6)[:, None]).sum(axis=0))


@since(80)
def test_barriers_of_the_library(chip):
    a, out = integers(64), np.zeros(64, np.int32)
    launch("pipelines", chip, "barriers", [a, out, 4], block=64)
    want = sum(r + (r + 1) * np.roll(a, -(r + 1)) for r in range(4))
    np.testing.assert_array_equal(out, want)


@since(80)
def test_copies_that_arrive_at_a_barrier(chip):
    a, out = integers(128), np.zeros(128, np.int32)
    launch("pipelines", chip, "barrier_copy", [a, out])
    np.testing.assert_array_equal(out, a[::-1])


@since(80)
def test_producers_and_consumers(chip):
    a, out = integers(32 * 6), np.zeros(32, np.int32)
    launch("pipelines", chip, "roles", [a, out, 6], block=64)
    np.testing.assert_array_equal(out, (a.reshape(6, 32)[:, ::-1] * np.arange(1, 7)[:, None]).sum(axis=0))


@since(90)
def test_bulk_copies(chip):
    a, out = integers(64 * 5), np.zeros(128, np.int32)
    out[64:] = np.arange(64)
    launch("bulk", chip, "copy", [a, out, 5], block=64)
    want = (a.reshape(5, 64)[:, ::-1] * np.arange(1, 6)[:, None]).sum(axis=0)
    np.testing.assert_array_equal(out, np.concatenate([want, want + np.arange(64)]))


@since(90)
def test_bulk_copies_of_the_library(chip):
    a, out = integers(64), np.zeros(64, np.int32)
    launch("bulk", chip, "library", [a, out], block=64)
    np.testing.assert_array_equal(out, a[::-1])


@since(90)
def test_bulk_copies_to_the_other_block(chip):
    a, out = integers(128), np.zeros(128, np.int32)
    launch("bulk", chip, "remote", [a, out], 2, 64)
    np.testing.assert_array_equal(out.reshape(2, 64), a.reshape(2, 64)[::-1, ::-1])


@since(90)
def test_rings_of_blocks(chip):
    a, out = integers(8 * 64), np.zeros(8 * 64, np.int32)
    launch("clusters", chip, "ring", [a, out], 8, 64)
    want = np.roll(a.reshape(2, 4, 64), -1, axis=1)[:, :, ::-1] + 1000 * np.arange(4)[:, None]
    np.testing.assert_array_equal(out.reshape(2, 4, 64), want)


@since(90)
def test_histogram_over_a_cluster(chip):
    a = np.random.default_rng(6).integers(0, 256, 500, np.uint8)
    bins = np.zeros(256, np.int32)
    launch("clusters", chip, "histogram", [a, bins, 500], 2, 64)
    np.testing.assert_array_equal(bins, np.bincount(a, minlength=256))


@since(90)
def test_sums_in_another_blocks_memory(chip):
    a, out = integers(4 * 64), np.zeros(2, np.int32)
    launch("clusters", chip, "split_arrival", [a, out], 4, 64, cluster=2)
    np.testing.assert_array_equal(out, a.reshape(2, 128).sum(axis=1))


@since(90)
def test_tiles_of_tensor_maps(chip):
    x = np.random.default_rng(7).standard_normal((40, 32)).astype(np.float32)
    y = np.zeros((32, 40), np.float32)
    launch(
        "tensor_maps",
        chip,
        "tiles",
        [map_of(x, (16, 16), "FLOAT32"), map_of(y, (16, 16), "FLOAT32")],
        (2, 3),
        64,
    )
    np.testing.assert_array_equal(y, x.T + 1)


# For sm_120a, nvcc's headers make the multicast a call of a function that doesn't exist.
@pytest.mark.parametrize("chip", ["sm_90a", "sm_100a"])
def test_multicast(chip):
    x = np.random.default_rng(8).standard_normal((20, 32)).astype(np.float32)
    out = np.zeros((2, 16, 16), np.float32)
    launch("tensor_maps", chip, "multicast", [map_of(x, (16, 16), "FLOAT32"), out], 2, 64)
    want = np.zeros((16, 16), np.float32)
    want[:12, 4:] = x[8:20, :12]
    np.testing.assert_array_equal(out, [want, want])
