"""What callers of `weft.matmul` may pass by mistake: each is refused, with advice."""

import array
import ctypes
import re

import numpy as np
import pytest

import weft

A, B = np.ones((16, 32), np.float16), np.ones((32, 8), np.float16)
F32, I8 = A.astype(np.float32), A.astype(np.int8)
SCALE = np.ones((16, 1), np.float32)
FIELD = np.zeros((16, 32), [("x", "f2"), ("y", "f2")])
LIST = "got list: numpy.asarray(x, dtype) makes an array of it"
BUFFER = "numpy.asarray(x) or numpy.frombuffer(x, dtype) makes an array of it"
COPY = "copy it (x.contiguous() in PyTorch, ascontiguousarray(x) in NumPy and CuPy)"
WRONG = [
    (
        {"a": 2.0},
        "a: expected an array (NumPy, PyTorch, CuPy, JAX, DLPack or __cuda_array_interface__), got float",
    ),
    ({"a": np.float16(2)}, "a: expected an array (NumPy, PyTorch"),
    ({"a": np.asarray(2, np.float16)}, "a must have at least one dimension, got a single number: use alpha"),
    ({"a": [[1.0]]}, LIST),
    ({"a": [1, 2]}, LIST),
    ({"b": ((1.0,),)}, LIST.replace("list", "tuple")),
    (
        {"a": memoryview(A)},
        f"a: expected an array (NumPy, PyTorch, CuPy, JAX, DLPack or __cuda_array_interface__), "
        f"got memoryview: {BUFFER}",
    ),
    ({"a": b"abcd"}, f"got bytes: {BUFFER}"),
    ({"a": array.array("f", [1.0])}, f"got array: {BUFFER}"),
    ({"a": (ctypes.c_float * 4)()}, f"got c_float_Array_4: {BUFFER}"),
    ({"a": None}, "got NoneType"),
    ({"a": np.ndarray}, "got the class ndarray"),
    (
        {"a": np.ones((16, 64), np.float16)[:, ::2]},
        f"a must have contiguous rows or columns, got strides (64, 2): {COPY}",
    ),
    ({"a": A[::-1]}, f"strides of a must not be negative, got (-32, 1): {COPY}"),
    ({"b": B[:, ::-1]}, f"strides of b must not be negative, got (8, -1): {COPY}"),
    (
        {"a": np.broadcast_to(np.float16(1), (16, 32))},
        "contiguous rows or columns, got strides (0, 0): copy it",
    ),
    ({"a": FIELD["x"]}, "a must have contiguous rows or columns, got strides (64, 2): copy it"),
    ({"a": FIELD}, "got [('x', '<f2'), ('y', '<f2')]: select a field, such as x['x']"),
    ({"a": A.astype(">f2")}, "got >f2: x.astype('float16') has this machine's byte order"),
    ({"a": A.astype(object)}, "got object: convert it by x.astype('float32')"),
    ({"a": np.full((16, 32), "1")}, "got <U1: convert it by x.astype('float32')"),
    ({"a": A.astype(np.complex64)}, "got complex64: multiply real and imaginary parts on their own"),
    ({"a": np.ma.array(A)}, "expected an array without a mask, got a masked one: use x.filled(0) or x.data"),
    ({"a": np.broadcast_to(np.float16(1), (2**31, 32))}, "a: sizes must be in 1..2147483647, got 2147483648"),
    ({"a": F32}, "a and b must have one element type, got f32 and f16: convert one of them"),
    ({"a": I8}, "a and b must have one element type, got i8 and f16: convert one of them"),
    ({"a": A.astype(np.int32)}, "got i32: convert it to i8 if its values are in -128..127, or to f64, which"),
    ({"b": B.astype(np.uint16)}, "got ui16: convert it to ui8 if its values are in 0..255, or to f64, which"),
    ({"a": A.astype("M8[s]")}, "got datetime64[s]"),
    ({"a": A > 0, "b": B > 0}, "bit_op must be xor.popc or and.popc"),
    (
        {"out_dtype": float},
        "the result (out, out_dtype) may have elements of f64 only where a and b are f64, got a of f16",
    ),
    (
        {"out": np.zeros((16, 8), np.int32)},
        "may have elements of i32 only where a and b are integers, got a of f16",
    ),
    (
        {"a": I8, "b": B.astype(np.int8), "out_dtype": "f32"},
        "must have elements of i32 where a and b are integers, got f32",
    ),
    ({"c": B, "beta": 1.0}, "c must be 16 x 8, got 32 x 8"),
    ({"c": B[0], "beta": 1.0}, "c must be 16 x 8, got 8: a vector for all rows is a bias"),
    (
        {"c": np.ones((16, 8)), "beta": 1.0},
        "c may have elements of f64 only where a and b are f64, got a of f16: use f32",
    ),
    (
        {
            "a": np.ones((256, 32), np.float16),
            "b": np.ones((2, 32, 8), np.float16),
            "row_ends": np.array([128, 256]),
        },
        "row_ends must have elements of i32, got i64: convert it",
    ),
    (
        {"out_dtype": np.dtype(">f4")},
        "out_dtype must be one of f32, f16, bf16, i32, f64, f8E4M3FN, f8E5M2, got >f4",
    ),
    ({"out": np.zeros((16, 8), np.float16)[::-1]}, "strides of out must not be negative, got (-8, 1)"),
    ({"out": np.zeros((16, 8), np.float16, "F")}, "out must have contiguous rows, got strides (1, 16)"),
    ({"out": []}, "out: expected an array"),
    ({"alpha": [2.0]}, "alpha must be a real number or an array of f32, got [2.0]"),
    ({"alpha": 1j}, "alpha must be a real number or an array of f32, got 1j"),
    ({"beta": np.ones(1), "c": B[:16]}, "beta must be a real number, got ndarray"),
    ({"transpose_a": "T"}, "transpose_a must be True or False, got 'T'"),
    ({"scales": (SCALE, None)}, "scales must be a pair of arrays, got None for b: an array of a single 1"),
    ({"scales": (None, SCALE)}, "scales must be a pair of arrays, got None for a: an array of a single 1"),
    (
        {"scales": (np.float64([1]), np.float64([1]))},
        "scale_a must have elements of f32, f8E8M0FNU, f8E4M3FN, i32, got f64: convert it",
    ),
    ({"b": B.T}, "a and b must have the same K, got 16 x 32 and 8 x 32: pass transpose_b=True"),
    ({"b": B.copy("F").T}, "got 16 x 32 and 8 x 32: pass transpose_b=True"),
    ({"b": B, "transpose_b": True}, "got 16 x 32 and 8 x 32: pass transpose_b=False"),
    ({"a": A.T}, "a and b must have the same K, got 32 x 16 and 32 x 8: pass transpose_a=True"),
    ({"a": A.copy("F"), "transpose_a": True}, "got 32 x 16 and 32 x 8: pass transpose_a=False"),
    (
        {"a": np.ones((16, 16)), "b": np.ones((16, 16)), "epilogue": weft.Epilogue(activation="gelu")},
        "activation must be relu where D is f64, got 'gelu': apply it to D instead",
    ),
    (
        {"a": I8, "b": B.astype(np.int8), "epilogue": weft.Epilogue(activation="silu")},
        "activation must be relu where D is i32, got 'silu': apply it to D instead",
    ),
    ({"scales": (None, None)}, "scales must be a pair of arrays, got None for a"),
]


@pytest.mark.parametrize(("given", "message"), WRONG)
def test_mistakes_are_refused_with_advice(given, message):
    with pytest.raises(weft.WeftError) as caught:
        weft.matmul(given.get("a", A), given.get("b", B), **{k: v for k, v in given.items() if k not in "ab"})
    said = str(caught.value)
    assert message in said and said.startswith("weft.matmul: ") and len(said) < 400


def test_the_advice_for_integers_is_exact():
    a, b = np.full((16, 16), 65537, np.int32), np.eye(16, dtype=np.int32)
    with pytest.raises(weft.WeftError, match="f64"):
        weft.matmul(a, b)
    assert (weft.matmul(a.astype(np.float64), b.astype(np.float64), arch="sm_90a") == a).all()


INTEGERS = np.random.default_rng(0).integers(-2, 3, (16, 32)).astype(np.float16)


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    "a",
    [
        np.asfortranarray(INTEGERS),
        INTEGERS.view(np.matrix),
        INTEGERS[::2],
        INTEGERS[:, 5:13],
        INTEGERS[3],
        np.broadcast_to(INTEGERS[0], (16, 32)),
        np.ndarray((4, 8), np.float16, b"\0" + INTEGERS.tobytes(), offset=1),
        np.frombuffer(INTEGERS.tobytes(), np.float16).reshape(16, 32),  # read-only
        INTEGERS.view(type("Own", (np.ndarray,), {})),
        INTEGERS.astype(np.float32),
        INTEGERS.astype(np.float64),
        INTEGERS.astype(np.int8),
    ],
)
def test_arrays_of_every_kind_are_multiplied(a):
    b = np.random.default_rng(1).integers(-2, 3, (a.shape[-1], 8)).astype(a.dtype)
    found = weft.matmul(a, b)
    want = np.asarray(a, np.float64) @ b.astype(np.float64)
    assert found.shape == want.shape and re.match("float|int32", found.dtype.name) and (found == want).all()
