"""Launches wait for the streams on which other libraries compute arrays, and `@` of arrays on a GPU."""

import ctypes

import numpy as np
import pytest
from fake_driver import GpuArray, two_gpus

import weft
from weft.launch import arrays, runtime


@pytest.fixture
def driver(patch):
    with two_gpus(patch) as fake:
        yield fake


def on_stream(driver, stream, *shape):
    made = GpuArray(driver, 0, *shape)
    made.__cuda_array_interface__["stream"] = stream
    return made


def multiply(driver, streams, **options):
    driver.waits.clear()
    a, b, out = (
        on_stream(driver, stream, *shape)
        for stream, shape in zip(streams, [(64, 128), (128, 96), (64, 96)], strict=True)
    )
    weft.matmul(a, b, out=out, **options)
    return sorted(driver.waits)


def test_launches_wait_for_the_streams_of_their_arrays(driver):
    for _ in range(2):  # without a plan, and with one
        assert multiply(driver, [None, None, None]) == []
        assert multiply(driver, [1, None, None]) == []  # both are the legacy default stream
        assert multiply(driver, [1, 2, 99]) == [(0, 2), (0, 99)]
        assert multiply(driver, [99, 99, 5], stream=99) == [(99, 5)]
        assert multiply(driver, [1, 1, 1], stream=99) == [(99, 1)]
    assert len(driver.launched) == 10


def test_captured_streams_do_not_wait(driver):
    driver.captured[99] = 7
    assert multiply(driver, [1, 2, 5], stream=99) == []


def test_plans_differ_by_streams(driver):
    assert multiply(driver, [4, None, None]) == [(0, 4)]
    assert multiply(driver, [5, None, None]) == [(0, 5)]


@pytest.mark.parametrize("stream", [0, -1, "1", 1.0, True])
def test_streams_that_the_interface_forbids_are_refused(driver, stream):
    message = "must have a stream of None, 1 (the legacy default stream), 2 (that of each thread) or a handle"
    with pytest.raises(weft.WeftError) as refused:
        multiply(driver, [stream, None, None])
    assert message in str(refused.value) and f"got {stream!r}" in str(refused.value)


class Exported:
    """An array that has DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


def test_producers_of_dlpack_make_the_legacy_default_stream_wait(driver):
    a, b = (Exported(runtime.DeviceArray(shape, "f16")) for shape in ((64, 128), (128, 96)))
    assert arrays.view(a).stream == 1
    out = runtime.DeviceArray((64, 96), "f16")
    weft.matmul(a, b, out=out)
    assert driver.waits == []
    weft.matmul(a, b, out=out, stream=99)
    assert driver.waits == [(99, 1)]


def test_kernels_wait_for_the_streams_of_their_arrays(driver):
    text = """
    func.func @product(%A: memref<64x128xf16>, %B: memref<128x96xf16>, %D: memref<64x96xf16>) {
      "tile.matmul"(%A, %B, %D)
        {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}
        : (memref<64x128xf16>, memref<128x96xf16>, memref<64x96xf16>) -> ()
      return
    }
    """
    kernel = weft.compile(text, arch="sm_90a")
    a, b, out = on_stream(driver, 3, 64, 128), on_stream(driver, None, 128, 96), on_stream(driver, 4, 64, 96)
    kernel(a, b, out, stream=99)
    assert sorted(driver.waits) == [(99, 3), (99, 4)]


def test_read_only_arrays_of_versioned_dlpack_are_not_written():
    out = np.zeros((8, 8), np.float16)
    out.flags.writeable = False
    with pytest.raises(weft.WeftError, match="out must be writable"):
        weft.matmul(np.ones((8, 8), np.float16), np.ones((8, 8), np.float16), out=Exported(out))


@pytest.mark.parametrize("version", [None, (0, 8), (1, 1)])
def test_exported_capsules_have_the_version_that_is_asked_for(driver, version):
    capsule = runtime.DeviceArray((2, 3), "bf16").__dlpack__(max_version=version)
    named = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
    assert named(capsule) == (b"dltensor_versioned" if version == (1, 1) else b"dltensor")


@pytest.mark.parametrize("stream", [0, -2, "1"])
def test_exports_to_streams_that_dlpack_forbids_are_refused(driver, stream):
    with pytest.raises(BufferError, match="stream must be None, -1, 1"):
        runtime.DeviceArray((2, 3), "f16").__dlpack__(stream=stream)


def test_exports_wait_unless_the_consumer_needs_no_order(driver):
    made = runtime.DeviceArray((2, 3), "f16")
    for stream in (None, 1, 2, 99):
        made.__dlpack__(stream=stream)
    assert len(driver.waited) == 4
    made.__dlpack__(stream=-1)
    assert len(driver.waited) == 4


class Wrapper:
    """Multiplies itself, as its `__array_ufunc__` says."""

    __array_ufunc__ = None

    def __rmatmul__(self, other):
        return "mine"

    def __dlpack__(self, **options):
        raise AssertionError


def test_products_by_the_operator(driver):
    a, b = runtime.DeviceArray((4, 64, 128), "f16"), runtime.DeviceArray((128, 96), "f16")
    assert (a @ b).shape == (4, 64, 96)
    assert (
        (a @ GpuArray(driver, 0, 128, 96)).shape == (GpuArray(driver, 0, 4, 64, 128) @ b).shape == (4, 64, 96)
    )
    assert a @ Wrapper() == "mine"
    with pytest.raises(weft.WeftError, match="all arrays must be on one device, got cpu:0, cuda:0"):
        np.ones((64, 128), np.float16) @ b
    with pytest.raises(weft.WeftError, match="all arrays must be on one device"):
        a @ np.ones((128, 96), np.float16)
    for call in (lambda: a @ 2, lambda: [1] @ a, lambda: a + 1):
        with pytest.raises(TypeError, match="unsupported operand"):
            call()


@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
def test_operators_of_other_libraries_leave_products_to_ours(driver, library):
    ones = pytest.importorskip(library).ones
    with pytest.raises(weft.WeftError, match="all arrays must be on one device"):
        ones((8, 64)) @ runtime.DeviceArray((64, 8), "f32")
