"""Arrays of types with DLPack's C exchange functions, of which this file has some."""

import ctypes

import numpy as np
import pytest
from fake_driver import MEMORY, two_gpus

import weft
from weft.launch import arrays, dlpack

_ARRAY = ctypes.POINTER(dlpack.DLManagedTensorVersioned)
_FROM_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_ARRAY))
_STREAM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
_DELETE = ctypes.PYFUNCTYPE(None, _ARRAY)
_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


def exporting(*, stream=0, version=1, device=2, flags=0, status=0):
    """A type of arrays of f16 with these functions, and what they deleted."""
    deleted = []

    @_DELETE
    def delete(managed):
        deleted.append(managed.contents.tensor.data)

    @_FROM_OBJECT
    def from_object(array, found):
        if status == 0:
            found[0] = ctypes.pointer(array.managed)
        return status

    @_STREAM
    def current_stream(kind, number, found):
        found[0] = stream
        return 0

    addresses = (ctypes.cast(each, ctypes.c_void_p).value for each in (from_object, current_stream))
    of_object, of_stream = addresses
    table = dlpack.ExchangeApi(version, 3, None, None, of_object, None, None, of_stream)

    class Exporting:
        kept = table, delete, from_object, current_stream
        __dlpack_c_exchange_api__ = _capsule(ctypes.addressof(table), b"dlpack_exchange_api", None)

        def __init__(self, address, *shape):
            sizes = (ctypes.c_int64 * len(shape))(*shape)
            tensor = dlpack.DLTensor(address, device, 0, len(shape), 2, 16, 1, sizes, None, 0)
            deleter = ctypes.cast(delete, ctypes.c_void_p)
            self.managed = dlpack.DLManagedTensorVersioned(1, 3, None, deleter, flags, tensor)
            self.sizes = sizes

        def __dlpack__(self, **_):
            raise AssertionError("the functions suffice")

    return Exporting, deleted


@pytest.fixture
def driver(patch):
    with two_gpus(patch) as fake:
        yield fake


def test_launches_wait_for_the_current_stream_of_the_library(driver):
    kind, deleted = exporting(stream=7)
    a, b, out = (kind(MEMORY + number * 2**20, 64, 64) for number in range(3))
    view = arrays.view(a)
    assert (view.address, view.shape, view.strides, view.dtype) == (MEMORY, (64, 64), (64, 1), "f16")
    assert (view.device, view.device_id, view.readonly, view.owner, view.stream) == ("cuda", 0, False, a, 7)
    assert deleted == [MEMORY]
    for _ in range(2):
        driver.waits.clear()
        weft.matmul(a, b, out=out, stream=99)
        assert driver.waits == [(99, 7)]
    kind, _ = exporting()
    assert arrays.view(kind(MEMORY, 8, 8)).stream == 1


def test_arrays_of_the_cpu_have_no_stream():
    kind, _ = exporting(device=1)
    memory = [np.ones((8, 8), np.float16) for _ in range(2)]
    assert arrays.view(kind(memory[0].ctypes.data, 8, 8)).stream is None
    assert (weft.matmul(*(kind(each.ctypes.data, 8, 8) for each in memory)) == 8).all()


def test_read_only_arrays_are_not_written():
    kind, _ = exporting(device=1, flags=dlpack.READ_ONLY)
    ones = np.ones((8, 8), np.float16)
    with pytest.raises(weft.WeftError, match="out must be writable"):
        weft.matmul(ones, ones, out=kind(ones.ctypes.data, 8, 8))


def test_functions_that_fail_are_named():
    kind, _ = exporting(status=-1)
    with pytest.raises(weft.WeftError, match="a: the C exchange API of Exporting returned no tensor"):
        weft.matmul(kind(MEMORY, 8, 8), np.ones((8, 8), np.float16))


def test_other_versions_are_left_for_the_python_protocol():
    kind, _ = exporting(version=2)
    with pytest.raises(AssertionError, match="the functions suffice"):
        arrays._of_exchange_api(kind(MEMORY, 8, 8))


def test_tensors_of_pytorch_are_read_alike():
    torch = pytest.importorskip("torch", reason="needs PyTorch, for its functions")
    tensor = torch.arange(24.0).reshape(2, 3, 4).transpose(0, 1)
    view = arrays._of_exchange_api(tensor)
    assert (view.address, view.shape, view.strides) == (tensor.data_ptr(), (3, 2, 4), (4, 12, 1))
    assert (view.dtype, view.device, view.stream) == ("f32", "cpu", None)
