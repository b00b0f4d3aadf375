// RUN: weft-opt %s --outline-matmul --expand-matmul --canonicalize --cse | FileCheck %s

// Scales of A come with each stage, those of B are read a block ahead. Warpgroups take turns, and what a product's
// instructions have summed is added up, scaled, before the next.
// CHECK-LABEL: gpu.func @scaled
// CHECK: %[[SCALES:.*]] = "tile.alloc"() : () -> !tile.buffer<array<i64: 3, 1, 128>, f32
// CHECK: "tile.tensor_map"(%{{.*}}) : (memref<?x?xf32>)
// CHECK: "tile.make_ring"() {consumers = 8
// CHECK: "tile.role"
// CHECK: "tile.expect"{{.*}}bytes = 25088
// CHECK-COUNT-3: "tile.copy_async"
// CHECK: "tile.role"
// CHECK: memref.load
// CHECK: "tile.await"
// CHECK: %[[NEXT:.*]] = memref.load
// CHECK: nvvm.barrier id
// CHECK: %[[GROUP:.*]] = "tile.gemm_async"
// CHECK: nvvm.barrier.arrive
// CHECK: "tile.load_row"
// CHECK: %[[DONE:.*]] = "tile.wait_gemm"(%[[GROUP]])
// CHECK: %[[LANE:.*]] = "tile.to_lane"(%[[DONE]])
// CHECK: vector.fma %[[LANE]], %{{.*}}, %{{.*}}
// CHECK: "tile.release"{{.*}}by_warps = true
// CHECK: scf.yield %{{.*}}, %[[NEXT]]
#schedule = {block = array<i64: 128, 64, 128>, warpgroups = 2, stages = 3}
func.func @scaled(%a: memref<?x?xf8E4M3FN>, %b: memref<?x?xf8E4M3FN>, %d: memref<?x?xbf16>,
                  %scale_a: memref<?x?xf32>, %scale_b: memref<?x?xf32>) {
  "tile.matmul"(%a, %b, %d, %scale_a, %scale_b) {transpose_b = true, roles = ["scale_a", "scale_b"],
    schedule = #schedule} : (memref<?x?xf8E4M3FN>, memref<?x?xf8E4M3FN>, memref<?x?xbf16>, memref<?x?xf32>,
                             memref<?x?xf32>) -> ()
  return
}
