"""Gradients of products with groups and with scales, against plain products, on the CPU."""

import numpy as np
import pytest

import weft
from weft import reference

jax = pytest.importorskip("jax", reason="needs JAX")
jnp = jax.numpy
wjax = pytest.importorskip("weft.jax")
RNG = np.random.default_rng(0)
ROWS = 300
ENDS = [60, 181, 181, 270]  # of four groups, the third of which is empty
BEGINS = [0, *ENDS[:-1]]


def small(*shape, dtype=jnp.bfloat16):
    """Integers whose sums are exact."""
    return jnp.asarray(RNG.integers(-2, 3, shape), dtype)


def f64(array):
    return np.asarray(array, np.float64)


def flipped(array, flip):
    return jnp.swapaxes(array, -1, -2) if flip else array


def valid_rows():
    return np.isin(np.arange(ROWS), np.concatenate([np.r_[b:e] for b, e in zip(BEGINS, ENDS, strict=True)]))


def same(found, want):
    """All are integers, of which bf16 may have to round some."""
    for name, got, exact in zip("ab", found, want, strict=True):
        assert got.shape == exact.shape and got.dtype == jnp.bfloat16
        assert (got == exact.astype(jnp.bfloat16)).all(), name


def slow(*case):
    return pytest.param(*case, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("flips", "alpha"),
    [
        ((False, False), 4),
        ((True, True), None),
        slow((True, False), 1),
        slow((False, True), 1),
        slow((False, False), None),
    ],
)
def test_gradients_of_groups_of_rows(flips, alpha):
    a, b, ends = small(ROWS, 24), small(4, 24, 16), jnp.asarray(ENDS, jnp.int32)
    factors = None if alpha is None else jnp.asarray([2.0, -1.0, 1.0, 3.0][:alpha], jnp.float32)
    weights = small(ROWS, 16, dtype=jnp.float32)  # also of rows that are in no group

    def product(a, b):
        given = {} if factors is None else {"alpha": factors}
        how = {"transpose_a": flips[0], "transpose_b": flips[1], "out_dtype": "f32"}
        return wjax.matmul(a, b, row_ends=ends, **how, **given)

    def plain(a, b):
        total = 0.0
        for i, rows in enumerate(map(slice, BEGINS, ENDS)):
            scale = 1 if factors is None else factors[i % factors.size]
            total += (scale * (flipped(a, flips[0])[rows] @ flipped(b, flips[1])[i]) * weights[rows]).sum()
        return total

    a, b = flipped(a, flips[0]), flipped(b, flips[1])
    found = jax.jit(lambda a, b: jax.vjp(product, a, b)[1](weights))(a, b)
    same(found, jax.jit(jax.grad(plain, (0, 1)))(a.astype(jnp.float32), b.astype(jnp.float32)))


@pytest.mark.parametrize("flips", [(False, False), slow((True, True))])
def test_gradients_of_groups_of_k(flips):
    valid = valid_rows()
    a, b = small(24, ROWS) * valid, small(ROWS, 16) * valid[:, None]
    a, b = a.astype(jnp.bfloat16), b.astype(jnp.bfloat16)
    ends, weights = jnp.asarray(ENDS, jnp.int32), small(4, 24, 16, dtype=jnp.float32)

    def loss(a, b):
        y = wjax.matmul(a, b, k_ends=ends, transpose_a=flips[0], transpose_b=flips[1], out_dtype="f32")
        return (y * weights).sum()

    def plain(a, b):
        parts = enumerate(map(slice, BEGINS, ENDS))
        x, y = flipped(a, flips[0]), flipped(b, flips[1])
        return sum(((x[:, k] @ y[k]) * weights[i]).sum() for i, k in parts)

    a, b = flipped(a, flips[0]), flipped(b, flips[1])
    found = jax.grad(loss, (0, 1))(a, b)
    want = jax.jit(jax.grad(plain, (0, 1)))(a.astype(jnp.float32), b.astype(jnp.float32))
    same(found, want)
    # A tangent may have elements where a must have none.
    _, tangent = jax.jvp(lambda a: loss(a, b), (a,), (jnp.ones_like(a),))
    assert tangent == f64(jnp.where(flipped(valid[:, None], not flips[0]), want[0], 0)).sum()


@pytest.mark.slow
def test_second_derivatives_of_groups():
    a, b, ends = small(ROWS, 16), small(4, 16, 8), jnp.asarray(ENDS, jnp.int32)
    valid = valid_rows()

    def loss(multiply):
        return lambda b: (jnp.where(valid[:, None], multiply(b), 0) ** 2).sum()

    def plain(b):
        rows = zip(BEGINS, ENDS, strict=True)
        parts = [jnp.zeros((ROWS, 8)).at[i:j].set(f64(a)[i:j] @ b[n]) for n, (i, j) in enumerate(rows)]
        return sum(parts)

    v = small(4, 16, 8, dtype=jnp.float32)
    product = loss(lambda b: wjax.matmul(a.astype(jnp.float32), b, row_ends=ends))

    def along(function):
        return jax.jvp(jax.grad(function), (b.astype(jnp.float32),), (v,))[1]

    np.testing.assert_allclose(along(product), along(loss(plain)), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize(
    ("flip", "shared"), [(False, False), (True, True), slow(True, False), slow(False, True)]
)
def test_gradients_of_groups_of_a_batch(flip, shared):
    a, b = small(2, 40, 16), small(16, 8) if shared else small(2, 16, 8)
    counts, weights = jnp.asarray([40, 13], jnp.int32), small(2, 40, 8, dtype=jnp.float32)
    valid = np.arange(40) < np.asarray(counts)[:, None]

    def product(a, b):
        return wjax.matmul(a, b, groups=counts, transpose_a=flip, out_dtype="f32")

    def plain(a, b):
        return jnp.where(valid[..., None], jnp.matmul(flipped(a, flip), b) * weights, 0).sum()

    a = flipped(a, flip)
    given = jnp.where(valid[..., None], weights, jnp.nan)
    found = jax.jit(lambda a, b: jax.vjp(product, a, b)[1](given))(a, b)
    same(found, jax.jit(jax.grad(plain, (0, 1)))(a.astype(jnp.float32), b.astype(jnp.float32)))


def test_gradients_of_rows_that_select_their_b():
    groups = np.repeat([1, 0], 128).astype(np.int32)
    groups[250:] = -1
    a, b, weights = small(256, 16), small(2, 16, 8), small(256, 8, dtype=jnp.float32)

    def product(a, b):
        return wjax.matmul(a, b, groups=jnp.asarray(groups), out_dtype="f32")

    (found,) = jax.vjp(lambda a: product(a, b), a)[1](weights)
    want = np.einsum("mn,mkn->mk", f64(weights), f64(b)[groups]) * (groups >= 0)[:, None]
    assert (f64(found) == want).all()
    with pytest.raises(weft.WeftError, match="gradients of b need row_ends, got groups: sort the rows"):
        jax.grad(lambda b: product(a, b).sum())(b)


def test_gradients_of_an_alpha_for_each_group_are_refused():
    a, b, ends = small(ROWS, 16), small(4, 16, 8), jnp.asarray(ENDS, jnp.int32)
    with pytest.raises(weft.WeftError, match="an alpha with groups are those of one element, got 4"):
        jax.grad(lambda alpha: wjax.matmul(a, b, alpha=alpha, row_ends=ends).sum())(jnp.ones(4))


@pytest.mark.parametrize("activation", [None, "relu", "silu"])
def test_gradients_of_what_is_added_to_a_scaled_product(activation):
    a, b = small(32, 128, dtype=jnp.float8_e4m3fn), small(16, 128, dtype=jnp.float8_e4m3fn)
    scales = jnp.asarray(RNG.integers(1, 3, (32, 1)), jnp.float32), jnp.ones((1, 1), jnp.float32)
    given = {
        "c": small(32, 16, dtype=jnp.float32),
        "bias": small(16, dtype=jnp.float32) + 0.5,
        "residual": small(32, 16, dtype=jnp.float32),
        "alpha": jnp.asarray([0.125], jnp.float32),
    }
    function = {None: lambda z: z, "relu": jax.nn.relu, "silu": jax.nn.silu}[activation]

    def product(x):
        return wjax.matmul(
            a, b, transpose_b=True, scales=scales, beta=2.0, activation=activation, out_dtype="f32", **x
        )

    def plain(x):
        z = x["alpha"] * (f64(scales[0]) * (f64(a) @ f64(b).T)) + 2 * x["c"] + x["bias"]
        return function(z) + x["residual"]

    weights = small(32, 16, dtype=jnp.float32)
    found = jax.jit(jax.grad(lambda x: (product(x) * weights).sum()))(given)
    want = jax.jit(jax.grad(lambda x: (plain(x) * weights).sum()))(given)
    for name, got in found.items():
        np.testing.assert_allclose(got, want[name], rtol=1e-4, atol=1e-3, err_msg=name)


def test_gradients_of_a_block_scaled_products_bias():
    a, b = (reference.quantize(RNG.normal(size=(rows, 128)), "mxfp8") for rows in (32, 16))
    given = [jnp.asarray(x) for x in (a.elements, b.elements, a.tiled_scales, b.tiled_scales)]

    @jax.jit
    @jax.grad
    def of_bias(bias):
        x, y, *scales = given
        return wjax.matmul(
            x, y, transpose_b=True, scales=scales, kind="mxfp8", bias=bias, out_dtype="f32"
        ).sum()

    assert (of_bias(jnp.zeros(16)) == 32).all()


@pytest.mark.parametrize(("number", "name"), [(0, "a"), (1, "b"), (2, "scales of a")])
def test_other_gradients_of_scaled_products_are_refused(number, name):
    a, b = (small(rows, 128, dtype=jnp.bfloat16) for rows in (32, 16))
    scales = jnp.ones((32, 1))

    def loss(a, b, scale):
        return wjax.matmul(a, b, transpose_b=True, scales=(scale, jnp.ones((1, 16))), out_dtype="f32").sum()

    what = f"gradients are those of c, bias, residual and alpha, got those of {name}: put the quantization"
    with pytest.raises(weft.WeftError, match=what):
        jax.grad(loss, number)(a, b, scales)
