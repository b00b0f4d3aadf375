"""Epilogues that users write as regions, in the emulator, in kernels of every family."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import passes_between
import pytest

import weft
from weft import passes, reference
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
from weft.dialects.tile import MatmulOp
from weft.mlir import arith, ir, operations
from weft.passes.kernels import activations
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
SMALL = Schedule((32, 32, 64), (2, 1), 2)  # compiled sooner than a chosen one
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
def test_weft_run_checks_an_epilogue_in_text(schedule, chip, tmp_path, patch, capfd):
    patch.chdir(tmp_path)
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


@pytest.mark.each_value(1)
@every_family
def test_rows_and_columns_are_numbers(schedule, chip):
    kernel = weft.compile(product(causal, (), schedule=schedule), chip)
    a, b, d = arrays(72, 64), arrays(88, 64), np.zeros((72, 88), np.float32)
    assert not kernel.emulate(a, b, d).findings
    want = a.astype(float) @ b.astype(float).T
    np.testing.assert_array_equal(d, np.where(np.tri(72, 88), want, -1))


@pytest.mark.each_value(4)
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
@pytest.mark.parametrize(("schedule", "chip"), [(SMALL, "sm_80"), (None, "sm_90a"), (None, "sm_80")])
def test_each_product_of_a_batch_has_a_vector_and_a_number(schedule, chip):
    def function(x: Any, row: Any, column: Any, bias: Any, factors: Any) -> Any:
        return arith.mulf(arith.addf(x, tile.load_element(bias, column)), tile.load_element(factors))

    kinds = ("?x?", "bf16"), ("?", "f32")
    kernel = weft.compile(product(function, kinds, rank=3, schedule=schedule), chip)
    a, b, d = arrays(3, 24, 64), arrays(3, 40, 64), np.zeros((3, 24, 40), np.float32)
    bias, factors = arrays(3, 40), np.array([1, 2, 3], np.float32)
    assert not kernel.emulate(a, b, d, bias, factors).findings
    sums = a.astype(float) @ b.astype(float).transpose(0, 2, 1) + bias.astype(float)[:, None]
    np.testing.assert_array_equal(d, sums * factors[:, None, None])
    with pytest.raises(weft.WeftError):
        kernel.emulate(a, b, d, bias, factors[:2])


def check_further_results(schedule: AnySchedule | None, chip: str, *batch: int, m: int, n: int) -> None:
    """silu of the sums, the sums themselves, the sum of each column of D + 1, and the largest of each row."""

    def function(x: Any, row: Any, column: Any, sums: Any, of_columns: Any, of_rows: Any) -> Any:
        y = activations.apply("silu", x)
        tile.store_element(x, sums, row, column)
        one = arith.constant(x.type, 1.0)  # also for elements beyond D, which don't count
        tile.store_element(arith.addf(y, one), of_columns, column, kind="add")
        tile.store_element(arith.subf(x, one), of_rows, row, kind="maximumf")
        return y

    kind, vector = ("f16" if chip == "sm_70" else "bf16"), "x".join("?" * (1 + len(batch)))
    kinds = ("x".join("?" * (2 + len(batch))), kind), (vector, "f32"), (vector, "f32")
    kernel = weft.compile(product(function, kinds, (kind, kind), 2 + len(batch), schedule), chip)
    dtype = np.float16 if kind == "f16" else ml_dtypes.bfloat16
    a, b = arrays(*batch, m, 72, kind=dtype), arrays(*batch, n, 72, kind=dtype)
    d, x = (np.full((*batch, m, n), np.nan, dtype) for _ in range(2))
    of_columns, of_rows = np.full((*batch, n), 2, np.float32), np.full((*batch, m), -np.inf, np.float32)
    assert not kernel.emulate(a, b, d, x, of_columns, of_rows).findings
    want = a.astype(float) @ b.astype(float).swapaxes(-1, -2)
    y = want / (1 + np.exp(-want))
    np.testing.assert_array_equal(x, want.astype(dtype))
    np.testing.assert_allclose(d.astype(float), y, rtol=2**-7, atol=1e-6)
    np.testing.assert_allclose(of_columns, 2 + (y + 1).sum(-2), rtol=1e-5, atol=1e-3)
    np.testing.assert_array_equal(of_rows, want.max(-1) - 1)


@pytest.mark.each_value(4)
@every_family
def test_further_results_of_every_family(schedule, chip):
    check_further_results(schedule, chip, m=75, n=57)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("chip", ["sm_90a", "sm_70", "sm_80", "sm_100a", "sm_120a"])
def test_further_results_of_batches(chip):
    check_further_results(None, chip, 2, m=40, n=72)


@pytest.mark.each_value(2)
@pytest.mark.parametrize(
    ("schedule", "chip"),
    [
        (WarpgroupSchedule((64, 64, 64), 1, 3, splits=2), "sm_90a"),
        (WarpgroupSchedule((128, 64, 64), 2, 3, stream_k=True), "sm_90a"),
        (WarpgroupSchedule((128, 256, 64), 2, 3), "sm_90a"),  # through shared memory, in strips
        (TensorMemorySchedule((128, 64, 64), 1, 2, global_splits=2), "sm_100a"),
    ],
    ids=str,
)
def test_further_results_after_the_sums_of_k_slices(schedule, chip):
    check_further_results(schedule, chip, m=150, n=72)


def test_passes_of_mlir_between_keep_further_results(monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", "0")
    monkeypatch.setattr("weft.compiler.pipeline.elements", passes_between.elements)
    check_further_results(WarpgroupSchedule((64, 64, 64), 1, 3), "sm_90a", m=75, n=57)


def test_further_results_of_alpha_and_c():
    with weft.Module() as module:
        kinds = [weft.memref("?x?", kind) for kind in ("f16", "f16", "f16", "f32", "f32")]
        with module.func("product", kinds) as (a, b, d, c, other):

            def function(x: Any, row: Any, column: Any) -> Any:
                tile.store_element(x, other, row, column)
                return arith.negf(x)

            given = {"epilogue": tile.epilogue(ir.F32Type.get(), function), "schedule": SMALL}
            tile.matmul(a, b, d, c, alpha=0.5, beta=2.0, transpose_b=True, **given)
    a, b = arrays(24, 32, kind=np.float16), arrays(41, 32, kind=np.float16)
    c = arrays(24, 41, kind=np.float32)
    d, other = np.zeros((24, 41), np.float16), np.zeros((24, 41), np.float32)
    assert not weft.compile(module, "sm_80").emulate(a, b, d, c, other).findings
    want = a.astype(np.float32) @ b.astype(np.float32).T / 2 + 2 * c
    np.testing.assert_array_equal(other, want)
    np.testing.assert_array_equal(d, -want)


def with_groups(ranks: str, **how: Any) -> weft.Module:
    """A product whose groups have a further result: twice that of D."""
    with weft.Module() as module:
        types = zip(ranks, ("bf16", "bf16", "f32", "f32"), strict=True)
        kinds = [weft.memref("x".join("?" * int(rank)), kind) for rank, kind in types]
        with module.func("product", [*kinds, weft.memref("?", "i32")]) as (a, b, d, other, groups):

            def function(x: Any, row: Any, column: Any) -> Any:
                tile.store_element(arith.addf(x, x), other, row, column)
                return x

            made = tile.epilogue(ir.F32Type.get(), function)
            role = "groups" if ranks == "3333" else "row_ends"
            tile.matmul(a, b, d, **{role: groups}, epilogue=made, transpose_b=True, **how)
    return module


@pytest.mark.each_value(1)
@pytest.mark.parametrize("chip", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
def test_further_results_of_groups_with_ends(chip):
    """Their tiles begin before the groups, as A is MN-major."""
    module, ends = with_groups("2322", transpose_a=True), np.array([1, 34, 77], np.int32)
    a, b = arrays(64, 96), arrays(3, 72, 64)
    d, other = (np.full((96, 72), 99, np.float32) for _ in range(2))
    assert not weft.compile(module, chip).emulate(a, b, d, other, ends).findings
    rows = (a.T[span].astype(float) @ b[i].T for i, span in enumerate(reference.spans(ends)))
    np.testing.assert_array_equal(d[:77], np.concatenate(list(rows)))
    np.testing.assert_array_equal(other[:77], 2 * d[:77])
    assert (d[77:] == 99).all() and (other[77:] == 99).all()


@pytest.mark.each_value(1)
@pytest.mark.parametrize("chip", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
def test_further_results_of_groups_have_the_rows_of_d(chip):
    module = with_groups("3333")
    a, b, groups = arrays(3, 100, 64), arrays(3, 72, 64), np.array([0, 33, 100], np.int32)
    d, other = (np.full((3, 100, 72), np.nan, np.float32) for _ in range(2))
    assert not weft.compile(module, chip).emulate(a, b, d, other, groups).findings
    np.testing.assert_array_equal(other, 2 * d)
    want = a.astype(float) @ b.astype(float).swapaxes(1, 2)
    for number, rows in enumerate(groups):
        np.testing.assert_array_equal(d[number, :rows], want[number, :rows])


def test_fp8_is_stored_by_chips_that_round_to_it():
    def function(x: Any, row: Any, column: Any, other: Any) -> Any:
        tile.store_element(x, other, row, column)
        return x

    module = product(function, (("?x?", "f8E4M3FN"),), schedule=SMALL)
    with pytest.raises(weft.WeftError, match="to store f8E4M3FN in its epilogue, got sm_80: use f16"):
        weft.compile(module, "sm_80")
    a, b = arrays(24, 32), arrays(40, 32)
    d, other = np.zeros((24, 40), np.float32), np.zeros((24, 40), ml_dtypes.float8_e4m3fn)
    assert not weft.compile(module, "sm_89").emulate(a, b, d, other).findings
    np.testing.assert_array_equal(other, d.astype(other.dtype))


def test_further_results_of_integers():
    def function(x: Any, row: Any, column: Any, other: Any) -> Any:
        tile.store_element(arith.addi(x, x), other, row, column)
        return x

    made = product(function, (("?x?", "i32"),), ("i8", "i32"), schedule=SMALL)
    kernel = weft.compile(made, "sm_80")
    a, b = arrays(24, 32, kind=np.int8), arrays(40, 32, kind=np.int8)
    d, other = (np.zeros((24, 40), np.int32) for _ in range(2))
    assert not kernel.emulate(a, b, d, other).findings
    np.testing.assert_array_equal(d, a.astype(int) @ b.astype(int).T)
    np.testing.assert_array_equal(other, 2 * d)


def test_a_schedule_is_chosen_whose_threads_hold_what_an_epilogue_needs():
    def chosen(count: int) -> tuple[AnySchedule, int]:
        def function(x: Any, row: Any, column: Any, *results: Any) -> Any:
            for number, each in enumerate(results):
                tile.store_element(arith.mulf(x, arith.constant(x.type, float(number))), each, row, column)
            return x

        module = product(function, (("?x?", "f32"),) * count, ("bf16", "bf16"))
        with module:
            passes.manager("select-schedule{chip=sm_90a}", module.context).run(module.mlir.operation)
            (op,) = operations(module.mlir.operation, MatmulOp)
            return op.schedule, op.needs.registers

    (few, needed_by_few), (many, needed_by_many) = chosen(2), chosen(8)
    assert few.block[:2] == (128, 256)
    assert few.has_room(needed_by_few)
    assert not few.has_room(needed_by_many)
    assert many.has_room(needed_by_many)
    swapped = WarpgroupSchedule((256, 192, 64), 2, 3, swap=True)  # ptxas spills 8 bytes; 3.5 KB otherwise
    assert swapped.has_room(needed_by_few)
    assert not replace(swapped, swap=False).has_room(needed_by_few)


def test_operations_may_have_several_results():
    def function(x: Any, row: Any, column: Any, one: Any) -> Any:
        number, i1 = tile.load_element(one), ir.IntegerType.get_signless(1)
        low, high = arith.mulsi_extended(number, number)  # computed once
        total, carry = arith.addui_extended(x.type, i1, x, low)
        return arith.addi(arith.addi(total, high), arith.extui(x.type, carry))

    made = product(function, (("1", "i32"),), ("i8", "i32"), schedule=SMALL)
    kernel = weft.compile(made, "sm_80")
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
def test_sums_of_integers_and_doubles(kind, tmp_path, patch, capfd):
    patch.chdir(tmp_path)
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
