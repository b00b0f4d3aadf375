"""Arguments of kernels and layouts of the wrong type or size are refused."""

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.compiler.launch_record import MapParameter, MemrefArgument
from weft.errors import WeftError
from weft.launch import arrays, kernel_arguments
from weft.layout import Layout, LayoutError

SCALARS = """
gpu.module @m { gpu.func @k(%x: memref<?xf32>, %n: i32, %f: f32, %b: i1) kernel
  attributes {known_block_size = array<i32: 32, 1, 1>} { gpu.return } }
"""
LONG = 10**5000


@pytest.fixture(scope="module")
def kernel():
    return weft.compile(SCALARS, arch="sm_80")


def call(kernel, number=None, value=None, **options):
    args = [np.zeros(4, np.float32), 1, 1.0, True]
    if number is not None:
        args[number] = value
    kernel(*args, **{"grid": (1, 1, 1), "on": "emulator"} | options)


@pytest.mark.parametrize(
    ("number", "value", "said"),
    [
        (1, 2**31, r"an integer in -2147483648\.\.2147483647, got 2147483648"),
        (1, -(2**40), r"an integer in -2147483648\.\.2147483647, got -1099511627776"),
        (1, 1.5, r"an integer in .*, got 1\.5"),
        (1, float("nan"), "an integer in .*, got nan"),
        (1, 1j, "a number of type i32, got complex"),
        (2, "1.0", "a number of type f32, got str"),
        (2, np.complex64(1), "a number of type f32, got np.complex64"),
        (3, 2, r"an integer in 0\.\.1, got 2"),
        pytest.param(1, LONG, "an integer in .*, got a number too long to print", id="long integer"),
        pytest.param(2, LONG, "a number of type f32, got a number too long to print", id="long float"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(kernel, number, value, said):
    with pytest.raises(WeftError, match=f"kernel k, argument {number}: expects {said}"):
        call(kernel, number, value)


@pytest.mark.parametrize("value", [1e300, np.float64(-3.5e38), 2**200])
def test_floats_beyond_the_largest_are_refused(kernel, value):
    with pytest.raises(
        WeftError, match=r"argument 2: .* doesn't fit into f32, whose largest number is 3\.402"
    ):
        call(kernel, 2, value)


@pytest.mark.parametrize("value", [3.4028235e38, float("inf"), float("nan"), np.float64(2), 3, True])
def test_numbers_are_rounded_to_a_float(kernel, value):
    call(kernel, 2, value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"grid": (-1, 1, 1)}, r"grid must be in 1\.\.2147483647 on x, got -1: \(-1, 1, 1\)"),
        ({"grid": (2**40, 1, 1)}, r"grid must be in 1\.\.2147483647 on x"),
        ({"block": (2**20, 1, 1)}, r"block must be in 1\.\.1024 on x"),
        ({"block": 2**20}, "block must be a sequence of integers"),
        ({"grid": np.zeros((3, 3))}, "grid must be three integers .*, got ndarray"),
        ({"on": ["gpu"]}, r"on must be 'gpu' or 'emulator', got \['gpu'\]"),
        ({"on": np.zeros(2)}, "got ndarray"),
        ({"stream": "main"}, "stream must be a stream of PyTorch or CuPy, or a handle, got str"),
        pytest.param({"grid": (LONG, 1, 1)}, "grid must be in .*, got a number of [0-9]+ bits", id="long"),
    ],
)
def test_options_that_cannot_be_are_refused(kernel, options, said):
    with pytest.raises(WeftError, match=said):
        call(kernel, **options)


@pytest.mark.parametrize("stage", [None, 3, ["source"], np.zeros(2)])
def test_a_stage_that_is_no_name_is_refused(kernel, stage):
    with pytest.raises(WeftError, match="after must be the name of a stage, got"):
        kernel.ir(stage)


def test_a_written_array_whose_elements_share_memory_is_refused():
    product = weft.compile(
        """func.func @f(%A: memref<?x?xf16>, %B: memref<?x?xf16>, %D: memref<?x?xf32, strided<[?, 1]>>) {
        "tile.matmul"(%A, %B, %D)
          {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}
          : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32, strided<[?, 1]>>) -> ()
        return }""",
        arch="sm_80",
    )
    a, d = np.ones((16, 16), np.float16), np.ones((16, 16), np.float32)
    overlapping = np.lib.stride_tricks.as_strided(d, strides=(4, 4))
    with pytest.raises(WeftError, match=r"argument 2: .*elements share memory, with strides \(1, 1\)"):
        product(a, a, overlapping, on="emulator")


FOUR = Layout.parse("S[(2,2):(2,1)]")


@pytest.mark.parametrize(
    "call",
    [
        lambda value: FOUR.apply(0, value),
        lambda value: FOUR.group(value),
        lambda value: FOUR.slice(value, (0, 0), (1, 1)),
        lambda value: FOUR.slice((2, 2), value, (1, 1)),
        lambda value: FOUR.tile_to(value, (2, 2)),
        lambda value: FOUR.tile(FOUR, value, (2, 2)),
        lambda value: FOUR.tile(value, (2, 2), (2, 2)),
        lambda value: FOUR.compose(value),
        lambda value: FOUR.inverse(value),
        lambda value: FOUR.is_bijective(value),
        lambda value: FOUR.is_bijective({"m": value}),
        lambda value: FOUR.span(value),
        lambda value: FOUR.lane_elements(value, (2, 2)),
        Layout.parse,
    ],
)
def test_what_is_no_shape_is_refused(call):
    for value in (None, 3.5, "x", 1j, [None], object(), np.zeros((2, 2)), (LONG,), {1: 2}):
        with pytest.raises(LayoutError):
            call(value)


def test_a_layout_too_large_to_list_is_refused_at_once():
    large = Layout.parse("S[(1048576,1048576):(1048576,1)]")
    with pytest.raises(LayoutError, match="at most 16777216 elements to be listed, got 1099511627776"):
        large.inverse((2**40,))
    assert large.apply(2**40 - 1) == {"m": 2**40 - 1}


FIRST_BYTE = """
gpu.module @m { gpu.func @k(%a: memref<?x?xf4E2M1FN>, %d: memref<?xi32>) kernel
  attributes {known_block_size = array<i32: 1, 1, 1>, weft.writes = array<i32: 1>} {
    %zero = arith.constant 0 : index
    %address = memref.extract_aligned_pointer_as_index %a : memref<?x?xf4E2M1FN> -> index
    %number = arith.index_cast %address : index to i64
    %pointer = llvm.inttoptr %number : i64 to !llvm.ptr
    %word = llvm.load %pointer : !llvm.ptr -> i32
    memref.store %word, %d[%zero] : memref<?xi32>
    gpu.return } }
"""


@pytest.mark.parametrize("packed", [False, True])
def test_elements_of_four_bits_reach_a_kernel_packed(packed):
    kernel = weft.compile(FIRST_BYTE, arch="sm_80")
    array = np.arange(16, dtype=np.uint8).reshape(2, 8).view(ml_dtypes.float4_e2m1fn)
    if packed:
        array = kernel_arguments.packed_copy(arrays.view(array))
    d = np.zeros(1, np.int32)
    kernel(array, d, grid=(1, 1, 1), on="emulator", findings="error")
    assert d[0] == 0x76543210


def test_a_kernel_that_writes_packed_elements_takes_no_others():
    source = FIRST_BYTE.replace("array<i32: 1>", "array<i32: 0, 1>")
    with pytest.raises(WeftError, match="expects packed elements of f4E2M1FN, got a byte for each of them"):
        array = np.zeros((2, 8), ml_dtypes.float4_e2m1fn)
        weft.compile(source, arch="sm_80")(array, np.zeros(1, np.int32), grid=(1, 1, 1), on="emulator")


@pytest.mark.parametrize(
    ("dtype", "padded", "kind", "of_rows", "steps"),
    [
        ("f4E2M1FN", False, "16U4_ALIGN8B", 4, (128,)),
        ("f4E2M1FN", True, "16U4_ALIGN16B", 4, (128,)),
        ("f6E3M2FN", True, "16U6_ALIGN16B", 4, (192,)),
        ("f8E8M0FNU", False, "UINT8", 4, (256,)),
        ("f6E3M2FN", True, "16U6_ALIGN16B", 1, (192,)),
    ],
)
def test_maps_of_narrow_elements_are_those_of_tma(dtype, padded, kind, of_rows, steps):
    array = np.zeros((of_rows, 256), np.uint8).view(arrays.numpy_dtype(dtype))
    view = arrays.view(array)
    view = kernel_arguments.packed_copy(view) if dtype in arrays.PACKED_BITS else view
    want = MapParameter(0, (8, 128), "128B", "256B", padded)
    encoded = kernel_arguments.map_of(view, want, 0)
    assert (encoded.type, encoded.dims, encoded.strides) == (kind, (256, of_rows), steps)
    assert encoded.complaint() is None


@pytest.mark.parametrize(("columns", "bytes_"), [(32, 16), (64, 32), (40, 20)])
def test_rows_of_packed_elements_are_aligned_as_their_bytes(columns, bytes_):
    view = kernel_arguments.packed_copy(arrays.view(np.zeros((4, columns), ml_dtypes.float4_e2m1fn)))
    assert view.row_alignment == bytes_
    want = MemrefArgument("f4E2M1FN", (None, None), (None, 1), True, False)
    assert kernel_arguments.misfit(view, want) is None


def test_a_matrix_that_tma_cannot_copy_is_named():
    view = arrays.view(np.zeros((64, 72), np.uint8)[:, :64])
    want = MapParameter(3, (64, 64), "64B", "256B")
    said = r"^argument 3: a tensor map's strides_bytes\[0\] must be a multiple of 16, got 72"
    with pytest.raises(WeftError, match=said):
        kernel_arguments.map_of(view, want, 0)
