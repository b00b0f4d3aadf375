// RUN: weft-opt %s --lower-mma --split-input-file | FileCheck %s

// CHECK-LABEL: @sync(
// CHECK-SAME: %[[A0:[a-z0-9]+]]: vector<2xf16>, %[[A1:[a-z0-9]+]]: vector<2xf16>, %[[B:[a-z0-9]+]]: vector<2xf16>, %[[C0:[a-z0-9]+]]: f32, %[[C1:[a-z0-9]+]]: f32, %[[C2:[a-z0-9]+]]: f32, %[[C3:[a-z0-9]+]]: f32
func.func @sync(%a0: vector<2xf16>, %a1: vector<2xf16>, %b: vector<2xf16>, %c0: f32, %c1: f32, %c2: f32, %c3: f32) {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.mma.m16n8k8.row.col.f32.f32"(%[[A0]], %[[A1]], %[[B]], %[[C0]], %[[C1]], %[[C2]], %[[C3]]) : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  %0 = "mma.sync"(%a0, %a1, %b, %c0, %c1, %c2, %c3) {shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type =
    "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>,
    f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// CHECK-LABEL: @sync_integers(
// CHECK-SAME: %[[A:[a-z0-9]+]]: i32, %[[B:[a-z0-9]+]]: i32, %[[C0:[a-z0-9]+]]: i32, %[[C1:[a-z0-9]+]]: i32
func.func @sync_integers(%a: i32, %b: i32, %c0: i32, %c1: i32) {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.mma.m8n8k16.row.col.satfinite.s8.u8"(%[[A]], %[[B]], %[[C0]], %[[C1]]) : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
  %0 = "mma.sync"(%a, %b, %c0, %c1) {shape = "m8n8k16", a_type = "s8", b_type = "u8", c_type = "s32", d_type = "s32",
    satfinite = true, operandSegmentSizes = array<i32: 1, 1, 2>} : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
  return
}

// CHECK-LABEL: @sync_kind(
// CHECK-SAME: %[[A0:[a-z0-9]+]]: i32, %[[A1:[a-z0-9]+]]: i32, %[[A2:[a-z0-9]+]]: i32, %[[A3:[a-z0-9]+]]: i32, %[[B0:[a-z0-9]+]]: i32, %[[B1:[a-z0-9]+]]: i32, %[[C0:[a-z0-9]+]]: f32, %[[C1:[a-z0-9]+]]: f32, %[[C2:[a-z0-9]+]]: f32, %[[C3:[a-z0-9]+]]: f32
func.func @sync_kind(%a0: i32, %a1: i32, %a2: i32, %a3: i32, %b0: i32, %b1: i32, %c0: f32, %c1: f32, %c2: f32, %c3:
  f32) {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.mma.m16n8k32.row.col.kind.f8f6f4.f32.e3m2.e2m1.f32"(%[[A0]], %[[A1]], %[[A2]], %[[A3]], %[[B0]], %[[B1]], %[[C0]], %[[C1]], %[[C2]], %[[C3]]) : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  %0 = "mma.sync"(%a0, %a1, %a2, %a3, %b0, %b1, %c0, %c1, %c2, %c3) {shape = "m16n8k32", a_type = "e3m2", b_type =
    "e2m1", c_type = "f32", d_type = "f32", kind = "f8f6f4", operandSegmentSizes = array<i32: 4, 2, 4>} : (i32, i32,
    i32, i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

// LLVM 22.1 selects this intrinsic from sm_80 on.
// CHECK-LABEL: @bits_on_turing(
// CHECK-SAME: %[[A:[a-z0-9]+]]: i32, %[[B:[a-z0-9]+]]: i32, %[[C0:[a-z0-9]+]]: i32, %[[C1:[a-z0-9]+]]: i32
gpu.module @bits_on_turing [#nvvm.target<chip = "sm_75">] {
  gpu.func @bits_on_turing(%a: i32, %b: i32, %c0: i32, %c1: i32) kernel {
    // CHECK: llvm.inline_asm has_side_effects "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc {$0, $1}, {$2}, {$3}, {$4, $5};", "=r,=r,r,r,r,r" %[[A]], %[[B]], %[[C0]], %[[C1]] : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
    %0 = "mma.sync"(%a, %b, %c0, %c1) {shape = "m8n8k128", a_type = "b1", b_type = "b1", c_type = "s32", d_type =
      "s32", bit_op = "xor.popc", operandSegmentSizes = array<i32: 1, 1, 2>} : (i32, i32, i32, i32) ->
      !llvm.struct<(i32, i32)>
    gpu.return
  }
}

// -----

// CHECK-LABEL: @bits_on_ampere(
// CHECK-SAME: %[[A:[a-z0-9]+]]: i32, %[[B:[a-z0-9]+]]: i32, %[[C0:[a-z0-9]+]]: i32, %[[C1:[a-z0-9]+]]: i32
gpu.module @bits_on_ampere [#nvvm.target<chip = "sm_80">] {
  gpu.func @bits_on_ampere(%a: i32, %b: i32, %c0: i32, %c1: i32) kernel {
    // CHECK: llvm.call_intrinsic "llvm.nvvm.mma.xor.popc.m8n8k128.row.col.b1"(%[[A]], %[[B]], %[[C0]], %[[C1]]) : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
    %0 = "mma.sync"(%a, %b, %c0, %c1) {shape = "m8n8k128", a_type = "b1", b_type = "b1", c_type = "s32", d_type =
      "s32", bit_op = "xor.popc", operandSegmentSizes = array<i32: 1, 1, 2>} : (i32, i32, i32, i32) ->
      !llvm.struct<(i32, i32)>
    gpu.return
  }
}

// -----

// CHECK-LABEL: @sp_sync(
// CHECK-SAME: %[[A0:[a-z0-9]+]]: vector<2xf16>, %[[A1:[a-z0-9]+]]: vector<2xf16>, %[[B0:[a-z0-9]+]]: vector<2xf16>, %[[B1:[a-z0-9]+]]: vector<2xf16>, %[[C0:[a-z0-9]+]]: f32, %[[C1:[a-z0-9]+]]: f32, %[[C2:[a-z0-9]+]]: f32, %[[C3:[a-z0-9]+]]: f32, %[[METADATA:[a-z0-9]+]]: i32
func.func @sp_sync(%a0: vector<2xf16>, %a1: vector<2xf16>, %b0: vector<2xf16>, %b1: vector<2xf16>, %c0: f32, %c1: f32,
  %c2: f32, %c3: f32, %metadata: i32) {
  // CHECK: %[[V0:.*]] = llvm.mlir.constant(1 : i32) : i32
  // CHECK: llvm.call_intrinsic "llvm.nvvm.mma.sp.ordered.metadata.m16n8k16.row.col.f32.f32"(%[[A0]], %[[A1]], %[[B0]], %[[B1]], %[[C0]], %[[C1]], %[[C2]], %[[C3]], %[[METADATA]], %[[V0]]) : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32, i32, i32) -> !llvm.struct<(f32, f32, f32, f32)>
  %0 = "mma.sp_sync"(%a0, %a1, %b0, %b1, %c0, %c1, %c2, %c3, %metadata) {shape = "m16n8k16", a_type = "f16", b_type =
    "f16", c_type = "f32", d_type = "f32", selector = 1 : i64, operandSegmentSizes = array<i32: 2, 2, 4, 1>} :
    (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32, i32) -> !llvm.struct<(f32, f32,
    f32, f32)>
  return
}

// CHECK-LABEL: @sp_sync_unordered(
// CHECK-SAME: %[[A0:[a-z0-9]+]]: vector<2xf16>, %[[A1:[a-z0-9]+]]: vector<2xf16>, %[[B0:[a-z0-9]+]]: vector<2xf16>, %[[B1:[a-z0-9]+]]: vector<2xf16>, %[[C0:[a-z0-9]+]]: f32, %[[C1:[a-z0-9]+]]: f32, %[[C2:[a-z0-9]+]]: f32, %[[C3:[a-z0-9]+]]: f32, %[[METADATA:[a-z0-9]+]]: i32
func.func @sp_sync_unordered(%a0: vector<2xf16>, %a1: vector<2xf16>, %b0: vector<2xf16>, %b1: vector<2xf16>, %c0: f32,
  %c1: f32, %c2: f32, %c3: f32, %metadata: i32) {
  // CHECK: %[[V0:.*]] = llvm.mlir.constant(0 : i32) : i32
  // CHECK: llvm.call_intrinsic "llvm.nvvm.mma.sp.m16n8k16.row.col.f32.f32"(%[[A0]], %[[A1]], %[[B0]], %[[B1]], %[[C0]], %[[C1]], %[[C2]], %[[C3]], %[[METADATA]], %[[V0]]) : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32, i32, i32) -> !llvm.struct<(f32, f32, f32, f32)>
  %0 = "mma.sp_sync"(%a0, %a1, %b0, %b1, %c0, %c1, %c2, %c3, %metadata) {shape = "m16n8k16", a_type = "f16", b_type =
    "f16", c_type = "f32", d_type = "f32", ordered = false, operandSegmentSizes = array<i32: 2, 2, 4, 1>} :
    (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32, i32) -> !llvm.struct<(f32, f32,
    f32, f32)>
  return
}

// CHECK-LABEL: @block_scale(
// CHECK-SAME: %[[A0:[a-z0-9]+]]: i32, %[[A1:[a-z0-9]+]]: i32, %[[A2:[a-z0-9]+]]: i32, %[[A3:[a-z0-9]+]]: i32, %[[B0:[a-z0-9]+]]: i32, %[[B1:[a-z0-9]+]]: i32, %[[C0:[a-z0-9]+]]: f32, %[[C1:[a-z0-9]+]]: f32, %[[C2:[a-z0-9]+]]: f32, %[[C3:[a-z0-9]+]]: f32, %[[SCALE_A:[a-z0-9]+]]: i32, %[[BYTE_ID_A:[a-z0-9]+]]: i16, %[[THREAD_ID_A:[a-z0-9]+]]: i16, %[[SCALE_B:[a-z0-9]+]]: i32, %[[BYTE_ID_B:[a-z0-9]+]]: i16, %[[THREAD_ID_B:[a-z0-9]+]]: i16
func.func @block_scale(%a0: i32, %a1: i32, %a2: i32, %a3: i32, %b0: i32, %b1: i32, %c0: f32, %c1: f32, %c2: f32, %c3:
  f32, %scale_a: i32, %byte_id_a: i16, %thread_id_a: i16, %scale_b: i32, %byte_id_b: i16, %thread_id_b: i16) {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.mma.block.scale.m16n8k32.row.col.mxf8f6f4.scale.1x.f32.e4m3.e2m1.f32.ue8m0"(%[[A0]], %[[A1]], %[[A2]], %[[A3]], %[[B0]], %[[B1]], %[[C0]], %[[C1]], %[[C2]], %[[C3]], %[[SCALE_A]], %[[BYTE_ID_A]], %[[THREAD_ID_A]], %[[SCALE_B]], %[[BYTE_ID_B]], %[[THREAD_ID_B]]) : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32, i16, i16, i32, i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
  %0 = "mma.block_scale"(%a0, %a1, %a2, %a3, %b0, %b1, %c0, %c1, %c2, %c3, %scale_a, %byte_id_a, %thread_id_a,
    %scale_b, %byte_id_b, %thread_id_b) {shape = "m16n8k32", kind = "mxf8f6f4", scale_vec = "1X", a_type = "e4m3",
    b_type = "e2m1", scale_type = "ue8m0", operandSegmentSizes = array<i32: 4, 2, 4, 1, 1, 1, 1, 1, 1>} : (i32, i32,
    i32, i32, i32, i32, f32, f32, f32, f32, i32, i16, i16, i32, i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// LLVM 22.1 has no intrinsic for 4X with scales of ue8m0.
// CHECK-LABEL: @block_scale_inline(
// CHECK-SAME: %[[A0:[a-z0-9]+]]: i32, %[[A1:[a-z0-9]+]]: i32, %[[A2:[a-z0-9]+]]: i32, %[[A3:[a-z0-9]+]]: i32, %[[B0:[a-z0-9]+]]: i32, %[[B1:[a-z0-9]+]]: i32, %[[C0:[a-z0-9]+]]: f32, %[[C1:[a-z0-9]+]]: f32, %[[C2:[a-z0-9]+]]: f32, %[[C3:[a-z0-9]+]]: f32, %[[SCALE_A:[a-z0-9]+]]: i32, %[[BYTE_ID_A:[a-z0-9]+]]: i16, %[[THREAD_ID_A:[a-z0-9]+]]: i16, %[[SCALE_B:[a-z0-9]+]]: i32, %[[BYTE_ID_B:[a-z0-9]+]]: i16, %[[THREAD_ID_B:[a-z0-9]+]]: i16
func.func @block_scale_inline(%a0: i32, %a1: i32, %a2: i32, %a3: i32, %b0: i32, %b1: i32, %c0: f32, %c1: f32, %c2:
  f32, %c3: f32, %scale_a: i32, %byte_id_a: i16, %thread_id_a: i16, %scale_b: i32, %byte_id_b: i16, %thread_id_b: i16)
  {
  // CHECK: llvm.inline_asm has_side_effects "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0 {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13}, $14, {$15, $16}, $17, {$18, $19};", "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f,r,h,h,r,h,h" %[[A0]], %[[A1]], %[[A2]], %[[A3]], %[[B0]], %[[B1]], %[[C0]], %[[C1]], %[[C2]], %[[C3]], %[[SCALE_A]], %[[BYTE_ID_A]], %[[THREAD_ID_A]], %[[SCALE_B]], %[[BYTE_ID_B]], %[[THREAD_ID_B]] : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32, i16, i16, i32, i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
  %0 = "mma.block_scale"(%a0, %a1, %a2, %a3, %b0, %b1, %c0, %c1, %c2, %c3, %scale_a, %byte_id_a, %thread_id_a,
    %scale_b, %byte_id_b, %thread_id_b) {shape = "m16n8k64", kind = "mxf4nvf4", scale_vec = "4X", a_type = "e2m1",
    b_type = "e2m1", scale_type = "ue8m0", operandSegmentSizes = array<i32: 4, 2, 4, 1, 1, 1, 1, 1, 1>} : (i32, i32,
    i32, i32, i32, i32, f32, f32, f32, f32, i32, i16, i16, i32, i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// CHECK-LABEL: @sp_block_scale(
// CHECK-SAME: %[[A0:[a-z0-9]+]]: i32, %[[A1:[a-z0-9]+]]: i32, %[[A2:[a-z0-9]+]]: i32, %[[A3:[a-z0-9]+]]: i32, %[[B0:[a-z0-9]+]]: i32, %[[B1:[a-z0-9]+]]: i32, %[[B2:[a-z0-9]+]]: i32, %[[B3:[a-z0-9]+]]: i32, %[[C0:[a-z0-9]+]]: f32, %[[C1:[a-z0-9]+]]: f32, %[[C2:[a-z0-9]+]]: f32, %[[C3:[a-z0-9]+]]: f32, %[[METADATA:[a-z0-9]+]]: i32, %[[SCALE_A:[a-z0-9]+]]: i32, %[[BYTE_ID_A:[a-z0-9]+]]: i16, %[[THREAD_ID_A:[a-z0-9]+]]: i16, %[[SCALE_B:[a-z0-9]+]]: i32, %[[BYTE_ID_B:[a-z0-9]+]]: i16, %[[THREAD_ID_B:[a-z0-9]+]]: i16
func.func @sp_block_scale(%a0: i32, %a1: i32, %a2: i32, %a3: i32, %b0: i32, %b1: i32, %b2: i32, %b3: i32, %c0: f32,
  %c1: f32, %c2: f32, %c3: f32, %metadata: i32, %scale_a: i32, %byte_id_a: i16, %thread_id_a: i16, %scale_b: i32,
  %byte_id_b: i16, %thread_id_b: i16) {
  // CHECK: %[[V0:.*]] = llvm.mlir.constant(0 : i32) : i32
  // CHECK: llvm.call_intrinsic "llvm.nvvm.mma.sp.ordered.metadata.block.scale.m16n8k64.row.col.mxf8f6f4.f32.e4m3.e4m3.f32.ue8m0"(%[[A0]], %[[A1]], %[[A2]], %[[A3]], %[[B0]], %[[B1]], %[[B2]], %[[B3]], %[[C0]], %[[C1]], %[[C2]], %[[C3]], %[[METADATA]], %[[V0]], %[[SCALE_A]], %[[BYTE_ID_A]], %[[THREAD_ID_A]], %[[SCALE_B]], %[[BYTE_ID_B]], %[[THREAD_ID_B]]) : (i32, i32, i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32, i32, i32, i16, i16, i32, i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
  %0 = "mma.sp_block_scale"(%a0, %a1, %a2, %a3, %b0, %b1, %b2, %b3, %c0, %c1, %c2, %c3, %metadata, %scale_a,
    %byte_id_a, %thread_id_a, %scale_b, %byte_id_b, %thread_id_b) {shape = "m16n8k64", kind = "mxf8f6f4", scale_vec =
    "", a_type = "e4m3", b_type = "e4m3", scale_type = "ue8m0", operandSegmentSizes = array<i32: 4, 4, 4, 1, 1, 1, 1,
    1, 1, 1>} : (i32, i32, i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32, i32, i16, i16, i32, i16, i16) ->
    !llvm.struct<(f32, f32, f32, f32)>
  return
}

// CHECK-LABEL: @ldmatrix(
// CHECK-SAME: %[[ADDRESS:[a-z0-9]+]]: !llvm.ptr<3>
func.func @ldmatrix(%address: !llvm.ptr<3>) {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x2.trans.b16.p3"(%[[ADDRESS]]) : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32)>
  %0 = "mma.ldmatrix"(%address) {shape = "m8n8", num = 2 : i64, trans = true} : (!llvm.ptr<3>) -> !llvm.struct<(i32,
    i32)>
  return
}

// CHECK-LABEL: @ldmatrix_generic(
// CHECK-SAME: %[[ADDRESS:[a-z0-9]+]]: !llvm.ptr
func.func @ldmatrix_generic(%address: !llvm.ptr) {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x1.b16.p0"(%[[ADDRESS]]) : (!llvm.ptr) -> i32
  %0 = "mma.ldmatrix"(%address) {shape = "m8n8", num = 1 : i64} : (!llvm.ptr) -> i32
  return
}

// CHECK-LABEL: @stmatrix(
// CHECK-SAME: %[[ADDRESS:[a-z0-9]+]]: !llvm.ptr<3>, %[[A0:[a-z0-9]+]]: i32, %[[A1:[a-z0-9]+]]: i32
func.func @stmatrix(%address: !llvm.ptr<3>, %a0: i32, %a1: i32) {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.stmatrix.sync.aligned.m8n8.x2.b16.p3"(%[[ADDRESS]], %[[A0]], %[[A1]]) : (!llvm.ptr<3>, i32, i32) -> ()
  "mma.stmatrix"(%address, %a0, %a1) {shape = "m8n8", num = 2 : i64} : (!llvm.ptr<3>, i32, i32) -> ()
  return
}

// LLVM has no intrinsic for it, and it touches no memory.
// CHECK-LABEL: @movmatrix(
// CHECK-SAME: %[[A:[a-z0-9]+]]: i32
func.func @movmatrix(%a: i32) {
  // CHECK: llvm.inline_asm has_side_effects "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;", "=r,r" %[[A]] : (i32) -> i32
  %0 = "mma.movmatrix"(%a) : (i32) -> i32
  return
}
// Uses of a result go on with what the intrinsic returns.
// CHECK-LABEL: @uses(
func.func @uses(%h: vector<2xf16>, %f: f32) -> f32 {
  // CHECK: %[[D:.*]] = llvm.call_intrinsic
  %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type = "f32",
    d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32,
    f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  // CHECK-NOT: mma.sync
  // CHECK: %[[E:.*]] = llvm.extractvalue %[[D]][2]
  %1 = llvm.extractvalue %0[2] : !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: return %[[E]]
  return %1 : f32
}

// -----

// LLVM 22.1 knows no sm_107: it generates code for sm_103a, which has the form.
gpu.module @sm_107 [#nvvm.target<chip = "sm_107a">] {
  // CHECK-LABEL: @sync_on_sm_107(
  gpu.func @sync_on_sm_107(%h: vector<2xf16>, %f: f32) kernel {
    // CHECK: llvm.call_intrinsic "llvm.nvvm.mma.m16n8k8.row.col.f32.f32"
    %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}
