"""What operations tell MLIR of their effects, and upstream's passes between any two of Weft's."""

import copy
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import passes_between
import pytest
from kernel_ptx import kernels
from language_kernels import doubled
from launches import complaint
from product_cases import MMA, laid
from products import Case, Product
from test_language_one_thread import decided
from test_language_reductions import kernel as in_a_branch

import weft
import weft.language as w
from weft import mlir, passes
from weft.dialects import DIALECTS, context
from weft.dialects.effects import Effects, Pure
from weft.dialects.launch_contract import CONTRACT
from weft.language.capture.debug_variables import MARK
from weft.passes.analysis.uniformity import SAME, SAME_IN_A_WARPGROUP
from weft.passes.plain.functions import PLAIN

HERE = Path(__file__).parent
BUFFER = '!tile.buffer<array<i64: 64, 64>, bf16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">'
PART = '!tile.buffer<array<i64: 16, 64>, bf16, #tile.layout<"S[(16,64):(64,1)] xor 128B">, "shared">'


def cleaned(body, arguments="%x: i32"):
    """The operations of Weft's that are left of a kernel's body, by name."""
    text = f"""
    gpu.module @m [#nvvm.target<chip = "sm_90a">] {{
      gpu.func @k({arguments}) kernel attributes {{known_block_size = array<i32: 128, 1, 1>}} {{
        {body}
        gpu.return
      }}
    }}"""
    module = mlir.parse(text, context())
    passes.manager(passes_between.BETWEEN, module.context).run(module.operation)
    names = []

    def visit(op):
        names.append(op.name)
        return mlir.ir.WalkResult.ADVANCE

    module.operation.walk(visit, mlir.ir.WalkOrder.PRE_ORDER)
    return [name for name in names if name.split(".")[0] in {each.DIALECT_NAMESPACE for each in DIALECTS}]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: each.DIALECT_NAMESPACE)
def test_each_operation_declares_its_effects(dialect):
    without = [
        op.OPERATION_NAME
        for op in dialect.operations
        if not any(trait is Pure or isinstance(trait, Effects) for trait in op._traits)
    ]
    assert not without


def test_dead_operations_go():
    body = f"""
        %t = "tile.alloc"() : () -> {BUFFER}
        %part = "tile.slice"(%t, %x, %x) : ({BUFFER}, i32, i32) -> {PART}
        %turned = "mma.movmatrix"(%x) : (i32) -> i32"""
    assert cleaned(body) == []


def test_equal_operations_become_one_before_the_loop():
    body = f"""
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %t = "tile.alloc"() : () -> {BUFFER}
        %a = "tile.address"(%t) : ({BUFFER}) -> !llvm.ptr<3>
        %b = "tile.address"(%t) : ({BUFFER}) -> !llvm.ptr<3>
        scf.for %i = %c0 to %n step %c1 {{
          %d = "wgmma.descriptor"(%a) {{stride_byte_offset = 1024, swizzle = "128B"}} : (!llvm.ptr<3>) -> i64
          %e = "wgmma.descriptor"(%b) {{stride_byte_offset = 1024, swizzle = "128B"}} : (!llvm.ptr<3>) -> i64
          %s = arith.addi %d, %e : i64
          memref.store %s, %m[%i] : memref<?xi64>
        }}"""
    left = cleaned(body, "%n: index, %m: memref<?xi64>")
    assert left == ["tile.alloc", "tile.address", "wgmma.descriptor"]


LOADED = "vector<4xi32>"


def loads(between):
    """How many equal loads are left, with an operation between them."""
    body = f"""
        %a = "mma.ldmatrix"(%p) {{num = 1 : i64, shape = "m8n8"}} : (!llvm.ptr<3>) -> i32
        {between}
        %b = "mma.ldmatrix"(%p) {{num = 1 : i64, shape = "m8n8"}} : (!llvm.ptr<3>) -> i32
        %s = arith.addi %a, %b : i32
        memref.store %s, %m[] : memref<i32>"""
    return cleaned(body, "%p: !llvm.ptr<3>, %w: i32, %m: memref<i32>").count("mma.ldmatrix")


def test_equal_loads_become_one():
    assert loads("") == 1


@pytest.mark.parametrize(
    "between",
    [
        '"wgmma.fence"() : () -> ()',
        '"wgmma.commit_group"() : () -> ()',
        '"wgmma.wait_group"() : () -> ()',
        "gpu.barrier",
        "nvvm.barrier",
        "nvvm.cp.async.wait.group 0",
        '"mma.stmatrix"(%p, %w) {num = 1 : i64, shape = "m8n8"} : (!llvm.ptr<3>, i32) -> ()',
    ],
)
def test_what_orders_memory_keeps_loads_apart(between):
    assert loads(between) == 2


def test_new_memory_stays_apart():
    body = f"""
        %s = "tile.alloc"() : () -> {BUFFER}
        %t = "tile.alloc"() : () -> {BUFFER}
        %a = "tile.address"(%s) : ({BUFFER}) -> !llvm.ptr<3>
        %b = "tile.address"(%t) : ({BUFFER}) -> !llvm.ptr<3>
        llvm.store %x, %a : i32, !llvm.ptr<3>
        llvm.store %x, %b : i32, !llvm.ptr<3>"""
    assert cleaned(body).count("tile.alloc") == 2


PRODUCTS = [
    Product("bf16", "bf16", "bf16", laid("one warpgroup", "bf16"), activation="gelu"),
    Product("f8E4M3FN", "f8E4M3FN", "bf16", laid("two warpgroups", "i8"), scaled=True),
    Product("bf16", "bf16", "f32", MMA[2]),
]


@pytest.mark.each_value(1)
@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_passes_between_change_no_product(monkeypatch, product):
    monkeypatch.setattr("weft.compiler.pipeline.elements", passes_between.elements)
    assert complaint(product, Case((70, 35, 150), "normal"), product.compiled(), "emulator") is None


DISCARDABLE = {SAME, SAME_IN_A_WARPGROUP}
CONTRACTS = {*CONTRACT, PLAIN, "weft.sources"}
OTHERS = {MARK, "weft.extensions"}  # a comment in PTX, and the group of entry points


def without_discardable_attributes(text):
    """A module's text without Weft's attributes of operations that aren't functions, and their names."""
    module, names = mlir.parse(text, context()), []

    def visit(op):
        own = [each for each in op.attributes if each.startswith("weft.") and "sym_name" not in op.attributes]
        for name in own:
            del op.attributes[name]
        names.extend(own)
        return mlir.ir.WalkResult.ADVANCE

    module.operation.walk(visit, mlir.ir.WalkOrder.PRE_ORDER)
    return str(module), {*names}


def test_each_attribute_is_of_functions_or_discardable():
    package = Path(weft.__file__).parent
    files = [Path(folder) / name for folder, _, names in os.walk(package, followlinks=True) for name in names]
    texts = (each.read_text() for each in files if each.suffix == ".py")
    names = {name for text in texts for name in re.findall(r'"(weft\.\w+)"', text)}
    names = {name for name in names if not hasattr(weft, name[5:]) and importlib.util.find_spec(name) is None}
    assert names == DISCARDABLE | CONTRACTS | OTHERS


@pytest.mark.each_value(1)
@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_products_have_no_discardable_attribute(product):
    kernel = product.compiled()
    for stage in ("expand-matmul", "lower-fragments"):
        assert without_discardable_attributes(kernel.ir(stage))[1] == set()


def queue():
    x = np.random.default_rng(0).standard_normal((130, 96)).astype(np.float32)
    arrays = x, np.zeros_like(x), np.zeros(10, np.int32), np.zeros(1, np.int32)
    return doubled.compile(*arrays, arch="sm_90a"), arrays


def change():
    x = np.random.default_rng(0).standard_normal((256, 32)).astype(np.float16)
    arrays = x, np.zeros_like(x), np.zeros(6, np.int32)
    return decided.compile(*arrays, arch="sm_80"), arrays


def vote():
    arrays = np.ones((128, 64), np.float16), np.ones((32, 64), np.float16), np.zeros((128, 32), np.float32)
    return in_a_branch(w.warpgroup_any).compile(*arrays, 1.0), (*arrays, 1.0)


@pytest.mark.parametrize(
    ("launch", "name", "is_refused"),
    [(queue, SAME, False), (change, SAME_IN_A_WARPGROUP, True), (vote, SAME_IN_A_WARPGROUP, True)],
)
def test_no_discardable_attribute_changes_what_an_operation_means(launch, name, is_refused):
    """Without it, the kernel does the same, or a pass can't prove what it must, and says so."""
    kernel, arguments = launch()
    text, names = without_discardable_attributes(kernel.ir())
    assert names == {name}
    if is_refused:
        with pytest.raises(
            weft.WeftError, match=r"to reach it together, but 'scf\.if' depends on the thread"
        ):
            weft.compile(text, arch=kernel.chip)
        return
    again = copy.deepcopy(arguments)
    assert not kernel.emulate(*arguments).findings
    assert not weft.compile(text, arch=kernel.chip).emulate(*again).findings
    assert all(map(np.array_equal, arguments, again))


PARTS = 16


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_passes_between_change_no_kernel_of_a_product(monkeypatch, part):
    """All products whose PTX `kernel_ptx.py` writes, in parts that take minutes."""
    monkeypatch.setattr("weft.compiler.pipeline.elements", passes_between.elements)
    wrong = {}
    for _, chip, each in list(kernels())[part::PARTS]:
        if isinstance(each, Product):
            try:
                kernel = weft.compile(each.module(), chip)
            except weft.WeftError as error:  # not every chip has every product
                assert "'tile.matmul' op" in str(error), each
                continue
            case = Case((70, 35, 150), each.regimes[0])
            wrong[chip, str(each)] = complaint(each, case, kernel, "emulator")
    assert wrong and not {each: why for each, why in wrong.items() if why is not None}


FILES = """
    test_attention.py test_attention_gradients.py test_attention_decode.py test_attention_fp8.py
    test_int4.py test_language_int4.py test_direct.py test_wmma_schedules.py test_tma_mma_schedules.py
    test_tma_mma_promoted.py test_tma_mma_block_scales.py test_tcgen05_kernels.py
    test_tcgen05_block_scales.py test_epilogue_region.py
"""


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES.split())
def test_passes_between_change_no_test_of_kernels(file):
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "passes_between", "-p", "no:cacheprovider"]
    environment = os.environ | {"PYTHONPATH": str(HERE)}
    ran = subprocess.run(
        [*command, str(HERE / file)], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout[-3000:]
