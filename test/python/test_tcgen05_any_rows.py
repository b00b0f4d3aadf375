"""Products for `tcgen05` whose rows of D, C and the residual begin at any element, in the emulator with its
sanitizer: every kind of schedule, of product and of D.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import cycle

import numpy as np
import pytest
from launches import complaint
from products import Case, Placed, Product
from test_tcgen05_kernels import (
    BATCHES,
    CHIP,
    CLUSTERS,
    DYNAMIC,
    EPILOGUES,
    GROUPED,
    LAYOUTS,
    PAIRS,
    SINGLE,
    SPLIT,
    SWAPPED,
    TYPES,
    Epilogue,
    fitted,
    is_legal,
    product,
)

import weft
from weft import reference
from weft.dialects.schedule import TensorMemorySchedule
from weft.launch import arrays, kernel_arguments
from weft.multiply import launches, product_kernel
from weft.multiply.launches import Rows

COPIES = "cp.async.bulk.tensor"


@dataclass(frozen=True)
class AnyRows(Product):
    """A product whose rows of A and B alone are aligned for TMA."""

    def operands(self, case: Case) -> dict[str, Placed]:
        """Those of a product with aligned rows, elsewhere in memory."""
        return {
            role: placed if role in ("a", "b") else Placed(placed.values, "shifted")
            for role, placed in super().operands(case).items()
        }

    @classmethod
    def of(cls, made: Product) -> "AnyRows":
        return cls(**{each.name: getattr(made, each.name) for each in fields(made)})


def cases() -> Iterator[tuple[AnyRows, Case]]:
    """Every schedule with several types, each with a layout, an epilogue and an N that take turns."""
    types, layouts, epilogues, many = map(cycle, (TYPES, LAYOUTS, EPILOGUES, ("", *BATCHES)))
    further = cycle((5, -3, 4, 1, 2))
    for schedule in (*SINGLE, *PAIRS, *CLUSTERS, *SWAPPED, *SPLIT, *DYNAMIC):
        for _ in range(3):
            kind, columns = next(types), next(further)
            every = product(kind, schedule, next(layouts), next(epilogues), many=next(many), members=2)
            legal = (each for each in (every, replace(every, transposed=(False, True))) if is_legal(each))
            yield AnyRows.of(next(legal)), sized(schedule, columns, kind[0])
    for schedule in GROUPED:
        for kind, form, scaled in (
            (("bf16", "bf16", "bf16"), "rows", False),
            (("f8E4M3FN", "f8E4M3FN", "bf16"), "masked", False),
            (("f8E4M3FN", "f8E4M3FN", "f32"), "rows", True),
            (("f8E4M3FN", "f8E4M3FN", "bf16"), "masked", True),
        ):
            made = product(kind, schedule, many=form, scaled=scaled, members=2)
            n = schedule.swapped(*schedule.block[:2])[1] + next(further)
            yield AnyRows.of(made), Case((160, n, 200), "integers")
    for schedule in (*SINGLE[:4], *PAIRS[:2], *SWAPPED, *DYNAMIC[:2]):
        for how in ({"scaled": True}, {"promote": True}):
            kind, columns = ("f8E4M3FN", "f8E4M3FN", "bf16"), next(further)
            made = product(kind, schedule, (False, True), next(epilogues), **how)
            yield AnyRows.of(made), sized(schedule, columns, kind[0])


def sized(schedule: TensorMemorySchedule, columns: int, element: str) -> Case:
    """A product of a tile and 3 rows, and so many more columns."""
    m, n, k = fitted(schedule, element).block
    rows, n = schedule.swapped(m, n)
    return Case((rows + 3, max(n + columns, 1), k + 24), "integers")


ALL = [(made, case) for made, case in cases() if is_legal(made)]


def test_cases_are_many() -> None:
    assert len(ALL) >= 100
    assert {made.d for made, _ in ALL} == {"f16", "bf16", "f32", "f8E4M3FN", "i32"}


@pytest.mark.each_value(1)
@pytest.mark.sampled(11)
@pytest.mark.parametrize(("made", "case"), ALL, ids=lambda each: str(each))
def test_rows_begin_anywhere(made: AnyRows, case: Case) -> None:
    kernel = weft.compile(made.module(), CHIP)
    operands = made.operands(case)
    assert kernel.taking(*(each.values for each in operands.values())) is kernel
    assert complaint(made, case, kernel, "emulator") is None


def beside(first: int, strides: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Two f16 batches of 70 x 40 with such strides in one memory, the second from element `first` on. The
    emulator aligns what memory holds from its beginning only.
    """
    memory = np.zeros(2 * strides[0], np.float16)
    apart = [2 * stride for stride in strides]
    one, other = (np.lib.stride_tricks.as_strided(memory[at:], (2, 70, 40), apart) for at in (0, first))
    return one, other


ALIGNED = (48, (8192, 96, 1))


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    ("first", "strides", "by_tma"),
    [
        (*ALIGNED, True),
        (49, (8192, 96, 1), False),
        (44, (8192, 96, 1), False),
        (48, (8192, 97, 1), False),
        (48, (8196, 96, 1), False),  # each other product has aligned rows
    ],
)
def test_tma_stores_what_it_can(first: int, strides: tuple[int, int, int], by_tma: bool) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, (2, rows, 64)).astype(np.float16) for rows in (70, 40))
    made = product(TYPES[0], SINGLE[0], epilogue=Epilogue(added=("residual",)), many="batch")
    kernel = weft.compile(made.module(), CHIP)
    copies = []
    for where in (ALIGNED, (first, strides)):
        residual, d = beside(*where)
        residual[...] = added = rng.integers(-9, 9, (2, 70, 40))
        report = kernel.emulate(a, b, d, residual)
        assert not report.findings
        assert (d == a @ b.transpose(0, 2, 1) + added).all()
        copies.append(report.counters[COPIES])
    assert (copies[1] == copies[0]) == by_tma


def test_a_map_of_rows_anywhere_is_one_that_the_driver_takes() -> None:
    kernel = weft.compile(product(TYPES[0], SINGLE[0]).module(), CHIP)
    assert kernel.launch.aligned == (16, 16, 1)
    *operands, result = kernel.launch.maps
    assert result.any_rows and not any(each.any_rows for each in operands)
    for columns, bytes_ in ((40, 80), (41, 96), (44, 96)):
        view = arrays.view(np.zeros((70, columns), np.float16))
        found = kernel_arguments.map_of(view, result, 0)
        assert (found.strides, found.complaint()) == ((bytes_,), None)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("chip", ["sm_100a", "sm_103a", "sm_110a"])
def test_other_rows_of_a_are_multiplied_by_mma_sync(chip: str) -> None:
    kernel = weft.compile(product(TYPES[2], SINGLE[0], scaled=True).module(), chip)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (32, 130)).astype(arrays.numpy_dtype(kind)) for kind in TYPES[2][:2])
    d = np.zeros((32, 32), arrays.numpy_dtype("bf16"))
    kernel.emulate(a, b, d, np.full((2, 32), 2, np.float32), np.full((1, 2), 0.5, np.float32))
    assert (d.astype(float) == a.astype(float) @ b.astype(float).T).all()


@pytest.fixture
def emulates_sm_100a(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of the CPU are multiplied by kernels for this chip."""
    monkeypatch.setattr(product_kernel, "_EMULATED", (CHIP,))
    monkeypatch.setattr(launches, "run_with_copies", _run_without_copies)


def _run_without_copies(
    kernel: weft.Kernel, views: list[arrays.ArrayView], copied: dict[int, Rows], on: str | None = None
) -> None:
    assert not copied
    assert kernel.taking(*views) is kernel
    assert "tcgen05.mma" in kernel.ptx
    kernel(*views, on=on)


@pytest.mark.each_value(1)
@pytest.mark.usefixtures("emulates_sm_100a")
@pytest.mark.parametrize("how", ["plain", "promote", "scales", "groups"])
def test_matmul_copies_no_result(how: str) -> None:
    rng, kind = np.random.default_rng(2), arrays.numpy_dtype("f8E4M3FN")
    a, b = (rng.integers(-3, 4, (rows, 144)).astype(kind) for rows in (50, 37))
    options: dict[str, object] = {"promote": True} if how == "promote" else {}
    if how == "scales":
        scale_a, scale_b = np.full((2, 50), 2, np.float32).T, np.full((1, 2), 0.5, np.float32)
        options = {"scales": (scale_a, scale_b)}
    if how == "groups":
        options, b = {"groups": np.zeros(50, np.int32)}, b[None]
    d = weft.matmul(a, b, transpose_b=True, out_dtype="f32", **options)
    assert (d == a.astype(np.float32) @ np.atleast_3d(b.T)[..., 0].astype(np.float32)).all()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "d"), [("nvfp4", "bf16"), ("mxfp8", "f32")])
@pytest.mark.usefixtures("emulates_sm_100a")
def test_matmul_copies_no_result_of_block_scales(name: str, d: str) -> None:
    rng = np.random.default_rng(3)
    a, b = (reference.quantize(rng.standard_normal((rows, 256)), name) for rows in (130, 75))
    out = weft.matmul(
        *(a.elements, b.elements),
        kind=name,
        scales=(a.tiled_scales, b.tiled_scales),
        transpose_b=True,
        out_dtype=d,
    )
    scales = {"scale_a": a.tiled_scales, "scale_b": b.tiled_scales}
    wanted = reference.product(a.elements, b.elements, transpose_b=True, **scales, dtype=out.dtype)
    assert wanted.compare(out).passed
