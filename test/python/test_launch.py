"""Launch attributes of a kernel, and the grid and block of a call."""

import numpy as np
import pytest

import weft
from weft.compiler.stages import compile_module
from weft.isa.tensor_map import SWIZZLE_NAMES

MAP = "affine_map<(a, b) -> ({})>"
GRID = f"weft.grid = {MAP.format('a, b, 1')}"
TENSOR_MAP = "weft.tensor_maps = [{{box = array<i64: 8, 8>, l2_promotion = {}, matrix = 1, swizzle = {}}}]"


def kernel_of(attributes: str = "", arguments: str = "%n: i32, %m: memref<?x?xf32>") -> str:
    kernel = f"gpu.func @k({arguments}) kernel attributes {{{attributes}}} {{ gpu.return }}"
    return f"gpu.module @m {{\n  {kernel}\n}}"


REFUSED = {
    "weft.grid = 3 : i32": "weft.grid must be an affine map, got 3 : i32",
    "weft.grid = affine_map<(a) -> (a, 1, 1)>": "weft.grid must map the 2 sizes of the memref",
    "weft.grid = affine_map<(a, b)[s] -> (a, s, 1)>": "weft.grid must map the 2 sizes",
    f"weft.grid = {MAP.format('a, b')}": "weft.grid must have 3 results",
    f"weft.grid = {MAP.format('a mod 0, b, 1')}": "constants above 0 only, got d0 mod 0",
    f"weft.grid = {MAP.format('a floordiv 0, b, 1')}": "constants above 0 only, got d0 floordiv 0",
    f"weft.grid = {MAP.format('a, b ceildiv -2, 1')}": "constants above 0 only, got d1 ceildiv -2",
    "weft.requires = [1]": "weft.requires must be an affine map, got [1]",
    "weft.requires = affine_map<() -> (0)>": "weft.requires must map the 2 sizes",
    'weft.writes = "x"': 'weft.writes must be array<i32: ...>, got "x"',
    "weft.writes = array<i64: 9>": "weft.writes must be array<i32: ...>, got array<i64: 9>",
    "weft.writes = array<i32: 9>": "weft.writes must have the numbers of memref arguments, got 9",
    "weft.writes = array<i32: -1>": "weft.writes must have the numbers of memref arguments, got -1",
    "weft.writes = array<i32: 0>": "weft.writes must have the numbers of memref arguments, got 0",
    'weft.shared_bytes = "x"': 'weft.shared_bytes must be an integer, got "x"',
    "weft.shared_bytes = true": "weft.shared_bytes must be an integer, got true",
    "weft.shared_bytes = -1 : i32": "weft.shared_bytes must be at least 0, got -1",
    "weft.tensor_maps = 3 : i32": "weft.tensor_maps must be an array, got 3 : i32",
    "weft.tensor_maps = [{matrix = 0}]": "must have the fields box, l2_promotion, matrix, swizzle",
    TENSOR_MAP.format(3, 3): "weft.tensor_maps must have the fields box, l2_promotion, matrix, swizzle",
    TENSOR_MAP.format('"512B"', '"none"'): "l2_promotion must be one of none, 64B, 128B, 256B, got 512B",
    TENSOR_MAP.format('"64B"', '"512B"'): f"swizzle must be one of {', '.join(SWIZZLE_NAMES)}, got 512B",
    TENSOR_MAP.format('"64B"', '"64B"'): "than its last arguments, 0 of type !llvm.ptr, got 1",
    "weft.workspace = 3 : i32": "weft.workspace must be array<i64: ...>, got 3 : i32",
    "weft.workspace = array<i64: 1>": "must have weft.grid with weft.workspace, whose rows",
    f"{GRID}, weft.workspace = array<i64>": "weft.workspace must have numbers above 0",
    f"{GRID}, weft.workspace = array<i64: 0>": "weft.workspace must have numbers above 0",
    f"{GRID}, weft.workspace = array<i64: 1, 1, 1>": "0, one for each of the last arguments",
    f"{GRID}, weft.workspace = array<i64: 1>": "must have a dynamic first size and fixed other sizes, got",
    "weft.cta_workspace = 3 : i32": "weft.cta_workspace must be array<i64: ...>, got 3 : i32",
    "weft.cta_workspace = array<i64: 1>": "memrefs of weft.cta_workspace must have a dynamic first size",
    "weft.cta_workspace = array<i64: 1>, weft.workspace = array<i64: 1>": "must have one of weft.workspace",
    "weft.gird = 3 : i32": "has an unknown launch attribute 'weft.gird': they are weft.grid,",
    "known_block_size = array<i32: 32, 0, 1>": "attribute 'known_block_size' failed to satisfy constraint",
}


MAPS_REFUSED = {
    "box = array<i64: 8, 8>, matrix = -1": "maps must be the number of a memref argument, got -1",
    "box = array<i64: 8, 8>, matrix = 0": "maps must be the number of a memref argument, got 0",
    "box = array<i64: 8, 8>, matrix = 3": "maps must be the number of a memref argument, got 3",
    "box = array<i64: 8, 8>, matrix = 2": "maps must have rank 2, 3 or 4, got argument 2, memref<8xf32>",
    "box = array<i64: 512, 8>, matrix = 1": "maps must have rows and columns in 1..256, got [512, 8]",
    "box = array<i64: 1, 8, 8>, matrix = 1": "maps must have rows and columns in 1..256, got [1, 8, 8]",
}


@pytest.mark.parametrize("said", list(MAPS_REFUSED))
def test_tensor_maps_that_no_launch_could_make_are_refused(said):
    attributes = f'weft.tensor_maps = [{{{said}, l2_promotion = "128B", swizzle = "none"}}]'
    arguments = "%n: i32, %m: memref<?x?xf32>, %v: memref<8xf32>, %p: !llvm.ptr"
    with pytest.raises(weft.WeftError) as caught:
        compile_module(kernel_of(attributes, arguments), "sm_90a")
    assert str(caught.value).startswith("-:2:3: error: 'gpu.func' op ")
    assert MAPS_REFUSED[said] in str(caught.value)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("attributes", list(REFUSED))
def test_launch_attributes_that_do_not_fit_are_refused_with_their_source_location(attributes):
    with pytest.raises(weft.WeftError) as caught:
        compile_module(kernel_of(attributes), "sm_80")
    assert str(caught.value).startswith("-:2:3: error: 'gpu.func' op ")
    assert REFUSED[attributes] in str(caught.value)


def test_launch_attributes_that_fit_are_taken():
    grid = MAP.format("(a + 2) ceildiv 3, b mod 4, 1")
    given = f"weft.grid = {grid}, weft.writes = array<i32: 1>, weft.shared_bytes = 8 : i64"
    (launch,) = compile_module(kernel_of(given), "sm_80").launches.values()
    assert launch.grid is not None and launch.grid((7, 6)) == (3, 2, 1)
    assert launch.shared_bytes == 8 and launch.arguments[1].writes


BLOCK = "known_block_size = array<i32: 64, 1, 1>"


@pytest.mark.parametrize(
    "asked, said",
    [
        ({"block": (32, 1, 1)}, r"block must be \(64, 1, 1\) as compiled, got \(32, 1, 1\)"),
        ({"block": 64}, r"block must be a sequence of integers, got 64"),
        ({"block": ()}, r"block must be three integers \(x, y, z\), got 0: \(\)"),
        ({"block": (64, 1)}, "block must be three integers"),
        ({"block": (64.0, 1, 1)}, "block must be three integers"),
        ({"grid": (1, 1)}, r"grid must be three integers \(x, y, z\), got 2: \(1, 1\)"),
        ({"grid": 1}, "grid must be a sequence of integers"),
        ({"grid": (1, 0, 1)}, r"grid must be in 1\.\.65535 on y, got 0: \(1, 0, 1\)"),
    ],
)
def test_a_launch_of_other_sizes_is_refused(asked, said):
    kernel = weft.compile(kernel_of(BLOCK, ""), arch="sm_80")
    with pytest.raises(weft.WeftError, match=said):
        kernel(on="emulator", **{"grid": (1, 1, 1), **asked})


def test_a_block_that_the_kernel_does_not_say_has_at_most_1024_threads():
    kernel = weft.compile(kernel_of("", ""), arch="sm_80")
    for block, said in [
        ((1024, 2, 1), "block must have at most 1024 threads, got 2048: (1024, 2, 1)"),
        ((2048, 1, 1), "block must be in 1..1024 on x, got 2048"),
        ((1, 1, 65), "block must be in 1..64 on z, got 65"),
        (None, "kernel k doesn't set its block: pass block=(x, y, z), or --block X,Y,Z"),
    ]:
        with pytest.raises(weft.WeftError) as caught:
            kernel(on="emulator", grid=(1, 1, 1), block=block)
        assert said in str(caught.value)
    kernel(on="emulator", grid=np.array([2, 1, 1]), block=[32, 1, 1])


def test_the_kernels_own_block_may_be_passed():
    weft.compile(kernel_of(BLOCK, ""), arch="sm_80")(on="emulator", grid=(1, 1, 1), block=(64, 1, 1))
