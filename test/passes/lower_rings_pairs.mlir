// RUN: weft-opt %s --lower-rings | FileCheck %s

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  // Commits reach both CTAs, once for each of `consumers`. One thread of the leader expects the bytes of both.
  // CHECK-LABEL: gpu.func @from_tma_to_mma
  // CHECK-SAME: (%[[STAGE:[a-z0-9]+]]: i32, %[[PHASE:[a-z0-9]+]]: i32)
  // CHECK: %[[BASE:.*]] = "tile.address"
  // CHECK: %[[FILLERS:.*]] = arith.constant 1 : i32
  // CHECK: nvvm.mbarrier.init %{{.*}}, %[[FILLERS]]
  // CHECK: %[[EMPTIERS:.*]] = arith.constant 3 : i32
  // CHECK: nvvm.mbarrier.init %{{.*}}, %[[EMPTIERS]]
  gpu.func @from_tma_to_mma(%stage: i32, %phase: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>, known_cluster_size = array<i32: 2, 1, 1>} {
    %r = "tile.make_ring"() {emptied_by = "mma", consumers = 3, cta_group = 2} : () -> !tile.ring<2>
    // CHECK: nvvm.fence.mbarrier.init
    // CHECK: %[[RANK:.*]] = nvvm.read.ptx.sreg.cluster.ctarank : i32
    // CHECK: arith.remui %[[RANK]]
    // CHECK: scf.if
    // CHECK-NEXT: arith.constant 8
    // CHECK: %[[BYTES:.*]] = arith.constant 49152 : i32
    // CHECK-NEXT: nvvm.mbarrier.arrive.expect_tx %{{.*}}, %[[BYTES]]
    "tile.expect"(%r, %stage) {bytes = 24576} : (!tile.ring<2>, i32) -> ()
    // CHECK: %[[OWN:.*]] = llvm.getelementptr %[[BASE]]
    // CHECK: %[[ADDRESS:.*]] = llvm.ptrtoint %[[OWN]] : !llvm.ptr<3> to i32
    // CHECK: %[[KEPT:.*]] = arith.constant -16777217 : i32
    // CHECK: %[[LEADERS:.*]] = arith.andi %[[ADDRESS]], %[[KEPT]]
    // CHECK: %[[FULL:.*]] = llvm.inttoptr %[[LEADERS]] : i32 to !llvm.ptr<3>
    // CHECK: nvvm.mbarrier.arrive %[[FULL]]
    %full = "tile.full_barrier"(%r, %stage) : (!tile.ring<2>, i32) -> !llvm.ptr<3>
    nvvm.mbarrier.arrive %full : !llvm.ptr<3> -> i64
    %one = nvvm.elect.sync -> i1
    scf.if %one {
      // CHECK: %[[BOTH:.*]] = arith.constant 3 : i32
      // CHECK: %[[RANK:.*]] = nvvm.read.ptx.sreg.cluster.ctarank : i32
      // CHECK: %[[EVEN:.*]] = arith.constant -2 : i32
      // CHECK: %[[LEADER:.*]] = arith.andi %[[RANK]], %[[EVEN]]
      // CHECK: %[[SHIFTED:.*]] = arith.shli %[[BOTH]], %[[LEADER]]
      // CHECK: %[[MASK:.*]] = arith.trunci %[[SHIFTED]] : i32 to i16
      // CHECK: "tcgen05.commit"(%{{.*}}, %[[MASK]]) {cta_group = 2 : i64} : (!llvm.ptr<3>, i16) -> ()
      "tile.release"(%r, %stage) : (!tile.ring<2>, i32) -> ()
    }
    gpu.return
  }

  // Eight warps of two CTAs arrive at the leader's mbarrier.
  // CHECK-LABEL: gpu.func @from_mma_to_warps
  gpu.func @from_mma_to_warps(%stage: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>, known_cluster_size = array<i32: 2, 1, 1>} {
    // CHECK: arith.constant 1 : i32
    // CHECK: nvvm.mbarrier.init
    // CHECK: %[[EIGHT:.*]] = arith.constant 8 : i32
    // CHECK: nvvm.mbarrier.init %{{.*}}, %[[EIGHT]]
    %r = "tile.make_ring"() {filled_by = "mma", emptied_by = "warps", consumers = 4, cta_group = 2} : () -> !tile.ring<1>
    // CHECK: nvvm.bar.warp.sync
    // CHECK: scf.if
    // CHECK: %[[EMPTY:.*]] = llvm.getelementptr
    // CHECK: %[[RANK:.*]] = nvvm.read.ptx.sreg.cluster.ctarank : i32
    // CHECK: %[[LEADER:.*]] = arith.andi %[[RANK]]
    // CHECK: %[[REMOTE:.*]] = nvvm.mapa %[[EMPTY]], %[[LEADER]] : !llvm.ptr<3> -> !llvm.ptr<7>
    // CHECK: nvvm.mbarrier.arrive %[[REMOTE]]
    "tile.release"(%r, %stage) : (!tile.ring<1>, i32) -> ()
    gpu.return
  }

  // What warps of both CTAs write for the leader's MMAs they commit to the leader.
  // CHECK-LABEL: gpu.func @from_threads_to_mma
  gpu.func @from_threads_to_mma(%stage: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>, known_cluster_size = array<i32: 2, 1, 1>} {
    // CHECK: %[[FILLERS:.*]] = arith.constant 64 : i32
    // CHECK: nvvm.mbarrier.init %{{.*}}, %[[FILLERS]]
    %r = "tile.make_ring"() {filled_by = "threads", producers = 32, emptied_by = "mma", consumers = 1, cta_group = 2} : () -> !tile.ring<1>
    // CHECK: nvvm.fence.proxy
    // CHECK: "tcgen05.fence"() {kind = "before_thread_sync"}
    // CHECK: %[[REMOTE:.*]] = nvvm.mapa
    // CHECK: nvvm.mbarrier.arrive %[[REMOTE]]
    "tile.commit"(%r, %stage) : (!tile.ring<1>, i32) -> ()
    gpu.return
  }

  // In a wider cluster, MMAs free stages for all CTAs that copy into them.
  // CHECK-LABEL: gpu.func @release_to_a_cluster
  // CHECK-SAME: %[[MASK:[a-z0-9]+]]: i16
  gpu.func @release_to_a_cluster(%stage: i32, %mask: i16) kernel attributes {known_block_size = array<i32: 128, 1, 1>, known_cluster_size = array<i32: 2, 1, 1>} {
    %r = "tile.make_ring"() {emptied_by = "mma", consumers = 2, cta_group = 2} : () -> !tile.ring<1>
    %alone = "tile.make_ring"() {emptied_by = "mma", consumers = 2} : () -> !tile.ring<1>
    %one = nvvm.elect.sync -> i1
    scf.if %one {
      // CHECK: "tcgen05.commit"(%{{.*}}, %[[MASK]]) {cta_group = 2 : i64}
      // CHECK: "tcgen05.commit"(%{{.*}}, %[[MASK]]) {cta_group = 1 : i64}
      "tile.release"(%r, %stage, %mask) : (!tile.ring<1>, i32, i16) -> ()
      "tile.release"(%alone, %stage, %mask) : (!tile.ring<1>, i32, i16) -> ()
    }
    gpu.return
  }

  // A thread that its warp elects arrives for it.
  // CHECK-LABEL: gpu.func @release_by_an_elected_thread
  gpu.func @release_by_an_elected_thread(%stage: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>, known_cluster_size = array<i32: 2, 1, 1>} {
    %r = "tile.make_ring"() {emptied_by = "warps", consumers = 4} : () -> !tile.ring<1>
    %lane = nvvm.read.ptx.sreg.laneid : i32
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %one = nvvm.elect.sync -> i1
    // CHECK: nvvm.elect.sync
    // CHECK-NEXT: scf.if
    // CHECK: scf.for
    // CHECK-NOT: nvvm.bar.warp.sync
    // CHECK: nvvm.mbarrier.arrive
    scf.if %one {
      scf.for %i = %c0 to %lane step %c1 : i32 {
        "tile.release"(%r, %stage) : (!tile.ring<1>, i32) -> ()
      }
    }
    gpu.return
  }

  // A producer that has ended waits for all stages, from the next one on.
  // CHECK-LABEL: gpu.func @drain
  // CHECK-SAME: (%[[STAGE:[a-z0-9]+]]: i32, %[[PHASE:[a-z0-9]+]]: i32)
  gpu.func @drain(%stage: i32, %phase: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>, known_cluster_size = array<i32: 2, 1, 1>} {
    %r = "tile.make_ring"() {emptied_by = "mma", consumers = 1, cta_group = 2} : () -> !tile.ring<3>
    // CHECK: nvvm.fence.mbarrier.init
    // CHECK: %[[FROM:.*]] = arith.constant 0 : i32
    // CHECK: %[[STAGES:.*]] = arith.constant 3 : i32
    // CHECK: scf.for %{{.*}} = %[[FROM]] to %[[STAGES]] {{.*}} iter_args(%{{.*}} = %[[STAGE]], %[[NOW:.*]] = %[[PHASE]])
    // CHECK: %[[OTHER:.*]] = arith.xori %[[NOW]]
    // CHECK: nvvm.mbarrier.try_wait %{{.*}}, %[[OTHER]]
    // CHECK: scf.yield
    // CHECK: gpu.return
    "tile.drain"(%r, %stage, %phase) : (!tile.ring<3>, i32, i32) -> ()
    gpu.return
  }
}
