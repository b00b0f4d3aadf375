"""PyTorch counts the operations of Weft's operators as those of its own."""

import pytest

torch = pytest.importorskip("torch")

from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

import weft  # noqa: E402
import weft.nn  # noqa: E402

BF16, F8 = torch.bfloat16, torch.float8_e4m3fn


def counted(call):
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def ones(*shape, dtype=BF16, grad=False):
    return torch.ones(shape).to(dtype).requires_grad_(grad)


def test_products_and_gradients_are_counted_as_pytorchs():
    a, b = ones(2, 8, 16, grad=True), ones(16, 24, grad=True)
    ours, theirs = (counted(lambda f=f: f(a, b).sum().backward()) for f in (weft.matmul, torch.matmul))
    assert ours == theirs == 3 * 2 * 16 * 16 * 24
    assert counted(lambda: weft.nn.Linear(16, 32, dtype=BF16)(a).sum().backward()) == 3 * 2 * 16 * 16 * 32


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (
            lambda: weft.matmul(
                *(ones(16, 32, dtype=F8),) * 2,
                transpose_b=True,
                scales=(torch.ones(16, 1), torch.ones(1, 16)),
            ),
            2 * 16 * 16 * 32,
        ),
        (
            lambda: weft.matmul(
                ones(256, 64), ones(2, 64, 32), row_ends=torch.tensor([128, 200], dtype=torch.int32)
            ),
            2 * 256 * 64 * 32,
        ),
        (
            lambda: weft.matmul(
                *(torch.zeros(16, 32, dtype=torch.uint8),) * 2, transpose_b=True, kind="int4"
            ),
            2 * 16 * 16 * 64,
        ),
        (lambda: weft.matmul_int4(ones(4, 128), weft.quantize_int4(torch.randn(64, 128).to(BF16))), 65536),
        (lambda: weft.attention(ones(1, 4, 16, 64), *(ones(1, 2, 24, 64),) * 2), 2 * 4 * 16 * 24 * 128),
    ],
    ids=["scales", "groups", "packed", "int4", "attention"],
)
def test_other_operators_are_counted(call, wanted):
    assert counted(call) == wanted


def test_gradients_of_attention_are_five_products():
    q = ones(1, 2, 16, 64, grad=True)
    assert counted(lambda: weft.attention(q, q, q).sum().backward()) == 7 * 2 * 2 * 16 * 16 * 64
