"""`weft.jax.matmul` in whole programs of JAX, on the CPU: exported, cached, distributed, and refused."""

import re
import textwrap

import numpy as np
import pytest
from jax_processes import MESH, ended, run

import weft
from weft import reference

jax = pytest.importorskip("jax", reason="needs JAX")
jnp = jax.numpy
wjax = pytest.importorskip("weft.jax")
RNG = np.random.default_rng(0)


def small(*shape, dtype=jnp.bfloat16):
    """Integers whose sums are exact."""
    return jnp.asarray(RNG.integers(-2, 3, shape), dtype)


def f64(array):
    return np.asarray(array, np.float64)


START = """
import sys
import jax, jax.numpy as jnp, numpy as np
import weft.jax

def small(*shape):
    return jnp.asarray(np.random.default_rng(sum(shape)).integers(-2, 3, shape), jnp.bfloat16)

def f64(array):
    return np.asarray(array, np.float64)

a, b = small(64, 32), small(32, 48)
want = f64(a) @ f64(b)
"""


def test_an_exported_program_runs_in_another_process(tmp_path):
    pytest.importorskip("flatbuffers", reason="jax.export needs it")
    path = tmp_path / "program"
    save = """
    check = jax.export.DisabledSafetyCheck.custom_call("weft_matmul")
    product = jax.jit(lambda a, b: weft.jax.matmul(a, b, out_dtype=jnp.float32))
    exported = jax.export.export(product, platforms=("cpu", "cuda"), disabled_checks=[check])(a, b)
    open(sys.argv[1], "wb").write(exported.serialize(vjp_order=1))
    """
    load = """
    exported = jax.export.deserialize(open(sys.argv[1], "rb").read())
    assert (f64(exported.call(a, b)) == want).all()
    _, pull = jax.vjp(exported.call, a, b)
    of_a, of_b = pull(jnp.ones((64, 48), jnp.float32))
    assert (f64(of_a) == f64(b).sum(1)).all() and (f64(of_b) == f64(a).sum(0)[:, None]).all()
    print("well")
    """
    for body in (save, load):
        said = run(f"import sys; sys.argv = ['', {str(path)!r}]" + START + textwrap.dedent(body))
    assert said == "well\n"


def test_a_program_is_reloaded_from_the_persistent_cache(tmp_path):
    program = (
        START
        + """
import logging
logging.basicConfig(level=logging.DEBUG, stream=sys.stdout, format="%(message)s")
assert (f64(jax.jit(lambda a, b: weft.jax.matmul(a, b, out_dtype="f32"))(a, b)) == want).all()
"""
    )
    environment = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    first, second = (run(program, **environment) for _ in range(2))
    hit = re.compile(r"cache hit for .*lambda")
    assert not hit.search(first) and hit.search(second)


ON_A_MESH = START + MESH


def test_products_on_several_devices():
    program = (
        ON_A_MESH
        + """
product = lambda a, b: weft.jax.matmul(a, b, out_dtype="f32")
mapped = jax.shard_map(product, mesh=mesh, in_specs=(P("x", None), P(None, "y")), out_specs=P("x", "y"))
assert (f64(jax.jit(mapped)(a, b)) == want).all()

def loss(b):
    def local(a, b):
        return jax.lax.psum((product(a, b) ** 2).sum(), ("x", "y"))
    specs = P("x", None), P(None, "y")
    return jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=P())(a, b)

gradient = jax.jit(jax.grad(loss))(b)
assert (abs(f64(gradient) - 2 * f64(a).T @ want) <= 2 * abs(want).max()).all()

# XLA distributes the product, and adds the sums of divided K, also for bias and activation.
bias = jnp.arange(48, dtype=jnp.bfloat16)
options = {"activation": "relu", "alpha": 2.0}
whole = jax.jit(lambda a, b, bias: weft.jax.matmul(a, b, bias=bias, **options))
in_parts = jax.jit(lambda a, b, bias: weft.jax.matmul(a, b, bias=bias, schedule=block, **options))
block = "{block = array<i64: 64, 64, 32>, warps = array<i64: 2, 2>, stages = 3}"
for of_a, of_b, of_result, wanted in (
    (("x", None), (None, "y"), P("x", "y"), []),
    ((("x", "y"), None), (None, None), P(("x", "y"), None), []),
    ((None, ("x", "y")), (("x", "y"), None), P(), ["all-reduce"]),
    (("x", "y"), (None, None), P("x", None), ["all-reduce"]),
    (("x", None), ("x", None), P("x", None), ["all-gather"]),
):
    given = placed(a, *of_a), placed(b, *of_b), bias
    found = whole(*given)
    exact = np.maximum(2 * want + f64(bias), 0).astype(jnp.bfloat16)
    assert (found == exact).all()
    assert found.sharding.is_equivalent_to(NamedSharding(mesh, of_result), 2), found.sharding
    assert collectives(whole, *given) == wanted, (of_a, of_b)
assert collectives(in_parts, placed(a, None, "x"), placed(b, "x", None), bias) == ["all-gather"]
found = weft.matmul(placed(a, "x", None), placed(b), out_dtype="f32")
assert (f64(found) == want).all() and found.sharding.spec == P("x", None), found.sharding

try:
    weft.matmul(jax.device_put(a, jax.devices()[1]), jax.device_put(b, jax.devices()[0]))
    raise SystemExit("arrays on different devices were multiplied")
except weft.WeftError as error:
    assert "arrays must be on the same devices, got a on cpu:1, b on cpu:0" in str(error), error

# Arrays that aren't on the mesh of the program.
with jax.set_mesh(mesh):
    rows = jax.jit(lambda a, b: product(jax.lax.with_sharding_constraint(a, P("x")), b))
    assert (f64(found := rows(a, b)) == want).all() and found.sharding.spec[0] == "x", found.sharding
print("well")
"""
    )
    assert run(program, devices=4) == "well\n"


def test_gradients_of_distributed_products():
    """Those of a shared operand are added over the devices."""
    program = (
        ON_A_MESH
        + """
residual = placed(jnp.ones((64, 48)), "x", None)
loss = lambda a, b, r: (weft.jax.matmul(a, b, activation="relu", residual=r, out_dtype="f32") ** 2).sum()
given = placed(a, "x", None), placed(b), residual
gradients = jax.jit(jax.grad(loss, (0, 1, 2)))
assert collectives(gradients, *given) == ["all-reduce"]
of_a, of_b, of_r = gradients(*given)
dz = 2 * (np.maximum(want, 0) + 1)
assert of_a.sharding.spec[0] == of_r.sharding.spec[0] == "x" and (f64(of_r) == dz).all()
dz *= want > 0
for got, exact in ((of_a, dz @ f64(b).T), (of_b, f64(a).T @ dz)):
    np.testing.assert_allclose(f64(got), exact, atol=0.02 * abs(exact).max())
batch = placed(jnp.stack([small(16, 64)] * 4), "x", None, None)
weights = placed(jnp.stack([small(64, 24)] * 4), "x", None, None)
found = jax.jit(lambda a, b: weft.jax.matmul(a, b, alpha=jnp.ones(4), out_dtype="f32"))(batch, weights)
assert (f64(found) == f64(batch) @ f64(weights)).all() and found.sharding.spec[0] == "x"
print("well")
"""
    )
    assert run(program, devices=4) == "well\n"


@pytest.mark.slow
def test_products_on_a_mesh_with_explicit_axes():
    program = (
        START
        + """
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
placed = lambda array, *spec: jax.device_put(array, NamedSharding(mesh, P(*spec)))
product = jax.jit(lambda a, b: weft.jax.matmul(a, b, out_dtype="f32"))
for of_a, of_b, of_result, gathers in (
    (("x", None), (None, "y"), P("x", "y"), 0),
    ((("x", "y"), None), (None, None), P(("x", "y"), None), 0),
    ((None, "y"), ("y", None), P(None, None), 2),
):
    given = placed(a, *of_a), placed(b, *of_b)
    found = product(*given)
    assert (f64(found) == want).all() and found.sharding.spec == of_result, found.sharding
    assert product.lower(*given).compile().as_text().count("all-gather(") == gathers
    of_b = jax.jit(jax.grad(lambda b, a: (product(a, b) ** 2).sum()))(given[1], given[0])
    exact = 2 * f64(a).T @ want
    np.testing.assert_allclose(f64(of_b), exact, atol=0.02 * abs(exact).max())
with jax.set_mesh(mesh):
    assert (f64(product(a, b)) == want).all()
print("well")
"""
    )
    assert run(program, devices=4, timeout=300) == "well\n"


@pytest.mark.slow
def test_products_of_shardings_without_a_mesh():
    program = (
        START
        + """
from jax._src.sharding_impls import GSPMDSharding
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((4,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
for spec in (P(), P("x")):
    rows = NamedSharding(mesh, spec)._to_xla_hlo_sharding(2)
    given = (jax.device_put(each, GSPMDSharding(jax.devices(), rows)) for each in (a, b))
    assert (f64(jax.jit(lambda a, b: weft.jax.matmul(a, b, out_dtype="f32"))(*given)) == want).all()
print("well")
"""
    )
    assert run(program, devices=4) == "well\n"


def test_a_process_may_end_while_products_are_emulated():
    program = (
        START
        + """
multiply = jax.jit(lambda a, b: weft.jax.matmul(a, b))
multiply(a, b).block_until_ready()
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((4,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
a, b = (jax.device_put(each, NamedSharding(mesh, P())) for each in (a, b))
results = [multiply(a, b) for _ in range(3)]
print("well")
"""
    )
    assert run(program, devices=4) == "well\n"


def test_scaled_products():
    a, b = small(32, 256, dtype=jnp.float8_e4m3fn), small(160, 256, dtype=jnp.float8_e4m3fn)
    scale_a = jnp.asarray(RNG.integers(1, 4, (32, 2)), jnp.float32)
    wide = np.repeat(f64(scale_a), 128, 1) * f64(a)
    for rows in (2, 160):  # of blocks, and of columns
        scale_b = jnp.asarray(RNG.integers(1, 4, (rows, 2)), jnp.float32)
        tall = np.repeat(np.repeat(f64(scale_b), 128, 1), 128 if rows == 2 else 1, 0)[:160] * f64(b)
        run = jax.jit(
            lambda a, b, *scales: wjax.matmul(a, b, transpose_b=True, scales=scales, out_dtype="f32")
        )
        assert (f64(run(a, b, scale_a, scale_b)) == wide @ tall.T).all()


def test_products_with_scales_of_rows_and_tensors():
    a, b = (jnp.asarray(RNG.integers(-3, 4, (rows, 144)), jnp.float8_e4m3fn) for rows in (32, 48))
    rows, columns = (jnp.asarray(RNG.integers(1, 4, shape), jnp.float32) for shape in ((32, 1), (1, 48)))
    run = jax.jit(
        lambda a, b, *scales: wjax.matmul(
            a, b, transpose_b=True, scales=scales, out_dtype="f32", promote=True
        )
    )
    for scales in ((rows, columns), (rows[0, 0], columns[0, :1])):
        assert (f64(run(a, b, *scales)) == f64(a) @ f64(b).T * f64(scales[0]) * f64(scales[1])).all()
    members = jax.vmap(lambda a: wjax.matmul(a, b, transpose_b=True, scales=(rows, columns), out_dtype="f32"))
    assert (f64(members(jnp.stack([a, -a]))[1]) == -f64(a) @ f64(b).T * f64(rows) * f64(columns)).all()


@pytest.mark.parametrize("axes", [(0, None, 0, None), (0, None, 0, 0), (None, 0, None, 0), (0, 0, 0, 0)])
def test_mapped_scales_of_rows_and_columns(axes):
    a, b = (jnp.asarray(RNG.integers(-3, 4, (2, rows, 32)), jnp.float8_e4m3fn) for rows in (16, 8))
    rows, columns = (jnp.asarray(RNG.integers(1, 4, shape), jnp.float32) for shape in ((2, 16, 1), (2, 1, 8)))

    def one(a, b, rows, columns):
        return wjax.matmul(a, b, transpose_b=True, scales=(rows, columns), out_dtype="f32")

    every = a, b, rows, columns
    given = [each if axis == 0 else each[0] for each, axis in zip(every, axes, strict=True)]
    found = jax.jit(jax.vmap(one, axes))(*given)
    x, y, s, t = (f64(jnp.broadcast_to(each, (2, *each.shape[-2:]))) for each in given)
    assert (f64(found) == x @ y.swapaxes(1, 2) * s * t).all()
    whole = jax.vmap(lambda a, s: one(a, b[0], s, s))(a, jnp.asarray([2.0, 3.0], jnp.float32))
    assert (f64(whole) == f64(a) @ f64(b[0]).T * np.array([4.0, 9.0])[:, None, None]).all()
    single = jax.vmap(lambda a, s: one(a, b[0], s, s))(a[:, :1], jnp.asarray([2.0, 3.0], jnp.float32))
    assert (f64(single) == f64(whole[:, :1])).all()


def test_scaled_products_of_a_block_format():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(32, 128)), rng.normal(size=(16, 128))
    a, b = (reference.quantize(each, "mxfp8") for each in (x, y))
    tiled = [jnp.asarray(each.tiled_scales) for each in (a, b)]
    product = jax.jit(lambda a, b, s, t: wjax.matmul(a, b, transpose_b=True, scales=(s, t), kind="mxfp8"))
    found = product(jnp.asarray(a.elements), jnp.asarray(b.elements), *tiled)
    np.testing.assert_allclose(f64(found), x @ y.T, rtol=0.2, atol=2)


def test_grouped_products():
    a, b, ends = small(256, 64), small(2, 64, 32), jnp.asarray([128, 200], jnp.int32)
    found = f64(jax.jit(lambda a, b, e: wjax.matmul(a, b, row_ends=e, out_dtype="f32"))(a, b, ends))
    for i, rows in enumerate((slice(0, 128), slice(128, 200))):
        assert (found[rows] == f64(a)[rows] @ f64(b)[i]).all()


# Arrays of NumPy: JAX starts threads for its first array, which forks of this process wouldn't have.
A, B = np.ones((32, 64), jnp.bfloat16), np.ones((64, 48), jnp.bfloat16)
WRONG = [
    ({"b": B.T}, "a and b must have the same K, got 32 x 64 and 48 x 64: pass transpose_b=True"),
    ({"a": [1.0]}, r"a must be an array of JAX or NumPy, got \[1.0\]"),
    ({"b": None}, "b must be an array of JAX or NumPy, got None"),
    ({"a": np.asarray(A[0, 0])}, "a must have at least one dimension, got a single number: use alpha"),
    ({"a": A[0], "transpose_a": True}, "transpose_a must be False for a vector, got a of"),
    ({"out_dtype": "complex64"}, "out_dtype must be one of float32, .*, got 'complex64'"),
    ({"activation": "tanh"}, "activation must be one of relu, gelu, gelu_tanh, silu, got 'tanh'"),
    ({"bias": np.ones(32, np.float32)}, "bias must be 48 elements, got 32"),
    ({"residual": np.ones((48, 32))}, "residual must be 32 x 48, got 48 x 32"),
    ({"c": np.ones((32, 48))}, "beta must be given with c"),
    ({"beta": 1.0}, "beta must have a c"),
    ({"alpha": "2"}, "alpha must be a real number or an array of float32, got '2'"),
    ({"scales": A}, "scales must be a pair, of a and of b"),
    (
        {"a": np.ones((3, 32, 64)), "b": np.ones((2, 64, 48))},
        r"leading dimensions of a and b must broadcast",
    ),
    ({"a": A.astype(jnp.complex64)}, "a: dtype must be one of .*, got complex64"),
    ({"arch": "sm_1"}, "arch"),
    ({"schedule": "{}"}, "schedule"),
    ({"epilogue": weft.Epilogue()}, "has no parameter 'epilogue': pass bias, activation and residual"),
    ({"precision": "highest"}, "has no parameter 'precision': use jax.default_matmul_precision"),
    ({"transpose": True}, "has no parameter 'transpose'; did you mean 'transpose_"),
]


@pytest.mark.parametrize(("given", "message"), WRONG)
def test_mistakes_are_refused_while_a_program_is_traced(given, message):
    given = {"a": A, "b": B} | given
    given = {name: jnp.asarray(x) if isinstance(x, np.ndarray) else x for name, x in given.items()}
    with pytest.raises(weft.WeftError, match=message):
        jax.eval_shape(lambda: wjax.matmul(given.pop("a"), given.pop("b"), **given))


def test_a_product_without_a_kernel_is_refused_by_xla():
    schedule = "{block = array<i64: 128, 256, 64>, accumulators = 2, stages = 4}"
    with pytest.raises(jax.errors.JaxRuntimeError, match="schedule must have a legal instruction: tcgen05"):
        wjax.matmul(jnp.asarray(A), jnp.asarray(B.T), transpose_b=True, schedule=schedule).block_until_ready()


def test_sizes_that_are_unknown_are_refused():
    pytest.importorskip("flatbuffers", reason="jax.export needs it")
    (m,) = jax.export.symbolic_shape("m")
    with pytest.raises(weft.WeftError, match="sizes must be known when a program is traced, got m"):
        jax.export.export(jax.jit(wjax.matmul))(jax.ShapeDtypeStruct((m, 64), jnp.bfloat16), jnp.asarray(B))


def test_a_program_may_end_before_its_products():
    """With several devices, JAX doesn't wait for them; Python then starts no threads."""
    program = START + textwrap.dedent("""
    import threading
    from weft.multiply import xla_target

    def emulate(request):
        threading.main_thread().join()
        threading._register_atexit(print)

    xla_target._ANSWERS = (*xla_target._ANSWERS[:3], emulate)
    rows = jax.sharding.NamedSharding(jax.make_mesh((2,), ("x",)), jax.sharding.PartitionSpec("x"))
    print(jax.jit(weft.jax.matmul)(jax.device_put(a, rows), b).shape)
    """)
    done = ended(program, devices=2)
    assert (done.stdout, done.stderr) == ("(64, 48)\n", "")
