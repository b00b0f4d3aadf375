"""Every wrong argument of a builder in Python gets one WeftError."""

import contextlib
import inspect

import numpy as np
import pytest

import weft
from weft import mlir
from weft.dialects import context, tile
from weft.dialects.builders import TileBuilder
from weft.mlir import ir

LANES = "S[(8,4,4):(4@laneid,1@laneid,1)]"

BLOCK = (32, 1, 1)


def module_of(name="k", arguments=(), **options):
    with weft.Module() as module, module.kernel(name, list(arguments), **{"block": BLOCK} | options):
        pass
    return module


@pytest.mark.parametrize("given", [None, 3, b"module {}", ["module {}"], object()])
def test_what_is_no_module_is_not_compiled(given):
    with pytest.raises(weft.WeftError, match=r"module must be a weft\.Module, an MLIR module"):
        weft.compile(given, arch="sm_80")


@pytest.mark.parametrize("build", [weft.Module.func, weft.Module.kernel])
def test_a_module_whose_body_raised_is_not_compiled(build):
    module = weft.Module()
    options = {"block": BLOCK} if build is weft.Module.kernel else {}
    with pytest.raises(KeyError), module, build(module, "f", [], **options):
        raise KeyError
    with pytest.raises(weft.WeftError, match="whose block ended with KeyError: build it again"):
        weft.compile(module, arch="sm_80")


@pytest.mark.parametrize("build", [weft.Module.func, weft.Module.kernel])
def test_a_module_is_not_compiled_within_its_own_function(build):
    options = {"block": BLOCK} if build is weft.Module.kernel else {}
    with (
        weft.Module() as module,
        build(module, "f", [], **options),
        pytest.raises(weft.WeftError, match="got one with an open function"),
    ):
        weft.compile(module, arch="sm_80")


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (None, "sequence of integers, got None"),
        (3, "sequence of integers, got 3"),
        ((1,), r"three integers \(x, y, z\), got 1"),
        (("a", 1, 1), "three integers"),
        ((1.5, 1, 1), "three integers"),
        ((True, 1, 1), "three integers"),
        ((0, 1, 1), r"in 1\.\.1024 on x, got 0"),
        ((2**20, 1, 1), r"in 1\.\.1024 on x, got 1048576"),
        ((1, 1, 65), r"in 1\.\.64 on z, got 65"),
        ((2**64, 1, 1), "on x"),
        pytest.param((10**5000, 1, 1), "on x, got a number of 16610 bits", id="long"),
        ((32, 32, 2), "at most 1024 threads, got 2048"),
    ],
)
def test_a_block_that_no_launch_can_have_is_refused(block, said):
    with pytest.raises(weft.WeftError, match=f"block must .*{said}"):
        module_of(block=block)


@pytest.mark.parametrize(
    ("grid", "said"),
    [
        (3, "sequence of integers"),
        ((1,), "three integers"),
        ((-1, 1, 1), r"in 1\.\.2147483647 on x, got -1"),
        ((1, 65536, 1), r"in 1\.\.65535 on y, got 65536"),
        ((2**64, 1, 1), "on x"),
    ],
)
def test_a_grid_that_no_launch_can_have_is_refused(grid, said):
    with pytest.raises(weft.WeftError, match=f"grid must .*{said}"):
        module_of(grid=grid)


@pytest.mark.parametrize(
    ("cluster", "grid", "said"),
    [
        (2, None, "sequence of integers"),
        ((2,), None, "three integers"),
        ((0, 1, 1), None, r"in 1\.\.16 on x, got 0"),
        ((8, 4, 1), None, r"at most 16 CTAs, got 32: \(8, 4, 1\)"),
        ((2, 2, 1), (4, 3, 1), r"divide the grid \(4, 3, 1\), got \(2, 2, 1\)"),
    ],
)
def test_a_cluster_that_no_launch_can_have_is_refused(cluster, grid, said):
    with pytest.raises(weft.WeftError, match=f"cluster must .*{said}"):
        module_of(cluster=cluster, grid=grid)


def test_a_cluster_is_part_of_the_kernel():
    assert "known_cluster_size = array<i32: 2, 2, 1>" in str(module_of(cluster=(2, 2, 1), grid=(4, 6, 1)))


@pytest.mark.parametrize("writes", [3, [True], ["0"], [-1], [0]])
def test_an_argument_that_is_written_is_one_of_the_kernel(writes):
    with pytest.raises(weft.WeftError, match="writes must be"):
        module_of(writes=writes)


@pytest.mark.parametrize(
    "chip", ['sm_80"', 'sm_80", features = "+ptx12', 'sm_80">, #x<"', "", "nope", "sm_80\ud800", 80, b"sm_80"]
)
def test_a_chip_that_is_none_is_refused(chip):
    with pytest.raises(weft.WeftError, match="chip"):
        module_of(chip=chip)


@pytest.mark.parametrize("name", ["", None, 3, b"k", "k\ud800"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(weft.WeftError, match="name must be"):
        module_of(name)
    with weft.Module() as module, pytest.raises(weft.WeftError, match="name must be"), module.func(name, []):
        pass


@pytest.mark.parametrize("arguments", [None, 3, [3], ["f32"], [None]])
def test_arguments_are_types(arguments):
    with (
        weft.Module() as module,
        pytest.raises(weft.WeftError, match="arguments must be"),
        module.func("f", arguments),
    ):
        pass


def test_a_type_of_another_module_is_refused():
    with weft.Module():
        other = weft.memref("?x?", "f32")
    with pytest.raises(weft.WeftError, match="of another module"):
        module_of(arguments=[other])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (((4, 4), "tuple<" * 200_000), "element must be"),
        (((4, 4), "f32>, memref<3xf32"), "element must be"),
        (((4, 4), "f32, 5"), "element must be"),
        (((4, 4), "\ud800"), "element must be"),
        (((4, 4), None), "element must be"),
        (((4, 4), "f99"), "element must be the name of a number type, such as 'bf16', got 'f99'"),
        (((2**40, 4), "f32"), r"sizes must be in 1\.\.2147483647, got 1099511627776"),
        ((("9" * 5000, 4), "f32"), "shape must consist of"),
        (((10**5000, 4), "f32"), "sizes must be in .*, got a number of 16610 bits"),
        (((4, 4), "f32", (10**5000, 1)), "strides must be in .*, got a number too long to print"),
        (((0, 4), "f32"), "sizes must be"),
        (((-1, 4), "f32"), "sizes must be"),
        (((1.5, 4), "f32"), "shape must consist of integers"),
        (((True, 4), "f32"), "shape must consist of integers"),
        (("4x4x", "f32"), "shape must consist of integers"),
        (((), "f32"), "at least one size"),
        ((None, "f32"), "shape must be a sequence"),
        (((4, 4), "f32", (1,)), "each of the 2 sizes must have a stride, got 1"),
        (((4, 4), "f32", (-1, 1)), "strides must be in"),
        (((4, 4), "f32", (2**63, 1)), "strides must be in"),
        (((4, 4), "f32", ("a", 1)), "strides must consist of"),
        (((4, 4), "f32", 3), "strides must be a sequence"),
        (((4, 4), "f32", np.zeros((2, 2))), "strides must consist of integers"),
        ((np.zeros((2, 2)), "f32"), "shape must consist of integers"),
        ((np.zeros(4, "f4,i4"), "f32"), "shape must consist of integers"),
    ],
)
def test_a_matrix_that_no_launch_can_have_is_refused(given, said):
    with weft.Module(), pytest.raises(weft.WeftError, match=said) as caught:
        weft.memref(*given)
    assert len(str(caught.value)) < 300


KERNEL = """gpu.module @m {{
  gpu.func @k(%a: memref<{shape}xf32>) kernel attributes {{known_block_size = array<i32: {block}>{more}}} {{
    gpu.return
  }}
}}"""


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"shape": "1099511627776x4"}, r"sizes must be in 1\.\.2147483647, got 1099511627776"),
        ({"shape": "0x4"}, "sizes must be"),
        ({"block": "1048576, 1, 1"}, r"block must be in 1\.\.1024 on x"),
        ({"block": "32, 32, 2"}, "at most 1024 threads"),
        ({"more": ", weft.grid = affine_map<(m, n) -> (-1, 1, 1)>"}, "grid must be"),
        ({"more": ", weft.grid = affine_map<(m, n) -> (m - 4, n, 1)>"}, "grid must be"),
    ],
)
def test_text_that_no_launch_can_have_is_refused_when_it_is_compiled(written, said):
    text = KERNEL.format(**{"shape": "4x4", "block": "32, 1, 1", "more": ""} | written)
    with pytest.raises(weft.WeftError, match=said) as caught:
        weft.compile(text, arch="sm_80")
    assert caught.value.diagnostics[0].location is not None


def test_a_product_of_sizes_that_no_launch_can_have_is_refused():
    matrix = "memref<1099511627776x64x{}>"
    text = (
        f"func.func @f(%a: {matrix.format('bf16')}, %b: memref<64x64xbf16>, %d: {matrix.format('f32')}) {{\n"
        '  "tile.matmul"(%a, %b, %d) '
        "{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}"
        f" : ({matrix.format('bf16')}, memref<64x64xbf16>, {matrix.format('f32')})"
        " -> ()\n  return\n}"
    )
    with pytest.raises(weft.WeftError, match="sizes must be"):
        weft.compile(text, arch="sm_90a")


def test_an_attribute_with_a_lone_surrogate_is_refused():
    with (
        weft.Module() as module,
        module.func("f", [weft.memref("?x?", "f32")] * 3) as (a, b, d),
        pytest.raises(weft.WeftError, match="lone surrogate at 4"),
    ):
        tile.matmul(a, b, d, activation="relu\ud800")


TILE_BUILDERS = {
    name: value
    for name, value in vars(tile).items()
    if isinstance(value, TileBuilder)
    or (
        inspect.isfunction(value)
        and value.__module__.startswith("weft.dialects.tile")
        and (value.__doc__ or "").startswith("Builds")
    )
}


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", TILE_BUILDERS)
def test_builders_of_tiles_refuse_what_they_cannot_build(name, inside):
    builder = TILE_BUILDERS[name]
    if inside and name in ("clear_sums", "make_ring", "role", "tensor_memory", "wait_gemm"):
        return  # numbers are what they take
    parameters = inspect.signature(builder).parameters.values()
    needed = [p for p in parameters if p.default is p.empty]
    numbers = {p.name: 1 for p in needed if p.kind == p.KEYWORD_ONLY}
    values = [1 for p in needed if p.kind == p.POSITIONAL_OR_KEYWORD]
    with weft.Module() if inside else contextlib.nullcontext(), pytest.raises(weft.WeftError):
        made = builder(*values, **numbers)
        if hasattr(made, "__enter__"):
            made.__enter__()


def test_there_are_builders_to_try():
    assert len(TILE_BUILDERS) > 25


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (((16, 8), "f16", LANES), "element must be an MLIR type"),
        (((16, "a"), None, LANES), "shape must be a sequence of integers"),
        (((16, 2**40), None, LANES), "shape must have extents"),
        (((16, 8), None, "S[(8,4):(1@laneid"), "expected"),
        (((16, 8), None, 3), "expected"),
        (
            ((16, 8), None, "S[(128):(1)]"),
            "a fragment of layout S.*: each of 32 lanes must hold one element",
        ),
    ],
)
def test_a_fragment_of_a_wrong_layout_is_refused(given, said):
    shape, element, layout = given
    with weft.Module(), pytest.raises(weft.WeftError, match=said):
        tile.FragmentType.of(shape, element or ir.F16Type.get(), layout)


@pytest.mark.parametrize("stages", ["a", 0, 2**70, None])
def test_a_ring_has_a_number_of_stages_by_itself(stages):
    with weft.Module(), pytest.raises(weft.WeftError, match=r"stages must be an integer in 1\.\.64"):
        tile.RingType.of(stages)


@pytest.mark.parametrize(
    ("space", "layout", "said"),
    [
        ("shared", "S[(16,8):(4,1)]", "a buffer of layout S.*: its elements must not overlap"),
        ("shared", "S[(2,8):(8,1)]", "a buffer of shape .16, 8. whose layout doesn't fit: shape"),
        ("tmem", "S[(16,8):(8,1)]", "a buffer in tensor memory of layout S.*: its axes must be among"),
    ],
)
def test_types_are_verified_where_they_are_built(space, layout, said):
    with weft.Module(), pytest.raises(weft.WeftError, match=said):
        kind = tile.BufferType.of((16, 8), ir.F16Type.get(), layout, space)
        pytest.fail(f"got {kind}")


@pytest.mark.parametrize("stages", ["a", 0, 2**70, None])
def test_a_ring_has_a_number_of_stages(stages):
    with weft.Module(), pytest.raises(weft.WeftError, match="stages must be"):
        tile.make_ring(stages, consumers=1)


@pytest.mark.parametrize("begin", [lambda m: m.func("g", []), lambda m: m.kernel("g", [], block=(32, 1, 1))])
def test_functions_inside_of_functions_are_refused(begin):
    with (
        weft.Module() as module,
        module.kernel("f", [], block=(32, 1, 1)),
        pytest.raises(weft.WeftError, match="a function or kernel can't be inside another one"),
        begin(module),
    ):
        pass


def test_types_in_bytecode_are_verified(tmp_path):
    path = tmp_path / "a.mlirbc"
    with path.open("wb") as file:
        ir.Module.parse("func.func private @f(!tile.ring<0>)", context()).operation.write_bytecode(file)
    with pytest.raises(weft.WeftError, match="op has a ring whose stages must be in"):
        mlir.parse_file(path, context())
