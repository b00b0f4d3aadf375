// RUN: weft-opt %s | weft-opt | FileCheck %s

// A and B by their descriptors.
// CHECK-LABEL: @mma_async(
func.func @mma_async(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %c: i1, %h4: !llvm.struct<(vector<2xf16>,
  vector<2xf16>, vector<2xf16>, vector<2xf16>)>, %h2: !llvm.struct<(vector<2xf16>, vector<2xf16>)>) {
  // CHECK: "wgmma.mma_async"
  // CHECK-SAME: a_type = "bf16", b_type = "bf16", d_type = "f32"
  // CHECK-SAME: shape = "m64n8k16"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
  %0 = "wgmma.mma_async"(%f4, %l, %l, %c) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32",
    operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) ->
    !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: "wgmma.mma_async"
  // CHECK-SAME: a_type = "f16", b_type = "f16", d_type = "f16"
  // CHECK-SAME: shape = "m64n16k16"
  // CHECK-SAME: -> !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  %1 = "wgmma.mma_async"(%h4, %l, %l, %c) {shape = "m64n16k16", a_type = "f16", b_type = "f16", d_type = "f16",
    operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>,
    vector<2xf16>)>, i64, i64, i1) -> !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  // CHECK: "wgmma.mma_async"
  // CHECK-SAME: a_type = "tf32", b_type = "tf32", d_type = "f32"
  // CHECK-SAME: shape = "m64n8k8"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
  %2 = "wgmma.mma_async"(%f4, %l, %l, %c) {shape = "m64n8k8", a_type = "tf32", b_type = "tf32", d_type = "f32",
    operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) ->
    !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: "wgmma.mma_async"
  // CHECK-SAME: a_type = "e4m3", b_type = "e5m2", d_type = "f16"
  // CHECK-SAME: shape = "m64n8k32"
  // CHECK-SAME: -> !llvm.struct<(vector<2xf16>, vector<2xf16>)>
  %3 = "wgmma.mma_async"(%h2, %l, %l, %c) {shape = "m64n8k32", a_type = "e4m3", b_type = "e5m2", d_type = "f16",
    operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(vector<2xf16>, vector<2xf16>)>, i64, i64, i1) ->
    !llvm.struct<(vector<2xf16>, vector<2xf16>)>
  return
}

// Signs, and the matrices whose M or N runs fastest.
// CHECK-LABEL: @mma_async_immediates(
func.func @mma_async_immediates(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %c: i1) {
  // CHECK: "wgmma.mma_async"
  // CHECK-SAME: a_type = "bf16", b_type = "bf16", d_type = "f32"
  // CHECK-SAME: scale_a = -1 : i64, scale_b = 1 : i64, shape = "m64n8k16", trans_a = 1 : i64, trans_b = 1 : i64
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
  %0 = "wgmma.mma_async"(%f4, %l, %l, %c) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32",
    scale_a = -1 : i64, scale_b = 1 : i64, trans_a = 1 : i64, trans_b = 1 : i64, operandSegmentSizes = array<i32: 1,
    1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// A in registers.
// CHECK-LABEL: @mma_async_registers(
func.func @mma_async_registers(%f4: !llvm.struct<(f32, f32, f32, f32)>, %w: i32, %l: i64, %c: i1, %h4:
  !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>, %h: vector<2xf16>, %w4:
  !llvm.struct<(i32, i32, i32, i32)>) {
  // CHECK: "wgmma.mma_async"
  // CHECK-SAME: a_type = "bf16", b_type = "bf16", d_type = "f32"
  // CHECK-SAME: shape = "m64n8k16", trans_b = 1 : i64
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
  %0 = "wgmma.mma_async"(%f4, %w, %w, %w, %w, %l, %c) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type =
    "f32", trans_b = 1 : i64, operandSegmentSizes = array<i32: 1, 4, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>,
    i32, i32, i32, i32, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: "wgmma.mma_async"
  // CHECK-SAME: a_type = "f16", b_type = "f16", d_type = "f16"
  // CHECK-SAME: shape = "m64n16k16"
  // CHECK-SAME: -> !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  %1 = "wgmma.mma_async"(%h4, %h, %h, %h, %h, %l, %c) {shape = "m64n16k16", a_type = "f16", b_type = "f16", d_type =
    "f16", operandSegmentSizes = array<i32: 1, 4, 1, 1>} : (!llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>,
    vector<2xf16>)>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, i64, i1) ->
    !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  // CHECK: "wgmma.mma_async"
  // CHECK-SAME: a_type = "s8", b_type = "u8", d_type = "s32"
  // CHECK-SAME: shape = "m64n8k32"
  // CHECK-SAME: -> !llvm.struct<(i32, i32, i32, i32)>
  %2 = "wgmma.mma_async"(%w4, %w, %w, %w, %w, %l, %c) {shape = "m64n8k32", a_type = "s8", b_type = "u8", d_type =
    "s32", operandSegmentSizes = array<i32: 1, 4, 1, 1>} : (!llvm.struct<(i32, i32, i32, i32)>, i32, i32, i32, i32,
    i64, i1) -> !llvm.struct<(i32, i32, i32, i32)>
  return
}

// Integers, which may be clamped, and single bits.
// CHECK-LABEL: @mma_async_integers(
func.func @mma_async_integers(%w4: !llvm.struct<(i32, i32, i32, i32)>, %l: i64, %c: i1) {
  // CHECK: "wgmma.mma_async"
  // CHECK-SAME: a_type = "s8", b_type = "u8", d_type = "s32"
  // CHECK-SAME: satfinite = true, shape = "m64n8k32"
  // CHECK-SAME: -> !llvm.struct<(i32, i32, i32, i32)>
  %0 = "wgmma.mma_async"(%w4, %l, %l, %c) {shape = "m64n8k32", a_type = "s8", b_type = "u8", d_type = "s32", satfinite
    = true, operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(i32, i32, i32, i32)>, i64, i64, i1) ->
    !llvm.struct<(i32, i32, i32, i32)>
  // CHECK: "wgmma.mma_async"
  // CHECK-SAME: a_type = "b1", b_type = "b1", bit_op = "and.popc", d_type = "s32"
  // CHECK-SAME: shape = "m64n8k256"
  // CHECK-SAME: -> !llvm.struct<(i32, i32, i32, i32)>
  %1 = "wgmma.mma_async"(%w4, %l, %l, %c) {shape = "m64n8k256", a_type = "b1", b_type = "b1", d_type = "s32", bit_op =
    "and.popc", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(i32, i32, i32, i32)>, i64, i64, i1) ->
    !llvm.struct<(i32, i32, i32, i32)>
  return
}

// CHECK-LABEL: @sp_mma_async(
func.func @sp_mma_async(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %w: i32, %c: i1, %h2:
  !llvm.struct<(vector<2xf16>, vector<2xf16>)>) {
  // CHECK: "wgmma.sp_mma_async"
  // CHECK-SAME: a_type = "bf16", b_type = "bf16", d_type = "f32"
  // CHECK-SAME: selector = 1 : i64, shape = "m64n8k32"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
  %0 = "wgmma.sp_mma_async"(%f4, %l, %l, %w, %c) {shape = "m64n8k32", a_type = "bf16", b_type = "bf16", d_type =
    "f32", selector = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>,
    i64, i64, i32, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: "wgmma.sp_mma_async"
  // CHECK-SAME: a_type = "e4m3", b_type = "e5m2", d_type = "f16"
  // CHECK-SAME: shape = "m64n8k64"
  // CHECK-SAME: -> !llvm.struct<(vector<2xf16>, vector<2xf16>)>
  %1 = "wgmma.sp_mma_async"(%h2, %l, %l, %w, %c) {shape = "m64n8k64", a_type = "e4m3", b_type = "e5m2", d_type =
    "f16", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>} : (!llvm.struct<(vector<2xf16>, vector<2xf16>)>, i64, i64,
    i32, i1) -> !llvm.struct<(vector<2xf16>, vector<2xf16>)>
  // CHECK: "wgmma.sp_mma_async"
  // CHECK-SAME: a_type = "bf16", b_type = "bf16", d_type = "f32"
  // CHECK-SAME: shape = "m64n8k32"
  // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
  %2 = "wgmma.sp_mma_async"(%f4, %w, %w, %w, %w, %l, %w, %c) {shape = "m64n8k32", a_type = "bf16", b_type = "bf16",
    d_type = "f32", operandSegmentSizes = array<i32: 1, 4, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i32, i32,
    i32, i32, i64, i32, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// CHECK-LABEL: @ordering(
func.func @ordering() {
  // CHECK: "wgmma.fence"
  "wgmma.fence"() : () -> ()
  // CHECK: "wgmma.commit_group"
  "wgmma.commit_group"() : () -> ()
  // CHECK: "wgmma.wait_group"
  // CHECK-SAME: group = 1 : i64
  "wgmma.wait_group"() {group = 1 : i64} : () -> ()
  // CHECK: "wgmma.wait_group"
  "wgmma.wait_group"() : () -> ()
  return
}

// CHECK-LABEL: @descriptor(
func.func @descriptor(%s: !llvm.ptr<3>) {
  // CHECK: "wgmma.descriptor"
  // CHECK-SAME: -> i64
  %0 = "wgmma.descriptor"(%s) : (!llvm.ptr<3>) -> i64
  // CHECK: "wgmma.descriptor"
  // CHECK-SAME: leading_byte_offset = 16 : i64, stride_byte_offset = 1024 : i64, swizzle = "128B"
  // CHECK-SAME: -> i64
  %1 = "wgmma.descriptor"(%s) {leading_byte_offset = 16 : i64, stride_byte_offset = 1024 : i64, swizzle = "128B"} :
    (!llvm.ptr<3>) -> i64
  // CHECK: "wgmma.descriptor"
  // CHECK-SAME: base_offset = 3 : i64, stride_byte_offset = 512 : i64, swizzle = "64B"
  // CHECK-SAME: -> i64
  %2 = "wgmma.descriptor"(%s) {base_offset = 3 : i64, stride_byte_offset = 512 : i64, swizzle = "64B"} :
    (!llvm.ptr<3>) -> i64
  return
}

// The one chip.
// CHECK-LABEL: @on_its_chip(
gpu.module @on_its_chip [#nvvm.target<chip = "sm_90a">] {
  gpu.func @on_its_chip(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %c: i1) kernel {
    // CHECK: "wgmma.mma_async"
    // CHECK-SAME: a_type = "bf16", b_type = "bf16", d_type = "f32"
    // CHECK-SAME: shape = "m64n8k16"
    // CHECK-SAME: -> !llvm.struct<(f32, f32, f32, f32)>
    %0 = "wgmma.mma_async"(%f4, %l, %l, %c) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32",
      operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) ->
      !llvm.struct<(f32, f32, f32, f32)>
    // CHECK: "wgmma.fence"
    "wgmma.fence"() : () -> ()
    gpu.return
  }
}
