"""Times the kernels of `row_kernels.py` in `weft.language` beside the same in Triton, with its best number of
warps, PyTorch, and a copy.

    python benchmarks/language/rows.py [--kernels softmax,…] [--columns 512,…]

Prints a line of JSON for each kernel and shape: the error against float64, relative to the largest element,
and GB/s of the bytes that must be read and written, in CUDA graphs, in turns. Arrays are larger than the L2
cache. The ratio is to the faster one of Triton and PyTorch.
"""

import functools
import itertools
import json
import math
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import row_kernels as ours
import row_kernels_of_triton as theirs
import torch
import triton
from torch.nn import functional

from weft.bench import scripts

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "attention"))
from forward import in_turns, queued  # noqa: E402

ROWS = (
    (131072, 512),
    (65536, 1024),
    (16384, 3000),
    (16384, 4096),
    (8192, 16384),
    (4096, 32000),
    (2048, 65536),
)
TOKENS = ((4096, 32000), (2048, 128256))
FLAT = 1 << 26
CTAS = {1024: (528, 2112), 4096: (264, 528), 65536: (132, 264)}
"""The CTAs that add up gradients of weights, each for many rows, for rows of up to so many columns."""
WARPS = (2, 4, 8, 16, 32)
EPSILON = ours.EPSILON

THREADS = (32, 64, 128, 256, 512, 1024)

Case = tuple[str, dict[str, int], int, dict[str, Callable[[], object]], Callable[[], float]]
"""A kernel, its sizes, the bytes that it must read and write, its implementations, and Weft's error."""


def main() -> None:
    options = scripts.parser(__doc__)
    options.add_argument("--kernels", default="", help="only these, with commas between them")
    options.add_argument("--columns", default="", help="only rows of so many, with commas between them")
    chosen = scripts.parsed(options)
    kernels, columns = (
        [each for each in option.split(",") if each] for option in (chosen.kernels, chosen.columns)
    )
    ratios = dict[str, list[float]]()
    for name, sizes, bytes_, calls, error in cases(kernels, list(map(int, columns))):
        errors = list[float]()
        for each, call in calls.items():
            if each.startswith("weft") and not (errors and name == "cross_entropy"):  # which is in place
                call()
                torch.cuda.synchronize()
                errors.append(error())
        line: dict[str, Any] = {"kernel": name, **sizes, "error": float(f"{max(errors):.1e}")}
        speeds = {each: bytes_ / ms / 1e6 for each, ms in in_turns(calls).items()}
        of = {
            library: [each for each in speeds if each.startswith(library)] for library in ("weft", "triton")
        }
        mine, best = (max(names, key=speeds.__getitem__) for names in of.values())
        line |= {each: round(speeds[each]) for each in (mine, best, "torch", "copy") if each in speeds}
        ratios.setdefault(name, []).append(speeds[mine] / max(speeds[best], speeds.get("torch", 0)))
        print(json.dumps(line | {"ratio": round(ratios[name][-1], 3)}), flush=True)
        torch.cuda.empty_cache()
    every = [each for found in ratios.values() for each in found]
    for name, found in (*ratios.items(), ("all", every)):
        mean = math.exp(statistics.mean(map(math.log, found)))
        print(json.dumps({"kernel": name, "mean": round(mean, 3), "least": round(min(found), 3)}), flush=True)


def cases(chosen: list[str], columns: list[int]) -> Iterator[Case]:
    """The kernels of these names, or all; those of `ROWS` for rows of these lengths, or all."""

    def has(name: str) -> bool:
        return not chosen or name in chosen

    for m, n in ROWS:
        if not columns or n in columns:
            yield from of_rows(m, n, has)
    for dtype in (torch.bfloat16, torch.float32, torch.int64):
        if has("add"):
            yield of_sums(dtype)
    yield from of_flat_arrays(FLAT, has)
    for m, n in TOKENS:
        if has("cross_entropy"):
            yield of_cross_entropy(m, n)
    for name, of in (("rotary", of_rotary), ("transposed_cast", of_transposed_cast), ("top_k", of_top_k)):
        if has(name):
            yield of()


def tuned(
    kernel: Any,
    grid: Callable[[int], int],
    *args: Any,
    blocks: Sequence[int],
    columns: int = 1,
    warps: Sequence[int] = WARPS,
) -> dict[str, Any]:
    """Calls of a kernel of Triton with each number of warps and each block, of elements or of rows."""

    def call(B: int, warps: int) -> Callable[[], object]:
        return lambda: kernel[(grid(B),)](*args, B=B, num_warps=warps)

    sizes = {B: B * columns for B in blocks}
    most = {B: max(2, min(32, size // 32)) for B, size in sizes.items()}
    return {
        f"triton {B} {n}": call(B, n) for B in blocks for n in warps if n <= most[B] and sizes[B] // n <= 8192
    }


def prepared(
    kernel: Any,
    n: int,
    *args: object,
    most: int = 128,
    blocks: Sequence[int] = (),
    clusters: Sequence[int] = (1,),
    **more: int,
) -> dict[str, Any]:
    """Calls of a kernel of Weft with each number of threads, for vectors of `n` elements or of each block; or
    for parts of them, of each CTA in clusters of these sizes.
    """
    calls = dict[str, Any]()
    for C, T in itertools.product(clusters, THREADS):
        part = -(-n // C)
        for N in blocks or (-(-part // (4 * T)) * 4 * T,):
            if max(part, 128) >= 4 * T and N % (4 * T) == 0 and most * T >= N and (C == 1 or T >= 256):
                meta = {**({"C": C} if clusters != (1,) else {}), **more}
                calls[" ".join(map(str, ("weft", N, T, *meta.values())))] = queued(
                    kernel.prepare(*args, N=N, T=T, **meta)
                )
    return calls


def in_tiles(kernel: Any, n: int, *args: object, most: int = 128) -> dict[str, Any]:
    """Calls of a kernel of Weft with tiles of several rows, of which a thread has at most `most` elements."""
    N = triton.next_power_of_2(n)
    return {
        f"weft {R} x {N}": queued(kernel.prepare(*args, N=N, R=R)) for R in (4, 8, 16) if most * 128 // N >= R
    }


def distance(got: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((got.double() - wanted).abs().max() / wanted.abs().max())


def of_rows(m: int, n: int, has: Callable[[str], bool]) -> Iterator[Case]:
    made: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    torch.manual_seed(0)
    x, y, dy = (torch.randn(m, n, **made) for _ in range(3))
    gain, bias = torch.rand(n, **made), torch.rand(n, **made)
    sizes, blocks = {"rows": m, "columns": n}, (triton.next_power_of_2(n),)
    few, wide = slice(0, 64), x[:64].double()
    copy, bytes_ = {"copy": lambda: y.copy_(x)}, 4 * m * n
    clusters = (1,) if n <= 4096 else (1, 2, 4) if n <= 16384 else (1, 2, 4, 8)
    if has("softmax"):
        calls = {
            **prepared(ours.softmax, n, x, y, clusters=clusters),
            **in_tiles(ours.softmax_of_tiles, n, x, y),
            **tuned(theirs.t_softmax, lambda _: m, x, y, n, blocks=blocks),
            "torch": lambda: torch.softmax(x, 1),
        }
        yield "softmax", sizes, bytes_, calls | copy, lambda: distance(y[few], torch.softmax(wide, 1))
    if has("rms_norm"):
        calls = {
            **prepared(ours.rms_norm, n, x, gain, y, most=64, clusters=clusters),
            **in_tiles(ours.rms_norm_of_tiles, n, x, gain, y, most=64),
            **tuned(theirs.t_rms_norm, lambda _: m, x, gain, y, n, EPSILON, blocks=blocks),
            "torch": lambda: functional.rms_norm(x, (n,), gain, EPSILON),
        }
        norm = functional.rms_norm(wide, (n,), gain.double(), EPSILON)
        yield "rms_norm", sizes, bytes_, calls | copy, lambda: distance(y[few], norm)
    if has("layer_norm"):
        calls = {
            **prepared(ours.layer_norm, n, x, gain, bias, y, most=64, clusters=clusters),
            **(
                prepared(ours.layer_norm, n, x, gain, bias, y, most=64, clusters=(1, 2), P=2)
                if n > 4096
                else {}
            ),
            **in_tiles(ours.layer_norm_of_tiles, n, x, gain, bias, y, most=64),
            **(
                prepared(ours.layer_norm_in_loops, n, x, gain, bias, y, most=32, clusters=clusters[1:], G=66)
                if n > 16384
                else {}
            ),
            **tuned(theirs.t_layer_norm, lambda _: m, x, gain, bias, y, n, EPSILON, blocks=blocks),
            "torch": lambda: functional.layer_norm(x, (n,), gain, bias, EPSILON),
        }
        norm = functional.layer_norm(wide, (n,), gain.double(), bias.double(), EPSILON)
        yield "layer_norm", sizes, bytes_, calls | copy, lambda: distance(y[few], norm)
    if has("rms_backward"):
        calls = of_parts(ours.rms_backward, theirs.t_rms_backward, (x, gain, dy, y), (EPSILON,), (), clusters)
        leaf, weight = wide.clone().requires_grad_(), gain.double()
        functional.rms_norm(leaf, (n,), weight, EPSILON).backward(dy[few].double())
        wanted = leaf.grad
        assert wanted is not None
        yield "rms_backward", sizes, 6 * m * n, calls, lambda: distance(y[few], wanted)
    if has("layer_backward"):
        mean = x.float().mean(1)
        scale = (x.float().var(1, correction=0) + EPSILON).rsqrt()
        args = x, mean, scale, gain, dy, y
        calls = of_parts(ours.layer_backward, theirs.t_layer_backward, args, (), (2,), clusters)
        for ctas in (264, 396) if n <= 1024 else ():
            parts = torch.empty(2, 4 * ctas, n, device="cuda")
            made = in_tiles(ours.layer_backward_of_tiles, n, *args, parts, most=4 * n // 128)
            calls |= {f"{each}, {ctas} CTAs": summed(call, parts) for each, call in made.items()}
        means, which = (mean[:, None], scale[:, None]), [True] * 3
        calls["torch"] = lambda: torch.ops.aten.native_layer_norm_backward(
            dy, x, (n,), *means, gain, bias, which
        )
        leaf, weight = wide.clone().requires_grad_(), gain.double()
        functional.layer_norm(leaf, (n,), weight, bias.double(), EPSILON).backward(dy[few].double())
        wanted = leaf.grad
        assert wanted is not None
        yield "layer_backward", sizes, 6 * m * n, calls, lambda: distance(y[few], wanted)
    if has("fp8_cast"):
        z, scale = (
            torch.empty(m, n, device="cuda", dtype=torch.float8_e4m3fn),
            torch.empty(m, device="cuda"),
        )
        calls = {
            **prepared(ours.fp8_cast, n, x, z, scale, most=64, clusters=clusters),
            **tuned(theirs.t_fp8_cast, lambda _: m, x, z, scale, n, blocks=blocks),
        }
        yield (
            "fp8_cast",
            sizes,
            3 * m * n,
            calls,
            lambda: distance(z[few].double() * scale[few, None], wide),
        )


def of_parts(
    kernel: Any,
    theirs_: Any,
    args: tuple[torch.Tensor, ...],
    numbers: tuple[float, ...],
    arrays: tuple[int, ...],
    clusters: Sequence[int],
) -> dict[str, Any]:
    """Calls of kernels whose CTAs, of several numbers, make parts of the gradients of weights, and the sums
    of these parts. `numbers` are further arguments of Triton's kernel, `arrays` the number of gradients.
    """
    m, n = args[0].shape
    calls, blocks = dict[str, Any](), (triton.next_power_of_2(n),)
    for ctas in next(counts for most, counts in CTAS.items() if n <= most):
        for C in clusters:
            all_ = (*args, torch.empty(*arrays, ctas // C, n, device="cuda"))
            made = prepared(kernel, n, *all_, most=32 if n <= 4096 else 16, clusters=(C,))
            if C == 1:
                grid = functools.partial(lambda ctas, _: ctas, ctas)
                made |= tuned(theirs_, grid, *all_, m, n, *numbers, blocks=blocks)
            calls |= {f"{name}, {ctas} CTAs": summed(call, all_[-1]) for name, call in made.items()}
    return calls


def summed(call: Callable[[], object], parts: torch.Tensor) -> Callable[[], object]:
    """A call, and the sum of the parts of gradients that it makes."""
    return lambda: (call(), parts.sum(-2))


def of_sums(dtype: torch.dtype) -> Case:
    n = FLAT
    a, b = (torch.randint(0, 100, (n,), device="cuda").to(dtype) for _ in range(2))
    blocks = (1024, 2048)
    z = torch.empty_like(a)
    calls = {
        **prepared(ours.add, n, a, b, z, most=16, blocks=blocks),
        **tuned(theirs.t_add, lambda B: triton.cdiv(n, B), a, b, z, n, blocks=blocks),
        "torch": lambda: torch.add(a, b, out=z),
    }
    sizes = {"n": n, "bits": 8 * a.itemsize}
    return "add", sizes, 3 * n * a.itemsize, calls, lambda: distance(z, a.double() + b.double())


def of_flat_arrays(n: int, has: Callable[[str], bool]) -> Iterator[Case]:
    grid, blocks = lambda B: triton.cdiv(n, B), (1024, 2048)
    a, b, dy = (torch.randn(n, device="cuda").bfloat16() for _ in range(3))
    da, db, few = torch.empty_like(a), torch.empty_like(a), slice(0, 100000)
    leaves = [each[few].double().requires_grad_() for each in (a, b)]
    gated = functional.silu(leaves[0]) * leaves[1]
    gradients = torch.autograd.grad(gated, leaves, dy[few].double())
    if has("swiglu"):
        calls = {
            **prepared(ours.swiglu, n, a, b, da, most=16, blocks=blocks),
            **tuned(theirs.t_swiglu, grid, a, b, da, n, blocks=blocks),
            "torch": lambda: functional.silu(a) * b,
        }
        yield "swiglu", {"n": n}, 6 * n, calls, lambda: distance(da[few], gated.detach())
    if has("swiglu_backward"):
        calls = {
            **prepared(ours.swiglu_backward, n, a, b, dy, da, db, most=16, blocks=blocks),
            **tuned(theirs.t_swiglu_backward, grid, a, b, dy, da, db, n, blocks=blocks),
        }
        yield "swiglu_backward", {"n": n}, 10 * n, calls, lambda: distance(da[few], gradients[0])
    if has("dropout"):
        calls = {
            **prepared(ours.dropout, n, a, da, 7, most=16, blocks=(512, *blocks)),
            **tuned(theirs.t_dropout, lambda B: triton.cdiv(n, 4 * B), a, da, 7, n, blocks=(512, *blocks)),
            "torch": lambda: functional.dropout(a, 0.25),
        }
        yield "dropout", {"n": n}, 4 * n, calls, lambda: abs(float((da == 0).float().mean()) - 0.25)


def of_cross_entropy(m: int, n: int) -> Case:
    logits = torch.randn(m, n, device="cuda").bfloat16()
    x, loss = logits.clone(), torch.empty(m, device="cuda")
    target = torch.randint(0, n, (m,), device="cuda", dtype=torch.int32)
    wanted = functional.cross_entropy(logits.float(), target.long(), reduction="none").double()
    blocks = (4096, 8192, 16384)
    calls = {
        **prepared(ours.cross_entropy, n, x, target, loss, most=32, blocks=blocks),
        **tuned(theirs.t_cross_entropy, lambda _: m, x, target, loss, m, n, blocks=blocks),
    }
    return "cross_entropy", {"rows": m, "columns": n}, 6 * m * n, calls, lambda: distance(loss, wanted)


def of_rotary() -> Case:
    tokens, heads, D = 16384, 32, 128
    q = torch.randn(tokens, heads, D, device="cuda").bfloat16()
    angle = torch.rand(tokens, D // 2, device="cuda") * 6
    cos, sin, y = angle.cos().bfloat16(), angle.sin().bfloat16(), torch.empty_like(q)
    grid, counts = lambda B: tokens * triton.cdiv(heads, B), (8, 16, 32)
    calls = {
        **{f"weft {H}": queued(ours.rotary.prepare(q, cos, sin, y, H=H)) for H in counts},
        **tuned(theirs.t_rotary, grid, q, cos, sin, y, heads, D, blocks=counts, columns=D),
    }
    a, b, c, s = (each[:64].double() for each in (*q.chunk(2, 2), cos[:, None], sin[:, None]))
    wanted = torch.cat((a * c - b * s, b * c + a * s), 2)
    bytes_ = 4 * q.numel() + 4 * cos.numel()
    return "rotary", {"tokens": tokens, "heads": heads}, bytes_, calls, lambda: distance(y[:64], wanted)


def of_transposed_cast() -> Case:
    m, n, B = 8192, 8192, 128
    x = torch.randn(m, n, device="cuda").bfloat16()
    y = torch.empty(n, m, device="cuda", dtype=torch.float8_e4m3fn)
    scale, grid = torch.empty(m // B, n // B, device="cuda"), lambda _: m // B * (n // B)
    calls = {
        "weft": queued(ours.transposed_cast.prepare(x, y, scale)),
        **tuned(theirs.t_transposed_cast, grid, x, y, scale, m, n, blocks=(B,), columns=B),
    }
    return (
        "transposed_cast",
        {"rows": m, "columns": n},
        3 * m * n,
        calls,
        lambda: distance(y[:B, -B:].double().T * scale[-1, 0], x[-B:, :B].double()),
    )


def of_top_k() -> Case:
    m, n, K = 131072, 256, 8
    x = torch.randn(m, n, device="cuda")
    values = torch.empty(m, K, device="cuda")
    indices = torch.empty(m, K, device="cuda", dtype=torch.int32)
    args, grid, rows = (x, values, indices), lambda B: triton.cdiv(m, B), (4, 16)
    calls = {
        f"weft {R} {S}": queued(ours.top_k.prepare(*args, N=n, R=R, S=S)) for R in (16, 32) for S in (1, 8)
    }
    for name, kernel in (("", theirs.t_top_k), (" by sorting", theirs.t_top_k_by_sorting)):
        made = tuned(kernel, grid, *args, m, n, K, n, blocks=rows, columns=n, warps=(2, 4, 8))
        calls |= {each + name: call for each, call in made.items()}
    calls["torch"] = lambda: torch.topk(x, K)
    wanted = torch.topk(x, K).values
    return (
        "top_k",
        {"rows": m, "columns": n},
        m * (4 * n + 8 * K),
        calls,
        lambda: distance(values, wanted.double()) + distance(x.gather(1, indices.long()), wanted.double()),
    )


if __name__ == "__main__":
    main()
