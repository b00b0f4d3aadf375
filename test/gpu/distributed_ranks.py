"""What each process of `test_distributed_gpu.py` does: products over several GPUs, as one GPU has them."""

import faulthandler
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")

SHAPES = ((136, 264, 128), (1024, 1024, 2048), (1, 64, 64))
SLICED = ((128, 1024, 4096), (72, 2056, 6152))  # rows that kernels send in several slices of K
LARGE = ((4096, 512, 2048),)  # rows that copy engines send
BANDS = ((2048, 8192, 512), (1000, 4104, 1024))  # rows of a rank whose sums copy engines send
_LATE = 60  # seconds
_STARTED = time.perf_counter()
DECODED = ((1, 4096, 2048), (16, 8192, 4096), (64, 4096, 7168), (33, 264, 128))


def gathered_rows(team: Any) -> None:
    """Rows of all ranks times this rank's B: the bits of one GPU's product, call after call."""
    import torch
    from torch import distributed

    import weft
    from weft.distributed import all_gather_matmul

    for dtype in (torch.bfloat16, torch.float16):
        for m, n, k in SHAPES + SLICED + LARGE if dtype == torch.bfloat16 else SHAPES[:1]:
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


def several_products(team: Any) -> None:
    """Several products of the same rows: the bits of one call for each."""
    import torch

    import weft
    from weft.distributed import all_gather_matmul

    for m, k in ((256, 1024), (4096, 2048)):
        for turn in range(4):
            torch.manual_seed(100 * turn + team.rank)
            a = torch.randn(m, k, device="cuda").bfloat16()
            bs = [torch.randn(n, k, device="cuda").bfloat16() for n in (512, 128, 128)]
            bias = torch.randn(128, device="cuda").bfloat16()
            epilogues = [None, None, weft.Epilogue(bias=bias, activation="silu")]
            found = all_gather_matmul(a, bs, team=team, transpose_b=True, epilogue=epilogues)
            for each, b, epilogue in zip(found, bs, epilogues, strict=True):
                want = all_gather_matmul(a, b, team=team, transpose_b=True, epilogue=epilogue)
                assert torch.equal(each, want), (m, k, turn)


def gated_products(team: Any) -> None:
    """A gate, near that of separate products."""
    import torch

    import weft
    from weft.distributed import all_gather_matmul, interleaved

    gate = weft.Epilogue(activation="swiglu")
    for m, n, k in (*SHAPES[:2], (2048, 1024, 1024), (4096, 3584, 1024)):
        torch.manual_seed(team.rank)
        a = torch.randn(m, k, device="cuda").bfloat16()
        first, second = (torch.randn(n, k, device="cuda").bfloat16() / k**0.5 for _ in range(2))
        options = {"team": team, "transpose_b": True}
        z, up = (all_gather_matmul(a, each, **options).float() for each in (first, second))
        for _ in range(3):
            found = all_gather_matmul(a, interleaved(first, second), epilogue=gate, **options)
            near(found, torch.nn.functional.silu(z) * up, "gate")


def scaled_products(team: Any) -> None:
    """Products of fp8 with scales, near those of f32."""
    import torch
    from torch import distributed

    from weft.distributed import all_gather_matmul, matmul_all_reduce, matmul_reduce_scatter

    def wide(x: Any, scales: Any, rows: int) -> Any:
        of_rows = scales.repeat_interleave(rows, 0)[: x.shape[0]]
        return x.float() * of_rows.repeat_interleave(128, 1)[:, : x.shape[1]]

    def near(found: Any, want: Any) -> bool:
        return bool((found.float() - want).abs().max() <= 0.03 * want.abs().max())

    for m, n, k in ((64, 256, 384), (1024, 1024, 2048), (8192, 512, 2048)):
        torch.manual_seed(team.rank)
        a, b = (torch.randn(size, k, device="cuda").to(torch.float8_e4m3fn) for size in (m, n))
        of_a = torch.rand(k // 128, m, device="cuda").T
        of_b = torch.rand(-(-n // 128), k // 128, device="cuda")
        options = {"team": team, "transpose_b": True, "scales": (of_a, of_b)}
        left, right = wide(a, of_a, 1), wide(b, of_b, 128)
        whole = torch.empty(team.size * m, k, device="cuda")
        distributed.all_gather_into_tensor(whole, left)
        total = left @ right.T
        distributed.all_reduce(total)
        rows = m // team.size
        for _ in range(3):
            assert near(all_gather_matmul(a, b, **options), whole @ right.T), (m, n, k)
            assert near(matmul_all_reduce(a, b, **options), total), (m, n, k)
            own = total[team.rank * rows : (team.rank + 1) * rows]
            assert near(matmul_reduce_scatter(a, b, **options), own), (m, n, k)


def scattered_sums(team: Any) -> None:
    """Sums over all ranks: near those of f32, with the same bits in each call."""
    import torch
    from torch import distributed

    from weft.distributed import matmul_reduce_scatter

    for m, n, k in (*SHAPES, *BANDS):
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


def all_reduced_sums(team: Any) -> None:
    """Sums on all ranks: near those of f32, with the same bits on each rank and in each call."""
    import torch
    from torch import distributed

    from weft.distributed import matmul_all_reduce

    large = (team.size * 512, 8192, 1024)  # each rank adds up some rows
    for m, n, k in (*DECODED, large):
        for partials in ("bf16", "f32"):
            results = []
            for turn in range(6):
                torch.manual_seed(team.rank)
                a = torch.randn(m, k, device="cuda").bfloat16()
                b = torch.randn(n, k, device="cuda").bfloat16()
                if turn % 2 == team.rank % 2:
                    torch.cuda._sleep(2_000_000)
                results.append(matmul_all_reduce(a, b, team=team, transpose_b=True, partials=partials))
            want = a.float() @ b.float().T
            torch.cuda.synchronize()
            distributed.all_reduce(want)
            worst, scale = (results[0].float() - want).abs().max().item(), want.abs().max().item()
            assert worst <= 0.02 * scale, (m, n, k, partials, worst, scale)
            assert all(torch.equal(each, results[0]) for each in results), (m, n, k, partials)
            first = results[0].clone()
            distributed.broadcast(first, 0)
            assert torch.equal(first, results[0]), (m, n, k, partials)


def graphs(team: Any) -> None:
    """Graphs of calls, replayed between other calls, have the results of these."""
    import torch

    from weft.distributed import all_gather_matmul, matmul_all_reduce, matmul_reduce_scatter

    a, b = (torch.empty(64, 2048, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    rows, n, k = BANDS[0]
    large, weight = (torch.randn(m, k, device="cuda").bfloat16() for m in (team.size * rows, n))

    def calls() -> list[Any]:
        hidden = all_gather_matmul(a, b, team=team, transpose_b=True)
        return [
            matmul_reduce_scatter(large, weight, team=team, transpose_b=True),
            hidden,
            matmul_all_reduce(a, b, team=team, transpose_b=True),
            matmul_reduce_scatter(hidden, b[:, :64].contiguous(), team=team, transpose_b=True),
            matmul_all_reduce(a, b, team=team, transpose_b=True, partials="f32"),
        ]

    def renew(seed: int) -> None:
        torch.manual_seed(1000 * seed + team.rank)
        for each in (a, b, large):
            each.copy_(torch.randn_like(each))

    renew(0)
    calls()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        replayed = calls()
    for turn in range(20):
        renew(turn)
        if turn % 2 == team.rank % 2:
            torch.cuda._sleep(1_000_000)
        graph.replay()
        found = [each.clone() for each in replayed]
        for each, want in zip(found, calls(), strict=True):
            assert torch.equal(each, want), turn


def a_rank_that_does_not_come(team: Any) -> None:
    """A wait for another rank ends with an error. No GPU can be used afterwards."""
    import torch

    from weft.distributed import Team, matmul_all_reduce

    short = Team(seconds=2)
    a, b = (torch.ones(64, 512, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    matmul_all_reduce(a, b, team=short, transpose_b=True)
    torch.cuda.synchronize()
    if team.rank:
        time.sleep(6)
        os._exit(0)
    begun = time.perf_counter()
    matmul_all_reduce(a, b, team=short, transpose_b=True)
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        took = time.perf_counter() - begun
        print(f"a_rank_that_does_not_come: an error after {took:.1f} s", flush=True)
        os._exit(0 if took < 4 else 1)
    os._exit(1)


def near(found: Any, want: Any, name: str) -> None:
    """Tensors are the same except for the rounding of bf16."""
    worst, scale = (found.double() - want.double()).abs().max().item(), want.double().abs().max().item()
    assert found.shape == want.shape and worst <= 0.02 * scale, (name, found.shape, worst, scale)


def parallel_layers(team: Any) -> tuple[Any, Any, Any, list[Any]]:
    """A layer of columns and one of rows, those of one GPU, tokens of all ranks, and weights of a sum."""
    import torch

    from weft.nn import ColumnParallelLinear, Linear, RowParallelLinear

    torch.manual_seed(7)
    made: Any = {"device": "cuda", "dtype": torch.bfloat16}
    whole = torch.nn.Sequential(Linear(256, 1024, **made, activation="relu"), Linear(1024, 256, **made))
    parts = torch.nn.Sequential(
        ColumnParallelLinear.of(whole[0], team=team), RowParallelLinear.of(whole[1], team=team)
    )
    tokens, weights = (torch.randn(team.size * 96, 256, **made) for _ in range(2))
    return parts, whole, tokens.requires_grad_(), weights


def gradients_of_layers(team: Any, compiled: bool = False) -> None:
    """Gradients of layers that are divided: those of the whole layers, eager and compiled."""
    import torch

    parts, whole, tokens, weights = parallel_layers(team)
    (whole(tokens) * weights).sum().backward()
    own = slice(96 * team.rank, 96 * (team.rank + 1))
    x = tokens.detach()[own].clone().requires_grad_()
    run = torch.compile(parts, fullgraph=True) if compiled else parts
    for _ in range(3):
        x.grad = None
        parts.zero_grad()
        out = run(x)
        (out * weights[own]).sum().backward()
        near(out, whole(tokens)[own], "out")
        near(x.grad, tokens.grad[own], "x")
        divided = {"0.weight": 0, "0.bias": 0, "1.weight": 1}
        for name, parameter in parts.named_parameters():
            want = dict(whole.named_parameters())[name].grad
            if name in divided:
                want = want.chunk(team.size, divided[name])[team.rank]
            near(parameter.grad, want, name)
    for found, layer in zip((each.to_linear() for each in parts), whole, strict=True):
        assert torch.equal(found.weight, layer.weight) and torch.equal(found.bias, layer.bias)


def gradients_of_sums(team: Any) -> None:
    """Gradients of sums that all ranks have: those of the whole product."""
    import torch

    import weft
    from weft.distributed import matmul_all_reduce

    torch.manual_seed(3)
    made: Any = {"device": "cuda", "dtype": torch.bfloat16}
    a, b = torch.randn(64, 512, **made), torch.randn(256, 512, **made)
    of_d = torch.randn(64, 256, **made)
    whole = [each.clone().requires_grad_() for each in (a, b)]
    product = whole[0] @ whole[1].mT
    of_d *= product.detach().abs() > 1  # sums of ranks are rounded to bf16, which changes signs of small ones
    torch.relu(product).backward(of_d)
    own = [each.chunk(team.size, 1)[team.rank].contiguous().requires_grad_() for each in (a, b)]
    relu = weft.Epilogue(activation="relu")
    # Rounded partial sums might be zeros where the whole one is positive.
    matmul_all_reduce(*own, team=team, transpose_b=True, epilogue=relu, partials="f32").backward(of_d)
    for found, want in zip(own, whole, strict=True):
        near(found.grad, want.grad.chunk(team.size, 1)[team.rank], "gradient")


def layers_of_fp8(team: Any) -> None:
    """Layers of fp8, near those of bf16, eager and compiled."""
    import torch

    parts, _, tokens, _ = parallel_layers(team)
    x = tokens.detach()[96 * team.rank : 96 * (team.rank + 1)]
    with torch.no_grad():
        want = parts(x).float()
        for each in parts:
            each.to_fp8()
        for run in (parts, torch.compile(parts, fullgraph=True)):
            worst = ((run(x).float() - want).norm() / want.norm()).item()
            assert worst <= 0.06, worst


def compiled_layers(team: Any) -> None:
    """Layers in one graph of torch.compile."""
    gradients_of_layers(team, compiled=True)


def captured_layers(team: Any) -> None:
    """Layers in a CUDA graph: replays have the results of eager calls, before and after them."""
    import torch

    import weft
    from weft.distributed import all_gather_matmul

    parts, _, tokens, weights = parallel_layers(team)
    x, of_sum = (each.detach().chunk(team.size)[team.rank].clone() for each in (tokens, weights))
    x.requires_grad_()

    def step() -> list[Any]:
        x.grad = None
        parts.zero_grad()
        out = parts(x)
        (out * of_sum).sum().backward()
        return [out.detach(), x.grad, *[each.grad for each in parts.parameters()]]

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(2):
            wanted = [each.clone() for each in step()]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        found = step()
    for each in found:
        each.fill_(float("nan"))  # which an empty graph would leave
    inputs = [x.detach().clone(), x.detach() / 2]
    for turn in range(10):
        if turn % 2 == team.rank % 2:
            torch.cuda._sleep(2_000_000)
        with torch.no_grad():
            x.copy_(inputs[turn % 2])
        graph.replay()
        kept = [each.clone() for each in found]
        if turn % 3 == 0:
            eager = step()
            assert all(map(torch.equal, kept, eager)), turn
        if turn % 2 == 0:
            assert all(map(torch.equal, kept, wanted)), turn
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=stream):
            x.detach().clone()  # PyTorch warns of empty graphs
            all_gather_matmul(x.detach()[:8], parts[0].weight.detach()[:8], team=team, transpose_b=True)
    except weft.WeftError as error:
        assert "call it once before the capture" in str(error), error
    else:
        raise AssertionError("a first call was captured")


def timed_layers(team: Any) -> None:
    """Times of a forward and backward pass, and of the host's part, beside NCCL and cuBLAS in turn."""
    import torch
    from torch.distributed.nn import functional

    from weft.nn import ColumnParallelLinear, RowParallelLinear

    def in_turn(x: Any, up: Any, down: Any) -> Any:
        whole = torch.cat(functional.all_gather(x)) if team.size > 1 else x
        partial = torch.relu(whole @ up.mT) @ down.mT
        out = torch.empty_like(x)
        return functional.reduce_scatter(out, list(partial.chunk(team.size)))

    made: Any = {"device": "cuda", "dtype": torch.bfloat16, "bias": False}
    for rows in (2048, 8192):
        up = ColumnParallelLinear(4096, 14336, **made, activation="relu", team=team)
        down = RowParallelLinear(14336, 4096, **made, team=team)
        x = torch.randn(rows // team.size, 4096, device="cuda").bfloat16().requires_grad_()
        layers = torch.nn.Sequential(up, down)
        for name, run in (("weft", layers), ("in turn", partial(in_turn, up=up.weight, down=down.weight))):
            gpu, host = timed(lambda run=run, x=x: run(x).backward(x.detach()))
            if team.rank == 0:
                print(f"{rows} rows, {name}: {gpu:.0f} us, host {host:.0f} us", flush=True)


def timed(run: Callable[[], Any], calls: int = 20) -> tuple[float, float]:
    """Microseconds of a call, on the GPU and on the host."""
    import torch
    from torch import distributed

    for _ in range(5):
        run()
    torch.cuda.synchronize()
    distributed.barrier()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begun = time.perf_counter()
    start.record()
    for _ in range(calls):
        run()
    host = time.perf_counter() - begun
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3 / calls, host * 1e6 / calls


def main(rank: int, size: int) -> None:
    """Runs everything on one rank."""
    import torch
    from torch import distributed

    from weft.distributed import Team

    if rank == 0:
        faulthandler.dump_traceback_later(_LATE, repeat=True)  # where a check hangs
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    distributed.init_process_group("nccl", rank=rank, world_size=size, device_id=device)
    team = Team(seconds=20)
    for check in [each for each in CHECKS if each.__name__ in sys.argv] or CHECKS:
        begun = time.perf_counter()
        check(team)
        torch.cuda.synchronize()
        if rank == 0:
            print(f"{check.__name__}: passed in {time.perf_counter() - begun:.1f} s", flush=True)
    faulthandler.cancel_dump_traceback_later()
    distributed.destroy_process_group()
    if rank == 0:
        print(f"ended {time.perf_counter() - _STARTED:.1f} s after the start", flush=True)


CHECKS = [
    gathered_rows,
    several_products,
    gated_products,
    scaled_products,
    scattered_sums,
    all_reduced_sums,
    graphs,
    gradients_of_layers,
    gradients_of_sums,
    layers_of_fp8,
    captured_layers,
    timed_layers,
    compiled_layers,
    a_rank_that_does_not_come,
]

if __name__ == "__main__":
    if "RANK" not in os.environ:
        sys.exit("test_distributed_gpu.py starts this program, once for each GPU")
    main(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
