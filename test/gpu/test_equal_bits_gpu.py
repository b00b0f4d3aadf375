"""`batch_invariant=True` on a GPU: what `test_equal_bits.py` proves in the emulator."""

import pytest
from test_equal_bits import TYPES, of_one_order

import weft
from weft.launch import runtime

torch = pytest.importorskip("torch")
KINDS = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f8E4M3FN": torch.float8_e4m3fn}


@pytest.fixture(autouse=True)
def _as_tf32():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


def operands(types, n, k, rows):
    generator = torch.Generator("cuda").manual_seed(3)
    made = (torch.randn(size, k, device="cuda", generator=generator) for size in (rows, n))
    return [x.to(KINDS[types.a]) for x in made]


@pytest.mark.parametrize("n, k", [(4096, 4096), (512, 16384), (1000, 3000)])
@pytest.mark.parametrize("name", TYPES)
def test_a_row_has_the_same_bits_in_any_batch(name, n, k):
    how = {"transpose_b": True, "promote": TYPES[name].promoted, "out_dtype": "f32", "batch_invariant": True}
    a, b = operands(TYPES[name], n, k, 4096)
    whole = weft.matmul(a, b, **how)
    for m in (1, 7, 16, 64, 129, 300, 2048):
        for first in (0, 1, 1000, 4096 - m):
            assert weft.matmul(a[first : first + m], b, **how).equal(whole[first : first + m]), (m, first)


@pytest.mark.parametrize("name", TYPES)
def test_schedules_of_one_order_have_equal_bits(name):
    types, chip = TYPES[name], runtime.default_chip()
    how = {"transpose_b": True, "promote": types.promoted, "out_dtype": "f32", "batch_invariant": True}
    a, b = operands(types, 520, 4096, 300)
    schedules = of_one_order(types, chip, 520, 4096)
    first, *others = (weft.matmul(a, b, schedule=s, **how) for s in schedules)
    assert all(each.equal(first) for each in others)
