"""Products for `tcgen05` in the emulator, with its sanitizer: every kind of schedule with every type, layout
and epilogue, at sizes that nothing divides; and what ptxas makes of their kernels.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path

import pytest
from launches import complaint
from machine_code import local_memory
from products import Case, Product

import weft
from weft.dialects.schedule import TensorMemorySchedule
from weft.schedules import choice
from weft.target import Target
from weft.tools import weft as tool

CHIP = "sm_100a"


def of(m: int, n: int, accumulators: int = 2, stages: int = 2, **fields: object) -> TensorMemorySchedule:
    """A schedule whose K blocks have 128 elements of 8 bits; `fitted` makes it one for other types."""
    return TensorMemorySchedule((m, n, 128), accumulators, stages, **fields)  # type: ignore[arg-type]


SINGLE = (
    of(128, 32),
    of(64, 32),
    of(128, 48, 1, 3),
    of(128, 64, epilogues=2),
    of(256, 16, 1),
    of(256, 32, 2, epilogues=2),
    of(64, 96, 1, epilogues=2),
)
PAIRS = (
    of(256, 32, cta_group=2),
    of(128, 64, cta_group=2),
    of(256, 96, 1, 3, cta_group=2, epilogues=2),
    of(512, 32, 1, cta_group=2, epilogues=2),
)
CLUSTERS = (
    of(128, 16, cluster=(2, 1)),
    of(128, 64, cluster=(1, 2)),
    of(256, 32, cta_group=2, cluster=(1, 2)),
    of(256, 64, cta_group=2, cluster=(2, 1)),
)
SWAPPED = (of(128, 16, swap=True), of(64, 32, swap=True), of(256, 32, cta_group=2, swap=True))
SPLIT = (
    of(128, 32, global_splits=3),
    of(256, 32, cta_group=2, global_splits=2),
    of(128, 16, global_splits=2, swap=True),
)
DYNAMIC = (
    of(128, 32, dynamic=True),
    of(256, 32, cta_group=2, dynamic=True),
    of(128, 32, cluster=(2, 1), dynamic=True),
    of(256, 64, cta_group=2, cluster=(1, 2), epilogues=2, dynamic=True),
    of(128, 16, swap=True, dynamic=True),
)
SCHEDULES = (*SINGLE, *PAIRS, *CLUSTERS, *SWAPPED, *SPLIT, *DYNAMIC)
GROUPED = (
    of(128, 32),
    of(64, 32),
    of(128, 64, cta_group=2),
    of(128, 32, swap=True),
    of(64, 64, cluster=(2, 1)),
)

TYPES = (
    ("f16", "f16", "f16"),
    ("bf16", "bf16", "f32"),
    ("f8E4M3FN", "f8E5M2", "bf16"),
    ("f32", "f32", "f32"),
    ("i8", "ui8", "i32"),
    ("f16", "f16", "f8E4M3FN"),
    ("f8E5M2", "f8E4M3FN", "f32"),
    ("bf16", "bf16", "bf16"),
)
LAYOUTS = ((False, True), (False, False), (True, True), (True, False))


@dataclass(frozen=True)
class Epilogue:
    """What is done with the sums."""

    alpha: float = 1.0
    beta: float = 0.0
    added: tuple[str, ...] = ()
    activation: str | None = None


EPILOGUES = (
    Epilogue(),
    Epilogue(added=("bias",), activation="relu"),
    Epilogue(0.5, 2.0),
    Epilogue(beta=1.0, added=("c", "bias")),
    Epilogue(added=("residual",), activation="silu"),
    Epilogue(0.5, -2.0, ("c", "bias", "residual"), "gelu"),
    Epilogue(added=("bias", "residual"), activation="gelu_tanh"),
)
SIZES = ((-5, -3, 24), (3, 5, -8), (-60, 8, 136), (0, 0, 0), (-1, -15, 1))
"""What M, N and K have in addition to one tile, or lack."""
BATCHES = ("batch", "one a", "one b")


def fitted(schedule: TensorMemorySchedule, element: str) -> TensorMemorySchedule:
    """The schedule with K blocks of 128 bytes."""
    m, n, _ = schedule.block
    return replace(schedule, block=(m, n, {"f16": 64, "bf16": 64, "f32": 32}.get(element, 128)))


def product(
    types: tuple[str, str, str],
    schedule: TensorMemorySchedule,
    layout: tuple[bool, bool] = (False, True),
    epilogue: Epilogue = EPILOGUES[0],
    **how: object,
) -> Product:
    """A product, with what its types allow of the epilogue."""
    a, b, d = types
    integers = d == "i32"
    kinds = {"c": d, "bias": "i32" if integers else "f32", "residual": d}
    if d.startswith("f8"):
        kinds |= {"c": "bf16", "residual": "bf16"}
    added = tuple((role, kinds[role]) for role in epilogue.added)
    return Product(
        *(a, b, d, fitted(schedule, a), layout),
        alpha=1.0 if integers else epilogue.alpha,
        beta=min(epilogue.beta, 1.0)
        if integers and epilogue.beta > 0
        else 0.0
        if integers
        else epilogue.beta,
        added=tuple(each for each in added if each[0] != "c" or not integers or epilogue.beta > 0),
        activation=None if integers and epilogue.activation != "relu" else epilogue.activation,
        **how,  # type: ignore[arg-type]
    )


def is_legal(each: Product) -> bool:
    """Whether a schedule is legal for the product's types and layouts."""
    assert each.schedule is not None
    return each.schedule.complaint(each.types, Target.of(CHIP)) is None


def sized(
    schedule: TensorMemorySchedule, further: tuple[int, int, int], element: str
) -> tuple[int, int, int]:
    """M, N and K of a product that is larger than one tile by so much."""
    m, n, k = map(sum, zip(fitted(schedule, element).block, further, strict=True))
    return *schedule.swapped(max(m, 1), max(n, 1)), k


def cases() -> Iterator[tuple[Product, Case]]:
    """Every schedule with every type, each with a layout, an epilogue and a size that take turns."""
    layouts, epilogues, sizes, many = map(cycle, (LAYOUTS, EPILOGUES, SIZES, BATCHES))
    for turn in range(2):
        for schedule in SCHEDULES:
            for types in TYPES:
                how = {"many": next(many), "members": 2} if turn else {}
                every = product(types, schedule, next(layouts), next(epilogues), **how)
                legal = (each for each in (every, replace(every, transposed=(False, True))) if is_legal(each))
                yield next(legal), Case(sized(schedule, next(sizes), types[0]), "integers")
    for schedule in GROUPED:
        for types, form, scaled in (
            (("bf16", "bf16", "bf16"), "rows", False),
            (("f8E4M3FN", "f8E4M3FN", "bf16"), "masked", False),
            (("f8E4M3FN", "f8E4M3FN", "f32"), "rows", True),
            (("f8E4M3FN", "f8E4M3FN", "bf16"), "masked", True),
        ):
            made = product(types, schedule, many=form, scaled=scaled, members=2)
            yield made, Case((160, schedule.swapped(*schedule.block[:2])[1] + 5, 200), "integers")
    for schedule in (*SINGLE[:5], *PAIRS[:3], *SWAPPED, *DYNAMIC[::2]):
        for how in ({"scaled": True}, {"promote": True}):
            both = ("f8E4M3FN", "f8E4M3FN", "f32"), ("f8E4M3FN", "f8E5M2", "bf16")
            for types, epilogue in zip(both, EPILOGUES[::3], strict=False):
                made = product(types, schedule, (False, True), epilogue, **how)
                yield made, Case(sized(schedule, next(sizes), types[0]), "integers")


ALL = [(made, case) for made, case in cases() if is_legal(made)]


def test_cases_are_many() -> None:
    assert len(ALL) >= 400
    assert {made.schedule and replace(made.schedule, block=(0, 0, 0)) for made, _ in ALL} >= {
        replace(schedule, block=(0, 0, 0)) for schedule in SCHEDULES
    }


@pytest.mark.each_value(1)
@pytest.mark.sampled(23)
@pytest.mark.parametrize(("made", "case"), ALL, ids=lambda each: str(each))
def test_products(made: Product, case: Case) -> None:
    kernel = weft.compile(made.module(), CHIP)
    assert complaint(made, case, kernel, "emulator") is None
    assert not local_memory(kernel)


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", ["promote", "scaled"])
@pytest.mark.parametrize(
    "schedule",
    [
        of(128, 192, 1, epilogues=2),
        of(512, 96, 1, cta_group=2, epilogues=2),
        of(256, 96, cta_group=2, epilogues=2, dynamic=True),
    ],
    ids=str,
)
def test_two_warpgroups_hold_promoted_sums(schedule: TensorMemorySchedule, how: str) -> None:
    made = product(TYPES[2], schedule, epilogue=EPILOGUES[3], **{how: True})
    kernel = weft.compile(made.module(), CHIP)
    assert kernel.ptx.count("setmaxnreg") == 2
    assert (
        complaint(made, Case(sized(schedule, (-5, -3, 136), TYPES[2][0]), "integers"), kernel, "emulator")
        is None
    )


@pytest.mark.slow
def test_shared_memory_is_what_the_schedule_states() -> None:
    for schedule in SCHEDULES:
        made = product(TYPES[0], schedule)
        kernel = weft.compile(made.module(), CHIP)
        assert made.schedule is not None
        assert kernel.launch.shared_bytes == made.schedule.shared_bytes(made.types), made


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["sm_100a", "sm_100f", "sm_103a", "sm_110a"])
def test_products_get_such_a_kernel(chip: str) -> None:
    kernel = weft.compile(Product("bf16", "bf16", "bf16").module(), chip)
    assert "tcgen05.mma" in kernel.ptx
    assert "mma.sync" in kernel.for_any_rows.ptx


CHOSEN = (
    Product("bf16", "bf16", "bf16"),
    Product("f8E4M3FN", "f8E5M2", "f16", transposed=(True, False)),
    Product("f32", "f32", "f32", transposed=(True, False)),
    Product("f8E4M3FN", "f8E4M3FN", "bf16", scaled=True),
    Product("f8E4M3FN", "f8E4M3FN", "bf16", scaled=True, many="rows"),
    Product("f8E4M3FN", "f8E4M3FN", "f32", promote=True, many="masked"),
)


@pytest.mark.each_value(1)
@pytest.mark.sampled(9)
@pytest.mark.parametrize("shape", [(8, 300, 136), (100, 90, 140), (260, 40, 72)], ids=str)
@pytest.mark.parametrize("made", CHOSEN, ids=str)
def test_schedules_that_are_chosen(made: Product, shape: tuple[int, int, int]) -> None:
    schedule = choice.choose(*shape, made.types, CHIP)
    assert isinstance(schedule, TensorMemorySchedule)
    chosen = replace(made, schedule=schedule)
    kernel = weft.compile(chosen.module(), CHIP)
    assert complaint(chosen, Case(shape, "integers"), kernel, "emulator") is None
    assert not local_memory(kernel)


def test_integers_get_one_where_the_chip_multiplies_them() -> None:
    bytes_ = Product("i8", "ui8", "i32").module()
    assert "tcgen05.mma" in weft.compile(bytes_, "sm_100a").ptx
    assert "sm_103a" not in TensorMemorySchedule.chips(Product("i8", "ui8", "i32").types)


@pytest.mark.slow
def test_rows_that_lie_anywhere_are_multiplied_by_mma_sync() -> None:
    made = Product("bf16", "bf16", "bf16", rows="shifted")
    kernel = weft.compile(made.module(), CHIP)
    assert complaint(made, Case((40, 35, 50), "integers"), kernel, "emulator") is None


def test_tiles_are_asked_for_after_the_previous_launch() -> None:
    """Those of its CTAs that the launch starts while the previous one runs would take over all others'."""
    ptx = weft.compile(product(TYPES[0], DYNAMIC[0]).module(), CHIP).ptx
    before, _, _ = ptx.partition("clusterlaunchcontrol.try_cancel")
    assert before.rindex("griddepcontrol.wait") > before.rindex("elect.sync")


def test_a_launch_describes_what_the_kernel_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schedule = "{block = array<i64: 256, 240, 64>, accumulators = 2, stages = 4, cta_group = 2}"
    text = f"""
      func.func @product(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xbf16>) {{
        "tile.matmul"(%a, %b, %d) {{
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>,
    transpose_b = true, schedule = {schedule}}}
          : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>) -> ()
        return
      }}
    """
    (tmp_path / "product.mlir").write_text(text)
    assert tool.main(["compile", str(tmp_path / "product.mlir"), "--arch", CHIP, "--emit", "launch"]) == 0
    said = json.loads(capsys.readouterr().out)["product"]
    assert (said["tensor_columns"], said["stages"]) == (512, 4)
    assert 0 < said["registers"] <= 255


@pytest.mark.each_value(1)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
@pytest.mark.parametrize(
    "schedule",
    [SINGLE[0], PAIRS[0], CLUSTERS[2], SWAPPED[0], DYNAMIC[1], DYNAMIC[2], SPLIT[1]],
    ids=str,
)
def test_warps_may_run_in_any_order(schedule: TensorMemorySchedule, seed: int) -> None:
    made = product(TYPES[0], schedule)
    case = Case(sized(schedule, (3, 5, 136), "f16"), "integers")
    operands = made.operands(case)
    report = weft.compile(made.module(), CHIP).emulate(
        *(each.values for each in operands.values()), seed=seed
    )
    assert not report.findings
    assert (operands["d"].values == made.wanted(case, operands).values).all()


FULL = Epilogue(0.5, -2.0, ("c", "bias", "residual"), "gelu")
LARGE = (
    (of(256, 256, 2, 5, cta_group=2), TYPES[7], {}),
    (of(256, 240, 2, 5, cta_group=2), TYPES[1], {}),
    (of(512, 256, 1, 3, cta_group=2, epilogues=2), TYPES[7], {}),
    (of(128, 256, 1, 3, epilogues=2), TYPES[5], {}),
    (of(128, 256, 2, 3), TYPES[4], {}),
    (of(64, 256, 2, 3), TYPES[0], {}),
    (of(128, 64, 2, 4, swap=True), TYPES[7], {}),
    (of(256, 256, 2, 4, cta_group=2, dynamic=True), TYPES[0], {}),
    (of(128, 256, 2, 3, global_splits=4), TYPES[7], {}),
    (of(128, 128, 2, 3), TYPES[2], {"scaled": True}),
    (of(128, 192, 1, 2, epilogues=2), TYPES[2], {"scaled": True, "many": "rows"}),
    (of(512, 96, 2, 3, cta_group=2, epilogues=2), TYPES[6], {"promote": True, "many": "batch"}),
)


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.sampled(36)
@pytest.mark.parametrize("chip", ["sm_100a", "sm_103a", "sm_110a"])
@pytest.mark.parametrize("epilogue", [EPILOGUES[0], FULL], ids=["plain", "full"])
@pytest.mark.parametrize(("schedule", "types", "how"), LARGE, ids=str)
def test_large_tiles_spill_nothing(
    schedule: TensorMemorySchedule,
    types: tuple[str, str, str],
    how: dict[str, bool],
    epilogue: Epilogue,
    chip: str,
) -> None:
    made = product(types, schedule, epilogue=epilogue, **how)
    if chip not in TensorMemorySchedule.chips(made.types):
        return  # integers on sm_103a
    kernel = weft.compile(made.module(), chip)
    print(f"{kernel.resources.registers} registers")
    assert not local_memory(kernel)
