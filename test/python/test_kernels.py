"""`weft kernels`: the number of kernels that products need, and their compilation."""

from dataclasses import replace

import pytest

from weft.cache import disk_cache as cache
from weft.dialects.schedule import Types, WarpgroupSchedule
from weft.multiply import compiled_schedules, product_kernel
from weft.schedules import choice, needed, wgmma
from weft.schedules.database import Product
from weft.tools import weft

TYPES = Types("bf16", "bf16", "bf16")
CHOSEN = WarpgroupSchedule((128, 200, 64), 2, 3)
BY_ROWS = {1000: CHOSEN, 2000: replace(CHOSEN, block=(128, 204, 64)), 3000: replace(CHOSEN, splits=2)}


@pytest.fixture
def model(patch):
    """Schedules by rows, and a model in which a schedule takes as many cycles as its block has columns."""
    patch.setattr(choice, "choose", lambda m, *_, **__: BY_ROWS[m])
    patch.setattr(wgmma, "modeled", lambda s, *_, **__: s.block[1])
    patch.setattr(wgmma, "modeled", lambda schedules, *_, **__: [s.block[1] for s in schedules])


def counted(*rows):
    seen = []
    products = [Product(m, 512, 64, TYPES, "sm_90a") for m in rows]
    found = needed.needed(products, lambda done, total: seen.append((done, total)))
    assert seen == [(i, len(rows)) for i in range(1, len(rows) + 1)]
    return found


def test_a_kernel_counts_once_and_one_that_is_taken_instead_does_not(model):
    found = counted(1000, 2000, 3000, 1000)
    assert found.products == 4
    assert found.chosen == (BY_ROWS[1000], BY_ROWS[2000], BY_ROWS[3000])
    assert found.kernels == (BY_ROWS[1000], BY_ROWS[3000])
    assert found.slower == pytest.approx((1 + 200 / 204 + 1 + 1) / 4)


def test_later_products_decide_nothing_about_earlier_ones(model):
    found = counted(2000, 1000)
    assert found.kernels == (BY_ROWS[2000],)
    assert found.slower == pytest.approx((1 + 204 / 200) / 2)


def test_the_table_has_a_line_for_each_types(capsys):
    assert weft.main(["kernels", "512x512x512", "64x512x4096", "--types", "bf16,e4m3"]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split() == ["types", "products", "schedules", "kernels", "slower", "%"]
    assert [line.split()[:4] for line in lines] == [[t, "to", "bf16", "2"] for t in ("bf16", "e4m3")]


@pytest.mark.slow
def test_compiled_kernels_are_those_of_matmul(capsys, patch, tmp_path):
    patch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    asked = ["kernels", "7x512x64", "--types", "f16", "--compile", "--jobs", "1"]
    assert weft.main(asked) == 0
    assert f"compiled 1 kernels into {tmp_path}" in capsys.readouterr().out
    entries = {entry.path.name for entry in cache.default().entries()}
    chosen = choice.choose(7, 512, 64, Types("f16", "f16", "f16"), "sm_90a")
    compiled_schedules._known.cache_clear()
    product_kernel.compiled.cache_clear()
    assert product_kernel.plain(Types("f16", "f16", "f16"), chosen, "sm_90a").cubin
    assert {entry.path.name for entry in cache.default().entries()} == entries
    kind = Types("f16", "f16", "f16"), (2, 2, 2), (), (False, True), (1.0).hex(), (0.0).hex()
    assert list(compiled_schedules.of((*kind, False, None, "sm_90a"))) == [chosen]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--jobs", "0"], "--jobs must be at least 1; got 0"),
        (["4@64x64x64"], "weft kernels counts those of single products, got the groups"),
        (["64x64x64", "--arch", "sm_1"], "target must be a known chip"),
        (["64x64x64", "--arch", "sm_75"], "weft kernels: has no schedule for sm_75 that multiplies bf16"),
        (["64x64x64", "--compile"], "--compile needs a cache: WEFT_CACHE is 0"),
    ],
)
def test_what_cant_be_counted_is_refused(capsys, patch, arguments, message):
    patch.setenv("WEFT_CACHE", "0")
    assert weft.main(["kernels", *arguments]) != 0
    assert message in capsys.readouterr().err
