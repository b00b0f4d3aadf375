"""Products over several devices of JAX, on the CPU. `jax.vmap` with a name of its axis has collectives."""

from functools import partial

import numpy as np
import pytest
from jax_processes import run

import weft
from weft.dialects.activations import ACTIVATIONS

jax = pytest.importorskip("jax", reason="needs JAX")
jnp = jax.numpy
wjax = pytest.importorskip("weft.jax")

BF16 = jnp.bfloat16
RANKS, M, N, K = 2, 8, 16, 32


def numbers(*shape, seed, dtype=BF16):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def f64(array):
    return np.asarray(array, np.float64)


def near(found, want, tolerance=0.02):
    assert found.shape == want.shape
    assert np.abs(f64(found) - want).max() <= tolerance * np.abs(want).max()


def over_ranks(function, *operands):
    """The results of all ranks."""
    return jax.jit(jax.vmap(function, axis_name="x"))(*operands)


def test_rows_of_all_devices_are_multiplied():
    a, b, bias = numbers(RANKS, M, K, seed=0), numbers(RANKS, N, K, seed=1), numbers(RANKS, N, seed=2)

    def local(a, b, bias):
        return wjax.all_gather_matmul(a, b, "x", transpose_b=True, bias=bias, activation="relu")

    found = over_ranks(local, a, b, bias)
    rows = f64(a).reshape(-1, K)
    near(found, np.stack([np.maximum(rows @ y.T + z, 0) for y, z in zip(f64(b), f64(bias), strict=True)]))
    assert found.dtype == BF16


@pytest.mark.parametrize(
    "activation",
    ["silu", *(pytest.param(each, marks=pytest.mark.slow) for each in (None, *list(ACTIVATIONS)[:3]))],
)
def test_sums_have_an_epilogue(activation):
    a, b = numbers(RANKS, RANKS * M, K, seed=0), numbers(RANKS, K, N, seed=1)
    bias, residual = numbers(N, seed=2), numbers(RANKS * M, N, seed=3)
    epilogue = {"bias": bias, "activation": activation}

    def local(a, b, residual):
        own = jax.lax.dynamic_slice_in_dim(residual, jax.lax.axis_index("x") * M, M)
        return (
            wjax.matmul_reduce_scatter(a, b, "x", **epilogue, residual=own),
            wjax.matmul_all_reduce(a, b, "x", **epilogue, residual=residual, partials="f32"),
        )

    parts, whole = over_ranks(local, a, b, jnp.stack([residual] * RANKS))
    z = jnp.asarray((f64(a) @ f64(b)).sum(0) + f64(bias), jnp.float32)
    functions = {"gelu": partial(jax.nn.gelu, approximate=False), "gelu_tanh": jax.nn.gelu, None: lambda x: x}
    want = f64((functions.get(activation) or getattr(jax.nn, str(activation)))(z)) + f64(residual)
    near(parts.reshape(RANKS * M, N), want)
    for each in whole:
        near(each, want)


def test_partial_sums_are_rounded_and_added_in_order():
    a, b = numbers(3, 3, K, seed=0), numbers(3, K, N, seed=1)
    found = over_ranks(lambda a, b: wjax.matmul_reduce_scatter(a, b, "x"), a, b)
    rounded = jnp.asarray(f64(a) @ f64(b), BF16).astype(jnp.float32)
    want = (rounded[0] + rounded[1] + rounded[2]).astype(BF16)
    assert (found.reshape(3, N) == want).mean() > 0.95  # the sums along K have another order


def test_scales_are_gathered_with_rows():
    f8 = jnp.float8_e4m3fn
    a, b = numbers(RANKS, M, 256, seed=0, dtype=f8), numbers(RANKS, N, 256, seed=1, dtype=f8)
    of_a, of_b = (jnp.abs(numbers(RANKS, n, 2, seed=n, dtype=jnp.float32)) for n in (M, 1))

    def local(a, b, of_a, of_b):
        scales = of_a, of_b
        return (
            wjax.all_gather_matmul(a, b, "x", transpose_b=True, scales=scales),
            wjax.matmul_all_reduce(a, b, "x", transpose_b=True, scales=scales),
        )

    gathered, total = over_ranks(local, a, b, of_a, of_b)
    left, right = f64(a) * np.repeat(of_a, 128, 2), f64(b) * np.repeat(of_b, 128, 2)
    near(gathered, left.reshape(-1, 256) @ right.swapaxes(1, 2))
    near(total[0], (left @ right.swapaxes(1, 2)).sum(0))
    assert gathered.dtype == total.dtype == BF16


@pytest.mark.slow
def test_gradients_are_those_of_the_whole():
    x, up, down = numbers(RANKS, M, K, seed=0), numbers(RANKS, K, N, seed=1), numbers(RANKS, N, K, seed=2)

    def layers(x, up, down):
        hidden = wjax.all_gather_matmul(x, up, "x", activation="relu")
        return wjax.matmul_reduce_scatter(hidden, down, "x")

    def loss(given):
        return (jax.vmap(layers, axis_name="x")(*given).astype(jnp.float32) ** 2).sum()

    def whole(given):
        rows, up, down = (each.astype(jnp.float32) for each in given)
        hidden = jax.nn.relu(rows.reshape(-1, K) @ jnp.concatenate(up, 1))
        return ((hidden @ jnp.concatenate(down)) ** 2).sum()

    found, want = (jax.jit(jax.grad(each))((x, up, down)) for each in (loss, whole))
    for each, exact in zip(found, want, strict=True):
        near(each, f64(exact), 0.03)


# Arrays of NumPy: JAX starts threads for its first array, which forks of this process wouldn't have.
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"axis_name": "y"}, "axis_name must be an axis of the jax.shard_map around the call, got 'y'"),
        (
            {"a": np.ones((3, 8), BF16)},
            "rows of a must be a multiple of 2, the number of devices, got 3; the next",
        ),
        ({"a": np.ones(8, BF16)}, r"a must be a matrix of JAX, got a shape of \(8,\)"),
        ({"a": np.ones((4, 8), np.float32)}, "a must be of f16, bf16, .*, got f32"),
        ({"b": np.ones((16, 8), BF16)}, "a and b must agree in K, got 8 and 16"),
        ({"bias": np.ones(4, np.float32)}, r"bias must be 8 elements, got a shape of \(4,\)"),
        ({"residual": np.ones((4, 8), np.float32)}, r"residual must be 2 x 8, got a shape of \(4, 8\)"),
        ({"partials": "f16"}, "partials must be f32 or bf16, got 'f16'"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    change = {name: jnp.asarray(x) if isinstance(x, np.ndarray) else x for name, x in change.items()}
    given = {"a": jnp.ones((4, 8), BF16), "b": jnp.ones((8, 8), BF16), "axis_name": "x"} | change

    def local(_):
        return wjax.matmul_reduce_scatter(given.pop("a"), given.pop("b"), given.pop("axis_name"), **given)

    with pytest.raises(weft.WeftError, match="weft.jax.matmul_reduce_scatter: " + message):
        jax.vmap(local, axis_name="x")(jnp.ones(2))


PROGRAM = """
import jax, jax.numpy as jnp, numpy as np, weft.jax
from jax.sharding import AxisType, PartitionSpec as P
mesh = jax.make_mesh((2,), ("x",), axis_types=(AxisType.Auto,))
rng = np.random.default_rng(0)
x, up, down = (jnp.asarray(rng.integers(-2, 3, s), jnp.bfloat16) for s in ((16, 32), (32, 64), (64, 32)))

def local(x, up, down):
    hidden = weft.jax.all_gather_matmul(x, up, "x", activation="relu")
    return weft.jax.matmul_reduce_scatter(hidden, down, "x"), weft.jax.matmul_all_reduce(hidden, down, "x")

specs = P("x", None), P(None, "x"), P("x", None)
layers = jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=(P("x", None), P()))
parts, whole = jax.jit(layers)(x, up, down)
hidden = np.asarray(np.maximum(np.float64(x) @ np.float64(up), 0).astype(jnp.bfloat16), np.float64)
want = hidden @ np.float64(down)
for found in (parts, whole):
    assert np.abs(np.float64(found) - want).max() <= 0.02 * np.abs(want).max()
loss = lambda *given: (layers(*given)[0].astype(jnp.float32) ** 2).sum()
gradients = jax.jit(jax.grad(loss, (0, 1, 2)))(x, up, down)
assert [each.shape for each in gradients] == [x.shape, up.shape, down.shape]
print("well")
"""


@pytest.mark.slow
def test_products_under_shard_map():
    assert run(PROGRAM, devices=2, timeout=100) == "well\n"
