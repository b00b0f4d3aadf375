"""What is done with the sums of a product, in the emulator: every activation, what is added, every type of D,
in each kernel; against float64 and the bound that `weft.reference` states. A finding of the sanitizer ends a
run.
"""

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from assembling import assembles

import weft
from weft import reference
from weft.dialects import tile
from weft.dialects.activations import ACTIVATIONS
from weft.dialects.schedule import (
    AnySchedule,
    DirectSchedule,
    Schedule,
    TensorMemorySchedule,
    TmaMmaSchedule,
    Types,
    WarpgroupSchedule,
    WmmaSchedule,
)
from weft.dialects.tile import FragmentType
from weft.isa.conversion import FP8_ROUNDING
from weft.mlir import ir
from weft.passes.kernels import activations, epilogue
from weft.target import Target


def of(m: int, n: int, k: int, warpgroups: int = 1, stages: int = 3, **fields: Any) -> WarpgroupSchedule:
    return WarpgroupSchedule((m, n, k), warpgroups, stages, **fields)


SCHEDULES = (
    of(128, 64, 64, 2),
    of(64, 48, 64, swap=True),
    of(64, 64, 64, splits=2),
    of(64, 64, 64, cluster=(2, 1)),
    Schedule((64, 64, 32), (2, 2), 2),
)

IN_PLACE = {
    WmmaSchedule((32, 32, 32), (2, 1), 2): "sm_80",
    Schedule((16, 64, 64), (1, 4), 2): "sm_80",
    DirectSchedule((16, 32, 64), (1, 8)): "sm_80",
    TmaMmaSchedule((64, 64, 64), (2, 2), 2): "sm_120a",
    of(64, 32, 64): "sm_90a",
    of(64, 64, 64, global_splits=2): "sm_90a",
    TensorMemorySchedule((64, 32, 64), 1, 2): "sm_100a",
}


@dataclass(frozen=True)
class Product:
    """A product by its element types: of A, B and D, and of what is added by its role."""

    a: str = "bf16"
    b: str = "bf16"
    d: str = "f32"
    added: tuple[tuple[str, str], ...] = ()
    activation: str | None = None
    beta: float = 0.0

    def compiled(self, schedule: AnySchedule, chip: str | None = None) -> weft.Kernel:
        """A kernel for matrices of any size."""
        with weft.Module() as module:
            kinds = [weft.memref("?x?", kind) for kind in (self.a, self.b, self.d)]
            kinds += [weft.memref("?" if role == "bias" else "?x?", kind) for role, kind in self.added]
            with module.func("product", kinds) as operands:
                tile.matmul(
                    *operands[:3],
                    transpose_b=True,
                    alpha=1.0 if self.d == "i32" else 0.5,
                    beta=self.beta,
                    activation=self.activation,
                    schedule=schedule,
                    **dict(zip((role for role, _ in self.added), operands[3:], strict=True)),
                )
        return weft.compile(module, chip or ("sm_80" if isinstance(schedule, Schedule) else "sm_90a"))

    def arrays(self, shape: tuple[int, int, int]) -> dict[str, np.ndarray]:
        """Random operands; sums of A and B are exact in any order."""
        m, n, k = shape
        rng = np.random.default_rng(m * n + k)

        def made(kind: str, *size: int) -> np.ndarray:
            dtype = weft.launch.arrays.numpy_dtype(kind)
            if np.issubdtype(dtype, np.integer):
                return rng.integers(np.iinfo(dtype).min // 2, np.iinfo(dtype).max // 2, size).astype(dtype)
            return rng.standard_normal(size).astype(dtype)

        def operand(kind: str, *size: int) -> np.ndarray:
            whole = kind in ("i8", "ui8")
            return (
                made(kind, *size)
                if whole
                else rng.integers(-2, 3, size).astype(weft.launch.arrays.numpy_dtype(kind))
            )

        found = {"a": operand(self.a, m, k), "b": operand(self.b, n, k), "d": made(self.d, m, n)}
        sizes = {"c": (m, n), "bias": (n,), "residual": (m, n)}
        return found | {role: made(kind, *sizes[role]) for role, kind in self.added}

    def ratio(self, kernel: weft.Kernel, shape: tuple[int, int, int]) -> float:
        """The largest error of D as a part of its bound."""
        given = self.arrays(shape)
        c = given.get("c", given["d"].copy() if self.beta else None)
        expected = reference.product(
            given["a"],
            given["b"],
            c,
            transpose_b=True,
            alpha=1.0 if self.d == "i32" else 0.5,
            beta=self.beta,
            bias=given.get("bias"),
            activation=self.activation,
            residual=given.get("residual"),
            dtype=given["d"].dtype,
        )
        findings = kernel.emulate(*given.values()).findings
        assert not findings, findings[0].rule
        return expected.compare(given["d"]).ratio


@pytest.mark.each_value(1)
@pytest.mark.parametrize("schedule", IN_PLACE, ids=lambda schedule: type(schedule).__name__)
def test_lanes_beyond_an_edge_read_nothing_of_a_d_that_is_c(schedule: AnySchedule) -> None:
    kernel = Product(beta=1.0).compiled(schedule, IN_PLACE[schedule])
    for seed in range(4):
        a, b = np.ones((8, 64), ml_dtypes.bfloat16), np.ones((66, 64), ml_dtypes.bfloat16)
        d = np.ones((8, 66), np.float32)
        assert not kernel.emulate(a, b, d, seed=seed).findings
        assert (d == 33).all()


@pytest.mark.slow
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_every_activation_in_every_kernel(schedule, activation):
    product = Product(added=(("bias", "bf16"), ("residual", "f16")), activation=activation)
    kernel = product.compiled(schedule)
    assert product.ratio(kernel, (72, 88, 136)) <= 1.0
    assert product.ratio(kernel, (8, 8, 8)) <= 1.0


@pytest.mark.sampled(6)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_everything_that_can_be_added(schedule):
    added = (("c", "f32"), ("bias", "f32"), ("residual", "bf16"))
    product = Product(d="bf16", added=added, activation="silu", beta=-2.0)
    assert product.ratio(product.compiled(schedule), (136, 104, 72)) <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("added", ["bias", "residual"])
def test_one_operand_and_no_activation(added):
    product = Product("f16", "f16", "f16", ((added, "f16"),))
    for schedule in (SCHEDULES[0], SCHEDULES[-1]):
        assert product.ratio(product.compiled(schedule), (40, 72, 64)) <= 1.0


@pytest.mark.slow
def test_sizes_that_nothing_divides():
    product = Product(d="bf16", added=(("bias", "f16"), ("residual", "f32")), activation="gelu")
    kernel = product.compiled(SCHEDULES[0])
    assert "mma.sync" in kernel.for_any_rows.ptx
    for shape in ((33, 35, 37), (1, 1, 1), (65, 129, 8)):
        assert product.ratio(kernel, shape) <= 1.0, shape


@pytest.mark.slow
def test_a_bias_may_begin_anywhere():
    product = Product(added=(("bias", "bf16"),))
    kernel, given = product.compiled(SCHEDULES[0]), product.arrays((64, 64, 64))
    room = np.zeros(65, ml_dtypes.bfloat16)
    room[1:] = given["bias"]
    assert not kernel.emulate(given["a"], given["b"], given["d"], room[1:]).findings
    want = 0.5 * (given["a"].astype(float) @ given["b"].astype(float).T) + given["bias"].astype(float)
    assert (given["d"] == want).all()


def activated(name: str, x: np.ndarray) -> np.ndarray:
    """What a kernel makes of C = x with nothing else."""
    product = Product("f16", "f16", "f32", (("c", "f32"),), name, beta=1.0)
    kernel = product.compiled(Schedule((64, 64, 32), (2, 2), 2))
    d, zeros = np.empty_like(x), np.zeros((max(x.shape), 32), np.float16)
    kernel.emulate(zeros[: x.shape[0]], zeros[: x.shape[1]], d, x)
    return d


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_within_its_bound(name):
    x = np.random.default_rng(5).uniform(-6, 6, (192, 192)).astype(np.float32)
    x[0] = np.linspace(-100, 100, 192)
    want, bound = reference.ACTIVATIONS[name].of(x.astype(np.float64), np.zeros(x.shape))
    error = np.abs(activated(name, x) - want)
    assert (error <= bound).all()
    # What stands for erf and tanh costs 2e-7 at most, the rest is a few roundings.
    assert (error <= 2e-7 + 4 * 2.0**-24 * np.abs(want)).all()


@pytest.mark.slow
def test_a_bound_of_an_activation_is_not_met_by_another():
    x = np.linspace(-4, 4, 64 * 64, dtype=np.float32).reshape(64, 64)
    want, bound = reference.ACTIVATIONS["gelu_tanh"].of(x.astype(np.float64), np.zeros(x.shape))
    assert (np.abs(activated("gelu", x) - want) > bound).any()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("relu", (np.nan, np.inf, 0.0, 0.0, 3e38, 0.0)),
        ("gelu", (np.nan, np.inf, 0.0, 0.0, 3e38, 0.0)),
        ("gelu_tanh", (np.nan, np.inf, np.nan, 0.0, 3e38, 0.0)),
        ("silu", (np.nan, np.inf, np.nan, 0.0, 3e38, 0.0)),
    ],
)
def test_activations_of_what_is_not_finite(name, want):
    """-inf as PyTorch has it, except for gelu, whose limit is 0."""
    x = np.zeros((16, 16), np.float32)
    x[0, :6] = np.nan, np.inf, -np.inf, 0.0, 3e38, -3e38
    np.testing.assert_array_equal(activated(name, x)[0, :6], np.array(want, np.float32))


def test_the_tables_of_activations_agree():
    assert set(ACTIVATIONS) == set(activations.KERNELS)


@pytest.mark.slow
@pytest.mark.parametrize("d", ["f8E4M3FN", "f8E5M2"])
@pytest.mark.parametrize("schedule", [*SCHEDULES[:1], of(64, 64, 64, swap=True), *SCHEDULES[2:4]], ids=str)
def test_results_of_fp8(schedule, d):
    product = Product("bf16", "bf16", d, (("bias", "f32"),), "relu", beta=1.0)
    assert product.ratio(product.compiled(schedule), (72, 96, 136)) <= 1.0


@pytest.mark.slow
def test_fp8_from_fp8_and_from_rows_of_any_alignment():
    product = Product("f8E4M3FN", "f8E5M2", "f8E4M3FN")
    assert product.ratio(product.compiled(of(64, 64, 128)), (40, 48, 144)) <= 1.0
    product = Product("f16", "f16", "f8E4M3FN")
    assert product.ratio(product.compiled(SCHEDULES[0]), (33, 35, 37)) <= 1.0
    assert product.ratio(product.compiled(SCHEDULES[-1], "sm_89"), (40, 48, 64)) <= 1.0


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("d", "largest"), [("f8E4M3FN", 448.0), ("f8E5M2", 57344.0)])
def test_what_is_beyond_fp8_becomes_its_largest(d, largest):
    a, b = np.full((64, 64), 32.0, np.float16), 4 * np.eye(64, dtype=np.float16)
    a[0], a[1] = 60000.0, -60000.0
    out = np.empty((64, 64), weft.launch.arrays.numpy_dtype(d))
    Product("f16", "f16", d).compiled(of(64, 64, 64)).emulate(a, b, out)
    found = out.astype(np.float64)
    assert (found[0] == largest).all() and (found[1] == -largest).all() and (found[2:] == 64.0).all()


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [("ui8", "ui8"), ("ui8", "i8"), ("i8", "ui8"), ("i8", "i8")])
@pytest.mark.parametrize("schedule", [of(64, 64, 128), of(64, 16, 128, swap=True)], ids=str)
def test_bytes_of_either_sign(schedule, a, b):
    product = Product(a, b, "i32", (("bias", "i32"), ("residual", "i32")), "relu", beta=1.0)
    assert product.ratio(product.compiled(schedule), (72, 80, 144)) == 0


@pytest.mark.slow
def test_the_largest_tile_with_everything_spills_nothing():
    added = (("c", "f32"), ("bias", "f32"), ("residual", "f32"))
    for d in ("f32", "bf16"):
        kernel = Product(d=d, added=added, activation="gelu", beta=2.0).compiled(of(128, 256, 64, 2))
        assert not kernel.resources.spill_stores, d


@pytest.mark.parametrize("shape", [(64, 256), (64, 8), (128, 96), (256, 64)])
@pytest.mark.parametrize("swapped", [False, True])
def test_pieces_are_all_of_a_fragment_once(shape, swapped):
    rows, columns = shape
    layout = f"S[({rows // 64},4,2,8,{columns // 8},4,2):({columns // 2},1@warpid,2,4@laneid,4,1@laneid,1)]"
    if swapped:
        layout = (
            f"S[({columns // 8},4,2,{rows // 64},4,2,8):(4,1@laneid,1,{columns // 2},1@warpid,2,4@laneid)]"
        )
        shape = shape[::-1]
    with weft.Module():
        kind = FragmentType.of(shape, ir.F32Type.get(), layout)
        elements = [kind.layout.lane_elements(lane, shape) for lane in range(32)]
        seen: list[int] = []
        for piece in epilogue.pieces(kind):
            assert piece.kind.complaint() is None
            seen += piece.registers
            for lane, held in enumerate(elements):
                inside = piece.kind.layout.lane_elements(lane, piece.kind.shape)
                want = [(row + piece.row, column + piece.column) for row, column in inside]
                assert [held[register] for register in piece.registers] == want
    assert sorted(seen) == list(range(kind.registers)) and (len(seen) <= 16 or len(piece.registers) <= 16)


def test_a_fragment_whose_dimensions_begin_with_lanes_is_one_piece():
    with weft.Module():
        kind = FragmentType.of((8, 128), ir.F32Type.get(), "S[(8,4,32):(4@laneid,1@laneid,1)]")
        (piece,) = epilogue.pieces(kind)
    assert (piece.kind, piece.row, piece.column) == (kind, 0, 0)
    assert piece.registers == tuple(range(32))


def test_a_bias_of_other_columns_is_caught(monkeypatch):
    """Planted: every piece takes the bias of the first."""
    of_piece = epilogue._Epilogue._vector
    first: list[Any] = []

    def planted(self: Any, load: Any, piece: Any, kind: Any) -> Any:
        first.append(piece)
        return of_piece(self, load, first[0], kind)

    monkeypatch.setattr(epilogue._Epilogue, "_vector", planted)
    product = Product(added=(("bias", "f32"),))
    assert product.ratio(product.compiled(of(64, 64, 64)), (64, 64, 64)) > 1.0


@pytest.mark.slow
def test_exchanged_pieces_are_caught(monkeypatch):
    made = epilogue.pieces
    monkeypatch.setattr(
        epilogue, "pieces", lambda *of: [epilogue.replace(p, row=0, column=0) for p in made(*of)]
    )
    product = Product(activation="relu")
    assert product.ratio(product.compiled(of(64, 64, 64)), (64, 64, 64)) > 1.0


@pytest.mark.parametrize("form", ["e4m3x2", "e5m2x2"])
def test_chips_round_to_fp8_as_ptxas_allows(form):
    text = """.version 8.4
.target {chip}
.address_size 64
.visible .entry k() {{
  .reg .b16 %h; .reg .f32 %f;
  cvt.rn.satfinite.{form}.f32 %h, %f, %f;
  ret;
}}"""
    for chip in ("sm_80", "sm_86", "sm_89", "sm_90"):
        accepted = assembles(text.format(chip=chip, form=form), chip)
        assert accepted == (chip in FP8_ROUNDING), chip


def test_a_chip_that_cannot_round_to_fp8_is_refused():
    types, schedule = Types("f16", "f16", "f8E5M2"), SCHEDULES[-1]
    assert schedule.complaint(types, Target.of("sm_89")) is None
    assert "needs sm_89 or later, got sm_86" in (schedule.complaint(types, Target.of("sm_86")) or "")
    with pytest.raises(
        weft.WeftError,
        match="has no schedule for sm_80 that multiplies f16 and f16 for D of f8E5M2: it needs",
    ):
        Product("f16", "f16", "f8E5M2").compiled(None, "sm_80")  # type: ignore[arg-type]
