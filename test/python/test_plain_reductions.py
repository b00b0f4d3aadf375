"""Reductions in plain kernels: by the lanes of a warp where they run along rows, otherwise by one thread."""

from typing import Any

import numpy as np
import pytest

import weft

CHIP = "sm_80"
pytestmark = pytest.mark.filterwarnings("error")

TEXT = """
func.func @f(%x: tensor<?x?x{kind}>, %first: {kind}) -> tensor<?x{kind}> {{
  %0 = arith.constant {axis} : index
  %m = tensor.dim %x, %0 : tensor<?x?x{kind}>
  %e = tensor.empty(%m) : tensor<?x{kind}>
  %f = linalg.fill ins(%first : {kind}) outs(%e : tensor<?x{kind}>) -> tensor<?x{kind}>
  %r = linalg.reduce {{ {op} }} ins(%x : tensor<?x?x{kind}>) outs(%f : tensor<?x{kind}>) dimensions = [{over}]
  return %r : tensor<?x{kind}>
}}"""
_FLOATS = {"addf": np.sum, "mulf": np.prod, "maximumf": np.max, "minimumf": np.min}
_INTEGERS = {"addi": np.sum, "muli": np.prod, "maxsi": np.max, "minsi": np.min}
_BITS = {"ori": np.bitwise_or.reduce, "andi": np.bitwise_and.reduce}
CASES = [(op, kind) for op in _FLOATS for kind in ("f32", "f64")]
CASES += [(op, kind) for op in (*_INTEGERS, *_BITS) for kind in ("i32", "i64")]
FUNCTIONS: dict[str, Any] = {**_FLOATS, **_INTEGERS, **_BITS}
TYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}


def _program(op: str, kind: str, over: int) -> Any:
    return weft.from_linalg(TEXT.format(op=f"arith.{op}", kind=kind, axis=1 - over, over=over), CHIP)


def _numbers(kind: str, shape: tuple[int, ...]) -> Any:
    random = np.random.default_rng(0)
    if kind[0] == "f":
        return (1 + random.standard_normal(shape) / 9).astype(TYPES[kind])
    return random.integers(-(2**30), 2**30, shape, dtype=TYPES[kind])


@pytest.mark.each_value(1)
@pytest.mark.parametrize(("op", "kind"), CASES)
def test_lanes_reduce_rows_of_any_length(op: str, kind: str) -> None:
    program = _program(op, kind, 1)
    assert "shfl.sync.bfly" in program.steps[0].kernel.ptx
    for rows, columns in ((3, 1), (1, 31), (9, 77)):
        x = _numbers(kind, (rows, columns))
        first = x[0, 0].item()
        joined = np.concatenate([np.full((rows, 1), first, x.dtype), x], 1)
        with np.errstate(over="ignore"):
            expected = FUNCTIONS[op](joined, axis=1).astype(x.dtype)
        result = program(x, first, on="emulator")
        assert np.allclose(result, expected, rtol=1e-5) if kind[0] == "f" else (result == expected).all()


def test_columns_are_reduced_by_one_thread_each() -> None:
    program = _program("addf", "f32", 0)
    assert "shfl" not in program.steps[0].kernel.ptx
    x = _numbers("f32", (40, 50))
    assert np.allclose(program(x, 1.0, on="emulator"), x.sum(0) + 1, rtol=1e-5)


def test_nan_and_infinities_reach_the_result_of_lanes() -> None:
    program = _program("maximumf", "f32", 1)
    x = np.zeros((4, 64), np.float32)
    x[0], x[1, 40], x[2, 50] = -np.inf, np.inf, np.nan
    result = program(x, float("-inf"), on="emulator")
    assert result[0] == -np.inf
    assert result[1] == np.inf
    assert np.isnan(result[2])
    assert result[3] == 0


GENERIC = """
func.func @f(%x: tensor<5x3x40xf32>) -> ({types}) {{
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0 : i64
  %e = tensor.empty() : tensor<5xf32>
  %f = linalg.fill ins(%low : f32) outs(%e : tensor<5xf32>) -> tensor<5xf32>
  %i = tensor.empty() : tensor<5xi64>
  %g = linalg.fill ins(%zero : i64) outs(%i : tensor<5xi64>) -> tensor<5xi64>
  %r:2 = linalg.generic {{indexing_maps = [affine_map<(m, k, l) -> (m, k, l)>, affine_map<(m, k, l) -> (m)>,
      affine_map<(m, k, l) -> (m)>], iterator_types = ["parallel", "reduction", "reduction"]}}
      ins(%x : tensor<5x3x40xf32>) outs(%f, %g : tensor<5xf32>, tensor<5xi64>) {{
  ^bb0(%v: f32, %best: f32, %at: i64):
    %k = linalg.index 1 : index
    %l = linalg.index 2 : index
    %row = arith.constant 40 : index
    %start = arith.muli %k, %row : index
    %number = arith.addi %start, %l : index
    %n = arith.index_cast %number : index to i64
    %more = arith.cmpf ogt, %v, %best : f32
    %where = arith.select %more, %n, %at : i64
    %max = arith.maximumf %v, %best : f32
    linalg.yield %max, %where : f32, i64
  }} -> (tensor<5xf32>, tensor<5xi64>)
  return {values} : {types}
}}"""


def test_a_maximum_alone_needs_no_index_and_several_loops_share_lanes() -> None:
    x = _numbers("f32", (5, 3, 40))
    alone = weft.from_linalg(GENERIC.format(types="tensor<5xf32>", values="%r#0"), CHIP)
    assert "shfl" in alone.steps[0].kernel.ptx
    assert (alone(x, on="emulator") == x.max((1, 2))).all()
    both = weft.from_linalg(GENERIC.format(types="tensor<5xf32>, tensor<5xi64>", values="%r#0, %r#1"), CHIP)
    most, where = both(x, on="emulator")
    assert "shfl" not in both.steps[1].kernel.ptx  # the first of equal numbers counts
    assert (most == x.max((1, 2))).all()
    assert (where == x.reshape(5, -1).argmax(1)).all()
