// RUN: weft-opt %s --lower-wmma | FileCheck %s

// CHECK-LABEL: @load(
// CHECK-SAME: %[[ADDRESS:[a-z0-9]+]]: !llvm.ptr, %[[STRIDE:[a-z0-9]+]]: i32
func.func @load(%address: !llvm.ptr, %stride: i32) {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.wmma.m16n16k16.load.a.col.stride.f16.p0"(%[[ADDRESS]], %[[STRIDE]]) : (!llvm.ptr, i32) -> !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  %0 = "wmma.load"(%address, %stride) {shape = "m16n16k16", fragment = "a", type = "f16", layout = "col"} :
    (!llvm.ptr, i32) -> !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>,
    vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  return
}

// A fragment of one register comes back bare.
// CHECK-LABEL: @load_one_register(
// CHECK-SAME: %[[ADDRESS:[a-z0-9]+]]: !llvm.ptr<3>
func.func @load_one_register(%address: !llvm.ptr<3>) {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.wmma.m8n8k32.load.b.col.s4.p3"(%[[ADDRESS]]) : (!llvm.ptr<3>) -> i32
  %0 = "wmma.load"(%address) {shape = "m8n8k32", fragment = "b", type = "s4", layout = "col"} : (!llvm.ptr<3>) -> i32
  return
}

// The stride follows the registers.
// CHECK-LABEL: @store(
// CHECK-SAME: %[[ADDRESS:[a-z0-9]+]]: !llvm.ptr<1>, %[[D0:[a-z0-9]+]]: i32, %[[D1:[a-z0-9]+]]: i32, %[[STRIDE:[a-z0-9]+]]: i32
func.func @store(%address: !llvm.ptr<1>, %d0: i32, %d1: i32, %stride: i32) {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.wmma.m8n8k128.store.d.row.stride.s32.p1"(%[[ADDRESS]], %[[D0]], %[[D1]], %[[STRIDE]]) : (!llvm.ptr<1>, i32, i32, i32) -> ()
  "wmma.store"(%address, %d0, %d1, %stride) {shape = "m8n8k128", type = "s32", operandSegmentSizes = array<i32: 1, 2,
    1>} : (!llvm.ptr<1>, i32, i32, i32) -> ()
  return
}

// CHECK-LABEL: @mma(
// CHECK-SAME: %[[A:[a-z0-9]+]]: i32, %[[B0:[a-z0-9]+]]: i32, %[[B1:[a-z0-9]+]]: i32, %[[B2:[a-z0-9]+]]: i32, %[[B3:[a-z0-9]+]]: i32, %[[C0:[a-z0-9]+]]: i32, %[[C1:[a-z0-9]+]]: i32, %[[C2:[a-z0-9]+]]: i32, %[[C3:[a-z0-9]+]]: i32, %[[C4:[a-z0-9]+]]: i32, %[[C5:[a-z0-9]+]]: i32, %[[C6:[a-z0-9]+]]: i32, %[[C7:[a-z0-9]+]]: i32
func.func @mma(%a: i32, %b0: i32, %b1: i32, %b2: i32, %b3: i32, %c0: i32, %c1: i32, %c2: i32, %c3: i32, %c4: i32, %c5:
  i32, %c6: i32, %c7: i32) {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.wmma.m8n32k16.mma.row.col.u8.satfinite"(%[[A]], %[[B0]], %[[B1]], %[[B2]], %[[B3]], %[[C0]], %[[C1]], %[[C2]], %[[C3]], %[[C4]], %[[C5]], %[[C6]], %[[C7]]) : (i32, i32, i32, i32, i32, i32, i32, i32, i32, i32, i32, i32, i32) -> !llvm.struct<(i32, i32, i32, i32, i32, i32, i32, i32)>
  %0 = "wmma.mma"(%a, %b0, %b1, %b2, %b3, %c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7) {shape = "m8n32k16", a_type = "u8",
    b_type = "u8", c_type = "s32", d_type = "s32", satfinite = true, operandSegmentSizes = array<i32: 1, 4, 8>} :
    (i32, i32, i32, i32, i32, i32, i32, i32, i32, i32, i32, i32, i32) -> !llvm.struct<(i32, i32, i32, i32, i32, i32,
    i32, i32)>
  return
}

// D's type comes first.
// CHECK-LABEL: @mma_f16(
// CHECK-SAME: %[[A0:[a-z0-9]+]]: vector<2xf16>, %[[A1:[a-z0-9]+]]: vector<2xf16>, %[[A2:[a-z0-9]+]]: vector<2xf16>, %[[A3:[a-z0-9]+]]: vector<2xf16>, %[[A4:[a-z0-9]+]]: vector<2xf16>, %[[A5:[a-z0-9]+]]: vector<2xf16>, %[[A6:[a-z0-9]+]]: vector<2xf16>, %[[A7:[a-z0-9]+]]: vector<2xf16>, %[[B0:[a-z0-9]+]]: vector<2xf16>, %[[B1:[a-z0-9]+]]: vector<2xf16>, %[[B2:[a-z0-9]+]]: vector<2xf16>, %[[B3:[a-z0-9]+]]: vector<2xf16>, %[[B4:[a-z0-9]+]]: vector<2xf16>, %[[B5:[a-z0-9]+]]: vector<2xf16>, %[[B6:[a-z0-9]+]]: vector<2xf16>, %[[B7:[a-z0-9]+]]: vector<2xf16>, %[[C0:[a-z0-9]+]]: vector<2xf16>, %[[C1:[a-z0-9]+]]: vector<2xf16>, %[[C2:[a-z0-9]+]]: vector<2xf16>, %[[C3:[a-z0-9]+]]: vector<2xf16>
func.func @mma_f16(%a0: vector<2xf16>, %a1: vector<2xf16>, %a2: vector<2xf16>, %a3: vector<2xf16>, %a4: vector<2xf16>,
  %a5: vector<2xf16>, %a6: vector<2xf16>, %a7: vector<2xf16>, %b0: vector<2xf16>, %b1: vector<2xf16>, %b2:
  vector<2xf16>, %b3: vector<2xf16>, %b4: vector<2xf16>, %b5: vector<2xf16>, %b6: vector<2xf16>, %b7: vector<2xf16>,
  %c0: vector<2xf16>, %c1: vector<2xf16>, %c2: vector<2xf16>, %c3: vector<2xf16>) {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.wmma.m16n16k16.mma.col.row.f32.f16"(%[[A0]], %[[A1]], %[[A2]], %[[A3]], %[[A4]], %[[A5]], %[[A6]], %[[A7]], %[[B0]], %[[B1]], %[[B2]], %[[B3]], %[[B4]], %[[B5]], %[[B6]], %[[B7]], %[[C0]], %[[C1]], %[[C2]], %[[C3]]) : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>) -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
  %0 = "wmma.mma"(%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7, %b0, %b1, %b2, %b3, %b4, %b5, %b6, %b7, %c0, %c1, %c2, %c3)
    {shape = "m16n16k16", a_type = "f16", b_type = "f16", c_type = "f16", d_type = "f32", a_layout = "col", b_layout =
    "row", operandSegmentSizes = array<i32: 8, 8, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>,
    vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>,
    vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>,
    vector<2xf16>, vector<2xf16>) -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
  return
}

// CHECK-LABEL: @mma_bits(
// CHECK-SAME: %[[A:[a-z0-9]+]]: i32, %[[B:[a-z0-9]+]]: i32, %[[C0:[a-z0-9]+]]: i32, %[[C1:[a-z0-9]+]]: i32
func.func @mma_bits(%a: i32, %b: i32, %c0: i32, %c1: i32) {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.wmma.m8n8k128.mma.and.popc.row.col.b1"(%[[A]], %[[B]], %[[C0]], %[[C1]]) : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
  %0 = "wmma.mma"(%a, %b, %c0, %c1) {shape = "m8n8k128", a_type = "b1", b_type = "b1", c_type = "s32", d_type = "s32",
    bit_op = "and.popc", operandSegmentSizes = array<i32: 1, 1, 2>} : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
  return
}
