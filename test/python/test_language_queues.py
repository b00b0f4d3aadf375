"""Orders in which persistent CTAs compute their tiles, and queues from which they take them."""

import numpy as np
import pytest
from language_kernels import doubled

import weft
import weft.language as w
from weft.attend import tiles
from weft.attend.kernels.order import by_length, longest_first


@pytest.mark.each_value(1)
@pytest.mark.parametrize("shape", [(320, 64), (64, 32), (130, 96)])
@pytest.mark.parametrize("one_thread, arch", [(False, "sm_90a"), (True, "sm_90a"), (True, "sm_80")])
def test_each_tile_is_taken_once(shape, one_thread, arch):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    tiles = -(-shape[0] // 64) * -(-shape[1] // 32)
    count = np.zeros(1, np.int32)
    for seed in (0, 1):  # the first launch leaves the counter at 0
        y, times = np.zeros_like(x), np.zeros(tiles + 1, np.int32)
        report = doubled.emulate(x, y, times, count, one_thread=one_thread, seed=seed, arch=arch)
        assert not report.findings, report.findings[0]
        assert np.array_equal(y, 2 * x) and count[0] == 0
        assert np.all(times[:-1] == 1) and times[-1] == tiles


def test_a_tile_that_takes_long_delays_none_behind_it():
    """The first one waits for all others but that for which its CTA has asked."""

    @w.kernel(grid=lambda times: times.rows, persistent=1)
    def counted(times: w.Out["tiles", w.i32], done: w.Out["one", w.i32], count: w.Out["one", w.i32]):
        queue = w.tile_queue(count[0])
        with w.role():
            for tile in queue:
                if w.thread() == 0:
                    if tile == 0:
                        while done[0].loaded() < times.rows - 2:
                            w.atomic_add(done[0], 0)
                    w.atomic_add(done[0], 1)
                    times[tile] = w.cta() + 1
                w.warpgroup_barrier()

    times, done, count = np.zeros(20, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
    report = counted.emulate(times, done, count, sanitize=False)
    assert done[0] == 20 and count[0] == 0 and np.all(times > 0), report
    assert np.count_nonzero(times == times[0]) == 2


@w.kernel(grid=lambda x: x.rows, persistent=lambda *, persists=True: 1 if persists else None)
def wrong(x: w.In["m", w.i32], y: w.Out["m", w.i32], z: w.Out["m", w.f32], *, what, persists=True):
    element = {"read": x[0], "type": z[0], "number": 3}.get(what, y[0])
    if what == "late":
        with w.role():
            w.tile_queue(element)
    queue = w.tile_queue(element)
    if what == "no role":
        for _ in queue:
            pass
    with w.role():
        for _ in queue:
            pass
        if what == "twice":
            for _ in queue:
                pass
    with w.role():
        for _ in w.range(2):
            if what == "inside":
                for _ in queue:
                    pass


MISTAKES = {
    "read": "counter must be an element of a w.Out of w.i32, got ",
    "type": "counter must be an element of a w.Out of w.i32, got ",
    "number": "counter must be an element of an array, such as count\\[0\\], got 3",
    "late": "a queue of tiles must be made before the first role",
    "no role": "the tiles of w.tile_queue must be taken in a role",
    "twice": "a role can take the tiles of w.tile_queue in one loop only",
    "inside": "the loop over w.tile_queue must be the outermost one",
}


@pytest.mark.parametrize("what", MISTAKES)
def test_mistakes(what):
    with pytest.raises(weft.WeftError, match=MISTAKES[what]):
        wrong.compile(what=what)


def test_kernels_that_are_not_persistent():
    with pytest.raises(weft.WeftError, match=r"w.tile_queue is for persistent kernels"):
        wrong.compile(what="", persists=False)


def test_a_persistent_kernel_needs_a_counter():
    @w.kernel(grid=4, persistent=1)
    def kernel(y: w.Out["n", w.f32]):
        w.tile_queue()

    with pytest.raises(
        weft.WeftError, match=r"needs a counter, w.tile_queue\(count\[0\]\): pass one, or leave"
    ):
        kernel.compile(arch="sm_100a")


@w.kernel(
    grid=lambda x, M, N, ctas: (x.size("b") * ctas, x.rows // M, x.columns // N), cluster=lambda ctas: ctas
)
def launched(
    x: w.In["b m n", w.f32], y: w.Out["b m n", w.f32], times: w.Out["tiles", w.i32], *, M, N, ctas=1
):
    """Doubles tiles, of which each CTA of a cluster has some rows, and counts how often each is computed."""
    queue, ring = w.tile_queue(), w.ring(2, x=(M // ctas, N, x.dtype))
    with w.role(), w.one_thread():
        for b, m, n in queue:
            rows = m * M + b % ctas * (M // ctas)
            ring.fill(x=x[b // ctas, rows, n * N])
    with w.role():
        for b, m, n in queue:
            rows = m * M + b % ctas * (M // ctas)
            with ring.take() as stage:
                w.store(w.load(stage.x) * 2.0, y[b // ctas, rows, n * N])
            if w.thread() == 0:
                w.atomic_add(times[(n * w.ceil_div(x.rows, M) + m) * x.size("b") * ctas + b], 1)


@pytest.mark.parametrize("arch, ctas", [("sm_100a", 1), ("sm_100a", 2), ("sm_120a", 2), ("sm_90a", 1)])
def test_tiles_of_clusters_that_have_not_started(arch, ctas):
    x = np.random.default_rng(0).standard_normal((3, 256, 96)).astype(np.float32)
    y, times = np.zeros_like(x), np.zeros(3 * 2 * 3 * ctas, np.int32)
    report = launched.emulate(x, y, times, M=128, N=32, ctas=ctas, arch=arch)
    assert not report.findings, report.findings[0]
    assert np.array_equal(y, 2 * x) and np.all(times == 1)
    assert ("try_cancel" in launched.compile(M=128, N=32, ctas=ctas, arch=arch).ptx) == (arch != "sm_90a")


def test_ctas_of_a_persistent_kernel_loop_over_their_tiles():
    @w.kernel(grid=lambda y: y.rows, persistent=1, threads=32)
    def kernel(y: w.Out["n", w.f32], *, by_number=False):
        if by_number:
            for i in w.range(w.cta(), y.rows, w.ctas()):
                y[i] = 1.0
        else:
            y[w.cta()] = 1.0

    y = np.zeros(40, np.float32)
    kernel.emulate(y, by_number=True)
    assert y.all()
    with pytest.raises(weft.WeftError, match=r"is persistent: its CTAs must loop over"):
        kernel.emulate(y)


def test_chips_without_mbarriers():
    @w.kernel(grid=4, persistent=1)
    def kernel(y: w.Out["n", w.f32], count: w.Out["one", w.i32]):
        queue = w.tile_queue(count[0])
        with w.role():
            for i in queue:
                y[i] = 1.0

    with pytest.raises(weft.WeftError, match=r"needs sm_80 or later, got sm_75: use w\.tiles there"):
        kernel.compile(arch="sm_75")


def with_order(order, persistent=1):
    """A kernel that writes the CTA of each tile, and counts its visits."""

    @w.kernel(
        grid=lambda z: (z.size("c"), z.size("b"), z.size("a")),
        persistent=None if persistent is None else lambda: persistent,
        threads=32,
    )
    def visits(z: w.Out["a b c", w.i32], mine: w.Out["a b c", w.i32]):
        for x, y, batch in w.tiles(order=order):
            if w.thread() == 0:
                z[batch, y, x] = z[batch, y, x] + 1
                mine[batch, y, x] = w.cta()

    return visits


def last_first(number, counts):
    """The last tile of each row first."""
    tiles, rows, _ = counts
    row = number // tiles
    return tiles - 1 - number % tiles, row % rows, row // rows


def test_tiles_in_another_order():
    z, mine = np.zeros((2, 2, 3, 7), np.int32)
    with_order(last_first).emulate(z, mine)
    assert np.all(z == 1)
    assert np.array_equal(mine[..., ::-1].ravel(), np.arange(42) % (mine.max() + 1))


@pytest.mark.parametrize(
    "order, persistent, message",
    [
        (lambda number, counts: number, 1, r"order must return 3 coordinates, a tuple, got"),
        (3, 1, "order must be a function of a number and of the grid's numbers, got 3"),
        (last_first, None, "order is for persistent kernels: write @w.kernel.grid=…, persistent=1."),
    ],
)
def test_wrong_orders(order, persistent, message):
    with pytest.raises(weft.WeftError, match=message):
        with_order(order, persistent).compile()


@w.kernel(grid=lambda z: (z.size("c"), z.size("b"), z.size("a")), persistent=1, threads=32)
def visits(z: w.Out["a b c", w.i32], mine: w.Out["a b c", w.i32]):
    """Counts the visits of each tile, and writes its CTA."""
    for x, y, batch in w.tiles(order=by_length):
        if w.thread() == 0:
            z[batch, y, x] = z[batch, y, x] + 1
            mine[batch, y, x] = w.cta()


@pytest.mark.each_value(2)
@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 7), (5, 7, 12), (1, 2, 40)])
def test_tiles_by_length_are_complete_and_fair(shape):
    z, mine = np.zeros((2, *shape), np.int32)
    visits.emulate(z, mine)
    assert np.all(z == 1)
    lengths = np.broadcast_to(np.arange(shape[2]) + 1, shape)
    work = np.bincount(mine.ravel(), lengths.ravel())
    assert work.max() <= lengths.sum() / (mine.max() + 1) + shape[2]


@w.kernel(grid=lambda z: (z.size("c"), z.size("b"), z.size("a")), threads=32)
def numbered(z: w.Out["a b c", w.i32]):
    """Writes the number of the CTA of each tile."""
    counts = [w.ctas(axis) for axis in range(3)]
    x, head, batch = longest_first(counts, 256)
    if w.thread() == 0:
        z[batch, head, x] = w.cta(0) + counts[0] * (w.cta(1) + counts[1] * w.cta(2))


@pytest.mark.parametrize("shape", [(1, 2, 3), (2, 3, 100), (1, 2, 300)])
def test_the_longest_tiles_of_a_section_come_first(shape):
    numbers = np.full(shape, -1, np.int32)
    numbered.emulate(numbers)
    heads, size = shape[0] * shape[1], max(256 // shape[2], 1)
    sections = [range(first, min(first + size, heads)) for first in range(0, heads, size)]
    wanted = [(head, x) for section in sections for x in range(shape[2]) for head in section]
    found = [divmod(int(at), shape[2]) for at in np.argsort(numbers.ravel())]
    assert found == wanted and np.array_equal(np.sort(numbers.ravel()), np.arange(numbers.size))


def test_short_sequences_of_wide_heads_take_smaller_blocks():
    chosen = {n: tiles.forward(256, 256, n, causal=True, window=False)["N"] for n in (1024, 4096)}
    assert chosen == {1024: 64, 4096: 80}


def test_long_sequences_take_tiles_of_keys_in_sections():
    by_size = {d: tiles.adding(d, d, window=True, capped=False) for d in (64, 128)}
    taken = {d: [tiles.section(n, by_size[d]) for n in (1024, 4096, 16384)] for d in by_size}
    assert taken == {64: [0, 128, 512], 128: [0, 256, 256]}


def test_long_sequences_take_tiles_by_length():
    by_size = {d: tiles.forward(d, d, 4096, causal=True, window=False) for d in (64, 128, 256)}
    assert tiles.causal_order(by_size[64], 4096, 4096) == {"by_length": True, "paired": False}
    assert tiles.causal_order(by_size[128], 16384, 16384) == {"by_length": True, "paired": False}
    for d, queries, keys in ((64, 4000, 4096), (64, 4096, 40_000), (128, 4096, 4096), (256, 16384, 16384)):
        assert tiles.causal_order(by_size[d], queries, keys) == {"by_length": False, "paired": True}
