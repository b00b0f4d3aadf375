"""As many warpgroups must release each stage of a ring as its `takers` state."""

import linecache
import re

import numpy as np
import pytest

import weft
import weft.language as w


def tiles(takers, warpgroups, taking, *, writes=False):
    """A kernel of a role whose warpgroups run `taking(ring, me, x)`, beside one that fills the ring."""

    @w.kernel()
    def kernel(x: w.In["m k", w.f16], y: w.Out["m k", w.f32]):
        ring = w.ring(3, a=(64, 64, w.f16), takers=takers)
        if writes:
            with w.role():
                for _ in w.range(0, x.columns, 64):
                    with ring.write() as stage:
                        w.store(w.zeros((64, 64), w.f16), stage.a)
        with w.role(warpgroups=warpgroups) as me:
            taking(ring, me, x)
        if not writes:
            with w.role(), w.one_thread():
                for k in w.range(0, x.columns, 64):
                    ring.fill(a=x[0, k])

    return kernel


@w.inline
def each_stage(ring, me, x):
    for _ in w.range(0, x.columns, 64):
        with ring.take():  # here
            pass


@w.inline
def each_in_its_loop(ring, me, x):
    for _ in w.range(w.cta(0), x.columns + w.cta(0), 64):
        if x.rows > 8:
            ring.take().release()  # here


@w.inline
def by_one_thread(ring, me, x):
    with w.one_thread():
        each_stage(ring, me, x)


@pytest.mark.parametrize(
    ("takers", "warpgroups", "taking", "message"),
    [
        (1, 2, each_stage, "takers=1, and 2 warpgroups release each stage: write takers=2 in w.ring"),
        (2, 1, each_stage, "takers=2, and 1 warpgroup releases each stage: write takers=1 in w.ring"),
        (3, 2, each_in_its_loop, "takers=3, and 2 warpgroups release each stage: write takers=2 in w.ring"),
    ],
)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_wrong_number_of_takers_is_refused(takers, warpgroups, taking, message, arch):
    refused(tiles(takers, warpgroups, taking), message, arch)


def test_threads_of_two_warpgroups_that_take_each_stage_are_refused():
    message = "takers=1, and a thread of each of 2 warpgroups releases each stage: let one of them take it"
    refused(tiles(1, 2, by_one_thread, writes=True), message, "sm_90a")


def refused(kernel, message, arch):
    with pytest.raises(weft.WeftError, match=re.escape(message)) as caught:
        kernel.compile(arch=arch)
    assert "# here" in linecache.getline(__file__, caught.value.diagnostics[0].location.line)


@w.inline
def by_the_first(ring, me, x):
    if me == 0:
        each_stage(ring, me, x)


@w.inline
def by_the_second(ring, me, x):
    for _ in w.range(0, me * x.columns, 64):
        with ring.take():
            pass


@w.inline
def by_the_first_while(ring, me, x):
    left = x.columns * (1 - me)
    while left > 0:
        ring.take().release()
        left = left - 64


@w.inline
def once(ring, me, x):
    ring.take()  # nothing fills it again


@pytest.mark.parametrize("taking", [by_the_first, by_the_second, by_the_first_while, once])
def test_stages_that_one_of_two_warpgroups_releases_are_left_alone(taking):
    x = np.zeros((64, 64 if taking is once else 320), np.float16)
    assert not tiles(1, 2, taking).emulate(x, np.zeros_like(x, np.float32), arch="sm_90a").findings


def test_takers_of_two_roles_add_up():
    def kernel_of(takers):
        @w.kernel()
        def kernel(x: w.In["m k", w.f16]):
            ring = w.ring(2, a=(64, 64, w.f16), takers=takers)
            with w.role():
                each_stage(ring, 0, x)
            with w.role(warpgroups=2):
                each_stage(ring, 0, x)
            with w.role(), w.one_thread():
                for k in w.range(0, x.columns, 64):
                    ring.fill(a=x[0, k])

        return kernel

    assert not kernel_of(3).emulate(np.zeros((64, 320), np.float16), arch="sm_90a").findings
    with pytest.raises(weft.WeftError, match="takers=2, and 3 warpgroups release each stage: write takers=3"):
        kernel_of(2).compile(arch="sm_90a")


@w.inline
def by_the_first(ring, me, x):
    if me == 0:
        each_stage(ring, me, x)


def test_too_few_releases_are_found_where_a_branch_decides():
    """Only with more K blocks than stages, a deadlock would show them."""
    x, y = np.zeros((64, 128), np.float16), np.zeros((64, 128), np.float32)
    findings = tiles(2, 2, by_the_first).emulate(x, y, arch="sm_90a").findings
    assert {finding.rule for finding in findings} == {"mbarrier-arrivals"}
    assert "1 of 2 arrivals of the first phase" in str(findings[0])
    assert not tiles(1, 2, by_the_first).emulate(x, y, arch="sm_90a").findings


def test_one_of_two_roles_may_release_each_stage():
    @w.kernel(grid=lambda x: 2)
    def kernel(x: w.In["m k", w.f16]):
        ring = w.ring(2, a=(64, 64, w.f16))
        with w.role():
            if w.cta() == 0:
                each_stage(ring, 0, x)
        with w.role():
            if w.cta() != 0:
                each_stage(ring, 0, x)
        with w.role(), w.one_thread():
            for k in w.range(0, x.columns, 64):
                ring.fill(a=x[0, k])

    assert not kernel.emulate(np.zeros((64, 320), np.float16), arch="sm_90a").findings


def test_conditions_of_unsigned_arguments_are_those_of_all_warpgroups():
    @w.kernel()
    def kernel(x: w.In["m k", w.f16], n: w.u32):
        ring = w.ring(3, a=(64, 64, w.f16))
        with w.role(warpgroups=2):
            if n > 2**31:
                ring.take().release()
        with w.role(), w.one_thread():
            ring.fill(a=x[0, 0])

    with pytest.raises(weft.WeftError, match="takers=1, and 2 warpgroups release each stage"):
        kernel.compile(arch="sm_90a")
