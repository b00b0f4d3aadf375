// RUN: weft-opt %s --weft-to-nvvm --split-input-file | FileCheck %s

// CHECK-LABEL: @wmma
llvm.func @wmma(%p: !llvm.ptr<1>, %stride: i32, %i: i32) {
  // CHECK: nvvm.wmma.load %{{.*}}, %{{.*}} {eltype = #nvvm.mma_type<s8>, frag = #nvvm.mma_frag<b>, k = 16 : i32, layout = #nvvm.mma_layout<col>, m = 16 : i32, n = 16 : i32} : (!llvm.ptr<1>) -> !llvm.struct<(i32, i32)>
  %0 = "wmma.load"(%p, %stride) {shape = "m16n16k16", fragment = "b", type = "s8", layout = "col"} : (!llvm.ptr<1>, i32) -> !llvm.struct<(i32, i32)>
  // CHECK: nvvm.wmma.mma
  // CHECK-SAME: eltypeA = #nvvm.mma_type<s8>, eltypeB = #nvvm.mma_type<s32>
  %1 = "wmma.mma"(%i, %i, %i, %i, %i, %i, %i, %i, %i, %i, %i, %i) {shape = "m16n16k16", a_type = "s8", b_type = "s8", c_type = "s32", d_type = "s32", operandSegmentSizes = array<i32: 2, 2, 8>} : (i32, i32, i32, i32, i32, i32, i32, i32, i32, i32, i32, i32) -> !llvm.struct<(i32, i32, i32, i32, i32, i32, i32, i32)>
  llvm.return
}

// -----

// Upstream wants to be told about overflow where integers are summed.
// CHECK-LABEL: @sync
llvm.func @sync(%i: i32) {
  // CHECK: nvvm.mma.sync
  // CHECK-SAME: {intOverflowBehavior = #nvvm.mma_int_overflow<wrapped>, layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, multiplicandAPtxType = #nvvm.mma_type<s4>, multiplicandBPtxType = #nvvm.mma_type<u4>, shape = #nvvm.shape<m = 8, n = 8, k = 32>}
  %0 = "mma.sync"(%i, %i, %i, %i) {shape = "m8n8k32", a_type = "s4", b_type = "u4", c_type = "s32", d_type = "s32", operandSegmentSizes = array<i32: 1, 1, 2>} : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
  llvm.return
}

// -----

// What upstream has as a constant operand is an attribute of ours, and the other way round.
// CHECK-LABEL: @constants
llvm.func @constants(%i: i32, %f: f32, %a: i64, %s: !llvm.struct<(f32, f32, f32, f32)>) {
  // CHECK: %[[SELECTOR:.*]] = llvm.mlir.constant(1 : i32) : i32
  // CHECK: nvvm.mma.sp.sync
  // CHECK-SAME: selector[%[[SELECTOR]]] {multiplicandAPtxType = #nvvm.mma_type<bf16>, multiplicandBPtxType = #nvvm.mma_type<bf16>, orderedMetadata
  %0 = "mma.sp_sync"(%i, %i, %i, %i, %f, %f, %f, %f, %i) {shape = "m16n8k16", a_type = "bf16", b_type = "bf16", c_type = "f32", d_type = "f32", selector = 1 : i64, operandSegmentSizes = array<i32: 2, 2, 4, 1>} : (i32, i32, i32, i32, f32, f32, f32, f32, i32) -> !llvm.struct<(f32, f32, f32, f32)>
  // CHECK-NOT: constant
  // CHECK: nvvm.wgmma.mma_async
  // CHECK-SAME: D[<f32>, <one>], A[<f16>, <neg>, <col>], B[<f16>, <one>, <col>]
  %more = arith.constant true
  %1 = "wgmma.mma_async"(%s, %a, %a, %more) {shape = "m64n8k16", a_type = "f16", b_type = "f16", d_type = "f32", scale_a = -1 : i64, trans_a = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  llvm.return
}

// -----

// A vector holds even one register upstream.
// CHECK-LABEL: @one_register
llvm.func @one_register(%t: !llvm.ptr<6>) {
  // CHECK: %[[V:.*]] = nvvm.tcgen05.ld %{{.*}} {shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>} : vector<1xi32>
  // CHECK: %[[I:.*]] = llvm.extractelement %[[V]]
  %0 = "tcgen05.ld"(%t) {shape = "32x32b", num = 1 : i64} : (!llvm.ptr<6>) -> i32
  // CHECK: %[[W:.*]] = llvm.insertelement %[[I]]
  // CHECK: nvvm.tcgen05.st %{{.*}}, %[[W]] unpack {shape = #nvvm.tcgen05_ldst_shape<shape_16x64b>} : vector<1xi32>
  "tcgen05.st"(%t, %0) {shape = "16x64b", num = 1 : i64, unpack = true} : (!llvm.ptr<6>, i32) -> ()
  llvm.return
}

// -----

// What upstream has no word for stays.
// CHECK-LABEL: @stays
llvm.func @stays(%p: !llvm.ptr<3>, %i: i32, %b: i64, %more: i1, %s: !llvm.struct<(f32, f32, f32, f32)>) {
  // CHECK: "wmma.load"
  %0 = "wmma.load"(%p) {shape = "m16n16k16", fragment = "a", type = "f16"} : (!llvm.ptr<3>) -> !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  // CHECK: "wgmma.descriptor"
  %a = "wgmma.descriptor"(%p) {swizzle = "128B", stride_byte_offset = 1024 : i64} : (!llvm.ptr<3>) -> i64
  // CHECK: "wgmma.mma_async"
  %1 = "wgmma.mma_async"(%s, %a, %b, %more) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  llvm.return
}
