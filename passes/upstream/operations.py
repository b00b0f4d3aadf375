"""The table of corresponding operations of upstream's `nvvm` dialect and ours, by family.

All names, tokens and operand orders that `nvvm_to_weft` and `weft_to_nvvm` use are in this table.
"""

from dataclasses import replace
from typing import Any

from weft.dialects import mma, tcgen05, wgmma, wmma
from weft.isa.mma.sparse import SPARSE
from weft.mlir import ir, nvvm
from weft.passes.upstream.correspondence import (
    Count,
    Flag,
    Implied,
    Inferred,
    Number,
    Pair,
    Predicate,
    Repeats,
    Run,
    Shape,
    Token,
)

# Forms that upstream has, but translates to wrong LLVM IR.


def _kind_dropped(form: Any) -> str | None:
    """Forms with and without a kind have the same operands, and upstream always translates the latter."""
    if form.intrinsic is None:
        return f"LLVM has no intrinsic for {form.ptx}"
    plain = replace(form, kind="")
    if form.kind and plain in SPARSE.table and plain.intrinsic:
        return f"upstream's translation drops the kind of {form.a_type} and {form.b_type} with {form.d_type}"
    return None


def _single_bits(form: Any) -> str | None:
    return "upstream's translation drops the bit operation of b1" if form.a_type == "b1" else None


def _integers(op: ir.OpView) -> bool:
    return op.attribute("a_type") in ("s8", "u8", "s4", "u4")


_CLAMPED = {"wrapped": False, "satfinite": True}
_LAYOUTS = (Token("a_layout", "layoutA", "MMALayout"), Token("b_layout", "layoutB", "MMALayout"))

# wmma: upstream has one type for A and B, and one for C and D.
# fmt: off
_MATRIX = (Shape("mnk"), Token("type", "eltype", "MMATypes"), Token("layout", "layout", "MMALayout"))
_WMMA_MMA = (
    Shape("mnk"),
    Token("a_type b_type", "eltypeA", "MMATypes"),
    Token("c_type d_type", "eltypeB", "MMATypes"),
    *_LAYOUTS,
    Run(wmma.MmaOp.family, "a b c"),
)
_WMMA = (
    Pair(wmma.LoadOp, nvvm.WMMALoadOp, "address stride",
         (*_MATRIX, Token("fragment", "frag", "MMAFrag"))),
    Pair(wmma.StoreOp, nvvm.WMMAStoreOp, "address d* stride", _MATRIX),
    Pair(wmma.MmaOp, nvvm.WMMAMmaOp, "run*", _WMMA_MMA),
)

# mma: upstream infers the types of accumulators from registers, and those of inputs if no attribute is set.
_ACCUMULATORS = {"vector<2xf16>": "f16", "f32": "f32", "f64": "f64", "i32": "s32"}
_INPUTS = _ACCUMULATORS | {"f32": "tf32"}
_MMA_TYPES = (
    Shape("mnk", "shape"),
    Token("a_type", "multiplicandAPtxType", "MMATypes"),
    Token("b_type", "multiplicandBPtxType", "MMATypes"),
    Inferred("a_type", "a", _INPUTS, "multiplicandAPtxType"),
    Inferred("b_type", "b", _INPUTS, "multiplicandBPtxType"),
    Inferred("c_type", "c", _ACCUMULATORS),
    Inferred("d_type", "d", _ACCUMULATORS),
)
_BIT_OPS = {"xor_popc": "xor.popc", "and_popc": "and.popc", "none": ""}
_OVERFLOW = Token("satfinite", "intOverflowBehavior", "MMAIntOverflow", _CLAMPED, False, _integers)
_ORDERED = Flag("ordered", "orderedMetadata")
_SCALED = (
    *_MMA_TYPES,
    Token("kind", "kind", "MMABlockScaleKind"),
    Token("scale_vec", "scaleVecSize", "ScaleVecSize", {"x1": "1X", "x2": "2X", "x4": "4X"}),
    Token("scale_type", "blockScaleFormat", "BlockScaleFormat"),
)
_SCALES = "scale_a byte_id_a thread_id_a scale_b byte_id_b thread_id_b"
_TRANSPOSED = {"row": False, "col": True}
_MOVED = (Shape("mn", "ld_st_matrix_shape"), Token("type", "eltType", "LdStMatrixEltType"))
_MOVED_TRANSPOSED = (*_MOVED, Token("trans", "layout", "MMALayout", _TRANSPOSED))
_MMA = (
    Pair(mma.SyncOp, nvvm.MmaOp, "a* b* c*",
         (*_MMA_TYPES, *_LAYOUTS, _OVERFLOW, Token("bit_op", "b1Op", "MMAB1Op", _BIT_OPS, ""))),
    Pair(mma.SpSyncOp, nvvm.MmaSpOp, "a* b* c* metadata selector:i32",
         (*_MMA_TYPES, _OVERFLOW, _ORDERED, Token("kind", "kind", "MMAKind", absent="")),
         broken=_kind_dropped),
    Pair(mma.BlockScaleOp, nvvm.MmaBlockScaleOp, f"a* b* c* {_SCALES}", _SCALED),
    Pair(mma.SpBlockScaleOp, nvvm.MmaSpBlockScaleOp, f"a* b* c* metadata selector:i32 {_SCALES}",
         (*_SCALED, _ORDERED)),
    Pair(mma.LdmatrixOp, nvvm.LdMatrixOp, "address", (*_MOVED_TRANSPOSED, Number("num", 32))),
    Pair(mma.StmatrixOp, nvvm.StMatrixOp, "address a*", (*_MOVED_TRANSPOSED, Count("a"))),
    Pair(mma.MovmatrixOp, nvvm.MovMatrixOp, "a",
         (*_MOVED, Token("trans", "layout", "MMALayout", _TRANSPOSED, True))),
)

# wgmma: upstream has layouts for PTX's transposes; those of B are the other way around.
_SIGNS = {"one": 1, "neg": -1}
_MMA_ASYNC = (
    Shape("mnk", "shape"),
    Token("a_type", "typeA", "WGMMATypes"),
    Token("b_type", "typeB", "WGMMATypes"),
    Token("d_type", "typeD", "WGMMATypes"),
    Predicate("scale_d", "scaleD", "WGMMAScaleOut", {"zero": False, "one": True}),
    Token("scale_a", "scaleA", "WGMMAScaleIn", _SIGNS),
    Token("scale_b", "scaleB", "WGMMAScaleIn", _SIGNS),
    Token("trans_a", "layoutA", "MMALayout", {"row": 0, "col": 1}),
    Token("trans_b", "layoutB", "MMALayout", {"col": 0, "row": 1}),
    Token("satfinite", "satfinite", "MMAIntOverflow", _CLAMPED, False),
    Implied("bit_op", "a_type", {"b1": "and.popc"}),
)
_WGMMA = (
    Pair(wgmma.MmaAsyncOp, nvvm.WgmmaMmaAsyncOp, "inouts a b", _MMA_ASYNC, broken=_single_bits),
    Pair(wgmma.FenceOp, nvvm.WgmmaFenceAlignedOp),
    Pair(wgmma.CommitGroupOp, nvvm.WgmmaGroupSyncAlignedOp),
    Pair(wgmma.WaitGroupOp, nvvm.WgmmaWaitGroupSyncOp, "", (Number("group", 64),)),
)

# tcgen05
_GROUPS = {"cta_1": 1, "cta_2": 2}
_GROUP = (Token("cta_group", "group", "CTAGroupKind", _GROUPS, 1),)
_WAITS = {"load": "ld", "store": "st"}
_COMMIT_LATER = {
    "smem_a_read": "to signal once A was read from shared memory: leave it out, or write 'tcgen05.commit' "
    'with sync_restrict "shared::read::mma::a", on sm_107'
}
_FENCES = {"before": "before_thread_sync", "after": "after_thread_sync"}
_CP_SHAPES = {str(t): str(t).removeprefix("shape_") for t in nvvm.Tcgen05CpShape}
_LD_ST_SHAPES = {str(t): str(t).removeprefix("shape_") for t in nvvm.Tcgen05LdStShape}
_MULTICASTS = {
    "none": "", "warpx2_02_13": "warpx2::02_13", "warpx2_01_23": "warpx2::01_23", "warpx4": "warpx4",
}
_CP = (
    *_GROUP,
    Token("shape", "shape", "Tcgen05CpShape", _CP_SHAPES),
    Token("multicast", "multicast", "Tcgen05CpMulticast", _MULTICASTS, ""),
    Token("source_format", "srcFormat", "Tcgen05CpSrcFormat", absent=""),
)
_LD_ST_SHAPE = Token("shape", "shape", "Tcgen05LdStShape", _LD_ST_SHAPES)
_LD_RED = (
    _LD_ST_SHAPE,
    Token("op", "op", "ReductionKind"),
    Inferred("type", "data", {"i32": "u32"}),  # LLVM prints upstream's integers as .u32
    Flag("abs", "abs"),
    Flag("nan", "nan"),
    Repeats(tcgen05.LdRedOp.family),
)
_PLAIN = "d a b idesc enable_input_d"
_OPTIONS = "scale_input_d?:i64 disable_output_lane?"
_KIND = (Token("kind", "kind", "Tcgen05MMAKind"), Token("cta_group", "ctaGroup", "CTAGroupKind", _GROUPS))
_COLLECTOR = Token("collector_a", "collectorOp", "Tcgen05MMACollectorOp", absent="discard")
_MMA_5 = (*_KIND, _COLLECTOR, Flag("ashift", "aShift"))
_SIZES = {"default": "", "block16": "block16", "block32": "block32"}
_MMA_5_SCALED = (*_KIND, _COLLECTOR, Token("scale_vec", "blockScale", "Tcgen05MMABlockScale", _SIZES, ""))
_MMA_5_WS = (
    _KIND[0],
    Token("collector_buffer", "collectorBBuffer", "Tcgen05MMACollectorBBuffer", absent="b0"),
    Token("collector", "collectorOp", "Tcgen05MMACollectorOp", absent="discard"),
)
_TCGEN05 = (
    Pair(tcgen05.AllocOp, nvvm.Tcgen05AllocOp, "address columns", _GROUP),
    Pair(tcgen05.DeallocOp, nvvm.Tcgen05DeallocOp, "address columns", _GROUP),
    Pair(tcgen05.RelinquishAllocPermitOp, nvvm.Tcgen05RelinquishAllocPermitOp, "", _GROUP),
    Pair(tcgen05.CommitOp, nvvm.Tcgen05CommitOp, "mbarrier mask?", _GROUP, later=_COMMIT_LATER),
    Pair(tcgen05.WaitOp, nvvm.Tcgen05WaitOp, "", (Token("kind", "kind", "Tcgen05WaitKind", _WAITS),)),
    Pair(tcgen05.FenceOp, nvvm.Tcgen05FenceOp, "", (Token("kind", "kind", "Tcgen05FenceKind", _FENCES),)),
    Pair(tcgen05.CpOp, nvvm.Tcgen05CpOp, "address descriptor", _CP),
    Pair(tcgen05.ShiftOp, nvvm.Tcgen05ShiftOp, "address", _GROUP),
    Pair(tcgen05.LdOp, nvvm.Tcgen05LdOp, "address offset?:i64",
         (_LD_ST_SHAPE, Flag("pack", "pack"), Repeats(tcgen05.LdOp.family)), vectors=("data",)),
    Pair(tcgen05.StOp, nvvm.Tcgen05StOp, "address data offset?:i64",
         (_LD_ST_SHAPE, Flag("unpack", "unpack"), Repeats(tcgen05.StOp.family)), vectors=("data",)),
    Pair(tcgen05.LdRedOp, nvvm.Tcgen05LdRedOp, "address offset?:i64", _LD_RED, vectors=("data",)),
    Pair(tcgen05.MmaOp, nvvm.Tcgen05MMAOp, f"{_PLAIN} {_OPTIONS}", _MMA_5),
    Pair(tcgen05.SpMmaOp, nvvm.Tcgen05MMASparseOp, f"{_PLAIN} metadata {_OPTIONS}", _MMA_5),
    Pair(tcgen05.MmaBlockScaleOp, nvvm.Tcgen05MMABlockScaleOp, f"{_PLAIN} scale_a scale_b", _MMA_5_SCALED),
    Pair(tcgen05.SpMmaBlockScaleOp, nvvm.Tcgen05MMASparseBlockScaleOp,
         f"{_PLAIN} metadata scale_a scale_b", _MMA_5_SCALED),
    Pair(tcgen05.MmaWsOp, nvvm.Tcgen05MMAWsOp, f"{_PLAIN} zero_column_mask?", _MMA_5_WS),
    Pair(tcgen05.SpMmaWsOp, nvvm.Tcgen05MMAWsSparseOp, f"{_PLAIN} metadata zero_column_mask?", _MMA_5_WS),
)
# fmt: on

PAIRS: tuple[Pair, ...] = (*_WMMA, *_MMA, *_WGMMA, *_TCGEN05)
