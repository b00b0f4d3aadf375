// RUN: weft-opt %s --pipeline-loops --canonicalize --cse --split-input-file | FileCheck %s

// By wgmma: two warpgroups have 64 of 128 rows each. One product is in flight: the stage before is released. The sums are in named
// registers, which are zeros if nothing was multiplied. A matrix of N x K is loaded transposed. The tile is stored through the
// memory of the stages.
gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  // CHECK-LABEL: gpu.func @warpgroups
  // CHECK-SAME: known_block_size = array<i32: 384, 1, 1>, weft.aligned = array<i32: 16, 16, 1, 1, 1, 1>
  // CHECK: %[[A:.*]] = "tile.alloc"() : () -> ![[STAGES_A:.*]]
  // CHECK: %[[B:.*]] = "tile.alloc"() : () -> ![[STAGES_B:.*]]
  // CHECK: %[[STAGING:.*]] = "tile.alloc"(%[[A]])
  // CHECK: %[[MAP_A:.*]] = "tile.tensor_map"(%arg0)
  // CHECK: %[[MAP_B:.*]] = "tile.tensor_map"(%arg1)
  // CHECK: %[[RING:.*]] = "tile.make_ring"() {consumers = 2 : i64} : () -> !{{.*}}
  // CHECK: gpu.barrier
  // CHECK: "tile.role"
  // CHECK: ^bb0(%[[ME:.*]]: i32):
  // CHECK: %[[ROW:.*]] = arith.muli %[[ME]], %c64_i32
  // CHECK: %[[END:.*]]:3 = scf.for %[[K:.*]] = %c0_i32 to %arg3 step %c64_i32 iter_args(%[[S:.*]] = %c0_i32, %[[P:.*]] = %c0_i32, %[[LATE:.*]] = %c0_i32)
  // CHECK: "tile.await"(%[[RING]], %[[S]], %[[P]])
  // CHECK: %[[NEXT:.*]] = arith.cmpi ne, %[[K]], %c0_i32
  // CHECK: %[[WHOLE:.*]] = "tile.stage"(%[[A]], %[[S]])
  // CHECK: %[[X:.*]] = "tile.slice"(%[[WHOLE]], %[[ROW]], %c0_i32)
  // CHECK: %[[Y:.*]] = "tile.stage"(%[[B]], %[[S]])
  // CHECK: "tile.gemm_async"(%[[X]], %[[Y]], %{{.*}}, %[[NEXT]]) {first_sum = 0 {{.*}}transpose_b = true{{.*}} -> tensor<64x128xf32, #tile.layout
  // CHECK: "tile.wait_gemm"() {pending = 1 : i64}
  // CHECK: scf.if %[[NEXT]]
  // CHECK: "tile.release"(%[[RING]], %[[LATE]])
  // CHECK: %[[TO:.*]]:2 = "tile.advance"(%[[RING]], %[[S]], %[[P]])
  // CHECK: scf.yield %[[TO]]#0, %[[TO]]#1, %[[S]]
  // CHECK: "tile.wait_gemm"() : () -> ()
  // CHECK: "tile.release"(%[[RING]], %[[END]]#2)
  // CHECK: "tile.clear_sums"() {count = 64 : i64, first_sum = 0 : i64}
  // CHECK: %[[DONE:.*]] = "tile.read_sums"() {first_sum = 0 : i64}
  // CHECK: %[[H:.*]] = arith.truncf %[[DONE]] : tensor<64x128xf32, {{.*}} to tensor<64x128xbf16
  // CHECK: nvvm.barrier id = %c1_i32 number_of_threads = %c256_i32
  // CHECK: "tile.store"(%[[H]], %[[STAGING]], %[[ROW]], %c0_i32)
  // CHECK: nvvm.barrier
  // CHECK: "tile.copy_out"
  // CHECK: {first = 0 : i64, registers = 240 : i64, warpgroups = 2 : i64}
  // CHECK: "tile.role"
  // CHECK: nvvm.elect.sync
  // CHECK: scf.for %[[K:.*]] = %c0_i32 to %arg3 step %c64_i32 iter_args(%[[S:.*]] = %c0_i32, %[[P:.*]] = %c0_i32)
  // CHECK: "tile.acquire"(%[[RING]], %[[S]], %[[P]])
  // CHECK: "tile.expect"(%[[RING]], %[[S]]) {bytes = 32768 : i64}
  // CHECK: %[[FULL:.*]] = "tile.full_barrier"(%[[RING]], %[[S]])
  // CHECK: "tile.copy_async"(%[[MAP_A]], %arg4, %[[K]], %{{.*}}, %[[FULL]])
  // CHECK: "tile.copy_async"(%[[MAP_B]], %arg5, %[[K]], %{{.*}}, %[[FULL]])
  // CHECK: {first = 2 : i64, registers = 24 : i64, warpgroups = 1 : i64}
  // CHECK-NEXT: gpu.return
  gpu.func @warpgroups(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xbf16>, %n: i32, %row: i32, %col: i32) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %s = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = "tile.load"(%a, %row, %k) : (memref<?x?xbf16>, i32, i32) -> tensor<128x64xbf16>
      %y = "tile.load"(%b, %col, %k) {transpose = true} : (memref<?x?xbf16>, i32, i32) -> tensor<64x128xbf16>
      %t = "tile.gemm"(%x, %y, %acc) {beta = 1.0 : f32} : (tensor<128x64xbf16>, tensor<64x128xbf16>, tensor<128x128xf32>) -> tensor<128x128xf32>
      scf.yield %t : tensor<128x128xf32>
    } {stages = 4 : i64}
    %h = arith.truncf %s : tensor<128x128xf32> to tensor<128x128xbf16>
    "tile.store"(%h, %d, %row, %col) : (tensor<128x128xbf16>, memref<?x?xbf16>, i32, i32) -> ()
    gpu.return
  }

  // The second product multiplies what is computed from the first, and its sums are used after the first product: it starts in the
  // next iteration. The first iteration has none, and the last one is after the loop. Each product has a ring of its own.
  // CHECK-LABEL: gpu.func @late_product
  // CHECK: %[[KEYS:.*]] = "tile.make_ring"
  // CHECK: %[[VALUES:.*]] = "tile.make_ring"
  // CHECK: scf.if
  // CHECK: "tile.await"(%[[KEYS]], %c0_i32, %c0_i32)
  // CHECK: %[[S0:.*]] = "tile.gemm_async"
  // CHECK: "tile.wait_gemm"(%[[S0]]) :
  // CHECK: "tile.release"(%[[KEYS]], %c0_i32)
  // CHECK: scf.for {{.*}} iter_args(%[[A:[a-z0-9]*]] = %{{.*}}, %[[C:[a-z0-9]*]] = %{{.*}}, %[[S:[a-z0-9]*]] = {{.*}}, %{{.*}} = {{.*}}, %[[L:[a-z0-9]*]] = %c0_i32, %[[LP:[a-z0-9]*]] = %c0_i32)
  // CHECK: %[[FIRST:.*]] = "tile.gemm_async"(%{{.*}}, %{{.*}}, %{{.*}}, %false)
  // CHECK: "tile.await"(%[[VALUES]], %[[L]], %[[LP]])
  // CHECK: %[[LATE:.*]] = "tile.gemm_async"(%[[A]], %{{.*}}, %[[C]], %true)
  // CHECK: %[[P:.*]] = "tile.wait_gemm"(%[[FIRST]]) {pending = 1 : i64}
  // CHECK-NEXT: "tile.release"(%[[KEYS]], %[[S]])
  // CHECK: scf.if
  // CHECK-NEXT: "tile.await"(%[[KEYS]]
  // CHECK: %[[DONE:.*]] = "tile.wait_gemm"(%[[LATE]]) :
  // CHECK-NEXT: "tile.release"(%[[VALUES]], %[[L]])
  // CHECK-NEXT: %[[H:.*]] = arith.truncf %[[P]]
  // CHECK-NEXT: %[[TWICE:.*]] = arith.addf %[[DONE]], %[[DONE]]
  // CHECK: scf.yield %[[H]], %[[TWICE]],
  // CHECK: "tile.await"(%[[VALUES]]
  // CHECK: %[[LAST:.*]] = "tile.gemm_async"
  // CHECK: "tile.wait_gemm"(%[[LAST]]) :
  // CHECK: "tile.release"(%[[VALUES]]
  // CHECK: "tile.acquire"(%[[KEYS]]
  // CHECK: "tile.acquire"(%[[VALUES]]
  gpu.func @late_product(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>, %n: i32) kernel {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %x = "tile.load"(%a, %c0, %c0) : (memref<?x?xbf16>, i32, i32) -> tensor<64x64xbf16>
    %s = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %y = "tile.load"(%b, %k, %c0) : (memref<?x?xbf16>, i32, i32) -> tensor<64x64xbf16>
      %z = "tile.load"(%a, %k, %c0) : (memref<?x?xbf16>, i32, i32) -> tensor<64x64xbf16>
      %p = "tile.gemm"(%x, %y) : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
      %h = arith.truncf %p : tensor<64x64xf32> to tensor<64x64xbf16>
      %twice = arith.addf %acc, %acc : tensor<64x64xf32>
      %t = "tile.gemm"(%h, %z, %twice) {beta = 1.0 : f32} : (tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>) -> tensor<64x64xf32>
      scf.yield %t : tensor<64x64xf32>
    }
    "tile.store"(%s, %d, %c0, %c0) : (tensor<64x64xf32>, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }

  // The same with a tile that both products read: each is awaited at once.
  // CHECK-LABEL: gpu.func @shared_tile
  // CHECK: scf.for
  // CHECK: %[[S:.*]] = "tile.gemm_async"
  // CHECK-NEXT: "tile.wait_gemm"(%[[S]])
  // CHECK: %[[D:.*]] = "tile.gemm_async"
  // CHECK-NEXT: "tile.wait_gemm"(%[[D]])
  // CHECK: "tile.release"
  gpu.func @shared_tile(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>, %n: i32) kernel {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %x = "tile.load"(%a, %c0, %c0) : (memref<?x?xbf16>, i32, i32) -> tensor<64x64xbf16>
    %s = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %y = "tile.load"(%b, %k, %c0) : (memref<?x?xbf16>, i32, i32) -> tensor<64x64xbf16>
      %p = "tile.gemm"(%x, %y) : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
      %h = arith.truncf %p : tensor<64x64xf32> to tensor<64x64xbf16>
      %twice = arith.addf %acc, %acc : tensor<64x64xf32>
      %t = "tile.gemm"(%h, %y, %twice) {beta = 1.0 : f32} : (tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>) -> tensor<64x64xf32>
      scf.yield %t : tensor<64x64xf32>
    }
    "tile.store"(%s, %d, %c0, %c0) : (tensor<64x64xf32>, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }
}

// -----

// By mma.sync: each of four warps has 32 x 32 of 64 x 64 sums. Two of three stages are filled before the loop, then one in an
// iteration, for the second one after it: with zeros if there is none. The last product of an iteration comes after the loads for
// the first one of the next. Another loop comes first, while the copied tiles end before
// the last column of A and the last row of B. C is loaded where the sums are.
gpu.module @m [#nvvm.target<chip = "sm_80">] {
  // CHECK-LABEL: gpu.func @warps
  // CHECK-SAME: known_block_size = array<i32: 128, 1, 1>
  // CHECK: %[[ROW:.*]] = arith.muli %{{.*}}, %c32_i32
  // CHECK: %[[COLUMN:.*]] = arith.muli %{{.*}}, %c32_i32
  // CHECK: %[[ANY:.*]] = arith.cmpi sgt, %arg3, %c0_i32
  // CHECK: %[[FIRST:.*]] = arith.select %[[ANY]], %c0_i32, %c1073741824_i32
  // CHECK: "tile.copy_async"(%arg0, %[[FIRST]], %c0_i32,
  // CHECK: "tile.copy_async"(%arg1, %[[FIRST]], %[[EVEN:[a-z0-9]*]],
  // CHECK: nvvm.cp.async.commit.group
  // CHECK: %[[SECOND:.*]] = arith.cmpi sgt, %arg3, %c64_i32
  // CHECK: %[[NEXT:.*]] = arith.select %[[SECOND]], %c0_i32, %c1073741824_i32
  // CHECK: "tile.copy_async"(%arg0, %[[NEXT]], %c64_i32,
  // CHECK: nvvm.cp.async.commit.group
  // CHECK: nvvm.cp.async.wait.group 1
  // CHECK: gpu.barrier
  // CHECK: %[[B:.*]] = "tile.load"(%{{.*}}, %c0_i32, %[[COLUMN]]) : ({{.*}}) -> tensor<16x32xbf16
  // CHECK: %[[A:.*]] = "tile.load"(%{{.*}}, %[[ROW]], %c0_i32) : ({{.*}}) -> tensor<32x16xbf16
  // CHECK: %[[ENOUGH:.*]] = arith.subi %arg3, %c128_i32
  // CHECK: %[[A_ENDS:.*]] = arith.subi %{{.*}}, %c191_i32
  // CHECK: arith.minsi %[[ENOUGH]], %[[A_ENDS]]
  // CHECK: %[[MIDDLE:.*]] = arith.muli %{{.*}}, %c64_i32
  // CHECK: %[[WHOLE:.*]]:5 = scf.for %[[K:.*]] = %c0_i32 to %[[MIDDLE]] step %c64_i32 iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %c0_i32, %{{.*}} = %c2_i32, %{{.*}} = %[[A]], %{{.*}} = %[[B]])
  // CHECK: %[[AHEAD:.*]] = arith.addi %[[K]], %c128_i32
  // CHECK: "tile.copy_async"(%arg0, %c0_i32, %[[AHEAD]], %{{.*}}) {columns = "inside", vector_bytes = 16 : i64}
  // CHECK: "tile.copy_async"(%arg1, %[[AHEAD]], %[[EVEN]], %{{.*}}) {columns = "both", rows = "inside", vector_bytes = 16 : i64}
  // CHECK: scf.for %[[K:.*]] = %[[MIDDLE]] to %arg3 step %c64_i32 iter_args(%[[ACC:.*]] = %[[WHOLE]]#0, %[[READ:.*]] = %[[WHOLE]]#1, %[[WRITE:.*]] = %[[WHOLE]]#2, %[[A:.*]] = %[[WHOLE]]#3, %[[B:.*]] = %[[WHOLE]]#4)
  // CHECK: %[[AHEAD:.*]] = arith.addi %[[K]], %c128_i32
  // CHECK: %[[HAS:.*]] = arith.cmpi slt, %[[AHEAD]], %arg3
  // CHECK: %[[AT:.*]] = arith.select %[[HAS]], %[[AHEAD]], %[[K]]
  // CHECK: %[[AT_A:.*]] = arith.select %[[HAS]], %c0_i32, %c1073741824_i32
  // CHECK: "tile.copy_async"(%arg0, %[[AT_A]], %[[AT]], %{{.*}}) {vector_bytes = 16 : i64}
  // CHECK: "tile.gemm"(%[[A]], %[[B]], %[[ACC]])
  // CHECK: "tile.copy_async"(%arg1, %{{.*}}, %[[EVEN]], %{{.*}}) {columns = "both", vector_bytes = 16 : i64}
  // CHECK-COUNT-2: "tile.gemm"
  // CHECK: nvvm.cp.async.commit.group
  // CHECK: nvvm.cp.async.wait.group 1
  // CHECK: gpu.barrier
  // CHECK: %[[NEXT_B:.*]] = "tile.load"(%{{.*}}, %c0_i32, %[[COLUMN]])
  // CHECK: %[[NEXT_A:.*]] = "tile.load"(%{{.*}}, %[[ROW]], %c0_i32)
  // CHECK: "tile.gemm"
  // CHECK: scf.yield %{{.*}}, %{{.*}}, %[[READ]], %[[NEXT_A]], %[[NEXT_B]]
  // CHECK: nvvm.cp.async.wait.group 0
  // CHECK: "tile.load"(%arg2, %[[ROW]], %[[COLUMN]]) {vector_bytes = 8 : i64} : {{.*}} -> tensor<32x32xf32
  // CHECK: arith.addf
  // CHECK: nvvm.barrier
  // CHECK: "tile.store"(%{{.*}}, %{{.*}}, %[[ROW]], %[[COLUMN]])
  gpu.func @warps(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>, %n: i32, %col: i32) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %even = arith.muli %col, %c64 : i32
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %s = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %x = "tile.load"(%a, %c0, %k) : (memref<?x?xbf16>, i32, i32) -> tensor<64x64xbf16>
      %y = "tile.load"(%b, %k, %even) : (memref<?x?xbf16>, i32, i32) -> tensor<64x64xbf16>
      %t = "tile.gemm"(%x, %y, %acc) {beta = 1.0 : f32} : (tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>) -> tensor<64x64xf32>
      scf.yield %t : tensor<64x64xf32>
    } {stages = 3 : i64}
    %c = "tile.load"(%d, %c0, %c0) : (memref<?x?xf32>, i32, i32) -> tensor<64x64xf32>
    %e = arith.addf %s, %c : tensor<64x64xf32>
    "tile.store"(%e, %d, %c0, %c0) : (tensor<64x64xf32>, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }
}

// -----

// Rows of A aren't aligned, and columns of B begin anywhere: threads copy elements, and warps multiply.
gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  // CHECK-LABEL: gpu.func @unaligned
  // CHECK-NOT: "tile.copy_async"
  // CHECK: "tile.copy"(%arg0,
  // CHECK: "tile.copy"(%arg1, %{{.*}}, %arg4,
  // CHECK: scf.for
  // CHECK: "tile.copy"(%arg0,
  // CHECK: "tile.copy"(%arg1,
  // CHECK: "tile.gemm"
  gpu.func @unaligned(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>, %n: i32, %col: i32) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>, weft.aligned = array<i32: 2, 16, 1, 1, 1>} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %s = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %x = "tile.load"(%a, %c0, %k) : (memref<?x?xbf16>, i32, i32) -> tensor<64x64xbf16>
      %y = "tile.load"(%b, %k, %col) : (memref<?x?xbf16>, i32, i32) -> tensor<64x64xbf16>
      %t = "tile.gemm"(%x, %y, %acc) {beta = 1.0 : f32} : (tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>) -> tensor<64x64xf32>
      scf.yield %t : tensor<64x64xf32>
    } {stages = 2 : i64}
    "tile.store"(%s, %d, %c0, %c0) : (tensor<64x64xf32>, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }
}

// -----

// By tcgen05.mma: a thread of the first warp fills the stages, one of the second multiplies. All warps load the sums afterwards.
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  // CHECK-LABEL: gpu.func @tensor_memory
  // CHECK-SAME: known_block_size = array<i32: 128, 1, 1>
  // CHECK: %[[RING:.*]] = "tile.make_ring"() {consumers = 1 : i64, emptied_by = "mma"}
  // CHECK: %[[DONE:.*]] = "tile.make_ring"() {consumers = 4 : i64, emptied_by = "warps", filled_by = "mma"}
  // CHECK: "tile.tensor_memory"
  // CHECK: %[[SUMS:.*]] = "tile.alloc"() : () -> ![[TMEM:.*]]
  // CHECK: "tile.role"
  // CHECK: nvvm.elect.sync
  // CHECK: "tile.acquire"(%[[RING]]
  // CHECK-COUNT-2: "tile.copy_async"
  // CHECK: {first = 0 : i64, warps = 1 : i64}
  // CHECK: "tile.role"
  // CHECK: scf.for %[[K:.*]] = %c0_i32 to %arg3
  // CHECK: %[[NEXT:.*]] = arith.cmpi ne, %[[K]], %c0_i32
  // CHECK: "tile.await"(%[[RING]]
  // CHECK: "tile.gemm_async"(%{{.*}}, %{{.*}}, %[[SUMS]], %[[NEXT]])
  // CHECK: "tile.release"(%[[RING]]
  // CHECK: "tile.commit"(%[[DONE]], %c0_i32)
  // CHECK: {first = 1 : i64, warps = 1 : i64}
  // CHECK: "tile.await"(%[[DONE]], %c0_i32, %c0_i32)
  // CHECK: %[[D:.*]] = scf.if
  // CHECK: "tile.load"(%[[SUMS]], %c0_i32, %c0_i32)
  // CHECK: "tile.store"(%[[D]],
  // CHECK: "tile.copy_out"
  gpu.func @tensor_memory(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>, %n: i32) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %s = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %x = "tile.load"(%a, %c0, %k) : (memref<?x?xbf16>, i32, i32) -> tensor<128x64xbf16>
      %y = "tile.load"(%b, %k, %c0) : (memref<?x?xbf16>, i32, i32) -> tensor<64x64xbf16>
      %t = "tile.gemm"(%x, %y, %acc) {beta = 1.0 : f32} : (tensor<128x64xbf16>, tensor<64x64xbf16>, tensor<128x64xf32>) -> tensor<128x64xf32>
      scf.yield %t : tensor<128x64xf32>
    } {stages = 2 : i64}
    "tile.store"(%s, %d, %c0, %c0) : (tensor<128x64xf32>, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }
}

// -----

// By pairs of CTAs: each loads half of the columns of B, and the leader's thread multiplies. Both wait until nothing signals them.
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  // CHECK-LABEL: gpu.func @pairs
  // CHECK: %[[RANK:.*]] = nvvm.read.ptx.sreg.cluster.ctarank
  // CHECK: %[[HALF:.*]] = arith.remui %[[RANK]], %c2_i32
  // CHECK: %[[COLUMN:.*]] = arith.muli %[[HALF]], %c32_i32
  // CHECK: %[[RING:.*]] = "tile.make_ring"() {consumers = 1 : i64, cta_group = 2 : i64, emptied_by = "mma"}
  // CHECK: "tile.make_ring"() {consumers = 4 : i64, cta_group = 2 : i64, emptied_by = "warps", filled_by = "mma"}
  // CHECK: "tile.tensor_memory"
  // CHECK: "tile.expect"(%[[RING]], %{{.*}}) {bytes = 20480 : i64}
  // CHECK: "tile.copy_async"({{.*}}) {cta_group = 2 : i64
  // CHECK: "tile.copy_async"(%{{.*}}, %{{.*}}, %[[COLUMN]], {{.*}}) {cta_group = 2 : i64
  // CHECK: {first = 0 : i64, warps = 1 : i64}
  // CHECK: scf.if
  // CHECK: nvvm.elect.sync
  // CHECK: "tile.gemm_async"({{.*}}) {cta_group = 2 : i64
  // CHECK: {first = 1 : i64, warps = 1 : i64}
  // CHECK: "tile.drain"(%[[RING]]
  // CHECK: {cta_group = 2 : i64}
  gpu.func @pairs(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>, %n: i32) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>, known_cluster_size = array<i32: 2, 1, 1>} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %s = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %x = "tile.load"(%a, %c0, %k) : (memref<?x?xbf16>, i32, i32) -> tensor<128x64xbf16>
      %y = "tile.load"(%b, %k, %c0) : (memref<?x?xbf16>, i32, i32) -> tensor<64x64xbf16>
      %t = "tile.gemm"(%x, %y, %acc) {beta = 1.0 : f32, cta_group = 2 : i64} : (tensor<128x64xbf16>, tensor<64x64xbf16>, tensor<128x64xf32>) -> tensor<128x64xf32>
      scf.yield %t : tensor<128x64xf32>
    } {stages = 2 : i64}
    "tile.store"(%s, %d, %c0, %c0) : (tensor<128x64xf32>, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }
}
