// RUN: weft-opt %s | weft-opt --mlir-print-local-scope | FileCheck %s

!Stages = !tile.buffer<array<i64: 3, 64, 64>, f16, #tile.layout<"S[(3,64,64):(4096,64,1)] xor 128B">, "shared">
!Stage = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
!Bytes = !tile.buffer<array<i64: 64, 128>, i8, #tile.layout<"S[(64,128):(128,1)] xor 128B">, "shared">
!A = tensor<64x64xf16, #tile.layout<"S[(4,2,8,4,2,4,2):(1@warpid,2,4@laneid,8,4,1@laneid,1)]">>
!D = tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!D40 = tensor<64x40xf32, #tile.layout<"S[(4,2,8,5,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!I = tensor<64x64xi32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!Tall = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!D2 = tensor<128x64xf32, #tile.layout<"S[(2,4,2,8,8,4,2):(32,1@warpid,2,4@laneid,4,1@laneid,1)]">>
!Rounded = tensor<64x8xbf16, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
!Named = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!Rows = !tile.buffer<array<i64: 128, 128>, f8E4M3FN, #tile.layout<"S[(128,128):(128,1)] xor 128B">, "shared">
!Columns = !tile.buffer<array<i64: 128, 128>, f32, #tile.layout<"S[(128,128):(1@TLane,1@TCol)]">, "tmem">
!Scales = !tile.buffer<array<i64: 128, 4>, f8E8M0FNU, #tile.layout<"S[(4,32,4):(4@TCol,1@TLane,1@TCol)] + R[(4):(32@TLane)]">, "tmem">

// CHECK-LABEL: @maps
func.func @maps(%m: memref<?x?xf16, strided<[?, 1]>>, %n: memref<128x256xi32, 1>) {
  // CHECK: "tile.tensor_map"(%{{.*}}) : (memref<?x?xf16, strided<[?, 1]>>) -> !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
  %0 = "tile.tensor_map"(%m) : (memref<?x?xf16, strided<[?, 1]>>) -> !Map
  // CHECK: "tile.tensor_map"(%{{.*}}) : (memref<128x256xi32, 1>) -> !tile.map<array<i64: 8, 4>, i32, #tile.layout<"S[(8,4):(4,1)]">>
  %1 = "tile.tensor_map"(%n) : (memref<128x256xi32, 1>) -> !tile.map<array<i64: 8, 4>, i32, #tile.layout<"S[(8,4):(4,1)]">>
  // CHECK: "tile.tensor_map"(%{{.*}}) {l2_promotion = "64B"} : (memref<128x256xi32, 1>)
  %2 = "tile.tensor_map"(%n) {l2_promotion = "64B"} : (memref<128x256xi32, 1>) -> !tile.map<array<i64: 8, 4>, i32, #tile.layout<"S[(8,4):(4,1)]">>
  // CHECK: "tile.tensor_map"(%{{.*}}) {l2_eviction = "evict_last"} : (memref<128x256xi32, 1>)
  %3 = "tile.tensor_map"(%n) {l2_eviction = "evict_last"} : (memref<128x256xi32, 1>) -> !tile.map<array<i64: 8, 4>, i32, #tile.layout<"S[(8,4):(4,1)]">>
  // CHECK: "tile.tensor_map"(%{{.*}}) {any_rows = true} : (memref<?x?xf16, strided<[?, 1]>>)
  %4 = "tile.tensor_map"(%m) {any_rows = true} : (memref<?x?xf16, strided<[?, 1]>>) -> !Map
  // CHECK: "tile.tensor_map"(%{{.*}}) {skewed = true} : (memref<?x?xf16, strided<[?, 1]>>)
  %5 = "tile.tensor_map"(%m) {skewed = true} : (memref<?x?xf16, strided<[?, 1]>>) -> !Map
  // CHECK: "tile.tensor_map"(%{{.*}}) {joined = true} : (memref<?x?xf16, strided<[?, 1]>>)
  %6 = "tile.tensor_map"(%m) {joined = true} : (memref<?x?xf16, strided<[?, 1]>>) -> !tile.map<array<i64: 64, 8>, f16, #tile.layout<"S[(64,8):(8,1)]">>
  return
}

// One matrix of a batch, and what stores a tile by all threads.
// CHECK-LABEL: @members
func.func @members(%m: memref<4x?x?xf16>, %i: i32, %t: !Stage, %d: memref<?x?xf16>) {
  %0 = "tile.tensor_map"(%m) : (memref<4x?x?xf16>) -> !Map
  // CHECK: "tile.member"(%{{.*}}, %{{.*}}) : (!tile.map<{{.*}}>, i32) -> !tile.map<
  %1 = "tile.member"(%0, %i) : (!Map, i32) -> !Map
  // CHECK: "tile.copy_out"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (!tile.buffer<{{.*}}>, memref<?x?xf16>, i32, i32) -> ()
  "tile.copy_out"(%t, %d, %i, %i) : (!Stage, memref<?x?xf16>, i32, i32) -> ()
  return
}

// From a map one thread copies, and a barrier tells when the data is there.
// CHECK-LABEL: @tensor_copies
func.func @tensor_copies(%m: !Map, %i: i32, %t: !Stage, %b: !llvm.ptr<3>) {
  // CHECK: "tile.copy_async"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (!tile.map<{{.*}}>, i32, i32, !tile.buffer<{{.*}}>, !llvm.ptr<3>) -> ()
  "tile.copy_async"(%m, %i, %i, %t, %b) : (!Map, i32, i32, !Stage, !llvm.ptr<3>) -> ()
  // CHECK: "tile.store_async"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (!tile.buffer<{{.*}}>, !tile.map<{{.*}}>, i32, i32) -> ()
  "tile.store_async"(%t, %m, %i, %i) : (!Stage, !Map, i32, i32) -> ()
  // CHECK: "tile.add_async"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (!tile.buffer<{{.*}}>, !tile.map<{{.*}}>, i32, i32) -> ()
  "tile.add_async"(%t, %m, %i, %i) : (!Stage, !Map, i32, i32) -> ()
  return
}

// To several CTAs of the cluster at once, into the same place of each.
// CHECK-LABEL: @multicast
func.func @multicast(%m: !Map, %i: i32, %t: !Stage, %b: !llvm.ptr<3>, %mask: i16) {
  // CHECK: "tile.copy_multicast"(%{{.*}}) : (!tile.map<{{.*}}>, i32, i32, !tile.buffer<{{.*}}>, !llvm.ptr<3>, i16) -> ()
  "tile.copy_multicast"(%m, %i, %i, %t, %b, %mask) : (!Map, i32, i32, !Stage, !llvm.ptr<3>, i16) -> ()
  return
}

// Rows by their numbers.
// CHECK-LABEL: @gather
func.func @gather(%a: memref<?x?xf16>, %numbers: memref<?xi32>, %i: i32, %t: !Stage, %b: !llvm.ptr<3>) {
  // CHECK: "tile.tensor_map"(%{{.*}}) {indexed = true}
  %m = "tile.tensor_map"(%a) {indexed = true} : (memref<?x?xf16>) -> !Map
  // CHECK: "tile.gather_async"(%{{.*}}) : (!tile.map<{{.*}}>, memref<?xi32>, i32, i32, !tile.buffer<{{.*}}>, !llvm.ptr<3>) -> ()
  "tile.gather_async"(%m, %numbers, %i, %i, %t, %b) : (!Map, memref<?xi32>, i32, i32, !Stage, !llvm.ptr<3>) -> ()
  return
}

// CHECK-LABEL: @ring
func.func @ring(%stage: i32, %phase: i32) -> (i32, i32) {
  // CHECK: "tile.make_ring"() {consumers = 2 : i64} : () -> !tile.ring<4 : i64>
  %r = "tile.make_ring"() {consumers = 2} : () -> !tile.ring<4>
  // CHECK: "tile.acquire"(%{{.*}}, %{{.*}}, %{{.*}}) : (!tile.ring<4 : i64>, i32, i32) -> ()
  "tile.acquire"(%r, %stage, %phase) : (!tile.ring<4>, i32, i32) -> ()
  // CHECK: "tile.expect"(%{{.*}}, %{{.*}}) {bytes = 49152 : i64}
  "tile.expect"(%r, %stage) {bytes = 49152} : (!tile.ring<4>, i32) -> ()
  // CHECK: "tile.full_barrier"(%{{.*}}, %{{.*}}) : (!tile.ring<4 : i64>, i32) -> !llvm.ptr<3>
  %b = "tile.full_barrier"(%r, %stage) : (!tile.ring<4>, i32) -> !llvm.ptr<3>
  // CHECK: "tile.await"
  "tile.await"(%r, %stage, %phase) : (!tile.ring<4>, i32, i32) -> ()
  // CHECK: "tile.release"
  "tile.release"(%r, %stage) : (!tile.ring<4>, i32) -> ()
  // CHECK: "tile.release_peer"(%{{.*}}, %{{.*}}, %{{.*}}) : (!tile.ring<4 : i64>, i32, i32) -> ()
  "tile.release_peer"(%r, %stage, %phase) : (!tile.ring<4>, i32, i32) -> ()
  // CHECK: "tile.advance"(%{{.*}}, %{{.*}}, %{{.*}}) : (!tile.ring<4 : i64>, i32, i32) -> (i32, i32)
  %0, %1 = "tile.advance"(%r, %stage, %phase) : (!tile.ring<4>, i32, i32) -> (i32, i32)
  // CHECK: "tile.drain"(%{{.*}}, %{{.*}}, %{{.*}}) : (!tile.ring<4 : i64>, i32, i32) -> ()
  "tile.drain"(%r, %0, %1) : (!tile.ring<4>, i32, i32) -> ()
  return %0, %1 : i32, i32
}

// Rings of a pair of CTAs: copied into by both, read and written by the leader's MMAs. A mask names other CTAs whose copies
// wait for the stage.
// CHECK-LABEL: @rings_of_a_pair
func.func @rings_of_a_pair(%stage: i32, %mask: i16) {
  // CHECK: "tile.make_ring"() {consumers = 1 : i64, cta_group = 2 : i64, emptied_by = "mma"} : () -> !tile.ring<4 : i64>
  %0 = "tile.make_ring"() {emptied_by = "mma", consumers = 1, cta_group = 2} : () -> !tile.ring<4>
  %1 = "tile.make_ring"() {filled_by = "mma", emptied_by = "warps", consumers = 4, cta_group = 2} : () -> !tile.ring<4>
  %2 = "tile.make_ring"() {filled_by = "threads", emptied_by = "mma", consumers = 1, cta_group = 2} : () -> !tile.ring<4>
  %3 = "tile.make_ring"() {filled_by = "mma", emptied_by = "threads", consumers = 524287, cta_group = 2} : () -> !tile.ring<4>
  "tile.expect"(%0, %stage) {bytes = 524287} : (!tile.ring<4>, i32) -> ()
  // CHECK: "tile.release"(%{{.*}}, %{{.*}}, %{{.*}}) : (!tile.ring<4 : i64>, i32, i16) -> ()
  "tile.release"(%0, %stage, %mask) : (!tile.ring<4>, i32, i16) -> ()
  return
}

// The work of clusters that haven't started: asked for by one thread, read by others.
// CHECK-LABEL: @launch_control
func.func @launch_control(%stage: i32) -> (i1, i32, i32, i32) {
  // CHECK: {consumers = 7 : i64, emptied_by = "warps", filled_by = "clc"}
  %r = "tile.make_ring"() {filled_by = "clc", emptied_by = "warps", consumers = 7} : () -> !tile.ring<2>
  // CHECK: "tile.try_cancel"(%{{.*}}, %{{.*}}) : (!tile.ring<2 : i64>, i32) -> ()
  "tile.try_cancel"(%r, %stage) : (!tile.ring<2>, i32) -> ()
  // CHECK: "tile.query_cancel"(%{{.*}}, %{{.*}}) : (!tile.ring<2 : i64>, i32) -> (i1, i32, i32, i32)
  %exists, %x, %y, %z = "tile.query_cancel"(%r, %stage) : (!tile.ring<2>, i32) -> (i1, i32, i32, i32)
  return %exists, %x, %y, %z : i1, i32, i32, i32
}

// Who fills a stage and who empties it: TMA, threads, warps or an MMA, and threads, warps, warpgroups or an MMA.
// CHECK-LABEL: @agents_of_rings
func.func @agents_of_rings(%stage: i32) {
  // CHECK: "tile.make_ring"() {consumers = 1 : i64, emptied_by = "mma"} : () -> !tile.ring<4 : i64>
  %0 = "tile.make_ring"() {emptied_by = "mma", consumers = 1} : () -> !tile.ring<4>
  // CHECK: {consumers = 4 : i64, emptied_by = "warps", filled_by = "mma"}
  %1 = "tile.make_ring"() {filled_by = "mma", emptied_by = "warps", consumers = 4} : () -> !tile.ring<2>
  // CHECK: {consumers = 1048575 : i64, emptied_by = "threads", filled_by = "threads", producers = 1048575 : i64}
  %2 = "tile.make_ring"() {filled_by = "threads", producers = 1048575, emptied_by = "threads", consumers = 1048575} : () -> !tile.ring<1>
  %3 = "tile.make_ring"() {filled_by = "warps", producers = 4, emptied_by = "warpgroups", consumers = 2} : () -> !tile.ring<1>
  %4 = "tile.make_ring"() {filled_by = "tma", producers = 2, emptied_by = "warps", consumers = 8} : () -> !tile.ring<1>
  // CHECK: "tile.commit"(%{{.*}}, %{{.*}}) : (!tile.ring<2 : i64>, i32) -> ()
  "tile.commit"(%1, %stage) : (!tile.ring<2>, i32) -> ()
  "tile.commit"(%2, %stage) : (!tile.ring<1>, i32) -> ()
  "tile.commit"(%3, %stage) : (!tile.ring<1>, i32) -> ()
  return
}

// The shortest ring and the longest, and the least and the most that a stage may be told to expect.
// CHECK-LABEL: @bounds_of_rings
func.func @bounds_of_rings(%stage: i32) {
  // CHECK: !tile.ring<1 : i64>
  %0 = "tile.make_ring"() {consumers = 1} : () -> !tile.ring<1>
  // CHECK: !tile.ring<64 : i64>
  %1 = "tile.make_ring"() {consumers = 1} : () -> !tile.ring<64>
  // CHECK: {bytes = 1 : i64}
  "tile.expect"(%0, %stage) {bytes = 1} : (!tile.ring<1>, i32) -> ()
  // CHECK: {bytes = 1048575 : i64}
  "tile.expect"(%1, %stage) {bytes = 1048575} : (!tile.ring<64>, i32) -> ()
  return
}

// A stage of each operand; A in registers; what runs fastest is M, or N, or K; an MN-major B with more columns than D.
// CHECK-LABEL: @products
func.func @products(%s: !Stage, %a: !A, %c: !D, %d: !D40, %more: i1) {
  // CHECK: "tile.gemm_async"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {operandSegmentSizes = {{.*}}} : (!tile.buffer<{{.*}}>, !tile.buffer<{{.*}}>, tensor<{{.*}}>, i1) -> tensor<
  %0 = "tile.gemm_async"(%s, %s, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>} : (!Stage, !Stage, !D, i1) -> !D
  // CHECK: "tile.gemm_async"
  // CHECK-SAME: transpose_b = true} : (tensor<
  %1 = "tile.gemm_async"(%a, %s, %0, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !Stage, !D, i1) -> !D
  // CHECK: "tile.gemm_async"
  // CHECK-SAME: transpose_a = true}
  %2 = "tile.gemm_async"(%s, %s, %1, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_a = true} : (!Stage, !Stage, !D, i1) -> !D
  // CHECK: "tile.gemm_async"
  // CHECK-SAME: -> tensor<64x40xf32
  %3 = "tile.gemm_async"(%s, %s, %d, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>} : (!Stage, !Stage, !D40, i1) -> !D40
  return
}

// 128 rows are two products in one group; integers add up to i32.
// CHECK-LABEL: @larger_products
func.func @larger_products(%t: !Tall, %s: !Stage, %c: !D2, %x: !Bytes, %i: !I, %more: i1) {
  // CHECK: "tile.gemm_async"
  // CHECK-SAME: -> tensor<128x64xf32
  %0 = "tile.gemm_async"(%t, %s, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!Tall, !Stage, !D2, i1) -> !D2
  // CHECK: "tile.gemm_async"
  // CHECK-SAME: -> tensor<64x64xi32
  %1 = "tile.gemm_async"(%x, %x, %i, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!Bytes, !Bytes, !I, i1) -> !I
  return
}

// Written over C in tensor memory, there is no result.
// CHECK-LABEL: @products_in_tensor_memory
func.func @products_in_tensor_memory(%a: !Rows, %c: !Columns, %s: !Scales, %more: i1, %n: i32) {
  // CHECK: "tile.gemm_async"(%{{.*}}) {cta_group = 1 : i64, operandSegmentSizes = {{.*}}, transpose_b = true} : ({{.*}}, i1) -> ()
  "tile.gemm_async"(%a, %a, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, cta_group = 1 : i64, transpose_b = true} : (!Rows, !Rows, !Columns, i1) -> ()
  // CHECK: "tile.gemm_async"(%{{.*}}) {mma_m = 128 : i64, mma_n = 64 : i64, operandSegmentSizes = {{.*}}, transpose_b = true} : ({{.*}}, i1, i32) -> ()
  "tile.gemm_async"(%a, %a, %c, %more, %n) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 1, 0>, mma_m = 128 : i64, mma_n = 64 : i64, transpose_b = true} : (!Rows, !Rows, !Columns, i1, i32) -> ()
  // CHECK: "tile.gemm_async"(%{{.*}}) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0>
  "tile.gemm_async"(%a, %a, %c, %more, %s, %s, %n) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0>, transpose_b = true} : (!Rows, !Rows, !Columns, i1, !Scales, !Scales, i32) -> ()
  return
}

// A wait may return no fragment, or several.
// CHECK-LABEL: @waits
func.func @waits(%c: !D, %d: !D) {
  // CHECK: "tile.wait_gemm"() : () -> ()
  "tile.wait_gemm"() : () -> ()
  // CHECK: "tile.wait_gemm"(%{{.*}}) {pending = 1 : i64} : (tensor<{{.*}}>) -> tensor<
  %0 = "tile.wait_gemm"(%c) {pending = 1} : (!D) -> !D
  // CHECK: "tile.wait_gemm"(%{{.*}}, %{{.*}}) : (tensor<{{.*}}>, tensor<{{.*}}>) -> (tensor<{{.*}}>, tensor<{{.*}}>)
  %1, %2 = "tile.wait_gemm"(%0, %d) : (!D, !D) -> (!D, !D)
  // CHECK: "tile.pin"(%{{.*}}) : (tensor<[[D:.*]]>) -> tensor<[[D]]>
  %3 = "tile.pin"(%2) : (!D) -> !D
  return
}

// Sums in named registers: 32 products, added to as many sums.
// CHECK-LABEL: @named_sums
func.func @named_sums(%a: !Named, %c: !D, %no: i1, %f: f32) {
  // CHECK: "tile.clear_sums"() {count = 32 : i64, first_sum = 32 : i64} : () -> ()
  "tile.clear_sums"() {count = 32, first_sum = 32} : () -> ()
  // CHECK: "tile.gemm_async"(%{{.*}}) {first_sum = 0 : i64, operandSegmentSizes = {{.*}}, transpose_b = true}
  %0 = "tile.gemm_async"(%a, %a, %c, %no) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, first_sum = 0, transpose_b = true} : (!Named, !Named, !D, i1) -> !D
  "tile.wait_gemm"() : () -> ()
  // CHECK: "tile.add_products"() {count = 32 : i64, first_product = 0 : i64, first_sum = 32 : i64} : () -> ()
  "tile.add_products"() {count = 32, first_product = 0, first_sum = 32} : () -> ()
  // CHECK: "tile.add_products"(%{{.*}}, %{{.*}}) {count = 2 : i64, factor_numbers = array<i64: 1, 0>, first_product = 0 : i64, first_sum = 32 : i64} : (f32, f32) -> ()
  "tile.add_products"(%f, %f) {count = 2, factor_numbers = array<i64: 1, 0>, first_product = 0, first_sum = 32} : (f32, f32) -> ()
  // CHECK: "tile.read_sums"() {first_sum = 32 : i64} : () -> tensor<
  %1 = "tile.read_sums"() {first_sum = 32} : () -> !D
  // CHECK: "tile.read_sums"() {first_sum = 32 : i64, order = array<i64: 3, 2, 1, 0>, rounds = true} : () -> tensor<{{.*}}xbf16,
  %2 = "tile.read_sums"() {first_sum = 32, order = array<i64: 3, 2, 1, 0>, rounds = true} : () -> !Rounded
  return
}

// Single warps of the CTA.
// CHECK-LABEL: @roles_of_warps
func.func @roles_of_warps() {
  // CHECK: }) {first = 0 : i64, warps = 1 : i64} : () -> ()
  "tile.role"() ({
  ^bb0(%number: i32):
  }) {first = 0, warps = 1} : () -> ()
  // CHECK: }) {first = 4 : i64, registers = 0 : i64, warps = 32 : i64} : () -> ()
  "tile.role"() ({
  ^bb0(%number: i32):
  }) {first = 4, warps = 32, registers = 0} : () -> ()
  return
}

// One warpgroup that gives registers away, and two that take them; a role without any keeps what it has.
// CHECK-LABEL: @roles
func.func @roles() {
  // CHECK: "tile.role"() ({
  // CHECK-NEXT: ^bb0(%{{.*}}: i32):
  // CHECK: }) {first = 0 : i64, registers = 24 : i64, warpgroups = 1 : i64} : () -> ()
  "tile.role"() ({
  ^bb0(%number: i32):
    "tile.role"() ({
    ^bb0(%inner: i32):
    }) {first = 0, warpgroups = 1, registers = 0} : () -> ()
  }) {first = 0, warpgroups = 1, registers = 24} : () -> ()
  // CHECK: }) {first = 1 : i64, registers = 256 : i64, warpgroups = 8 : i64} : () -> ()
  "tile.role"() ({
  ^bb0(%number: i32):
  }) {first = 1, warpgroups = 8, registers = 256} : () -> ()
  return
}
