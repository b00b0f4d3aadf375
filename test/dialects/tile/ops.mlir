// RUN: weft-opt %s | weft-opt | FileCheck %s

#a = #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">
#b = #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">
#d = #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">
!A = !tile.fragment<array<i64: 16, 16>, f16, #a>
!B = !tile.fragment<array<i64: 16, 8>, f16, #b>
!D = !tile.fragment<array<i64: 16, 8>, f32, #d>
!Stages = !tile.buffer<array<i64: 3, 64, 64>, bf16, #tile.layout<"S[(3,64,64):(4096,64,1)] xor 128B">, "shared">
!Stage = !tile.buffer<array<i64: 64, 64>, bf16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!Rows = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">

// CHECK-LABEL: @matmul
func.func @matmul(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>) {
  // CHECK: "tile.matmul"(%{{.*}}, %{{.*}}, %{{.*}}) : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  "tile.matmul"(%a, %b, %d) : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
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
  "tile.matmul"(%a, %b, %d, %c) {transpose_b = true, alpha = 0.5 : f32, beta = 2.0 : f32,
    schedule = {block = array<i64: 128, 128, 64>, warps = array<i64: 2, 4>, stages = 4, group = 4}}
    : (memref<128x64xf16, strided<[72, 1]>>, memref<256x64xf16>, memref<128x256xf16>, memref<?x256xf32, strided<[?, 1]>>)
    -> ()
  return
}

// Matrices lie in global memory: with no memory space, with its number, or with its name.
// CHECK-LABEL: @matmul_memory
func.func @matmul_memory(%a: memref<?x?xf16, 1>, %b: memref<?x?xf16, #gpu.address_space<global>>, %d: memref<?x?xbf16>) {
  // CHECK: "tile.matmul"
  "tile.matmul"(%a, %b, %d)
    : (memref<?x?xf16, 1>, memref<?x?xf16, #gpu.address_space<global>>, memref<?x?xbf16>) -> ()
  return
}

// CHECK-LABEL: @gemm
func.func @gemm(%a: !A, %b: !B, %c: !D) {
  // CHECK: "tile.gemm"
  // CHECK-SAME: -> !tile.fragment<array<i64: 16, 8>, f32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
  %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
  // CHECK: "tile.gemm"
  // CHECK-SAME: {alpha = 1.000000e+00 : f32, beta = 1.000000e+00 : f32}
  %1 = "tile.gemm"(%a, %b, %c) {alpha = 1.0 : f32, beta = 1.0 : f32} : (!A, !B, !D) -> !D
  return
}

// CHECK-LABEL: @gemm_on_buffers
func.func @gemm_on_buffers(%a: !Rows, %b: !Rows) {
  // CHECK: "tile.gemm"
  %0 = "tile.gemm"(%a, %b) : (!Rows, !Rows) -> !tile.fragment<array<i64: 64, 64>, f32, #tile.layout<"S[(4,2,8,8,4,2):(32,2,4@laneid,4,1@laneid,1)]">>
  return
}

// CHECK-LABEL: @buffers
func.func @buffers(%i: i32) {
  // CHECK: "tile.alloc"() : () -> !tile.buffer<array<i64: 3, 64, 64>, bf16, #tile.layout<"S[(3,64,64):(4096,64,1)] xor 128B">, "shared">
  %0 = "tile.alloc"() : () -> !Stages
  // CHECK: "tile.stage"
  // CHECK-SAME: -> !tile.buffer<array<i64: 64, 64>, bf16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
  %1 = "tile.stage"(%0, %i) : (!Stages, i32) -> !Stage
  // CHECK: "tile.address"(%{{.*}}) : (!tile.buffer<{{.*}}>) -> !llvm.ptr<3>
  %2 = "tile.address"(%1) : (!Stage) -> !llvm.ptr<3>
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
  // CHECK-SAME: (!tile.buffer<{{.*}}>, i32, i32) -> !tile.fragment<array<i64: 16, 16>
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
  // CHECK: "tile.from_lane"(%{{.*}}) : (vector<8xf16>) -> !tile.fragment<array<i64: 16, 16>, f16
  %0 = "tile.from_lane"(%v) : (vector<8xf16>) -> !A
  // CHECK: "tile.to_lane"(%{{.*}}) : (!tile.fragment<{{.*}}>) -> vector<8xf16>
  %1 = "tile.to_lane"(%0) : (!A) -> vector<8xf16>
  return %1 : vector<8xf16>
}

// A fragment may store an element more than once, and flow through control flow.
// CHECK-LABEL: @replicas
func.func @replicas(%v: vector<2xf32>, %c: i1) {
  // CHECK: "tile.from_lane"
  // CHECK-SAME: "S[(2,8):(1,4@laneid)] + R[(4):(1@laneid)]"
  %0 = "tile.from_lane"(%v) : (vector<2xf32>)
    -> !tile.fragment<array<i64: 16, 1>, f32, #tile.layout<"S[(2,8):(1,4@laneid)] + R[(4):(1@laneid)]">>
  // CHECK: arith.select
  %1 = arith.select %c, %0, %0 : !tile.fragment<array<i64: 16, 1>, f32, #tile.layout<"S[(2,8):(1,4@laneid)] + R[(4):(1@laneid)]">>
  return
}
