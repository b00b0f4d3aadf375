"""Products of fp8 whose kernels scale each row and column by factors in memory, in the emulator."""

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.dialects import context
from weft.dialects.schedule import AnySchedule, WarpgroupSchedule

M, N, K = 72, 80, 144


@pytest.mark.each_value(1)
@pytest.mark.sampled(7)
@pytest.mark.parametrize("roles", [("row_factors", "column_factors"), ("row_factors",), ("column_factors",)])
@pytest.mark.parametrize(
    ("chip", "promote", "schedule"),
    [
        ("sm_89", False, None),
        ("sm_90a", False, None),
        ("sm_90a", True, None),
        ("sm_90a", False, WarpgroupSchedule((64, 64, 64), 1, 3, swap=True)),
        ("sm_90a", False, WarpgroupSchedule((64, 64, 64), 1, 3, global_splits=2)),
        ("sm_90a", False, WarpgroupSchedule((64, 64, 64), 1, 3, stream_k=True)),
        ("sm_100a", False, None),
        ("sm_100a", True, None),
        ("sm_120a", False, None),
    ],
    ids=str,
)
def test_rows_and_columns_are_scaled(
    chip: str, promote: bool, schedule: AnySchedule | None, roles: tuple[str, ...]
) -> None:
    sizes = {"row_factors": M, "column_factors": N}
    arguments = "".join(f", %{role}: memref<{sizes[role]}xf32>" for role in roles)
    operands = "".join(f", %{role}" for role in roles)
    kinds = f"memref<{M}x{K}xf8E4M3FN>", f"memref<{N}x{K}xf8E5M2>", f"memref<{M}x{N}xf32>"
    types = ", ".join((*kinds, *(f"memref<{sizes[role]}xf32>" for role in roles)))
    given = ", ".join(str(int(role in roles)) for role in ("row_factors", "column_factors"))
    with context():
        chosen = f", schedule = {schedule.attribute()}" if schedule else ""
    text = f"""func.func @product(%a: {kinds[0]}, %b: {kinds[1]}, %d: {kinds[2]}{arguments}) {{
      "tile.matmul"(%a, %b, %d{operands}) {{
        operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, {given}, 0, 0>,
        transpose_b = true, alpha = 0.5 : f32,
        promote = {str(promote).lower()}{chosen}}} : ({types}) -> ()
      return
    }}"""
    kernel = weft.compile(text, chip)
    chance = np.random.default_rng(1)
    a = chance.integers(-3, 4, (M, K)).astype(ml_dtypes.float8_e4m3fn)
    b = chance.integers(-3, 4, (N, K)).astype(ml_dtypes.float8_e5m2)
    given = {role: chance.choice(np.float32([0.25, 0.5, 2, 3, -1]), sizes[role]) for role in roles}
    d = np.full((M, N), np.nan, np.float32)
    assert not kernel.emulate(a, b, d, *given.values()).findings
    rows = given.get("row_factors", np.ones(M, np.float32))[:, None]
    columns = given.get("column_factors", np.ones(N, np.float32))
    assert np.array_equal(d, a.astype(np.float32) @ b.astype(np.float32).T * 0.5 * rows * columns)
