"""Functions of a product in linalg: which are activations of its kernel, and what the others compute."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft import mlir
from weft.dialects import context
from weft.errors import WeftError
from weft.passes import raise_linalg
from weft.passes.raising.formulas import FORMATS
from weft.reference.expected import ACTIVATIONS

CHIP = "sm_80"

MODULE = """
func.func @f(%a: tensor<16x16x{inputs}>, %b: tensor<16x16x{inputs}>) -> tensor<16x16x{kind}> {{
  %0 = arith.constant {zero} : {sums}
  %empty = tensor.empty() : tensor<16x16x{sums}>
  %filled = linalg.fill ins(%0 : {sums}) outs(%empty : tensor<16x16x{sums}>) -> tensor<16x16x{sums}>
  %product = linalg.matmul ins(%a, %b : tensor<16x16x{inputs}>, tensor<16x16x{inputs}>)
    outs(%filled : tensor<16x16x{sums}>) -> tensor<16x16x{sums}>
  %target = tensor.empty() : tensor<16x16x{kind}>
  %r = linalg.generic {{indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]}}
      ins(%product : tensor<16x16x{sums}>) outs(%target : tensor<16x16x{kind}>) {{
  ^bb0(%sum: {sums}, %old: {kind}):
    {body}
    linalg.yield %r : {kind}
  }} -> tensor<16x16x{kind}>
  return %r : tensor<16x16x{kind}>
}}"""


def _module(body: str, kind: str = "f32") -> str:
    """A function of %x, the sum in the type `kind`, which `T` stands for. `#1.5` is a constant."""
    integers = kind == "i32"
    sums, inputs = ("i32", "i8") if integers else ("f32", "f16" if kind == "f32" else kind)
    lines, names = [], dict.fromkeys(part for part in body.split() if part.startswith("#"))
    if kind in ("f32", "i32"):
        body = body.replace("%x", "%sum")
    else:
        lines.append(f"%x = arith.truncf %sum : f32 to {kind}")
    for i, name in enumerate(names):
        lines.append(f"%c{i} = arith.constant {name[1:].rstrip(',')} : {kind}")
        body = body.replace(name, f"%c{i}" + "," * name.endswith(","))
    body = "\n    ".join([*lines, *(f"{line.strip()}" for line in body.split(";"))]).replace("T", kind)
    return MODULE.format(inputs=inputs, sums=sums, kind=kind, zero="0" if integers else "0.0", body=body)


def raised(body: str, kind: str = "f32") -> Any:
    """The product that the pass finds; None without."""
    parsed = mlir.parse(_module(body, kind), _CONTEXT)
    with mlir.ir.Location.unknown(parsed.context):
        found, _ = raise_linalg.programs(parsed, plain=False)
    return found["f"].steps[0].kernel if found else None


_CONTEXT = context()


def _activation(body: str, kind: str = "f32") -> str | None:
    """The activation that the pass finds; None without."""
    kernel = raised(body, kind)
    return None if kernel is None else kernel.attributes["activation"]


ERF = "%v = math.erf %u : T; %w = arith.addf %v, #1.0 : T;"
CUBE = "%u = arith.mulf %x, %x : T; %v = arith.mulf %u, %x : T;"
INSIDE = CUBE + "%w = arith.mulf %v, #0.044715 : T; %i = arith.addf %x, %w : T;"
TANH = INSIDE + "%j = arith.mulf %i, #0.7978845608 : T; %k = math.tanh %j : T; %l = arith.addf %k, #1.0 : T;"
EXP = "%n = arith.negf %x : T; %e = math.exp %n : T; %d = arith.addf %e, #1.0 : T;"

RECOGNIZED = {
    "relu": ("relu", "%r = arith.maximumf %x, #0.0 : T"),
    "relu of 0 first": ("relu", "%r = arith.maximumf #0.0, %x : T"),
    "relu by ugt": ("relu", "%c = arith.cmpf ugt, %x, #0.0 : T; %r = arith.select %c, %x, #0.0 : T"),
    "relu by ult": ("relu", "%c = arith.cmpf ult, #0.0, %x : T; %r = arith.select %c, %x, #0.0 : T"),
    "relu by ole": ("relu", "%c = arith.cmpf ole, %x, #0.0 : T; %r = arith.select %c, #0.0, %x : T"),
    "relu by oge": ("relu", "%c = arith.cmpf oge, #0.0, %x : T; %r = arith.select %c, #0.0, %x : T"),
    "gelu, divided": (
        "gelu",
        "%s = math.sqrt #2.0 : T; %u = arith.divf %x, %s : T;" + ERF + "%h = arith.mulf %w, #0.5 : T;"
        "%r = arith.mulf %x, %h : T",
    ),
    "gelu, multiplied": (
        "gelu",
        "%u = arith.mulf %x, #0.70710678 : T;" + ERF + "%h = arith.mulf %x, %w : T;"
        "%r = arith.divf %h, #2.0 : T",
    ),
    "gelu, distributed": (
        "gelu",
        "%u = arith.mulf %x, #0.70710678 : T; %v = math.erf %u : T; %h = arith.mulf %x, #0.5 : T;"
        "%w = arith.mulf %h, %v : T; %r = arith.addf %h, %w : T",
    ),
    "gelu by erfc": (
        "gelu",
        "%n = arith.negf %x : T; %u = arith.mulf %n, #0.70710678 : T; %v = math.erfc %u : T;"
        "%h = arith.mulf #0.5, %x : T; %r = arith.mulf %h, %v : T",
    ),
    "gelu_tanh": ("gelu_tanh", TANH + "%h = arith.mulf %l, #0.5 : T; %r = arith.mulf %x, %h : T"),
    "gelu_tanh by powers": (
        "gelu_tanh",
        "%p = math.powf %x, #3.0 : T; %w = arith.mulf #0.044715, %p : T; %i = arith.addf %w, %x : T;"
        "%j = arith.mulf #0.7978845608, %i : T; %k = math.tanh %j : T; %l = arith.addf #1.0, %k : T;"
        "%h = arith.mulf %x, #0.5 : T; %r = arith.mulf %l, %h : T",
    ),
    "gelu_tanh of Horner": (
        "gelu_tanh",
        "%u = arith.mulf %x, %x : T; %v = arith.mulf %u, #0.044715 : T; %w = arith.addf %v, #1.0 : T;"
        "%i = arith.mulf %x, #0.7978845608 : T; %j = arith.mulf %i, %w : T; %k = math.tanh %j : T;"
        "%l = arith.addf %k, #1.0 : T; %h = arith.mulf %x, #0.5 : T; %r = arith.mulf %h, %l : T",
    ),
    "gelu_tanh by a sigmoid": (
        "gelu_tanh",
        INSIDE + "%j = arith.mulf %i, #-1.5957691216 : T; %e = math.exp %j : T;"
        "%d = arith.addf %e, #1.0 : T; %r = arith.divf %x, %d : T",
    ),
    "silu": ("silu", EXP + "%r = arith.divf %x, %d : T"),
    "silu, multiplied": ("silu", EXP + "%s = arith.divf #1.0, %d : T; %r = arith.mulf %s, %x : T"),
    "silu by exp2": (
        "silu",
        "%n = arith.mulf %x, #-1.4426950409 : T; %e = math.exp2 %n : T; %d = arith.addf %e, #1.0 : T;"
        "%r = arith.divf %x, %d : T",
    ),
    "silu by tanh": (
        "silu",
        "%h = arith.mulf %x, #0.5 : T; %k = math.tanh %h : T; %l = arith.addf %k, #1.0 : T;"
        "%r = arith.mulf %h, %l : T",
    ),
}


@pytest.mark.parametrize("name", RECOGNIZED)
def test_activations_are_recognized_by_their_structure(name: str) -> None:
    activation, body = RECOGNIZED[name]
    for kind in ("f32", "bf16", "f16"):
        assert _activation(body, kind) == activation


@pytest.mark.each_value(1)
@pytest.mark.parametrize("name", ["relu", "gelu, divided", "gelu_tanh", "silu"])
def test_recognized_activations_compute_what_they_say(name: str) -> None:
    activation, body = RECOGNIZED[name]
    a, b = np.random.default_rng(0).standard_normal((2, 16, 16)).astype(np.float16)
    (d,) = [weft.from_linalg(_module(body), CHIP)(a, b, on="emulator")]
    expected = ACTIVATIONS[activation].function(a.astype(np.float64) @ b.astype(np.float64))
    assert np.allclose(d, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("constant", "kind"),
    [
        ("0.7070", "f32"),
        ("0.70703125", "f32"),
        ("0.70654296875", "f16"),
        ("0.7109375", "bf16"),
        ("0.703125", "bf16"),
    ],
)
def test_constants_are_those_of_the_activation_rounded_to_their_type(constant: str, kind: str) -> None:
    assert _activation(RECOGNIZED["gelu, multiplied"][1].replace("0.70710678", constant), kind) is None


def _select(comparison: str, x: str, y: str) -> str:
    return f"%c = arith.cmpf {comparison} : T; %r = arith.select %c, {x}, {y} : T"


Case = tuple[str, Callable[[Any], Any]]
_F = np.float32
OTHERS: dict[str, Case] = {
    "a larger bound": ("%r = arith.maximumf %x, #0.001 : T", lambda x: np.maximum(x, _F(0.001))),
    "relu and a number": (
        "%q = arith.maximumf %x, #0.0 : T; %r = arith.addf %q, #1.0e-6 : T",
        lambda x: np.maximum(x, _F(0)) + _F(1e-6),
    ),
    "a threshold": (_select("ogt, %x, #0.1", "%x", "#0.0"), lambda x: np.where(x > _F(0.1), x, _F(0))),
    "relu up to a number": (
        "%q = arith.maximumf %x, #0.0 : T; %r = arith.minimumf %q, #20000.0 : T",
        lambda x: np.clip(x, _F(0), _F(20000)),
    ),
    "leaky relu": (
        "%t = arith.mulf %x, #1.0e-7 : T; %r = arith.maximumf %x, %t : T",
        lambda x: np.maximum(x, x * _F(1e-7)),
    ),
    "relu without NaN": ("%r = arith.maxnumf %x, #0.0 : T", lambda x: np.fmax(x, _F(0))),
    "relu by ogt": (_select("ogt, %x, #0.0", "%x", "#0.0"), lambda x: np.where(x > 0, x, _F(0))),
    "relu by oge": (_select("oge, %x, #0.0", "%x", "#0.0"), lambda x: np.where(x >= 0, x, _F(0))),
    "relu by ule": (_select("ule, %x, #0.0", "#0.0", "%x"), lambda x: np.where(~(x > 0), _F(0), x)),
    "-0 stays": (_select("olt, %x, #0.0", "#0.0", "%x"), lambda x: np.where(x < 0, _F(0), x)),
    "0 becomes -0": (_select("ugt, %x, #0.0", "%x", "#-0.0"), lambda x: np.where(~(x <= 0), x, _F(-0.0))),
    "negative relu": (_select("ugt, %x, #0.0", "#0.0", "%x"), lambda x: np.where(~(x <= 0), _F(0), x)),
    "a step": (_select("ugt, %x, #0.0", "#1.0", "#0.0"), lambda x: np.where(~(x <= 0), _F(1), _F(0))),
    "twice relu": (
        "%q = arith.maximumf %x, #0.0 : T; %r = arith.addf %q, %q : T",
        lambda x: np.maximum(x, _F(0)) * 2,
    ),
    "one value": (_select("oeq, %x, #0.3125", "#-1.0", "%x"), lambda x: np.where(x == _F(0.3125), _F(-1), x)),
    "x + x - x": (
        "%q = arith.addf %x, %x : T; %r = arith.subf %q, %x : T",
        lambda x: (x + x) - x,
    ),
    "0 times x": ("%r = arith.mulf %x, #0.0 : T", lambda x: x * _F(0)),
    "1 and x and -1": (
        "%q = arith.addf %x, #1.0 : T; %r = arith.subf %q, #1.0 : T",
        lambda x: (x + _F(1)) - _F(1),
    ),
    "a small factor twice": (
        "%q = arith.mulf %x, #1.0e-30 : T; %r = arith.mulf %q, #1.0e-10 : T",
        lambda x: (x * _F(1e-30)) * _F(1e-10),
    ),
    "square": ("%r = arith.mulf %x, %x : T", lambda x: x * x),
    "quick gelu": (
        "%n = arith.mulf %x, #-1.702 : T; %e = math.exp %n : T; %d = arith.addf %e, #1.0 : T;"
        "%r = arith.divf %x, %d : T",
        lambda x: (x / (1 + np.exp(-1.702 * x.astype(np.float64)))).astype(np.float32),
    ),
}
INTEGERS: dict[str, Case] = {
    "relu up to a number": (
        "%q = arith.maxsi %x, #0 : T; %r = arith.minsi %q, #20000 : T",
        lambda x: np.clip(x, 0, 20000),
    ),
    "relu of bits": ("%r = arith.maxui %x, #0 : T", lambda x: x),
    "relu by ugt": ("%c = arith.cmpi ugt, %x, #0 : T; %r = arith.select %c, %x, #0 : T", lambda x: x),
    "a threshold": (
        "%c = arith.cmpi sgt, %x, #5 : T; %r = arith.select %c, %x, #0 : T",
        lambda x: np.where(x > 5, x, 0),
    ),
    "times 3": ("%r = arith.muli %x, #3 : T", lambda x: x * 3),
}


def _special() -> tuple[Any, Any, Any]:
    """A, B and their product, which has NaN, infinities, zeros and numbers of all sizes."""
    a, b = np.eye(16, dtype=np.float16), np.zeros((16, 16), np.float16)
    b[:, 0] = [0, 0.3125, 0.05, -0.05, 3, -3, 30000, -30000, 65504, -65504, 1e-4, -1e-4, 6e-8, -6e-8, 0.1, 7]
    return a, b, a.astype(np.float32) @ b.astype(np.float32)


def test_other_functions_arent_raised() -> None:
    assert [name for name, (body, _) in OTHERS.items() if _activation(body) is not None] == []
    assert [name for name, (body, _) in INTEGERS.items() if _activation(body, "i32") is not None] == []
    for body in (
        "%r = arith.maxsi %x, #0 : T",
        "%c = arith.cmpi slt, %x, #0 : T; %r = arith.select %c, #0, %x : T",
    ):
        assert _activation(body, "i32") == "relu"


@pytest.mark.each_value(2)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
@pytest.mark.parametrize("name", OTHERS)
def test_other_functions_compute_what_is_written(name: str) -> None:
    body, function = OTHERS[name]
    a, b, sums = _special()
    program = weft.from_linalg(_module(body), CHIP)
    for special in (None, np.nan, np.inf, -np.inf):
        if special is not None:
            a, b = np.full((16, 16), special, np.float16), np.ones((16, 16), np.float16)
            sums = np.full((16, 16), special, np.float32)
        np.testing.assert_allclose(program(a, b, on="emulator"), function(sums), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", INTEGERS)
def test_other_functions_of_integers_compute_what_is_written(name: str) -> None:
    body, function = INTEGERS[name]
    a, b = np.random.default_rng(0).integers(-128, 128, (2, 16, 16)).astype(np.int8)
    result = weft.from_linalg(_module(body, "i32"), CHIP)(a, b, on="emulator")
    assert (result == function(a.astype(np.int32) @ b.astype(np.int32))).all()


@pytest.mark.parametrize("name", ["a threshold", "square", "a small factor twice"])
def test_other_functions_are_refused_with_locations(name: str) -> None:
    with pytest.raises(WeftError, match=r"isn't raised to tile\.matmul: it ") as caught:
        weft.compile(_module(OTHERS[name][0]), CHIP)
    (refused,) = caught.value.diagnostics
    assert refused.location is not None
    assert ["weft.from_linalg" in note.message for note in refused.notes] == [True]


WRAPPING = """
func.func @f(%a: tensor<16x16xi8>, %b: tensor<16x16xi8>, %c: tensor<16x16xi32>) -> tensor<16x16xi32> {
  %p = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
      affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<16x16xi8>, tensor<16x16xi8>) outs(%c : tensor<16x16xi32>) {
  ^bb0(%x: i8, %y: i8, %s: i32):
    %0 = arith.muli %x, %y : i8
    %1 = arith.extsi %0 : i8 to i32
    %2 = arith.addi %s, %1 : i32
    linalg.yield %2 : i32
  } -> tensor<16x16xi32>
  return %p : tensor<16x16xi32>
}"""


def test_products_of_short_integers_wrap_before_they_are_extended() -> None:
    a, b = np.random.default_rng(0).integers(-128, 128, (2, 16, 16)).astype(np.int8)
    result = weft.from_linalg(WRAPPING, CHIP)(a, b, np.zeros((16, 16), np.int32), on="emulator")
    with np.errstate(over="ignore"):
        products = a[:, :, None] * b[None, :, :]
    assert (result == products.astype(np.int32).sum(1)).all()


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=200, deadline=None, derandomize=True, database=None)
def test_numbers_are_rounded_to_types_as_numpy_does(value: float) -> None:
    for name, dtype in (("f32", np.float32), ("f16", np.float16)):
        with np.errstate(over="ignore"):
            expected = float(dtype(value))
        assert FORMATS[name].rounded(value) == (expected if math.isfinite(expected) else None)
