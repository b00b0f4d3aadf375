"""The math dialect's functions in plain kernels, against float64."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.errors import WeftError

erf, erfc = np.vectorize(math.erf), np.vectorize(math.erfc)

# A function, its reference, the arguments' range, and the limit of errors in units of the last place.
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[float, float], float]] = {
    "exp": (np.exp, (-104, 89), 2),
    "exp2": (np.exp2, (-150, 128), 2),
    "expm1": (np.expm1, (-20, 89), 3),
    "log": (np.log, (0, 1e4), 2),
    "log2": (np.log2, (0, 1e4), 2),
    "log10": (np.log10, (0, 1e4), 2),
    "log1p": (np.log1p, (-1, 100), 3),
    "sqrt": (np.sqrt, (0, 1e4), 1),
    "rsqrt": (lambda x: 1 / np.sqrt(x), (0, 1e4), 2),
    "tanh": (np.tanh, (-12, 12), 4),
    "sinh": (np.sinh, (-89, 89), 4),
    "cosh": (np.cosh, (-89, 89), 4),
    "erf": (erf, (-5, 5), 3),
    "erfc": (erfc, (-4, 9), 8),
    "sin": (np.sin, (-1e5, 1e5), 1),
    "cos": (np.cos, (-1e5, 1e5), 1),
    "tan": (np.tan, (-10, 10), 3),
    "absf": (np.abs, (-5, 5), 0),
    "floor": (np.floor, (-5, 5), 0),
    "ceil": (np.ceil, (-5, 5), 0),
    "trunc": (np.trunc, (-5, 5), 0),
    "roundeven": (np.round, (-5, 5), 0),
}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 1e-40, -1e-40, 1e-6, -1e-6, 0.5, 2.0, np.inf, -np.inf, np.nan]

KERNEL = """
func.func @f(%x: memref<?xf32>, %d: memref<?xf32>) attributes {{weft.plain}} {{
  %0 = arith.constant 0 : index
  %m = memref.dim %x, %0 : memref<?xf32>
  %t = bufferization.to_tensor %x restrict : memref<?xf32> to tensor<?xf32>
  %e = tensor.empty(%m) : tensor<?xf32>
  %r = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]}} ins(%t : tensor<?xf32>) outs(%e : tensor<?xf32>) {{
  ^bb0(%a: f32, %old: f32):
    {}
    linalg.yield %b : f32
  }} -> tensor<?xf32>
  bufferization.materialize_in_destination %r in restrict writable %d : (tensor<?xf32>, memref<?xf32>) -> ()
  return
}}"""


def _applied(body: str, x: Any) -> Any:
    kernel = weft.compile(KERNEL.format(body), "sm_80")
    d = np.full_like(x, 7)
    assert not kernel.emulate(x, d).findings
    return d


def _errors(found: Any, exact: Any) -> Any:
    """Errors in units of the last place of f32; of what isn't finite, 0 where it is the same."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        unit = np.spacing(np.maximum(np.abs(rounded), np.float32(2**-126))).astype(np.float64)
        errors = np.abs(found.astype(np.float64) - exact) / unit
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    return np.where(same, 0, errors)


@pytest.mark.each_value(3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_within_their_errors_of_float64(name: str) -> None:
    exact, (first, last), limit = FUNCTIONS[name]
    random = np.random.default_rng(0)
    x = np.concatenate([random.uniform(first, last, 900), random.standard_normal(100) / 50, SPECIAL])
    x = x.astype(np.float32)
    with np.errstate(all="ignore"):
        expected = exact(x.astype(np.float64))
    errors = _errors(_applied(f"%b = math.{name} %a : f32", x), expected)
    assert not errors.max() > limit, (x[errors.argmax()], errors.max())
    assert not np.isnan(errors).any(), x[np.isnan(errors)]


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_functions_of_large_numbers_are_within_their_errors_of_float64(name: str) -> None:
    random = np.random.default_rng(0)
    x = np.ldexp(random.uniform(-2, 2, 400), random.integers(30, 127, 400)).astype(np.float32)
    exact, _, limit = FUNCTIONS[name]
    assert _errors(_applied(f"%b = math.{name} %a : f32", x), exact(x.astype(np.float64))).max() <= limit


POWERS = {"2.0": 1, "3.0": 2, "-1.0": 1, "0.5": 1, "-1.5": 1, "0.0": 0, "7.25": 1}


@pytest.mark.each_value(3)
@pytest.mark.parametrize("exponent", POWERS)
def test_powers_are_within_their_errors_of_float64(exponent: str) -> None:
    x = np.concatenate([np.random.default_rng(0).uniform(-20, 20, 500), SPECIAL]).astype(np.float32)
    if exponent == "0.5":
        x = x[x != -np.inf]  # MLIR takes the square root, which is NaN there
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.float64), float(exponent))
    body = f"%p = arith.constant {exponent} : f32\n %b = math.powf %a, %p : f32"
    errors = _errors(_applied(body, x), expected)
    assert not errors.max() > POWERS[exponent], (x[errors.argmax()], errors.max())
    assert not np.isnan(errors).any(), x[np.isnan(errors)]


def test_functions_without_an_expansion_are_named() -> None:
    with pytest.raises(WeftError, match=r"'math\.atan' op isn't lowered by any pass of Weft") as caught:
        weft.compile(KERNEL.format("%b = math.atan %a : f32"), "sm_80")
    assert caught.value.diagnostics[0].location is not None
