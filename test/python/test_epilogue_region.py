"""Epilogues that users write as regions, in the emulator, in kernels of every family."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.dialects import tile
from weft.dialects.schedule import (
    AnySchedule,
    DirectSchedule,
    Schedule,
    TensorMemorySchedule,
    TmaMmaSchedule,
    WarpgroupSchedule,
    WmmaSchedule,
)
from weft.mlir import arith, ir
from weft.tools import weft as tool

SCHEDULES = {
    WmmaSchedule((32, 32, 32), (2, 1), 2): "sm_80",
    Schedule((32, 64, 64), (2, 2), 2): "sm_80",
    DirectSchedule((16, 32, 64), (1, 8)): "sm_80",
    TmaMmaSchedule((64, 64, 64), (2, 2), 2): "sm_120a",
    WarpgroupSchedule((64, 64, 64), 1, 3): "sm_90a",
    WarpgroupSchedule((64, 48, 64), 1, 3, swap=True): "sm_90a",
    WarpgroupSchedule((64, 64, 64), 1, 3, global_splits=2): "sm_90a",
    TensorMemorySchedule((64, 32, 64), 1, 2): "sm_100a",
    TensorMemorySchedule((128, 64, 64), 1, 2, swap=True): "sm_100a",
}
every_family = pytest.mark.parametrize(
    ("schedule", "chip"), SCHEDULES.items(), ids=lambda x: x if isinstance(x, str) else type(x).__name__
)
SQUARED = """
!M = memref<?x?xbf16>
func.func @squared(%a: !M, %b: !M, %d: memref<?x?xf32>, %scale: memref<?xf32>, %residual: !M) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %row: index, %column: index):
    %s = "tile.load_element"(%scale, %row) : (memref<?xf32>, index) -> f32
    %1 = arith.mulf %sum, %s : f32
    %zero = arith.constant 0.0 : f32
    %2 = arith.maximumf %1, %zero : f32
    %3 = arith.mulf %2, %2 : f32
    %r = "tile.load_element"(%residual, %row, %column) : (!M, index, index) -> f32
    %4 = arith.addf %3, %r : f32
    "tile.yield"(%4) : (f32) -> ()
  }) : () -> !tile.function
  "tile.matmul"(%a, %b, %d, %0) {
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1>,
    transpose_b = true, alpha = 0.5 : f32,
    schedule = SCHEDULE} : (!M, !M, memref<?x?xf32>, !tile.function) -> ()
  return
}"""


def run(text: str, chip: str, *more: str) -> int:
    Path("k.mlir").write_text(text)
    return tool.main(["run", "k.mlir", "--on", "emulator", "--arch", chip, *more])


@pytest.mark.each_value(1)
@every_family
def test_weft_run_checks_an_epilogue_in_text(schedule, chip, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    with weft.Module():
        text = SQUARED.replace("SCHEDULE", str(schedule.attribute()))
    assert run(text, chip, "--shape", "40x72x64") == 0, capfd.readouterr().err
    assert "= epilogue(0.5 * A[40,64] bf16 * B[72,64]ᵀ bf16)" in capfd.readouterr().out


def test_weft_run_finds_a_wrong_epilogue(tmp_path, monkeypatch, capfd):
    """Planted: kernels add where the function multiplies."""
    monkeypatch.chdir(tmp_path)
    from weft.passes.kernels import epilogue_function

    copy = epilogue_function._copy
    monkeypatch.setattr(
        epilogue_function,
        "_copy",
        lambda op, operands, kinds: (
            [arith.addf(*operands)] if op.operation.name == "arith.mulf" else copy(op, operands, kinds)
        ),
    )
    monkeypatch.setenv("WEFT_CACHE", "0")
    with weft.Module():
        schedule, chip = next(iter(SCHEDULES.items()))
        text = SQUARED.replace("SCHEDULE", str(schedule.attribute()))
    assert run(text, chip, "--shape", "24x40x32") == 1
    assert "FAIL" in capfd.readouterr().out


def product(
    function: Callable[..., Any],
    kinds: tuple[tuple[str, str], ...],
    types: tuple[str, str] = ("bf16", "f32"),
    rank: int = 2,
    schedule: AnySchedule | None = None,
    **options: Any,
) -> weft.Module:
    """A product whose epilogue is a function of the sum, the row, the column and the memrefs of `kinds`."""
    with weft.Module() as module:
        operands = [weft.memref("x".join("?" * rank), kind) for kind in (types[0], types[0], types[1])]
        operands += [weft.memref(shape, kind) for shape, kind in kinds]
        with module.func("product", operands) as (a, b, d, *rest):
            sums = ir.Type.parse(types[1] if types[1] in ("i32", "f64") else "f32")
            made = tile.epilogue(sums, lambda *element: function(*element, *rest))
            tile.matmul(a, b, d, epilogue=made, transpose_b=True, schedule=schedule, **options)
    return module


def arrays(*shape: int, kind: Any = ml_dtypes.bfloat16) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(kind)


def causal(x: Any, row: Any, column: Any) -> Any:
    """x at and below the diagonal, otherwise -1."""
    below = arith.cmpi(arith.CmpIPredicate.sge, row, column)
    return arith.select(below, x, arith.constant(x.type, -1.0))


@pytest.mark.each_value(2)
@every_family
def test_rows_and_columns_are_numbers(schedule, chip):
    kernel = weft.compile(product(causal, (), schedule=schedule), chip)
    a, b, d = arrays(72, 64), arrays(88, 64), np.zeros((72, 88), np.float32)
    assert not kernel.emulate(a, b, d).findings
    want = a.astype(float) @ b.astype(float).T
    np.testing.assert_array_equal(d, np.where(np.tri(72, 88), want, -1))


@every_family
def test_vectors_and_single_elements_are_loaded(schedule, chip):
    def function(x: Any, row: Any, column: Any, of_rows: Any, of_columns: Any, one: Any) -> Any:
        single = tile.load_element(one)
        half = arith.mulf(single, arith.constant(single.type, 0.5))  # computed once
        x = arith.mulf(arith.addf(x, tile.load_element(of_rows, row)), half)
        less = arith.subf(x, tile.load_element(of_columns, column))
        return ir.Operation.create("math.absf", results=[x.type], operands=[less]).result

    kinds = ("?", "f16"), ("?", "bf16"), ("1", "f32")
    kernel = weft.compile(product(function, kinds, ("bf16", "bf16"), schedule=schedule), chip)
    a, b, d = arrays(40, 64), arrays(56, 64), np.zeros((40, 56), ml_dtypes.bfloat16)
    rows, columns, one = arrays(40, kind=np.float16), arrays(56), np.full(1, 4, np.float32)
    assert not kernel.emulate(a, b, d, rows, columns, one).findings
    sums = a.astype(float) @ b.astype(float).T
    want = np.abs((sums + rows.astype(float)[:, None]) * 2 - columns.astype(float))
    np.testing.assert_array_equal(d, want.astype(ml_dtypes.bfloat16))


@pytest.mark.each_value(1)
@pytest.mark.parametrize("chip", ["sm_90a", "sm_80"])
def test_each_product_of_a_batch_has_a_vector_and_a_number(chip):
    def function(x: Any, row: Any, column: Any, bias: Any, factors: Any) -> Any:
        return arith.mulf(arith.addf(x, tile.load_element(bias, column)), tile.load_element(factors))

    kernel = weft.compile(product(function, (("?x?", "bf16"), ("?", "f32")), rank=3), chip)
    a, b, d = arrays(3, 24, 64), arrays(3, 40, 64), np.zeros((3, 24, 40), np.float32)
    bias, factors = arrays(3, 40), np.array([1, 2, 3], np.float32)
    assert not kernel.emulate(a, b, d, bias, factors).findings
    sums = a.astype(float) @ b.astype(float).transpose(0, 2, 1) + bias.astype(float)[:, None]
    np.testing.assert_array_equal(d, sums * factors[:, None, None])
    with pytest.raises(weft.WeftError):
        kernel.emulate(a, b, d, bias, factors[:2])


def test_operations_may_have_several_results():
    def function(x: Any, row: Any, column: Any, one: Any) -> Any:
        number, i1 = tile.load_element(one), ir.IntegerType.get_signless(1)
        low, high = arith.mulsi_extended(number, number)  # computed once
        total, carry = arith.addui_extended(x.type, i1, x, low)
        return arith.addi(arith.addi(total, high), arith.extui(x.type, carry))

    kernel = weft.compile(product(function, (("1", "i32"),), ("i8", "i32")), "sm_80")
    a, b, d = arrays(24, 32, kind=np.int8), arrays(40, 32, kind=np.int8), np.zeros((24, 40), np.int32)
    assert not kernel.emulate(a, b, d, np.full(1, 70_000, np.int32)).findings
    high, low = divmod(70_000**2, 2**32)
    sums = (a.astype(int) @ b.astype(int).T) % 2**32 + low
    assert len(np.unique(sums >> 32)) == 2  # some carry
    np.testing.assert_array_equal(d, sums % 2**32 + high + (sums >> 32))


def test_what_no_pass_lowers_is_reported_once_at_its_line():
    with weft.Module():
        text = SQUARED.replace("SCHEDULE", str(next(iter(SCHEDULES)).attribute()))
    text = text.replace("arith.mulf %2, %2", "math.acos %2")
    with pytest.raises(weft.WeftError, match=r"'math\.acos' op isn't lowered") as error:
        weft.compile(text, "sm_80")
    (diagnostic,) = error.value.diagnostics
    assert "math.acos" in text.splitlines()[diagnostic.location.line - 1]


@pytest.mark.each_value(1)
@pytest.mark.parametrize("kind", ["i8", "f64"])
def test_sums_of_integers_and_doubles(kind, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    sums, add = ("i32", "addi") if kind == "i8" else ("f64", "addf")

    def function(x: Any, row: Any, column: Any, residual: Any) -> Any:
        return getattr(arith, add)(x, tile.load_element(residual, row, column))

    schedule = Schedule((64, 64, 64 if kind == "i8" else 8), (2, 2), 2)
    text = str(product(function, (("?x?", sums),), (kind, sums), schedule=schedule))
    assert run(text, "sm_80", "--shape", "24x40x32") == 0, capfd.readouterr().err


@pytest.mark.each_value(1)
@pytest.mark.parametrize("chip", ["sm_90a", "sm_80", "sm_100a"])
def test_old_spellings_are_the_same_kernel(chip):
    def function(x: Any, row: Any, column: Any, bias: Any, residual: Any) -> Any:
        x = arith.addf(x, tile.load_element(bias, column))
        x = arith.maximumf(x, arith.constant(x.type, 0.0))
        return arith.addf(x, tile.load_element(residual, row, column))

    made = product(function, (("?", "f16"), ("?x?", "bf16")), ("bf16", "bf16"), alpha=0.5)
    with weft.Module() as old:
        kinds = [weft.memref("?x?", "bf16")] * 3 + [weft.memref("?", "f16"), weft.memref("?x?", "bf16")]
        with old.func("product", kinds) as (a, b, d, bias, residual):
            roles = {"bias": bias, "residual": residual, "activation": "relu"}
            tile.matmul(a, b, d, transpose_b=True, alpha=0.5, **roles)
    first, second = (
        [line for line in weft.compile(each, chip).ptx.splitlines() if not line.lstrip().startswith(".")]
        for each in (made, old)
    )
    assert first == second
