// RUN: weft-opt %s --lower-mma | FileCheck %s

// CHECK-LABEL: @sync
func.func @sync(%h: vector<2xf16>, %w: i32, %f: f32) -> f32 {
  // CHECK: %[[D:.*]] = llvm.call_intrinsic "llvm.nvvm.mma.m16n8k16.row.col.f32.f32"
  // CHECK-SAME: (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  %0 = "mma.sync"(%h, %h, %h, %h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k16", a_type = "f16", b_type = "f16",
    c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 4, 2, 4>} : (vector<2xf16>, vector<2xf16>,
    vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: llvm.extractvalue %[[D]][2]
  %1 = llvm.extractvalue %0[2] : !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: llvm.call_intrinsic "llvm.nvvm.mma.m16n8k8.row.col.f32.f32"
  %2 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type = "f32",
    d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32,
    f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: llvm.call_intrinsic "llvm.nvvm.mma.m16n8k8.row.col.bf16"
  // CHECK-SAME: (i32, i32, i32, f32, f32, f32, f32)
  %3 = "mma.sync"(%w, %w, %w, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "bf16", b_type = "bf16", c_type = "f32",
    d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (i32, i32, i32, f32, f32, f32, f32)
    -> !llvm.struct<(f32, f32, f32, f32)>
  // CHECK-NOT: mma.sync
  return %1 : f32
}

// CHECK-LABEL: @ldmatrix
func.func @ldmatrix(%address: !llvm.ptr<3>) {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x1.b16.p3"(%{{.*}}) : (!llvm.ptr<3>) -> i32
  %0 = "mma.ldmatrix"(%address) {num = 1 : i64} : (!llvm.ptr<3>) -> i32
  // CHECK: "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x2.trans.b16.p3"(%{{.*}}) : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32)>
  %1 = "mma.ldmatrix"(%address) {num = 2 : i64, trans = true} : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32)>
  // CHECK-NOT: mma.ldmatrix
  return
}
