"""Kernels with upstream's operations are compiled, and are refused where a chip lacks their form."""

import os
import re

import pytest

from weft.compiler import stages
from weft.errors import WeftError
from weft.mlir import ir
from weft.tools import weft_opt

KERNEL = """gpu.module @m [#nvvm.target<chip = "{chip}">] {{
  gpu.func @k(%out: memref<8xi32>) kernel {{
    %zero = arith.constant 0 : index
    %n = arith.constant 16 : i32
    %w = arith.constant 4096 : i64
    %f = arith.constant 1.0 : f32
    %p = llvm.inttoptr %w : i64 to !llvm.ptr
    %t = llvm.inttoptr %n : i32 to !llvm.ptr<6>
    %yes = arith.constant true
    {body}
    gpu.return
  }}
}}
"""
WMMA_LOAD = """
    %0 = nvvm.wmma.load %p, %n {eltype = #nvvm.mma_type<s8>, frag = #nvvm.mma_frag<a>, k = 16 : i32, layout =
      #nvvm.mma_layout<row>, m = 8 : i32, n = 32 : i32} : (!llvm.ptr) -> !llvm.struct<(i32)>
    %1 = llvm.extractvalue %0[0] : !llvm.struct<(i32)>
    memref.store %1, %out[%zero] : memref<8xi32>"""
B1 = """
    %s = llvm.mlir.undef : !llvm.struct<(i32, i32, i32, i32)>
    %0 = nvvm.wgmma.mma_async %w, %w, %s, #nvvm.shape<m = 64, n = 8, k = 256>, D [<s32>,
      #nvvm.wgmma_scale_out<one>], A [<b1>, #nvvm.wgmma_scale_in<one>, <row>], B [<b1>,
      #nvvm.wgmma_scale_in<one>, <col>] : !llvm.struct<(i32, i32, i32, i32)>
      -> !llvm.struct<(i32, i32, i32, i32)>
    %1 = llvm.extractvalue %0[0] : !llvm.struct<(i32, i32, i32, i32)>
    memref.store %1, %out[%zero] : memref<8xi32>"""
INT8 = """
    nvvm.tcgen05.mma %t, %w, %w, %n, %yes {ctaGroup = #nvvm.cta_group<cta_1>, kind =
      #nvvm.tcgen05_mma_kind<i8>} : (!llvm.ptr<6>, i64, i64, i32, i1)"""
ONE_COLUMN = """
    %0 = nvvm.tcgen05.ld %t {shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>} : vector<1xi32>
    %i = llvm.mlir.constant(0 : i32) : i32
    %1 = llvm.extractelement %0[%i : i32] : vector<1xi32>
    memref.store %1, %out[%zero] : memref<8xi32>"""


def mma_sync(a, b, k, registers):
    return f"""
    %0 = nvvm.mma.sync A[{registers[0]}] B[{registers[1]}] C[%f, %f, %f, %f] {{layoutA =
      #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, multiplicandAPtxType =
      #nvvm.mma_type<{a}>, multiplicandBPtxType = #nvvm.mma_type<{b}>, shape =
      #nvvm.shape<m = 16, n = 8, k = {k}>}} : (i32, i32, f32) ->
      !llvm.struct<(f32, f32, f32, f32)>
    %1 = llvm.extractvalue %0[0] : !llvm.struct<(f32, f32, f32, f32)>
    %2 = llvm.bitcast %1 : f32 to i32
    memref.store %2, %out[%zero] : memref<8xi32>"""


FOUR_TWO, TWO_ONE = ("%n, %n, %n, %n", "%n, %n"), ("%n, %n", "%n")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("chip", "body", "spelled"),
    [
        ("sm_80", WMMA_LOAD, "wmma.load.a.sync.aligned.row.m8n32k16.s8"),
        ("sm_90a", B1, "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc"),
        ("sm_100a", INT8, "tcgen05.mma.cta_group::1.kind::i8"),
        ("sm_100a", ONE_COLUMN, "tcgen05.ld.sync.aligned.32x32b.x1.b32"),
        ("sm_80", mma_sync("bf16", "bf16", 8, TWO_ONE), "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32"),
        ("sm_89", mma_sync("e4m3", "e5m2", 32, FOUR_TWO), "m16n8k32.row.col.f32.e4m3.e5m2.f32"),
    ],
)
def test_upstreams_operations_are_compiled(chip, body, spelled):
    compiled = stages.compile_module(KERNEL.format(chip=chip, body=body))
    assert spelled in compiled.ptx
    assert compiled.cubin


@pytest.mark.parametrize(
    ("chip", "body", "message"),
    [
        ("sm_90", B1, "needs sm_90a: sm_90 has no form of wgmma.mma_async"),
        ("sm_103a", INT8, r"kind i8 is legal on sm_100a, sm_110a only, got sm_103a"),
        ("sm_75", mma_sync("bf16", "bf16", 8, TWO_ONE), "needs sm_80 or later: sm_75 has no mma.sync"),
        ("sm_80", mma_sync("e4m3", "e4m3", 32, FOUR_TWO), "needs sm_89 or later: sm_80 has no mma.sync"),
        ("sm_90", mma_sync("bf16", "tf32", 16, FOUR_TWO), "A of bf16 needs B of bf16, got tf32"),
        ("sm_70", WMMA_LOAD, "needs sm_72 or later: sm_70 has no wmma.load"),
    ],
)
def test_upstreams_operations_are_refused_where_they_stand(chip, body, message):
    with pytest.raises(WeftError, match=message) as caught:
        stages.compile_module(KERNEL.format(chip=chip, body=body))
    (diagnostic,) = caught.value.diagnostics
    lines = KERNEL.format(chip=chip, body=body).split("\n")
    place = diagnostic.location
    assert re.match(r"nvvm\.(wmma|mma|wgmma|tcgen05)", lines[place.line - 1][place.column - 1 :])


@pytest.mark.parametrize(("chip", "legal"), [("sm_75", False), ("sm_80", True)])
def test_subgroup_operations_are_held_to_the_tables_too(chip, legal):
    load = (
        "gpu.subgroup_mma_load_matrix %a[%zero, %zero] {leadDimension = 16 : index} : memref<16x16xf32> -> "
    )
    body = f"""
    %a = memref.alloca() : memref<16x16xf32>
    %0 = {load} !gpu.mma_matrix<16x8xf32, "AOp">
    %1 = {load} !gpu.mma_matrix<8x16xf32, "BOp">
    %2 = {load} !gpu.mma_matrix<16x16xf32, "COp">
    %3 = gpu.subgroup_mma_compute %0, %1, %2 : !gpu.mma_matrix<16x8xf32, "AOp">,
      !gpu.mma_matrix<8x16xf32, "BOp"> -> !gpu.mma_matrix<16x16xf32, "COp">
    gpu.subgroup_mma_store_matrix %3, %a[%zero, %zero] {{leadDimension = 16 : index}} :
      !gpu.mma_matrix<16x16xf32, "COp">, memref<16x16xf32>"""
    text = KERNEL.format(chip=chip, body=body)
    if legal:
        assert "wmma.mma.sync.aligned.row.row.m16n16k8.f32.tf32.tf32.f32" in stages.compile_module(text).ptx
    else:
        with pytest.raises(
            WeftError, match=r"sm_75 has no wmma\.mma\.sync\.aligned\.row\.row\.m16n16k8"
        ) as caught:
            stages.compile_module(text)
        assert all(d.location for d in caught.value.diagnostics)


# The arguments of a function and a wrong operation, one for each kind that upstream's own tests have.
MBARRIER = "%b: !llvm.ptr<3>, %c: !llvm.ptr<7>, %n: i32, %p: i1"
WRONG = {
    "%v: i32": "nvvm.redux.sync add %v, %v {abs = true}: i32 -> i32",
    "%v: f32, %n: i32": "nvvm.redux.sync add %v, %n: f32 -> f32",
    "%n: i32, %v: f32": "nvvm.shfl.sync bfly %n, %v, %n, %n : f32 -> i32",
    "": "nvvm.fence.proxy {kind = #nvvm.proxy_kind<generic>}",
    "%x: i32": "nvvm.fence.proxy {kind = #nvvm.proxy_kind<alias>, space = #nvvm.shared_space<cta>}",
    "%s: i32": "nvvm.prmt #nvvm.permute_mode<rc16> %s, %s, %s : i32",
    MBARRIER: "nvvm.mbarrier.arrive %c : !llvm.ptr<7> -> i64",
    f"{MBARRIER}, %x: i1": "nvvm.mbarrier.test.wait %b, %n : !llvm.ptr<3>, i32 -> i64",
    "%s: vector<2xbf16>": "nvvm.convert.bf16x2.to.f8x2 %s : vector<2xbf16> -> vector<2xi8> (f6E2M3FN)",
    "%t: !llvm.ptr": "nvvm.cp.async.bulk.tensor.prefetch %t, box[] : !llvm.ptr",
    "%a: !llvm.ptr": "nvvm.mbarrier.unknown %a : !llvm.ptr",
}


@pytest.mark.parametrize(("arguments", "operation"), WRONG.items(), ids=str)
def test_a_wrong_operation_gets_the_message_of_mlir(arguments, operation, tmp_path, capfd):
    """As the bindings print it, at the same location, and `--verify-diagnostics` expects it there."""
    path, text = tmp_path / "k.mlir", f"llvm.func @f({arguments}) {{\n  {operation}\n  llvm.return\n}}\n"
    with ir.Context(), pytest.raises(ir.MLIRError) as caught:
        ir.Module.parse(text)
    (own,) = caught.value.error_diagnostics
    line, column = re.search(r":(\d+):(\d+)", str(own.location)).groups()
    path.write_text(text)
    assert weft_opt.main([str(path), "-o", os.devnull]) == 1
    assert capfd.readouterr().err.startswith(f"{path}:{line}:{column}: error: {own.message}")
    path.write_text(text.replace("  nvvm", f"  // expected-error @below {{{{{own.message}}}}}\n  nvvm"))
    assert weft_opt.main([str(path), "--verify-diagnostics", "-o", os.devnull]) == 0
