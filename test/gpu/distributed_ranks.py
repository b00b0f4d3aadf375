"""What each process of `test_distributed_gpu.py` does: products over several GPUs, as one GPU has them."""

import os
import sys
import time
from typing import Any

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")

SHAPES = ((136, 264, 128), (1024, 1024, 2048), (1, 64, 64))


def probe(team: Any) -> None:
    """Prints what the driver can do with memory of another GPU."""
    import torch

    from weft.launch import cuda_driver

    driver = cuda_driver.api()
    memory = team.devices.shared(1 << 20)
    peer = (team.rank + 1) % team.size
    stream = torch.cuda.current_stream().cuda_stream
    for name, call in (
        (
            "copy of 4 bytes",
            lambda: driver.cuMemcpyDtoDAsync(memory[peer].address, memory[team.rank].address, 4, stream),
        ),
        ("write value", lambda: driver.cuStreamWriteValue32(stream, memory[peer].address, 7, 0)),
        ("wait for value", lambda: driver.cuStreamWaitValue32(stream, memory[team.rank].address, 0, 0)),
    ):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        status = call()
        torch.cuda.synchronize()
        start.record()
        begun = time.perf_counter()
        for _ in range(100):
            call()
        took = time.perf_counter() - begun
        end.record()
        torch.cuda.synchronize()
        gpu = start.elapsed_time(end) * 10
        if team.rank == 0:
            print(f"{name}: {status}, host {took * 1e4:.1f} us, stream {gpu:.1f} us", flush=True)


def gathered_rows(team: Any) -> None:
    """Rows of all ranks times this rank's B: the bits of one GPU's product, call after call."""
    import torch
    from torch import distributed

    import weft
    from weft.distributed import all_gather_matmul

    for dtype in (torch.bfloat16, torch.float16):
        for m, n, k in SHAPES:
            for turn in range(6):
                torch.manual_seed(100 * turn + team.rank)
                a = torch.randn(m, k, device="cuda").to(dtype)
                b = torch.randn(n, k, device="cuda").to(dtype)
                bias = torch.randn(n, device="cuda").to(dtype)
                if turn % 2 == team.rank % 2:  # ranks come at different times
                    torch.cuda._sleep(2_000_000)
                added = torch.randn(team.size * m, n, device="cuda").to(dtype)
                whole = weft.Epilogue(bias=bias, activation="relu", residual=added)
                epilogue = whole if turn == 3 else None
                out = all_gather_matmul(a, b, team=team, transpose_b=True, epilogue=epilogue)
                whole = torch.empty(team.size * m, k, device="cuda", dtype=dtype)
                torch.cuda.synchronize()
                distributed.all_gather_into_tensor(whole, a)
                want = weft.matmul(whole, b, transpose_b=True, epilogue=epilogue)
                worst = (out.float() - want.float()).abs().max().item()
                scale = want.float().abs().max().item()
                assert worst <= 0.01 * scale, (dtype, m, n, k, turn, worst, scale)


def scattered_sums(team: Any) -> None:
    """Sums over all ranks: near those of f32, with the same bits in each call."""
    import torch
    from torch import distributed

    from weft.distributed import matmul_reduce_scatter

    for m, n, k in SHAPES:
        for partials in ("bf16", "f32"):
            results = []
            for turn in range(4):
                torch.manual_seed(team.rank)
                a = torch.randn(team.size * m, k, device="cuda").bfloat16()
                b = torch.randn(n, k, device="cuda").bfloat16()
                if turn % 2 == team.rank % 2:
                    torch.cuda._sleep(2_000_000)
                results.append(matmul_reduce_scatter(a, b, team=team, transpose_b=True, partials=partials))
            want = torch.empty(m, n, device="cuda")
            torch.cuda.synchronize()
            distributed.reduce_scatter_tensor(want, a.float() @ b.float().T)
            worst, scale = (results[0].float() - want).abs().max().item(), want.abs().max().item()
            assert worst <= 0.02 * scale, (m, n, k, partials, worst, scale)
            assert all(torch.equal(each, results[0]) for each in results), (m, n, k, partials)


def main(rank: int, size: int) -> None:
    """Runs everything on one rank."""
    import torch
    from torch import distributed

    from weft.distributed import Team

    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    distributed.init_process_group("nccl", rank=rank, world_size=size, device_id=device)
    team = Team(seconds=20)
    if "probe" in sys.argv:
        probe(team)
    for check in [each for each in CHECKS if each.__name__ in sys.argv] or CHECKS:
        begun = time.perf_counter()
        check(team)
        torch.cuda.synchronize()
        if rank == 0:
            print(f"{check.__name__}: passed in {time.perf_counter() - begun:.1f} s", flush=True)
    distributed.destroy_process_group()


CHECKS = [gathered_rows, scattered_sums]

if __name__ == "__main__":
    main(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
