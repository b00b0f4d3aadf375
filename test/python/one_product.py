"""A module with one product, and a schedule for each kind of launch."""

PLAIN = "{block = array<i64: 32, 32, 32>, warps = array<i64: 2, 1>, stages = 2}"
MAPS = "{block = array<i64: 128, 64, 64>, warpgroups = 2, stages = 2, cluster = array<i64: 2, 1>}"
PARTS = "{block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 2, global_splits = 3}"
STREAM_K = "{block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 2, stream_k = true}"
SCHEDULES = (PLAIN, MAPS, PARTS, STREAM_K)

_TEXT = """func.func @product(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {{
  "tile.matmul"(%a, %b, %d) {{
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true{}}}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}}
"""


def text(schedule: str | None = PLAIN) -> str:
    return _TEXT.format("" if schedule is None else f", schedule = {schedule}")
