// RUN: weft-opt %s --mlir-print-local-scope --expand-matmul --canonicalize --cse | FileCheck %s

gpu.module @m {
  // Two stages of each operand; a block is in flight while another is multiplied. Columns of B lie in memory as
  // lanes shall have them: four of a row of D in each.
  // CHECK-LABEL: gpu.func @transposed
  // CHECK-DAG: "tile.alloc"() : () -> !tile.buffer<array<i64: 2, 32, 32>, f16, #tile.layout<"S[(2,32,32):(1024,32,1)] xor 64B">, "shared">
  // CHECK-DAG: "tile.alloc"() : () -> !tile.buffer<array<i64: 2, 16, 32>, f16, #tile.layout<"S[(2,1,4,2,2,32):(512,512,64,256,32,1)] xor 64B">, "shared">
  // CHECK-DAG: "tile.alloc"(%{{.*}} -> !tile.buffer<array<i64: 2, 16, 32>, f16, #tile.layout<"S[(2,16,32):(512,32,1)] xor 64B">, "shared">
  // CHECK: scf.if
  // CHECK-COUNT-2: "tile.copy_async"{{.*}} {rows = "any", vector_bytes = 16 : i64}
  // CHECK: nvvm.cp.async.commit.group
  // CHECK: nvvm.cp.async.wait.group 0
  // CHECK-NEXT: gpu.barrier
  // CHECK: "tile.load"
  // CHECK-SAME: tensor<16x16xf16
  // CHECK: "tile.load"
  // CHECK-SAME: {transpose = true}
  // CHECK-SAME: tensor<16x16xf16
  // The blocks during which whole blocks are copied.
  // CHECK: scf.for
  // CHECK-COUNT-2: "tile.copy_async"{{.*}} {columns = "inside", rows = "any", vector_bytes = 16 : i64}
  // CHECK-NEXT: nvvm.cp.async.commit.group
  // CHECK-COUNT-2: "tile.load"
  // CHECK: "tile.gemm"
  // CHECK-SAME: {beta = 1.000000e+00 : f32}
  // CHECK: nvvm.cp.async.wait.group 0
  // CHECK-NEXT: gpu.barrier
  // CHECK-COUNT-2: "tile.load"
  // CHECK: "tile.gemm"
  // CHECK-NOT: "tile.gemm"
  // CHECK: scf.yield
  // The last ones.
  // CHECK: scf.for
  // CHECK: scf.if
  // CHECK: "tile.copy_async"{{.*}} {rows = "any", vector_bytes = 16 : i64}
  // CHECK: nvvm.cp.async.commit.group
  // CHECK-COUNT-2: "tile.gemm"
  // CHECK-NOT: "tile.gemm"
  // CHECK: scf.yield
  // CHECK: "tile.store"
  // CHECK-SAME: {vector_bytes = 16 : i64}
  // Rows that aren't aligned: the same product with one stage, between barriers.
  // CHECK: } else {
  // CHECK: scf.for
  // CHECK: gpu.barrier
  // CHECK-COUNT-2: "tile.copy"
  // CHECK: gpu.barrier
  // CHECK-COUNT-2: "tile.gemm"
  // CHECK: "tile.store"
  // CHECK-NOT: vector_bytes
  // CHECK: gpu.return
  gpu.func @transposed(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>} {
    "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true,
      schedule = {block = array<i64: 32, 16, 32>, warps = array<i64: 2, 1>, stages = 2}}
      : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
    gpu.return
  }

  // Columns that 64 don't divide lie in panels of 32, or of 16.
  // CHECK-LABEL: gpu.func @narrow
  // CHECK: "tile.alloc"
  // CHECK-DAG: #tile.layout<"S[(2,32,3,32):(3072,32,1024,1)] xor 64B">, "shared">
  gpu.func @narrow(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 16, 96, 32>, warps = array<i64: 1, 1>, stages = 2}}
      : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
    gpu.return
  }

  // An N-major B is stored in panels of 64 columns; three stages leave one group of copies in flight.
  // CHECK-LABEL: gpu.func @plain
  // CHECK-DAG: #tile.layout<"S[(3,64,64):(4096,64,1)] xor 128B">, "shared">
  // CHECK-DAG: #tile.layout<"S[(3,64,2,64):(8192,64,4096,1)] xor 128B">, "shared">
  // CHECK-COUNT-4: "tile.copy_async"
  // CHECK: scf.for
  // CHECK: nvvm.cp.async.wait.group 1
  // CHECK: "tile.load"
  // CHECK-NOT: transpose
  // CHECK: gpu.return
  gpu.func @plain(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 64, 128, 64>, warps = array<i64: 2, 2>, stages = 3}}
      : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
    gpu.return
  }

  // D = alpha A B + beta C, in f32 up to the last rounding.
  // CHECK-LABEL: gpu.func @epilogue
  // CHECK-DAG: %[[ALPHA:.*]] = arith.constant dense<5.000000e-01> : vector<8xf32>
  // CHECK-DAG: %[[BETA:.*]] = arith.constant dense<2.000000e+00> : vector<8xf32>
  // CHECK: scf.if
  // CHECK: %[[AB:.*]] = "tile.to_lane"
  // CHECK: "tile.load"
  // CHECK-SAME: {vector_bytes = 4 : i64} : (memref<?x?xbf16>, i32, i32)
  // CHECK: %[[C:.*]] = arith.extf
  // CHECK: %[[SCALED:.*]] = arith.mulf %[[AB]], %[[ALPHA]]
  // CHECK: %[[TERM:.*]] = arith.mulf %[[C]], %[[BETA]]
  // CHECK: %[[SUM:.*]] = arith.addf %[[SCALED]], %[[TERM]]
  // CHECK: arith.truncf %[[SUM]] : vector<8xf32> to vector<8xf16>
  // CHECK: "tile.store"
  // CHECK-SAME: {vector_bytes = 4 : i64}
  gpu.func @epilogue(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf16>, %c: memref<?x?xbf16>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.matmul"(%a, %b, %d, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, alpha = 0.5 : f32, beta = 2.0 : f32,
      schedule = {block = array<i64: 16, 16, 64>, warps = array<i64: 1, 1>, stages = 2}}
      : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf16>, memref<?x?xbf16>) -> ()
    gpu.return
  }

  // alpha 1 multiplies nothing, beta 1 adds C as it is.
  // CHECK-LABEL: gpu.func @plain_sum
  // CHECK-NOT: arith.mulf
  // CHECK: arith.addf
  // CHECK-NOT: arith.mulf
  // CHECK: gpu.return
  gpu.func @plain_sum(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %c: memref<?x?xf32>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.matmul"(%a, %b, %d, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, beta = 1.0 : f32,
      schedule = {block = array<i64: 16, 16, 64>, warps = array<i64: 1, 1>, stages = 2}}
      : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, memref<?x?xf32>) -> ()
    gpu.return
  }
}

gpu.module @warpgroups {
  // Two warpgroups multiply, and of one a thread copies. A stage holds 128 rows of A and 64 of B, 24576 bytes, which two maps bring.
  // CHECK-LABEL: gpu.func @copies
  // CHECK: %[[A:.*]] = "tile.alloc"() : () -> !tile.buffer<array<i64: 3, 128, 64>, bf16,
  // CHECK: %[[FROM_A:.*]] = "tile.tensor_map"(%{{.*}}) : (memref<?x?xbf16>) -> !tile.map<array<i64: 128, 64>, bf16,
  // CHECK: %[[B:.*]] = "tile.alloc"() : () -> !tile.buffer<array<i64: 3, 64, 64>, bf16,
  // CHECK: %[[FROM_B:.*]] = "tile.tensor_map"(%{{.*}}) : (memref<?x?xbf16>) -> !tile.map<array<i64: 64, 64>, bf16,
  // CHECK: %[[RING:.*]] = "tile.make_ring"() {consumers = 2 : i64} : () -> !tile.ring<3 : i64>
  // CHECK: gpu.barrier
  // CHECK: "tile.role"
  // CHECK: }) {first = 1 : i64{{.*}}warpgroups = 2 : i64}
  // CHECK: "tile.role"
  // CHECK: nvvm.elect.sync
  // CHECK: scf.if
  // CHECK: "tile.acquire"(%[[RING]], %[[STAGE:[a-z0-9]+]], %[[PHASE:[a-z0-9]+]])
  // CHECK: "tile.expect"(%[[RING]], %[[STAGE]]) {bytes = 24576 : i64}
  // CHECK: %[[FULL:.*]] = "tile.full_barrier"(%[[RING]], %[[STAGE]])
  // CHECK: "tile.copy_async"(%[[FROM_A]], {{.*}}, %[[FULL]]) :
  // CHECK: "tile.copy_async"(%[[FROM_B]], {{.*}}, %[[FULL]]) :
  // CHECK: "tile.advance"(%[[RING]], %[[STAGE]], %[[PHASE]])
  // CHECK: }) {first = 0 : i64{{.*}}warpgroups = 1 : i64}
  // CHECK: gpu.return
  gpu.func @copies(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>) kernel
      attributes {known_block_size = array<i32: 384, 1, 1>} {
    "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true,
      schedule = {block = array<i64: 128, 64, 64>, warpgroups = 2, stages = 3}}
      : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
    gpu.return
  }

  // A warpgroup multiplies its 64 rows of a stage, and says when it has read it. The first block of K begins the sums,
  // the others add to them; f32 goes to D from registers.
  // CHECK-LABEL: gpu.func @multiplies
  // CHECK: "tile.role"
  // CHECK: scf.for
  // CHECK-COUNT-2: nvvm.shfl.sync
  // CHECK: %[[COUNT:.*]] = arith.maxsi %{{.*}}, %c1_i32
  // CHECK: scf.for %[[BLOCK:[a-z0-9]+]] = %c0_i32 to %[[COUNT]]
  // CHECK: %[[ADDS:.*]] = arith.cmpi sgt, %[[BLOCK]], %c0_i32
  // CHECK: "tile.await"
  // CHECK: "tile.slice"
  // CHECK-SAME: -> !tile.buffer<array<i64: 64, 64>, bf16,
  // CHECK: "tile.gemm_async"({{.*}}, %[[ADDS]])
  // CHECK-SAME: {first_sum = 0 : i64, operandSegmentSizes = {{.*}}, transpose_b = true}
  // CHECK-SAME: -> tensor<64x64xf32,
  // CHECK-NOT: "tile.gemm_async"
  // CHECK: "tile.wait_gemm"() : () -> ()
  // CHECK: "tile.release"
  // CHECK: "tile.advance"
  // CHECK: "tile.wait_gemm"() : () -> ()
  // CHECK: "tile.read_sums"() {first_sum = 0 : i64}
  // CHECK: "tile.store"
  // CHECK-SAME: {vector_bytes = 8 : i64} : (tensor<64x64xf32, {{.*}}memref<?x?xf32>, i32, i32)
  // CHECK-NOT: "tile.store_async"
  // CHECK: {first = 1 : i64
  // CHECK: gpu.return
  gpu.func @multiplies(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>) kernel
      attributes {known_block_size = array<i32: 384, 1, 1>} {
    "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true,
      schedule = {block = array<i64: 128, 64, 64>, warpgroups = 2, stages = 3}}
      : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
    gpu.return
  }

  // One that multiplies alone leaves a block's products under way while it starts the next, and releases stages late.
  // CHECK-LABEL: gpu.func @multiplies_alone
  // CHECK: %[[LATER:.*]] = arith.cmpi sgt
  // CHECK: "tile.gemm_async"({{.*}}, %[[LATER]])
  // CHECK: "tile.wait_gemm"() {pending = 1 : i64}
  // CHECK: scf.if %[[LATER]]
  // CHECK-NEXT: "tile.release"
  // CHECK-NEXT: }
  // CHECK: "tile.wait_gemm"() :
  // CHECK: "tile.release"
  // CHECK: "tile.read_sums"() {first_sum = 0 : i64}
  // CHECK: "tile.store"
  gpu.func @multiplies_alone(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true,
      schedule = {block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 3}}
      : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
    gpu.return
  }

  // Elements of 16 bits go to D through shared memory: when the last store has read it, and as the async proxy sees it.
  // CHECK-LABEL: gpu.func @staged
  // CHECK: "tile.tensor_map"
  // CHECK: "tile.tensor_map"
  // CHECK: %[[TO_D:.*]] = "tile.tensor_map"(%{{.*}}) {any_rows = true} : (memref<?x?xf16>) -> !tile.map<array<i64: 64, 64>, f16,
  // CHECK: "tile.role"
  // CHECK: "tile.load"
  // CHECK-SAME: {vector_bytes = 8 : i64} : (memref<?x?xf32>, i32, i32)
  // CHECK: arith.mulf
  // CHECK: arith.addf
  // CHECK: arith.truncf
  // CHECK: nvvm.cp.async.bulk.wait_group 0 {read}
  // CHECK: nvvm.barrier id
  // CHECK: "tile.store"
  // CHECK-SAME: !tile.buffer<array<i64: 64, 64>, f16,
  // CHECK: nvvm.fence.proxy
  // CHECK: nvvm.barrier id
  // CHECK: scf.if
  // CHECK: "tile.copy_out"
  // CHECK: "tile.store_async"(%{{.*}}, %[[TO_D]],
  // CHECK: nvvm.cp.async.bulk.commit.group
  // CHECK: nvvm.cp.async.bulk.wait_group 0
  gpu.func @staged(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf16>, %c: memref<?x?xf32>) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    "tile.matmul"(%a, %b, %d, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, alpha = 0.5 : f32, beta = 1.0 : f32,
      schedule = {block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 3}}
      : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
    gpu.return
  }

  // An MN-major stage has rows of K, with M or N in panels of 64, of which the last may have columns that D lacks. A
  // warpgroup's share of A is some of the columns.
  // CHECK-LABEL: gpu.func @mn_major
  // CHECK: !tile.buffer<array<i64: 2, 32, 128>, f16, #tile.layout<"S[(2,32,2,64):(4096,64,2048,1)] xor 128B">, "shared">
  // CHECK: !tile.map<array<i64: 32, 128>, f16,
  // CHECK: !tile.buffer<array<i64: 2, 32, 128>, f16, #tile.layout<"S[(2,32,2,64):(4096,64,2048,1)] xor 128B">, "shared">
  // CHECK: !tile.map<array<i64: 32, 128>, f16,
  // CHECK: "tile.slice"
  // CHECK-SAME: -> !tile.buffer<array<i64: 32, 64>, f16,
  // CHECK: "tile.gemm_async"
  // CHECK-SAME: {first_sum = 0 : i64, operandSegmentSizes = {{.*}}, transpose_a = true} :
  gpu.func @mn_major(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) kernel
      attributes {known_block_size = array<i32: 384, 1, 1>} {
    "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_a = true, schedule = {block = array<i64: 128, 96, 32>, warpgroups = 2, stages = 2}}
      : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
    gpu.return
  }

  // Swapped: B's columns are the rows of a block, A's rows its columns, and the sums are stored transposed.
  // CHECK-LABEL: gpu.func @swapped
  // CHECK-SAME: (%[[A:[a-z0-9]+]]: memref<8x?xf16>, %[[B:[a-z0-9]+]]: memref<?x?xf16>,
  // CHECK: "tile.tensor_map"(%[[B]]) : (memref<?x?xf16>) -> !tile.map<array<i64: 64, 64>, f16,
  // CHECK: "tile.tensor_map"(%[[A]]) : (memref<8x?xf16>) -> !tile.map<array<i64: 8, 64>, f16,
  // CHECK: "tile.gemm_async"
  // CHECK-SAME: {first_sum = 0 : i64, operandSegmentSizes = {{.*}}, transpose_b = true}
  // CHECK-SAME: -> tensor<64x8xf32,
  // CHECK: "tile.from_lane"
  // CHECK-SAME: -> tensor<8x64xf32, #tile.layout<"S[(4,2,4,2,8):(1@laneid,1,1@warpid,2,4@laneid)]">>
  // CHECK: "tile.store"
  // CHECK-NOT: vector_bytes
  // CHECK: gpu.return
  gpu.func @swapped(%a: memref<8x?xf16>, %b: memref<?x?xf16>, %d: memref<8x?xf32>) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, schedule = {block = array<i64: 64, 8, 64>, warpgroups = 1, stages = 2, swap = true}}
      : (memref<8x?xf16>, memref<?x?xf16>, memref<8x?xf32>) -> ()
    gpu.return
  }

  // Two CTAs share a block: each puts its sums over the stages, where the other finds them, and adds up half of the rows,
  // four neighboring columns a lane at once.
  // CHECK-LABEL: gpu.func @splits
  // CHECK: %[[STAGES:.*]] = "tile.alloc"() : () -> !tile.buffer<array<i64: 2, 64, 64>, bf16,
  // CHECK: "tile.alloc"(%[[STAGES]]) : {{.*}} -> !tile.buffer<array<i64: 64, 64>, f32, #tile.layout<"S[(64,64):(72,1)]">, "shared">
  // CHECK: "tile.role"
  // CHECK: nvvm.barrier id = %{{.*}} number_of_threads = %{{.*}}
  // CHECK: "tile.store"
  // CHECK-SAME: {vector_bytes = 8 : i64} : (tensor<64x64xf32, {{.*}}, !tile.buffer<array<i64: 64, 64>, f32,
  // CHECK: nvvm.cluster.arrive
  // CHECK: nvvm.cluster.wait
  // CHECK: "tile.peer"
  // CHECK: "tile.load"
  // CHECK-SAME: {vector_bytes = 16 : i64}
  // CHECK-SAME: tensor<32x64xf32, #tile.layout<"S[(4,4,2,1,16,4):(4,1@warpid,16@laneid,4,1@laneid,1)]">>
  // CHECK: "tile.peer"
  // CHECK: "tile.load"
  // CHECK: arith.addf
  // CHECK-NOT: "tile.peer"
  // CHECK: nvvm.cluster.arrive
  // CHECK: "tile.store"
  // CHECK-SAME: {vector_bytes = 8 : i64}
  // CHECK-SAME: memref<?x?xbf16>
  // CHECK: "tile.role"
  // CHECK: nvvm.cluster.arrive
  // CHECK: nvvm.cluster.wait
  // CHECK: nvvm.cluster.arrive
  // CHECK: nvvm.cluster.wait
  // CHECK-NEXT: gpu.return
  gpu.func @splits(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xbf16>) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, schedule = {block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 2, splits = 2}}
      : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>) -> ()
    gpu.return
  }

  // Each CTA goes through parts of tiles. Tile and part follow from one number: of as many tiles as the launch has CTAs for, one
  // part of all comes before the next. A part's sums go to memory that the launch gives, and what the warp claims of the whole
  // is added up, part after part, and written. L2 gives up A and B first, not these sums; counters lie in sectors of their own
  // there. Parts take turns at blocks of K, so that of two, every other block is a part's: unless rows begin inside lines of L2.
  // CHECK-LABEL: gpu.func @global_splits
  // CHECK-SAME: %[[SUMS:[a-z0-9]+]]: memref<?x128xvector<4xf32>>, %[[COUNTERS:[a-z0-9]+]]: memref<?xi32>)
  // CHECK: %[[FROM_A:.*]] = "tile.tensor_map"(%{{.*}}) {l2_eviction = "evict_first", l2_promotion = "128B"}
  // CHECK: %[[FROM_B:.*]] = "tile.tensor_map"(%{{.*}}) {l2_eviction = "evict_first", l2_promotion = "128B"}
  // CHECK: "tile.gemm_async"
  // CHECK-COUNT-8: memref.store %{{.*}}, %[[SUMS]]
  // CHECK: %[[COUNTER:.*]] = arith.muli %{{.*}}, %c8_i32
  // CHECK: %[[SHARES:.*]] = "tile.claim"(%[[COUNTERS]], %[[COUNTER]],
  // CHECK-SAME: {shares = 2 : i64}
  // CHECK: arith.shrui %[[SHARES]]
  // CHECK: scf.if
  // CHECK-COUNT-8: memref.load %[[SUMS]]
  // CHECK: arith.addf
  // CHECK: "tile.store"
  // CHECK-SAME: memref<?x?xbf16>
  // CHECK: "tile.role"
  // CHECK: %[[FIT:.*]] = arith.divui %{{.*}}, %c2_i32 : i32
  // CHECK: %[[TOGETHER:.*]] = arith.maxsi %[[FIT]], %c1_i32 : i32
  // CHECK: %[[WAVE:.*]] = arith.muli %[[TOGETHER]], %c2_i32 : i32
  // CHECK: scf.for %[[NUMBER:[a-z0-9]+]] =
  // CHECK: %[[RUNS:.*]] = arith.divui %[[NUMBER]], %[[WAVE]] : i32
  // CHECK: %[[BEFORE:.*]] = arith.muli %[[RUNS]], %[[TOGETHER]] : i32
  // CHECK: %[[INSIDE:.*]] = arith.remui %[[NUMBER]], %[[WAVE]] : i32
  // CHECK: %[[LEFT:.*]] = arith.subi %{{.*}}, %[[BEFORE]] : i32
  // CHECK: %[[TILES:.*]] = arith.minsi %[[LEFT]], %[[TOGETHER]] : i32
  // CHECK: %[[PART:.*]] = arith.divui %[[INSIDE]], %[[TILES]] : i32
  // CHECK: arith.remui %[[INSIDE]], %[[TILES]] : i32
  // CHECK: %[[FIRST:.*]] = arith.select %[[INSIDE_LINES:[^,]*]], %{{.*}}, %[[PART]] : i32
  // CHECK: %[[APART:.*]] = arith.select %[[INSIDE_LINES]], %c1_i32, %c2_i32 : i32
  // CHECK: %[[K:.*]] = arith.muli %[[FIRST]], %c64_i32 : i32
  // CHECK: "tile.copy_async"(%[[FROM_A]], %{{.*}}, %[[K]],
  // CHECK: scf.for %[[TURN:[a-z0-9]+]] = %c1_i32 to
  // CHECK: %[[BEFORE:.*]] = arith.muli %[[TURN]], %[[APART]] : i32
  // CHECK: %[[BLOCK:.*]] = arith.addi %[[BEFORE]], %[[FIRST]] : i32
  // CHECK: %[[K:.*]] = arith.muli %[[BLOCK]], %c64_i32 : i32
  // CHECK: "tile.copy_async"(%[[FROM_A]], %{{.*}}, %[[K]],
  // CHECK: "tile.copy_async"(%[[FROM_B]], %{{.*}}, %[[K]],
  gpu.func @global_splits(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xbf16>, %s: memref<?x128xvector<4xf32>>, %c: memref<?xi32>) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>, weft.workspace = array<i64: 8, 32>} {
    "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, schedule = {block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 2, global_splits = 2}}
      : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>) -> ()
    gpu.return
  }

  // The tiles that fill no whole wave are divided among all CTAs, and come first. Of a part the sums go to memory, but for a
  // first part's whose others are there; who claims the tile adds them up, part after part. A whole tile is stored by TMA.
  // CHECK-LABEL: gpu.func @stream_k
  // CHECK-SAME: %[[SUMS:[a-z0-9]+]]: memref<?x128xvector<4xf32>>, %[[COUNTERS:[a-z0-9]+]]: memref<?xi32>)
  // CHECK: %[[BLOCKS:.*]] = arith.divui
  // CHECK: %[[GRID:.*]] = gpu.grid_dim x
  // CHECK: %[[CTAS:.*]] = arith.index_cast %[[GRID]]
  // CHECK: %[[REST:.*]] = arith.remui %[[TILES:.*]], %[[CTAS]]
  // CHECK: %[[WHOLE:.*]] = arith.divui %[[TILES]], %[[CTAS]]
  // CHECK: "tile.gemm_async"
  // CHECK: %[[PART:.*]] = arith.cmpi slt, %{{.*}}, %[[BLOCKS]]
  // CHECK: scf.if %[[PART]] {
  // CHECK: %[[KEPT:.*]] = scf.if
  // CHECK: "tile.await_others"(%[[COUNTERS]],
  // CHECK-COUNT-8: memref.store %{{.*}}, %[[SUMS]]
  // CHECK: "tile.claim"(%[[COUNTERS]],
  // CHECK-SAME: {shares = 1 : i64}
  // CHECK: scf.if %[[KEPT]]
  // CHECK: memref.load %[[SUMS]]
  // CHECK: scf.for
  // CHECK: arith.addf
  // CHECK: "tile.store"
  // CHECK-SAME: memref<?x?xbf16>
  // CHECK: } else {
  // CHECK: "tile.store_async"
  gpu.func @stream_k(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xbf16>, %s: memref<?x128xvector<4xf32>>, %c: memref<?xi32>) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>, weft.cta_workspace = array<i64: 16, 32>} {
    "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, schedule = {block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 2, stream_k = true}}
      : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>) -> ()
    gpu.return
  }

  // Each role waits for what was queued before: who multiplies at once, who copies when all is ready for the first copy.
  // CHECK-LABEL: gpu.func @queued
  // CHECK: "tile.make_ring"
  // CHECK-NOT: nvvm.griddepcontrol
  // CHECK: gpu.barrier
  // CHECK: "tile.role"
  // CHECK: nvvm.griddepcontrol wait
  // CHECK-NEXT: nvvm.griddepcontrol launch_dependents
  // CHECK: "tile.gemm_async"
  // CHECK: "tile.role"
  // CHECK: scf.for
  // CHECK: "tile.expect"
  // CHECK: nvvm.griddepcontrol wait
  // CHECK: "tile.copy_async"
  // CHECK: "tile.copy_async"
  // CHECK: scf.for
  // CHECK-NOT: nvvm.griddepcontrol
  gpu.func @queued(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf16>) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, schedule = {block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 2}}
      : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf16>) -> ()
    gpu.return
  }

  // Rows of 256 bytes come in two panels at about the same time: L2 need not read the second for the first.
  // CHECK-LABEL: gpu.func @two_panels
  // CHECK: "tile.tensor_map"(%{{.*}}) {l2_promotion = "128B"} : (memref<?x?xf16>) -> !tile.map<array<i64: 64, 128>,
  // CHECK: "tile.tensor_map"(%{{.*}}) {l2_promotion = "128B"} : (memref<?x?xf16>) -> !tile.map<array<i64: 32, 128>,
  gpu.func @two_panels(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf16>) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, schedule = {block = array<i64: 64, 32, 128>, warpgroups = 1, stages = 2}}
      : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf16>) -> ()
    gpu.return
  }

  // A cluster of two rows of blocks: B's columns are the same, each CTA copies half of them for both, and a stage is empty
  // when the warpgroups of both say so, with a thread for each CTA. A CTA ends once the other one has released its stages. B is N-major: the other CTA copies
  // the rest of a row.
  // CHECK-LABEL: gpu.func @cluster
  // CHECK: %[[FROM_A:.*]] = "tile.tensor_map"(%{{.*}}) : (memref<?x?xf16>) -> !tile.map<array<i64: 128, 64>, f16,
  // CHECK: %[[FROM_B:.*]] = "tile.tensor_map"(%{{.*}}) {l2_promotion = "128B"} : (memref<?x?xf16>) -> !tile.map<array<i64: 64, 64>, f16,
  // CHECK: "tile.make_ring"() {consumers = 4 : i64, emptied_by = "threads", lanes_read = false}
  // CHECK: nvvm.cluster.arrive.relaxed
  // CHECK: nvvm.cluster.wait
  // CHECK: "tile.gemm_async"
  // CHECK-NOT: "tile.release"(
  // CHECK: %[[CTAS:.*]] = arith.cmpi slt, %{{.*}}, %c2_i32 : i32
  // CHECK: scf.if %[[CTAS]]
  // CHECK: "tile.release_peer"
  // CHECK-NOT: "tile.release"(
  // CHECK: "tile.expect"
  // CHECK-SAME: {bytes = 32768 : i64}
  // CHECK: "tile.copy_async"(%[[FROM_A]],
  // CHECK: "tile.slice"
  // CHECK-SAME: -> !tile.buffer<array<i64: 64, 64>, f16,
  // CHECK: "tile.copy_multicast"(%[[FROM_B]],
  // CHECK: "tile.drain"
  // CHECK-NOT: nvvm.cluster
  // CHECK: gpu.return
  gpu.func @cluster(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) kernel
      attributes {known_block_size = array<i32: 384, 1, 1>} {
    "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 64>, warpgroups = 2, stages = 3, cluster = array<i64: 2, 1>}}
      : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
    gpu.return
  }

  // CTAs are counted down the cluster's columns: those of a row get A, every second one, those of a column B.
  // CHECK-LABEL: gpu.func @two_by_two
  // CHECK: %[[IN_ROW:.*]] = arith.shli %c5_i32, %{{.*}} : i32
  // CHECK: %[[ROW:.*]] = arith.trunci %[[IN_ROW]] : i32 to i16
  // CHECK: %[[IN_COLUMN:.*]] = arith.shli %c3_i32, %{{.*}} : i32
  // CHECK: %[[COLUMN:.*]] = arith.trunci %[[IN_COLUMN]] : i32 to i16
  // CHECK: "tile.copy_multicast"(%{{.*}}, %[[ROW]]) :
  // CHECK: "tile.copy_multicast"(%{{.*}}, %[[COLUMN]]) :
  gpu.func @two_by_two(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, schedule = {block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 3, cluster = array<i64: 2, 2>}}
      : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
    gpu.return
  }

  // Other inputs: blocks of K are bytes, and integers add up to integers.
  // CHECK-LABEL: gpu.func @integers
  // CHECK: !tile.map<array<i64: 64, 128>, i8, #tile.layout<"S[(64,128):(128,1)] xor 128B">>
  // CHECK: "tile.gemm_async"
  // CHECK-SAME: -> tensor<64x32xi32,
  // CHECK: "tile.store"
  // CHECK-SAME: {vector_bytes = 8 : i64} : (tensor<64x32xi32, {{.*}}memref<?x?xi32>
  gpu.func @integers(%a: memref<?x?xi8>, %b: memref<?x?xi8>, %d: memref<?x?xi32>) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, schedule = {block = array<i64: 64, 32, 128>, warpgroups = 1, stages = 2}}
      : (memref<?x?xi8>, memref<?x?xi8>, memref<?x?xi32>) -> ()
    gpu.return
  }

  // CHECK-LABEL: gpu.func @floats
  // CHECK: !tile.map<array<i64: 64, 32>, f32, #tile.layout<"S[(64,32):(32,1)] xor 128B">>
  // CHECK: "tile.gemm_async"
  // CHECK-SAME: -> tensor<64x32xf32,
  gpu.func @floats(%a: memref<?x?xf32>, %b: memref<?x?xf32>, %d: memref<?x?xf32>) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, schedule = {block = array<i64: 64, 32, 32>, warpgroups = 1, stages = 2}}
      : (memref<?x?xf32>, memref<?x?xf32>, memref<?x?xf32>) -> ()
    gpu.return
  }

  // CHECK-LABEL: gpu.func @small_floats
  // CHECK: !tile.map<array<i64: 64, 128>, f8E4M3FN,
  // CHECK: !tile.map<array<i64: 32, 128>, f8E5M2,
  // CHECK: "tile.gemm_async"
  // CHECK-SAME: f8E4M3FN,
  // CHECK-SAME: f8E5M2,
  // CHECK-SAME: -> tensor<64x32xf32,
  gpu.func @small_floats(%a: memref<?x?xf8E4M3FN>, %b: memref<?x?xf8E5M2>, %d: memref<?x?xbf16>) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, schedule = {block = array<i64: 64, 32, 128>, warpgroups = 1, stages = 2}}
      : (memref<?x?xf8E4M3FN>, memref<?x?xf8E5M2>, memref<?x?xbf16>) -> ()
    gpu.return
  }
}
