// RUN: weft-opt %s --mlir-print-local-scope --outline-matmul --expand-matmul --canonicalize --cse | FileCheck %s

// Scales of A come with each stage; those of B are read for 32 K blocks at a time, one by each lane, which gives it to
// all a block ahead. A lane's sums are of two rows, and 64 columns share a scale of B: there are two factors. A part's
// products, in named registers, are added up, scaled, before the next part's overwrite them. With two parts, an iteration
// begins and ends while the second's products are in flight, and takes two K blocks, or one where no other is left. The
// first K block has none before it. The next K block is awaited after the second part's sums.
// CHECK-LABEL: gpu.func @scaled
// CHECK: %[[SCALES:.*]] = "tile.alloc"() : () -> !tile.buffer<array<i64: 3, 1, 256>, f32
// CHECK: "tile.tensor_map"(%{{.*}}) : (memref<?x?xf32>)
// CHECK: "tile.make_ring"() {consumers = 8 : i64, emptied_by = "warps"}
// CHECK: "tile.role"
// CHECK: "tile.clear_sums"() {count = 64 : i64, first_sum = 64 : i64}
// CHECK: %[[FIRST:.*]] = memref.load
// CHECK: %[[LANES:.*]] = memref.load
// CHECK-NOT: "tile.await"
// CHECK: %[[LEFT:.*]]:7 = scf.for {{.*}} step %c32_i32 iter_args(%[[AHEAD:.*]] = %[[LANES]], {{.*}}, %[[OF_FIRST:[a-z0-9]+]] = %[[FIRST]])
// CHECK: %[[LATER:.*]] = memref.load
// CHECK: scf.for {{.*}} step %c2_i32 iter_args(%[[FACTOR:[a-z0-9]+]] = %{{.*}}, %[[FURTHER:[a-z0-9]+]] = %{{.*}}, %[[STAGE:[a-z0-9]+]] = %{{.*}}, %[[NEXT_STAGE:[a-z0-9]+]] = %{{.*}}, %{{.*}}, %[[NOW:[a-z0-9]+]] = %[[OF_FIRST]])
// CHECK: scf.if
// CHECK: "tile.wait_gemm"()
// CHECK: "tile.release"(%{{.*}}, %[[STAGE]])
// CHECK: "tile.add_products"(%[[FACTOR]], %[[FURTHER]]) {count = 32 : i64, factor_numbers = array<i64: 0, 0, 1, 1, {{.*}}, 1, 1>, first_product = 0 : i64, first_sum = 96 : i64}
// CHECK: "tile.await"(%{{.*}}, %[[NEXT_STAGE]],
// CHECK: else
// CHECK-NEXT: "tile.await"(%{{.*}}, %[[NEXT_STAGE]],
// CHECK: "tile.load_row"
// CHECK: arith.mulf %{{.*}}, %[[NOW]] : f32
// CHECK: "tile.gemm_async"
// CHECK: "tile.wait_gemm"()
// CHECK: "tile.add_products"({{.*}}) {{{.*}}, first_product = 0 : i64, first_sum = 64 : i64}
// CHECK: "tile.gemm_async"
// CHECK: "tile.advance"
// CHECK: nvvm.shfl.sync idx %{{.*}}, %[[AHEAD]],
// CHECK: scf.if
// CHECK: "tile.wait_gemm"()
// CHECK: "tile.release"(%{{.*}}, %[[NEXT_STAGE]])
// CHECK: "tile.add_products"({{.*}}) {{{.*}}, first_product = 0 : i64, first_sum = 96 : i64}
// CHECK: "tile.await"
// CHECK: %[[TOLD:.*]] = nvvm.shfl.sync idx %{{.*}}, %[[AHEAD]],
// CHECK: scf.yield {{.*}}, %[[TOLD]] :
// CHECK: else
// CHECK-NOT: "tile.await"
// CHECK: scf.yield %[[LATER]],
// CHECK: "tile.wait_gemm"()
// CHECK: "tile.release"(%{{.*}}, %[[LEFT]]#3)
// CHECK: "tile.add_products"(%[[LEFT]]#1, %[[LEFT]]#2)
// CHECK: "tile.read_sums"() {first_sum = 64 : i64, rounds = true}
// CHECK: "tile.role"
// CHECK: "tile.expect"{{.*}}bytes = 41984
// CHECK-COUNT-3: "tile.copy_async"
#schedule = {block = array<i64: 256, 64, 128>, warpgroups = 2, stages = 3}
func.func @scaled(%a: memref<?x?xf8E4M3FN>, %b: memref<?x?xf8E4M3FN>, %d: memref<?x?xbf16>,
                  %scale_a: memref<?x?xf32>, %scale_b: memref<?x?xf32>) {
  "tile.matmul"(%a, %b, %d, %scale_a, %scale_b) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, schedule = #schedule} : (memref<?x?xf8E4M3FN>, memref<?x?xf8E4M3FN>, memref<?x?xbf16>, memref<?x?xf32>, memref<?x?xf32>) -> ()
  return
}

// With one part a block is awaited where its products begin, the last one too.
// CHECK-LABEL: gpu.func @one_part
// CHECK: "tile.role"
// CHECK: memref.load
// CHECK-NOT: "tile.await"
// CHECK: scf.for {{.*}} step %c32_i32
// CHECK: scf.for
// CHECK-NEXT: "tile.await"
// CHECK: "tile.gemm_async"
// CHECK: "tile.release"
// CHECK-NOT: "tile.await"
// CHECK: scf.yield
// CHECK: scf.yield
// CHECK-NOT: "tile.gemm_async"
// CHECK: "tile.role"
#one_part = {block = array<i64: 128, 192, 128>, warpgroups = 2, stages = 3}
func.func @one_part(%a: memref<?x?xf8E4M3FN>, %b: memref<?x?xf8E4M3FN>, %d: memref<?x?xbf16>,
                    %scale_a: memref<?x?xf32>, %scale_b: memref<?x?xf32>) {
  "tile.matmul"(%a, %b, %d, %scale_a, %scale_b) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, schedule = #one_part} : (memref<?x?xf8E4M3FN>, memref<?x?xf8E4M3FN>, memref<?x?xbf16>, memref<?x?xf32>, memref<?x?xf32>) -> ()
  return
}

// Of 64 rows two products fit beside the sums: a K block is added up while the next one's products are in flight, and
// its stage released then. An iteration takes two K blocks, so that each has registers of its own.
// CHECK-LABEL: gpu.func @in_flight
// CHECK: "tile.role"
// CHECK: "tile.await"
// CHECK: "tile.gemm_async"({{.*}}) {first_sum = 0 : i64,
// CHECK: scf.for {{.*}} step %c2_i32 iter_args(%[[NEXT_STAGE:.*]] = %{{.*}}, %{{.*}} = %{{.*}}, %[[STAGE:.*]] = %{{.*}}, %[[OF_B:.*]] = %{{.*}})
// CHECK: "tile.await"({{.*}}, %[[NEXT_STAGE]], %{{.*}})
// CHECK: "tile.gemm_async"({{.*}}) {first_sum = 32 : i64,
// CHECK: %[[FACTOR:.*]] = arith.mulf %{{.*}}, %[[OF_B]] : f32
// CHECK: "tile.wait_gemm"() {pending = 1
// CHECK: "tile.release"(%{{.*}}, %[[STAGE]])
// CHECK: "tile.add_products"(%[[FACTOR]], %{{.*}}) {{{.*}}, first_product = 0 : i64, first_sum = 64 : i64}
// CHECK: "tile.await"
// CHECK: "tile.gemm_async"({{.*}}) {first_sum = 0 : i64,
// CHECK: "tile.wait_gemm"() {pending = 1
// CHECK: "tile.release"(%{{.*}}, %[[NEXT_STAGE]])
// CHECK: "tile.add_products"({{.*}}) {{{.*}}, first_product = 32 : i64, first_sum = 64 : i64}
// CHECK: scf.yield
// CHECK: scf.if
// CHECK: "tile.gemm_async"({{.*}}) {first_sum = 32 : i64,
// CHECK: "tile.wait_gemm"() {pending = 1
// CHECK: "tile.add_products"({{.*}}) {{{.*}}, first_product = 0 : i64,
// CHECK: "tile.wait_gemm"() :
// CHECK: "tile.add_products"({{.*}}) {{{.*}}, first_product = 32 : i64,
// CHECK: } else {
// CHECK-NOT: "tile.gemm_async"
// CHECK: "tile.wait_gemm"() :
// CHECK: "tile.add_products"({{.*}}) {{{.*}}, first_product = 0 : i64,
#beside = {block = array<i64: 64, 64, 128>, warpgroups = 1, stages = 6}
func.func @in_flight(%a: memref<?x?xf8E4M3FN>, %b: memref<?x?xf8E4M3FN>, %d: memref<?x?xbf16>,
                     %scale_a: memref<?x?xf32>, %scale_b: memref<?x?xf32>) {
  "tile.matmul"(%a, %b, %d, %scale_a, %scale_b) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, schedule = #beside} : (memref<?x?xf8E4M3FN>, memref<?x?xf8E4M3FN>, memref<?x?xbf16>, memref<?x?xf32>, memref<?x?xf32>) -> ()
  return
}
