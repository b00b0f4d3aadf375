// RUN: weft-opt %s | weft-opt | FileCheck %s

// CHECK-LABEL: @sync_f16(
func.func @sync_f16(%h: vector<2xf16>, %f: f32) {
  // CHECK: "mma.sync"
  // CHECK-SAME: a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32"
  // CHECK-SAME: shape = "m16n8k16"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
  %0 = "mma.sync"(%h, %h, %h, %h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k16", a_type = "f16", b_type = "f16", c_type
    = "f32", d_type = "f32", operandSegmentSizes = array<i32: 4, 2, 4>} : (vector<2xf16>, vector<2xf16>,
    vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32,
    f32)>
  // CHECK: "mma.sync"
  // CHECK-SAME: a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32"
  // CHECK-SAME: shape = "m16n8k8"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
  %1 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type = "f32",
    d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32,
    f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: "mma.sync"
  // CHECK-SAME: a_type = "f16", b_type = "f16", c_type = "f16", d_type = "f16"
  // CHECK-SAME: shape = "m16n8k8"
  // CHECK-SAME: -> !llvm.struct<(vector<2xf16>, vector<2xf16>)>
  %2 = "mma.sync"(%h, %h, %h, %h, %h) {shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type = "f16", d_type =
    "f16", operandSegmentSizes = array<i32: 2, 1, 2>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>,
    vector<2xf16>) -> !llvm.struct<(vector<2xf16>, vector<2xf16>)>
  return
}

// The one shape with layouts other than row.col: four products at once.
// CHECK-LABEL: @sync_f16_quads(
func.func @sync_f16_quads(%h: vector<2xf16>) {
  // CHECK: "mma.sync"
  // CHECK-SAME: a_layout = "col", a_type = "f16", b_layout = "row", b_type = "f16", c_type = "f16", d_type = "f32"
  // CHECK-SAME: shape = "m8n8k4"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
  %0 = "mma.sync"(%h, %h, %h, %h, %h, %h, %h, %h) {shape = "m8n8k4", a_type = "f16", b_type = "f16", c_type = "f16",
    d_type = "f32", a_layout = "col", b_layout = "row", operandSegmentSizes = array<i32: 2, 2, 4>} : (vector<2xf16>,
    vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>) ->
    !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
  // CHECK: "mma.sync"
  // CHECK-SAME: a_type = "f16", b_layout = "row", b_type = "f16", c_type = "f16", d_type = "f16"
  // CHECK-SAME: shape = "m8n8k4"
  // CHECK-SAME: -> !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  %1 = "mma.sync"(%h, %h, %h, %h, %h, %h, %h, %h) {shape = "m8n8k4", a_type = "f16", b_type = "f16", c_type = "f16",
    d_type = "f16", b_layout = "row", operandSegmentSizes = array<i32: 2, 2, 4>} : (vector<2xf16>, vector<2xf16>,
    vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>) ->
    !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  return
}

// CHECK-LABEL: @sync_bf16_tf32(
func.func @sync_bf16_tf32(%w: i32, %f: f32) {
  // CHECK: "mma.sync"
  // CHECK-SAME: a_type = "bf16", b_type = "bf16", c_type = "f32", d_type = "f32"
  // CHECK-SAME: shape = "m16n8k16"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
  %0 = "mma.sync"(%w, %w, %w, %w, %w, %w, %f, %f, %f, %f) {shape = "m16n8k16", a_type = "bf16", b_type = "bf16",
    c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 4, 2, 4>} : (i32, i32, i32, i32, i32, i32, f32,
    f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: "mma.sync"
  // CHECK-SAME: a_type = "tf32", b_type = "tf32", c_type = "f32", d_type = "f32"
  // CHECK-SAME: shape = "m16n8k4"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
  %1 = "mma.sync"(%w, %w, %w, %f, %f, %f, %f) {shape = "m16n8k4", a_type = "tf32", b_type = "tf32", c_type = "f32",
    d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (i32, i32, i32, f32, f32, f32, f32) ->
    !llvm.struct<(f32, f32, f32, f32)>
  return
}

// CHECK-LABEL: @sync_f64(
func.func @sync_f64(%d: f64) {
  // CHECK: "mma.sync"
  // CHECK-SAME: a_type = "f64", b_type = "f64", c_type = "f64", d_type = "f64"
  // CHECK-SAME: shape = "m8n8k4"
  // CHECK-SAME: -> !llvm.struct<(f64, f64)>
  %0 = "mma.sync"(%d, %d, %d, %d) {shape = "m8n8k4", a_type = "f64", b_type = "f64", c_type = "f64", d_type = "f64",
    operandSegmentSizes = array<i32: 1, 1, 2>} : (f64, f64, f64, f64) -> !llvm.struct<(f64, f64)>
  // CHECK: "mma.sync"
  // CHECK-SAME: a_type = "f64", b_type = "f64", c_type = "f64", d_type = "f64"
  // CHECK-SAME: shape = "m16n8k4"
  // CHECK-SAME: -> !llvm.struct<(f64, f64, f64, f64)>
  %1 = "mma.sync"(%d, %d, %d, %d, %d, %d, %d) {shape = "m16n8k4", a_type = "f64", b_type = "f64", c_type = "f64",
    d_type = "f64", operandSegmentSizes = array<i32: 2, 1, 4>} : (f64, f64, f64, f64, f64, f64, f64) ->
    !llvm.struct<(f64, f64, f64, f64)>
  return
}

// Signed and unsigned may mix; sums may be clamped.
// CHECK-LABEL: @sync_integers(
func.func @sync_integers(%w: i32) {
  // CHECK: "mma.sync"
  // CHECK-SAME: a_type = "s8", b_type = "u8", c_type = "s32", d_type = "s32"
  // CHECK-SAME: shape = "m8n8k16"
  // CHECK-SAME: -> !llvm.struct<(i32, i32)>
  %0 = "mma.sync"(%w, %w, %w, %w) {shape = "m8n8k16", a_type = "s8", b_type = "u8", c_type = "s32", d_type = "s32",
    operandSegmentSizes = array<i32: 1, 1, 2>} : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
  // CHECK: "mma.sync"
  // CHECK-SAME: a_type = "u4", b_type = "s4", c_type = "s32", d_type = "s32"
  // CHECK-SAME: satfinite = true, shape = "m16n8k64"
  // CHECK-SAME: -> !llvm.struct<(i32, i32, i32, i32)>
  %1 = "mma.sync"(%w, %w, %w, %w, %w, %w, %w, %w, %w, %w) {shape = "m16n8k64", a_type = "u4", b_type = "s4", c_type =
    "s32", d_type = "s32", satfinite = true, operandSegmentSizes = array<i32: 4, 2, 4>} : (i32, i32, i32, i32, i32,
    i32, i32, i32, i32, i32) -> !llvm.struct<(i32, i32, i32, i32)>
  // CHECK: "mma.sync"
  // CHECK-SAME: a_type = "b1", b_type = "b1", bit_op = "xor.popc", c_type = "s32", d_type = "s32"
  // CHECK-SAME: shape = "m8n8k128"
  // CHECK-SAME: -> !llvm.struct<(i32, i32)>
  %2 = "mma.sync"(%w, %w, %w, %w) {shape = "m8n8k128", a_type = "b1", b_type = "b1", c_type = "s32", d_type = "s32",
    bit_op = "xor.popc", operandSegmentSizes = array<i32: 1, 1, 2>} : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
  // CHECK: "mma.sync"
  // CHECK-SAME: a_type = "b1", b_type = "b1", bit_op = "and.popc", c_type = "s32", d_type = "s32"
  // CHECK-SAME: shape = "m16n8k128"
  // CHECK-SAME: -> !llvm.struct<(i32, i32, i32, i32)>
  %3 = "mma.sync"(%w, %w, %w, %w, %w, %w, %w) {shape = "m16n8k128", a_type = "b1", b_type = "b1", c_type = "s32",
    d_type = "s32", bit_op = "and.popc", operandSegmentSizes = array<i32: 2, 1, 4>} : (i32, i32, i32, i32, i32, i32,
    i32) -> !llvm.struct<(i32, i32, i32, i32)>
  return
}

// CHECK-LABEL: @sync_fp8(
func.func @sync_fp8(%w: i32, %h: vector<2xf16>, %f: f32) {
  // CHECK: "mma.sync"
  // CHECK-SAME: a_type = "e4m3", b_type = "e5m2", c_type = "f16", d_type = "f16"
  // CHECK-SAME: shape = "m16n8k32"
  // CHECK-SAME: -> !llvm.struct<(vector<2xf16>, vector<2xf16>)>
  %0 = "mma.sync"(%w, %w, %w, %w, %w, %w, %h, %h) {shape = "m16n8k32", a_type = "e4m3", b_type = "e5m2", c_type =
    "f16", d_type = "f16", operandSegmentSizes = array<i32: 4, 2, 2>} : (i32, i32, i32, i32, i32, i32, vector<2xf16>,
    vector<2xf16>) -> !llvm.struct<(vector<2xf16>, vector<2xf16>)>
  // CHECK: "mma.sync"
  // CHECK-SAME: a_type = "e5m2", b_type = "e5m2", c_type = "f32", d_type = "f32"
  // CHECK-SAME: shape = "m16n8k16"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
  %1 = "mma.sync"(%w, %w, %w, %f, %f, %f, %f) {shape = "m16n8k16", a_type = "e5m2", b_type = "e5m2", c_type = "f32",
    d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (i32, i32, i32, f32, f32, f32, f32) ->
    !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: "mma.sync"
  // CHECK-SAME: a_type = "e3m2", b_type = "e2m1", c_type = "f32", d_type = "f32", kind = "f8f6f4"
  // CHECK-SAME: shape = "m16n8k32"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
  %2 = "mma.sync"(%w, %w, %w, %w, %w, %w, %f, %f, %f, %f) {shape = "m16n8k32", a_type = "e3m2", b_type = "e2m1",
    c_type = "f32", d_type = "f32", kind = "f8f6f4", operandSegmentSizes = array<i32: 4, 2, 4>} : (i32, i32, i32, i32,
    i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// Layouts may be written out; row.col is what they are without.
// CHECK-LABEL: @sync_layouts(
func.func @sync_layouts(%h: vector<2xf16>, %f: f32) {
  // CHECK: "mma.sync"
  // CHECK-SAME: a_layout = "row", a_type = "f16", b_layout = "col", b_type = "f16", c_type = "f32", d_type = "f32"
  // CHECK-SAME: shape = "m16n8k8"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
  %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type = "f32",
    d_type = "f32", a_layout = "row", b_layout = "col", operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>,
    vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// CHECK-LABEL: @sp_sync(
func.func @sp_sync(%h: vector<2xf16>, %f: f32, %w: i32) {
  // CHECK: "mma.sp_sync"
  // CHECK-SAME: a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32"
  // CHECK-SAME: selector = 1 : i64, shape = "m16n8k16"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
  %0 = "mma.sp_sync"(%h, %h, %h, %h, %f, %f, %f, %f, %w) {shape = "m16n8k16", a_type = "f16", b_type = "f16", c_type =
    "f32", d_type = "f32", selector = 1 : i64, operandSegmentSizes = array<i32: 2, 2, 4, 1>} : (vector<2xf16>,
    vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32, i32) -> !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: "mma.sp_sync"
  // CHECK-SAME: a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32"
  // CHECK-SAME: ordered = false, shape = "m16n8k16"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
  %1 = "mma.sp_sync"(%h, %h, %h, %h, %f, %f, %f, %f, %w) {shape = "m16n8k16", a_type = "f16", b_type = "f16", c_type =
    "f32", d_type = "f32", ordered = false, operandSegmentSizes = array<i32: 2, 2, 4, 1>} : (vector<2xf16>,
    vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32, i32) -> !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: "mma.sp_sync"
  // CHECK-SAME: a_type = "e4m3", b_type = "e4m3", c_type = "f32", d_type = "f32"
  // CHECK-SAME: shape = "m16n8k64"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
  %2 = "mma.sp_sync"(%w, %w, %w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %w) {shape = "m16n8k64", a_type = "e4m3", b_type
    = "e4m3", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 4, 4, 4, 1>} : (i32, i32, i32, i32,
    i32, i32, i32, i32, f32, f32, f32, f32, i32) -> !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: "mma.sp_sync"
  // CHECK-SAME: a_type = "s8", b_type = "u8", c_type = "s32", d_type = "s32"
  // CHECK-SAME: satfinite = true, shape = "m16n8k32"
  // CHECK-SAME: -> !llvm.struct<(i32, i32, i32, i32)>
  %3 = "mma.sp_sync"(%w, %w, %w, %w, %w, %w, %w, %w, %w) {shape = "m16n8k32", a_type = "s8", b_type = "u8", c_type =
    "s32", d_type = "s32", satfinite = true, operandSegmentSizes = array<i32: 2, 2, 4, 1>} : (i32, i32, i32, i32, i32,
    i32, i32, i32, i32) -> !llvm.struct<(i32, i32, i32, i32)>
  return
}

// CHECK-LABEL: @block_scale(
func.func @block_scale(%w: i32, %f: f32, %i: i16) {
  // CHECK: "mma.block_scale"
  // CHECK-SAME: a_type = "e4m3", b_type = "e2m1", kind = "mxf8f6f4"
  // CHECK-SAME: scale_type = "ue8m0", scale_vec = "1X", shape = "m16n8k32"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
  %0 = "mma.block_scale"(%w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %w, %i, %i, %w, %i, %i) {shape = "m16n8k32", kind =
    "mxf8f6f4", scale_vec = "1X", a_type = "e4m3", b_type = "e2m1", scale_type = "ue8m0", operandSegmentSizes =
    array<i32: 4, 2, 4, 1, 1, 1, 1, 1, 1>} : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32, i16, i16, i32,
    i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: "mma.block_scale"
  // CHECK-SAME: a_type = "e4m3", b_type = "e2m1", kind = "mxf8f6f4"
  // CHECK-SAME: scale_type = "ue8m0", scale_vec = "", shape = "m16n8k32"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
  %1 = "mma.block_scale"(%w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %w, %i, %i, %w, %i, %i) {shape = "m16n8k32", kind =
    "mxf8f6f4", scale_vec = "", a_type = "e4m3", b_type = "e2m1", scale_type = "ue8m0", operandSegmentSizes =
    array<i32: 4, 2, 4, 1, 1, 1, 1, 1, 1>} : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32, i16, i16, i32,
    i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: "mma.block_scale"
  // CHECK-SAME: a_type = "e2m1", b_type = "e2m1", kind = "mxf4nvf4"
  // CHECK-SAME: scale_type = "ue4m3", scale_vec = "4X", shape = "m16n8k64"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
  %2 = "mma.block_scale"(%w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %w, %i, %i, %w, %i, %i) {shape = "m16n8k64", kind =
    "mxf4nvf4", scale_vec = "4X", a_type = "e2m1", b_type = "e2m1", scale_type = "ue4m3", operandSegmentSizes =
    array<i32: 4, 2, 4, 1, 1, 1, 1, 1, 1>} : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32, i16, i16, i32,
    i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// CHECK-LABEL: @sp_block_scale(
func.func @sp_block_scale(%w: i32, %f: f32, %i: i16) {
  // CHECK: "mma.sp_block_scale"
  // CHECK-SAME: a_type = "e4m3", b_type = "e4m3", kind = "mxf8f6f4"
  // CHECK-SAME: scale_type = "ue8m0", scale_vec = "", shape = "m16n8k64"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
  %0 = "mma.sp_block_scale"(%w, %w, %w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %w, %w, %i, %i, %w, %i, %i) {shape =
    "m16n8k64", kind = "mxf8f6f4", scale_vec = "", a_type = "e4m3", b_type = "e4m3", scale_type = "ue8m0",
    operandSegmentSizes = array<i32: 4, 4, 4, 1, 1, 1, 1, 1, 1, 1>} : (i32, i32, i32, i32, i32, i32, i32, i32, f32,
    f32, f32, f32, i32, i32, i16, i16, i32, i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: "mma.sp_block_scale"
  // CHECK-SAME: a_type = "e2m1", b_type = "e2m1", kind = "mxf4"
  // CHECK-SAME: scale_type = "ue8m0", scale_vec = "2X", shape = "m16n8k128"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
  %1 = "mma.sp_block_scale"(%w, %w, %w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %w, %w, %i, %i, %w, %i, %i) {shape =
    "m16n8k128", kind = "mxf4", scale_vec = "2X", a_type = "e2m1", b_type = "e2m1", scale_type = "ue8m0",
    operandSegmentSizes = array<i32: 4, 4, 4, 1, 1, 1, 1, 1, 1, 1>} : (i32, i32, i32, i32, i32, i32, i32, i32, f32,
    f32, f32, f32, i32, i32, i16, i16, i32, i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// A form that the module's chip has (sm_75 is upstream's default, which isn't printed).
// CHECK-LABEL: @on_turing(
gpu.module @on_turing [#nvvm.target<chip = "sm_75">] {
  gpu.func @on_turing(%h: vector<2xf16>, %f: f32) kernel {
    // CHECK: "mma.sync"
    // CHECK-SAME: a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32"
    // CHECK-SAME: shape = "m16n8k8"
    // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
    %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type = "f32",
      d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32,
      f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}

// CHECK-LABEL: @on_consumer_blackwell(
gpu.module @on_consumer_blackwell [#nvvm.target<chip = "sm_120a">] {
  gpu.func @on_consumer_blackwell(%w: i32, %f: f32, %i: i16) kernel {
    // CHECK: "mma.sync"
    // CHECK-SAME: a_type = "e3m2", b_type = "e2m1", c_type = "f32", d_type = "f32", kind = "f8f6f4"
    // CHECK-SAME: shape = "m16n8k32"
    // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
    %0 = "mma.sync"(%w, %w, %w, %w, %w, %w, %f, %f, %f, %f) {shape = "m16n8k32", a_type = "e3m2", b_type = "e2m1",
      c_type = "f32", d_type = "f32", kind = "f8f6f4", operandSegmentSizes = array<i32: 4, 2, 4>} : (i32, i32, i32,
      i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    // CHECK: "mma.sp_block_scale"
    // CHECK-SAME: a_type = "e2m1", b_type = "e2m1", kind = "mxf4"
    // CHECK-SAME: scale_type = "ue8m0", scale_vec = "2X", shape = "m16n8k128"
    // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
    %1 = "mma.sp_block_scale"(%w, %w, %w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %w, %w, %i, %i, %w, %i, %i) {shape =
      "m16n8k128", kind = "mxf4", scale_vec = "2X", a_type = "e2m1", b_type = "e2m1", scale_type = "ue8m0",
      operandSegmentSizes = array<i32: 4, 4, 4, 1, 1, 1, 1, 1, 1, 1>} : (i32, i32, i32, i32, i32, i32, i32, i32, f32,
      f32, f32, f32, i32, i32, i16, i16, i32, i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}

// CHECK-LABEL: @ldmatrix(
func.func @ldmatrix(%s: !llvm.ptr<3>, %p: !llvm.ptr) {
  // CHECK: "mma.ldmatrix"
  // CHECK-SAME: num = 1 : i64, shape = "m8n8"
  // CHECK-SAME: -> i32
  %0 = "mma.ldmatrix"(%s) {shape = "m8n8", num = 1 : i64} : (!llvm.ptr<3>) -> i32
  // CHECK: "mma.ldmatrix"
  // CHECK-SAME: num = 2 : i64, shape = "m8n8", trans = true
  // CHECK-SAME: -> !llvm.struct<(i32, i32)>
  %1 = "mma.ldmatrix"(%s) {shape = "m8n8", num = 2 : i64, trans = true} : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32)>
  // CHECK: "mma.ldmatrix"
  // CHECK-SAME: num = 4 : i64, shape = "m8n8", type = "b16"
  // CHECK-SAME: -> !llvm.struct<(i32, i32, i32, i32)>
  %2 = "mma.ldmatrix"(%s) {shape = "m8n8", num = 4 : i64, type = "b16"} : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32,
    i32, i32)>
  // CHECK: "mma.ldmatrix"
  // CHECK-SAME: num = 1 : i64, shape = "m8n8"
  // CHECK-SAME: -> i32
  %3 = "mma.ldmatrix"(%p) {shape = "m8n8", num = 1 : i64} : (!llvm.ptr) -> i32
  // CHECK: "mma.ldmatrix"
  // CHECK-SAME: num = 2 : i64, shape = "m16n16", trans = true, type = "b8"
  // CHECK-SAME: -> !llvm.struct<(i32, i32, i32, i32)>
  %4 = "mma.ldmatrix"(%s) {shape = "m16n16", num = 2 : i64, trans = true, type = "b8"} : (!llvm.ptr<3>) ->
    !llvm.struct<(i32, i32, i32, i32)>
  // CHECK: "mma.ldmatrix"
  // CHECK-SAME: num = 1 : i64, shape = "m8n16", type = "b8x16.b4x16_p64"
  // CHECK-SAME: -> i32
  %5 = "mma.ldmatrix"(%s) {shape = "m8n16", num = 1 : i64, type = "b8x16.b4x16_p64"} : (!llvm.ptr<3>) -> i32
  return
}

// CHECK-LABEL: @stmatrix(
func.func @stmatrix(%s: !llvm.ptr<3>, %w: i32, %p: !llvm.ptr) {
  // CHECK: "mma.stmatrix"
  // CHECK-SAME: num = 1 : i64, shape = "m8n8"
  "mma.stmatrix"(%s, %w) {shape = "m8n8", num = 1 : i64} : (!llvm.ptr<3>, i32) -> ()
  // CHECK: "mma.stmatrix"
  // CHECK-SAME: num = 4 : i64, shape = "m8n8", trans = true
  "mma.stmatrix"(%s, %w, %w, %w, %w) {shape = "m8n8", num = 4 : i64, trans = true} : (!llvm.ptr<3>, i32, i32, i32,
    i32) -> ()
  // CHECK: "mma.stmatrix"
  // CHECK-SAME: num = 2 : i64, shape = "m16n8", trans = true, type = "b8"
  "mma.stmatrix"(%s, %w, %w) {shape = "m16n8", num = 2 : i64, trans = true, type = "b8"} : (!llvm.ptr<3>, i32, i32) ->
    ()
  // CHECK: "mma.stmatrix"
  // CHECK-SAME: num = 2 : i64, shape = "m8n8"
  "mma.stmatrix"(%p, %w, %w) {shape = "m8n8", num = 2 : i64} : (!llvm.ptr, i32, i32) -> ()
  return
}

// CHECK-LABEL: @movmatrix(
func.func @movmatrix(%w: i32) {
  // CHECK: "mma.movmatrix"
  // CHECK-SAME: -> i32
  %0 = "mma.movmatrix"(%w) : (i32) -> i32
  return
}
