"""The products of `test_adversarial_gpu.py`: what is among them, small ones in the emulator, and faults that
they must find. Needs no GPU.
"""

import functools

import launches
import numpy as np
import pytest
from adversaries import REGIMES
from launches import complaint
from product_cases import LAID, MMA, TYPES, cases, laid
from products import Case, Product

from weft.dialects.activations import ACTIVATIONS
from weft.dialects.operand_roles import FACTORS, ROLES, TEAM_ROLES
from weft.passes.kernels import wgmma_kernel

MOST_KERNELS = 160


@pytest.fixture(scope="module")
def every():
    """All products with their cases. Choosing their schedules takes as long as importing the test does."""
    return list(cases())


def test_shapes_are_many(every):
    shapes = {case.shape for _, each in every for case in each}
    assert len(shapes) >= 200
    assert all({1, 127, 128, 129, 300} <= sizes for sizes in map(set, zip(*shapes, strict=True)))
    assert 1 << 15 in {k for _, _, k in shapes}


def test_everything_is_among_them(every):
    products = [product for product, _ in every]
    assert {(p.a, p.b, p.d) for p in products} >= set(TYPES)
    assert {p.transposed for p in products if p.a == "bf16"} == {(x, y) for x in (0, 1) for y in (0, 1)}
    assert {p.activation for p in products} == {None, *ACTIVATIONS}
    added = {role for p in products for role, _ in p.added}
    others = {
        "scale_a",
        "scale_b",
        "groups",
        "alpha",
        "row_ends",
        "k_ends",
        *FACTORS,
        *TEAM_ROLES,
    }
    assert added | others == set(ROLES)
    assert {p.factors for p in products} == {"", "one", "each"}
    assert {p.many for p in products} == {"", "batch", "one a", "one b", "rows", "masked"}
    assert {p.rows for p in products} == {"aligned", "dense", "shifted"}
    schedules = {p.schedule for p in products}
    assert schedules >= {None, *MMA, *(laid(name, "bf16") for name in LAID if name != "few columns")}
    assert {case.regime for _, each in every for case in each} == set(REGIMES)


def test_kernels_are_few_enough_to_compile(every):
    # Where rows lie anywhere, TMA's kernel gives its place to another.
    replaced = sum(p.rows != "aligned" and p.schedule not in MMA for p, _ in every)
    assert len({p for p, _ in every}) + replaced < MOST_KERNELS


def test_sums_that_are_called_exact_are(every):
    """Scales by which a product stays exact are powers of two."""
    assert all(np.log2(abs(p.alpha)).is_integer() and p.beta in (0, 1, 2, 4, -2) for p, _ in every)


SMALL = [Case((70, 35, 150), name) for name in REGIMES] + [Case((3, 131, 1), "normal")]
BF16 = Product("bf16", "bf16", "bf16", laid("one warpgroup", "bf16"))
SCALED = Product("f8E4M3FN", "f8E4M3FN", "f32", laid("one warpgroup", "i8"), scaled=True)
EMULATED = [
    BF16,
    Product("f16", "f16", "f16", laid("split in 2", "f16"), (True, False), 0.5, 2.0, activation="relu"),
    Product("f32", "f32", "f32", laid("cluster across", "f32"), added=(("residual", "f32"),)),
    Product("f8E4M3FN", "f8E5M2", "f8E4M3FN", laid("swapped square", "i8")),
    Product("f8E5M2", "f8E5M2", "f32", laid("3 parts", "i8"), promote=True),
    Product("i8", "ui8", "i32", laid("two panels", "i8"), beta=1.0, added=(("c", "i32"), ("bias", "i32"))),
    Product("bf16", "bf16", "f8E5M2", laid("one warpgroup", "bf16"), many="batch", activation="gelu"),
    Product("bf16", "bf16", "f16", laid("one warpgroup", "bf16"), many="one b", rows="dense"),
    Product("f8E4M3FN", "f8E4M3FN", "bf16", laid("two warpgroups", "i8"), scaled=True, many="rows"),
    Product("f8E4M3FN", "f8E4M3FN", "f32", laid("swapped", "i8"), scaled=True, many="masked"),
    Product("bf16", "bf16", "f32", MMA[2], rows="dense"),
    Product("f16", "f16", "f32", laid("swapped", "f16"), many="rows", factors="each"),
]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("product", EMULATED, ids=str)
def test_small_cases_in_the_emulator(product):
    kernel = product.compiled()
    for case in SMALL:
        if case.regime in product.regimes:
            assert complaint(product, case, kernel, "emulator") is None


@pytest.fixture(scope="module")
def kernels():
    """The kernels into whose results faults are planted."""
    return functools.cache(lambda product: product.compiled())


def caught(monkeypatch, kernels, product, case, plant):
    """What is said of results that `plant` changed."""
    run = launches.run

    def planted(kernel, operands, on):
        run(kernel, operands, on)
        plant(operands)

    monkeypatch.setattr(launches, "run", planted)
    return complaint(product, case, kernels(product), "emulator") or ""


def beside(role, at):
    """Another byte in the memory of an operand."""

    def plant(operands):
        operands[role].memory[at] ^= 1

    return plant


@pytest.mark.each_value(2)
@pytest.mark.parametrize("at", [0, 255, -1], ids=["before", "just before", "behind"])
def test_a_byte_around_a_result_is_seen(monkeypatch, kernels, at):
    found = caught(monkeypatch, kernels, BF16, Case((5, 7, 9), "normal"), beside("d", at))
    assert "1 bytes around d were written" in found


def test_a_byte_between_rows_is_seen(monkeypatch, kernels):
    between = 256 + 2 * 7
    found = caught(monkeypatch, kernels, BF16, Case((5, 7, 9), "normal"), beside("d", between))
    assert "1 bytes around d were written" in found


def test_a_changed_operand_is_seen(monkeypatch, kernels):
    found = caught(monkeypatch, kernels, BF16, Case((5, 7, 9), "normal"), beside("a", 256))
    assert "a was written" in found


@pytest.mark.sampled(15)
@pytest.mark.parametrize(
    ("regime", "value", "message"),
    [
        ("integers", lambda d: d + 1, "wrong"),
        ("normal", lambda d: 1.1 * d + 0.1, "wrong"),
        ("ties", lambda d: d * (1 + 2.0**-7), "exactly"),
        ("normal", lambda d: np.nan, "wrong"),
        ("one-hot", lambda d: np.inf, "exactly"),
        ("special", lambda d: np.where(np.isnan(d), 0, np.nan), "wrong"),
        ("largest", lambda d: np.where(np.isinf(d), 3e38, np.inf), "wrong"),
    ],
)
@pytest.mark.parametrize("at", [(0, 0), (4, 6), (3, 2)], ids=str)
def test_one_wrong_element_is_seen(monkeypatch, kernels, regime, value, message, at):
    def plant(operands):
        d = operands["d"].values
        d[at] = value(d[at].astype(np.float64))

    assert message in caught(monkeypatch, kernels, BF16, Case((5, 7, 9), regime), plant)


@pytest.mark.parametrize("regime", ["normal", "special"])
def test_an_element_that_was_not_written_is_seen(monkeypatch, kernels, regime):
    def plant(operands):
        d = operands["d"]
        d.memory[256:258] = d.before[256:258]

    assert caught(monkeypatch, kernels, BF16, Case((5, 7, 9), regime), plant).endswith("D weren't written")


def test_a_row_without_a_product_that_was_written_is_seen(monkeypatch, kernels):
    product = Product("bf16", "bf16", "f32", laid("one warpgroup", "bf16"), many="rows")
    case = Case((300, 9, 9), "integers")
    groups = product.operands(case)["groups"].values
    assert (groups < 0).any() and (groups >= 0).any()

    def plant(operands):
        operands["d"].values[groups < 0] = 0

    assert "without a product" in caught(monkeypatch, kernels, product, case, plant)


def test_scales_of_the_next_block_are_seen(monkeypatch, kernels):
    """Planted: what a kernel gets isn't what the reference has."""
    run = launches.run

    def planted(kernel, operands, on):
        scales = operands["scale_a"].values
        kept, scales[...] = scales.copy(), np.roll(scales, 1, axis=0)
        run(kernel, operands, on)
        scales[...] = kept

    monkeypatch.setattr(launches, "run", planted)
    case = Case((5, 7, 300), "integers")
    assert "wrong" in (complaint(SCALED, case, kernels(SCALED), "emulator") or "")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("regime", ["integers", "canceling", "one-hot"])
def test_a_kernel_that_leaves_out_the_last_block_of_k_is_caught(monkeypatch, regime):
    monkeypatch.setattr(wgmma_kernel.emit, "ceil_div", wgmma_kernel.emit.div)
    case = Case((64, 64, 136), regime)
    assert "wrong" in (complaint(BF16, case, BF16.compiled(), "emulator") or "")
