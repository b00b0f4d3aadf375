"""What the first call of a product compiles: counts of what made it slow."""

import gc
from dataclasses import replace

import numpy as np
import pytest

from weft.attend import launches
from weft.attend.kernels.combine import combine
from weft.attend.problem import Options
from weft.compiler import codegen, stages
from weft.construction import blocks
from weft.dialects.op import refuse
from weft.dialects.schedule import Schedule, Types, WarpgroupSchedule
from weft.errors import WeftError
from weft.mlir import arith, operations
from weft.multiply import product_kernel
from weft.multiply.kernels import casts

WIDE = WarpgroupSchedule((128, 224, 64), 2, 4)
"""Stages D in two parts, and rounds the sums of both before it stores the first."""
PARTS = (
    np.zeros((2, 1, 8, 8), np.float32),
    np.zeros((2, 1, 8), np.float32),
    np.zeros(1, np.float32),
    np.zeros((1, 1, 8, 8), np.float16),
    np.zeros((1, 1, 8), np.float32),
)
SPLIT = {"arch": "sm_90a", "splits": 2, "sinking": False, "grouped": False}
"""Arguments and options of attention's `combine`."""


@pytest.mark.each_value(1)
@pytest.mark.parametrize("element", ["bf16", "f16"])
def test_sums_are_rounded_in_pairs(element):
    """Otherwise, a pair takes three instructions of PTX, and its SASS has a PRMT that changes nothing."""
    ptx = product_kernel.plain(Types(element, element, element), WIDE, "sm_90a").ptx
    assert ptx.count(f"cvt.rn.{element}x2.f32") == 64 * 224 // 128 // 2
    assert f"cvt.rn.{element}.f32" not in ptx


def test_the_products_of_a_k_block_are_one_inline_ptx():
    """Otherwise, LLVM's IR has each of a product's registers again for the next one."""
    llvm = product_kernel.plain(Types("bf16", "bf16", "bf16"), WIDE, "sm_90a").llvm
    (products,) = (line for line in llvm.splitlines() if "wgmma.mma_async" in line)
    assert products.count("wgmma.mma_async") == 4


@pytest.mark.each_value(1)
@pytest.mark.parametrize("d", ["bf16", "f32"])
def test_sums_have_names(d):
    """Otherwise, LLVM's IR carries each through the loop over K blocks, and into and out of inline PTX."""
    kernel = product_kernel.plain(Types("bf16", "bf16", d), replace(WIDE, stages=3), "sm_90a")
    registers = 64 * 224 // 128
    assert f".reg .b32 %sums<{registers}>;" in kernel.ptx
    assert " = phi float " not in kernel.llvm
    # After the last wait: as they are, or rounded, some at a time.
    assert kernel.llvm.count(f"extractvalue %f32x{registers}") == (registers if d == "f32" else 0)
    assert kernel.ptx.count("cvt.rn.bf16x2.f32 ") == (0 if d == "f32" else registers // 2)
    assert "fptrunc" not in kernel.llvm


def test_strips_of_a_tile_share_the_code_that_stores_them():
    """Otherwise, each has a copy of that for rows that aren't aligned; the last one is narrower."""
    types = Types("bf16", "bf16", "bf16")
    assert WIDE.staging_parts(types) == 2
    ptx = product_kernel.plain(types, WIDE, "sm_90a").ptx
    assert ptx.count("st.global.v4.b32") == 2 and ptx.count("fence.proxy.async") == 4


def with_epilogue(schedule, *roles, **given):
    types = Types("bf16", "bf16", "bf16")
    added = tuple((role, "bf16", 1 if role == "bias" else 2) for role in roles)
    beta, activation = given.get("beta", 0.0).hex(), given.get("activation")
    asked = product_kernel.Asked(types, added=added, beta=beta, activation=activation)
    return product_kernel.compiled(asked, schedule, "sm_90a")


@pytest.fixture
def asked(monkeypatch):
    """How LLVM is called."""
    calls, to_ptx = [], codegen.to_ptx
    monkeypatch.setattr(codegen, "to_ptx", lambda *args, **how: calls.append(how) or to_ptx(*args, **how))
    monkeypatch.setenv("WEFT_CACHE", "0")
    return calls


@pytest.mark.each_value(2)
@pytest.mark.parametrize(
    ("chip", "schedule", "passes"),
    [
        ("sm_90a", WarpgroupSchedule((128, 128, 64), 2, 4), codegen.FEW),
        ("sm_90a", WarpgroupSchedule((64, 64, 64), 2, 4, alternating=True), codegen.FEW),
        ("sm_90a", WarpgroupSchedule((64, 128, 64), 1, 4), codegen.ALL),
        ("sm_90a", Schedule((128, 128, 32), (4, 4), 3), codegen.ALL),
        ("sm_80", Schedule((128, 128, 32), (4, 4), 3), codegen.ALL),
    ],
)
def test_llvm_runs_few_passes_on_kernels_of_wgmma(asked, chip, schedule, passes):
    product_kernel.compiled.cache_clear()
    assert product_kernel.plain(Types("bf16", "bf16", "bf16"), schedule, chip).ptx
    assert [how["passes"] for how in asked] == [passes]


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    ("queries", "d", "passes"),
    [(128, 256, [codegen.FEW]), (128, 128, [codegen.SOME]), (1, 256, [codegen.SOME, codegen.ALL])],
)
def test_llvm_runs_few_passes_on_attention(asked, queries, d, passes):
    """Of one query, one warpgroup computes each part, and another kernel combines these."""
    given = {name: np.zeros((1, 1, queries if name == "q" else 256, d), np.float16) for name in "qkv"}

    def launch(kernel, *args, stream, **meta):
        kernel._forget()
        assert kernel.compile(*args, arch="sm_90a", **meta).ptx

    splits = 1 if queries > 1 else 2
    launches.run(launches.Call.of(given, Options(splits=splits), launch, 132))
    assert [how["passes"] for how in asked] == passes


@pytest.mark.each_value(1)
@pytest.mark.parametrize("role", ["residual", "c"])
def test_fragments_of_a_residual_come_from_shared_memory(role):
    """Otherwise, each has code for rows of the matrix that aren't aligned."""
    ptx = with_epilogue(WIDE, role, beta=float(role == "c")).ptx
    pairs = 64 * 224 // 128 // 2
    assert ptx.count("ldmatrix.sync") == pairs // 4
    # In one loop over rows for both parts: an iteration has as many words of a lane as a row has.
    assert ptx.count("ld.global.b16") == 2 * 224 // 2 // 2 // 8 and "ld.global.b32" not in ptx


@pytest.mark.slow
def test_a_lane_loads_few_elements_of_a_bias():
    """Otherwise, it loads all of its columns, with other code where they aren't aligned."""
    ptx = with_epilogue(WIDE, "bias").ptx
    at_once = 32  # columns: those of the last strip
    assert ptx.count("ld.global.b16") == 2 * 224 // at_once
    exchanged = ptx.count("shfl.sync") - with_epilogue(WIDE).ptx.count("shfl.sync")
    assert exchanged == 224 // 8


@pytest.mark.each_value(1)
@pytest.mark.parametrize("scaled", [False, True])
def test_promoted_sums_have_names(scaled):
    """Otherwise, LLVM's IR carries them through the loop, and adds them in each copy of a block."""
    types = Types("f8E4M3FN", "f8E4M3FN", "bf16", (False, False), promoted=True, scaled=scaled)
    kernel = product_kernel.plain(types, WarpgroupSchedule((256, 128, 128), 2, 3), "sm_90a")
    assert kernel.llvm.count(" = phi float ") <= 10  # factors
    assert "llvm.fma" not in kernel.llvm and " fadd " not in kernel.llvm
    # In an iteration of one block, or two with scales, and after the loop.
    added = kernel.ptx.count("fma.rn.f32 %sums" if scaled else "add.rn.f32 %sums")
    assert added == 64 * (2 * (2 if scaled else 1) + 1)


def test_programs_share_the_entries_of_a_kernel_of_weft():
    """Otherwise, each line that calls attention compiles its kernels again."""
    combine._forget()
    first = combine.compile(*PARTS, **SPLIT)
    combine._forget()
    second = combine.compile(*PARTS, **SPLIT)
    assert first is not second and first.ptx == second.ptx
    assert "test_first_calls" not in first.ptx


def test_a_kernel_of_weft_is_traced_without_locations(monkeypatch):
    """Looking for the line of the call takes a tenth of the time of tracing and passes."""
    looked = []
    monkeypatch.setattr(blocks, "_of", lambda *_: looked.append(1))
    combine._forget()
    combine.compile(*PARTS, **SPLIT)
    assert not looked


def test_errors_in_a_kernel_of_weft_have_the_line_of_the_call(monkeypatch):
    def refused(module, *_):
        raise refuse(operations(module, arith.ConstantOp)[0], "is refused")

    monkeypatch.setenv("WEFT_CACHE", "0")
    monkeypatch.setattr(stages, "_lowered_in_place", refused)
    combine._forget()
    with pytest.raises(WeftError, match=r"test_first_calls\.py:\d+:\d+: error: .* is refused"):
        combine.compile(*PARTS, **SPLIT)


def test_programs_share_the_entries_of_casts():
    kernels = []
    for _ in range(2):
        casts.maxima._forget()
        kernels.append(casts.maxima.compile("bf16", by="tensor", arch="sm_90a"))
    first, second = kernels
    assert first is not second and first.ptx == second.ptx and "test_first_calls" not in first.ptx


def test_passes_collect_no_garbage(monkeypatch):
    """A full collection visits the objects of all libraries that are loaded."""
    lower, collects = stages._lowered_in_place, list[bool]()

    def lowered(*arguments):
        collects.append(gc.isenabled())
        return lower(*arguments)

    monkeypatch.setattr(stages, "_lowered_in_place", lowered)
    monkeypatch.setenv("WEFT_CACHE", "0")
    asked = product_kernel.Asked(Types("bf16", "bf16", "bf16"))
    product_kernel.compiled.__wrapped__(asked, WIDE, "sm_90a")
    assert collects == [False] and gc.isenabled()
