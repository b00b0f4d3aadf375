"""Operands that XLA copies before a product, as kernels of a GPU want them."""

import re
from dataclasses import replace

import numpy as np
import pytest
from fake_driver import two_gpus

import weft
from weft.launch.kernel import Kernel
from weft.multiply import xla_target
from weft.multiply.xla_product import Parsed

jax = pytest.importorskip("jax", reason="needs JAX")
jnp = jax.numpy
wjax = pytest.importorskip("weft.jax")
from weft.jax import copies, primitive  # noqa: E402

RNG = np.random.default_rng(0)


@pytest.fixture
def driver(patch):
    with two_gpus(patch) as fake:
        fake.stack = [100]
        yield fake


def lowered(a, b, dtype, **options):
    """XLA's program of a product on the GPU that Weft finds, before any run."""
    given = [jax.ShapeDtypeStruct(shape, dtype) for shape in (a, b)]
    product = jax.jit(lambda a, b: wjax.matmul(a, b, **options))
    return product.trace(*given).lower(lowering_platforms=("cuda",)).as_text()


def product_in(text):
    """The product that a program hands to Weft."""
    (found,) = re.findall(r'product = "(.*?)"[,}]', text)
    return found.replace("\\22", '"')


COPIED = [
    ((136, 33), (33, 73), jnp.bfloat16, {}, {0: 40, 1: 80}, ()),
    ((2, 136, 32), (2, 32, 74), jnp.float16, {}, {1: 80}, ()),
    ((33, 136), (64, 33), jnp.bfloat16, {"transpose_a": True, "transpose_b": True}, {1: 40}, ()),
    ((4096, 4096), (4096, 4096), jnp.float32, {}, {}, (1,)),
    ((2048, 2048), (2049, 2048), jnp.float8_e4m3fn, {"transpose_a": True, "transpose_b": True}, {}, (0,)),
    ((4096, 4097), (4096, 4097), jnp.int8, {"transpose_b": True}, {0: 4224, 1: 4224}, ()),
    ((4096, 4096), (4096, 4096), jnp.bfloat16, {}, {}, ()),
]


@pytest.mark.parametrize(("a", "b", "dtype", "options", "pitches", "transposed"), COPIED)
def test_programs_for_a_gpu_copy_what_its_kernel_cant_read(
    driver, monkeypatch, a, b, dtype, options, pitches, transposed
):
    text = lowered(a, b, dtype, **options)
    assert text.count("stablehlo.transpose ") == len(transposed)
    pads = {int(pitch) for pitch in re.findall(r"stablehlo.pad .*x(\d+)x\w+>$", text, re.M)}
    assert pads == set(pitches.values())
    parsed = Parsed.of(product_in(text))
    assert dict(parsed.pitches) == pitches
    shapes = [shape for shape, _ in parsed.described]
    flipped = [(*s[:-2], s[-1], s[-2]) if n in transposed else s for n, s in enumerate((a, b))]
    assert shapes == flipped

    def refuse(_):
        raise AssertionError("the rows are aligned")

    monkeypatch.setattr(Kernel, "for_any_rows", property(refuse))
    parsed.prepared(0)  # by the kernel for aligned rows


def test_without_a_gpu_nothing_is_copied():
    text = lowered((136, 33), (33, 73), jnp.bfloat16)
    assert "stablehlo.pad" not in text and not Parsed.of(product_in(text)).pitches


def test_a_product_without_a_kernel_is_lowered_as_it_is(driver):
    driver.majors = [6, 6]
    assert "stablehlo.pad" not in lowered((136, 33), (33, 73), jnp.bfloat16)


@pytest.mark.parametrize(
    ("a", "b", "options", "transposed", "pitches"),
    [
        ((8, 33), (33, 9), {}, (), {0: 40, 1: 16}),
        ((8, 33), (33, 9), {"transpose_b": True}, (1,), {0: 40, 1: 48}),
        ((2, 33, 8), (33, 16), {}, (0,), {0: 40}),
    ],
)
def test_products_of_copies_are_those_of_the_arrays(a, b, options, transposed, pitches):
    """As XLA runs them, by the emulator."""
    x, y = (jnp.asarray(RNG.integers(-2, 3, shape), jnp.bfloat16) for shape in (a, b))
    jaxpr = jax.make_jaxpr(lambda x, y: wjax.matmul(x, y, out_dtype="f32", transpose_a=0 in transposed))(x, y)
    (equation,) = (each for each in jaxpr.eqns if each.primitive is primitive.product_p)
    product = replace(equation.params["product"], transpose_a=False, **options)
    made = copies.Copies(product, frozenset(transposed), pitches)
    given = primitive.described([each.aval for each in equation.invars])
    (result,) = equation.outvars
    attributes = xla_target.attributes(made.text(given, primitive.described([result.aval])[0]))
    call = jax.ffi.ffi_call(xla_target.TARGET, jax.ShapeDtypeStruct(result.aval.shape, jnp.float32))
    found = jax.jit(lambda x, y: call(*made.made(x, y), **attributes))(x, y)
    left = np.asarray(x, np.float64)
    want = (np.swapaxes(left, -1, -2) if 0 in transposed else left) @ np.asarray(y, np.float64)
    assert (np.asarray(found) == want).all()


def test_each_device_of_a_mesh_copies_its_own_part(driver):
    mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec
    mapped = jax.shard_map(wjax.matmul, mesh=mesh, in_specs=(spec("x", None), spec()), out_specs=spec("x"))
    a, b = jax.ShapeDtypeStruct((136, 33), jnp.bfloat16), jax.ShapeDtypeStruct((33, 73), jnp.bfloat16)
    text = jax.jit(mapped).trace(a, b).lower(lowering_platforms=("cuda",)).as_text()
    assert dict(Parsed.of(product_in(text)).pitches) == {0: 40, 1: 80}


def test_what_is_copied_is_chosen_for_one_row_too(driver):
    """A matrix of one column is read as one row."""
    product = jax.make_jaxpr(lambda a, b: wjax.matmul(a, b, transpose_a=True))(
        jnp.ones((4097, 1), jnp.bfloat16), jnp.ones((4097, 4096), jnp.bfloat16)
    )
    assert len(primitive.texts_on_gpu(product)) == 1


def test_weft_matmul_is_weft_jax_matmul_in_a_traced_function():
    a, b = (jnp.asarray(RNG.integers(-2, 3, shape), jnp.bfloat16) for shape in ((16, 32), (32, 8)))
    bias = jnp.arange(8, dtype=jnp.bfloat16)
    want = np.maximum(np.asarray(a, np.float64) @ np.asarray(b, np.float64) + np.arange(8), 0)

    def product(a, b):
        return weft.matmul(a, b, epilogue=weft.Epilogue(bias=bias, activation="relu"), out_dtype="f32")

    assert (np.asarray(jax.jit(product)(a, b)) == want).all()
    assert (np.asarray(jax.jit(lambda b: product(np.asarray(a), b))(b)) == want).all()
    gradient = jax.grad(lambda b: product(a, b).sum())(b)
    assert (np.asarray(gradient) == np.asarray(a, np.float64).T @ (want > 0)).all()
    for name, given in (("out", np.zeros((16, 8))), ("stream", 0)):
        with pytest.raises(weft.WeftError, match=f"{name} must be None in functions that JAX traces"):
            jax.jit(lambda a, name=name, given=given: weft.matmul(a, b, **{name: given}))(a)
