"""`weft.matmul` on JAX's arrays on the CPU."""

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.launch import arrays, dlpack_export

jax = pytest.importorskip("jax", reason="needs JAX, for its arrays")
jnp = jax.numpy
RNG = np.random.default_rng(0)


def small(*shape: int, dtype: object = np.float16) -> np.ndarray:
    """Integers whose sums are exact."""
    return RNG.integers(-1, 2, shape).astype(dtype)


@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        (np.float16, np.float16),
        (ml_dtypes.bfloat16, ml_dtypes.bfloat16),
        (np.float32, np.float32),
        (ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16),
        (ml_dtypes.float8_e5m2, ml_dtypes.bfloat16),
        (np.int8, np.int32),
        (np.uint8, np.int32),
    ],
)
def test_a_product_of_jax_arrays_is_one(dtype, result):
    a, b = abs(small(32, 64, dtype=dtype)), abs(small(48, 64, dtype=dtype))
    found = weft.matmul(jnp.asarray(a), jnp.asarray(b), transpose_b=True)
    assert isinstance(found, jax.Array) and found.dtype == result
    assert (np.asarray(found, np.float64) == a.astype(np.float64) @ b.T.astype(np.float64)).all()


def test_a_result_of_fp8():
    a, b = (small(*shape, dtype=ml_dtypes.float8_e4m3fn) for shape in ((16, 32), (32, 32)))
    found = weft.matmul(jnp.asarray(a), jnp.asarray(b), transpose_b=True, out_dtype="f8E4M3FN")
    assert found.dtype == jnp.float8_e4m3fn
    want = (a.astype(np.float32) @ b.T.astype(np.float32)).astype(found.dtype)
    assert np.array_equal(np.asarray(found), want)


def test_every_array_of_a_product_may_be_of_jax():
    a, b, c, bias = (small(*shape, dtype=np.float32) for shape in ((2, 16, 32), (32, 8), (16, 8), (8,)))
    given = [jnp.asarray(x).astype(jnp.bfloat16) for x in (a, b, c, bias)]
    epilogue = weft.Epilogue(bias=given[3], activation="relu")
    found = weft.matmul(*given[:2], c=given[2], beta=2.0, epilogue=epilogue, out_dtype="f32")
    assert isinstance(found, jax.Array) and found.devices() == given[0].devices()
    assert np.array_equal(np.asarray(found), np.maximum(a @ b + 2 * c + bias, 0))
    assert np.array_equal(np.asarray(given[2]), c)


def test_arrays_that_jax_still_computes_are_waited_for():
    step = jax.jit(lambda x: x @ x / x.shape[0])
    a = jnp.ones((1024, 1024), jnp.float32)
    for _ in range(4):
        a = step(a)
    assert (weft.matmul(a.astype(jnp.float16)[:8], jnp.ones((1024, 8), jnp.float16)) == 1024).all()


def test_the_result_may_go_to_another_librarys_array():
    a, b, out = small(16, 32), small(32, 24), np.full((16, 24), np.nan, np.float32)
    assert weft.matmul(jnp.asarray(a), b, out=out) is out
    assert np.array_equal(out, a.astype(np.float32) @ b)
    assert isinstance(weft.matmul(a, jnp.asarray(b)), np.ndarray)


def test_jax_arrays_are_never_written():
    a, out = jnp.ones((16, 16), jnp.float16), jnp.zeros((16, 16), jnp.float16)
    with pytest.raises(weft.WeftError, match=r"out must be writable \(JAX's arrays never change"):
        weft.matmul(a, a, out=out)
    matrix = "memref<16x16xf16>"
    kernel = weft.compile(
        f"""func.func @matmul(%A: {matrix}, %D: {matrix}) {{
          "tile.matmul"(%A, %A, %D) {{
            operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}}
            : ({matrix}, {matrix}, {matrix}) -> ()
          return
        }}"""
    )
    with pytest.raises(weft.WeftError, match="is written by the kernel, but the array is read-only"):
        kernel(a, out)
    assert not np.asarray(out).any()


def refused(array: object) -> str:
    with pytest.raises(weft.WeftError) as caught:
        arrays.view(array)
    return str(caught.value)


def test_what_jax_has_no_memory_for_is_refused():
    said = []
    jax.eval_shape(lambda x: said.append(refused(x)), jnp.ones((4, 4)))
    jax.grad(lambda x: said.append(refused(x)) or x.sum())(jnp.ones((4, 4)))
    assert len(said) == 2 and all("got a JAX tracer: call weft.jax.matmul inside" in s for s in said)
    gone = jnp.ones((4, 4)) + 1
    gone.delete()
    assert "that JAX has deleted or donated" in refused(gone)
    assert "dtype must be one of" in refused(jnp.ones(4, jnp.complex64))
    assert "JAX can't export an array of int4 through DLPack" in refused(jnp.ones(4, jnp.int4))


def test_jax_takes_what_we_export():
    """As it takes a result on a GPU."""
    for name in ("f32", "f16", "bf16", "f8E4M3FN", "f8E5M2", "i32"):
        array = np.arange(12).reshape(3, 4).astype(arrays.numpy_dtype(name))
        exported = Exported(arrays.view(array))
        assert np.array_equal(np.asarray(jax.dlpack.from_dlpack(exported)), array)


class Exported:
    """A view as DeviceArray exports itself."""

    def __init__(self, seen: arrays.ArrayView) -> None:
        self.seen = seen

    def __dlpack__(self, *, stream=None):
        return dlpack_export.capsule_of(self.seen)

    def __dlpack_device__(self):
        return dlpack_export.device_of(self.seen)
