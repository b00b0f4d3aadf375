"""Products of few rows that lanes load straight into registers, on a GPU."""

import pytest
from gpu_marks import SM_90A

import weft
from weft.dialects.schedule import DirectSchedule
from weft.multiply import launches

pytestmark = SM_90A
TYPES = ["bfloat16", "float16", "float32", "int8", "uint8", "float8_e4m3fn"]


def operands(m, n, k, dtype, shift=0, gap=0):
    """Small integers, whose sums are exact, among NaNs (77 for integers)."""
    torch = pytest.importorskip("torch")
    kind, made = getattr(torch, dtype), []
    for rows in (m, n):
        values = torch.randint(0 if dtype == "uint8" else -3, 4, (rows, k), device="cuda").float()
        memory = torch.full((shift + rows * (k + gap),), float("nan") if kind.is_floating_point else 77.0)
        memory = memory.cuda()
        memory[shift:].view(rows, k + gap)[:, :k] = values
        made.append(memory.to(kind)[shift:].view(rows, k + gap)[:, :k])
    return made


def right(a, b, found):
    import torch

    return torch.equal(found.double(), (a.double() @ b.double().t()).to(found.dtype).double())


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("m", "n", "k", "shift", "gap"),
    [
        (1, 5001, 4095, 0, 0),
        (16, 1000, 2050, 3, 1),
        (33, 777, 1111, 1, 2),
        (48, 3000, 333, 0, 5),
        (7, 64, 9, 1, 0),
    ],
)
def test_few_rows_that_begin_at_any_element(monkeypatch, m, n, k, shift, gap, dtype):
    a, b = operands(m, n, k, dtype, shift, gap)
    copied, plan = [], launches.plan_with_copies

    def noting(kernel, copies, operands):
        copied.extend(copies)
        return plan(kernel, copies, operands)

    monkeypatch.setattr(launches, "plan_with_copies", noting)
    for _ in range(2):
        assert right(a, b, weft.matmul(a, b, transpose_b=True))
    assert not copied


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("readers", [(1, 8), (2, 4), (4, 1)])
@pytest.mark.parametrize(("m", "n", "k"), [(16, 512, 4096), (5, 300, 1000), (64, 48, 96)])
def test_named_schedules(m, n, k, dtype, readers):
    a, b = operands(m, n, k, dtype)
    schedule = DirectSchedule((16, 32, 64 // a.element_size()), readers)
    assert right(a, b, weft.matmul(a, b, transpose_b=True, schedule=schedule))
