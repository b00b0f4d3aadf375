"""Functions of linalg with what no product takes: plain kernels between products."""

from pathlib import Path
from typing import Any

import linalg_graphs
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.errors import WeftError

EXPORTED = Path(__file__).parents[1] / "passes" / "Inputs" / "torch"
CHIP = "sm_80"

pytestmark = pytest.mark.filterwarnings("error")  # what the emulator's sanitizer finds is a warning


def _random(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _wide(array: Any) -> Any:
    return np.asarray(array).astype(np.float64)


def _softmax(z: Any) -> Any:
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.slow
def test_a_softmax_after_a_product_becomes_plain_kernels() -> None:
    program = weft.from_linalg(EXPORTED / "softmax.mlir", CHIP)
    a, b = _random(48, 32, dtype=ml_dtypes.bfloat16), _random(32, 40, dtype=ml_dtypes.bfloat16)
    result = program(a, b, on="emulator")
    assert [step.kernel.name for step in program.steps] == [f"softmax_{i}" for i in range(5)]
    assert result.dtype == ml_dtypes.bfloat16
    assert np.allclose(_wide(result), _softmax(_wide(a) @ _wide(b)), atol=4e-3)
    assert [each.severity for each in program.remarks] == ["remark"] * 4
    assert all(each.location is not None for each in program.remarks)
    assert "becomes the plain kernel softmax_1: it is a reduction" in program.remarks[0].message


@given(
    st.lists(st.sampled_from(linalg_graphs.STEPS), min_size=2, max_size=4),
    st.sampled_from([1, 5, 17]),
    st.randoms(use_true_random=False),
)
@settings(max_examples=1, deadline=None, derandomize=True, database=None)
def test_random_functions_compute_what_numpy_does(steps: list[str], rows: int, random: Any) -> None:
    _check_graph(steps, rows, random.randrange)


@pytest.mark.slow
@given(
    st.lists(st.sampled_from(linalg_graphs.STEPS), min_size=2, max_size=8),
    st.sampled_from([1, 5, 17, 64]),
    st.randoms(use_true_random=False),
)
@settings(max_examples=60, deadline=None, database=None)
def test_longer_random_functions_compute_what_numpy_does(steps: list[str], rows: int, random: Any) -> None:
    _check_graph(steps, rows, random.randrange)


def _check_graph(steps: list[str], rows: int, choose: Any) -> None:
    graph = linalg_graphs.graph(choose, [*steps, "unary"], rows)  # an operation of linalg in any case
    results = weft.from_linalg(graph.text(), CHIP)(*graph.given, on="emulator")
    for result, value in zip(results, graph.values[-1:-3:-1], strict=True):
        assert np.abs(_wide(result) - value.array).max() <= 4e-3 * (1 + np.abs(value.array).max())


def test_random_functions_contain_mistakes_that_the_check_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = np.roll
    monkeypatch.setattr(np, "roll", lambda array, by, axis: exact(array, by + 1, axis))
    with pytest.raises(AssertionError):
        _check_graph(["rotate", "unary"], 5, lambda _: 0)


OPERATIONS = """
func.func @f(%x: tensor<?x6xf32>, %mask: tensor<?x6xi1>, %n: tensor<?x6xi32>, %half: f32)
    -> (tensor<?x6xf32>, tensor<?x6xi1>, tensor<?x6xi32>) {
  %0 = arith.constant 0 : index
  %m = tensor.dim %x, %0 : tensor<?x6xf32>
  %e = tensor.empty(%m) : tensor<?x6xf32>
  %f = linalg.fill ins(%half : f32) outs(%e : tensor<?x6xf32>) -> tensor<?x6xf32>
  %a = linalg.select ins(%mask, %x, %f : tensor<?x6xi1>, tensor<?x6xf32>, tensor<?x6xf32>)
    outs(%e : tensor<?x6xf32>) -> tensor<?x6xf32>
  %em = tensor.empty(%m) : tensor<?x6xi1>
  %b = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x6xf32>) outs(%em : tensor<?x6xi1>) {
  ^bb0(%v: f32, %old: i1):
    %c = arith.cmpf ogt, %v, %half : f32
    linalg.yield %c : i1
  } -> tensor<?x6xi1>
  %en = tensor.empty(%m) : tensor<?x6xi32>
  %c = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]} ins(%n : tensor<?x6xi32>) outs(%en : tensor<?x6xi32>) {
  ^bb0(%v: i32, %old: i32):
    %i = linalg.index 1 : index
    %j = arith.index_cast %i : index to i32
    %r = arith.addi %v, %j : i32
    linalg.yield %r : i32
  } -> tensor<?x6xi32>
  return %a, %b, %c : tensor<?x6xf32>, tensor<?x6xi1>, tensor<?x6xi32>
}"""


def test_masks_integers_and_numbers_are_arguments_and_results() -> None:
    program = weft.from_linalg(OPERATIONS, CHIP)
    x, n = _random(7, 6), np.arange(42, dtype=np.int32).reshape(7, 6)
    mask = x < 0
    chosen, above, moved = program(x, mask, n, 0.5, on="emulator")
    assert (chosen == np.where(mask, x, np.float32(0.5))).all()
    assert above.dtype == np.bool_
    assert (above == (x > 0.5)).all()
    assert (moved == n + np.arange(6)).all()


_CONVERSION = """func.func @f(%x: tensor<?x{0}>) -> tensor<?xbf16> {{
  %c = arith.constant 0 : index
  %n = tensor.dim %x, %c : tensor<?x{0}>
  %e = tensor.empty(%n) : tensor<?xbf16>
  %r = linalg.generic {{
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]
    }} ins(%x : tensor<?x{0}>) outs(%e : tensor<?xbf16>) {{
  ^bb0(%a : {0}, %b : bf16):
    %y = arith.{1} %a : {0} to bf16
    linalg.yield %y : bf16
  }} -> tensor<?xbf16>
  return %r : tensor<?xbf16>
}}"""


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
def test_conversions_to_bf16_round_once(chip: str) -> None:
    cases = (
        ("f64", "truncf", np.array([1 + 2**-8 + 2**-40]), 1 + 2**-7),
        ("i32", "sitofp", np.array([-21430271], np.int32), -21364736),
        ("i64", "uitofp", np.array([2**63 + 2**55 + 1], np.uint64).view(np.int64), 2**63 + 2**56),
    )
    for kind, operation, x, expected in cases:
        program = weft.from_linalg(_CONVERSION.format(kind, operation), chip)
        assert _wide(program(x, on="emulator")) == expected, kind


def test_arrays_that_arent_contiguous_are_copied_and_empty_ones_need_no_launch() -> None:
    program = weft.from_linalg(OPERATIONS, CHIP)
    x, n = _random(6, 7).T, np.zeros((7, 6), np.int32)
    chosen, _, _ = program(x, x < 0, n, 0.5, on="emulator")
    assert (chosen == np.where(x < 0, x, np.float32(0.5))).all()
    for result in program(x[:0], x[:0] < 0, n[:0], 0.5, on="emulator"):
        assert result.shape == (0, 6)


def test_sizes_that_differ_are_refused() -> None:
    program = weft.from_linalg(OPERATIONS, CHIP)
    with pytest.raises(WeftError, match="the shapes of its arguments don't fit together"):
        program(_random(7, 6), np.zeros((6, 6), np.bool_), np.zeros((7, 6), np.int32), 0.5, on="emulator")


BUFFERS = """
func.func @f(%a: memref<16x16xf16>, %b: memref<16x16xf16>, %d: memref<16x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %s = memref.alloc() : memref<16x16xf32>
  linalg.fill ins(%zero : f32) outs(%s : memref<16x16xf32>)
  linalg.matmul ins(%a, %b : memref<16x16xf16>, memref<16x16xf16>) outs(%s : memref<16x16xf32>)
  %t = memref.alloc() : memref<16xf32>
  linalg.fill ins(%low : f32) outs(%t : memref<16xf32>)
  linalg.reduce { arith.maximumf } ins(%s : memref<16x16xf32>) outs(%t : memref<16xf32>) dimensions = [1]
  linalg.broadcast ins(%t : memref<16xf32>) outs(%s : memref<16x16xf32>) dimensions = [1]
  linalg.add ins(%s, %d : memref<16x16xf32>, memref<16x16xf32>) outs(%d : memref<16x16xf32>)
  memref.dealloc %s : memref<16x16xf32>
  return
}"""


def test_memrefs_are_written_in_place() -> None:
    a, b, d = _random(16, 16, dtype=np.float16), _random(16, 16, dtype=np.float16, seed=1), _random(16, 16)
    before = _wide(d)
    assert weft.from_linalg(BUFFERS, CHIP)(a, b, d, on="emulator") is None
    assert np.allclose(_wide(d), (_wide(a) @ _wide(b)).max(1, keepdims=True) + before, atol=1e-3)


OTHER_PRODUCTS = {
    "batches of batches": (
        "affine_map<(x, y, m, n, k) -> (x, m, y, k)>, affine_map<(x, y, m, n, k) -> (y, x, k, n)>, "
        "affine_map<(x, y, m, n, k) -> (x, y, m, n)>",
        ("2x5x3x8xf16", "3x2x8x4xf16", "2x3x5x4xf32"),
        "xmyk,yxkn->xymn",
    ),
    "two depths": (
        "affine_map<(m, n, k, l) -> (m, l, k)>, affine_map<(m, n, k, l) -> (k, l, n)>, "
        "affine_map<(m, n, k, l) -> (m, n)>",
        ("5x4x3xf16", "3x4x6xf16", "5x6xf32"),
        "mlk,kln->mn",
    ),
    "no columns": (
        "affine_map<(k) -> (k)>, affine_map<(k) -> (k)>, affine_map<(k) -> ()>",
        ("9xf16", "9xf16", "f32"),
        "k,k->",
    ),
    "types": (
        "affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>",
        ("5x8xbf16", "8x6xf16", "5x6xf32"),
        "mk,kn->mn",
    ),
}


@pytest.mark.each_value(1)
@pytest.mark.parametrize("name", OTHER_PRODUCTS)
def test_contractions_that_are_no_tile_matmul_become_plain_kernels(name: str) -> None:
    maps, kinds, spelled = OTHER_PRODUCTS[name]
    a, b, d = (f"tensor<{kind}>" for kind in kinds)
    text = f"""func.func @f(%a: {a}, %b: {b}, %c: {d}) -> {d} {{
      %d = linalg.contract indexing_maps = [{maps}] ins(%a, %b : {a}, {b}) outs(%c : {d}) -> {d}
      return %d : {d}
    }}"""
    types = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}
    arrays = []
    for kind in kinds:
        *sizes, element = kind.split("x")
        arrays.append(_random(*map(int, sizes), dtype=types[element]) if sizes else np.ones((), np.float32))
    program = weft.from_linalg(text, CHIP)
    assert len(program.remarks) == len(program.steps) == 1
    result = program(*arrays, on="emulator")
    expected = np.einsum(spelled, _wide(arrays[0]), _wide(arrays[1])) + _wide(arrays[2])
    assert np.allclose(_wide(result), expected, atol=2e-3)


def test_a_result_may_be_an_argument_or_returned_twice() -> None:
    program = weft.from_linalg(
        """
func.func @f(%a: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<64xf32>) {
  %0 = linalg.exp ins(%a : tensor<8x8xf32>) outs(%a : tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = tensor.collapse_shape %0 [[0, 1]] : tensor<8x8xf32> into tensor<64xf32>
  return %0, %a, %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<64xf32>
}""",
        CHIP,
    )
    a = _random(8, 8)
    first, same, second, flat = program(a, on="emulator")
    assert same is a
    assert len(program.steps) == 1
    assert np.allclose(first, np.exp(a), rtol=1e-6)
    assert (first == second).all()
    assert (first.reshape(64) == flat).all()


NUMBER = """
func.func @f(%x: tensor<4xi32>, %n: i32) -> tensor<4xi32> {{
  %two = arith.constant 2 : i32
  %k = {} %n, %two : i32
  %e = tensor.empty() : tensor<4xi32>
  %r = linalg.generic {{indexing_maps = [affine_map<(m) -> (m)>, affine_map<(m) -> (m)>],
      iterator_types = ["parallel"]}} ins(%x : tensor<4xi32>) outs(%e : tensor<4xi32>) {{
  ^bb0(%s: i32, %old: i32):
    %v = arith.addi %s, %k : i32
    linalg.yield %v : i32
  }} -> tensor<4xi32>
  return %r : tensor<4xi32>
}}"""
HOST: dict[str, Any] = {
    "arith.divui": lambda n: (n % 2**32) // 2,
    "arith.minui": lambda n: min(n % 2**32, 2),
    "arith.addi": lambda n: n + 2,
    "arith.divsi": lambda n: int(n / 2),
}


@pytest.mark.parametrize("name", HOST)
def test_integers_of_the_host_wrap_as_their_type_does(name: str) -> None:
    program = weft.from_linalg(NUMBER.format(name), CHIP)
    for n in (7, -8, 2**31 - 1, -(2**31)):
        result = program(np.zeros(4, np.int32), n, on="emulator")
        assert (result == np.array(HOST[name](n) % 2**32, np.uint32).view(np.int32)).all()
