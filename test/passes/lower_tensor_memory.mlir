// RUN: weft-opt %s --mlir-print-local-scope --lower-tensor-memory | FileCheck %s

!Accumulators = !tile.buffer<array<i64: 2, 128, 64>, f32, #tile.layout<"S[(2,128,64):(64@TCol,1@TLane,1@TCol)]">, "tmem">
!Accumulator = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!Packed = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!Half = !tile.buffer<array<i64: 128, 32>, f16, #tile.layout<"S[(128,32):(1@TLane,1@TCol)]">, "tmem">
!Sides = !tile.buffer<array<i64: 2, 64, 32>, f32, #tile.layout<"S[(2,4,16,32):(16@TLane,32@TLane,1@TLane,1@TCol)]">, "tmem">
!Side = !tile.buffer<array<i64: 64, 32>, f32, #tile.layout<"S[(4,16,32):(32@TLane,1@TLane,1@TCol)]">, "tmem">

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  // 128 + 32 + 32 columns are rounded up to 256, which warp 2 allocates before a barrier and frees after another.
  // CHECK-LABEL: gpu.func @one_cta
  gpu.func @one_cta(%i: i32, %out: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.tensor_memory"() ({
      // CHECK: %[[COLUMNS:.*]] = arith.constant 256 : i32
      // CHECK: %[[WORD:.*]] = "tile.address"(%{{.*}}) : (!tile.buffer<array<i64: 1>, i32, #tile.layout<"S[(1):(1)]">, "shared">) -> !llvm.ptr<3>
      // CHECK: %[[TWO:.*]] = arith.constant 2 : i32
      // CHECK: %[[ALLOCATES:.*]] = arith.cmpi eq, %[[WARP:.*]], %[[TWO]] : i32
      // CHECK-NEXT: scf.if %[[ALLOCATES]] {
      // CHECK-NEXT: "tcgen05.alloc"(%[[WORD]], %[[COLUMNS]]) {cta_group = 1 : i64}
      // CHECK-NEXT: "tcgen05.relinquish_alloc_permit"() {cta_group = 1 : i64}
      // CHECK-NEXT: }
      // CHECK-NEXT: gpu.barrier
      // CHECK-NEXT: %[[BASE:.*]] = llvm.load %[[WORD]] : !llvm.ptr<3> -> i32
      // CHECK-NEXT: %[[SUMS:.*]] = llvm.inttoptr %[[BASE]] : i32 to !llvm.ptr<6>
      // CHECK: arith.constant 128 : i32
      // CHECK: %[[PACKED:.*]] = llvm.inttoptr %{{.*}} : i32 to !llvm.ptr<6>
      // CHECK: arith.constant 160 : i32
      // CHECK: %[[SIDES:.*]] = llvm.inttoptr %{{.*}} : i32 to !llvm.ptr<6>
      // CHECK-NOT: "tile.
      %sums = "tile.alloc"() : () -> !Accumulators
      %packed = "tile.alloc"() : () -> !Packed
      %sides = "tile.alloc"() : () -> !Sides
      // CHECK: %[[STEP:.*]] = arith.constant 64 : i32
      // CHECK-NEXT: %[[FURTHER:.*]] = arith.muli %{{.*}}, %[[STEP]] : i32
      // CHECK-NEXT: %[[STAGE:.*]] = llvm.getelementptr %[[SUMS]][%[[FURTHER]]] : (!llvm.ptr<6>, i32) -> !llvm.ptr<6>, i8
      %one = "tile.stage"(%sums, %i) : (!Accumulators, i32) -> !Accumulator
      %0 = "tile.address"(%one) : (!Accumulator) -> !llvm.ptr<6>
      // Two elements of 16 bits are in a column: 65536 a lane, counted in elements, is 131072.
      // CHECK: %[[LANE:.*]] = arith.constant 131072 : i32
      // CHECK-NEXT: %[[LANES:.*]] = arith.muli %{{.*}}, %[[LANE]] : i32
      // CHECK: %[[ELEMENTS:.*]] = arith.addi %[[LANES]], %{{.*}} : i32
      // CHECK-NEXT: %[[HALF:.*]] = arith.constant 2 : i32
      // CHECK-NEXT: %[[CELLS:.*]] = arith.divui %[[ELEMENTS]], %[[HALF]] : i32
      // CHECK-NEXT: %[[SLICE:.*]] = llvm.getelementptr %[[PACKED]][%[[CELLS]]]
      %half = "tile.slice"(%packed, %i, %i) : (!Packed, i32, i32) -> !Half
      %1 = "tile.address"(%half) : (!Half) -> !llvm.ptr<6>
      // CHECK: %[[APART:.*]] = arith.constant 1048576 : i32
      // CHECK-NEXT: %[[ASIDE:.*]] = arith.muli %{{.*}}, %[[APART]] : i32
      // CHECK-NEXT: %[[SIDE:.*]] = llvm.getelementptr %[[SIDES]][%[[ASIDE]]]
      %side = "tile.stage"(%sides, %i) : (!Sides, i32) -> !Side
      %2 = "tile.address"(%side) : (!Side) -> !llvm.ptr<6>
      // CHECK: llvm.store %[[STAGE]]
      llvm.store %0, %out : !llvm.ptr<6>, !llvm.ptr<1>
      // CHECK-NEXT: llvm.store %[[SLICE]]
      llvm.store %1, %out : !llvm.ptr<6>, !llvm.ptr<1>
      // CHECK-NEXT: llvm.store %[[SIDE]]
      llvm.store %2, %out : !llvm.ptr<6>, !llvm.ptr<1>
      // CHECK-NEXT: "tcgen05.fence"() {kind = "before_thread_sync"}
      // CHECK-NEXT: gpu.barrier
      // CHECK: %[[FREES:.*]] = arith.cmpi eq, %[[WARP]], %{{.*}} : i32
      // CHECK-NEXT: scf.if %[[FREES]] {
      // CHECK-NEXT: "tcgen05.fence"() {kind = "after_thread_sync"}
      // CHECK-NEXT: %[[ALL:.*]] = llvm.inttoptr %[[BASE]] : i32 to !llvm.ptr<6>
      // CHECK-NEXT: "tcgen05.dealloc"(%[[ALL]], %[[COLUMNS]]) {cta_group = 1 : i64}
      // CHECK-NEXT: }
      // CHECK-NEXT: gpu.return
    }) {warp = 2 : i64} : () -> ()
    gpu.return
  }

  // A pair meets before it allocates, when the peer runs, and before it frees.
  // CHECK-LABEL: gpu.func @pair
  // CHECK: nvvm.cluster.arrive
  // CHECK-NEXT: nvvm.cluster.wait
  // CHECK-NEXT: scf.if
  // CHECK-NEXT: "tcgen05.alloc"(%{{.*}}) {cta_group = 2 : i64}
  // CHECK-NEXT: "tcgen05.relinquish_alloc_permit"() {cta_group = 2 : i64}
  // CHECK-NEXT: }
  // CHECK-NEXT: gpu.barrier
  // CHECK: "tcgen05.fence"() {kind = "before_thread_sync"}
  // CHECK-NEXT: nvvm.cluster.arrive
  // CHECK-NEXT: nvvm.cluster.wait
  // CHECK: "tcgen05.dealloc"(%{{.*}}) {cta_group = 2 : i64}
  gpu.func @pair() kernel attributes {known_block_size = array<i32: 128, 1, 1>, known_cluster_size = array<i32: 2, 1, 1>} {
    "tile.tensor_memory"() ({
      %sums = "tile.alloc"() : () -> !Accumulators
    }) {cta_group = 2 : i64} : () -> ()
    gpu.return
  }

  // What overlaps begins where the other buffer does; 64 columns are enough.
  // CHECK-LABEL: gpu.func @over
  // CHECK: arith.constant 64 : i32
  // CHECK: %[[BASE:.*]] = llvm.load
  // CHECK: %[[FIRST:.*]] = llvm.inttoptr %[[BASE]]
  // CHECK: %[[OVER:.*]] = llvm.inttoptr %[[BASE]]
  // CHECK: llvm.store %[[OVER]]
  gpu.func @over(%out: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.tensor_memory"() ({
      %sum = "tile.alloc"() : () -> !Accumulator
      %packed = "tile.alloc"(%sum) : (!Accumulator) -> !Packed
      %0 = "tile.address"(%packed) : (!Packed) -> !llvm.ptr<6>
      llvm.store %0, %out : !llvm.ptr<6>, !llvm.ptr<1>
    }) : () -> ()
    gpu.return
  }

  // With `reload`, the address is read again to be freed.
  // CHECK-LABEL: gpu.func @reloaded
  // CHECK: %[[WORD:.*]] = "tile.address"
  // CHECK: llvm.load %[[WORD]]
  // CHECK: %[[AGAIN:.*]] = llvm.load %[[WORD]]
  // CHECK: %[[FREED:.*]] = llvm.inttoptr %[[AGAIN]]
  // CHECK: "tcgen05.dealloc"(%[[FREED]]
  gpu.func @reloaded(%out: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.tensor_memory"() ({
      %sum = "tile.alloc"() : () -> !Accumulator
      %0 = "tile.address"(%sum) : (!Accumulator) -> !llvm.ptr<6>
      llvm.store %0, %out : !llvm.ptr<6>, !llvm.ptr<1>
    }) {reload = true} : () -> ()
    gpu.return
  }
}
