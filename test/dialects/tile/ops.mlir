// RUN: weft-opt %s | weft-opt --mlir-print-local-scope | FileCheck %s

#a = #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">
#b = #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">
#d = #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">
!A8 = tensor<32x64xf8E4M3FN, #tile.layout<"S[(2,2,8,2,2,4,4):(32,4,4@laneid,16,8,1@laneid,1)]">>
!B8 = tensor<64x32xf8E5M2, #tile.layout<"S[(2,2,4,4,4,8):(32,4,1@laneid,1,8,4@laneid)]">>
!D8 = tensor<32x32xf32, #tile.layout<"S[(2,2,8,4,4,2):(16,2,4@laneid,4,1@laneid,1)]">>
!ScaleA = tensor<32x4xf8E8M0FNU, #tile.layout<"S[(2,2,8,4):(2@laneid,1@laneid,4@laneid,1)]">>
!ScaleB = tensor<4x32xf8E8M0FNU, #tile.layout<"S[(4,4,8):(1,1@laneid,4@laneid)]">>
!A = tensor<16x16xf16, #a>
!B = tensor<16x8xf16, #b>
!D = tensor<16x8xf32, #d>
!Stages = !tile.buffer<array<i64: 3, 64, 64>, bf16, #tile.layout<"S[(3,64,64):(4096,64,1)] xor 128B">, "shared">
!Stage = !tile.buffer<array<i64: 64, 64>, bf16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!Sums = !tile.buffer<array<i64: 2, 128, 64>, f32, #tile.layout<"S[(2,128,64):(64@TCol,1@TLane,1@TCol)]">, "tmem">
!Sum = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!SharedScales = !tile.buffer<array<i64: 128, 4>, f8E8M0FNU, #tile.layout<"S[(4,32,4):(4,16,1)]">, "shared">
!TensorScales = !tile.buffer<array<i64: 128, 4>, f8E8M0FNU, #tile.layout<"S[(4,32,4):(4@TCol,1@TLane,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
!Rows = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">

// CHECK-LABEL: @matmul
func.func @matmul(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>) {
  // CHECK: "tile.matmul"(%{{.*}}, %{{.*}}, %{{.*}}) {operandSegmentSizes = {{.*}}} : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  return
}

// CHECK-LABEL: @matmul_with_all
func.func @matmul_with_all(%a: memref<128x64xf16, strided<[72, 1]>>, %b: memref<256x64xf16>, %d: memref<128x256xf16>,
                           %c: memref<?x256xf32, strided<[?, 1]>>) {
  // CHECK: "tile.matmul"
  // CHECK-SAME: alpha = 5.000000e-01 : f32
  // CHECK-SAME: beta = 2.000000e+00 : f32
  // CHECK-SAME: schedule = {block = array<i64: 128, 128, 64>, group = 4 : i64, stages = 4 : i64, warps = array<i64: 2, 4>}
  // CHECK-SAME: transpose_b = true
  "tile.matmul"(%a, %b, %d, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, alpha = 0.5 : f32, beta = 2.0 : f32,
    schedule = {block = array<i64: 128, 128, 64>, warps = array<i64: 2, 4>, stages = 4, group = 4}}
    : (memref<128x64xf16, strided<[72, 1]>>, memref<256x64xf16>, memref<128x256xf16>, memref<?x256xf32, strided<[?, 1]>>)
    -> ()
  return
}

// Matrices lie in global memory: with no memory space, with its number, or with its name.
// CHECK-LABEL: @matmul_memory
func.func @matmul_memory(%a: memref<?x?xf16, 1>, %b: memref<?x?xf16, #gpu.address_space<global>>, %d: memref<?x?xbf16>) {
  // CHECK: "tile.matmul"
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}
    : (memref<?x?xf16, 1>, memref<?x?xf16, #gpu.address_space<global>>, memref<?x?xbf16>) -> ()
  return
}

// CHECK-LABEL: @gemm
func.func @gemm(%a: !A, %b: !B, %c: !D) {
  // CHECK: "tile.gemm"
  // CHECK-SAME: -> tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
  %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
  // CHECK: "tile.gemm"
  // CHECK-SAME: {alpha = 1.000000e+00 : f32, beta = 1.000000e+00 : f32}
  %1 = "tile.gemm"(%a, %b, %c) {alpha = 1.0 : f32, beta = 1.0 : f32} : (!A, !B, !D) -> !D
  return
}

// CHECK-LABEL: @gemm_scaled
func.func @gemm_scaled(%a: !A8, %b: !B8, %c: !D8, %scale_a: !ScaleA, %scale_b: !ScaleB) {
  // CHECK: "tile.gemm_scaled"
  // CHECK-SAME: {first_group = 2 : i64}
  %0 = "tile.gemm_scaled"(%a, %b, %c, %scale_a, %scale_b) {first_group = 2 : i64} : (!A8, !B8, !D8, !ScaleA, !ScaleB) -> !D8
  return
}

// CHECK-LABEL: @gemm_on_buffers
func.func @gemm_on_buffers(%a: !Rows, %b: !Rows) {
  // CHECK: "tile.gemm"
  %0 = "tile.gemm"(%a, %b) : (!Rows, !Rows) -> tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(32,2,4@laneid,4,1@laneid,1)]">>
  return
}

// CHECK-LABEL: @buffers
func.func @buffers(%i: i32) {
  // CHECK: "tile.alloc"() : () -> !tile.buffer<array<i64: 3, 64, 64>, bf16, #tile.layout<"S[(3,64,64):(4096,64,1)] xor 128B">, "shared">
  %0 = "tile.alloc"() : () -> !Stages
  // CHECK: "tile.alloc"(%{{.*}}) : (!tile.buffer<array<i64: 3, 64, 64>, bf16, {{.*}}) -> !tile.buffer<array<i64: 8, 8>, f32,
  %over = "tile.alloc"(%0) : (!Stages) -> !tile.buffer<array<i64: 8, 8>, f32, #tile.layout<"S[(8,8):(12,1)]">, "shared">
  // CHECK: "tile.stage"
  // CHECK-SAME: -> !tile.buffer<array<i64: 64, 64>, bf16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
  %1 = "tile.stage"(%0, %i) : (!Stages, i32) -> !Stage
  // CHECK: "tile.address"(%{{.*}}) : (!tile.buffer<{{.*}}>) -> !llvm.ptr<3>
  %2 = "tile.address"(%1) : (!Stage) -> !llvm.ptr<3>
  return
}

// CHECK-LABEL: @tensor_memory
func.func @tensor_memory(%i: i32, %from: !SharedScales) {
  // CHECK: "tile.tensor_memory"() ({
  "tile.tensor_memory"() ({
    // CHECK-NEXT: "tile.alloc"() : () -> !tile.buffer<array<i64: 2, 128, 64>, f32, #tile.layout<"S[(2,128,64):(64@TCol,1@TLane,1@TCol)]">, "tmem">
    %sums = "tile.alloc"() : () -> !Sums
    %sum = "tile.stage"(%sums, %i) : (!Sums, i32) -> !Sum
    %scales = "tile.alloc"() : () -> !TensorScales
    // CHECK: "tile.copy_tmem"(%{{.*}}, %{{.*}}) {cta_group = 1 : i64}
    "tile.copy_tmem"(%from, %scales) {cta_group = 1 : i64} : (!SharedScales, !TensorScales) -> ()
    // CHECK: {cta_group = 1 : i64, warp = 2 : i64} : () -> ()
  }) {warp = 2 : i64, cta_group = 1 : i64} : () -> ()
  return
}

// CHECK-LABEL: @copies
func.func @copies(%m: memref<?x?xf16>, %i: i32, %t: !Rows) {
  // CHECK: "tile.copy_async"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {vector_bytes = 16 : i64}
  "tile.copy_async"(%m, %i, %i, %t) {vector_bytes = 16} : (memref<?x?xf16>, i32, i32, !Rows) -> ()
  // CHECK: "tile.copy"
  "tile.copy"(%m, %i, %i, %t) : (memref<?x?xf16>, i32, i32, !Rows) -> ()
  return
}

// CHECK-LABEL: @loads
func.func @loads(%m: memref<?x?xf16>, %i: i32, %t: !Rows) {
  // CHECK: "tile.load"
  // CHECK-SAME: (!tile.buffer<{{.*}}>, i32, i32) -> tensor<16x16
  %0 = "tile.load"(%t, %i, %i) : (!Rows, i32, i32) -> !A
  // CHECK: "tile.load"
  // CHECK-SAME: {transpose = true}
  %1 = "tile.load"(%t, %i, %i) {transpose = true} : (!Rows, i32, i32) -> !B
  // CHECK: "tile.load"
  // CHECK-SAME: {vector_bytes = 4 : i64} : (memref<?x?xf16>, i32, i32)
  %2 = "tile.load"(%m, %i, %i) {vector_bytes = 4} : (memref<?x?xf16>, i32, i32) -> !A
  // CHECK: "tile.store"
  // CHECK-SAME: {vector_bytes = 4 : i64}
  "tile.store"(%2, %m, %i, %i) {vector_bytes = 4} : (!A, memref<?x?xf16>, i32, i32) -> ()
  return
}

// CHECK-LABEL: @lanes
func.func @lanes(%v: vector<8xf16>) -> vector<8xf16> {
  // CHECK: "tile.from_lane"(%{{.*}}) : (vector<8xf16>) -> tensor<16x16xf16
  %0 = "tile.from_lane"(%v) : (vector<8xf16>) -> !A
  // CHECK: "tile.to_lane"(%{{.*}}) : (tensor<{{.*}}>) -> vector<8xf16>
  %1 = "tile.to_lane"(%0) : (!A) -> vector<8xf16>
  return %1 : vector<8xf16>
}

// A fragment may store an element more than once, and flow through control flow.
// CHECK-LABEL: @replicas
func.func @replicas(%v: vector<2xf32>, %c: i1) {
  // CHECK: "tile.from_lane"
  // CHECK-SAME: "S[(2,8):(1,4@laneid)] + R[(4):(1@laneid)]"
  %0 = "tile.from_lane"(%v) : (vector<2xf32>)
    -> tensor<16x1xf32, #tile.layout<"S[(2,8):(1,4@laneid)] + R[(4):(1@laneid)]">>
  // CHECK: arith.select
  %1 = arith.select %c, %0, %0 : tensor<16x1xf32, #tile.layout<"S[(2,8):(1,4@laneid)] + R[(4):(1@laneid)]">>
  return
}

// A as K x M, and other inputs: f32 multiplied as tf32, fp8 of both kinds, i8 that add up to i32.
// CHECK-LABEL: @matmul_inputs
func.func @matmul_inputs(%h: memref<64x128xf16>, %b: memref<64x256xf16>, %f: memref<?x?xf32>, %d: memref<128x256xf32>,
                         %e4: memref<?x?xf8E4M3FN>, %e5: memref<?x?xf8E5M2>, %i: memref<?x?xi8>, %s: memref<?x?xi32>) {
  // CHECK: "tile.matmul"(%{{.*}}) {operandSegmentSizes = {{.*}}, transpose_a = true} : (memref<64x128xf16>, memref<64x256xf16>, memref<128x256xf32>) -> ()
  "tile.matmul"(%h, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_a = true} : (memref<64x128xf16>, memref<64x256xf16>, memref<128x256xf32>) -> ()
  // CHECK: "tile.matmul"
  // CHECK-SAME: (memref<?x?xf32>, memref<?x?xf32>, memref<128x256xf32>)
  "tile.matmul"(%f, %f, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (memref<?x?xf32>, memref<?x?xf32>, memref<128x256xf32>) -> ()
  // CHECK: "tile.matmul"
  // CHECK-SAME: (memref<?x?xf8E4M3FN>, memref<?x?xf8E5M2>, memref<128x256xf32>)
  "tile.matmul"(%e4, %e5, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (memref<?x?xf8E4M3FN>, memref<?x?xf8E5M2>, memref<128x256xf32>) -> ()
  // CHECK: "tile.matmul"
  // CHECK-SAME: (memref<?x?xi8>, memref<?x?xi8>, memref<?x?xi32>)
  "tile.matmul"(%i, %i, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, beta = 1.0 : f32} : (memref<?x?xi8>, memref<?x?xi8>, memref<?x?xi32>) -> ()
  return
}

// A schedule with warpgroups: the least that it says, and all of it.
// CHECK-LABEL: @matmul_warpgroups
func.func @matmul_warpgroups(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xbf16>) {
  // CHECK: schedule = {block = array<i64: 128, 256, 64>, stages = 3 : i64, warpgroups = 2 : i64}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 256, 64>, warpgroups = 2, stages = 3}}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>) -> ()
  // CHECK: schedule = {block = array<i64: 64, 16, 64>, group = 4 : i64, splits = 2 : i64, stages = 4 : i64, swap = true, warpgroups = 1 : i64}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true,
    schedule = {block = array<i64: 64, 16, 64>, warpgroups = 1, stages = 4, group = 4, splits = 2, swap = true}}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>) -> ()
  // CHECK: schedule = {block = array<i64: 128, 256, 64>, cluster = array<i64: 2, 1>, stages = 3 : i64, warpgroups = 2 : i64}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 256, 64>, warpgroups = 2, stages = 3, cluster = array<i64: 2, 1>}}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>) -> ()
  return
}

// Parts of a buffer at multiples of their shape, and the buffer that another CTA has in the same place.
// CHECK-LABEL: @views
func.func @views(%s: !Stages, %i: i32) {
  %0 = "tile.stage"(%s, %i) : (!Stages, i32) -> !Stage
  // CHECK: "tile.slice"
  // CHECK-SAME: -> !tile.buffer<array<i64: 16, 64>, bf16, #tile.layout<"S[(16,64):(64,1)] xor 128B">, "shared">
  %1 = "tile.slice"(%0, %i, %i) : (!Stage, i32, i32) -> !tile.buffer<array<i64: 16, 64>, bf16, #tile.layout<"S[(16,64):(64,1)] xor 128B">, "shared">
  // CHECK: "tile.peer"(%{{.*}}, %{{.*}}) : (!tile.buffer<{{.*}}, "shared">, i32) -> !tile.buffer<{{.*}}, "cluster">
  %2 = "tile.peer"(%0, %i) : (!Stage, i32) -> !tile.buffer<array<i64: 64, 64>, bf16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "cluster">
  // CHECK: "tile.address"(%{{.*}}) : (!tile.buffer<{{.*}}, "cluster">) -> !llvm.ptr<7>
  %3 = "tile.address"(%2) : (!tile.buffer<array<i64: 64, 64>, bf16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "cluster">) -> !llvm.ptr<7>
  return
}

// In panels, a part of some columns lies a panel, or several, further on.
// CHECK-LABEL: @slice_of_panels
func.func @slice_of_panels(%b: !tile.buffer<array<i64: 64, 256>, f16, #tile.layout<"S[(64,4,64):(64,4096,1)] xor 128B">, "shared">, %i: i32) {
  // CHECK: "tile.slice"
  // CHECK-SAME: -> !tile.buffer<array<i64: 64, 128>, f16, #tile.layout<"S[(64,2,64):(64,4096,1)] xor 128B">, "shared">
  %0 = "tile.slice"(%b, %i, %i) : (!tile.buffer<array<i64: 64, 256>, f16, #tile.layout<"S[(64,4,64):(64,4096,1)] xor 128B">, "shared">, i32, i32)
    -> !tile.buffer<array<i64: 64, 128>, f16, #tile.layout<"S[(64,2,64):(64,4096,1)] xor 128B">, "shared">
  return
}

// CHECK-LABEL: @store_to_a_buffer
func.func @store_to_a_buffer(%f: !A, %t: !Rows, %i: i32) {
  // CHECK: "tile.store"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<{{.*}}>, !tile.buffer<{{.*}}>, i32, i32) -> ()
  "tile.store"(%f, %t, %i, %i) : (!A, !Rows, i32, i32) -> ()
  return
}

// Each of a warpgroup's four warps has 16 rows of 64; a lane's vector is as long as with one warp.
// CHECK-LABEL: @warpgroup
func.func @warpgroup(%v: vector<8xf32>, %m: memref<?x?xf32>, %i: i32) {
  // CHECK: "tile.from_lane"
  // CHECK-SAME: (vector<8xf32>) -> tensor<64x16xf32, #tile.layout<"S[(4,2,8,2,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
  %0 = "tile.from_lane"(%v) : (vector<8xf32>)
    -> tensor<64x16xf32, #tile.layout<"S[(4,2,8,2,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
  // CHECK: "tile.store"
  "tile.store"(%0, %m, %i, %i) {vector_bytes = 8}
    : (tensor<64x16xf32, #tile.layout<"S[(4,2,8,2,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>, memref<?x?xf32>, i32, i32) -> ()
  return
}

// A warp claims what it shall do of what others have written parts of.
// CHECK-LABEL: func.func @claim
func.func @claim(%counters: memref<?xi32>, %i: i32) {
  // CHECK: "tile.claim"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {shares = 2 : i64} : (memref<?xi32>, i32, i32, i32) -> i32
  %parties = arith.constant 4 : i32
  %0 = "tile.claim"(%counters, %i, %i, %parties) {shares = 2} : (memref<?xi32>, i32, i32, i32) -> i32
  return
}

// Before it writes its part, a warp looks whether that is needed; how many parts there are may follow from sizes.
// CHECK-LABEL: func.func @await_others
func.func @await_others(%counters: memref<?xi32>, %i: i32, %parties: i32) {
  // CHECK: "tile.await_others"(%{{.*}}, %{{.*}}, %{{.*}}) : (memref<?xi32>, i32, i32) -> i1
  %0 = "tile.await_others"(%counters, %i, %parties) : (memref<?xi32>, i32, i32) -> i1
  return
}

// A thread waits for a flag that another GPU raises.
// CHECK-LABEL: func.func @await_flag
func.func @await_flag(%flags: memref<?xi32>, %i: i32, %value: i32, %limit: i32) {
  // CHECK: "tile.await_flag"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {proxy = "async"} : (memref<?xi32>, i32, i32, i32) -> ()
  "tile.await_flag"(%flags, %i, %value, %limit) {proxy = "async"} : (memref<?xi32>, i32, i32, i32) -> ()
  return
}

// The rows of A of a team of GPUs.
// CHECK-LABEL: func.func @gathered
func.func @gathered(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?x?xbf16>, %others: memref<?x?x?xbf16>,
                    %arrivals: memref<?x?xi32>, %team: memref<?xi32>) {
  %t = "tile.team"(%team, %others, %arrivals) {operandSegmentSizes = array<i32: 1, 1, 0, 1, 0, 0, 0, 0>}
    : (memref<?xi32>, memref<?x?x?xbf16>, memref<?x?xi32>) -> !tile.exchange
  // CHECK: %[[T:.*]] = "tile.team"(%{{.*}}, %{{.*}}, %{{.*}}) {operandSegmentSizes
  // CHECK: "tile.matmul"(%{{.*}}, %[[T]]) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0>
  "tile.matmul"(%a, %b, %d, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0>, transpose_b = true}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?x?xbf16>, !tile.exchange) -> ()
  return
}

// A product that also sends its rows to the other GPUs.
// CHECK-LABEL: func.func @sent
func.func @sent(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?x?xbf16>, %others: memref<?x?x?xbf16>,
                %arrivals: memref<?x?xi32>, %peers: memref<?x?xi64>, %team: memref<?xi32>) {
  %t = "tile.team"(%team, %others, %arrivals, %peers) {operandSegmentSizes = array<i32: 1, 1, 0, 1, 0, 0, 1, 0>}
    : (memref<?xi32>, memref<?x?x?xbf16>, memref<?x?xi32>, memref<?x?xi64>) -> !tile.exchange
  // CHECK: "tile.team"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}})
  // CHECK: "tile.matmul"
  "tile.matmul"(%a, %b, %d, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0>, transpose_b = true}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?x?xbf16>, !tile.exchange) -> ()
  return
}

// A thread raises a flag in the memory of another GPU.
// CHECK-LABEL: func.func @signal
func.func @signal(%address: i64, %i: i32, %value: i32) {
  // CHECK: %[[FLAGS:.*]] = "tile.remote"(%{{.*}}) : (i64) -> memref<?xi32, 1>
  %0 = "tile.remote"(%address) : (i64) -> memref<?xi32, 1>
  // CHECK: "tile.signal"(%[[FLAGS]], %{{.*}}, %{{.*}}) : (memref<?xi32, 1>, i32, i32) -> ()
  "tile.signal"(%0, %i, %value) : (memref<?xi32, 1>, i32, i32) -> ()
  return
}

// A thread is the last of several to arrive.
// CHECK-LABEL: func.func @is_last
func.func @is_last(%counters: memref<?xi32>, %i: i32, %count: i32) {
  // CHECK: "tile.is_last"(%{{.*}}, %{{.*}}, %{{.*}}) : (memref<?xi32>, i32, i32) -> i1
  %0 = "tile.is_last"(%counters, %i, %count) : (memref<?xi32>, i32, i32) -> i1
  return
}

// A thread sends a buffer to another GPU.
// CHECK-LABEL: func.func @send
func.func @send(%address: i64, %i: i32) {
  %0 = "tile.alloc"() : () -> !tile.buffer<array<i64: 128, 8>, bf16, #tile.layout<"S[(128,8):(8,1)]">, "shared">
  %1 = "tile.remote"(%address) : (i64) -> memref<?xbf16, 1>
  // CHECK: "tile.send_async"(%{{.*}}, %{{.*}}, %{{.*}})
  "tile.send_async"(%0, %1, %i)
    : (!tile.buffer<array<i64: 128, 8>, bf16, #tile.layout<"S[(128,8):(8,1)]">, "shared">, memref<?xbf16, 1>, i32) -> ()
  return
}
