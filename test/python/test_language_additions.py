"""Tiles that TMA adds to arrays, and fragments in the order of lanes."""

import re

import numpy as np
import pytest
from assembling import assembles

import weft
import weft.language as w
from weft.isa.async_copy import ADD_TENSOR, AddTensor


@w.kernel(grid=lambda x: (w.ceil_div(x.rows, 64), 3))
def three_times(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], flat: w.Out["r c", w.f32], *, staged=True):
    """y += x by each of three CTAs, and flat += x in the order of lanes."""
    buffer, lanes = w.shared(64, 64, w.f32), w.shared(128, 32, w.f32)
    row = w.cta(0) * 64
    with w.role():
        for column in w.range(0, x.columns, 64):
            t = w.load(x[row, column], (64, 64))
            w.atomic_add(y[row, column], t, via=buffer if staged else None)
            if column == 0:
                w.atomic_add(flat[w.cta(0) * 128, 0], w.by_lanes(t), via=lanes)


@pytest.mark.parametrize("arch", ["sm_90a", pytest.param("sm_80", marks=pytest.mark.slow)])
def test_additions_of_many_ctas(arch):
    """What is outside of the array is left out."""
    x = np.arange(70 * 68, dtype=np.float32).reshape(70, 68)
    y, flat = np.ones((70, 68), np.float32), np.zeros((256, 32), np.float32)
    report = three_times.emulate(x, y, flat, arch=arch)
    assert not report.findings, "\n".join(map(str, report.findings[:3]))
    assert np.array_equal(y, 1 + 3 * x)
    first = flat[:128].reshape(8, 128, 4)  # of each lane 16 bytes, eight times
    pair = x[[0, 0, 8, 8], [0, 1, 0, 1]]
    assert np.array_equal(first[0, 0], 3 * pair) and np.array_equal(first.sum(), 3 * x[:64, :64].sum())


@w.kernel()
def kept(x: w.In["m n", w.f16], y: w.Out["m n", w.f16]):
    """y = x, by way of lanes."""
    with w.role():
        t = w.by_lanes(w.load(x[0, 0], (64, 80)))
        w.store(w.from_lanes(t, (64, 80)), y[0, 0])


def test_fragments_in_the_order_of_lanes():
    x = np.random.default_rng(0).standard_normal((64, 80)).astype(np.float16)
    y = np.zeros_like(x)
    assert not kept.emulate(x, y).findings
    assert np.array_equal(x, y)


@w.kernel()
def through_lanes(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], *, parts):
    """y = x, by way of shared memory in the order of lanes."""
    buffer = w.shared(128, 32, w.f32)
    with w.role():
        t = w.load(x[0, 0], (64, 64))
        for number, each in enumerate(w.lane_parts(t) if parts else [w.by_lanes(t)]):
            w.store(each, buffer.rows(number * each.rows, each.rows))
        t = w.load(buffer, like=w.by_lanes(w.zeros((64, 64))))
        w.store(w.from_lanes(t, (64, 64)), y[0, 0])


@pytest.mark.each_value(1)
@pytest.mark.parametrize("parts", [False, True])
def test_parts_in_the_order_of_lanes_have_one_address(parts):
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    y = np.zeros_like(x)
    assert not through_lanes.emulate(x, y, parts=parts).findings
    assert np.array_equal(x, y)
    ptx = through_lanes.compile(x, y, parts=parts).ptx
    stores = re.findall(r"st\.shared\.v4\.\w+\s+\[(%rd\d+)", ptx)
    assert len(stores) == 8 and len(set(stores)) == (1 if parts else 8)
    loads = re.findall(r"ld\.shared\.\S+", ptx)
    assert loads and all(each.startswith("ld.shared.v4") for each in loads)


def test_parts_of_any_type():
    @w.kernel()
    def kernel(y: w.Out["m n", w.f64]):
        with w.role():
            parts = w.lane_parts(w.zeros((64, 32), w.f64))
            assert [(part.shape, part.dtype) for part in parts] == [((16, 16), w.f64)] * 8
            assert len(w.lane_parts(w.zeros((64, 32), w.i8))) == 1

    kernel.compile()


def _by_lanes_of_few(x, y, t):
    w.by_lanes(w.sum(t, axis=1))


@pytest.mark.parametrize(
    "body, message",
    [
        (_by_lanes_of_few, "a lane must hold a multiple of 16 bytes of the fragment, got a fragment of 64"),
        (lambda x, y, t: w.lane_parts(t > 0), "a lane must hold a multiple of 16 bytes of the fragment, got"),
        (lambda x, y, t: w.by_lanes(3), "w.by_lanes expects a fragment, got 3"),
        (
            lambda x, y, t: w.from_lanes(t, (64, 64)),
            "w.from_lanes expects what w.by_lanes makes",
        ),
        (
            lambda x, y, t: w.atomic_add(y[0, 0], 1.0, via=x),
            "via is for tiles of an array, got 1.0 and .*: leave it out",
        ),
        (
            lambda x, y, t: w.atomic_add(y[0, 0], w.sum(t, axis=0), via=x),
            "via is for tiles, got a fragment of 64",
        ),
    ],
)
def test_mistakes(body, message):
    @w.kernel()
    def kernel(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
        with w.role():
            body(x, y, w.load(x[0, 0], (64, 64)))

    with pytest.raises(weft.WeftError, match=message):
        kernel.compile()


def test_types_that_tma_cannot_add():
    @w.kernel()
    def kernel(x: w.In["m n", w.f64], y: w.Out["m n", w.f64]):
        buffer = w.shared(64, 64, w.f64)
        with w.role():
            w.atomic_add(y[0, 0], w.load(x[0, 0], (64, 64)), via=buffer)

    with pytest.raises(weft.WeftError, match=r"TMA adds elements of w\.f32, .*, w\.u32, got a"):
        kernel.compile()


@pytest.mark.parametrize("chip", ["sm_80", "sm_90", "sm_100a"])
@pytest.mark.parametrize("form", [*ADD_TENSOR.forms(), AddTensor(6)], ids=str)
def test_the_table_and_ptxas_agree(form, chip):
    numbers = ", ".join(["%r"] * form.rank)
    made = form.assembly.format(map="%p", coordinates=numbers, source="%r", policy="%p")
    text = (
        f".version 8.6\n.target {chip}\n.address_size 64\n.visible .entry k() {{\n"
        f".reg .b64 %p; .reg .b32 %r; {form.ptx} {made}; ret; }}\n"
    )
    assert (ADD_TENSOR.judge(form, chip) is None) == assembles(text, chip)
    assert AddTensor.parse(form.ptx) == (form if form.rank < 6 else None)
