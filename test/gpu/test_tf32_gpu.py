"""f32 is rounded to the nearest tf32 by the kernels of a GPU."""

import pytest
from gpu_marks import GPU

import weft

pytestmark = GPU
SHAPES = [(70, 40, 68), (3, 130, 45), (300, 256, 512), (4096, 4096, 64), (1, 4096, 1024), (256, 512, 8192)]


def nearest(values):
    """f32 rounded to tf32; no value here is as near to two of them."""
    import torch

    return ((values.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)], ids=str)
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_products_of_one_element_in_each_row_are_exact(m, n, k, transposed):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    odd = [
        (torch.randn(size, device="cuda").view(torch.int32) | 1).view(torch.float32) for size in (m, k * n)
    ]
    rows = torch.arange(m, device="cuda")
    a, b = torch.zeros(m, k, device="cuda"), odd[1].view(k, n)
    a[rows, rows % k] = odd[0]
    wanted = nearest(odd[0])[:, None] * nearest(b)[rows % k]
    a, b = (x.t().contiguous() if turned else x for x, turned in zip((a, b), transposed, strict=True))
    found = weft.matmul(a, b, transpose_a=transposed[0], transpose_b=transposed[1])
    assert torch.equal(found, wanted)
