// RUN: weft-opt %s | weft-opt | FileCheck %s

// CHECK-LABEL: @allocation(
func.func @allocation(%s: !llvm.ptr<3>, %w: i32, %p: !llvm.ptr, %t: !llvm.ptr<6>) {
  // CHECK: "tcgen05.alloc"
  // CHECK-SAME: cta_group = 1 : i64
  "tcgen05.alloc"(%s, %w) {cta_group = 1 : i64} : (!llvm.ptr<3>, i32) -> ()
  // CHECK: "tcgen05.alloc"
  // CHECK-SAME: cta_group = 2 : i64
  "tcgen05.alloc"(%p, %w) {cta_group = 2 : i64} : (!llvm.ptr, i32) -> ()
  // CHECK: "tcgen05.dealloc"
  // CHECK-SAME: cta_group = 1 : i64
  "tcgen05.dealloc"(%t, %w) {cta_group = 1 : i64} : (!llvm.ptr<6>, i32) -> ()
  // CHECK: "tcgen05.relinquish_alloc_permit"
  // CHECK-SAME: cta_group = 2 : i64
  "tcgen05.relinquish_alloc_permit"() {cta_group = 2 : i64} : () -> ()
  return
}

// CHECK-LABEL: @exclusive_allocation(
func.func @exclusive_allocation(%s: !llvm.ptr<3>, %w: i32, %t: !llvm.ptr<6>) {
  // CHECK: "tcgen05.alloc"
  // CHECK-SAME: cta_group = 1 : i64, exclusive = true
  "tcgen05.alloc"(%s, %w) {cta_group = 1 : i64, exclusive = true} : (!llvm.ptr<3>, i32) -> ()
  // CHECK: "tcgen05.dealloc"
  // CHECK-SAME: cta_group = 1 : i64, exclusive = true
  "tcgen05.dealloc"(%t, %w) {cta_group = 1 : i64, exclusive = true} : (!llvm.ptr<6>, i32) -> ()
  return
}

// CHECK-LABEL: @commit(
func.func @commit(%s: !llvm.ptr<3>, %i: i16, %p: !llvm.ptr) {
  // CHECK: "tcgen05.commit"
  // CHECK-SAME: cta_group = 1 : i64
  "tcgen05.commit"(%s) {cta_group = 1 : i64} : (!llvm.ptr<3>) -> ()
  // CHECK: "tcgen05.commit"
  // CHECK-SAME: cta_group = 2 : i64
  "tcgen05.commit"(%s, %i) {cta_group = 2 : i64} : (!llvm.ptr<3>, i16) -> ()
  // CHECK: "tcgen05.commit"
  // CHECK-SAME: cta_group = 1 : i64
  "tcgen05.commit"(%p, %i) {cta_group = 1 : i64} : (!llvm.ptr, i16) -> ()
  return
}

// Masks of 32 bits are new with sm_107.
// CHECK-LABEL: @commit_32(
gpu.module @commit_32 [#nvvm.target<chip = "sm_107a">] {
  gpu.func @commit_32(%s: !llvm.ptr<3>, %w: i32) kernel {
    // CHECK: "tcgen05.commit"
    // CHECK-SAME: cta_group = 1 : i64, sync_restrict = "shared::read::mma::a"
    "tcgen05.commit"(%s, %w) {cta_group = 1 : i64, sync_restrict = "shared::read::mma::a"} : (!llvm.ptr<3>, i32) -> ()
    gpu.return
  }
}

// CHECK-LABEL: @ordering(
func.func @ordering() {
  // CHECK: "tcgen05.wait"
  // CHECK-SAME: kind = "ld"
  "tcgen05.wait"() {kind = "ld"} : () -> ()
  // CHECK: "tcgen05.wait"
  // CHECK-SAME: kind = "st"
  "tcgen05.wait"() {kind = "st"} : () -> ()
  // CHECK: "tcgen05.fence"
  // CHECK-SAME: kind = "before_thread_sync"
  "tcgen05.fence"() {kind = "before_thread_sync"} : () -> ()
  // CHECK: "tcgen05.fence"
  // CHECK-SAME: kind = "after_thread_sync"
  "tcgen05.fence"() {kind = "after_thread_sync"} : () -> ()
  return
}

// CHECK-LABEL: @cp(
func.func @cp(%t: !llvm.ptr<6>, %l: i64) {
  // CHECK: "tcgen05.cp"
  // CHECK-SAME: cta_group = 1 : i64, multicast = "", shape = "128x256b"
  "tcgen05.cp"(%t, %l) {shape = "128x256b", multicast = "", cta_group = 1 : i64} : (!llvm.ptr<6>, i64) -> ()
  // CHECK: "tcgen05.cp"
  // CHECK-SAME: cta_group = 2 : i64, multicast = "", shape = "4x256b"
  "tcgen05.cp"(%t, %l) {shape = "4x256b", multicast = "", cta_group = 2 : i64} : (!llvm.ptr<6>, i64) -> ()
  // CHECK: "tcgen05.cp"
  // CHECK-SAME: cta_group = 1 : i64, multicast = "", shape = "128x128b", source_format = "b6x16_p32"
  "tcgen05.cp"(%t, %l) {shape = "128x128b", multicast = "", cta_group = 1 : i64, source_format = "b6x16_p32"} :
    (!llvm.ptr<6>, i64) -> ()
  // CHECK: "tcgen05.cp"
  // CHECK-SAME: cta_group = 1 : i64, multicast = "warpx2::02_13", shape = "64x128b"
  "tcgen05.cp"(%t, %l) {shape = "64x128b", multicast = "warpx2::02_13", cta_group = 1 : i64} : (!llvm.ptr<6>, i64) ->
    ()
  // CHECK: "tcgen05.cp"
  // CHECK-SAME: cta_group = 2 : i64, multicast = "warpx2::01_23", shape = "64x128b"
  "tcgen05.cp"(%t, %l) {shape = "64x128b", multicast = "warpx2::01_23", cta_group = 2 : i64} : (!llvm.ptr<6>, i64) ->
    ()
  // CHECK: "tcgen05.cp"
  // CHECK-SAME: cta_group = 1 : i64, multicast = "warpx4", shape = "32x128b", source_format = "b4x16_p64"
  "tcgen05.cp"(%t, %l) {shape = "32x128b", multicast = "warpx4", cta_group = 1 : i64, source_format = "b4x16_p64"} :
    (!llvm.ptr<6>, i64) -> ()
  return
}

// CHECK-LABEL: @shift(
gpu.module @shift [#nvvm.target<chip = "sm_100a">] {
  gpu.func @shift(%t: !llvm.ptr<6>) kernel {
    // CHECK: "tcgen05.shift"
    // CHECK-SAME: cta_group = 1 : i64
    "tcgen05.shift"(%t) {cta_group = 1 : i64} : (!llvm.ptr<6>) -> ()
    // CHECK: "tcgen05.shift"
    // CHECK-SAME: cta_group = 2 : i64
    "tcgen05.shift"(%t) {cta_group = 2 : i64} : (!llvm.ptr<6>) -> ()
    gpu.return
  }
}

// One register is a bare i32, more are a vector.
// CHECK-LABEL: @ld(
func.func @ld(%t: !llvm.ptr<6>) {
  // CHECK: "tcgen05.ld"
  // CHECK-SAME: num = 1 : i64, shape = "16x64b"
  // CHECK-SAME: -> i32
  %0 = "tcgen05.ld"(%t) {shape = "16x64b", num = 1 : i64} : (!llvm.ptr<6>) -> i32
  // CHECK: "tcgen05.ld"
  // CHECK-SAME: num = 2 : i64, pack = true, shape = "16x256b"
  // CHECK-SAME: -> vector<8xi32>
  %1 = "tcgen05.ld"(%t) {shape = "16x256b", num = 2 : i64, pack = true} : (!llvm.ptr<6>) -> vector<8xi32>
  // CHECK: "tcgen05.ld"
  // CHECK-SAME: num = 128 : i64, shape = "32x32b"
  // CHECK-SAME: -> vector<128xi32>
  %2 = "tcgen05.ld"(%t) {shape = "32x32b", num = 128 : i64} : (!llvm.ptr<6>) -> vector<128xi32>
  // CHECK: "tcgen05.ld"
  // CHECK-SAME: num = 4 : i64, offset = 64 : i64, shape = "16x32bx2"
  // CHECK-SAME: -> vector<4xi32>
  %3 = "tcgen05.ld"(%t) {shape = "16x32bx2", num = 4 : i64, offset = 64 : i64} : (!llvm.ptr<6>) -> vector<4xi32>
  return
}

// CHECK-LABEL: @st(
func.func @st(%t: !llvm.ptr<6>, %w: i32, %v4: vector<4xi32>, %v8: vector<8xi32>) {
  // CHECK: "tcgen05.st"
  // CHECK-SAME: num = 1 : i64, shape = "32x32b"
  "tcgen05.st"(%t, %w) {shape = "32x32b", num = 1 : i64} : (!llvm.ptr<6>, i32) -> ()
  // CHECK: "tcgen05.st"
  // CHECK-SAME: num = 2 : i64, shape = "16x128b", unpack = true
  "tcgen05.st"(%t, %v4) {shape = "16x128b", num = 2 : i64, unpack = true} : (!llvm.ptr<6>, vector<4xi32>) -> ()
  // CHECK: "tcgen05.st"
  // CHECK-SAME: num = 8 : i64, offset = 16 : i64, shape = "16x32bx2"
  "tcgen05.st"(%t, %v8) {shape = "16x32bx2", num = 8 : i64, offset = 16 : i64} : (!llvm.ptr<6>, vector<8xi32>) -> ()
  return
}

// CHECK-LABEL: @ld_red(
func.func @ld_red(%t: !llvm.ptr<6>) {
  // CHECK: "tcgen05.ld_red"
  // CHECK-SAME: num = 4 : i64, op = "min", shape = "32x32b", type = "u32"
  // CHECK-SAME: -> (vector<4xi32>, i32)
  %0:2 = "tcgen05.ld_red"(%t) {shape = "32x32b", num = 4 : i64, op = "min", type = "u32"} : (!llvm.ptr<6>) ->
    (vector<4xi32>, i32)
  // CHECK: "tcgen05.ld_red"
  // CHECK-SAME: abs = true, nan = true, num = 2 : i64, offset = 8 : i64, op = "max", shape = "16x32bx2", type = "f32"
  // CHECK-SAME: -> (vector<2xf32>, f32)
  %1:2 = "tcgen05.ld_red"(%t) {shape = "16x32bx2", num = 2 : i64, op = "max", type = "f32", abs = true, nan = true,
    offset = 8 : i64} : (!llvm.ptr<6>) -> (vector<2xf32>, f32)
  return
}

// A by descriptor or in tensor memory.
// CHECK-LABEL: @mma(
func.func @mma(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // CHECK: "tcgen05.mma"
  // CHECK-SAME: cta_group = 1 : i64, kind = "f16"
  "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "f16", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0,
    1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  // CHECK: "tcgen05.mma"
  // CHECK-SAME: collector_a = "fill", cta_group = 2 : i64, kind = "f16"
  "tcgen05.mma"(%t, %t, %l, %w, %c) {kind = "f16", cta_group = 2 : i64, collector_a = "fill", operandSegmentSizes =
    array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, !llvm.ptr<6>, i64, i32, i1) -> ()
  // CHECK: "tcgen05.mma"
  // CHECK-SAME: ashift = true, collector_a = "lastuse", cta_group = 1 : i64, kind = "f16"
  "tcgen05.mma"(%t, %t, %l, %w, %c) {kind = "f16", cta_group = 1 : i64, collector_a = "lastuse", ashift = true,
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, !llvm.ptr<6>, i64, i32, i1) -> ()
  // CHECK: "tcgen05.mma"
  // CHECK-SAME: cta_group = 1 : i64, kind = "f8f6f4"
  "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "f8f6f4", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1,
    0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  return
}

// A mask of four registers for each CTA, and an accumulator that is scaled first.
// CHECK-LABEL: @mma_masks(
func.func @mma_masks(%t: !llvm.ptr<6>, %l: i64, %w: i32, %v4: vector<4xi32>, %c: i1, %v8: vector<8xi32>) {
  // CHECK: "tcgen05.mma"
  // CHECK-SAME: cta_group = 1 : i64, kind = "f16"
  "tcgen05.mma"(%t, %l, %l, %w, %v4, %c) {kind = "f16", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1,
    0, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, vector<4xi32>, i1) -> ()
  // CHECK: "tcgen05.mma"
  // CHECK-SAME: cta_group = 2 : i64, kind = "f16"
  "tcgen05.mma"(%t, %l, %l, %w, %v8, %c) {kind = "f16", cta_group = 2 : i64, operandSegmentSizes = array<i32: 1, 1, 1,
    0, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, vector<8xi32>, i1) -> ()
  // CHECK: "tcgen05.mma"
  // CHECK-SAME: cta_group = 1 : i64, kind = "tf32"
  // CHECK-SAME: scale_input_d = 15 : i64
  "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "tf32", cta_group = 1 : i64, scale_input_d = 15 : i64, operandSegmentSizes
    = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  return
}

// CHECK-LABEL: @sp_mma(
func.func @sp_mma(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1, %v8: vector<8xi32>) {
  // CHECK: "tcgen05.sp_mma"
  // CHECK-SAME: cta_group = 1 : i64, kind = "i8"
  "tcgen05.sp_mma"(%t, %l, %l, %t, %w, %c) {kind = "i8", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1,
    1, 0, 1, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, i1) -> ()
  // CHECK: "tcgen05.sp_mma"
  // CHECK-SAME: cta_group = 2 : i64, kind = "f16"
  "tcgen05.sp_mma"(%t, %t, %l, %t, %w, %v8, %c) {kind = "f16", cta_group = 2 : i64, operandSegmentSizes = array<i32:
    1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, !llvm.ptr<6>, i64, !llvm.ptr<6>, i32, vector<8xi32>, i1) -> ()
  return
}

// CHECK-LABEL: @mma_block_scale(
func.func @mma_block_scale(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // CHECK: "tcgen05.mma_block_scale"
  // CHECK-SAME: cta_group = 1 : i64, kind = "mxf8f6f4"
  "tcgen05.mma_block_scale"(%t, %l, %l, %w, %t, %t, %c) {kind = "mxf8f6f4", cta_group = 1 : i64, operandSegmentSizes =
    array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  // CHECK: "tcgen05.mma_block_scale"
  // CHECK-SAME: cta_group = 1 : i64, kind = "mxf8f6f4"
  // CHECK-SAME: scale_vec = "1X"
  "tcgen05.mma_block_scale"(%t, %l, %l, %w, %t, %t, %c) {kind = "mxf8f6f4", cta_group = 1 : i64, scale_vec = "1X",
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, !llvm.ptr<6>,
    !llvm.ptr<6>, i1) -> ()
  // CHECK: "tcgen05.mma_block_scale"
  // CHECK-SAME: cta_group = 2 : i64, kind = "mxf4"
  // CHECK-SAME: scale_vec = "block32"
  "tcgen05.mma_block_scale"(%t, %t, %l, %w, %t, %t, %c) {kind = "mxf4", cta_group = 2 : i64, scale_vec = "block32",
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, !llvm.ptr<6>, i64, i32, !llvm.ptr<6>,
    !llvm.ptr<6>, i1) -> ()
  // CHECK: "tcgen05.mma_block_scale"
  // CHECK-SAME: cta_group = 1 : i64, kind = "mxf4nvf4"
  // CHECK-SAME: scale_vec = "block16"
  "tcgen05.mma_block_scale"(%t, %l, %l, %w, %t, %t, %c) {kind = "mxf4nvf4", cta_group = 1 : i64, scale_vec =
    "block16", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, !llvm.ptr<6>,
    !llvm.ptr<6>, i1) -> ()
  return
}

// CHECK-LABEL: @sp_mma_block_scale(
func.func @sp_mma_block_scale(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // CHECK: "tcgen05.sp_mma_block_scale"
  // CHECK-SAME: cta_group = 1 : i64, kind = "mxf4"
  "tcgen05.sp_mma_block_scale"(%t, %l, %l, %t, %w, %t, %t, %c) {kind = "mxf4", cta_group = 1 : i64,
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32,
    !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  // CHECK: "tcgen05.sp_mma_block_scale"
  // CHECK-SAME: cta_group = 2 : i64, kind = "mxf4nvf4"
  // CHECK-SAME: scale_vec = "4X"
  "tcgen05.sp_mma_block_scale"(%t, %t, %l, %t, %w, %t, %t, %c) {kind = "mxf4nvf4", cta_group = 2 : i64, scale_vec =
    "4X", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1, 1>} : (!llvm.ptr<6>, !llvm.ptr<6>, i64,
    !llvm.ptr<6>, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// CHECK-LABEL: @mma_ws(
func.func @mma_ws(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // CHECK: "tcgen05.mma_ws"
  // CHECK-SAME: kind = "f16"
  "tcgen05.mma_ws"(%t, %l, %l, %w, %c) {kind = "f16"} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  // CHECK: "tcgen05.mma_ws"
  // CHECK-SAME: collector = "lastuse", collector_buffer = "b3", kind = "i8"
  "tcgen05.mma_ws"(%t, %t, %l, %w, %c, %l) {kind = "i8", collector_buffer = "b3", collector = "lastuse"} :
    (!llvm.ptr<6>, !llvm.ptr<6>, i64, i32, i1, i64) -> ()
  // CHECK: "tcgen05.sp_mma_ws"
  // CHECK-SAME: kind = "tf32"
  "tcgen05.sp_mma_ws"(%t, %l, %l, %t, %w, %c) {kind = "tf32"} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, i1) -> ()
  // CHECK: "tcgen05.sp_mma_ws"
  // CHECK-SAME: collector = "use", collector_buffer = "b1", kind = "f8f6f4"
  "tcgen05.sp_mma_ws"(%t, %t, %l, %t, %w, %c, %l) {kind = "f8f6f4", collector_buffer = "b1", collector = "use"} :
    (!llvm.ptr<6>, !llvm.ptr<6>, i64, !llvm.ptr<6>, i32, i1, i64) -> ()
  return
}

// What sm_107 adds: a compressed B, and a collector for it.
// CHECK-LABEL: @mma_107(
gpu.module @mma_107 [#nvvm.target<chip = "sm_107a">] {
  gpu.func @mma_107(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) kernel {
    // CHECK: "tcgen05.mma"
    // CHECK-SAME: collector_b = "fill", cta_group = 1 : i64, decompress = "lut::b", kind = "f8f6f4"
    "tcgen05.mma"(%t, %l, %l, %t, %w, %c) {kind = "f8f6f4", cta_group = 1 : i64, collector_b = "fill", decompress =
      "lut::b", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32,
      i1) -> ()
    // CHECK: "tcgen05.mma"
    // CHECK-SAME: cta_group = 1 : i64, kind = "ti16"
    "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "ti16", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1,
      0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
    gpu.return
  }
}

// CHECK-LABEL: @instruction_descriptor(
func.func @instruction_descriptor() {
  // CHECK: "tcgen05.instruction_descriptor"
  // CHECK-SAME: a_type = "bf16", b_type = "bf16", d_type = "f32", kind = "f16", m = 128 : i64, n = 256 : i64
  // CHECK-SAME: -> i32
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 256 : i64, a_type = "bf16", b_type =
    "bf16", d_type = "f32"} : () -> i32
  // CHECK: "tcgen05.instruction_descriptor"
  // CHECK-SAME: a_type = "s8", b_type = "u8", cta_group = 2 : i64, d_type = "s32", kind = "i8", m = 256 : i64, n = 32 : i64, saturate = true
  // CHECK-SAME: -> i32
  %1 = "tcgen05.instruction_descriptor"() {kind = "i8", m = 256 : i64, n = 32 : i64, a_type = "s8", b_type = "u8",
    d_type = "s32", cta_group = 2 : i64, saturate = true} : () -> i32
  // CHECK: "tcgen05.instruction_descriptor"
  // CHECK-SAME: a_type = "tf32", b_type = "tf32", d_type = "f32", kind = "tf32", m = 32 : i64, max_shift = 8 : i64, n = 64 : i64, ws = true
  // CHECK-SAME: -> i32
  %2 = "tcgen05.instruction_descriptor"() {kind = "tf32", m = 32 : i64, n = 64 : i64, a_type = "tf32", b_type =
    "tf32", d_type = "f32", ws = true, max_shift = 8 : i64} : () -> i32
  return
}

// CHECK-LABEL: @block_scaled_descriptor(
func.func @block_scaled_descriptor() {
  // CHECK: "tcgen05.block_scaled_descriptor"
  // CHECK-SAME: a_scale_id = 3 : i64, a_type = "e4m3", b_type = "e2m1", kind = "mxf8f6f4", m = 128 : i64, n = 64 : i64
  // CHECK-SAME: -> i32
  %0 = "tcgen05.block_scaled_descriptor"() {kind = "mxf8f6f4", m = 128 : i64, n = 64 : i64, a_type = "e4m3", b_type =
    "e2m1", a_scale_id = 3 : i64} : () -> i32
  // CHECK: "tcgen05.block_scaled_descriptor"
  // CHECK-SAME: a_type = "e2m1", b_type = "e2m1", cta_group = 2 : i64, k = 96 : i64, kind = "mxf4nvf4", m = 256 : i64, n = 256 : i64, scale_type = "ue4m3", scale_vec = "block16"
  // CHECK-SAME: -> i32
  %1 = "tcgen05.block_scaled_descriptor"() {kind = "mxf4nvf4", m = 256 : i64, n = 256 : i64, a_type = "e2m1", b_type =
    "e2m1", cta_group = 2 : i64, scale_type = "ue4m3", scale_vec = "block16", k = 96 : i64} : () -> i32
  return
}

// CHECK-LABEL: @shared_memory_descriptor(
func.func @shared_memory_descriptor(%s: !llvm.ptr<3>) {
  // CHECK: "tcgen05.shared_memory_descriptor"
  // CHECK-SAME: stride_byte_offset = 1024 : i64, swizzle = "128B"
  // CHECK-SAME: -> i64
  %0 = "tcgen05.shared_memory_descriptor"(%s) {stride_byte_offset = 1024 : i64, swizzle = "128B"} : (!llvm.ptr<3>) ->
    i64
  // CHECK: "tcgen05.shared_memory_descriptor"
  // CHECK-SAME: leading_byte_offset = 4096 : i64, swizzle = "128B_32B"
  // CHECK-SAME: -> i64
  %1 = "tcgen05.shared_memory_descriptor"(%s) {leading_byte_offset = 4096 : i64, swizzle = "128B_32B"} :
    (!llvm.ptr<3>) -> i64
  return
}

// Two of every four columns, and which: the third result is there with `red` alone.
// CHECK-LABEL: gpu.module @ld_spcompress
gpu.module @ld_spcompress [#nvvm.target<chip = "sm_107a">] {
  gpu.func @ld_spcompress(%t: !llvm.ptr<6>) kernel {
    // CHECK: "tcgen05.ld_spcompress"(%{{.*}}) {num = 64 : i64, op = "max"} : (!llvm.ptr<6>) -> (vector<2xi32>, vector<32xf32>)
    %m0, %d0 = "tcgen05.ld_spcompress"(%t) {num = 64 : i64, op = "max"} : (!llvm.ptr<6>) -> (vector<2xi32>, vector<32xf32>)
    // CHECK: "tcgen05.ld_spcompress"(%{{.*}}) {nan = true, num = 4 : i64, op = "min", red = true} : (!llvm.ptr<6>) -> (i32, vector<2xf32>, f32)
    %m1, %d1, %r1 = "tcgen05.ld_spcompress"(%t) {num = 4 : i64, op = "min", red = true, nan = true} : (!llvm.ptr<6>) -> (i32, vector<2xf32>, f32)
    gpu.return
  }
}
