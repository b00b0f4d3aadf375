"""Code of the host copies boxes as the interpreter does, and refuses what breaks a rule."""

from collections import Counter

import numpy as np
import pytest
from random_copies import around, kernel, launch

from weft.emulator.compiled import boxes
from weft.emulator.sanitizer.checker import Sanitizer
from weft.emulator.sanitizer.global_memory import COLUMN_BITS
from weft.emulator.sanitizer.shadow import BLOCK_SHIFT, READ_BY_THREADS

SHARED = ("writer", "written", "write_line", "read_line", "reads", "unit", "taken", "read_by")
COLUMN = (1 << COLUMN_BITS) - 1
GLOBAL = ("owner", "time", "line", "level")


class Recorder:
    """The sanitizers of launches, and how many copies code made, and refused."""

    def __init__(self, monkeypatch):
        self.sanitizers, self.counts = [], Counter()
        begin = Sanitizer.__init__

        def init(sanitizer, *args, **more):
            begin(sanitizer, *args, **more)
            self.sanitizers.append(sanitizer)

        monkeypatch.setattr(Sanitizer, "__init__", init)
        for name in ("load", "store"):
            monkeypatch.setattr(boxes.Boxes, name, self._counted(name, getattr(boxes.Boxes, name)))

    def _counted(self, name, method):
        def run(*args, **more):
            done = method(*args, **more)
            self.counts[name, done] += 1
            return done

        return run


def readers(shadow):
    """`Shadow.read_by` from all reads of granules that it has."""
    found = np.zeros_like(shadow.read_by)
    blocks = np.arange(shadow.granules) * shadow.granule >> BLOCK_SHIFT
    np.bitwise_or.at(found, blocks, np.where(shadow.reads.any(axis=1), READ_BY_THREADS, 0))
    for slot, taken in enumerate(shadow.taken):
        np.bitwise_or.at(found, blocks, np.where(taken > 0, 1 << slot, 0))
    return found


def state(sanitizer, names):
    """All that a sanitizer and its wave know, with the columns of clocks in the order of these names: which
    one comes first doesn't matter.
    """
    wave, shadow, clocks = sanitizer.wave, sanitizer.races.shadow, sanitizer.clocks
    places = np.arange(clocks.width)
    known = np.zeros((clocks.layers, clocks.warps, clocks.warps + len(names)), np.int32)
    known[:, :, : clocks.warps] = clocks.all[:, :, : clocks.warps]
    for at, name in enumerate(names, clocks.warps):
        if (column := clocks.find(name)) is not None:
            places[column], known[:, :, at] = at, clocks.all[:, :, column]
    found = {f"shared {name}": getattr(shadow, name) for name in SHARED}
    found |= {f"shared {name}": places[found[f"shared {name}"]] for name in ("writer", "unit")}
    for base, each in sanitizer.globals.memory.shadows.items():
        found |= {f"global {base} {name}": getattr(each, name) for name in GLOBAL}
        found[f"global {base} owner"] = places[each.owner & COLUMN]
        found[f"global {base} written"] = np.array(each.is_written)
    found |= {"known": known, "memory": wave.memory.shared.data}
    columns = [clocks.find(name) for name in names]
    times = [0 if column is None else clocks.times[column] for column in columns]
    found["counts"] = np.array([wave.changes, wave.ticks, wave.mbarriers.phases, *times])
    np.testing.assert_array_equal(shadow.read_by, readers(shadow))
    lives, table = sanitizer.mbarriers._lines, sanitizer.table
    found["uses"] = np.array(
        [(*key, places[at], *use) for key in lives for at, *use in table.used(table.number(key))]
    )
    return found


def both(text, recorder, **options):
    """Runs a kernel by the interpreter and by code, whose results and knowledge must be the same."""
    plain, expected = launch(text, compiled=False, **options)
    before = list(recorder.sanitizers)
    recorder.sanitizers.clear()
    fast, found = launch(text, compiled=None, **options)
    after = list(recorder.sanitizers)
    recorder.sanitizers.clear()
    assert fast == plain
    np.testing.assert_array_equal(found, expected)
    assert len(before) == len(after)
    for one, other in zip(before, after, strict=True):
        names = {*one.clocks.names.values(), *other.clocks.names.values()}
        names = sorted(names, key=repr)
        knows, knew = state(one, names), state(other, names)
        assert knows.keys() == knew.keys()
        for name in knows:
            np.testing.assert_array_equal(knew[name], knows[name], err_msg=name)
    return plain


@pytest.fixture
def recorder(monkeypatch):
    monkeypatch.setattr(boxes, "_asked", [boxes._WORTH])
    return Recorder(monkeypatch)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("ordered", [1.0, 0.9, 0.6])
@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 40), marks=pytest.mark.slow)], ids=str)
def test_random_copies_are_those_of_the_interpreter(recorder, ordered, cluster, seeds):
    found = 0
    for seed in seeds:
        text = kernel(np.random.default_rng(seed), cluster, ordered)
        found += len(both(text, recorder, cluster=cluster, clusters=2).findings)
    for name in ("load", "store"):
        assert recorder.counts[name, True] > len(seeds), recorder.counts
    assert found


def test_without_the_sanitizer(recorder):
    for seed in range(3):
        both(kernel(np.random.default_rng(seed)), recorder, sanitize=False)
    assert recorder.counts["load", True] > 20


def test_few_copies_are_left_to_the_interpreter(monkeypatch):
    monkeypatch.setattr(boxes, "_asked", [0])
    recorder = Recorder(monkeypatch)
    launch(kernel(np.random.default_rng(0)))
    assert not recorder.counts["load", True]


def test_a_store_replaces_a_strong_one(recorder):
    body = """
      @%v0 st.relaxed.gpu.global.b32 [%g4], %r0;
      fence.proxy.async; bar.sync 0;
      @%w0 cp.async.bulk.global.shared::cta.bulk_group [%g], [%s], 64;
      @%w0 cp.async.bulk.commit_group;
      @%w0 cp.async.bulk.wait_group 0;"""
    assert not both(around(body), recorder).findings
    assert recorder.counts["store", True] == 1


@pytest.mark.parametrize(
    ("before", "rules"),
    [
        ("fence.proxy.async.shared::cta; bar.sync 0;", []),
        ("bar.sync 0;", ["missing-proxy-fence"]),
        ("", ["shared-race"]),
    ],
)
def test_a_copy_to_what_threads_read(recorder, before, rules):
    body = f"""
      @%v1 ld.shared.b32 %r0, [%s];
      {before}
      @%w0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;
      @%w0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%g], 64, [bar];
      W: mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;
      @!%q bra W;"""
    found = both(around(body), recorder).findings
    assert [each.rule for each in found] == rules
    assert recorder.counts["load", True] == (not rules)


@pytest.mark.parametrize("stored", [64, 48])
def test_reads_follow_the_first_writes_of_a_buffer(recorder, stored):
    body = f"""
      @%w0 cp.async.bulk.global.shared::cta.bulk_group [%g], [%s], {stored};
      @%w0 cp.async.bulk.commit_group;
      @%w0 cp.async.bulk.wait_group 0;
      @%w0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;
      @%w0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s+1024], [%g], 64, [bar];
      W: mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;
      @!%q bra W;"""
    found = both(around(body), recorder, written=False).findings
    assert [each.rule for each in found] == (["uninitialized-global"] if stored < 64 else [])
    assert recorder.counts["load", True] == (stored == 64)
