"""The whole way on a GPU: every type, layout and epilogue of `tile.matmul`, at sizes that are even, odd and
large.
"""

import itertools
import time

import ml_dtypes
import numpy as np
import pytest
from gpu_marks import GPU

import weft
from weft.errors import WeftError
from weft.launch.arrays import numpy_dtype

pytestmark = GPU

SHAPES = [(16, 8, 16), (128, 128, 128), (1000, 1000, 1000), (4096, 4096, 4096), (1, 1, 1), (37, 53, 71)]
SCALES = [(1.0, 0.0), (1.0, 1.0), (0.5, 2.0)]


def source(inputs, output, transpose_b, alpha=1.0, beta=0.0, with_c=False, shape=("?", "?", "?"), strides=""):
    m, n, k = shape
    a, d = f"memref<{m}x{k}x{inputs}{strides}>", f"memref<{m}x{n}x{output}{strides}>"
    b = f"memref<{n}x{k}x{inputs}{strides}>" if transpose_b else f"memref<{k}x{n}x{inputs}{strides}>"
    c = [", %C", f", %C: {d}", f", {d}"] if with_c else ["", "", ""]
    sizes = f"operandSegmentSizes = array<i32: 1, 1, 1, {int(with_c)}{', 0' * 12}>"
    attributes = (
        f"{sizes}, transpose_b = {str(transpose_b).lower()}, alpha = {alpha} : f32, beta = {beta} : f32"
    )
    return f"""
func.func @matmul(%A: {a}, %B: {b}, %D: {d}{c[1]}) {{
  "tile.matmul"(%A, %B, %D{c[0]}) {{{attributes}}} : ({a}, {b}, {d}{c[2]}) -> ()
  return
}}"""


def small_integers(rng, shape, dtype):
    """Values whose products and sums are exact in float32, so that any order of accumulation gives the same
    bits.
    """
    return rng.integers(-4, 5, shape).astype(np.float32).astype(numpy_dtype(dtype))


def exact(a, b, c, transpose_b, alpha, beta, output):
    product = a.astype(np.float32) @ (b.T if transpose_b else b).astype(np.float32)
    total = alpha * product + (beta * c.astype(np.float32) if beta else 0)
    return total.astype(np.float32).astype(numpy_dtype(output))


@pytest.mark.parametrize("inputs", ["f16", "bf16"])
@pytest.mark.parametrize("transpose_b", [True, False], ids=["NxK", "KxN"])
@pytest.mark.parametrize("output", ["f32", "f16", "bf16"])
def test_every_shape_is_exact_on_integers(inputs, transpose_b, output):
    rng = np.random.default_rng(7)
    for alpha, beta in SCALES:
        kernel = weft.compile(source(inputs, output, transpose_b, alpha, beta))
        for m, n, k in SHAPES:
            a = small_integers(rng, (m, k), inputs)
            b = small_integers(rng, (n, k) if transpose_b else (k, n), inputs)
            d = small_integers(rng, (m, n), output) if beta else np.full((m, n), np.nan, numpy_dtype(output))
            want = exact(a, b, d, transpose_b, alpha, beta, output)
            kernel(a, b, d, on="gpu")
            assert np.array_equal(d, want), (alpha, beta, m, n, k)


def test_c_is_an_operand_of_its_own():
    rng = np.random.default_rng(8)
    kernel = weft.compile(source("bf16", "f32", True, 0.5, 2.0, with_c=True))
    for m, n, k in [(256, 192, 96), (37, 53, 71)]:
        a, b = small_integers(rng, (m, k), "bf16"), small_integers(rng, (n, k), "bf16")
        c, d = small_integers(rng, (m, n), "f32"), np.full((m, n), np.nan, np.float32)
        kernel(a, b, d, c, on="gpu")
        assert np.array_equal(d, exact(a, b, c, True, 0.5, 2.0, "f32"))


@pytest.mark.parametrize("transpose_b", [True, False], ids=["NxK", "KxN"])
def test_odd_shapes_next_to_the_tiles(transpose_b):
    rng = np.random.default_rng(9)
    kernel = weft.compile(source("f16", "f32", transpose_b))
    sizes = [1, 2, 7, 8, 15, 17, 63, 64, 65, 127, 129, 255, 257]
    shapes = rng.permutation(list(itertools.product(sizes, sizes, sizes)))[:200]
    for m, n, k in shapes:
        a = small_integers(rng, (m, k), "f16")
        b = small_integers(rng, (n, k) if transpose_b else (k, n), "f16")
        d = np.full((m, n), np.nan, np.float32)
        kernel(a, b, d, on="gpu")
        assert np.array_equal(d, exact(a, b, d, transpose_b, 1.0, 0.0, "f32")), (m, n, k)


def test_rows_with_strides():
    torch = pytest.importorskip("torch")
    kernel = weft.compile(source("bf16", "f32", True, strides=", strided<[?, 1]>"))
    for m, n, k, pad, start in [
        (100, 60, 64, 8, 0),
        (100, 60, 64, 3, 0),
        (65, 33, 128, 8, 1),
        (40, 33, 64, 8, 0),
        (64, 64, 64, 0, 0),
    ]:
        a = torch.randint(-4, 5, (m, k + pad), device="cuda").bfloat16()[:, start : start + k - start]
        b = torch.randint(-4, 5, (n, k + pad), device="cuda").bfloat16()[:, start : start + k - start]
        room = torch.full((m, n + n % 2 + 2 * pad), -1.0, device="cuda")
        d = room[:, pad : pad + n]
        kernel(a, b, d, on="gpu")
        torch.cuda.synchronize()
        assert torch.equal(d, (a.float() @ b.float().T)), (m, n, k, pad, start)
        assert (room[:, :pad] == -1).all() and (room[:, pad + n :] == -1).all()


def test_strides_that_the_type_states_hold_for_cpu_arrays():
    rng = np.random.default_rng(10)
    kernel = weft.compile(source("bf16", "f32", True, shape=(40, 24, 64), strides=", strided<[72, 1]>"))
    a, b = (small_integers(rng, (rows, 72), "bf16")[:, :64] for rows in (40, 24))
    room = np.full((40, 72), -1.0, np.float32)
    kernel(a, b, room[:, :24], on="gpu")
    assert np.array_equal(room[:, :24], exact(a, b, None, True, 1.0, 0.0, "f32"))
    assert (room[:, 24:] == -1).all()


def test_arrays_of_torch_run_in_place_on_the_callers_stream():
    torch = pytest.importorskip("torch")
    kernel = weft.compile(source("bf16", "bf16", False))
    a, b = (torch.randint(-4, 5, (512, 512), device="cuda").bfloat16() for _ in range(2))
    d = torch.full((512, 512), float("nan"), device="cuda", dtype=torch.bfloat16)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        kernel(a, b, d, stream=stream)
    stream.synchronize()
    assert torch.equal(d, (a.float() @ b.float()).bfloat16())


def test_wrong_arrays_are_refused():
    kernel = weft.compile(source("bf16", "f32", True))
    a, b, d = (np.zeros((16, 16), t) for t in (ml_dtypes.bfloat16, ml_dtypes.bfloat16, np.float32))
    with pytest.raises(WeftError, match="don't fit together"):
        kernel(a, b, np.zeros((16, 8), np.float32))
    with pytest.raises(WeftError, match="expects elements of bf16, got f32"):
        kernel(d, b, d)
    with pytest.raises(WeftError, match="takes 3 arguments, got 2"):
        kernel(a, b)


def test_a_large_product_reaches_45_percent_of_cublas():
    """Graphs of several launches, one untimed replay before each timed one, interleaved, medians of 12."""
    torch = pytest.importorskip("torch")
    size, calls = 4096, 6
    kernel = weft.compile(source("bf16", "f32", True))
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    d = torch.empty(size, size, device="cuda")
    runs = {
        "weft": lambda: kernel(a, b, d, stream=torch.cuda.current_stream()),
        "cublas": lambda: torch.mm(a, b.T),
    }
    graphs, times = {}, {name: [] for name in runs}
    for name, run in runs.items():
        run()
        torch.cuda.synchronize()
        graphs[name] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graphs[name]):
            for _ in range(calls):
                run()
    for _ in range(12):
        for name, graph in graphs.items():
            torch.cuda.synchronize()
            time.sleep(0.012)
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            graph.replay()
            start.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times[name].append(start.elapsed_time(end) / calls)
    ours, theirs = (float(np.median(times[name])) for name in ("weft", "cublas"))
    tflops = 2 * size**3 / 1e9
    print(
        f"weft {tflops / ours:.0f} TFLOP/s, cuBLAS {tflops / theirs:.0f} TFLOP/s, ratio {theirs / ours:.3f}"
    )
    assert theirs / ours >= 0.45
