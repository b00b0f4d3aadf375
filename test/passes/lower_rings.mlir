// RUN: weft-opt %s --mlir-print-local-scope --lower-rings | FileCheck %s

gpu.module @m {
  // Two barriers a stage: those for full first, which one arrival fills, then those for empty, which each consumer
  // empties. Thread 0 sets them up, for all of the cluster to see.
  // CHECK-LABEL: gpu.func @make
  gpu.func @make() kernel attributes {known_block_size = array<i32: 384, 1, 1>} {
    // CHECK: %[[BUFFER:.*]] = "tile.alloc"() : () -> !tile.buffer<array<i64: 2, 3>, i64, #tile.layout<"S[(2,3):(3,1)]">, "shared">
    // CHECK: %[[BASE:.*]] = "tile.address"(%[[BUFFER]])
    // CHECK: %[[ZERO:.*]] = arith.constant 0 : i32
    // CHECK: %[[FIRST:.*]] = arith.cmpi eq, %{{.*}}, %[[ZERO]] : i32
    // CHECK: scf.if %[[FIRST]] {
    // CHECK: %[[ONE:.*]] = arith.constant 1 : i32
    // CHECK: nvvm.mbarrier.init %[[BASE]], %[[ONE]]
    // CHECK: %[[EMPTY:.*]] = llvm.getelementptr %[[BASE]][24]
    // CHECK: %[[TWO:.*]] = arith.constant 2 : i32
    // CHECK: nvvm.mbarrier.init %[[EMPTY]], %[[TWO]]
    // CHECK: llvm.getelementptr %[[BASE]][8]
    // CHECK: llvm.getelementptr %[[BASE]][32]
    // CHECK: llvm.getelementptr %[[BASE]][16]
    // CHECK: %[[LAST:.*]] = llvm.getelementptr %[[BASE]][40]
    // CHECK: nvvm.mbarrier.init %[[LAST]],
    // CHECK-NOT: nvvm.mbarrier.init
    // CHECK: nvvm.fence.mbarrier.init
    // CHECK-NEXT: }
    %r = "tile.make_ring"() {consumers = 2} : () -> !tile.ring<3>
    gpu.return
  }

  // A barrier begins as if the phase before its first were over: who acquires waits for the other parity.
  // CHECK-LABEL: gpu.func @acquire
  // CHECK-SAME: (%[[STAGE:[a-z0-9]+]]: i32, %[[PHASE:[a-z0-9]+]]: i32)
  gpu.func @acquire(%stage: i32, %phase: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // CHECK: %[[BASE:.*]] = "tile.address"
    %r = "tile.make_ring"() {consumers = 1} : () -> !tile.ring<3>
    // CHECK: nvvm.fence.mbarrier.init
    // CHECK: %[[THREE:.*]] = arith.constant 3 : i32
    // CHECK: %[[NUMBER:.*]] = arith.addi %[[STAGE]], %[[THREE]]
    // CHECK: %[[EIGHT:.*]] = arith.constant 8 : i32
    // CHECK: %[[BYTES:.*]] = arith.muli %[[NUMBER]], %[[EIGHT]]
    // CHECK: %[[EMPTY:.*]] = llvm.getelementptr %[[BASE]][%[[BYTES]]]
    // CHECK: %[[ONE:.*]] = arith.constant 1 : i32
    // CHECK: %[[PARITY:.*]] = arith.xori %[[PHASE]], %[[ONE]]
    // CHECK: scf.while
    // CHECK: %[[DONE:.*]] = nvvm.mbarrier.try_wait %[[EMPTY]], %[[PARITY]] : !llvm.ptr<3>, i32 -> i1
    // CHECK: %[[TRUE:.*]] = arith.constant true
    // CHECK: %[[AGAIN:.*]] = arith.xori %[[DONE]], %[[TRUE]]
    // CHECK: scf.condition(%[[AGAIN]])
    "tile.acquire"(%r, %stage, %phase) : (!tile.ring<3>, i32, i32) -> ()
    gpu.return
  }

  // CHECK-LABEL: gpu.func @await
  // CHECK-SAME: (%[[STAGE:[a-z0-9]+]]: i32, %[[PHASE:[a-z0-9]+]]: i32)
  gpu.func @await(%stage: i32, %phase: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // CHECK: %[[BASE:.*]] = "tile.address"
    %r = "tile.make_ring"() {consumers = 1} : () -> !tile.ring<3>
    // CHECK: nvvm.fence.mbarrier.init
    // CHECK: %[[BYTES:.*]] = arith.muli %[[STAGE]], %{{.*}}
    // CHECK: %[[FULL:.*]] = llvm.getelementptr %[[BASE]][%[[BYTES]]]
    // CHECK: scf.while
    // CHECK: nvvm.mbarrier.try_wait %[[FULL]], %[[PHASE]] : !llvm.ptr<3>, i32 -> i1
    "tile.await"(%r, %stage, %phase) : (!tile.ring<3>, i32, i32) -> ()
    gpu.return
  }

  // Copies arrive at the barrier that expects them.
  // CHECK-LABEL: gpu.func @expect
  // CHECK-SAME: (%[[STAGE:[a-z0-9]+]]: i32, %[[V:[a-z0-9]+]]: f32)
  gpu.func @expect(%stage: i32, %v: f32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // CHECK: %[[BASE:.*]] = "tile.address"
    %r = "tile.make_ring"() {consumers = 1} : () -> !tile.ring<3>
    // CHECK: nvvm.fence.mbarrier.init
    // CHECK: arith.muli %[[STAGE]], %{{.*}}
    // CHECK: %[[FULL:.*]] = llvm.getelementptr %[[BASE]]
    // CHECK: %[[COUNT:.*]] = arith.constant 49152 : i32
    // CHECK: nvvm.mbarrier.arrive.expect_tx %[[FULL]], %[[COUNT]]
    "tile.expect"(%r, %stage) {bytes = 49152} : (!tile.ring<3>, i32) -> ()
    // CHECK: arith.muli %[[STAGE]], %{{.*}}
    // CHECK: %[[AGAIN:.*]] = llvm.getelementptr %[[BASE]]
    // CHECK: llvm.store %[[V]], %[[AGAIN]]
    %b = "tile.full_barrier"(%r, %stage) : (!tile.ring<3>, i32) -> !llvm.ptr<3>
    llvm.store %v, %b : f32, !llvm.ptr<3>
    gpu.return
  }

  // One thread of each warpgroup arrives for it.
  // CHECK-LABEL: gpu.func @release
  gpu.func @release(%stage: i32) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    // CHECK: %[[BASE:.*]] = "tile.address"
    %r = "tile.make_ring"() {consumers = 2} : () -> !tile.ring<3>
    // CHECK: nvvm.fence.mbarrier.init
    // CHECK: %[[SIZE:.*]] = arith.constant 128 : i32
    // CHECK: %[[IN:.*]] = arith.remui %{{.*}}, %[[SIZE]] : i32
    // CHECK: %[[ZERO:.*]] = arith.constant 0 : i32
    // CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[IN]], %[[ZERO]] : i32
    // CHECK: scf.if %[[FIRST]] {
    // CHECK: %[[THREE:.*]] = arith.constant 3 : i32
    // CHECK: arith.addi %{{.*}}, %[[THREE]]
    // CHECK: %[[EMPTY:.*]] = llvm.getelementptr %[[BASE]]
    // CHECK: nvvm.mbarrier.arrive %[[EMPTY]]
    "tile.release"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    gpu.return
  }

  // One lane of each warp, after what the others have read.
  // CHECK-LABEL: gpu.func @release_by_warps
  gpu.func @release_by_warps(%stage: i32) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    %r = "tile.make_ring"() {emptied_by = "warps", consumers = 8} : () -> !tile.ring<3>
    // CHECK: nvvm.fence.mbarrier.init
    // CHECK: %[[ALL:.*]] = arith.constant -1 : i32
    // CHECK: nvvm.bar.warp.sync %[[ALL]]
    // CHECK: %[[SIZE:.*]] = arith.constant 32 : i32
    // CHECK: arith.remui %{{.*}}, %[[SIZE]] : i32
    // CHECK: scf.if
    // CHECK: nvvm.mbarrier.arrive
    "tile.release"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    gpu.return
  }

  // To another CTA of the cluster: the barrier in the same place there.
  // CHECK-LABEL: gpu.func @release_peer
  // CHECK-SAME: (%[[STAGE:[a-z0-9]+]]: i32, %[[RANK:[a-z0-9]+]]: i32)
  gpu.func @release_peer(%stage: i32, %rank: i32) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    // CHECK: %[[BASE:.*]] = "tile.address"
    %r = "tile.make_ring"() {consumers = 4} : () -> !tile.ring<3>
    // CHECK: nvvm.fence.mbarrier.init
    // CHECK: arith.remui
    // CHECK: scf.if
    // CHECK: arith.addi %[[STAGE]], %{{.*}} : i32
    // CHECK: %[[EMPTY:.*]] = llvm.getelementptr %[[BASE]]
    // CHECK: %[[THERE:.*]] = nvvm.mapa %[[EMPTY]], %[[RANK]] : !llvm.ptr<3> -> !llvm.ptr<7>
    // CHECK: nvvm.mbarrier.arrive %[[THERE]] : !llvm.ptr<7>
    "tile.release_peer"(%r, %stage, %rank) : (!tile.ring<3>, i32, i32) -> ()
    gpu.return
  }

  // After the last stage the first follows, and the other phase.
  // CHECK-LABEL: gpu.func @advance
  // CHECK-SAME: (%[[STAGE:[a-z0-9]+]]: i32, %[[PHASE:[a-z0-9]+]]: i32, %[[P:[a-z0-9]+]]: !llvm.ptr<1>)
  gpu.func @advance(%stage: i32, %phase: i32, %p: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %r = "tile.make_ring"() {consumers = 1} : () -> !tile.ring<3>
    // CHECK: nvvm.fence.mbarrier.init
    // CHECK: %[[ONE:.*]] = arith.constant 1 : i32
    // CHECK: %[[NEXT:.*]] = arith.addi %[[STAGE]], %[[ONE]]
    // CHECK: %[[THREE:.*]] = arith.constant 3 : i32
    // CHECK: %[[WRAPS:.*]] = arith.cmpi eq, %[[NEXT]], %[[THREE]]
    // CHECK: %[[ZERO:.*]] = arith.constant 0 : i32
    // CHECK: %[[S:.*]] = arith.select %[[WRAPS]], %[[ZERO]], %[[NEXT]]
    // CHECK: %[[TURNED:.*]] = arith.xori %[[PHASE]], %{{.*}}
    // CHECK: %[[T:.*]] = arith.select %[[WRAPS]], %[[TURNED]], %[[PHASE]]
    // CHECK: llvm.store %[[S]], %[[P]]
    // CHECK: llvm.store %[[T]], %[[P]]
    %s, %t = "tile.advance"(%r, %stage, %phase) : (!tile.ring<3>, i32, i32) -> (i32, i32)
    llvm.store %s, %p : i32, !llvm.ptr<1>
    llvm.store %t, %p : i32, !llvm.ptr<1>
    gpu.return
  }

  // Each ring has barriers of its own; a ring goes into regions, and what a loop carries is the stage and phase.
  // CHECK-LABEL: gpu.func @two_rings
  // CHECK: !tile.buffer<array<i64: 2, 2>, i64,
  // CHECK: %[[FIRST:.*]] = "tile.address"
  // CHECK: !tile.buffer<array<i64: 2, 5>, i64,
  // CHECK: %[[SECOND:.*]] = "tile.address"
  // CHECK: scf.for
  // CHECK: llvm.getelementptr %[[SECOND]]
  // CHECK: nvvm.mbarrier.try_wait
  // CHECK: arith.constant 5 : i32
  // CHECK-NOT: tile.
  // CHECK: gpu.return
  gpu.func @two_rings(%n: index, %zero: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %r = "tile.make_ring"() {consumers = 1} : () -> !tile.ring<2>
    %q = "tile.make_ring"() {consumers = 1} : () -> !tile.ring<5>
    %0:2 = scf.for %i = %n to %n step %n iter_args(%s = %zero, %p = %zero) -> (i32, i32) {
      "tile.await"(%q, %s, %p) : (!tile.ring<5>, i32, i32) -> ()
      %t, %u = "tile.advance"(%q, %s, %p) : (!tile.ring<5>, i32, i32) -> (i32, i32)
      scf.yield %t, %u : i32, i32
    }
    gpu.return
  }
}
