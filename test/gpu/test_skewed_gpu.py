"""`weft.matmul` on a GPU with A and B that begin at the same distance from a multiple of 16 bytes: TMA copies
them from that multiple on.
"""

import pytest
from gpu_marks import SM_90A

import weft
from weft.multiply.plans import kept

pytestmark = SM_90A
SHAPES = [(1, 264, 64), (64, 64, 57), (300, 520, 1000), (2049, 1024, 8184), (128, 8192, 4096)]


def matrix(rows, columns, skew, gap, dtype, generator):
    """Whole numbers, among NaN."""
    torch = pytest.importorskip("torch")
    pitch = columns + gap
    memory = torch.full((skew + rows * pitch,), float("nan"), device="cuda", dtype=dtype)
    numbers = torch.randint(-1, 2, (rows, columns), generator=generator, device="cuda").to(dtype)
    return memory[skew:].as_strided((rows, columns), (pitch, 1)).copy_(numbers)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("skew", [1, 2, 4, 7])
def test_matrices_may_begin_anywhere(shape, skew):
    torch = pytest.importorskip("torch")
    m, n, k = shape
    generator = torch.Generator("cuda").manual_seed(skew)
    for dtype, gap in ((torch.bfloat16, -k % 8), (torch.float16, -k % 8 + 8)):
        a, b = (matrix(rows, k, skew, gap, dtype, generator) for rows in (m, n))
        for given in ((a, b), (a.clone(), b.clone()), (a, b)):  # a plan for each alignment
            for _ in range(3):
                d = weft.matmul(*given, transpose_b=True, out_dtype="f32")
                assert torch.equal(d.double(), a.double() @ b.double().mT)


def test_a_plan_is_for_one_alignment():
    torch = pytest.importorskip("torch")
    memory = torch.zeros(1 << 16, device="cuda", dtype=torch.bfloat16)
    kept.clear()
    for skew in range(16):
        a, b = (memory[start + skew :].as_strided((64, 64), (64, 1)) for start in (0, 1 << 14))
        a.fill_(1), b.fill_(1)
        assert bool((weft.matmul(a, b, transpose_b=True) == 64).all())
    assert len(kept) == 16
