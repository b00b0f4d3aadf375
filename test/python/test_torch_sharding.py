"""Products of DTensors on two processes of the CPU."""

import os
import socket

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor  # noqa: E402

import weft  # noqa: E402

PROCESSES = 2
WHOLE = Replicate()
# Placements of a, b and the bias, and that of the product; None: PyTorch chooses it.
CASES = [
    (WHOLE, WHOLE, WHOLE, WHOLE),
    (WHOLE, Shard(1), Shard(0), Shard(1)),
    (Shard(0), WHOLE, WHOLE, Shard(0)),
    (Shard(1), Shard(0), None, Partial()),
    (Shard(1), Shard(0), WHOLE, None),
]


def multiply(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=PROCESSES)
    mesh = init_device_mesh("cpu", (PROCESSES,))
    torch.manual_seed(0)
    a, b, bias = torch.randn(32, 32).bfloat16(), torch.randn(32, 48).bfloat16(), torch.randn(48)
    exact = a.double() @ b.double()
    for of_a, of_b, of_bias, wanted in CASES:
        epilogue, added = None, 0
        if of_bias is not None:
            epilogue, added = weft.Epilogue(distribute_tensor(bias, mesh, [of_bias])), bias.double()
        d = weft.matmul(
            distribute_tensor(a, mesh, [of_a]), distribute_tensor(b, mesh, [of_b]), epilogue=epilogue
        )
        assert wanted is None or d.placements == (wanted,), (of_a, of_b, d.placements)
        # Partial products are rounded to bf16 before they are added.
        assert (d.full_tensor().double() - exact - added).abs().max() < 0.2
    batch = torch.stack([a, 2 * a])
    d = weft.matmul(distribute_tensor(batch, mesh, [Shard(0)]), distribute_tensor(b, mesh, [WHOLE]))
    assert d.placements == (Shard(0),)
    assert (d.full_tensor()[1].double() - 2 * exact).abs().max() < 0.3

    batches = torch.stack([batch, -batch])
    d = weft.matmul(distribute_tensor(batches, mesh, [Shard(1)]), distribute_tensor(batch, mesh, [Shard(0)]))
    assert d.placements == (Shard(1),)
    assert (d.full_tensor().double() - batches.double() @ batch.double()).abs().max() < 0.6

    rows = distribute_tensor(a, mesh, [Shard(0)]).requires_grad_()
    weight = distribute_tensor(b, mesh, [WHOLE]).requires_grad_()
    weft.matmul(rows, weight).sum().backward()
    of_weight = a.double().t() @ torch.ones(32, 48).double()
    assert (weight.grad.full_tensor().double() - of_weight).abs().max() < 0.3
    of_rows = torch.ones(32, 48).double() @ b.double().t()
    assert (rows.grad.full_tensor().double() - of_rows).abs().max() < 0.3
    dist.destroy_process_group()


@pytest.mark.slow
def test_products_stay_sharded():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(multiply, (port,), PROCESSES)
