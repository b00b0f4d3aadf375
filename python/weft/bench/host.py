"""The host time of `weft.matmul` and of each library's own call, with new array objects in every call."""

import gc
import json
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from weft.errors import WeftError

CALLS = 200  # between two waits for the GPU: fewer than a stream queues before it blocks
M, N, K = 64, 4096, 4096
"""A product that is short on the GPU, as those of one token are."""

Call = Callable[[], object]


@dataclass(frozen=True)
class Pair:
    """A call of Weft and the library's own, both on the same arrays.

    `ours` and `theirs` make as many calls as they are asked for, each with arrays of its own; the arrays are
    made before any is timed.
    """

    library: str
    name: str
    ours: Callable[[int], list[Call]]
    theirs: Callable[[int], list[Call]]
    wait: Call


@dataclass(frozen=True)
class Figure:
    """Medians of the microseconds that a call takes."""

    library: str
    name: str
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """Ours to theirs: below 1 where Weft occupies the host for less time."""
        return self.ours / self.theirs


def measure(pairs: Sequence[Pair], samples: int, progress: Callable[[int, int], None]) -> list[Figure]:
    """Times the calls of each pair in turns, `samples` times `CALLS` calls each."""
    figures = []
    for number, pair in enumerate(pairs):
        progress(number, len(pairs))
        _time(pair.ours(2), pair.wait)  # plans, and compiles
        ours, theirs = [], []
        for _ in range(samples):
            ours.append(_time(pair.ours(CALLS), pair.wait))
            theirs.append(_time(pair.theirs(CALLS), pair.wait))
        figures.append(Figure(pair.library, pair.name, statistics.median(ours), statistics.median(theirs)))
    return figures


def _time(calls: list[Call], wait: Call) -> float:
    """Microseconds of one of these calls."""
    wait()
    gc.disable()
    try:
        start = time.perf_counter()
        for call in calls:
            call()
        took = time.perf_counter() - start
    finally:
        gc.enable()
    wait()
    return took / len(calls) * 1e6


def table(figures: Sequence[Figure]) -> str:
    """The figures as lines of text."""
    width = max(len("call / other"), *(len(figure.name) for figure in figures))
    lines = [f"{'library':8}{'call / other':{width}}{'weft':>8}{'other':>8}{'ratio':>7}"]
    lines += [f"{f.library:8}{f.name:{width}}{f.ours:8.2f}{f.theirs:8.2f}{f.ratio:7.2f}" for f in figures]
    return "\n".join(lines)


def as_json(figures: Sequence[Figure], device: dict[str, object], versions: dict[str, str]) -> str:
    """The figures with the machine and the versions that they are of."""
    records = [asdict(figure) | {"ratio": figure.ratio} for figure in figures]
    report = {"device": device, "versions": versions, "shape": [M, N, K], "microseconds": records}
    return json.dumps(report, indent=1) + "\n"


def pairs(libraries: Sequence[str]) -> list[Pair]:
    """The calls of these libraries that are measured; of those that aren't installed, none."""
    listed: list[Pair] = []
    for name in libraries:
        if find_spec(name) is not None:
            listed += _PAIRS[name]()
    if not listed:
        raise WeftError(f"none of {', '.join(libraries)} is installed")
    return listed


def _torch() -> list[Pair]:
    import torch
    import torch.nn.functional as functional

    import weft

    make = partial(torch.randn, device="cuda", dtype=torch.bfloat16)
    a, b, w, d, bias = make(M, K), make(K, N), make(N, K), make(M, N), make(N)
    fresh = [partial(torch.Tensor.view_as, x, x) for x in (a, b, w, d, bias)]
    new_a, new_b, new_w, new_d, new_bias = fresh
    wait = torch.cuda.synchronize

    def of(call: Any, *arrays: Callable[[], Any], **options: Any) -> Callable[[int], list[Call]]:
        named = {name: value for name, value in options.items() if callable(value)}
        plain = {name: value for name, value in options.items() if not callable(value)}

        def calls(count: int) -> list[Call]:
            return [
                partial(call, *(x() for x in arrays), **plain, **{k: v() for k, v in named.items()})
                for _ in range(count)
            ]

        return calls

    def with_bias(x: Any, y: Any, z: Any) -> Any:
        return weft.matmul(x, y, transpose_b=True, epilogue=weft.Epilogue(bias=z))

    def add(name: str, ours: Any, theirs: Any) -> None:
        listed.append(Pair("torch", name, ours, theirs, wait))

    listed: list[Pair] = []
    mm, matmul = torch.mm, weft.matmul
    add("matmul(a, b) / mm", of(matmul, new_a, new_b), of(mm, new_a, new_b))
    add("with out= / mm", of(matmul, new_a, new_b, out=new_d), of(mm, new_a, new_b, out=new_d))
    linear = functional.linear
    add("transpose_b=True / linear", of(matmul, new_a, new_w, transpose_b=True), of(linear, new_a, new_w))
    transposed = w.t
    add("matmul(a, w.t()) / mm", of(matmul, new_a, transposed), of(mm, new_a, transposed))
    add("bias / linear", of(with_bias, new_a, new_w, new_bias), of(linear, new_a, new_w, new_bias))
    same = of(matmul, lambda: a, lambda: b, out=lambda: d)
    add("the same objects, out= / mm", same, of(mm, lambda: a, lambda: b, out=lambda: d))
    listed += _torch_scaled(of, wait)
    threads = _threads(matmul, fresh), _threads(mm, fresh)
    listed.append(Pair("torch", "4 threads, out= / mm", *threads, wait))
    return listed


def _threads(call: Any, fresh: Sequence[Callable[[], Any]]) -> Callable[[int], list[Call]]:
    """A first call that makes all of them, in four threads, and others that do nothing."""
    a, b, _, d, _ = fresh

    def calls(count: int) -> list[Call]:
        shares = [[partial(call, a(), b(), out=d()) for _ in range(count // 4)] for _ in range(4)]

        def work(share: list[Call]) -> None:
            for each in share:
                each()

        def run() -> None:
            threads = [threading.Thread(target=work, args=(share,)) for share in shares]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        return [run, *[lambda: None] * (count - 1)]

    return calls


def _torch_scaled(of: Any, wait: Call) -> list[Pair]:
    """fp8 with scales of blocks: 1 x 128 of A, 128 x 128 of B."""
    import torch

    import weft

    if torch.cuda.get_device_capability() != (9, 0):
        return []
    a, w = (torch.randn(s, K, device="cuda").to(torch.float8_e4m3fn) for s in (M, N))
    scale_a = torch.rand(K // 128, M, device="cuda").t()
    scale_b = torch.rand(N // 128, K // 128, device="cuda")
    new_a, new_w = (partial(torch.Tensor.view_as, x, x) for x in (a, w))
    new_scale_a = partial(torch.Tensor.as_strided, scale_a, scale_a.shape, scale_a.stride())
    new_scale_b = partial(torch.Tensor.view_as, scale_b, scale_b)

    def ours(x: Any, y: Any, of_x: Any, of_y: Any) -> Any:
        return weft.matmul(x, y, transpose_b=True, scales=(of_x, of_y))

    scaled = of(torch._scaled_mm, new_a, w.t, new_scale_a, scale_b.t, out_dtype=torch.bfloat16)
    own = of(ours, new_a, new_w, new_scale_a, new_scale_b)
    return [Pair("torch", "block scales / _scaled_mm", own, scaled, wait)]


def _cupy() -> list[Pair]:
    import cupy
    import numpy as np

    import weft

    a, b, d = (cupy.ones(shape, np.float16) for shape in ((M, K), (K, N), (M, N)))
    wait = cupy.cuda.Device().synchronize

    def calls(call: Any, out: bool) -> Callable[[int], list[Call]]:
        def made(count: int) -> list[Call]:
            options = [{"out": d.view()} if out else {} for _ in range(count)]
            return [partial(call, a.view(), b.view(), **each) for each in options]

        return made

    return [
        Pair("cupy", name, calls(weft.matmul, out), calls(cupy.matmul, out), wait)
        for name, out in (("matmul(a, b) / matmul", False), ("with out= / matmul", True))
    ]


def _jax() -> list[Pair]:
    import jax
    import jax.numpy as jnp

    import weft

    def calls(call: Any) -> Callable[[int], list[Call]]:
        def made(count: int) -> list[Call]:
            # A few arrays in turns: JAX has no views of one memory.
            sets = [
                (jnp.ones((M, K), jnp.bfloat16) + i, jnp.ones((K, N), jnp.bfloat16) + i) for i in range(4)
            ]
            jax.block_until_ready(sets)
            return [partial(call, *sets[i % 4]) for i in range(count)]

        return made

    def wait() -> None:
        jax.block_until_ready(jnp.zeros(1) + 1)

    return [Pair("jax", "matmul(a, b) / jnp.matmul", calls(weft.matmul), calls(jnp.matmul), wait)]


_PAIRS: dict[str, Callable[[], list[Pair]]] = {"torch": _torch, "cupy": _cupy, "jax": _jax}
LIBRARIES = tuple(_PAIRS)
