"""Arguments of kernels and layouts of the wrong type or size are refused."""

import numpy as np
import pytest

import weft
from weft.errors import WeftError
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


@pytest.mark.parametrize("value", [1e300, float("inf"), np.float64(2), 3, True])
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
        "tile.matmul"(%A, %B, %D) : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32, strided<[?, 1]>>) -> ()
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
