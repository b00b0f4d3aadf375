"""The compiled sums of tensor cores give the bits of the definition in `arithmetic`."""

import numpy as np
import pytest
from test_emulator_arithmetic import FORMS, NAMES, TILES, dense

from weft.emulator.numerics import arithmetic, native_sums
from weft.emulator.reading.syntax import STORAGE
from weft.isa import accumulation
from weft.isa.accumulation import Accumulation
from weft.isa.types import ELEMENT_TYPES

# Every rule of the table, with the types of A, B, C and D that meet it, and a depth.
RULES = [
    (Accumulation(23, step_bytes=8), ("f16", "f16", "f32", "f32"), 16),
    (Accumulation(23, step_bytes=8), ("f16", "f16", "f16", "f16"), 16),
    (Accumulation(24, step_bytes=16), ("bf16", "bf16", "f32", "f32"), 16),
    (Accumulation(24, step_bytes=16), ("tf32", "tf32", "f32", "f32"), 8),
    (Accumulation(24, step_bytes=16), ("f16", "f16", "f16", "f32"), 16),
    (Accumulation(24, step_bytes=16), ("f16", "f16", "f32", "f16"), 16),
    (Accumulation(13, step_bytes=16, kept=13), ("e4m3", "e5m2", "f32", "f32"), 32),
    (Accumulation(25, order="halves"), ("e4m3", "e4m3", "f32", "f32"), 32),
    (Accumulation(25, order="halves"), ("e5m2", "e4m3", "f16", "f16"), 32),
    (Accumulation(13, kept=13), ("e5m2", "e5m2", "f32", "f32"), 32),
    (Accumulation(25), ("bf16", "bf16", "f32", "f32"), 16),
    (Accumulation(25), ("f16", "f16", "f16", "f16"), 16),
    (Accumulation(25), ("tf32", "tf32", "f32", "f32"), 8),
    (Accumulation(25), ("e2m3", "e3m2", "f32", "f32"), 32),
]
SCALED = [
    (Accumulation(25), ("e4m3", "e2m1", "f32", "f32"), 32, 1),
    (Accumulation(35, group=16), ("e2m1", "e2m1", "f32", "f32"), 64, 4),
    (Accumulation(35, group=16), ("e2m1", "e2m1", "f32", "f32"), 128, 4),
]


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """Compiles at once, and counts the calls of compiled sums."""
    calls = []
    run = native_sums.sums
    monkeypatch.setattr(native_sums, "_WORTH", -1)
    monkeypatch.setattr(native_sums, "sums", lambda *args: calls.append(args) or run(*args))
    return calls


def bits_of(rng, name, shape, spread):
    """Random bits, or (`spread` is not None) numbers whose exponents differ by about that much."""
    element = ELEMENT_TYPES[name]
    storage = STORAGE[max(8, 32 if name == "tf32" else element.bits)]
    if spread is None or element.bits < 16:
        return rng.integers(0, 1 << min(32, 8 * storage.itemsize), shape, dtype=np.uint64).astype(storage)
    values = rng.standard_normal(shape) * 2.0 ** rng.integers(-spread, spread + 1, shape)
    values[rng.random(shape) < 0.1] = 0.0
    return arithmetic.encode(values, name)


def both(a, b, c, types, how, **options):
    with np.errstate(all="ignore"):
        expected = arithmetic.multiply_accumulate(a, b, c, types, how, **options)
        return expected, native_sums.multiply_accumulate(a, b, c, types, how, **options)


@pytest.mark.parametrize("spread", [None, 1, 12], ids=["bits", "near", "far"])
@pytest.mark.parametrize(("how", "types", "depth"), RULES, ids=str)
def test_random_operands_have_the_bits_of_the_definition(how, types, depth, spread, always):
    rng = np.random.default_rng(depth)
    a = bits_of(rng, types[0], (2, 24, depth), spread)
    b = bits_of(rng, types[1], (2, depth, 24), spread)
    c = bits_of(rng, types[2], (2, 24, 24), spread)
    expected, got = both(a, b, c, types, how)
    assert always
    np.testing.assert_array_equal(got, expected, strict=True)


@pytest.mark.parametrize(("how", "types", "depth", "blocks"), SCALED, ids=str)
def test_block_scaled_operands_have_the_bits_of_the_definition(how, types, depth, blocks, always):
    rng = np.random.default_rng(blocks)
    a, b = rng.integers(0, 256, (1, 16, depth)), rng.integers(0, 256, (1, depth, 16))
    c = bits_of(rng, "f32", (1, 16, 16), 8)
    scales = 2.0 ** rng.integers(-9, 9, (1, 16, blocks)), 2.0 ** rng.integers(-9, 9, (1, blocks, 16))
    scales[0][0, 3], scales[1][0, :, 5] = np.nan, 1.5
    expected, got = both(a.astype(np.uint8), b.astype(np.uint8), c, types, how, scales=scales)
    assert always
    np.testing.assert_array_equal(got, expected, strict=True)


@pytest.mark.each_value(71)
@pytest.mark.parametrize("name", NAMES)
def test_the_sums_of_an_h200_are_those_of_compiled_code(name):
    group, ptx, _ = name.split(" ")
    form = FORMS[ptx]
    a, b, c = (TILES[f"{name} {operand}"] for operand in "abc")
    absent = None
    if f"{name} metadata" in TILES.files:
        a, absent = dense(a, TILES[f"{name} metadata"], form)
        absent = absent[None]
    how = accumulation.of(group.partition(".")[0], form, "sm_90a")
    types = (form.a_type, form.b_type, getattr(form, "c_type", form.d_type), form.d_type)
    batch = [matrix.reshape(-1, *matrix.shape[-2:]) for matrix in (a, b, c)]
    _, got = both(*batch, types, how, absent=absent)
    np.testing.assert_array_equal(got.reshape(c.shape), TILES[f"{name} d"])


def test_an_absent_element_of_a_sparse_a_meets_no_infinity(always):
    rng = np.random.default_rng(4)
    types, how = ("f16", "f16", "f32", "f32"), Accumulation(25)
    a, b = bits_of(rng, "f16", (1, 16, 16), 2), bits_of(rng, "f16", (1, 16, 8), 2)
    b[0, 1] = 0x7C00
    absent = np.zeros(a.shape, bool)
    absent[:, :, 1], a[:, :, 1] = True, 0
    expected, got = both(a, b, np.zeros((1, 16, 8), np.uint32), types, how, absent=absent)
    assert not always
    np.testing.assert_array_equal(got, expected)
    assert not np.isnan(arithmetic.decode(got, "f32")).any()


def test_small_work_is_not_compiled(monkeypatch, always):
    monkeypatch.setattr(native_sums, "_WORTH", 1 << 60)
    zeros = np.zeros((1, 16, 16), np.uint16)
    both(zeros, zeros, np.zeros((1, 16, 16), np.uint32), ("f16", "f16", "f32", "f32"), Accumulation(25))
    assert not always


@pytest.mark.parametrize("change", [{"fraction": 24}, {"kept": 22}, {"step": 8}, {"half": True}], ids=str)
def test_another_rule_gives_other_bits(change):
    rng = np.random.default_rng(1)
    rule = arithmetic.Rule(16, 16, 0, 25, 23, False)
    a, b = (rng.standard_normal((4, 16, 16)) * 2.0 ** rng.integers(-9, 9, (4, 16, 16)) for _ in range(2))
    operands = [(x, (np.frexp(x)[1] - 1).astype(np.int16)) for x in (a, b)]
    c = rng.standard_normal((4, 16, 16))
    results = []
    for each in (rule, rule._replace(**change)):
        results.append(native_sums.sums(*operands, c, each))
    assert (results[0] != results[1]).any()
