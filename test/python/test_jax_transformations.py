"""`weft.jax.matmul` under JAX's transformations, on the CPU."""

import itertools

import numpy as np
import pytest

import weft
import weft.language as w

jax = pytest.importorskip("jax", reason="needs JAX")
jnp = jax.numpy
wjax = pytest.importorskip("weft.jax")
RNG = np.random.default_rng(0)


def small(*shape, dtype=jnp.bfloat16):
    """Integers whose sums are exact."""
    return jnp.asarray(RNG.integers(-2, 3, shape), dtype)


def f64(array):
    return np.asarray(array, np.float64)


def test_a_jitted_product_with_an_epilogue():
    a, b, bias, residual = small(2, 16, 64), small(64, 32), small(32), small(2, 16, 32)

    @jax.jit
    def run(a, b, bias, residual):
        return wjax.matmul(a, b, bias=bias, activation="relu", residual=residual, out_dtype=jnp.float32)

    found = run(a, b, bias, residual)
    assert found.dtype == jnp.float32
    assert (f64(found) == np.maximum(f64(a) @ f64(b) + f64(bias), 0) + f64(residual)).all()


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((16, 32), (32, 8)),
        ((3, 16, 32), (3, 32, 8)),
        ((2, 3, 16, 32), (32, 8)),
        ((3, 1, 16, 32), (2, 32, 8)),
        ((32,), (2, 3, 32, 8)),
        ((2, 3, 16, 32), (32,)),
        ((32,), (32,)),
        ((2, 4, 0), (0, 8)),
        ((2, 0, 3, 8), (8, 4)),
        ((3, 0, 8), (3, 8, 0)),
        ((0,), (2, 0, 3)),
    ],
)
def test_leading_dimensions_are_those_of_numpy(a, b):
    a, b = small(*a), small(*b)
    found = wjax.matmul(a, b, out_dtype="f32")
    want = f64(a) @ f64(b)
    assert found.shape == want.shape and (f64(found) == want).all()


def test_an_epilogue_that_is_a_function():
    a, b, rows, bias = small(3, 5, 16), small(16, 8), small(5, 1), small(8)

    def product(a, b, rows, bias, function=lambda x, i, j, rows, bias: w.relu(x * rows + bias)):
        extra = {"rows": rows, "bias": bias}
        return weft.matmul(a, b, epilogue=function, extra=extra, out_dtype="f32")

    want = np.maximum(f64(a) @ f64(b) * f64(rows) + f64(bias), 0)
    for run in (product, jax.jit(product), jax.vmap(product, (0, None, None, None))):
        assert (f64(run(a, b, rows, bias)) == want).all()
    of_each = jax.jit(product)(a, b, jnp.stack([rows, -rows, rows]), bias)
    assert (f64(of_each[1]) == f64(product(a[1], b, -rows, bias))).all()
    with pytest.raises(weft.WeftError, match="a function has no derivatives: let JAX compute the function"):
        jax.grad(lambda a: product(a, b, rows, bias).sum())(a)
    with pytest.raises(weft.WeftError, match="must return one element in functions that JAX traces, got 2"):
        jax.jit(lambda *given: product(*given, lambda x, i, j, rows, bias: (x, x)))(a, b, rows, bias)
    with pytest.raises(weft.WeftError, match="K must be at least 1 with an epilogue that is a function"):
        jax.jit(product)(a[:, :, :0], b[:0], rows, bias)


@pytest.mark.parametrize("dtype", ["f32", "f8E4M3FN"])
def test_what_is_added_to_the_product_of_an_empty_k(dtype):
    c, bias, residual = small(2, 4, 8), 1000 * small(8), small(4, 8)
    a, b = small(2, 4, 0), small(0, 8)

    @jax.jit
    def run(c, bias):
        return wjax.matmul(
            a, b, c=c, beta=2.0, bias=bias, activation="relu", residual=residual, out_dtype=dtype
        )

    want = np.maximum(2 * f64(c) + f64(bias), 0) + f64(residual)
    found = f64(run(c, bias))
    assert found.shape == want.shape and (found == (np.minimum(want, 448) if dtype != "f32" else want)).all()
    of_a = jax.grad(lambda a: wjax.matmul(a, b, out_dtype="f32").sum())(jnp.asarray(a))
    assert of_a.shape == a.shape


def test_gradients_of_vectors():
    v, m = small(32, dtype=np.float32), small(2, 32, 8, dtype=np.float32)
    of_v, of_m = jax.grad(lambda v, m: wjax.matmul(v, m).sum(), (0, 1))(v, m)
    assert (f64(of_v) == m.sum((0, 2))).all()
    assert (f64(of_m) == np.broadcast_to(v[:, None], m.shape)).all()
    found = jax.vmap(wjax.matmul, (0, None))(m.swapaxes(1, 2), v)
    assert (f64(found) == f64(m).swapaxes(1, 2) @ v).all()


GRADIENTS = [
    *(((16, 32), (32, 24), ta, tb) for ta, tb in itertools.product((True, False), repeat=2)),
    ((2, 16, 32), (2, 32, 24), True, False),
    ((2, 16, 32), (32, 24), True, False),
    ((2, 16, 32), (32, 24), False, True),
    ((16, 32), (2, 32, 24), False, True),
    ((16, 32), (2, 32, 24), True, False),
]


def of(shape, transposed):
    return (*shape[:-2], shape[-1], shape[-2]) if transposed else shape


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("a", "b", "ta", "tb"), GRADIENTS)
def test_gradients_of_all_layouts(a, b, ta, tb):
    a, b = small(*of(a, ta)), small(*of(b, tb))

    def weft_loss(a, b):
        return (
            wjax.matmul(a, b, transpose_a=ta, transpose_b=tb, alpha=2.0, out_dtype=jnp.float32) * weights
        ).sum()

    def loss(a, b):
        x, y = (jnp.swapaxes(each, -1, -2) if t else each for each, t in ((a, ta), (b, tb)))
        return (2 * jnp.matmul(x, y) * weights).sum()

    weights = small(
        *jax.eval_shape(lambda: wjax.matmul(a, b, transpose_a=ta, transpose_b=tb)).shape, dtype=jnp.float32
    )
    found = jax.grad(weft_loss, (0, 1))(a, b)
    want = jax.jit(jax.grad(loss, (0, 1)))(a.astype(jnp.float32), b.astype(jnp.float32))
    for got, exact in zip(found, want, strict=True):
        assert got.dtype == jnp.bfloat16 and got.shape == exact.shape
        assert (got == exact.astype(jnp.bfloat16)).all()


@pytest.mark.parametrize("activation", [None, "relu", "gelu", "gelu_tanh", "silu"])
def test_gradients_of_every_operand(activation):
    given = {
        "a": small(16, 32, dtype=jnp.float32) / 4,
        "b": small(8, 32, dtype=jnp.float32) / 4,
        "c": small(16, 8, dtype=jnp.float32) / 4,
        "bias": small(8, dtype=jnp.float32) / 4 + 0.1,
        "residual": small(16, 8, dtype=jnp.float32),
        "alpha": jnp.asarray([0.5], jnp.float32),
    }
    functions = {
        None: lambda z: z,
        "relu": jax.nn.relu,
        "gelu": lambda z: jax.nn.gelu(z, approximate=False),
        "gelu_tanh": jax.nn.gelu,
        "silu": jax.nn.silu,
    }

    def product(given):
        x = dict(given)
        return wjax.matmul(x.pop("a"), x.pop("b"), transpose_b=True, beta=2.0, activation=activation, **x)

    def plain(x):
        z = x["alpha"] * jnp.matmul(x["a"], x["b"].T, precision="highest") + 2 * x["c"] + x["bias"]
        return functions[activation](z) + x["residual"]

    weights = small(16, 8, dtype=jnp.float32)
    found, pulled = jax.vjp(product, given)
    want = jax.jit(plain)(given)
    np.testing.assert_allclose(found, want, rtol=2e-3, atol=2e-3)
    (got,), (exact,) = pulled(weights), jax.jit(lambda x: jax.vjp(plain, x)[1](weights))(given)
    for name in given:
        np.testing.assert_allclose(got[name], exact[name], rtol=4e-3, atol=4e-3, err_msg=name)
    tangents = {name: small(*each.shape, dtype=jnp.float32) for name, each in given.items()}
    _, of_product = jax.jvp(product, (given,), (tangents,))
    _, of_plain = jax.jit(lambda *of: jax.jvp(plain, *of))((given,), (tangents,))
    np.testing.assert_allclose(of_product, of_plain, rtol=4e-3, atol=2e-2)


def test_second_derivatives():
    a, b = small(8, 16, dtype=jnp.float32) / 4, small(16, 8, dtype=jnp.float32) / 4

    def loss(product):
        return lambda a: product(a, b).sum()

    found = jax.hessian(loss(lambda a, b: wjax.matmul(a, b, activation="silu")))(a)
    want = jax.jit(jax.hessian(loss(lambda a, b: jax.nn.silu(jnp.matmul(a, b, precision="highest")))))(a)
    np.testing.assert_allclose(found, want, rtol=1e-2, atol=1e-3)


def test_gradients_of_fp8_are_refused():
    a, b = small(32, 128, dtype=jnp.float8_e4m3fn), small(16, 128, dtype=jnp.float8_e4m3fn)
    with pytest.raises(weft.WeftError, match="a must have elements of f16, bf16, f32 or f64 where gradients"):
        jax.grad(lambda a: wjax.matmul(a, b, transpose_b=True, out_dtype="f32").sum())(a)


VMAPS = [
    ((3, 16, 32), (32, 8), (0, None)),
    ((16, 32), (3, 32, 8), (None, 0)),
    ((16, 3, 32), (32, 8, 3), (1, 2)),
]


@pytest.mark.each_value
@pytest.mark.parametrize(("a", "b", "axes"), VMAPS)
@pytest.mark.parametrize("roles", [(), ("bias",), ("c", "bias", "residual"), ("alpha",)])
def test_mapped_products(a, b, axes, roles):
    a, b = small(*a), small(*b)
    more = {
        "bias": small(3, 8, dtype=jnp.float32),
        "c": small(16, 8, dtype=jnp.float32),
        "residual": small(3, 16, 8, dtype=jnp.float32),
        "alpha": jnp.asarray([1, 2, -1], jnp.float32),
    }
    given = {name: more[name] for name in roles}
    beta = 2.0 if "c" in roles else None

    def one(a, b, given):
        return wjax.matmul(a, b, beta=beta, out_dtype=jnp.float32, **given)

    of_given = {name: None if name == "c" else 0 for name in roles}
    found = jax.jit(jax.vmap(one, (*axes, of_given)))(a, b, given)
    for i in range(3):
        x = a if axes[0] is None else jnp.take(a, i, axes[0])
        y = b if axes[1] is None else jnp.take(b, i, axes[1])
        want = f64(x) @ f64(y) * (float(given["alpha"][i]) if "alpha" in given else 1)
        want += 2 * f64(given["c"]) if "c" in given else 0
        want += sum(f64(given[name][i]) for name in ("bias", "residual") if name in given)
        assert (f64(found[i]) == want).all()


def test_nested_maps_are_one_product():
    a, b = small(2, 3, 16, 32), small(3, 32, 8)

    def run(a, b):
        return jax.vmap(jax.vmap(lambda a, b: wjax.matmul(a, b, out_dtype="f32")), (0, None))(a, b)

    assert (f64(run(a, b)) == f64(a) @ f64(b)).all()
    assert str(jax.make_jaxpr(run)(a, b)).count("weft_product[") == 1


def test_gradients_of_mapped_products():
    a, b = small(3, 16, 32), small(32, 8)

    def loss(product):
        return lambda b: (jax.vmap(lambda a: product(a, b))(a).astype(jnp.float32) ** 2).sum()

    found = jax.grad(loss(lambda a, b: wjax.matmul(a, b, out_dtype="f32")))(b)
    want = 2 * np.einsum("imk,imn->kn", f64(a), f64(a) @ f64(b))
    np.testing.assert_allclose(f64(found), want, rtol=2e-2, atol=4)


def test_grouped_products_are_mapped_one_by_one():
    a, b = small(2, 256, 32), small(2, 32, 8)
    ends = jnp.asarray([[128, 200], [100, 256]], jnp.int32)
    found = jax.vmap(lambda a, ends: wjax.matmul(a, b, row_ends=ends, out_dtype="f32"))(a, ends)
    for i in range(2):
        for number, (begin, end) in enumerate(((0, int(ends[i, 0])), (int(ends[i, 0]), int(ends[i, 1])))):
            assert (f64(found[i, begin:end]) == f64(a[i, begin:end]) @ f64(b[number])).all()


@pytest.mark.parametrize("added", ["bias", "c", "residual"])
@pytest.mark.parametrize("ranks", [(3, 3), (2, 3), (3, 2), (2, 2)])
def test_what_is_added_is_mapped_alone(ranks, added):
    """One for each of two members, whose products are batches of three or matrices."""
    shapes = {2: ((4, 8), (8, 5)), 3: ((3, 4, 8), (3, 8, 5))}
    a, b = (small(*shapes[rank][number]) for number, rank in enumerate(ranks))
    given = small(2, 5) if added == "bias" else small(2, 4, 5)
    beta = {"beta": 1.0} if added == "c" else {}
    found = jax.vmap(lambda each: wjax.matmul(a, b, out_dtype="f32", **{added: each}, **beta))(given)
    wanted = np.stack([f64(a) @ f64(b) + each for each in f64(given)])
    assert np.array_equal(f64(found), wanted)
