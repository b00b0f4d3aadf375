"""What is done with the sums of a product, on a GPU: activations and what is added against float64, fp8, and
`weft.matmul` with arrays that move between calls.
"""

import numpy as np
import pytest
from gpu_marks import GPU, WGMMA

import weft
import weft.language as w
from weft import reference
from weft.dialects import tile
from weft.dialects.activations import ACTIVATIONS
from weft.launch.arrays import numpy_dtype
from weft.mlir import ir

pytestmark = GPU

SHAPES = [(128, 256, 512), (1000, 1000, 264), (16, 8192, 128), (37, 53, 71), (1, 1, 1)]


def compiled(kinds, added, activation, beta=0.0):
    with weft.Module() as module:
        types = [weft.memref("?x?", kind) for kind in kinds]
        types += [weft.memref("?" if role == "bias" else "?x?", kind) for role, kind in added.items()]
        with module.func("product", types) as operands:
            extra = dict(zip(added, operands[3:], strict=True))
            tile.matmul(*operands[:3], transpose_b=True, beta=beta, activation=activation, **extra)
    return weft.compile(module)


def random(rng, kind, *shape):
    dtype = numpy_dtype(kind)
    if np.issubdtype(dtype, np.integer):
        return rng.integers(np.iinfo(dtype).min // 2, np.iinfo(dtype).max // 2, shape).astype(dtype)
    return rng.standard_normal(shape, np.float32).astype(dtype)


def check(kernel, kinds, added, activation, shape, beta=0.0):
    m, n, k = shape
    rng = np.random.default_rng(m + n + k)
    a, b, d = random(rng, kinds[0], m, k), random(rng, kinds[1], n, k), random(rng, kinds[2], m, n)
    given = {role: random(rng, kind, *((n,) if role == "bias" else (m, n))) for role, kind in added.items()}
    rest = {role: given.get(role) for role in ("bias", "residual")}
    expected = reference.product(
        a, b, given.get("c"), transpose_b=True, beta=beta, activation=activation, dtype=d.dtype, **rest
    )
    kernel(a, b, d, *given.values(), on="gpu")
    found = expected.compare(d)
    assert found.passed, (shape, found)


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
@pytest.mark.parametrize("output", ["f32", "bf16"])
def test_everything_that_can_be_added(activation, output):
    kinds, added = ("bf16", "bf16", output), {"c": "f32", "bias": "f16", "residual": "bf16"}
    kernel = compiled(kinds, added, activation, beta=2.0)
    for shape in SHAPES:
        check(kernel, kinds, added, activation, shape, beta=2.0)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_activation_is_within_its_bound(activation):
    kernel = compiled(("f16", "f16", "f32"), {"c": "f32"}, activation, beta=1.0)
    x = np.random.default_rng(5).uniform(-6, 6, (1024, 1024)).astype(np.float32)
    x[0] = np.linspace(-100, 100, 1024)
    d, zeros = np.empty_like(x), np.zeros((1024, 64), np.float16)
    kernel(zeros, zeros, d, x, on="gpu")
    want, bound = reference.ACTIVATIONS[activation].of(x.astype(np.float64), np.zeros(x.shape))
    assert (np.abs(d - want) <= bound).all()


@WGMMA
@pytest.mark.parametrize("output", ["f8E4M3FN", "f8E5M2"])
def test_results_of_fp8(output):
    kinds = ("bf16", "bf16", output)
    kernel = compiled(kinds, {"bias": "f32"}, "relu")
    for shape in SHAPES:
        check(kernel, kinds, {"bias": "f32"}, "relu", shape)


@WGMMA
@pytest.mark.parametrize(
    "kinds", [("ui8", "ui8", "i32"), ("ui8", "i8", "i32"), ("i8", "ui8", "i32")], ids=str
)
def test_bytes_of_either_sign(kinds):
    added = {"bias": "i32", "residual": "i32"}
    kernel = compiled(kinds, added, "relu")
    for shape in ((128, 256, 512), (1000, 1000, 272), (16, 8192, 128)):
        check(kernel, kinds, added, "relu", shape)


def test_arrays_of_an_epilogue_may_move():
    torch = pytest.importorskip("torch")
    a, b = (torch.randint(-2, 3, (256, 256), device="cuda").bfloat16() for _ in range(2))
    out = torch.empty(256, 256, device="cuda")
    product = a.float() @ b.float()
    for _ in range(3):
        bias = torch.randint(-9, 9, (256,), device="cuda").float()
        residual = torch.randint(-9, 9, (256, 256), device="cuda").bfloat16()
        for activation in ("relu", None):
            epilogue = weft.Epilogue(bias=bias, activation=activation, residual=residual)
            weft.matmul(a, b, out=out, epilogue=epilogue)
            total = product + bias
            want = (total.relu() if activation else total) + residual.float()
            assert torch.equal(out, want)
        weft.matmul(a, b, out=out)
        assert torch.equal(out, product)


def test_activations_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    a, b = (torch.randn(512, 512, device="cuda").bfloat16() for _ in range(2))
    bias, product = torch.randn(512, device="cuda"), a.float() @ b.float()
    theirs = {
        "relu": functional.relu,
        "gelu": functional.gelu,
        "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
        "silu": functional.silu,
    }
    for name, function in theirs.items():
        found = weft.matmul(a, b, epilogue=weft.Epilogue(bias=bias, activation=name), out_dtype="f32")
        torch.testing.assert_close(found, function(product + bias), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [each for each in SHAPES if each[0] > 1], ids=str)
def test_functions_of_an_element(shape):
    torch = pytest.importorskip("torch")
    m, n, k = shape
    a, b = (torch.randint(-2, 3, each, device="cuda").bfloat16() for each in ((m, k), (k, n)))
    product = a.float() @ b.float()
    for _ in range(3):  # with a plan from the second call on
        rows, columns = torch.rand(m, 1, device="cuda"), torch.rand(n, device="cuda")
        gate, bias = torch.randn(m, n, device="cuda").bfloat16(), torch.rand(n, device="cuda")

        def function(x, row, column, rows, columns, gate):
            return w.where(row >= column, w.tanh(x * rows * columns / 8.0) * gate, 0.0), x

        extra = {"rows": rows, "columns": columns, "gate": gate}
        d, sums = weft.matmul(a, b, epilogue=function, extra=extra, out_dtype=("f32", "bf16"))
        torch.testing.assert_close(sums, product.bfloat16())
        want = torch.tril(torch.tanh(product * rows * columns / 8) * gate.float())
        torch.testing.assert_close(d, want, rtol=2e-3, atol=2e-3)
        out = torch.empty_like(d), torch.empty_like(sums)
        assert weft.matmul(a, b, epilogue=function, extra=extra, out=out) == out
        assert torch.equal(out[0], d) and torch.equal(out[1], sums)
        own = weft.matmul(a, b, epilogue=lambda x, i, j, bias: w.gelu(x + bias), extra=(bias,))
        torch.testing.assert_close(own, weft.matmul(a, b, epilogue=weft.Epilogue(bias, "gelu")))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_further_results(shape):
    m, n, k = shape
    kernel = further_results()
    rng = np.random.default_rng(m)
    a, b = (rng.integers(-3, 4, each).astype(numpy_dtype("bf16")) for each in ((m, k), (n, k)))
    d, sums = np.full((m, n), np.nan, a.dtype), np.full((m, n), np.nan, np.float32)
    of_columns, of_rows = np.full(n, 5, np.float32), np.full(m, -np.inf, np.float32)
    kernel(a, b, d, sums, of_columns, of_rows, on="gpu")
    want = a.astype(np.float32) @ b.astype(np.float32).T
    np.testing.assert_array_equal(sums, want)
    np.testing.assert_array_equal(d, want.astype(d.dtype))
    np.testing.assert_array_equal(of_columns, 5 + want.sum(0))  # exact: integers
    np.testing.assert_array_equal(of_rows, want.max(1))


def further_results():
    """A kernel that also stores the sums in f32, the sum of each column and the largest one of each row."""
    with weft.Module() as module:
        kinds = [weft.memref("?x?", kind) for kind in ("bf16", "bf16", "bf16", "f32")]
        with module.func("product", [*kinds, *[weft.memref("?", "f32")] * 2]) as (
            a,
            b,
            d,
            sums,
            columns,
            rows,
        ):

            def element(x, row, column):
                tile.store_element(x, sums, row, column)
                tile.store_element(x, columns, column, kind="add")
                tile.store_element(x, rows, row, kind="maximumf")
                return x

            tile.matmul(a, b, d, transpose_b=True, epilogue=tile.epilogue(ir.F32Type.get(), element))
    return weft.compile(module)
