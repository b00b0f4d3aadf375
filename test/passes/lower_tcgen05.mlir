// RUN: weft-opt %s --lower-tcgen05 --split-input-file | FileCheck %s

// CHECK-LABEL: @alloc(
// CHECK-SAME: %[[ADDRESS:[a-z0-9]+]]: !llvm.ptr<3>, %[[COLUMNS:[a-z0-9]+]]: i32
func.func @alloc(%address: !llvm.ptr<3>, %columns: i32) {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.tcgen05.alloc.shared.cg1"(%[[ADDRESS]], %[[COLUMNS]]) : (!llvm.ptr<3>, i32) -> ()
  "tcgen05.alloc"(%address, %columns) {cta_group = 1 : i64} : (!llvm.ptr<3>, i32) -> ()
  return
}

// CHECK-LABEL: @alloc_exclusive(
// CHECK-SAME: %[[ADDRESS:[a-z0-9]+]]: !llvm.ptr<3>, %[[COLUMNS:[a-z0-9]+]]: i32
func.func @alloc_exclusive(%address: !llvm.ptr<3>, %columns: i32) {
  // CHECK: %[[V0:.*]] = llvm.ptrtoint %[[ADDRESS]] : !llvm.ptr<3> to i64
  // CHECK: llvm.inline_asm has_side_effects "tcgen05.alloc.exclusive.cta_group::1.sync.aligned.shared::cta.b32 [$0], $1;", "l,r,~{memory}" %[[V0]], %[[COLUMNS]] : (i64, i32) -> ()
  "tcgen05.alloc"(%address, %columns) {cta_group = 1 : i64, exclusive = true} : (!llvm.ptr<3>, i32) -> ()
  return
}

// CHECK-LABEL: @dealloc(
// CHECK-SAME: %[[ADDRESS:[a-z0-9]+]]: !llvm.ptr<6>, %[[COLUMNS:[a-z0-9]+]]: i32
func.func @dealloc(%address: !llvm.ptr<6>, %columns: i32) {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.tcgen05.dealloc.cg2"(%[[ADDRESS]], %[[COLUMNS]]) : (!llvm.ptr<6>, i32) -> ()
  "tcgen05.dealloc"(%address, %columns) {cta_group = 2 : i64} : (!llvm.ptr<6>, i32) -> ()
  return
}

// CHECK-LABEL: @relinquish_alloc_permit(
func.func @relinquish_alloc_permit() {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.tcgen05.relinq.alloc.permit.cg1"() : () -> ()
  "tcgen05.relinquish_alloc_permit"() {cta_group = 1 : i64} : () -> ()
  return
}

// CHECK-LABEL: @commit(
// CHECK-SAME: %[[MBARRIER:[a-z0-9]+]]: !llvm.ptr<3>, %[[MASK:[a-z0-9]+]]: i16
func.func @commit(%mbarrier: !llvm.ptr<3>, %mask: i16) {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.tcgen05.commit.mc.shared.cg2"(%[[MBARRIER]], %[[MASK]]) : (!llvm.ptr<3>, i16) -> ()
  "tcgen05.commit"(%mbarrier, %mask) {cta_group = 2 : i64} : (!llvm.ptr<3>, i16) -> ()
  return
}

// LLVM 22.1 prints its intrinsic for generic addresses as that for shared ones.
// CHECK-LABEL: @commit_generic(
// CHECK-SAME: %[[MBARRIER:[a-z0-9]+]]: !llvm.ptr, %[[MASK:[a-z0-9]+]]: i16
func.func @commit_generic(%mbarrier: !llvm.ptr, %mask: i16) {
  // CHECK: %[[V0:.*]] = llvm.ptrtoint %[[MBARRIER]] : !llvm.ptr to i64
  // CHECK: llvm.inline_asm has_side_effects "tcgen05.commit.cta_group::2.mbarrier::arrive::one.multicast::cluster.b64 [$0], $1;", "l,h,~{memory}" %[[V0]], %[[MASK]] : (i64, i16) -> ()
  "tcgen05.commit"(%mbarrier, %mask) {cta_group = 2 : i64} : (!llvm.ptr, i16) -> ()
  return
}

// CHECK-LABEL: @wait(
func.func @wait() {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.tcgen05.wait.st"() : () -> ()
  "tcgen05.wait"() {kind = "st"} : () -> ()
  return
}

// CHECK-LABEL: @fence(
func.func @fence() {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.tcgen05.fence.after.thread.sync"() : () -> ()
  "tcgen05.fence"() {kind = "after_thread_sync"} : () -> ()
  return
}

// CHECK-LABEL: @cp(
// CHECK-SAME: %[[ADDRESS:[a-z0-9]+]]: !llvm.ptr<6>, %[[DESCRIPTOR:[a-z0-9]+]]: i64
func.func @cp(%address: !llvm.ptr<6>, %descriptor: i64) {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.tcgen05.cp.64x128b_warpx2_02_13.b6x16_p32.cg1"(%[[ADDRESS]], %[[DESCRIPTOR]]) : (!llvm.ptr<6>, i64) -> ()
  "tcgen05.cp"(%address, %descriptor) {shape = "64x128b", multicast = "warpx2::02_13", cta_group = 1 : i64,
    source_format = "b6x16_p32"} : (!llvm.ptr<6>, i64) -> ()
  return
}

// CHECK-LABEL: @shift(
// CHECK-SAME: %[[ADDRESS:[a-z0-9]+]]: !llvm.ptr<6>
func.func @shift(%address: !llvm.ptr<6>) {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.tcgen05.shift.down.cg1"(%[[ADDRESS]]) : (!llvm.ptr<6>) -> ()
  "tcgen05.shift"(%address) {cta_group = 1 : i64} : (!llvm.ptr<6>) -> ()
  return
}

// CHECK-LABEL: @ld(
// CHECK-SAME: %[[ADDRESS:[a-z0-9]+]]: !llvm.ptr<6>
func.func @ld(%address: !llvm.ptr<6>) {
  // CHECK: %[[V0:.*]] = llvm.mlir.constant(64 : i64) : i64
  // CHECK: %[[V1:.*]] = llvm.mlir.constant(true) : i1
  // CHECK: llvm.call_intrinsic "llvm.nvvm.tcgen05.ld.16x32bx2.x2"(%[[ADDRESS]], %[[V0]], %[[V1]]) : (!llvm.ptr<6>, i64, i1) -> vector<2xi32>
  %0 = "tcgen05.ld"(%address) {shape = "16x32bx2", num = 2 : i64, pack = true, offset = 64 : i64} : (!llvm.ptr<6>) ->
    vector<2xi32>
  return
}

// MLIR's LLVM and LLVM 22.1 differ on the intrinsic of one register.
// CHECK-LABEL: @ld_one_register(
// CHECK-SAME: %[[ADDRESS:[a-z0-9]+]]: !llvm.ptr<6>
func.func @ld_one_register(%address: !llvm.ptr<6>) {
  // CHECK: %[[V0:.*]] = llvm.ptrtoint %[[ADDRESS]] : !llvm.ptr<6> to i32
  // CHECK: llvm.inline_asm has_side_effects "tcgen05.ld.sync.aligned.16x64b.x1.b32 {$0}, [$1];", "=r,r,~{memory}" %[[V0]] : (i32) -> i32
  %0 = "tcgen05.ld"(%address) {shape = "16x64b", num = 1 : i64} : (!llvm.ptr<6>) -> i32
  return
}

// CHECK-LABEL: @st(
// CHECK-SAME: %[[ADDRESS:[a-z0-9]+]]: !llvm.ptr<6>, %[[DATA:[a-z0-9]+]]: vector<2xi32>
func.func @st(%address: !llvm.ptr<6>, %data: vector<2xi32>) {
  // CHECK: %[[V0:.*]] = llvm.mlir.constant(64 : i64) : i64
  // CHECK: %[[V1:.*]] = llvm.mlir.constant(true) : i1
  // CHECK: llvm.call_intrinsic "llvm.nvvm.tcgen05.st.16x32bx2.x2"(%[[ADDRESS]], %[[V0]], %[[DATA]], %[[V1]]) : (!llvm.ptr<6>, i64, vector<2xi32>, i1) -> ()
  "tcgen05.st"(%address, %data) {shape = "16x32bx2", num = 2 : i64, unpack = true, offset = 64 : i64} : (!llvm.ptr<6>,
    vector<2xi32>) -> ()
  return
}

// CHECK-LABEL: @ld_red(
// CHECK-SAME: %[[ADDRESS:[a-z0-9]+]]: !llvm.ptr<6>
func.func @ld_red(%address: !llvm.ptr<6>) {
  // CHECK: %[[V0:.*]] = llvm.ptrtoint %[[ADDRESS]] : !llvm.ptr<6> to i32
  // CHECK: llvm.inline_asm has_side_effects "tcgen05.ld.red.sync.aligned.32x32b.x2.max.abs.f32 {$0, $1}, $2, [$3];", "=f,=f,=f,r,~{memory}" %[[V0]] : (i32) -> !llvm.struct<(f32, f32, f32)>
  // CHECK: llvm.mlir.constant(0 : i32) : i32
  // CHECK: llvm.mlir.constant(1 : i32) : i32
  %0:2 = "tcgen05.ld_red"(%address) {shape = "32x32b", num = 2 : i64, op = "max", type = "f32", abs = true} :
    (!llvm.ptr<6>) -> (vector<2xf32>, f32)
  return
}

// Kind f16, cta_group 1, collector discard.
// CHECK-LABEL: @mma(
// CHECK-SAME: %[[D:[a-z0-9]+]]: !llvm.ptr<6>, %[[A:[a-z0-9]+]]: i64, %[[B:[a-z0-9]+]]: i64, %[[IDESC:[a-z0-9]+]]: i32, %[[ENABLE_INPUT_D:[a-z0-9]+]]: i1
func.func @mma(%d: !llvm.ptr<6>, %a: i64, %b: i64, %idesc: i32, %enable_input_d: i1) {
  // CHECK: %[[V0:.*]] = llvm.mlir.constant(0 : i32) : i32
  // CHECK: %[[V1:.*]] = llvm.mlir.constant(1 : i32) : i32
  // CHECK: %[[V2:.*]] = llvm.mlir.constant(0 : i32) : i32
  // CHECK: llvm.call_intrinsic "llvm.nvvm.tcgen05.mma.shared"(%[[D]], %[[A]], %[[B]], %[[IDESC]], %[[ENABLE_INPUT_D]], %[[V0]], %[[V1]], %[[V2]]) : (!llvm.ptr<6>, i64, i64, i32, i1, i32, i32, i32) -> ()
  "tcgen05.mma"(%d, %a, %b, %idesc, %enable_input_d) {kind = "f16", cta_group = 1 : i64, operandSegmentSizes =
    array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  return
}

// The name has the CTA group where there is a mask, which comes last.
// CHECK-LABEL: @mma_masked(
// CHECK-SAME: %[[D:[a-z0-9]+]]: !llvm.ptr<6>, %[[A:[a-z0-9]+]]: !llvm.ptr<6>, %[[B:[a-z0-9]+]]: i64, %[[IDESC:[a-z0-9]+]]: i32, %[[DISABLE_OUTPUT_LANE:[a-z0-9]+]]: vector<8xi32>, %[[ENABLE_INPUT_D:[a-z0-9]+]]: i1
func.func @mma_masked(%d: !llvm.ptr<6>, %a: !llvm.ptr<6>, %b: i64, %idesc: i32, %disable_output_lane: vector<8xi32>,
  %enable_input_d: i1) {
  // CHECK: %[[V0:.*]] = llvm.mlir.constant(3 : i64) : i64
  // CHECK: %[[V1:.*]] = llvm.mlir.constant(1 : i32) : i32
  // CHECK: %[[V2:.*]] = llvm.mlir.constant(1 : i32) : i32
  // CHECK: llvm.call_intrinsic "llvm.nvvm.tcgen05.mma.tensor.scale_d.disable_output_lane.cg2.ashift"(%[[D]], %[[A]], %[[B]], %[[IDESC]], %[[ENABLE_INPUT_D]], %[[V0]], %[[DISABLE_OUTPUT_LANE]], %[[V1]], %[[V2]]) : (!llvm.ptr<6>, !llvm.ptr<6>, i64, i32, i1, i64, vector<8xi32>, i32, i32) -> ()
  "tcgen05.mma"(%d, %a, %b, %idesc, %disable_output_lane, %enable_input_d) {kind = "tf32", cta_group = 2 : i64,
    collector_a = "lastuse", ashift = true, scale_input_d = 3 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1,
    1, 1>} : (!llvm.ptr<6>, !llvm.ptr<6>, i64, i32, vector<8xi32>, i1) -> ()
  return
}

// CHECK-LABEL: @sp_mma(
// CHECK-SAME: %[[D:[a-z0-9]+]]: !llvm.ptr<6>, %[[A:[a-z0-9]+]]: i64, %[[B:[a-z0-9]+]]: i64, %[[METADATA:[a-z0-9]+]]: !llvm.ptr<6>, %[[IDESC:[a-z0-9]+]]: i32, %[[ENABLE_INPUT_D:[a-z0-9]+]]: i1
func.func @sp_mma(%d: !llvm.ptr<6>, %a: i64, %b: i64, %metadata: !llvm.ptr<6>, %idesc: i32, %enable_input_d: i1) {
  // CHECK: %[[V0:.*]] = llvm.mlir.constant(3 : i32) : i32
  // CHECK: %[[V1:.*]] = llvm.mlir.constant(2 : i32) : i32
  // CHECK: %[[V2:.*]] = llvm.mlir.constant(3 : i32) : i32
  // CHECK: llvm.call_intrinsic "llvm.nvvm.tcgen05.mma.sp.shared"(%[[D]], %[[A]], %[[B]], %[[IDESC]], %[[ENABLE_INPUT_D]], %[[METADATA]], %[[V0]], %[[V1]], %[[V2]]) : (!llvm.ptr<6>, i64, i64, i32, i1, !llvm.ptr<6>, i32, i32, i32) -> ()
  "tcgen05.sp_mma"(%d, %a, %b, %metadata, %idesc, %enable_input_d) {kind = "i8", cta_group = 2 : i64, collector_a =
    "use", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, i1)
    -> ()
  return
}

// CHECK-LABEL: @mma_block_scale(
// CHECK-SAME: %[[D:[a-z0-9]+]]: !llvm.ptr<6>, %[[A:[a-z0-9]+]]: !llvm.ptr<6>, %[[B:[a-z0-9]+]]: i64, %[[IDESC:[a-z0-9]+]]: i32, %[[SCALE_A:[a-z0-9]+]]: !llvm.ptr<6>, %[[SCALE_B:[a-z0-9]+]]: !llvm.ptr<6>, %[[ENABLE_INPUT_D:[a-z0-9]+]]: i1
func.func @mma_block_scale(%d: !llvm.ptr<6>, %a: !llvm.ptr<6>, %b: i64, %idesc: i32, %scale_a: !llvm.ptr<6>, %scale_b:
  !llvm.ptr<6>, %enable_input_d: i1) {
  // CHECK: %[[V0:.*]] = llvm.mlir.constant(2 : i32) : i32
  // CHECK: %[[V1:.*]] = llvm.mlir.constant(0 : i32) : i32
  // CHECK: llvm.call_intrinsic "llvm.nvvm.tcgen05.mma.tensor.mxf4.block_scale.block32"(%[[D]], %[[A]], %[[B]], %[[IDESC]], %[[ENABLE_INPUT_D]], %[[SCALE_A]], %[[SCALE_B]], %[[V0]], %[[V1]]) : (!llvm.ptr<6>, !llvm.ptr<6>, i64, i32, i1, !llvm.ptr<6>, !llvm.ptr<6>, i32, i32) -> ()
  "tcgen05.mma_block_scale"(%d, %a, %b, %idesc, %scale_a, %scale_b, %enable_input_d) {kind = "mxf4", cta_group = 2 :
    i64, scale_vec = "block32", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>,
    !llvm.ptr<6>, i64, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// LLVM 22.1 has no intrinsic with 1X, 2X or 4X.
// CHECK-LABEL: @sp_mma_block_scale(
// CHECK-SAME: %[[D:[a-z0-9]+]]: !llvm.ptr<6>, %[[A:[a-z0-9]+]]: i64, %[[B:[a-z0-9]+]]: i64, %[[METADATA:[a-z0-9]+]]: !llvm.ptr<6>, %[[IDESC:[a-z0-9]+]]: i32, %[[SCALE_A:[a-z0-9]+]]: !llvm.ptr<6>, %[[SCALE_B:[a-z0-9]+]]: !llvm.ptr<6>, %[[ENABLE_INPUT_D:[a-z0-9]+]]: i1
func.func @sp_mma_block_scale(%d: !llvm.ptr<6>, %a: i64, %b: i64, %metadata: !llvm.ptr<6>, %idesc: i32, %scale_a:
  !llvm.ptr<6>, %scale_b: !llvm.ptr<6>, %enable_input_d: i1) {
  // CHECK: %[[V0:.*]] = llvm.ptrtoint %[[D]] : !llvm.ptr<6> to i32
  // CHECK: %[[V1:.*]] = llvm.ptrtoint %[[METADATA]] : !llvm.ptr<6> to i32
  // CHECK: %[[V2:.*]] = llvm.ptrtoint %[[SCALE_A]] : !llvm.ptr<6> to i32
  // CHECK: %[[V3:.*]] = llvm.ptrtoint %[[SCALE_B]] : !llvm.ptr<6> to i32
  // CHECK: llvm.inline_asm has_side_effects "tcgen05.mma.sp.cta_group::2.kind::mxf4.block_scale.scale_vec::2X.collector::a::discard [$0], $1, $2, [$3], $4, [$5], [$6], $7;", "r,l,l,r,r,r,r,b,~{memory}" %[[V0]], %[[A]], %[[B]], %[[V1]], %[[IDESC]], %[[V2]], %[[V3]], %[[ENABLE_INPUT_D]] : (i32, i64, i64, i32, i32, i32, i32, i1) -> ()
  "tcgen05.sp_mma_block_scale"(%d, %a, %b, %metadata, %idesc, %scale_a, %scale_b, %enable_input_d) {kind = "mxf4",
    cta_group = 2 : i64, scale_vec = "2X", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1, 1>} :
    (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// CHECK-LABEL: @mma_ws(
// CHECK-SAME: %[[D:[a-z0-9]+]]: !llvm.ptr<6>, %[[A:[a-z0-9]+]]: !llvm.ptr<6>, %[[B:[a-z0-9]+]]: i64, %[[IDESC:[a-z0-9]+]]: i32, %[[ENABLE_INPUT_D:[a-z0-9]+]]: i1, %[[ZERO_COLUMN_MASK:[a-z0-9]+]]: i64
func.func @mma_ws(%d: !llvm.ptr<6>, %a: !llvm.ptr<6>, %b: i64, %idesc: i32, %enable_input_d: i1, %zero_column_mask:
  i64) {
  // CHECK: %[[V0:.*]] = llvm.mlir.constant(3 : i32) : i32
  // CHECK: %[[V1:.*]] = llvm.mlir.constant(3 : i32) : i32
  // CHECK: %[[V2:.*]] = llvm.mlir.constant(1 : i32) : i32
  // CHECK: llvm.call_intrinsic "llvm.nvvm.tcgen05.mma.ws.tensor.zero_col_mask"(%[[D]], %[[A]], %[[B]], %[[IDESC]], %[[ENABLE_INPUT_D]], %[[ZERO_COLUMN_MASK]], %[[V0]], %[[V1]], %[[V2]]) : (!llvm.ptr<6>, !llvm.ptr<6>, i64, i32, i1, i64, i32, i32, i32) -> ()
  "tcgen05.mma_ws"(%d, %a, %b, %idesc, %enable_input_d, %zero_column_mask) {kind = "i8", collector_buffer = "b3",
    collector = "lastuse"} : (!llvm.ptr<6>, !llvm.ptr<6>, i64, i32, i1, i64) -> ()
  return
}

// CHECK-LABEL: @sp_mma_ws(
// CHECK-SAME: %[[D:[a-z0-9]+]]: !llvm.ptr<6>, %[[A:[a-z0-9]+]]: i64, %[[B:[a-z0-9]+]]: i64, %[[METADATA:[a-z0-9]+]]: !llvm.ptr<6>, %[[IDESC:[a-z0-9]+]]: i32, %[[ENABLE_INPUT_D:[a-z0-9]+]]: i1
func.func @sp_mma_ws(%d: !llvm.ptr<6>, %a: i64, %b: i64, %metadata: !llvm.ptr<6>, %idesc: i32, %enable_input_d: i1) {
  // CHECK: %[[V0:.*]] = llvm.mlir.constant(1 : i32) : i32
  // CHECK: %[[V1:.*]] = llvm.mlir.constant(0 : i32) : i32
  // CHECK: %[[V2:.*]] = llvm.mlir.constant(0 : i32) : i32
  // CHECK: llvm.call_intrinsic "llvm.nvvm.tcgen05.mma.ws.sp.shared"(%[[D]], %[[A]], %[[B]], %[[IDESC]], %[[ENABLE_INPUT_D]], %[[METADATA]], %[[V0]], %[[V1]], %[[V2]]) : (!llvm.ptr<6>, i64, i64, i32, i1, !llvm.ptr<6>, i32, i32, i32) -> ()
  "tcgen05.sp_mma_ws"(%d, %a, %b, %metadata, %idesc, %enable_input_d) {kind = "tf32"} : (!llvm.ptr<6>, i64, i64,
    !llvm.ptr<6>, i32, i1) -> ()
  return
}

// 0x8400490: D f32, A and B bf16, 32 in 17, 8 in 24.
// CHECK-LABEL: @instruction_descriptor(
func.func @instruction_descriptor() {
  // CHECK: arith.constant 138413200 : i32
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 256 : i64, a_type = "bf16", b_type =
    "bf16", d_type = "f32"} : () -> i32
  return
}

// CHECK-LABEL: @block_scaled_descriptor(
func.func @block_scaled_descriptor() {
  // CHECK: arith.constant 1754272768 : i32
  %0 = "tcgen05.block_scaled_descriptor"() {kind = "mxf8f6f4", m = 128 : i64, n = 64 : i64, a_type = "e4m3", b_type =
    "e2m1", a_scale_id = 3 : i64} : () -> i32
  return
}

// CHECK-LABEL: @shared_memory_descriptor(
// CHECK-SAME: %[[S:[a-z0-9]+]]: !llvm.ptr<3>
func.func @shared_memory_descriptor(%s: !llvm.ptr<3>) {
  // CHECK: %[[V0:.*]] = llvm.ptrtoint %[[S]] : !llvm.ptr<3> to i32
  // CHECK: %[[V1:.*]] = arith.constant 4 : i32
  // CHECK: %[[V2:.*]] = arith.shrui %[[V0]], %[[V1]] : i32
  // CHECK: %[[V3:.*]] = arith.constant 16383 : i32
  // CHECK: %[[V4:.*]] = arith.andi %[[V2]], %[[V3]] : i32
  // CHECK: %[[V5:.*]] = arith.constant 0 : i32
  // CHECK: %[[LOW:.*]] = arith.ori %[[V4]], %[[V5]] : i32
  // CHECK: %[[HIGH:.*]] = arith.constant 1073758272 : i32
  // CHECK: %[[PAIR:.*]] = vector.from_elements %[[LOW]], %[[HIGH]] : vector<2xi32>
  // CHECK: llvm.bitcast %[[PAIR]] : vector<2xi32> to i64
  %0 = "tcgen05.shared_memory_descriptor"(%s) {stride_byte_offset = 1024 : i64, swizzle = "128B"} : (!llvm.ptr<3>) ->
    i64
  return
}

// -----

// LLVM 22.1 knows no sm_107: it generates code for sm_103a, and what that lacks is inline PTX.
gpu.module @sm_107 [#nvvm.target<chip = "sm_107a">] {
  // CHECK-LABEL: @on_sm_107(
  // CHECK-SAME: %[[S:[a-z0-9]+]]: !llvm.ptr<3>, %[[W:[a-z0-9]+]]: i32, %[[T:[a-z0-9]+]]: !llvm.ptr<6>, %[[L:[a-z0-9]+]]: i64, %[[C:[a-z0-9]+]]: i1, %[[M:[a-z0-9]+]]: vector<4xi32>
  gpu.func @on_sm_107(%s: !llvm.ptr<3>, %w: i32, %t: !llvm.ptr<6>, %l: i64, %c: i1, %m: vector<4xi32>) kernel {
    // CHECK: llvm.call_intrinsic "llvm.nvvm.tcgen05.wait.ld"() : () -> ()
    "tcgen05.wait"() {kind = "ld"} : () -> ()
    // CHECK: llvm.inline_asm has_side_effects "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster::32b.b64 [$0], $1;", "l,r,~{memory}"
    "tcgen05.commit"(%s, %w) {cta_group = 1 : i64} : (!llvm.ptr<3>, i32) -> ()
    // CHECK: llvm.inline_asm has_side_effects "tcgen05.mma.cta_group::1.kind::f8f6f4.decompress::lut::b.collector::a::discard.collector::b::fill [$0], $1, $2, [$3], $4, $5;", "r,l,l,r,r,b,~{memory}"
    "tcgen05.mma"(%t, %l, %l, %t, %w, %c) {kind = "f8f6f4", cta_group = 1 : i64, collector_b = "fill", decompress = "lut::b", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, i1) -> ()
    // Several registers are a list.
    // CHECK: "tcgen05.mma.cta_group::1.kind::ti16.collector::a::discard [$0], $1, $2, $3, {$4, $5, $6, $7}, $8;"
    "tcgen05.mma"(%t, %l, %l, %w, %m, %c) {kind = "ti16", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, vector<4xi32>, i1) -> ()
    // CHECK: "tcgen05.ld.red.spcompress.sync.aligned.32x32b.x4.max.sp::2:4.f32.b2 {$0}, {$1, $2}, $3, [$4];", "=r,=f,=f,=f,r,~{memory}"
    %metadata, %data, %reduced = "tcgen05.ld_spcompress"(%t) {num = 4 : i64, op = "max", red = true} : (!llvm.ptr<6>) -> (i32, vector<2xf32>, f32)
    // CHECK: "tcgen05.ld.spcompress.sync.aligned.32x32b.x4.min.sp::2:4.abs.f32.b2 {$0}, {$1, $2}, [$3];"
    %metadata2, %data2 = "tcgen05.ld_spcompress"(%t) {num = 4 : i64, op = "min", abs = true} : (!llvm.ptr<6>) -> (i32, vector<2xf32>)
    gpu.return
  }
}
