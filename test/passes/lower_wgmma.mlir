// RUN: weft-opt %s --lower-wgmma | FileCheck %s

// Accumulators go in as they come out: inputs that are tied to the results.
// CHECK-LABEL: @mma_async(
// CHECK-SAME: %[[INOUTS:[a-z0-9]+]]: !llvm.struct<(f32, f32, f32, f32)>, %[[A:[a-z0-9]+]]: i64, %[[B:[a-z0-9]+]]: i64, %[[SCALE_D:[a-z0-9]+]]: i1
func.func @mma_async(%inouts: !llvm.struct<(f32, f32, f32, f32)>, %a: i64, %b: i64, %scale_d: i1) {
  // CHECK: %[[V0:.*]] = llvm.extractvalue %[[INOUTS]][0] : !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: %[[V1:.*]] = llvm.extractvalue %[[INOUTS]][1] : !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: %[[V2:.*]] = llvm.extractvalue %[[INOUTS]][2] : !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: %[[V3:.*]] = llvm.extractvalue %[[INOUTS]][3] : !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: llvm.inline_asm has_side_effects "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {$0, $1, $2, $3}, $4, $5, $6, 1, -1, 1, 0;", "=f,=f,=f,=f,l,l,b,0,1,2,3,~{memory}" %[[A]], %[[B]], %[[SCALE_D]], %[[V0]], %[[V1]], %[[V2]], %[[V3]] : (i64, i64, i1, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  %0 = "wgmma.mma_async"(%inouts, %a, %b, %scale_d) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type =
    "f32", scale_b = -1 : i64, trans_a = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32,
    f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// LLVM IR writes a wide struct by its name.
// CHECK-LABEL: @many_registers(
func.func @many_registers(%inouts: !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)>, %a: i64, %b: i64, %scale_d: i1) {
  // CHECK: llvm.inline_asm {{.*}} -> !llvm.struct<"f32x16", (f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)>
  %0 = "wgmma.mma_async"(%inouts, %a, %b, %scale_d) {shape = "m64n32k16", a_type = "bf16", b_type = "bf16", d_type =
    "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32)>
  return
}

// Registers go from one product of a chain to the next without a struct between. One whose sums have another use keeps it.
// CHECK-LABEL: @chain(
func.func @chain(%inouts: !llvm.struct<(f32, f32, f32, f32)>, %a: i64, %b: i64, %scale_d: i1) -> !llvm.struct<(f32,
  f32, f32, f32)> {
  // CHECK: %[[FIRST:.*]] = llvm.inline_asm
  // CHECK-NOT: llvm.insertvalue
  // CHECK: %[[S0:.*]] = llvm.extractvalue %[[FIRST]][0]
  // CHECK: %[[S3:.*]] = llvm.extractvalue %[[FIRST]][3]
  // CHECK-NOT: llvm.insertvalue
  // CHECK: %[[SECOND:.*]] = llvm.inline_asm {{.*}} %[[S0]], {{.*}}, %[[S3]] :
  // CHECK: %[[T3:.*]] = llvm.extractvalue %[[SECOND]][3]
  // CHECK: llvm.insertvalue %[[T3]]
  // CHECK: llvm.inline_asm
  %0 = "wgmma.mma_async"(%inouts, %a, %b, %scale_d) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type =
    "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) ->
    !llvm.struct<(f32, f32, f32, f32)>
  %1 = "wgmma.mma_async"(%0, %a, %b, %scale_d) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type =
    "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) ->
    !llvm.struct<(f32, f32, f32, f32)>
  %2 = "wgmma.mma_async"(%1, %a, %b, %scale_d) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type =
    "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) ->
    !llvm.struct<(f32, f32, f32, f32)>
  return %1 : !llvm.struct<(f32, f32, f32, f32)>
}

// Products of a chain at one source location become one inline PTX, unless an effect is between them.
// CHECK-LABEL: @adjoining(
// CHECK-SAME: %[[INOUTS:[a-z0-9]+]]: !llvm.struct<(f32, f32, f32, f32)>, %[[A:[a-z0-9]+]]: i64, %[[B:[a-z0-9]+]]: i64, %[[SCALE_D:[a-z0-9]+]]: i1
func.func @adjoining(%inouts: !llvm.struct<(f32, f32, f32, f32)>, %a: i64, %b: i64, %scale_d: i1) -> !llvm.struct<(f32,
  f32, f32, f32)> {
  // CHECK: %[[NEXT:.*]] = arith.addi %[[A]]
  // CHECK: %[[BOTH:.*]] = llvm.inline_asm has_side_effects "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {$0, $1, $2, $3}, $4, $5, $6, 1, 1, 0, 0;\0A\09wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {$0, $1, $2, $3}, $7, $8, $9, 1, 1, 0, 0;", "=f,=f,=f,=f,l,l,b,l,l,b,0,1,2,3,~{memory}" %[[A]], %[[B]], %[[SCALE_D]], %[[NEXT]], %[[B]], %[[SCALE_D]], {{.*}} :
  // CHECK: %[[S0:.*]] = llvm.extractvalue %[[BOTH]][0]
  // CHECK-NOT: llvm.insertvalue
  // CHECK: nvvm.barrier
  // CHECK: llvm.inline_asm {{.*}} "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {$0, $1, $2, $3}, $4, $5, $6, 1, 1, 0, 0;", "=f,=f,=f,=f,l,l,b,0,1,2,3,~{memory}" %[[A]], %[[B]], %[[SCALE_D]], %[[S0]],
  %0 = "wgmma.mma_async"(%inouts, %a, %b, %scale_d) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type =
    "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) ->
    !llvm.struct<(f32, f32, f32, f32)> loc("here")
  %next = arith.addi %a, %b : i64
  %1 = "wgmma.mma_async"(%0, %next, %b, %scale_d) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type =
    "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) ->
    !llvm.struct<(f32, f32, f32, f32)> loc("here")
  nvvm.barrier
  %2 = "wgmma.mma_async"(%1, %a, %b, %scale_d) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type =
    "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) ->
    !llvm.struct<(f32, f32, f32, f32)> loc("here")
  return %2 : !llvm.struct<(f32, f32, f32, f32)>
}

// Pairs of halves go as 32 bits.
// CHECK-LABEL: @a_in_registers(
// CHECK-SAME: %[[INOUTS:[a-z0-9]+]]: !llvm.struct<(vector<2xf16>, vector<2xf16>)>, %[[A0:[a-z0-9]+]]: vector<2xf16>, %[[A1:[a-z0-9]+]]: vector<2xf16>, %[[A2:[a-z0-9]+]]: vector<2xf16>, %[[A3:[a-z0-9]+]]: vector<2xf16>, %[[B:[a-z0-9]+]]: i64, %[[SCALE_D:[a-z0-9]+]]: i1
func.func @a_in_registers(%inouts: !llvm.struct<(vector<2xf16>, vector<2xf16>)>, %a0: vector<2xf16>, %a1:
  vector<2xf16>, %a2: vector<2xf16>, %a3: vector<2xf16>, %b: i64, %scale_d: i1) {
  // CHECK: %[[V0:.*]] = llvm.extractvalue %[[INOUTS]][0] : !llvm.struct<(vector<2xf16>, vector<2xf16>)>
  // CHECK: %[[V1:.*]] = llvm.bitcast %[[V0]] : vector<2xf16> to i32
  // CHECK: %[[V2:.*]] = llvm.extractvalue %[[INOUTS]][1] : !llvm.struct<(vector<2xf16>, vector<2xf16>)>
  // CHECK: %[[V3:.*]] = llvm.bitcast %[[V2]] : vector<2xf16> to i32
  // CHECK: %[[V4:.*]] = llvm.bitcast %[[A0]] : vector<2xf16> to i32
  // CHECK: %[[V5:.*]] = llvm.bitcast %[[A1]] : vector<2xf16> to i32
  // CHECK: %[[V6:.*]] = llvm.bitcast %[[A2]] : vector<2xf16> to i32
  // CHECK: %[[V7:.*]] = llvm.bitcast %[[A3]] : vector<2xf16> to i32
  // CHECK: llvm.inline_asm has_side_effects "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {$0, $1}, {$2, $3, $4, $5}, $6, $7, 1, 1, 1;", "=r,=r,r,r,r,r,l,b,0,1,~{memory}" %[[V4]], %[[V5]], %[[V6]], %[[V7]], %[[B]], %[[SCALE_D]], %[[V1]], %[[V3]] : (i32, i32, i32, i32, i64, i1, i32, i32) -> !llvm.struct<(i32, i32)>
  // CHECK: llvm.bitcast %{{.*}} : i32 to vector<2xf16>
  // CHECK: llvm.bitcast %{{.*}} : i32 to vector<2xf16>
  %0 = "wgmma.mma_async"(%inouts, %a0, %a1, %a2, %a3, %b, %scale_d) {shape = "m64n8k16", a_type = "f16", b_type =
    "f16", d_type = "f16", trans_b = 1 : i64, operandSegmentSizes = array<i32: 1, 4, 1, 1>} :
    (!llvm.struct<(vector<2xf16>, vector<2xf16>)>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, i64,
    i1) -> !llvm.struct<(vector<2xf16>, vector<2xf16>)>
  return
}

// So do products with A in registers.
// CHECK-LABEL: @adjoining_with_a_in_registers(
func.func @adjoining_with_a_in_registers(%inouts: !llvm.struct<(f32, f32, f32, f32)>, %a0: i32, %a1:
  i32, %a2: i32, %a3: i32, %b: i64, %scale_d: i1) -> !llvm.struct<(f32, f32, f32, f32)> {
  // CHECK: llvm.inline_asm has_side_effects "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {$0, $1, $2, $3}, {$4, $5, $6, $7}, $8, $9, 1, 1, 0;\0A\09wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {$0, $1, $2, $3}, {$10, $11, $12, $13}, $14, $15, 1, 1, 0;", "=f,=f,=f,=f,r,r,r,r,l,b,r,r,r,r,l,b,0,1,2,3,~{memory}"
  // CHECK-NOT: wgmma
  %0 = "wgmma.mma_async"(%inouts, %a0, %a1, %a2, %a3, %b, %scale_d) {shape = "m64n8k16", a_type = "bf16", b_type =
    "bf16", d_type = "f32", operandSegmentSizes = array<i32: 1, 4, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>,
    i32, i32, i32, i32, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)> loc("here")
  %1 = "wgmma.mma_async"(%0, %a1, %a0, %a3, %a2, %b, %scale_d) {shape = "m64n8k16", a_type = "bf16", b_type =
    "bf16", d_type = "f32", operandSegmentSizes = array<i32: 1, 4, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>,
    i32, i32, i32, i32, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)> loc("here")
  return %1 : !llvm.struct<(f32, f32, f32, f32)>
}

// CHECK-LABEL: @bits(
// CHECK-SAME: %[[INOUTS:[a-z0-9]+]]: !llvm.struct<(i32, i32, i32, i32)>, %[[A:[a-z0-9]+]]: i64, %[[B:[a-z0-9]+]]: i64, %[[SCALE_D:[a-z0-9]+]]: i1
func.func @bits(%inouts: !llvm.struct<(i32, i32, i32, i32)>, %a: i64, %b: i64, %scale_d: i1) {
  // CHECK: %[[V0:.*]] = llvm.extractvalue %[[INOUTS]][0] : !llvm.struct<(i32, i32, i32, i32)>
  // CHECK: %[[V1:.*]] = llvm.extractvalue %[[INOUTS]][1] : !llvm.struct<(i32, i32, i32, i32)>
  // CHECK: %[[V2:.*]] = llvm.extractvalue %[[INOUTS]][2] : !llvm.struct<(i32, i32, i32, i32)>
  // CHECK: %[[V3:.*]] = llvm.extractvalue %[[INOUTS]][3] : !llvm.struct<(i32, i32, i32, i32)>
  // CHECK: llvm.inline_asm has_side_effects "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc {$0, $1, $2, $3}, $4, $5, $6;", "=r,=r,=r,=r,l,l,b,0,1,2,3,~{memory}" %[[A]], %[[B]], %[[SCALE_D]], %[[V0]], %[[V1]], %[[V2]], %[[V3]] : (i64, i64, i1, i32, i32, i32, i32) -> !llvm.struct<(i32, i32, i32, i32)>
  %0 = "wgmma.mma_async"(%inouts, %a, %b, %scale_d) {shape = "m64n8k256", a_type = "b1", b_type = "b1", d_type =
    "s32", bit_op = "and.popc", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(i32, i32, i32, i32)>,
    i64, i64, i1) -> !llvm.struct<(i32, i32, i32, i32)>
  return
}

// CHECK-LABEL: @sp_mma_async(
// CHECK-SAME: %[[INOUTS:[a-z0-9]+]]: !llvm.struct<(f32, f32, f32, f32)>, %[[A:[a-z0-9]+]]: i64, %[[B:[a-z0-9]+]]: i64, %[[METADATA:[a-z0-9]+]]: i32, %[[SCALE_D:[a-z0-9]+]]: i1
func.func @sp_mma_async(%inouts: !llvm.struct<(f32, f32, f32, f32)>, %a: i64, %b: i64, %metadata: i32, %scale_d: i1) {
  // CHECK: %[[V0:.*]] = llvm.extractvalue %[[INOUTS]][0] : !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: %[[V1:.*]] = llvm.extractvalue %[[INOUTS]][1] : !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: %[[V2:.*]] = llvm.extractvalue %[[INOUTS]][2] : !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: %[[V3:.*]] = llvm.extractvalue %[[INOUTS]][3] : !llvm.struct<(f32, f32, f32, f32)>
  // CHECK: llvm.inline_asm has_side_effects "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16 {$0, $1, $2, $3}, $4, $5, $6, 1, $7, 1, 1, 0, 0;", "=f,=f,=f,=f,l,l,r,b,0,1,2,3,~{memory}" %[[A]], %[[B]], %[[METADATA]], %[[SCALE_D]], %[[V0]], %[[V1]], %[[V2]], %[[V3]] : (i64, i64, i32, i1, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  %0 = "wgmma.sp_mma_async"(%inouts, %a, %b, %metadata, %scale_d) {shape = "m64n8k32", a_type = "bf16", b_type =
    "bf16", d_type = "f32", selector = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>} : (!llvm.struct<(f32,
    f32, f32, f32)>, i64, i64, i32, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// CHECK-LABEL: @fence(
func.func @fence() {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.wgmma.fence.sync.aligned"() : () -> ()
  "wgmma.fence"() : () -> ()
  return
}

// CHECK-LABEL: @commit_group(
func.func @commit_group() {
  // CHECK: llvm.call_intrinsic "llvm.nvvm.wgmma.commit_group.sync.aligned"() : () -> ()
  "wgmma.commit_group"() : () -> ()
  return
}

// CHECK-LABEL: @wait_group(
func.func @wait_group() {
  // CHECK: %[[V0:.*]] = llvm.mlir.constant(2 : i64) : i64
  // CHECK: llvm.call_intrinsic "llvm.nvvm.wgmma.wait_group.sync.aligned"(%[[V0]]) : (i64) -> ()
  "wgmma.wait_group"() {group = 2 : i64} : () -> ()
  return
}

// Bits 4 to 17 of the address, beside the constant fields: 1 in 16, 64 in 32, 1 in 62.
// CHECK-LABEL: @descriptor(
// CHECK-SAME: %[[S:[a-z0-9]+]]: !llvm.ptr<3>
func.func @descriptor(%s: !llvm.ptr<3>) {
  // CHECK: %[[V0:.*]] = llvm.ptrtoint %[[S]] : !llvm.ptr<3> to i32
  // CHECK: %[[V1:.*]] = arith.constant 4 : i32
  // CHECK: %[[V2:.*]] = arith.shrui %[[V0]], %[[V1]] : i32
  // CHECK: %[[V3:.*]] = arith.constant 16383 : i32
  // CHECK: %[[V4:.*]] = arith.andi %[[V2]], %[[V3]] : i32
  // CHECK: %[[V5:.*]] = arith.constant 65536 : i32
  // CHECK: %[[LOW:.*]] = arith.ori %[[V4]], %[[V5]] : i32
  // CHECK: %[[HIGH:.*]] = arith.constant 1073741888 : i32
  // CHECK: %[[PAIR:.*]] = vector.from_elements %[[LOW]], %[[HIGH]] : vector<2xi32>
  // CHECK: llvm.bitcast %[[PAIR]] : vector<2xi32> to i64
  %0 = "wgmma.descriptor"(%s) {leading_byte_offset = 16 : i64, stride_byte_offset = 1024 : i64, swizzle = "128B"} :
    (!llvm.ptr<3>) -> i64
  return
}

// Sums with names are no operands of the inline PTX.
// CHECK-LABEL: @named_sums(
func.func @named_sums(%a: i64, %b: i64, %more: i1) {
  // CHECK: llvm.inline_asm has_side_effects "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%sums4, %sums5, %sums6, %sums7}, $0, $1, $2, 1, 1, 0, 0;\0A\09wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%sums4, %sums5, %sums6, %sums7}, $3, $4, $5, 1, 1, 0, 0;", "l,l,b,l,l,b,~{memory}" %{{.*}} : (i64, i64, i1, i64, i64, i1) -> ()
  %sums = llvm.mlir.undef : !llvm.struct<(f32, f32, f32, f32)>
  %0 = "wgmma.mma_async"(%sums, %a, %b, %more) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32",
    first_sum = 4 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1>} :
    (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)> loc("one line")
  %1 = "wgmma.mma_async"(%0, %b, %a, %more) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32",
    first_sum = 4 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1>} :
    (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)> loc("one line")
  return
}
