"""A launch's description is sufficient: the emulator runs kernels from it and their PTX."""

import json
import math
import re

import numpy as np
import pytest
from bulk_kernels import map_of
from one_product import SCHEDULES, text

import weft
from weft import emulator
from weft.isa import tensor_map
from weft.launch import arrays
from weft.launch.kernel_arguments import map_of as map_of_view

MULTIPROCESSORS = 4
OPERATIONS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "ceildiv": lambda a, b: -(-a // b),
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
}


def number(text, sizes):
    """The value of an expression, `(s4 ceildiv 128)`."""
    stack = [[]]
    for token in re.findall(r"[()]|[^\s()]+", text):
        if token == "(":
            stack.append([])
        elif token == ")":
            left, what, right = stack.pop()
            stack[-1].append(OPERATIONS[what](left, right))
        elif token in OPERATIONS:
            stack[-1].append(token)
        else:
            stack[-1].append(sizes[int(token[1:])] if token.startswith("s") else int(token))
    return stack[0][0]


def described_map(array, given):
    """The tensor map of an array of f16."""
    kind = {name: given[name] for name in ("swizzle", "l2_promotion")}
    return map_of(array, tuple(given["box"][::-1]), "FLOAT16", **kind)


def launch(ptx, name, said, given):
    sizes = [size for array in given for size in array.shape]
    assert not any(number(each, sizes) for each in said["requires"])
    grid = [number(each, sizes) for each in said["grid"]]
    tiles, ctas = math.prod(grid), math.prod(said["cluster"])
    if (each := said["persistent"]) is not None:
        most = max(each * MULTIPROCESSORS // ctas, 1) * ctas
        grid = [min(tiles, most) if each else tiles, 1, 1]
    spaces = []
    for each in said["workspaces"]:
        shape = ((math.prod(grid) if each["of_ctas"] else tiles) * each["rows"], *each["row_shape"])
        spaces.append((shape, np.zeros(math.prod(shape) * each["element_bytes"], np.uint8)))
    memrefs = [(f"argument {i}", array.shape, array) for i, array in enumerate(given)]
    memrefs += [(f"workspace {i}", *space) for i, space in enumerate(spaces)]
    values = {f"map {i}": described_map(given[each["matrix"]], each) for i, each in enumerate(said["maps"])}
    for what, shape, memory in memrefs:
        values |= {f"{what}: pointer": memory, f"{what}: offset": 0}
        values |= {f"{what}: size {i}": size for i, size in enumerate(shape)}
        values |= {f"{what}: stride {i}": s for i, s in enumerate(arrays.contiguous_strides(shape))}
    return emulator.Module(ptx).launch(
        name,
        grid=grid,
        block=said["block"],
        args=[values[each] for each in said["parameters"]],
        shared_bytes=said["shared_bytes"],
        dependent=said["dependent"],
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_kernel_runs_from_its_launch_description(schedule):
    kernel = weft.compile(text(schedule), arch="sm_90a")
    said = json.loads(json.dumps(kernel.launch.description()))
    assert len(said["parameters"]) == len(re.findall(r"^\s*\.param", kernel.ptx, re.MULTILINE))
    a, b = np.random.default_rng(0).standard_normal((2, 136, 200)).astype(np.float16)
    d = np.full((136, 136), np.nan, np.float32)
    report = launch(kernel.ptx, kernel.name, said, (a, b, d))
    assert not report.findings
    np.testing.assert_allclose(d, a.astype(np.float64) @ b.T.astype(np.float64), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("parts", "promotion"), [(1, "256B"), (2, "128B")])
def test_l2_promotion_is_described_and_encoded(parts, promotion):
    schedule = f"{{block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 2, global_splits = {parts}}}"
    kernel = weft.compile(text(schedule), arch="sm_90a")
    assert [each["l2_promotion"] for each in kernel.launch.description()["maps"]] == [promotion] * 2
    view = arrays.view(np.zeros((64, 64), np.float16))
    for each in kernel.launch.maps:
        assert tensor_map.TensorMap.decode(map_of_view(view, each, 4096).encode()).l2_promotion == promotion


@pytest.mark.parametrize(("columns", "promotion"), [(64, "256B"), (128, "256B"), (72, "128B"), (80, "128B")])
def test_rows_that_begin_inside_a_line_are_not_read_in_256_bytes(columns, promotion):
    kernel = weft.compile(text("{block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 2}"), arch="sm_90a")
    view = arrays.view(np.zeros((64, columns), np.float16))
    for each in kernel.launch.maps:
        assert map_of_view(view, each, 4096).l2_promotion == promotion


def test_numbers_are_parameters_of_their_types():
    text = """gpu.module @m {
      gpu.func @k(%n: i32, %x: f32, %m: memref<4x?xf32>, %i: index) kernel { gpu.return }
    }"""
    said = weft.compile(text, arch="sm_80").launch.description()
    assert said["parameters"][:3] == ["argument 0: i32", "argument 1: f32", "argument 2: pointer"]
    assert said["parameters"][-1] == "argument 3: index" and len(said["parameters"]) == 10
    assert said["grid"] is None and said["block"] is None and said["persistent"] is None
