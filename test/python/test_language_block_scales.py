"""Products with block scales in `weft.language`: right in the emulator, without findings."""

import runpy
from pathlib import Path

import language_mistakes
import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w
from weft import reference
from weft.language.capture.tracing_state import keeping_variables

ROOT = Path(__file__).resolve().parents[2]
gemm_nvfp4 = runpy.run_path(str(ROOT / "examples" / "language_nvfp4_gemm.py"))["gemm_nvfp4"]


@w.kernel(grid=lambda a, b, M, N: (w.ceil_div(a.rows, M), w.ceil_div(b.rows, N)), arch="sm_100a")
def scaled(
    a: w.In["m k"],
    b: w.In["n k"],
    a_scales: w.In[w.Scales, "m k"],
    b_scales: w.In[w.Scales, "n k"],
    d: w.Out["m n", w.f32],
    *,
    M=128,
    N=128,
    K=128,
    warpgroups=1,
):
    of_b, rows = max(N, 128), M // warpgroups
    ring = w.ring(
        2,
        takers=warpgroups,
        a=(M, K, a.dtype),
        b=(N, K, b.dtype),
        a_scales=w.block_scales(M, K, a_scales.dtype),
        b_scales=w.block_scales(of_b, K, b_scales.dtype),
    )
    row, column = w.cta(0) * M, w.cta(1) * N
    with w.role(warpgroups=warpgroups) as me:
        first, sums = me * rows, w.zeros((rows, N))
        for _ in w.range(0, a.columns, K):
            with ring.take() as stage:
                a_part, of_a = stage.a.rows(first, rows), stage.a_scales.rows(first, rows)
                b_part = stage.b_scales.rows(column % of_b, N)
                sums = w.wait(w.gemm(a_part, stage.b.T, sums, a_scales=of_a, b_scales=b_part))
        w.store(sums, d[row + first, column])
    with w.role(), w.one_thread():
        for k in w.range(0, a.columns, K):
            of_tiles = a_scales[row, k], b_scales[column, k]
            ring.fill(a=a[row, k], b=b[column, k], a_scales=of_tiles[0], b_scales=of_tiles[1])


def quantized(kind, rows, k, seed, element=None):
    numbers = np.random.default_rng(seed).standard_normal((rows, k))
    return reference.quantize(numbers, kind, element=element)


def check(d, a, b, bound=1e-6):
    want = a.values @ b.values.T / (a.factor * b.factor)
    assert np.abs(d - want).max() <= bound * np.abs(want).max()


@pytest.mark.parametrize("arch", ["sm_100a", pytest.param("sm_120a", marks=pytest.mark.sampled(3))])
@pytest.mark.parametrize(
    ("kinds", "shape", "meta"),
    [
        (("nvfp4", "nvfp4"), (130, 72, 352), {"K": 192}),
        (("mxfp4", "mxfp4"), (1, 200, 160), {"N": 32}),
        (("mxfp8", "mxfp8"), (300, 72, 208), {"M": 256, "N": 64, "warpgroups": 2}),
        (("mxfp8:e5m2", "mxfp6"), (130, 40, 256), {}),
        (("mxfp6:e3m2", "mxfp4"), (20, 130, 256), {"N": 64}),
        pytest.param(("mxfp4", "mxfp8"), (257, 264, 640), {}, marks=pytest.mark.slow),
        pytest.param(
            ("mxfp4", "mxfp4"), (260, 130, 416), {"M": 256, "warpgroups": 2}, marks=pytest.mark.slow
        ),
        pytest.param(("nvfp4", "nvfp4"), (257, 130, 32), {"K": 64}, marks=pytest.mark.slow),
    ],
)
def test_products_with_block_scales(kinds, shape, meta, arch):
    m, n, k = shape
    a, b = (
        quantized(kind.partition(":")[0], rows, k, rows, kind.partition(":")[2] or None)
        for kind, rows in zip(kinds, (m, n), strict=True)
    )
    d = np.zeros((m, n), np.float32)
    report = scaled.emulate(a.elements, b.elements, a.tiled_scales, b.tiled_scales, d, arch=arch, **meta)
    assert not report.findings, report
    check(d, a, b)


@w.kernel(arch="sm_100a")
def unscaled(a: w.In["m k", w.e2m3], b: w.In["n k", w.e4m3], d: w.Out["m n", w.f32]):
    ring = w.ring(2, a=(128, 128, a.dtype), b=(64, 128, b.dtype))
    with w.role(), ring.take() as stage:
        w.store(w.wait(w.gemm(stage.a, stage.b.T)), d[0, 0])
    with w.role(), w.one_thread():
        ring.fill(a=a[0, 0], b=b[0, 0])


def test_elements_without_scales():
    a, b = quantized("mxfp6", 70, 128, 0).elements, quantized("mxfp8", 40, 128, 1).elements
    d = np.zeros((70, 40), np.float32)
    assert not unscaled.emulate(a, b, d).findings
    assert np.allclose(d, a.astype(float) @ b.astype(float).T, rtol=1e-5, atol=1e-2)


def test_example_and_arrays_of_bytes():
    a, b = (quantized("nvfp4", rows, 544, rows) for rows in (200, 136))
    alpha, d = a.factor * b.factor, np.zeros((200, 136), ml_dtypes.bfloat16)
    scales = [each.tiled_scales.view(np.uint8) for each in (a, b)]
    report = gemm_nvfp4.emulate(a.packed, b.packed, *scales, d, alpha)
    assert not report.findings, report
    check(d.astype(float) / alpha, a, b, 2**-8)
    assert gemm_nvfp4.compile().resources.spill_stores == 0
    # The same products as the kernel of weft.matmul.
    of_matmul = weft.matmul(
        *(a.packed, b.packed),
        transpose_b=True,
        scales=(a.tiled_scales, b.tiled_scales),
        kind="nvfp4",
        alpha=alpha,
        out_dtype="bf16",
        arch="sm_100a",
    )
    assert np.array_equal(d.view(np.uint16), of_matmul.view(np.uint16))


def test_few_more_instructions_than_the_kernel_of_matmul():
    """Warp instructions for a K block, of all roles, with the same tile and stages."""
    schedule = "{block = array<i64: 128, 192, 256>, stages = 4, accumulators = 2}"
    operands = "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>"
    types = "(!E, !E, memref<?x?xbf16>, !S, !S) -> ()"
    matmul = weft.compile(
        f"""!E = memref<?x?xf4E2M1FN>
        !S = memref<?x?xf8E4M3FN>
        func.func @nvfp4(%a: !E, %b: !E, %d: memref<?x?xbf16>, %of_a: !S, %of_b: !S) {{
          "tile.matmul"(%a, %b, %d, %of_a, %of_b)
            {{{operands}, schedule = {schedule}, transpose_b = true}} : {types}
          return
        }}""",
        arch="sm_100a",
    )
    counts = {}
    for k in (1024, 2048):
        a, b = (quantized("nvfp4", rows, k, 0) for rows in (128, 192))
        scales, d = (a.tiled_scales, b.tiled_scales), np.zeros((128, 192), ml_dtypes.bfloat16)
        ours = gemm_nvfp4.emulate(a.packed, b.packed, *scales, d, 1.0, sanitize=False)
        counts[k] = (
            ours.instructions,
            matmul.emulate(a.elements, b.elements, d, *scales, sanitize=False).instructions,
        )
    ours, of_matmul = (counts[2048][n] - counts[1024][n] for n in range(2))
    assert ours <= 1.1 * of_matmul, counts


def test_tensors_of_pairs_of_elements():
    torch = pytest.importorskip("torch")
    a, b = (quantized("nvfp4", rows, 64, rows) for rows in (4, 8))
    pairs = [torch.from_numpy(each.packed).view(torch.float4_e2m1fn_x2) for each in (a, b)]
    scales = [torch.from_numpy(e.tiled_scales.view(np.uint8)).view(torch.float8_e4m3fn) for e in (a, b)]
    d = torch.zeros(4, 8)
    scaled(*pairs, *scales, d, on="emulator")
    check(d.numpy(), a, b)


PARAMETERS = "a: w.In['m k', w.e2m1], s: w.In[w.Scales[w.e4m3], 'm k'], p: w.In[w.Scales[w.e8m0], 'm k']"
MISTAKES = r"""
# b_scales must be those of the 64 columns of b, got .* 128 rows.*: use b_scales.rows\(first % 128, 64\)
ring = w.ring(2, a=(128, 128, w.e2m1), b=(64, 128, w.e2m1), s=w.block_scales(128, 128, w.e4m3))
with w.role(), ring.take() as x:
    w.gemm(x.a, x.b.T, a_scales=x.s, b_scales=x.s)

# depth .* must be a multiple of 64, .* got 100: use 128
w.block_scales(128, 100, w.e4m3)

# depth .* must be a multiple of 128, .* got 64: use 128
w.block_scales(128, 64, w.e8m0)

# rows .* must be a multiple of 128, .* got 64: use 128
w.block_scales(64, 64, w.e4m3)

# block scales must be of one of w.e8m0, w.e4m3, got w.f32
w.block_scales(128, 64, w.f32)

# 's' must be w.block_scales\(rows, depth, w.e8m0\), got \(128, 16, w.e8m0\)
w.ring(2, s=(128, 16, w.e8m0))

# columns .* must be a multiple of 64, got 100: use 128
w.ring(2, a=(128, 100, w.e2m1))

# columns .* must be a multiple of 128, got 64: use 128
w.ring(2, a=(128, 64, w.e3m2))

# a buffer of w.e2m1 must be one of a ring
w.shared(128, 128, w.e2m1)

# tiles in registers can't be of w.e2m3
w.zeros((64, 64), w.e2m3)

# w.load expects a buffer.* from which only ring.fill copies
w.load(a[0, 0], (64, 64))

# expects a number, got a place in the array 'a' of w.e2m1
a[0, 0] + 1

# b_scales must be a buffer of a ring.* got None
ring = w.ring(2, a=(128, 128, w.e2m1), b=(128, 128, w.e2m1), s=w.block_scales(128, 128, w.e4m3))
with w.role():
    stage = ring.take()
    w.gemm(stage.a, stage.b.T, a_scales=stage.s)

# a_scales must be a buffer of a ring.* got a buffer of 128 x 128 w.e2m1
ring = w.ring(2, a=(128, 128, w.e2m1), b=(128, 128, w.e2m1), s=w.block_scales(128, 128, w.e4m3))
with w.role():
    stage = ring.take()
    w.gemm(stage.a, stage.b.T, a_scales=stage.b)

# w.gemm of w.e2m1 and w.e2m1 needs a_scales and b_scales
ring = w.ring(2, a=(128, 128, w.e2m1), b=(128, 128, w.e2m1), s=w.block_scales(128, 128, w.e4m3))
with w.role():
    stage = ring.take()
    w.gemm(stage.a, stage.b.T)

# rows .* must be a multiple of 32 in 32..128, got 48
ring = w.ring(2, a=(128, 128, w.e2m1), b=(128, 128, w.e2m1), s=w.block_scales(128, 128, w.e4m3))
with w.role():
    stage = ring.take()
    stage.s.rows(0, 48)

# lanes can't read or write a buffer of 128 x 128 w.e2m1
ring = w.ring(2, a=(128, 128, w.e2m1), b=(128, 128, w.e2m1), s=w.block_scales(128, 128, w.e4m3))
with w.role():
    stage = ring.take()
    w.load(stage.a)

# must have all of its 128 columns, got 64
ring = w.ring(2, a=(128, 128, w.e2m1), b=(128, 128, w.e2m1), s=w.block_scales(128, 128, w.e4m3))
with w.role():
    stage = ring.take()
    stage.a.columns(0, 64)

# a_scales must have 8 scales of each of the 128 rows .* use w.block_scales\(128, 128, w.e4m3\)
ring = w.ring(2, a=(128, 128, w.e2m1), b=(128, 128, w.e2m1), s=w.block_scales(128, 256, w.e4m3))
with w.role():
    stage = ring.take()
    w.gemm(stage.a, stage.b.T, a_scales=stage.s, b_scales=stage.s)

# must be those of one of these kinds, got w.e4m3 and w.e4m3 of elements of w.e4m3 and w.e2m1
ring = w.ring(2, a=(128, 128, w.e4m3), b=(128, 128, w.e2m1), s=w.block_scales(128, 128, w.e4m3))
with w.role():
    stage = ring.take()
    w.gemm(stage.a, stage.b.T, a_scales=stage.s, b_scales=stage.s)

# a must have a multiple of 128 rows .* got 64
ring = w.ring(2, a=(64, 128, w.e4m3), b=(128, 128, w.e4m3), s=w.block_scales(128, 128, w.e8m0))
with w.role():
    stage = ring.take()
    w.gemm(stage.a, stage.b.T, a_scales=stage.s, b_scales=stage.s)

# elements of w.e2m1 and w.e4m3 must be filled in one ring
left, right = w.ring(2, a=(128, 128, w.e2m1)), w.ring(2, b=(128, 128, w.e4m3))
with w.role():
    w.gemm(left.take().a, right.take().b.T)

# a column of 'p' must be a multiple of 128, got 64
ring = w.ring(2, s=w.block_scales(128, 128, w.e8m0))
with w.role():
    ring.fill(s=p[0, 64])

# 's' must be filled from one of scales, w.Scales\[w.e8m0\], got a place in the array 'a' of w.e2m1
ring = w.ring(2, s=w.block_scales(128, 128, w.e8m0))
with w.role():
    ring.fill(s=a[0, 0])

# 'x' must be filled from an array of elements, got a place in the array 's' of w.e4m3
ring = w.ring(2, x=(128, 128, w.e4m3))
with w.role():
    ring.fill(x=s[0, 0])

# 's' has tiles of scales: use the sizes of the array that they scale
s.rows

# 's' has elements of w.e8m0, got .* of w.e4m3: make the buffer of w.e4m3
ring = w.ring(2, s=w.block_scales(128, 128, w.e8m0))
with w.role():
    ring.fill(s=s[0, 0])
"""


@pytest.mark.parametrize("code, message", language_mistakes.cases(MISTAKES, PARAMETERS))
def test_mistakes_are_explained(code, message, tmp_path):
    language_mistakes.refused(tmp_path, code, message, {"w": w}, "sm_100a")


def test_arrays_of_scales():
    a, b = (quantized("nvfp4", rows, 192, rows) for rows in (130, 40))
    d, vector = np.zeros((130, 40), np.float32), a.tiled_scales.reshape(-1)  # as PyTorch has them
    scaled.emulate(a.elements, b.elements, vector, b.tiled_scales, d, K=64)
    check(d, a, b)
    for wrong, message in (
        (a.scales, "'a_scales' must have the 3072 scales of 2 x 1536 in the 128x4 layout, got 130 x 12"),
        (a.tiled_scales.T, "'a_scales' must be contiguous"),
        (a.tiled_scales.astype(np.float32), "'a_scales' must have the sizes|block scales must be of one of"),
    ):
        with pytest.raises(weft.WeftError, match=message):
            scaled.emulate(a.elements, b.elements, wrong, b.tiled_scales, d, K=64)

    @w.kernel(arch="sm_100a")
    def alone(x: w.In["m k", w.e2m1], scales: w.In[w.Scales[w.e4m3], "m n"]):
        pass

    with pytest.raises(weft.WeftError, match="'scales' has scales of an array of m n, got none with n"):
        alone.emulate(a.packed, a.tiled_scales)
    with pytest.raises(
        weft.WeftError, match=r"w.Scales: the element type must be w.e8m0 or w.e4m3, got w\.f32"
    ):
        w.Scales[w.f32]
    with pytest.raises(weft.WeftError, match="scales are read, and those of a matrix, got 'm k'"):
        w.Out[w.Scales[w.e4m3], "m k"]


def test_chips_with_other_products(tmp_path):
    ring = "ring = w.ring(2, a=(64, 128, w.e2m1), b=(72, 128, w.e2m1), s=w.block_scales(128, 128, w.e4m3))"
    product = "stage.a, stage.b.T{}".format
    for operands, message in (
        (
            product(", a_scales=stage.s.rows(0, 64), b_scales=stage.s"),
            "a multiple of 32 columns on sm_120a, got 72",
        ),
        (product(""), "needs a_scales and b_scales on sm_120a"),
    ):
        lines = "def kernel():", ring, "with w.role():", "    stage = ring.take()", f"    w.gemm({operands})"
        code = "\n    ".join(lines)
        language_mistakes.refused(tmp_path, code, message, {"w": w}, "sm_120a")


def test_chips_without_block_scales(tmp_path):
    for arch, subject, line in (
        ("sm_90a", "block scales", "w.block_scales(128, 128, w.e4m3)"),
        ("sm_80", "elements of w.e2m1", "w.ring(2, a=(128, 128, w.e2m1))"),
    ):
        message = f"{subject} need sm_100f, sm_100a, .*, got {arch}: convert the elements"
        language_mistakes.refused(tmp_path, f"def kernel():\n    {line}", message, {"w": w}, arch)


def test_drawings_and_variables_for_a_debugger(tmp_path):
    @w.kernel(arch="sm_100a")
    def kernel():
        ring = w.ring(2, a=(128, 128, w.e2m1), s=w.block_scales(128, 128, w.e4m3))
        w.show(ring, file=tmp_path / "ring.svg")
        with w.role(), ring.take() as x:
            d = w.wait(w.gemm(x.a, x.a.T, a_scales=x.s, b_scales=x.s))
            w.pin(d)
        with w.role(), w.one_thread():
            ring.lend()

    with keeping_variables():
        assert "kernel.x.s|shared|f8E4M3FN|128x8" in kernel.compile().ptx
    drawing = (tmp_path / "ring.svg").read_text("utf-8")
    assert "8192 bytes" in drawing and "1024 bytes" in drawing


def test_rows_that_tma_does_not_expand():
    a, b = quantized("mxfp6", 4, 320, 0), quantized("mxfp8", 8, 320, 1)
    d = np.zeros((4, 8), np.float32)
    with pytest.raises(weft.WeftError, match="must be a multiple of 32, got 240; nearest legal: 224, 256"):
        scaled.emulate(a.elements, b.elements, a.tiled_scales, b.tiled_scales, d)
