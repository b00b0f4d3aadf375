// RUN: weft-opt %s | weft-opt | FileCheck %s

// CHECK-LABEL: @load_f16(
func.func @load_f16(%p: !llvm.ptr, %w: i32) {
  // CHECK: "wmma.load"
  // CHECK-SAME: fragment = "a", shape = "m16n16k16", type = "f16"
  // CHECK-SAME: -> !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  %0 = "wmma.load"(%p) {shape = "m16n16k16", fragment = "a", type = "f16"} : (!llvm.ptr) ->
    !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>,
    vector<2xf16>, vector<2xf16>)>
  // CHECK: "wmma.load"
  // CHECK-SAME: fragment = "b", layout = "col", shape = "m32n8k16", type = "f16"
  // CHECK-SAME: -> !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  %1 = "wmma.load"(%p, %w) {shape = "m32n8k16", fragment = "b", type = "f16", layout = "col"} : (!llvm.ptr, i32) ->
    !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>,
    vector<2xf16>, vector<2xf16>)>
  // CHECK: "wmma.load"
  // CHECK-SAME: fragment = "c", shape = "m8n32k16", type = "f16"
  // CHECK-SAME: -> !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  %2 = "wmma.load"(%p) {shape = "m8n32k16", fragment = "c", type = "f16"} : (!llvm.ptr) ->
    !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  return
}

// Pointers into shared and global memory.
// CHECK-LABEL: @load_spaces(
func.func @load_spaces(%s: !llvm.ptr<3>, %g: !llvm.ptr<1>, %w: i32) {
  // CHECK: "wmma.load"
  // CHECK-SAME: fragment = "a", layout = "col", shape = "m16n16k16", type = "bf16"
  // CHECK-SAME: -> !llvm.struct<(i32, i32, i32, i32)>
  %0 = "wmma.load"(%s) {shape = "m16n16k16", fragment = "a", type = "bf16", layout = "col"} : (!llvm.ptr<3>) ->
    !llvm.struct<(i32, i32, i32, i32)>
  // CHECK: "wmma.load"
  // CHECK-SAME: fragment = "c", shape = "m16n16k16", type = "f32"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
  %1 = "wmma.load"(%g, %w) {shape = "m16n16k16", fragment = "c", type = "f32"} : (!llvm.ptr<1>, i32) ->
    !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
  return
}

// A fragment of one register is a bare value.
// CHECK-LABEL: @load_one_register(
func.func @load_one_register(%p: !llvm.ptr, %s: !llvm.ptr<3>, %w: i32) {
  // CHECK: "wmma.load"
  // CHECK-SAME: fragment = "a", shape = "m8n8k32", type = "s4"
  // CHECK-SAME: -> i32
  %0 = "wmma.load"(%p) {shape = "m8n8k32", fragment = "a", type = "s4"} : (!llvm.ptr) -> i32
  // CHECK: "wmma.load"
  // CHECK-SAME: fragment = "b", layout = "col", shape = "m8n8k128", type = "b1"
  // CHECK-SAME: -> i32
  %1 = "wmma.load"(%s, %w) {shape = "m8n8k128", fragment = "b", type = "b1", layout = "col"} : (!llvm.ptr<3>, i32) ->
    i32
  // CHECK: "wmma.load"
  // CHECK-SAME: fragment = "a", shape = "m8n32k16", type = "u8"
  // CHECK-SAME: -> i32
  %2 = "wmma.load"(%p) {shape = "m8n32k16", fragment = "a", type = "u8"} : (!llvm.ptr) -> i32
  return
}

// CHECK-LABEL: @load_tf32(
func.func @load_tf32(%p: !llvm.ptr) {
  // CHECK: "wmma.load"
  // CHECK-SAME: fragment = "b", layout = "col", shape = "m16n16k8", type = "tf32"
  // CHECK-SAME: -> !llvm.struct<(i32, i32, i32, i32)>
  %0 = "wmma.load"(%p) {shape = "m16n16k8", fragment = "b", type = "tf32", layout = "col"} : (!llvm.ptr) ->
    !llvm.struct<(i32, i32, i32, i32)>
  return
}

// CHECK-LABEL: @store(
func.func @store(%g: !llvm.ptr<1>, %f: f32, %w: i32, %p: !llvm.ptr, %h: vector<2xf16>, %s: !llvm.ptr<3>) {
  // CHECK: "wmma.store"
  // CHECK-SAME: shape = "m16n16k16", type = "f32"
  "wmma.store"(%g, %f, %f, %f, %f, %f, %f, %f, %f, %w) {shape = "m16n16k16", type = "f32", operandSegmentSizes =
    array<i32: 1, 8, 1>} : (!llvm.ptr<1>, f32, f32, f32, f32, f32, f32, f32, f32, i32) -> ()
  // CHECK: "wmma.store"
  // CHECK-SAME: layout = "col"
  // CHECK-SAME: shape = "m32n8k16", type = "f16"
  "wmma.store"(%p, %h, %h, %h, %h) {shape = "m32n8k16", type = "f16", layout = "col", operandSegmentSizes = array<i32:
    1, 4, 0>} : (!llvm.ptr, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>) -> ()
  // CHECK: "wmma.store"
  // CHECK-SAME: shape = "m8n8k128", type = "s32"
  "wmma.store"(%s, %w, %w) {shape = "m8n8k128", type = "s32", operandSegmentSizes = array<i32: 1, 2, 0>} :
    (!llvm.ptr<3>, i32, i32) -> ()
  return
}

// C and D are f16 or f32, each as it likes.
// CHECK-LABEL: @mma_f16(
func.func @mma_f16(%h: vector<2xf16>, %f: f32) {
  // CHECK: "wmma.mma"
  // CHECK-SAME: a_type = "f16", b_type = "f16", c_type = "f16", d_type = "f16"
  // CHECK-SAME: shape = "m16n16k16"
  // CHECK-SAME: -> !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  %0 = "wmma.mma"(%h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h) {shape =
    "m16n16k16", a_type = "f16", b_type = "f16", c_type = "f16", d_type = "f16", operandSegmentSizes = array<i32: 8,
    8, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>,
    vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>,
    vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>) ->
    !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  // CHECK: "wmma.mma"
  // CHECK-SAME: a_layout = "col", a_type = "f16", b_layout = "row", b_type = "f16", c_type = "f16", d_type = "f32"
  // CHECK-SAME: shape = "m16n16k16"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
  %1 = "wmma.mma"(%h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h) {shape =
    "m16n16k16", a_type = "f16", b_type = "f16", c_type = "f16", d_type = "f32", a_layout = "col", b_layout = "row",
    operandSegmentSizes = array<i32: 8, 8, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>,
    vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>,
    vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>,
    vector<2xf16>, vector<2xf16>) -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
  // CHECK: "wmma.mma"
  // CHECK-SAME: a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32"
  // CHECK-SAME: shape = "m8n32k16"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
  %2 = "wmma.mma"(%h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %f, %f, %f, %f, %f, %f, %f, %f)
    {shape = "m8n32k16", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes =
    array<i32: 8, 8, 8>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>,
    vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>,
    vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32,
    f32, f32, f32, f32, f32, f32)>
  return
}

// CHECK-LABEL: @mma_bf16_tf32(
func.func @mma_bf16_tf32(%w: i32, %f: f32) {
  // CHECK: "wmma.mma"
  // CHECK-SAME: a_type = "bf16", b_type = "bf16", c_type = "f32", d_type = "f32"
  // CHECK-SAME: shape = "m32n8k16"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
  %0 = "wmma.mma"(%w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %f, %f, %f, %f) {shape = "m32n8k16", a_type
    = "bf16", b_type = "bf16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 8, 2, 8>} : (i32, i32,
    i32, i32, i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32,
    f32, f32, f32, f32, f32)>
  // CHECK: "wmma.mma"
  // CHECK-SAME: a_type = "tf32", b_layout = "row", b_type = "tf32", c_type = "f32", d_type = "f32"
  // CHECK-SAME: shape = "m16n16k8"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
  %1 = "wmma.mma"(%w, %w, %w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %f, %f, %f, %f) {shape = "m16n16k8", a_type =
    "tf32", b_type = "tf32", c_type = "f32", d_type = "f32", b_layout = "row", operandSegmentSizes = array<i32: 4, 4,
    8>} : (i32, i32, i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32,
    f32, f32, f32, f32, f32, f32)>
  return
}

// CHECK-LABEL: @mma_integers(
func.func @mma_integers(%w: i32) {
  // CHECK: "wmma.mma"
  // CHECK-SAME: a_type = "s8", b_type = "s8", c_type = "s32", d_type = "s32"
  // CHECK-SAME: satfinite = true, shape = "m16n16k16"
  // CHECK-SAME: -> !llvm.struct<(i32, i32, i32, i32, i32, i32, i32, i32)>
  %0 = "wmma.mma"(%w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w) {shape = "m16n16k16", a_type = "s8", b_type = "s8",
    c_type = "s32", d_type = "s32", satfinite = true, operandSegmentSizes = array<i32: 2, 2, 8>} : (i32, i32, i32,
    i32, i32, i32, i32, i32, i32, i32, i32, i32) -> !llvm.struct<(i32, i32, i32, i32, i32, i32, i32, i32)>
  // CHECK: "wmma.mma"
  // CHECK-SAME: a_type = "u8", b_type = "u8", c_type = "s32", d_type = "s32"
  // CHECK-SAME: shape = "m8n32k16"
  // CHECK-SAME: -> !llvm.struct<(i32, i32, i32, i32, i32, i32, i32, i32)>
  %1 = "wmma.mma"(%w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w) {shape = "m8n32k16", a_type = "u8", b_type =
    "u8", c_type = "s32", d_type = "s32", operandSegmentSizes = array<i32: 1, 4, 8>} : (i32, i32, i32, i32, i32, i32,
    i32, i32, i32, i32, i32, i32, i32) -> !llvm.struct<(i32, i32, i32, i32, i32, i32, i32, i32)>
  // CHECK: "wmma.mma"
  // CHECK-SAME: a_type = "u4", b_type = "u4", c_type = "s32", d_type = "s32"
  // CHECK-SAME: satfinite = true, shape = "m8n8k32"
  // CHECK-SAME: -> !llvm.struct<(i32, i32)>
  %2 = "wmma.mma"(%w, %w, %w, %w) {shape = "m8n8k32", a_type = "u4", b_type = "u4", c_type = "s32", d_type = "s32",
    satfinite = true, operandSegmentSizes = array<i32: 1, 1, 2>} : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
  return
}

// CHECK-LABEL: @mma_bits(
func.func @mma_bits(%w: i32) {
  // CHECK: "wmma.mma"
  // CHECK-SAME: a_type = "b1", b_type = "b1", bit_op = "xor.popc", c_type = "s32", d_type = "s32"
  // CHECK-SAME: shape = "m8n8k128"
  // CHECK-SAME: -> !llvm.struct<(i32, i32)>
  %0 = "wmma.mma"(%w, %w, %w, %w) {shape = "m8n8k128", a_type = "b1", b_type = "b1", c_type = "s32", d_type = "s32",
    bit_op = "xor.popc", operandSegmentSizes = array<i32: 1, 1, 2>} : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
  // CHECK: "wmma.mma"
  // CHECK-SAME: a_type = "b1", b_type = "b1", bit_op = "and.popc", c_type = "s32", d_type = "s32"
  // CHECK-SAME: shape = "m8n8k128"
  // CHECK-SAME: -> !llvm.struct<(i32, i32)>
  %1 = "wmma.mma"(%w, %w, %w, %w) {shape = "m8n8k128", a_type = "b1", b_type = "b1", c_type = "s32", d_type = "s32",
    bit_op = "and.popc", operandSegmentSizes = array<i32: 1, 1, 2>} : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
  return
}

// What Volta has.
// CHECK-LABEL: @volta(
gpu.module @volta [#nvvm.target<chip = "sm_70">] {
  gpu.func @volta(%h: vector<2xf16>, %f: f32) kernel {
    // CHECK: "wmma.mma"
    // CHECK-SAME: a_layout = "col", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32"
    // CHECK-SAME: shape = "m16n16k16"
    // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
    %0 = "wmma.mma"(%h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %f, %f, %f, %f, %f, %f, %f, %f)
      {shape = "m16n16k16", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", a_layout = "col",
      operandSegmentSizes = array<i32: 8, 8, 8>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>,
      vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>,
      vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32, f32, f32, f32,
      f32) -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
    gpu.return
  }
}
