"""Compiling modules to kernels: stages, launch attributes, cubins for each chip, and errors."""

import re
from itertools import product

import numpy as np
import pytest

import weft
from weft.compiler.launch_record import MemrefArgument, ScalarArgument
from weft.compiler.stages import compile_module
from weft.dialects import context, tile
from weft.isa import mma
from weft.mlir import ir, parse

TEXT = """func.func @product(%a: memref<?x?x{ab}>, %b: memref<?x?x{ab}>, %d: memref<?x?x{d}>) {{
  "tile.matmul"(%a, %b, %d) {{
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>,
    transpose_b = {transpose}{schedule}}}
    : (memref<?x?x{ab}>, memref<?x?x{ab}>, memref<?x?x{d}>) -> ()
  return
}}
"""


def of_block(m: int, n: int, k: int, warps: tuple[int, int] = (1, 1)) -> str:
    grid = ", ".join(map(str, warps))
    return f", schedule = {{block = array<i64: {m}, {n}, {k}>, warps = array<i64: {grid}>, stages = 2}}"


SMALL = of_block(32, 32, 32, (2, 1))


def text(ab: str = "f16", d: str = "f32", transpose: bool = True, schedule: str = SMALL) -> str:
    return TEXT.format(ab=ab, d=d, transpose=str(transpose).lower(), schedule=schedule)


def refused(module, arch: str | None = "sm_80", **options) -> weft.WeftError:
    with pytest.raises(weft.WeftError) as caught:
        weft.compile(module, arch=arch, **options)
    return caught.value


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("transpose", [True, False])
def test_the_default_product_assembles_for_every_chip(chip, transpose):
    kernel = weft.compile(text("bf16", transpose=transpose, schedule=""), arch=chip)
    assert kernel.chip == chip and f".target {chip}\n" in kernel.ptx
    assert kernel.cubin.startswith(b"\x7fELF")
    assert kernel.resources.spill_stores == kernel.resources.spill_loads == 0
    assert kernel.resources.shared_bytes == kernel.shared_bytes > 0  # of a launch: ptxas counts none of it
    assert 0 < kernel.shared_bytes <= kernel.compiled.target.chip.shared_bytes


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    "ab, d, transpose", list(product(("f16", "bf16"), ("f32", "f16", "bf16"), (True, False)))
)
def test_every_type_and_layout_assembles(ab, d, transpose):
    kernel = weft.compile(text(ab, d, transpose), arch="sm_90a")
    assert kernel.cubin.startswith(b"\x7fELF")
    opcodes = set(re.findall(r"\b(?:mma|ldmatrix)\.[\w.]+", kernel.ptx))
    assert f"mma.sync.aligned.m16n8k16.row.col.f32.{ab}.{ab}.f32" in opcodes
    assert any(o.startswith("ldmatrix.") for o in opcodes) and "cp.async" in kernel.ptx
    # A K-major B needs no transposition, an N-major B does; A never does.
    assert any(".trans" in o for o in opcodes) == (not transpose)
    forms = [mma.Sync.parse(o) or mma.Ldmatrix.parse(o) for o in opcodes]
    assert all(
        (mma.SYNC if isinstance(f, mma.Sync) else mma.LDMATRIX).judge(f, "sm_90a") is None for f in forms
    )


def test_stages_show_the_ir_after_each_pass():
    kernel = weft.compile(text(), arch="sm_80")
    assert kernel.stages[:4] == (
        "outline-linalg",
        "select-schedule{chip=sm_80 rows=aligned}",
        "outline-matmul",
        "expand-matmul{chip=sm_80}",
    )
    assert kernel.ir() == kernel.ir("source") and '"tile.matmul"' in kernel.ir()
    assert "gpu.func @product" in kernel.ir("outline-matmul") and '"tile.matmul"' in kernel.ir(
        "outline-matmul"
    )
    assert '"tile.gemm"' in kernel.ir("expand-matmul") and '"mma.sync"' not in kernel.ir("expand-matmul")
    assert '"mma.sync"' in kernel.ir("lower-gemm")
    assert "llvm.nvvm.mma.m16n8k16" in kernel.ir("lower-mma") and '"mma.sync"' not in kernel.ir("lower-mma")
    assert "llvm.func @product" in kernel.ir(kernel.stages[-1])
    with pytest.raises(
        weft.WeftError, match=r"no stage 'lower-nothing': the stages are source, outline-linalg"
    ):
        kernel.ir("lower-nothing")


@pytest.mark.slow
def test_a_stage_is_named_without_the_operation_that_its_pass_is_nested_in():
    kernel = weft.compile(text(), arch="sm_80")
    nested = "gpu.module(convert-gpu-to-nvvm)"
    assert kernel.ir("convert-gpu-to-nvvm") == kernel.ir(nested)
    with pytest.raises(weft.WeftError, match="did you mean 'convert-gpu-to-nvvm'"):
        kernel.ir("convert-gpu-to-nvm")


@pytest.mark.parametrize(
    ("module", "names", "said"),
    [
        (
            "kernel.mlir",
            {},
            "module must be .mlir text or a Path, got a file name: pass Path('kernel.mlir')",
        ),
        (text(), {"arch": 90}, "arch must be the name of a chip, such as 'sm_90a', got 90"),
        (text(), {"arch": ["sm_90"]}, "arch must be the name of a chip, such as 'sm_90a', got ['sm_90']"),
        (text(), {"arch": 0}, "arch must be the name of a chip, such as 'sm_90a', got 0"),
        (text(), {"kernel": 3}, "kernel must be the name of a kernel in the module, got 3"),
    ],
)
def test_arguments_of_other_kinds_are_refused(module, names, said):
    with pytest.raises(weft.WeftError) as caught:
        weft.compile(module, **names)
    assert str(caught.value) == said


def test_what_is_no_array_is_told_with_its_number():
    kernel = weft.compile(text(), arch="sm_80")
    message = r"^kernel product, argument 1: expected an array .*, got list: numpy"
    with pytest.raises(weft.WeftError, match=message):
        kernel(np.zeros((4, 4), np.float16), [1.0], None)


def test_the_ir_names_the_target_that_it_is_lowered_for():
    kernel = weft.compile(text(), arch="sm_90a")
    assert re.search(r'gpu\.module @product \[#nvvm\.target<chip = "sm_90a"', kernel.ir("lower-gemm"))


def test_a_launch_follows_from_the_shapes():
    launch = weft.compile(text(schedule=of_block(64, 128, 32, (2, 2))), arch="sm_80").launch
    assert launch.name == "product" and launch.block == (128, 1, 1)
    assert launch.shared_bytes == 2 * (64 + 128) * 32 * 2
    sizes = (100, 7, 300, 7, 100, 300)  # A 100x7, B 300x7 (transposed), D 100x300
    assert launch.grid(sizes) == (2, 3, 1)
    assert not any(launch.requires(sizes))
    assert any(launch.requires((100, 7, 300, 8, 100, 300)))
    assert launch.arguments[0] == MemrefArgument("f16", (None, None), (None, 1), True, False)
    assert [argument.writes for argument in launch.arguments] == [False, False, True]


def test_shapes_that_do_not_fit_together_are_refused_at_the_call():
    kernel = weft.compile(text(), arch="sm_80")
    a, b, d = np.zeros((4, 8), np.float16), np.zeros((5, 9), np.float16), np.zeros((4, 5), np.float32)
    with pytest.raises(
        weft.WeftError, match=r"the shapes of its arguments don't fit together: \(4, 8\), \(5, 9\)"
    ):
        kernel(a, b, d, on="emulator")


def test_unused_arguments_keep_their_positions():
    source = """
    gpu.module @m {
      gpu.func @k(%n: i32, %m: memref<4x?xf32, strided<[8, 1]>>, %x: f32) kernel { gpu.return }
    }
    """
    launch = weft.compile(source, arch="sm_80").launch
    assert launch.arguments == (
        ScalarArgument("i32"),
        MemrefArgument("f32", (4, None), (8, 1), False, True),
        ScalarArgument("f32"),
    )
    assert launch.block is None and launch.grid is None and launch.shared_bytes == 0


@pytest.mark.slow
def test_a_module_from_python_compiles_as_its_text_does():
    with weft.Module() as module:
        matrices = [weft.memref("?x?", kind) for kind in ("f16", "f16", "f32")]
        with module.func("product", matrices) as (a, b, d):
            tile.matmul(a, b, d, transpose_b=True)
    default = text(schedule="")
    kernel, same = weft.compile(module, arch="sm_80"), weft.compile(default, arch="sm_80")
    assert kernel.stages == same.stages and kernel.launch.shared_bytes == same.launch.shared_bytes
    without_places = [re.sub(r"(?m)^\s*\.(loc|file).*\n|\.b8.*\n", "", k.ptx) for k in (kernel, same)]
    assert re.findall(r"mma\.sync\S+", without_places[0]) == re.findall(r"mma\.sync\S+", without_places[1])
    # Compiling leaves the module as it was.
    assert '"tile.matmul"' in str(module)


def test_the_chip_comes_from_the_call_or_from_the_module():
    named = kernel_of(target=' [#nvvm.target<chip = "sm_90">]')
    assert weft.compile(named).chip == "sm_90"
    assert weft.compile(named, arch="sm_90").chip == "sm_90"
    assert compile_module(kernel_of(), default="sm_89").target.chip.name == "sm_89"
    with pytest.raises(weft.WeftError, match="no chip to compile for: pass arch"):
        compile_module(kernel_of())
    assert "is for sm_90, not for sm_80: change or remove its #nvvm.target" in str(refused(named, "sm_80"))


def test_one_of_several_kernels_is_picked_by_name():
    source = "gpu.module @m { gpu.func @one() kernel { gpu.return } gpu.func @two() kernel { gpu.return } }"
    assert "kernel must name one of the module's: one, two" in str(refused(source))
    assert weft.compile(source, arch="sm_80", kernel="two").name == "two"
    assert "kernel must be one of one, two, got 'three'" in str(refused(source, kernel="three"))


def test_a_kernel_is_compiled_without_the_host_code_and_the_modules_beside_it():
    one = "gpu.module @a { gpu.func @one(%x: f32) kernel { gpu.return } }"
    other = "module { gpu.module @b { gpu.func @two() kernel { gpu.return } } }"
    host = "func.func private @host(memref<*xf32>)"
    assert weft.compile(one + host, arch="sm_80").name == "one"
    assert weft.compile(other, arch="sm_80").name == "two"
    module = parse(one + other + host, context())
    before = str(module)
    assert weft.compile(module, arch="sm_80", kernel="two").ptx.count(".entry") == 1
    assert str(module) == before
    assert "-:1:72: error: the file has several kernels" in str(refused(one + other))
    assert "select one with kernel: one, two" in str(refused(one + other))
    assert "has no kernel 'three': it has one, two" in str(refused(one + other, kernel="three"))
    twice = refused(one + one.replace("@a", "@c"), kernel="one")
    assert "two kernels 'one': give them different names" in str(twice)


def kernel_of(body: str = "", arguments: str = "", target: str = "", kernel: str = "kernel") -> str:
    return f"gpu.module @m{target} {{ gpu.func @k({arguments}) {kernel} {{\n{body}\ngpu.return }} }}"


REFUSED = {
    "unknown chip": (text(), "sm_99", "target must be a known chip (sm_70,"),
    "old chip": (
        text("bf16", schedule=""),
        "sm_72",
        "op has no schedule for sm_72 that multiplies bf16 and bf16",
    ),
    "types": (
        text("i16"),
        "sm_80",
        "-:2:3: error: 'tile.matmul' op expects A of element type one of f16, bf16",
    ),
    "schedule": (
        text(schedule=of_block(8, 32, 32)),
        "sm_80",
        "-:2:3: error: 'tile.matmul' op warps must divide block M 8",
    ),
    "half a module": (text()[:-3], "sm_80", "-:6:8: error: expected operation name"),
    "nothing": ("", "sm_80", "module must have one tile.matmul function or one gpu.module, got 0"),
    "two products": (
        text() + text().replace("@product", "@other"),
        "sm_80",
        "tile.matmul function or one gpu.module, got 2",
    ),
    "no kernel": (
        kernel_of(kernel=""),
        "sm_80",
        "must have a kernel (a gpu.func with the attribute 'kernel')",
    ),
    "unknown operation": (kernel_of('"no.op"() : () -> ()'), "sm_80", "-:2:8: error: "),
    "unknown chip in the module": (
        kernel_of(target=' [#nvvm.target<chip = "sm_99">]'),
        None,
        "-:1:1: error: target must be a known chip (sm_70,",
    ),
}
ARGUMENTS = [
    "vector<4xf32>",
    "memref<*xf32>",
    "memref<4x4xf32, strided<[4, 1], offset: 3>>",
    "memref<4x4xf32, affine_map<(i, j) -> (i mod 2, j)>>",
    "memref<16x16xf16, 3>",
    "memref<4x4xf32, #gpu.address_space<workgroup>>",
]


@pytest.mark.each_value(6)
@pytest.mark.parametrize("case", list(REFUSED))
def test_what_cannot_be_compiled_is_refused_with_its_source_location(case):
    source, arch, said = REFUSED[case]
    assert said in str(refused(source, arch))


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_arguments_that_cannot_be_passed_are_refused(kind):
    said = str(refused(kernel_of(arguments=f"%x: {kind}")))
    assert said.startswith(
        "-:1:17: error: a kernel argument of type memref" if "memref" in kind else "-:1:17"
    )


def test_a_tile_is_no_argument_of_a_kernel():
    said = str(refused(kernel_of(arguments="%x: !tile.ring<3 : i64>")))
    legal = "arguments must be memrefs, numbers or pointers to global memory"
    assert said == f"-:1:17: error: a kernel argument of type !tile.ring<3 : i64> can't be passed: {legal}"


@pytest.mark.parametrize("space", ["1", "#gpu.address_space<global>"])
def test_arguments_may_say_that_they_are_in_global_memory(space):
    kind = f"memref<f32, {space}>"
    source = kernel_of(f"memref.store %x, %m[] : {kind}", f"%x: f32, %m: {kind}")
    assert "st.global" in weft.compile(source, arch="sm_80").ptx


def of_buffers(rows: int, count: int) -> str:
    kind = f'!tile.buffer<array<i64: {rows}, 2048>, f16, #tile.layout<"S[({rows},2048):(2048,1)]">, "shared">'
    lines = []
    for i in range(count):
        lines += [
            f'%{i} = "tile.alloc"() : () -> {kind}',
            f'%a{i} = "tile.address"(%{i}) : ({kind}) -> !llvm.ptr<3>',
            f"%i{i} = llvm.ptrtoint %a{i} : !llvm.ptr<3> to i32",
            f"llvm.store %i{i}, %a{i} : i32, !llvm.ptr<3>",
        ]
    return kernel_of("\n".join(lines))


@pytest.mark.parametrize(
    "source, place, op, got",
    [
        (of_buffers(2048, 1), "-:2:6", "tile.alloc", 8388608),
        (of_buffers(1 << 20, 1), "-:2:6", "tile.alloc", 4294967296),
        (of_buffers(20, 3), "-:1:17", "gpu.func", 245760),
        (
            kernel_of(kernel="kernel attributes {weft.shared_bytes = 166913}"),
            "-:1:17",
            "gpu.func",
            166913,
        ),
    ],
)
def test_more_shared_memory_than_the_chip_has_is_refused_with_its_source_location(source, place, op, got):
    message = f"'{op}' op shared memory must be at most 166912 bytes on sm_80, got {got}"
    assert str(refused(source)) == f"{place}: error: {message}: use smaller tiles or fewer stages"


def test_all_the_shared_memory_that_the_chip_has_is_taken():
    source = kernel_of(kernel="kernel attributes {weft.shared_bytes = 166912}")
    assert weft.compile(source, arch="sm_80").shared_bytes == 166912


def test_calls_of_a_device_library_are_refused_by_name():
    source = kernel_of("  %0 = llvm.call @__nv_sinf(%x) : (f32) -> f32", "%x: f32").replace(
        "gpu.func", "llvm.func @__nv_sinf(f32) -> f32\n  gpu.func"
    )
    said = r"-:\d+:8: error: 'llvm.call' op needs __nv_sinf of CUDA's device library, which Weft doesn't link"
    assert re.fullmatch(said, str(refused(source)))


def test_a_device_library_of_the_module_itself_is_called():
    source = """gpu.module @m {
      llvm.func @__nv_sinf(%x: f32) -> f32 { llvm.return %x : f32 }
      gpu.func @k(%x: f32, %m: memref<f32>) kernel {
        %0 = math.sin %x : f32
        memref.store %0, %m[] : memref<f32>
        gpu.return
      } }"""
    assert "call float @__nv_sinf" in weft.compile(source, arch="sm_80").llvm


BODIES = {
    "printf": 'gpu.printf "%d", %i : index',
    "alloc": "%0 = memref.alloc() : memref<4xf32>",
    "math": "%0 = math.sin %x : f32 memref.store %0, %m[] : memref<f32>",
    "call": "func.call @g() : () -> ()",
    "poison": "%0 = ub.poison : f32 memref.store %0, %m[] : memref<f32>",
    "mask": "%0 = vector.create_mask %i : vector<4xi1> vector.print %0 : vector<4xi1>",
    "linalg": "%0 = linalg.index 0 : index",
    "tensor": "%0 = tensor.empty() : tensor<4xf32>",
    "cast": """%0 = builtin.unrealized_conversion_cast %x : f32 to i64
        %y = llvm.inttoptr %0 : i64 to !llvm.ptr
        llvm.store %x, %y : f32, !llvm.ptr""",
    "host code": "%0 = gpu.wait async",
    "infinity": "%0 = arith.constant 0x7F800000 : f32 memref.store %0, %m[] : memref<f32>",
    "intrinsic that isn't": 'llvm.call_intrinsic "llvm.nvvm.no.such"() : () -> ()',
    "intrinsic of other operands": 'llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.all"(%x) : (f32) -> ()',
    "intrinsic of another chip": 'llvm.call_intrinsic "llvm.nvvm.barrier.cluster.arrive"() : () -> ()',
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("body", list(BODIES))
def test_other_dialects_in_a_kernel_compile_or_are_refused_and_never_crash(body):
    source = kernel_of(BODIES[body], "%x: f32, %m: memref<f32>, %i: index")
    try:
        kernel = weft.compile(source, arch="sm_80")
        assert ".entry k" in kernel.ptx and kernel.cubin
    except weft.WeftError as error:
        assert str(error).strip()


NAMES = ["a b", "é", "%tid", "1x", "a.b$c", "_", "$", "\\FF", "a\\0A", "WARP_SZ", "weft_shared"]


@pytest.mark.each_value(6)
@pytest.mark.parametrize("name", NAMES)
def test_names_that_a_kernel_cannot_have_are_refused_at_the_kernel(name):
    kernel = f'gpu.module @m {{\n  gpu.func @"{name}"() kernel {{ gpu.return }} }}'
    product = "\n" + text().replace("@product", f'@"{name}"')
    reserved = name in ("WARP_SZ", "weft_shared")
    rule = f"can't have the name '{name}'" if reserved else "expects a name as PTX has them (letters, digits,"
    assert str(refused(kernel)).startswith(f"-:2:3: error: 'gpu.func' op {rule}")
    assert str(refused(product)).startswith(f"-:2:1: error: 'func.func' op {rule}")


@pytest.mark.each_value(3)
@pytest.mark.parametrize("name", ["add", "entry", "_1", "$x", "a$b", "x"])
def test_other_names_stand_in_the_machine_code(name):
    kernel = weft.compile(f'gpu.module @m {{ gpu.func @"{name}"() kernel {{ gpu.return }} }}', arch="sm_80")
    assert kernel.name == name and kernel.resources.registers


def test_an_ir_module_compiles_too_and_stays_as_it_was():
    with weft.Module() as module, module.kernel("k", [ir.F32Type.get()], block=(32, 1, 1)):
        pass
    before = str(module)
    assert weft.compile(module.mlir, arch="sm_80").name == "k"
    assert str(module) == before
