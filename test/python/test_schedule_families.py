"""A schedule family of another package: its attribute, legality, launch, choice and kernel."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import weft
from weft import schedules, tuning
from weft.dialects import tile
from weft.dialects.schedule import AnySchedule, Schedule, Types, WarpgroupSchedule, read_schedule
from weft.dialects.schedule.families import FAMILIES
from weft.isa.chips import CHIPS
from weft.mlir import arith, gpu, ir, memref, scf
from weft.passes.expand_matmul import KERNELS
from weft.schedules import choice

TYPES = Types("f16", "f16", "f32", (False, True))


@dataclass(frozen=True)
class ScalarSchedule(AnySchedule):
    """A thread for each element of a column of D."""

    scalar_rows: int
    stages: int = 1
    group: int = 1

    instruction: ClassVar[str] = "fma"
    key: ClassVar[str] = "scalar_rows"
    takes_any_rows: ClassVar[bool] = True

    @property
    def block(self) -> tuple[int, int, int]:  # type: ignore[override]
        return self.scalar_rows, 1, 1

    @property
    def threads(self) -> int:
        return self.scalar_rows

    def shared_bytes(self, types: Types) -> int:
        return 0

    @classmethod
    def chips(cls, types: Types) -> frozenset[str]:
        return frozenset(CHIPS) if types == TYPES else frozenset()

    def complaint(self, types: Types, target: Any = None) -> str | None:
        return None if 1 <= self.scalar_rows <= 1024 else f"scalar_rows must be in 1..1024, got {self}"


def expand(op: Any) -> None:
    """`D = A B` with one thread for each element."""
    row = arith.addi(
        arith.muli(gpu.block_id(gpu.Dimension.x), gpu.block_dim(gpu.Dimension.x)),
        gpu.thread_id(gpu.Dimension.x),
    )
    column = gpu.block_id(gpu.Dimension.y)
    index, f32 = ir.IndexType.get(), ir.F32Type.get()
    rows = memref.dim(op.d, arith.constant(index, 0))
    depth = memref.dim(op.a, arith.constant(index, 1))
    inside = scf.IfOp(arith.cmpi(arith.CmpIPredicate.ult, row, rows))
    with ir.InsertionPoint(inside.then_block):
        loop = scf.ForOp(
            arith.constant(index, 0), depth, arith.constant(index, 1), [arith.constant(f32, 0.0)]
        )
        with ir.InsertionPoint(loop.body):
            places = (op.a, [row, loop.induction_variable]), (op.b, [loop.induction_variable, column])
            a, b = (arith.extf(f32, memref.load(matrix, indices)) for matrix, indices in places)
            scf.yield_([arith.addf(loop.inner_iter_args[0], arith.mulf(a, b))])
        memref.store(loop.results[0], op.d, [row, column])
        scf.yield_([])


@pytest.fixture
def scalar(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    chooser = choice.Chooser(lambda r: ScalarSchedule(32) if r.k == 1 else None)
    monkeypatch.setitem(KERNELS, ScalarSchedule, expand)
    monkeypatch.setitem(choice.CHOOSERS, ScalarSchedule, chooser)
    FAMILIES.add(ScalarSchedule)
    yield
    FAMILIES.remove(ScalarSchedule)


def product(schedule: AnySchedule | str | None, k: int | str = "?") -> weft.Module:
    with weft.Module() as module:
        kinds = [
            weft.memref(shape, element, strides=("?", 1))
            for shape, element in ((f"?x{k}", "f16"), (f"{k}x?", "f16"), ("?x?", "f32"))
        ]
        with module.func("product", kinds) as (a, b, d):
            tile.matmul(a, b, d, schedule=schedule)
    return module


@pytest.mark.usefixtures("scalar")
@pytest.mark.parametrize("schedule", ["{scalar_rows = 64}", ScalarSchedule(64)], ids=type)
def test_a_schedule_of_another_family_makes_its_own_kernel(schedule):
    kernel = weft.compile(product(schedule), arch="sm_80")
    assert (kernel.launch.block, kernel.launch.shared_bytes) == ((64, 1, 1), 0)
    a, b = np.ones((70, 5), np.float16), np.arange(15, dtype=np.float16).reshape(5, 3)
    d = np.zeros((70, 3), np.float32)
    kernel(a, b, d, on="emulator")
    assert (d == a.astype(np.float32) @ b.astype(np.float32)).all()


@pytest.mark.usefixtures("scalar")
def test_a_chooser_of_another_family_is_asked_first():
    assert choice.choose(64, 64, 1, TYPES, "sm_90a") == ScalarSchedule(32)
    assert isinstance(choice.choose(64, 64, 64, TYPES, "sm_90a"), WarpgroupSchedule)
    assert isinstance(choice.choose(64, 64, 64, TYPES, "sm_80"), Schedule)


def passed_over(types, chip, m=64):
    """Why a product whose schedule is one of mma.sync has none of the families that are preferred."""
    return choice.passed_over(m, 64, 64, types, chip, Schedule((64, 64, 64), (2, 2), 3))


def test_each_family_that_is_preferred_has_a_reason_not_to_be_chosen(monkeypatch):
    what = "must be legal for 70 x 64 x 64 and have a model of its time on sm_90a, got none"
    reasons = passed_over(TYPES, "sm_90a")
    assert reasons[0].startswith("a schedule of tcgen05 needs sm_100f, sm_100a, ")
    assert reasons[1:] == [
        "a schedule of wgmma was slower when the product was tuned",
        f"a schedule of mma.sync with TMA {what.replace('70', '64')}",
        "a schedule of mma.sync from registers can't read the operands: B must be K-major "
        "(transpose_b = true), as lanes load it, got an MN-major one",
    ]
    (_, layout, *_) = passed_over(Types("i8", "i8", "i32", (True, False)), "sm_90a")
    assert layout.startswith("a schedule of wgmma can't read the operands: A must be K-major")
    kinds = passed_over(Types("f32", "f16", "f32"), "sm_100a")[0]
    assert kinds == "a schedule of tcgen05 has no instruction for f32 and f16 and D of f32"
    monkeypatch.setitem(choice.CHOOSERS, WarpgroupSchedule, choice.Chooser(lambda request: None))
    assert passed_over(TYPES, "sm_90a", m=70)[1] == f"a schedule of wgmma {what}"


@pytest.mark.usefixtures("scalar")
def test_a_family_without_a_chooser_is_passed_over(monkeypatch):
    monkeypatch.delitem(choice.CHOOSERS, ScalarSchedule)
    reason = passed_over(TYPES, "sm_80")[0]
    assert reason == "a schedule of fma is used only where the product names one"


@pytest.mark.usefixtures("scalar")
def test_mistakes_with_another_family_are_told(monkeypatch):
    with pytest.raises(weft.WeftError, match=r"scalar_rows must be in 1\.\.1024"):
        product(ScalarSchedule(2000))
    with pytest.raises(weft.WeftError, match=r"'scalar_rows' \(for fma\)"):
        read_schedule("{stages = 3}")
    both = r"only one of the fields 'warpgroups' \(for wgmma\) and 'accumulators' \(for tcgen05\)"
    with pytest.raises(weft.WeftError, match=both):
        read_schedule("{stages = 3, accumulators = 1, warpgroups = 2}")
    monkeypatch.delitem(KERNELS, ScalarSchedule)
    with pytest.raises(weft.WeftError, match="schedule of fma, for which no kernel is registered"):
        weft.compile(product(ScalarSchedule(64)), arch="sm_80")


def test_a_family_is_known_by_a_field_of_its_own():
    @dataclass(frozen=True)
    class Keyless(ScalarSchedule):
        key: ClassVar[str] = "stages"

    @dataclass(frozen=True)
    class Doubled(ScalarSchedule):
        warps: int = 1

    with pytest.raises(weft.WeftError, match="key must be a field without a default, got 'stages'"):
        FAMILIES.add(Keyless)
    with pytest.raises(weft.WeftError, match="fields must not have the key of Schedule, got 'warps'"):
        FAMILIES.add(Doubled)


def test_models_choices_and_searches_ask_no_schedule_for_its_family():
    """A family states in its own file what it is, what it does and what it costs."""
    asks = re.compile(r"isinstance\([^)]*Schedule\b|getattr\((s|schedule|chosen)\b")
    for package in (schedules, tuning):
        for path in Path(package.__path__[0]).glob("*.py"):
            assert not asks.findall(path.read_text(encoding="utf-8")), path
