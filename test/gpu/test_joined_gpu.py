"""`weft.matmul` on a GPU with an MN-major A of up to eight columns: TMA copies eight rows at a time."""

import pytest
from gpu_marks import SM_90A

import weft

pytestmark = SM_90A


def numbers(*shape):
    """Whole numbers."""
    torch = pytest.importorskip("torch")
    generator = torch.Generator("cuda").manual_seed(sum(shape))
    return torch.randint(-1, 2, shape, generator=generator, device="cuda").to(torch.bfloat16)


def check(a, b, transpose_b):
    torch = pytest.importorskip("torch")
    d = weft.matmul(a, b, transpose_b=transpose_b, out_dtype="f32")
    assert torch.equal(d.double(), a.double() @ (b.double().mT if transpose_b else b.double()))


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("n", [264, 1000, 5000])
@pytest.mark.parametrize("k", [72, 520, 4104])
def test_rows_may_follow_each_other_or_not(k, n, transpose_b):
    b = numbers(n, k) if transpose_b else numbers(k, n)
    for rows, columns in ((8, 8), (24, 8), (8, 5)):
        check(numbers(k, rows)[:, :columns].T, b, transpose_b)


@pytest.mark.parametrize("k", [72, 520, 4104])
def test_batches_and_depths_that_leave_rows_over(k):
    check(numbers(3, k, 8).mT, numbers(3, k, 400), False)
    check(numbers(k + 4, 8).T, numbers(k + 4, 1000), False)
