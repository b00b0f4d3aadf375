"""Upstream's elementwise operations on whole tiles compute what NumPy does, on each chip."""

import math

import numpy as np
import pytest

import weft

CHIPS = ("sm_70", "sm_80", "sm_90a", "sm_100a", "sm_103a", "sm_120a")
FLOATS = {
    # The operation on tiles of f32, NumPy's of float64, and the largest relative error.
    **{
        f"math.{name}": (f"math.{name} %x", function, 2e-6)
        for name, function in {
            "absf": np.abs,
            "ceil": np.ceil,
            "cos": np.cos,
            "cosh": np.cosh,
            "erf": np.vectorize(math.erf),
            "exp": np.exp,
            "exp2": np.exp2,
            "expm1": np.expm1,
            "floor": np.floor,
            "log": np.log,
            "log1p": np.log1p,
            "log10": np.log10,
            "log2": np.log2,
            "roundeven": np.rint,
            "rsqrt": lambda x: x**-0.5,
            "sin": np.sin,
            "sinh": np.sinh,
            "sqrt": np.sqrt,
            "tan": np.tan,
            "tanh": np.tanh,
            "trunc": np.trunc,
        }.items()
    },
    **{
        f"arith.{name}": (f"arith.{name} %x, %y", function, 1e-7)
        for name, function in {
            "addf": np.add,
            "divf": np.divide,
            "maximumf": np.maximum,
            "maxnumf": np.fmax,
            "minimumf": np.minimum,
            "minnumf": np.fmin,
            "mulf": np.multiply,
            "subf": np.subtract,
        }.items()
    },
    "arith.negf": ("arith.negf %x", np.negative, 0),
    "math.copysign": ("math.copysign %x, %y", np.copysign, 0),
    "math.fma": ("math.fma %x, %y, %x", lambda x, y: x * y + x, 1e-6),
    "math.powf": ("math.powf %x, %y", np.power, 4e-6),
}
INTEGERS = {
    **{
        f"arith.{name}": (f"arith.{name} %x, %y", function)
        for name, function in {
            "addi": np.add,
            "andi": np.bitwise_and,
            "maxsi": np.maximum,
            "minsi": np.minimum,
            "muli": np.multiply,
            "ori": np.bitwise_or,
            "subi": np.subtract,
            "xori": np.bitwise_xor,
            "floordivsi": np.floor_divide,
            "divsi": lambda x, y: np.trunc(x / y),
            "remsi": np.fmod,
        }.items()
    },
    "math.absi": ("math.absi %x", lambda x, y: np.abs(x)),
}


def kernel(operations, element, chip):
    """Stores the tile of each operation below the one before."""
    tile, lines = f"tensor<8x64x{element}>", []
    for number, text in enumerate(operations):
        lines += [
            f"%r{number} = {text} : {tile}",
            f"%at{number} = arith.constant {8 * number} : i32",
            f'"tile.store"(%r{number}, %d, %at{number}, %zero) {{vector_bytes = 16}}'
            f" : ({tile}, memref<?x?x{element}>, i32, i32) -> ()",
        ]
    kind = f"(memref<?x?x{element}>, i32, i32) -> {tile}"
    load = f'"tile.load"({{}}, %zero, %zero) {{{{vector_bytes = 16}}}} : {kind}'
    body = "\n".join(lines)
    arrays = ", ".join(f"%{name}: memref<?x?x{element}>" for name in "abd")
    text = f"""
gpu.module @m {{
  gpu.func @kernel({arrays}) kernel attributes {{known_block_size = array<i32: 128, 1, 1>}} {{
    %zero = arith.constant 0 : i32
    %x = {load.format("%a")}
    %y = {load.format("%b")}
    {body}
    gpu.return
  }}
}}"""
    return weft.compile(text, arch=chip)


@pytest.mark.parametrize("chip", CHIPS)
def test_operations_on_floats(chip):
    rng = np.random.default_rng(0)
    x, y = rng.uniform(0.1, 5, (2, 8, 64)).astype(np.float32)
    x[0] *= 1e-3
    d = np.zeros((8 * len(FLOATS), 64), np.float32)
    compiled = kernel([text for text, *_ in FLOATS.values()], "f32", chip)
    assert not compiled.emulate(x, y, d, grid=(1, 1, 1)).findings
    wide = x.astype(np.float64), y.astype(np.float64)
    for number, (name, (text, function, most)) in enumerate(FLOATS.items()):
        wanted = function(*wide[: 1 + ("%y" in text)])
        error = np.abs(d[8 * number : 8 * number + 8] - wanted) / np.maximum(np.abs(wanted), 1e-30)
        assert error.max() <= most, (name, error.max())


@pytest.mark.parametrize("chip", CHIPS)
def test_operations_on_integers(chip):
    rng = np.random.default_rng(0)
    x, y = rng.integers(-99, 99, (2, 8, 64)).astype(np.int32)
    y[y == 0] = 7
    d = np.zeros((8 * len(INTEGERS), 64), np.int32)
    compiled = kernel([text for text, _ in INTEGERS.values()], "i32", chip)
    assert not compiled.emulate(x, y, d, grid=(1, 1, 1)).findings
    for number, (name, (_, function)) in enumerate(INTEGERS.items()):
        assert np.array_equal(d[8 * number : 8 * number + 8], function(x, y)), name
