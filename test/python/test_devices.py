"""Launches run on the GPU that has the arrays, which needn't be the current one. Driver, JAX and CuPy are
fakes.
"""

import gc
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import ml_dtypes
import numpy as np
import pytest
from fake_driver import MEMORY, FakeDriver, GpuArray, two_gpus

import weft
from weft.dialects.schedule import WarpgroupSchedule
from weft.errors import WeftError
from weft.launch import arrays, dlpack_export, runtime
from weft.launch.arrays import ArrayView
from weft.multiply import plans, product_kernel

SHARED_OUT = WarpgroupSchedule((64, 16, 64), 1, 3, global_splits=2)
PRODUCT = """
func.func @matmul(%A: memref<?x?xf16>, %B: memref<?x?xf16>, %D: memref<?x?xf16>) {
  "tile.matmul"(%A, %B, %D)
    {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf16>) -> ()
  return
}"""
SHAPES = ((64, 128), (128, 64), (64, 64))


@pytest.fixture
def driver(patch):
    with two_gpus(patch) as driver:
        yield driver


def matrices(driver: FakeDriver, gpu: int) -> list[GpuArray]:
    return [GpuArray(driver, gpu, *shape) for shape in SHAPES]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("schedule", [None, SHARED_OUT], ids=["plain", "with a workspace"])
@pytest.mark.parametrize("before", [[], [100], [101]], ids=["no context", "GPU 0", "GPU 1"])
@pytest.mark.parametrize("gpu", [0, 1])
def test_a_product_is_queued_on_the_gpu_of_its_arrays(driver, schedule, before, gpu):
    a, b, out = matrices(driver, gpu)
    driver.stack = list(before)
    weft.matmul(a, b, out=out, schedule=schedule, stream=5)
    for current in ([], [100], [101]):
        driver.stack = list(current)
        weft.matmul(a, b, out=out, schedule=schedule, stream=5)
        assert driver.stack == current
    assert driver.launched == [(gpu, 5)] * 4
    assert bool(driver.cleared) == (schedule is not None) and set(driver.cleared) <= {gpu}


def test_a_call_that_differs_in_what_is_no_number_is_refused(driver):
    a, b, out = matrices(driver, 0)
    weft.matmul(a, b, out=out)
    with pytest.raises(WeftError, match="alpha must be a number or an array of f32, got one of f64"):
        weft.matmul(a, b, out=out, alpha=np.ones(3))
    with pytest.raises(WeftError, match="transpose_b must be True or False, got ndarray"):
        weft.matmul(a, b, out=out, transpose_b=np.zeros(3))
    weft.matmul(a, b, out=out)
    assert len(driver.launched) == 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize("says", [True, False], ids=["a view says its GPU", "the driver is asked"])
def test_a_kernel_is_launched_on_the_gpu_of_its_arrays(driver, says):
    kernel = weft.compile(PRODUCT, arch="sm_90a")
    driver.stack = [100]
    given = matrices(driver, 1)
    if says:
        given = [ArrayView(v.address, v.shape, v.strides, "f16", "cuda", 1, False, v) for v in views(given)]
    kernel(*given)
    prepared = kernel.prepare(*given)
    prepared.launch(7)
    assert driver.launched == [(1, 0), (1, 7)] and driver.stack == [100] and not driver.waited


def views(given: list[GpuArray]) -> list[ArrayView]:
    return [arrays.view(array) for array in given]


@pytest.mark.slow
def test_a_product_is_compiled_for_the_gpu_of_its_arrays(driver, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", "0")  # where another process may have left both
    chips, compile_ = [], product_kernel.kernel.compile_shared
    monkeypatch.setattr(
        product_kernel.kernel,
        "compile_shared",
        lambda module, arch: chips.append(arch) or compile_(module, arch),
    )
    driver.majors[1] = 8
    for gpu in (1, 0):
        weft.matmul(*matrices(driver, gpu)[:2])
    assert chips == ["sm_80", "sm_90a"]


@pytest.mark.slow
def test_a_chip_is_named_for_arrays_on_the_cpu_only(driver):
    a, b, out = matrices(driver, 0)
    weft.matmul(a, b, out=out)
    with pytest.raises(WeftError, match="arch must be None for arrays on a GPU, here of sm_90a, got sm_100a"):
        weft.matmul(a, b, out=out, arch="sm_100a")
    ones = np.ones((16, 16), np.float16)
    assert (weft.matmul(ones, ones, arch="sm_100a") == 16).all()
    assert len(driver.launched) == 1


@pytest.mark.slow
def test_an_array_that_is_transposed_in_place_gets_another_plan(driver):
    a, b, out = (GpuArray(driver, 0, 64, 64) for _ in range(3))
    weft.matmul(a, b, out=out)
    for turned in (a, b):
        known = len(plans.kept)
        turned.__cuda_array_interface__["strides"] = (2, 128)
        weft.matmul(a, b, out=out)
        assert len(plans.kept) == known + 1
    weft.matmul(a, b, out=out)
    assert len(plans.kept) == known + 1


def test_arrays_of_two_gpus_are_refused(driver):
    (a, b, _), (*_, out) = matrices(driver, 0), matrices(driver, 1)
    with pytest.raises(WeftError, match="arrays must be on one GPU, got GPUs 0, 1"):
        weft.matmul(a, b, out=out)


def test_a_new_result_is_on_the_gpu_of_the_arrays(driver):
    a, b, _ = matrices(driver, 1)
    driver.stack = [100]
    out = weft.matmul(a, b)
    assert isinstance(out, runtime.DeviceArray) and out.device.ordinal == 1
    assert out.address // MEMORY == 2 and driver.launched == [(1, 0)]


def test_memory_that_is_exported_lives_as_long_as_its_user(driver):
    made = runtime.DeviceArray((3, 4), "bf16", 1)
    address = made.address
    assert made.__dlpack_device__() == (2, 1)
    exported = [made.__dlpack__(stream=-1, max_version=(1, 0))]
    assert not driver.waited
    seen = arrays.view(SimpleNamespace(__dlpack__=lambda **_: exported[0]))
    assert (seen.address, seen.shape, seen.strides, seen.dtype) == (address, (3, 4), (4, 1), "bf16")
    assert (seen.device, seen.device_id, seen.readonly) == ("cuda", 1, False)
    del made
    gc.collect()
    assert not driver.freed
    exported.clear()
    del seen
    gc.collect()
    assert driver.freed == [address] and driver.stack == []


def test_a_copy_to_a_gpu_has_ended_when_it_returns(driver):
    """A kernel on a stream that doesn't wait for the default one may follow."""
    runtime.DeviceArray.from_numpy(np.ones((3, 4), np.float32), 1)
    assert driver.copied == [1] and driver.waited == [1, 1]


def test_what_python_collects_ends_no_capture(driver):
    """Not even that of another thread, as PyTorch captures graphs."""
    made, loaded = runtime.DeviceArray((3, 4), "bf16", 1), runtime.load(b"", 0)
    del made
    loaded.close()
    modes = type(driver.mode)
    assert driver.modes == [modes.CU_STREAM_CAPTURE_MODE_RELAXED] * 2
    assert driver.mode == modes.CU_STREAM_CAPTURE_MODE_GLOBAL


def test_an_export_waits_for_what_is_queued(driver):
    made = runtime.DeviceArray((3, 4), "bf16", 1)
    for number, stream in enumerate((None, 1, 77)):
        made.__dlpack__(stream=stream)
        assert driver.waited == [1] * (number + 1)
    for options in ({"copy": True}, {"dl_device": (1, 0)}, {"dl_device": (2, 0)}):
        with pytest.raises(BufferError, match="only its own memory"):
            made.__dlpack__(**options)
    made.__dlpack__(copy=False, dl_device=(2, 1))


@pytest.fixture
def jax(monkeypatch):
    """What of JAX is used, with arrays in a GPU's memory."""

    class ArrayImpl:
        __module__ = "jaxlib._jax"

        def __init__(self, view: ArrayView) -> None:
            self.view = replace(view, device_id=runtime.holder([view]))
            self.shape, self.dtype = view.shape, view.dtype

        def is_deleted(self) -> bool:
            return False

        def __dlpack__(self, *, stream=None, max_version=None):
            assert stream is None, "JAX waits for its arrays when no stream does"
            return dlpack_export.capsule_of(self.view)

    def from_dlpack(made):
        capsule = made.__dlpack__(stream=13)
        return ArrayImpl(arrays.view(SimpleNamespace(__dlpack__=lambda **_: capsule)))

    jax = SimpleNamespace(core=SimpleNamespace(Tracer=ml_dtypes.finfo), ArrayImpl=ArrayImpl)
    jax.errors = SimpleNamespace(JaxRuntimeError=ZeroDivisionError)
    jax.dlpack = SimpleNamespace(from_dlpack=from_dlpack)
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.setitem(sys.modules, "jax.dlpack", jax.dlpack)
    return jax


def test_a_product_of_jax_arrays_is_one(driver, jax):
    a, b, out = (jax.ArrayImpl(view) for view in views(matrices(driver, 1)))
    driver.stack = [100]
    found = weft.matmul(a, b, out_dtype="f32")
    assert isinstance(found, jax.ArrayImpl) and (found.shape, found.dtype) == ((64, 64), "f32")
    assert driver.launched == [(1, 0)] and set(driver.waited) == {1} and driver.stack == [100]
    with pytest.raises(WeftError, match=r"out must be writable \(JAX's arrays never change"):
        weft.matmul(a, b, out=out)


def test_a_launch_with_a_jax_array_is_waited_for(driver, jax):
    """Its memory is JAX's again once the caller drops it."""
    a, b, out = matrices(driver, 1)
    b = jax.ArrayImpl(arrays.view(b))
    for number in range(2):
        weft.matmul(a, b, out=out, stream=5)
        assert driver.launched == [(1, 5)] * (number + 1) and driver.waited == [1] * (number + 1)
    weft.compile(PRODUCT, arch="sm_90a")(a, b, out)
    assert driver.launched[2:] == [(1, 0)] and driver.waited == [1] * 3


@pytest.fixture
def cupy(monkeypatch, driver):
    """What of CuPy is used; it has no fp8."""

    class ndarray:
        __module__ = "cupy"

        def __init__(self, gpu: int, shape, dtype) -> None:
            self.__dict__.update(GpuArray(driver, gpu, *shape).__dict__)
            self.dtype = np.dtype(dtype)
            self.itemsize = self.dtype.itemsize
            self.strides = tuple(s * self.itemsize for s in arrays.contiguous_strides(shape))
            self.data = SimpleNamespace(ptr=self.__cuda_array_interface__["data"][0])
            self.device = Device(gpu)

    class Device:
        current = 0

        def __init__(self, number: int) -> None:
            self.id, self.before = number, list[int]()

        def __enter__(self) -> None:
            self.before.append(Device.current)
            Device.current = self.id

        def __exit__(self, *_: object) -> None:
            Device.current = self.before.pop()

    def empty(shape, dtype):
        if np.dtype(dtype) == ml_dtypes.float8_e4m3fn:
            raise ValueError("Unsupported dtype float8_e4m3fn")
        return ndarray(Device.current, shape, dtype)

    class ExternalStream:
        """Of the current GPU, as CuPy requires for a block."""

        current: ClassVar[list[tuple[int, int]]] = []

        def __init__(self, ptr: int) -> None:
            self.ptr = ptr

        def __enter__(self) -> None:
            self.current.append((Device.current, self.ptr))

        def __exit__(self, *_: object) -> None:
            self.current.pop()

    streams = SimpleNamespace(
        get_current_stream=lambda gpu=None: SimpleNamespace(ptr=30 + gpu), ExternalStream=ExternalStream
    )
    module = SimpleNamespace(ndarray=ndarray, empty=empty, cuda=streams, Device=Device)
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def test_cupy_is_asked_for_the_arrays_own_gpu(driver, cupy):
    a, b, _ = (cupy.ndarray(1, shape, np.float16) for shape in SHAPES)
    out = weft.matmul(a, b, out_dtype="f32")
    assert isinstance(out, cupy.ndarray) and out.device.id == 1 and out.dtype == np.float32
    assert driver.launched == [(1, 31)] and cupy.Device.current == 0
    with pytest.raises(WeftError, match="CuPy can't create an array of f8E4M3FN: Unsupported dtype"):
        weft.matmul(a, b, out_dtype="f8E4M3FN")


def test_what_cupy_makes_beside_results_is_made_on_the_stream_of_the_call(driver, cupy, monkeypatch):
    """There, CuPy doesn't use its memory again before the launches are done."""
    made, empty = [], cupy.empty

    def recorded(shape, dtype):
        made.append((cupy.cuda.ExternalStream.current[-1:], shape))
        return empty(shape, dtype)

    monkeypatch.setattr(cupy, "empty", recorded)
    q, (k, v) = (
        cupy.ndarray(1, (1, 1, 64, 128), np.float16),
        (cupy.ndarray(1, (1, 1, 8192, 128), np.float16) for _ in range(2)),
    )
    weft.attention(q, k, v, stream=5)
    on_stream = [current == [(1, 5)] for current, _ in made]
    assert any(on_stream) and not on_stream[0], "only the result is the caller's"
    assert {stream for _, stream in driver.launched} == {5}
    assert not cupy.cuda.ExternalStream.current and cupy.Device.current == 0


def test_a_cupy_array_is_viewed_without_dlpack(cupy):
    array = cupy.ndarray(1, (6, 8), ml_dtypes.bfloat16)
    array.strides = (32, 2)
    assert arrays.view(array) == ArrayView(array.data.ptr, (6, 8), (16, 1), "bf16", "cuda", 1, False, array)
