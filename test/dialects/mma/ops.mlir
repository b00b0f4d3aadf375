// RUN: weft-opt %s | weft-opt | FileCheck %s

// CHECK-LABEL: @sync_f16
func.func @sync_f16(%h: vector<2xf16>, %f: f32) {
  // CHECK: "mma.sync"
  // CHECK-SAME: a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32"
  // CHECK-SAME: operandSegmentSizes = array<i32: 4, 2, 4>, shape = "m16n8k16"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
  %0 = "mma.sync"(%h, %h, %h, %h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k16", a_type = "f16", b_type = "f16",
    c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 4, 2, 4>} : (vector<2xf16>, vector<2xf16>,
    vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: "mma.sync"
  // CHECK-SAME: operandSegmentSizes = array<i32: 2, 1, 4>, shape = "m16n8k8"
  // CHECK-SAME: (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32)
  %1 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type = "f32",
    d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32,
    f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// CHECK-LABEL: @sync_bf16
func.func @sync_bf16(%w: i32, %f: f32) {
  // CHECK: "mma.sync"
  // CHECK-SAME: a_type = "bf16"
  // CHECK-SAME: (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32)
  %0 = "mma.sync"(%w, %w, %w, %w, %w, %w, %f, %f, %f, %f) {shape = "m16n8k16", a_type = "bf16", b_type = "bf16",
    c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 4, 2, 4>} : (i32, i32, i32, i32, i32, i32, f32, f32,
    f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: "mma.sync"
  // CHECK-SAME: shape = "m16n8k8"
  %1 = "mma.sync"(%w, %w, %w, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "bf16", b_type = "bf16", c_type = "f32",
    d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (i32, i32, i32, f32, f32, f32, f32)
    -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// Layouts may be written out; row.col is what they are without.
// CHECK-LABEL: @sync_layouts
func.func @sync_layouts(%h: vector<2xf16>, %f: f32) {
  // CHECK: "mma.sync"
  // CHECK-SAME: a_layout = "row"
  // CHECK-SAME: b_layout = "col"
  %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k8", a_layout = "row", b_layout = "col", a_type = "f16",
    b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>,
    vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// A form that the module's chip has (sm_75 is upstream's default, which isn't printed).
// CHECK-LABEL: gpu.module @old [#nvvm.target]
gpu.module @old [#nvvm.target<chip = "sm_75">] {
  gpu.func @sync(%h: vector<2xf16>, %f: f32) kernel {
    // CHECK: "mma.sync"
    %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type = "f32",
      d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32,
      f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}

// CHECK-LABEL: @ldmatrix
func.func @ldmatrix(%address: !llvm.ptr<3>) {
  // CHECK: "mma.ldmatrix"(%{{.*}}) {num = 1 : i64} : (!llvm.ptr<3>) -> i32
  %0 = "mma.ldmatrix"(%address) {num = 1 : i64} : (!llvm.ptr<3>) -> i32
  // CHECK: "mma.ldmatrix"(%{{.*}}) {num = 2 : i64, trans = true} : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32)>
  %1 = "mma.ldmatrix"(%address) {num = 2 : i64, trans = true} : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32)>
  // CHECK: "mma.ldmatrix"(%{{.*}}) {my.note = "kept", num = 4 : i64, shape = "m8n8", trans = false, type = "b16"}
  // Attributes of other dialects are free.
  %2 = "mma.ldmatrix"(%address) {my.note = "kept", num = 4 : i64, shape = "m8n8", trans = false, type = "b16"}
    : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32, i32, i32)>
  return
}
