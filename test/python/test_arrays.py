"""Views of arrays of every library, and arrays that are refused."""

import ctypes
import gc
import sys
import weakref
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.errors import WeftError
from weft.launch import arrays, dlpack, dlpack_export, overlaps
from weft.launch.arrays import ArrayView, view

NAMES = list(arrays._NUMPY)


def refused(array: object) -> str:
    with pytest.raises(WeftError) as caught:
        view(array)
    return str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_type_names_and_dtypes_are_a_bijection(name):
    assert arrays.mlir_type(arrays.numpy_dtype(name)) == name


def test_types_without_a_counterpart_are_refused():
    with pytest.raises(WeftError, match=r"element type must be one of f64, .*, got i3"):
        arrays.numpy_dtype("i3")
    for dtype in (np.complex64, np.dtype("S3"), np.dtype("f4,i4"), object, np.dtype(">f4")):
        with pytest.raises(WeftError, match="dtype must be one of"):
            arrays.mlir_type(dtype)


@pytest.mark.parametrize("name", NAMES)
def test_a_numpy_array_is_viewed_in_place(name):
    array = np.zeros((4, 6), arrays.numpy_dtype(name))[1:, ::-2]
    seen = view(array)
    assert seen == ArrayView(array.ctypes.data, (3, 3), (6, -2), name, "cpu", 0, False, array)
    again = seen.numpy()
    again[0, 1] = 1
    assert array[0, 1] == 1
    assert (again.dtype, again.strides) == (array.dtype, array.strides)


def test_a_read_only_array_stays_so():
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    assert view(array).readonly
    assert not view(array).numpy().flags.writeable


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1, 1, 1)])
def test_shapes_of_any_kind_are_viewed(shape):
    array = np.zeros(shape, ml_dtypes.bfloat16)
    assert view(array).shape == view(array).numpy().shape == shape


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    "kept", [lambda array: view(array).numpy(), lambda array: np.from_dlpack(Exported(view(array)))]
)
def test_a_view_and_an_export_keep_their_memory_alive(kept):
    array = np.arange(1000, dtype=np.float32)
    alive = weakref.ref(array)
    again = kept(array)
    del array
    gc.collect()
    assert alive() is not None and again[999] == 999
    del again
    gc.collect()
    assert alive() is None


def test_an_object_that_is_not_an_array_is_refused():
    for thing in (3, [1, 2], "abc", None, np.float32(3)):
        assert "expected an array" in refused(thing)
    assert "masked" in refused(np.ma.zeros(3))
    overlapping = np.lib.stride_tricks.as_strided(np.zeros(4, np.int32), (2,), (2,))
    assert "multiples of an element's 4 bytes, got (2,)" in refused(overlapping)


def test_views_and_what_makes_them_pass():
    seen = view(np.zeros(2))
    assert view(seen) is seen
    assert view(SimpleNamespace(__weft_view__=lambda: seen)) is seen


class Exporter:
    """An array that has DLPack only, old or versioned."""

    def __init__(self, array, versioned: bool) -> None:
        self.array = array
        if not versioned:
            self.__class__ = OldExporter

    def __dlpack__(self, *, max_version=None):
        return self.array.__dlpack__(max_version=max_version)


class OldExporter:
    def __dlpack__(self):
        return self.array.__dlpack__()


@pytest.mark.parametrize("versioned", [False, True])
def test_dlpack_is_viewed_in_place_and_kept_alive(versioned):
    array = np.arange(12, dtype=np.float16).reshape(3, 4)[:, 1:]
    before = sys.getrefcount(array)
    seen = view(Exporter(array, versioned))
    assert (seen.address, seen.shape, seen.strides) == (array.ctypes.data, (3, 3), (4, 1))
    assert (seen.dtype, seen.device, seen.device_id, seen.readonly) == ("f16", "cpu", 0, False)
    assert np.array_equal(seen.numpy(), array)
    del seen
    gc.collect()
    assert sys.getrefcount(array) == before


def test_dlpack_says_read_only():
    array = np.zeros(3, np.int8)
    array.flags.writeable = False
    assert view(Exporter(array, True)).readonly
    assert "can't be exported through DLPack" in refused(Exporter(array, False))


class Exported:
    """A view that exports itself as Weft's arrays do."""

    def __init__(self, seen: ArrayView) -> None:
        self.seen = seen

    def __dlpack__(self, *, stream=None, max_version=None, **_):
        return dlpack_export.capsule_of(self.seen, max_version)

    def __dlpack_device__(self):
        return dlpack_export.device_of(self.seen)


@pytest.mark.parametrize("name", list(arrays.DLPACK_TYPES))
def test_what_we_export_is_seen_as_it_was(name):
    array = (2.0 ** (np.arange(24) % 7)).reshape(4, 6).astype(arrays.numpy_dtype(name))[1:, ::2]
    again = view(Exported(view(array)))
    seen = (again.address, again.shape, again.strides, again.dtype, again.device, again.device_id)
    assert seen == (array.ctypes.data, (3, 3), (6, 2), name, "cpu", 0)
    assert np.array_equal(again.numpy(), array)


@pytest.mark.parametrize(("version", "kind"), [(None, '"dltensor"'), ((1, 0), '"dltensor_versioned"')])
def test_an_export_is_of_the_version_that_is_asked_for(version, kind):
    assert kind in repr(dlpack_export.capsule_of(view(np.zeros(3, ml_dtypes.bfloat16)), version))


def test_what_dlpack_has_no_name_for_isnt_exported():
    with pytest.raises(BufferError, match="DLPack has no type for f4E2M1FN"):
        dlpack_export.capsule_of(view(np.zeros(3, ml_dtypes.float4_e2m1fn)))


def capsule(name: bytes, *, version=(1, 0), **fields):
    """A DLPack capsule of our own making; it must outlive what reads it."""
    shape = (ctypes.c_int64 * 2)(2, 3)
    managed = dlpack.DLManagedTensorVersioned(*version)
    tensor = managed.tensor
    for field, value in {
        "data": 4096,
        "device_type": 2,
        "ndim": 2,
        "lanes": 1,
        "shape": shape,
        **fields,
    }.items():
        setattr(tensor, field, value)
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    address = ctypes.addressof(managed if name == b"dltensor_versioned" else tensor)
    return SimpleNamespace(__dlpack__=lambda **_: make(address, name, None), keep=(managed, shape, name))


@pytest.mark.parametrize("name", [b"dltensor", b"dltensor_versioned"])
@pytest.mark.parametrize(
    ("code", "bits", "dtype"),
    [
        (2, 64, "f64"),
        (2, 16, "f16"),
        (4, 16, "bf16"),
        (0, 8, "i8"),
        (1, 8, "ui8"),
        (10, 8, "f8E4M3FN"),
        (12, 8, "f8E5M2"),
        (14, 8, "f8E8M0FNU"),
    ],
)
def test_dlpack_names_types_and_devices(name, code, bits, dtype):
    seen = view(capsule(name, code=code, bits=bits, device_id=1, byte_offset=64))
    assert (seen.address, seen.shape, seen.strides, seen.dtype) == (4160, (2, 3), (3, 1), dtype)
    assert (seen.device, seen.device_id) == ("cuda", 1)
    with pytest.raises(WeftError, match="expected an array in CPU memory, got one on cuda"):
        seen.numpy()


def test_unsupported_dlpack_is_refused():
    assert "got DLPack type code 5" in refused(capsule(b"dltensor", code=5, bits=64))
    assert "4 lanes" in refused(capsule(b"dltensor", code=2, bits=32, lanes=4))
    assert "CPU or CUDA, got 10" in refused(capsule(b"dltensor", code=2, bits=32, device_type=10))
    assert "that was not consumed" in refused(capsule(b"used_dltensor", code=2, bits=32))
    assert "must be 1, got 2.0" in refused(capsule(b"dltensor_versioned", version=(2, 0), code=2, bits=32))


def cuda_array(**changes):
    interface = {"shape": (2, 3), "typestr": "<f4", "data": (4096, True), "version": 3, **changes}
    return SimpleNamespace(__cuda_array_interface__=interface)


def test_cuda_array_interface_is_viewed():
    array = cuda_array()
    assert view(array) == ArrayView(4096, (2, 3), (3, 1), "f32", "cuda", -1, True, array)
    assert view(cuda_array(strides=(4, 8))).strides == (1, 2)
    assert "masked" in refused(cuda_array(mask=cuda_array()))
    assert "dtype must be one of" in refused(cuda_array(typestr="|V2"))


def tensor(**changes):
    """Has what of PyTorch's tensors is used."""
    fields = {
        "dtype": "torch.bfloat16",
        "device": SimpleNamespace(type="cuda", index=1),
        "layout": "torch.strided",
        "shape": (2, 3),
        "stride": lambda: (1, 2),
        "data_ptr": lambda: 4096,
        "is_neg": lambda: False,
        "is_quantized": False,
    }
    made = type("Tensor", (), {"__module__": "torch"})()
    vars(made).update(fields | changes)
    return made


@pytest.fixture
def without_torch(monkeypatch):
    """Hides the real PyTorch, whose tensors the stand-ins aren't, where an earlier test has imported it."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)


@pytest.mark.usefixtures("without_torch")
def test_a_torch_tensor_is_viewed_without_torch():
    array = tensor()
    assert view(array) == ArrayView(4096, (2, 3), (1, 2), "bf16", "cuda", 1, False, array)
    assert view(tensor(dtype="torch.float8_e4m3fn")).dtype == "f8E4M3FN"
    assert view(tensor(device=SimpleNamespace(type="cpu", index=None))).device_id == 0
    assert "torch" not in sys.modules


@pytest.mark.usefixtures("without_torch")
def test_a_torch_tensor_that_isnt_plain_memory_is_refused():
    dtype = type("dtype", (), {"is_complex": True, "__str__": lambda _: "torch.complex64"})()
    assert "got torch.complex64: multiply real" in refused(tensor(dtype=dtype))
    assert "on cpu or cuda" in refused(tensor(device=SimpleNamespace(type="mps", index=0)))
    assert "sparse" in refused(tensor(layout="torch.sparse_coo"))
    assert "negated" in refused(tensor(is_neg=lambda: True))


def interface_of(value):
    return SimpleNamespace(__cuda_array_interface__=value)


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (interface_of(None), "must be a dictionary, got NoneType"),
        (interface_of({}), "must have shape, typestr and data, but lacks shape, typestr, data"),
        (interface_of({"shape": (2,), "data": (4096, False)}), "lacks typestr"),
        (cuda_array(typestr=None), "must have a typestr like '<f4', got None"),
        (cuda_array(typestr=float), "must have a typestr like '<f4'"),
        (cuda_array(typestr="f4,i4"), "must have a typestr like '<f4', got 'f4,i4'"),
        (cuda_array(typestr="(2,3)f4"), "must have a typestr like '<f4'"),
        (cuda_array(typestr="<f3"), "dtype must be one of"),
        (cuda_array(typestr=">f4"), "dtype must be one of"),
        (cuda_array(typestr="|O"), "dtype must be one of"),
        (cuda_array(typestr="<V0"), "dtype must be one of"),
        (cuda_array(shape=None), "must have integers in shape, got None"),
        (cuda_array(shape=3), "must have integers in shape, got 3"),
        (cuda_array(shape=(2.0, 3)), "must have integers in shape, got (2.0, 3)"),
        (cuda_array(shape=(-2, 3)), "sizes must not be negative"),
        (cuda_array(shape=(2**62, 2**62), strides=(0, 0)), "nor 2**63 bytes or more in total"),
        (cuda_array(strides="ab"), "must have integers in strides, got 'ab'"),
        (cuda_array(strides=(4,)), "each size must have a stride, got sizes (2, 3), strides (1,)"),
        (cuda_array(strides=(3, 1)), "multiples of an element's 4 bytes, got (3, 1)"),
        (cuda_array(strides=(-(2**40), 4)), "addresses must be below 2**64, got an array from"),
        (cuda_array(data=None), "must have an address and a read-only flag as data, got None"),
        (cuda_array(data=(4096,)), "must have an address"),
        (cuda_array(data=("4096", True)), "must have integers in data, got ('4096',)"),
        (cuda_array(data=(None, True)), "must have integers in data"),
        (cuda_array(data=(0, True)), "address must not be null"),
        (cuda_array(data=(-4, True)), "addresses must be below 2**64, got an array from"),
        (cuda_array(data=(2**64 - 8, True)), "addresses must be below 2**64, got an array from"),
        (cuda_array(data=(4098, True)), "address must be a multiple of 4 bytes, got 0x1002"),
    ],
)
def test_a_broken_cuda_array_interface_is_refused(array, said):
    assert said in refused(array)


def raising(name, error):
    def ask(self, *_, **__):
        raise error

    return type("Raising", (), {name: property(ask) if "interface" in name else ask})()


@pytest.mark.parametrize("error", [KeyError("shape"), RuntimeError("no"), TypeError("no"), ValueError("no")])
@pytest.mark.parametrize("name", ["__dlpack__", "__cuda_array_interface__"])
def test_an_exception_of_a_protocol_is_reported(name, error):
    with pytest.raises(
        WeftError, match=f"reading {name} of Raising failed: {type(error).__name__}: "
    ) as caught:
        view(raising(name, error))
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"ndim": -1}, "rank of a DLPack tensor must be in 0..64, got -1"),
        ({"ndim": 2**30}, "rank of a DLPack tensor must be in 0..64"),
        ({"shape": None}, "shape of a DLPack tensor of rank 2 must not be null"),
        ({"shape": (ctypes.c_int64 * 2)(-1, 3)}, "sizes must not be negative"),
        ({"shape": (ctypes.c_int64 * 2)(2**62, 2**62)}, "nor 2**63 bytes or more in total"),
        ({"data": None}, "address must not be null"),
        ({"data": 4098}, "address must be a multiple of 4 bytes"),
        ({"byte_offset": 2**64 - 4096}, "addresses must be below 2**64, got an array from"),
        ({"strides": (ctypes.c_int64 * 2)(-(2**50), 1)}, "addresses must be below 2**64, got an array from"),
        ({"device_id": -7}, "device number must not be negative, got -7"),
    ],
)
@pytest.mark.parametrize("name", [b"dltensor", b"dltensor_versioned"])
def test_a_broken_dlpack_tensor_is_refused(name, fields, said):
    assert said in refused(capsule(name, code=2, bits=32, **fields))


@pytest.mark.parametrize("made", [None, 3, b"dltensor", object()])
def test_an_object_that_is_not_a_dlpack_capsule_is_refused(made):
    assert "a DLPack capsule that was not consumed" in refused(SimpleNamespace(__dlpack__=lambda **_: made))


def test_prototypes_that_other_libraries_share_are_left_alone():
    get = ctypes.pythonapi.PyCapsule_GetPointer
    before = get.restype, get.argtypes
    get.restype, get.argtypes = ctypes.c_char_p, (ctypes.c_int,)
    try:
        array = np.zeros(4, np.float32)
        assert view(SimpleNamespace(__dlpack__=array.__dlpack__)).address == array.ctypes.data
        assert (get.restype, get.argtypes) == (ctypes.c_char_p, (ctypes.c_int,))
    finally:
        get.restype, get.argtypes = before


def test_classes_and_other_views_are_refused():
    assert "got the class ndarray" in refused(np.ndarray)
    assert "got the class ArrayView" in refused(ArrayView)
    assert "__weft_view__ must return an ArrayView, got int" in refused(
        SimpleNamespace(__weft_view__=lambda: 3)
    )


def test_arrays_that_overlap_themselves_are_detected():
    """By counting the addresses of all elements."""
    chance = np.random.default_rng(0)
    found = set()
    for _ in range(2000):
        rank = int(chance.integers(0, 4))
        shape = tuple(int(n) for n in chance.integers(0, 5, rank))
        strides = tuple(int(n) for n in chance.integers(-7, 8, rank))
        seen = ArrayView(1 << 20, shape, strides, "f32", "cuda", 0, False, None)
        places = sum(
            (
                stride * np.arange(n).reshape(-1, *[1] * (rank - 1 - at))
                for at, (n, stride) in enumerate(zip(shape, strides, strict=True))
            ),
            np.zeros((), int),
        )
        expected = len(np.unique(places)) < places.size
        assert overlaps.overlaps_itself(seen) is expected, (shape, strides)
        found.add(expected)
    assert found == {True, False}


@pytest.mark.parametrize(
    ("dtype", "of_bytes", "of_elements", "strides", "steps"),
    [
        ("f4E2M1FN", (3, 8), (3, 16), (8, 1), (16, 1)),
        ("f4E2M1FN", (8, 3), (16, 3), (1, 8), (1, 16)),  # a transposed matrix
        ("f6E3M2FN", (2, 3, 12), (2, 3, 16), (48, 12, 1), (64, 16, 1)),
    ],
)
def test_a_packed_array_is_seen_in_elements_and_in_bytes(dtype, of_bytes, of_elements, strides, steps):
    memory = np.zeros(200, np.uint8)
    seen = view(np.lib.stride_tricks.as_strided(memory, of_bytes, strides)).unpacked_from(dtype)
    assert (seen.shape, seen.strides, seen.dtype, seen.packed) == (of_elements, steps, dtype, True)
    assert (seen.in_bytes.shape, seen.in_bytes.strides, seen.in_bytes.dtype) == (of_bytes, strides, "ui8")
    seen.numpy()[...] = 3
    assert seen.numpy().dtype == np.uint8 and memory.sum() == 3 * np.prod(of_bytes)
    reach = sum((n - 1) * step for n, step in zip(of_bytes, strides, strict=True)) + 1
    assert arrays.span(seen) == (memory.ctypes.data, memory.ctypes.data + reach)
    assert overlaps.overlap(seen, view(memory[:1])) and not overlaps.overlap(seen, view(memory[190:]))
    assert not overlaps.overlaps_itself(seen)


def test_bytes_that_elements_do_not_fill_are_refused():
    with pytest.raises(WeftError, match=r"packed f6E2M3FN must have a multiple of 3 bytes, got .*\(4"):
        view(np.zeros((4, 8), np.uint8)).unpacked_from("f6E2M3FN")
    with pytest.raises(WeftError, match="must have a dimension of stride 1"):
        view(np.zeros((4, 8), np.uint8)[:, ::2]).unpacked_from("f4E2M1FN")


@pytest.mark.parametrize(
    ("code", "bits", "lanes", "flags", "shape", "packed"),
    [
        (17, 4, 1, 0, (2, 4), True),
        (17, 4, 1, dlpack.SUBBYTE_PADDED, (2, 4), False),
        (17, 4, 2, 0, (2, 8), True),  # as PyTorch exports its pairs
        (15, 6, 1, 0, (2, 4), True),
        (16, 6, 1, dlpack.SUBBYTE_PADDED, (2, 4), False),
    ],
)
def test_dlpack_says_what_is_packed(code, bits, lanes, flags, shape, packed):
    sizes = (ctypes.c_int64 * 2)(2, 4)
    exporter = capsule(b"dltensor_versioned", code=code, bits=bits, lanes=lanes, shape=sizes)
    exporter.keep[0].flags = flags
    seen = view(exporter)
    assert (seen.shape, seen.packed) == (shape, packed)
    assert seen.dtype == {17: "f4E2M1FN", 15: "f6E2M3FN", 16: "f6E3M2FN"}[code]


def test_packed_dlpack_whose_rows_are_no_bytes_is_refused():
    assert "must be whole bytes" in refused(capsule(b"dltensor_versioned", code=17, bits=4))
    assert "2 lanes" in refused(capsule(b"dltensor_versioned", code=15, bits=6, lanes=2))


def test_pytorchs_pairs_are_elements():
    torch = pytest.importorskip("torch")
    pairs = torch.zeros(4, 8, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    for array, shape, strides in ((pairs, (4, 16), (16, 1)), (pairs.t(), (16, 4), (1, 16))):
        seen = view(array)
        assert (seen.shape, seen.strides, seen.dtype, seen.packed) == (shape, strides, "f4E2M1FN", True)
        assert seen.address == pairs.data_ptr()
    assert view(torch.zeros(3, dtype=torch.float8_e8m0fnu)).dtype == "f8E8M0FNU"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("bf16", "bf16"),
        ("bfloat16", "bf16"),
        ("float32", "f32"),
        (np.float32, "f32"),
        (np.dtype(np.int32), "i32"),
        (ml_dtypes.bfloat16, "bf16"),
        (ml_dtypes.float8_e4m3fn, "f8E4M3FN"),
        (float, "f64"),
        ("f4", None),
        ("f8", None),
        ("bf17", None),
        (np.complex64, None),
        (None, None),
        (3, None),
        ([], None),
    ],
    ids=str,
)
def test_names_of_types(given, name):
    assert arrays.type_name(given) == name


@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
def test_names_of_types_of_libraries(library):
    found = pytest.importorskip(library)
    for given, name in (
        ("bfloat16", "bf16"),
        ("float32", "f32"),
        ("float8_e5m2", "f8E5M2"),
        ("int32", "i32"),
    ):
        assert arrays.type_name(getattr(found, given)) == name


def test_products_and_casts_take_types_by_any_name():
    a = np.ones((16, 16), np.float16)
    for given in (np.float32, "float32", np.dtype("float32")):
        found = weft.matmul(a, a, out_dtype=given, accumulate=np.float16, arch="sm_80")
        assert found.dtype == np.float32
    assert weft.quantize(a, ml_dtypes.float8_e5m2, arch="sm_90a").values.dtype == ml_dtypes.float8_e5m2
    for wrong in (np.int16, "float33", [1]):
        with pytest.raises(weft.WeftError, match="out_dtype must be one of"):
            weft.matmul(a, a, out_dtype=wrong, arch="sm_80")
