"""What users of `weft.jax.matmul` meet: types of tangents, 64-bit types, numbers, platforms, lost arrays."""

import numpy as np
import pytest

import weft
from weft import reference

jax = pytest.importorskip("jax", reason="needs JAX")
jnp = jax.numpy
wjax = pytest.importorskip("weft.jax")
float0 = jax.dtypes.float0


@pytest.fixture(scope="module", autouse=True)
def _arrays():
    """Operands of most tests. JAX starts threads for its first array, which forks wouldn't have."""
    global A, B, I8
    A, B = jnp.ones((16, 32), jnp.bfloat16), jnp.ones((32, 8), jnp.bfloat16)
    I8 = jnp.ones((16, 32), jnp.int8), jnp.ones((32, 8), jnp.int8)


def test_integers_have_tangents_without_elements():
    zeros = tuple(np.zeros(x.shape, float0) for x in I8)
    found, tangent = jax.jvp(wjax.matmul, I8, zeros)
    assert (found == 32).all() and tangent.dtype == float0
    gradient = jax.grad(lambda a: wjax.matmul(a, I8[1]).astype(jnp.float32).sum(), allow_int=True)(I8[0])
    assert gradient.dtype == float0
    ends = jnp.asarray([100, 256], jnp.int32)
    a, b = jnp.ones((256, 16), jnp.bfloat16), jnp.ones((2, 16, 8), jnp.bfloat16)
    _, pull = jax.vjp(lambda ends, a: wjax.matmul(a, b, row_ends=ends), ends, a)
    of_ends, of_a = pull(jnp.ones((256, 8), jnp.bfloat16))
    assert of_ends.dtype == float0 and (of_a[:100] == 8).all() and (of_a[100:128] == 0).all()


def test_products_run_where_jit_is_disabled():
    with jax.disable_jit():
        assert (wjax.matmul(A, B) == 32).all()
        assert (jax.jit(wjax.matmul)(A, B) == 32).all()
        assert jax.config.jax_disable_jit


def test_results_are_never_weakly_typed():
    weak = jax.lax.full((16, 16), 1.0)
    assert jax.typeof(weak).weak_type
    found = jax.jit(lambda: wjax.matmul(weak, weak, bias=jnp.broadcast_to(1.0, (16,))))()
    assert not found.weak_type and found.dtype == jnp.float32 and (found == 17).all()


@pytest.mark.parametrize("x64", [False, True])
def test_numbers_of_python_may_be_traced_as_alpha(x64):
    with jax.enable_x64(x64):
        scaled = jax.jit(lambda alpha: wjax.matmul(A, B, alpha=alpha))
        assert (scaled(2.0) == 64).all() and (scaled(2) == 64).all()
        gradient = jax.grad(lambda alpha: wjax.matmul(A, B, alpha=alpha, out_dtype="f32").sum())(2.0)
        assert gradient == 32 * 16 * 8


def test_products_and_gradients_of_64_bits():
    with jax.enable_x64(True):
        a, b = jnp.arange(128.0).reshape(16, 8), jnp.arange(64.0).reshape(8, 8)
        assert a.dtype == jnp.float64

        def loss(multiply):
            return lambda a, bias: multiply(a, bias).sum()

        given = a, jnp.ones(8)
        found = jax.grad(loss(lambda a, bias: wjax.matmul(a, b, bias=bias, activation="silu")), (0, 1))(
            *given
        )
        want = jax.grad(loss(lambda a, bias: jax.nn.silu(a @ b + bias)), (0, 1))(*given)
        for got, exact in zip(found, want, strict=True):
            np.testing.assert_allclose(got, exact, rtol=1e-12)
        # Constants of half-precision products don't become 64 bits wide.
        half = jax.grad(lambda a: wjax.matmul(a, B, activation="gelu", out_dtype=jnp.float32).sum())(A)
        assert half.dtype == jnp.bfloat16
        with pytest.raises(weft.WeftError, match="row_ends must have elements of i32, got i64: convert it"):
            wjax.matmul(A, jnp.ones((1, 32, 8), jnp.bfloat16), row_ends=jnp.array([16]))


def test_a_beta_must_be_known():
    with pytest.raises(weft.WeftError, match=r"beta must be a Python number, .* multiply c by it"):
        jax.jit(lambda beta: wjax.matmul(A, B, c=jnp.ones((16, 8)), beta=beta))(1.0)


def test_types_that_make_no_product_are_refused_while_tracing():
    with pytest.raises(weft.WeftError, match="a and b must have one element type, got f32 and bf16"):
        jax.eval_shape(wjax.matmul, A.astype(jnp.float32), B)
    with pytest.raises(weft.WeftError, match="bias must have elements of i32 where a and b are integers"):
        jax.eval_shape(lambda bias: wjax.matmul(*I8, bias=bias), jnp.ones(8))


def test_other_platforms_are_refused():
    traced = jax.jit(wjax.matmul).trace(A, B)
    with pytest.raises(weft.WeftError, match=r"platform must be cuda or cpu \(the emulator\), got tpu"):
        traced.lower(lowering_platforms=("tpu",))


def test_arrays_that_are_gone_are_refused():
    @jax.jit
    def keep(x):
        kept.append(x)
        return x

    kept = []
    keep(A)
    for multiply in (wjax.matmul, weft.matmul):
        with pytest.raises(jax.errors.UnexpectedTracerError):
            multiply(kept[0], B)
    square = jnp.ones((32, 32), jnp.bfloat16)
    donating = jax.jit(lambda x, y: wjax.matmul(x, y), donate_argnums=0)
    assert (donating(square, square + 0) == 32).all() and square.is_deleted()
    with pytest.raises(weft.WeftError, match="a must be an array, got one that JAX has deleted or donated"):
        wjax.matmul(square, B)


@pytest.mark.parametrize("b", [jax.Array, jax.ShapeDtypeStruct((64, 8), jnp.bfloat16)], ids=str)
def test_what_only_describes_an_array_is_refused(b):
    for given in ((A, b), (b, A)):
        with pytest.raises(weft.WeftError, match=r"weft\.matmul: [ab]: expected an array"):
            weft.matmul(*given)


def test_types_of_4_bits_are_packed_by_xla():
    rng = np.random.default_rng(0)
    x, y = rng.integers(-8, 8, (16, 64)), rng.integers(-8, 8, (8, 64))
    multiply = jax.jit(lambda a, b: wjax.matmul(a, b, transpose_b=True))
    for dtype, b in ((jnp.int4, y), (jnp.uint4, abs(y))):
        found = multiply(jnp.asarray(x, jnp.int4), jnp.asarray(b, dtype))
        assert found.dtype == jnp.int32 and (found == x @ b.T).all()
    odd = jnp.ones((16, 63), jnp.int4)
    with pytest.raises(
        weft.WeftError, match="rows of a must have an even number of elements of int4, got 63"
    ):
        multiply(odd, odd)


@pytest.mark.parametrize("kind", ["mxfp4", "nvfp4"])
def test_fp4_has_the_kind_of_its_scales(kind):
    rng = np.random.default_rng(0)
    a, b = (reference.quantize(rng.normal(size=(rows, 128)), kind) for rows in (16, 8))
    scales = [jnp.asarray(x.tiled_scales) for x in (a, b)]
    elements = [jnp.asarray(x.elements) for x in (a, b)]
    assert elements[0].dtype == jnp.float4_e2m1fn
    found = wjax.matmul(*elements, transpose_b=True, scales=scales, out_dtype="f32")
    factor = a.factor * b.factor
    np.testing.assert_allclose(factor * np.asarray(found), a.values @ b.values.T, rtol=1e-5, atol=1e-5)


def placed(array, *axes):
    mesh = jax.make_mesh((1, 1), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    return jax.device_put(array, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes)))


@pytest.mark.parametrize(
    ("of_a", "of_b", "of_result"),
    [
        (("x", None), (None, None), ("x", None)),
        (("x", None), (None, "y"), ("x", "y")),
        ((None, "x"), ("x", None), (None, None)),  # K is gathered
    ],
    ids=str,
)
def test_explicit_axes_of_results_follow_from_those_of_operands(of_a, of_b, of_result):
    a, b = placed(A, *of_a), placed(B, *of_b)
    found = jax.jit(wjax.matmul)(a, b)
    assert tuple(found.sharding.spec) == of_result and (found == 32).all()

    def loss(a, b):
        return wjax.matmul(a, b, activation="relu").astype(jnp.float32).sum()

    of_a, of_b = jax.jit(jax.grad(loss, (0, 1)))(a, b)
    assert (of_a == 8).all() and of_a.sharding == a.sharding
    assert (of_b == 16).all() and of_b.sharding == b.sharding


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: wjax.matmul(placed(A, "x"), placed(B, None, "x")),
            "different axes, got x, x: use jax.sharding",
        ),
        (
            lambda: wjax.matmul(
                placed(A, "x"), placed(B), c=placed(jnp.ones((16, 8), A.dtype), "y"), beta=1.0
            ),
            "divided alike, got M along x and y",
        ),
        (
            lambda: wjax.matmul(placed(A, "x"), placed(B), scales=(jnp.ones((16, 1)), jnp.ones((1, 8)))),
            "products with scales or groups on a mesh with explicit axes",
        ),
    ],
    ids=["one axis twice", "two axes", "scales"],
)
def test_operands_that_are_divided_differently_are_refused(call, message):
    with pytest.raises(weft.WeftError, match=message):
        call()


def precise(function, wanted, *given):
    """Whether a function's result has only errors of f32; with tf32 there are larger ones."""
    worst = np.abs(np.asarray(function(*given), np.float64) - wanted).max() / np.abs(wanted).max()
    assert worst < 2e-3
    return bool(worst < 2e-6)


def test_f32_follows_the_precision_that_jax_is_asked_for():
    a, b, c = (np.random.default_rng(n).standard_normal(s).astype(np.float32) for n, s in enumerate(SIZES))
    exact, of_one = a.astype(np.float64) @ b, np.float32(0.5)
    given = [jnp.asarray(x) for x in (a, b, c)]
    jitted = jax.jit(wjax.matmul)
    calls = {
        "traced": (lambda a, b, c: jitted(a, b), exact),
        "weft.matmul": (lambda a, b, c: weft.matmul(a, b), exact),
        "in a traced function": (jax.jit(lambda a, b, c: weft.matmul(a.T, b, transpose_a=True)), exact),
        "epilogue": (
            lambda a, b, c: wjax.matmul(
                a, b.T, transpose_b=True, c=c, beta=2.0, bias=c[0], residual=c, alpha=of_one
            ),
            exact / 2 + 3 * c + c[0],
        ),
        "c that isn't added": (lambda a, b, c: wjax.matmul(a, b, c=c * jnp.nan, beta=0.0), exact),
        "scales": (
            lambda a, b, c: wjax.matmul(a, b, scales=(c[:, :1], jnp.float32(2))),
            2 * exact * c[:, :1],
        ),
        "map": (jax.vmap(lambda a, c: wjax.matmul(a, given[1], alpha=c[0]), (0, 0)), exact * c[:, :1]),
        "gradient": (
            lambda a, b, c: jax.grad(lambda b: (wjax.matmul(a, b) * c).sum())(b),
            a.T.astype(np.float64) @ c,
        ),
        "tangent": (lambda a, b, c: jax.jvp(lambda a: wjax.matmul(a, b), (a,), (a,))[1], exact),
    }
    with jax.default_matmul_precision("highest"):
        for name, (function, wanted) in calls.items():
            operands = (given[0], given[2]) if name == "map" else given
            assert precise(function, wanted, *operands), name
    for precision, allows in ((None, True), ("tensorfloat32", True), ("F32_F32_F32", False)):
        with jax.default_matmul_precision(precision):
            assert precise(calls["traced"][0], exact, *given) is not allows


SIZES = (24, 40), (40, 16), (24, 16)


def test_what_jax_does_not_compute_with_more_precision_is_refused():
    a, b = jnp.ones((16, 32)), jnp.ones((32, 8))
    advice = r"must be None where f32 isn't multiplied as tf32: use jax\.default_matmul_precision\('high'\)"
    with jax.default_matmul_precision("highest"):
        with pytest.raises(weft.WeftError, match=f"row_ends {advice}"):
            wjax.matmul(a, b[None], row_ends=jnp.asarray([16], jnp.int32))
        for name, value in (("stream", 0), ("out", np.zeros((16, 8), np.float32))):
            with pytest.raises(weft.WeftError, match=f"{name} {advice}"):
                weft.matmul(a, b, **{name: value})
        assert (wjax.matmul(a, b, arch="sm_80") == 32).all()
