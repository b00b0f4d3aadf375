// RUN: weft-opt %s --lower-rings | FileCheck %s

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  // Each producer and each consumer of a stage arrives once.
  // CHECK-LABEL: gpu.func @counts
  // CHECK: %[[FILLERS:.*]] = arith.constant 64 : i32
  // CHECK: nvvm.mbarrier.init %[[FULL:.*]], %[[FILLERS]]
  // CHECK: %[[EMPTY:.*]] = llvm.getelementptr %[[FULL]][8]
  // CHECK: %[[EMPTIERS:.*]] = arith.constant 4 : i32
  // CHECK: nvvm.mbarrier.init %[[EMPTY]], %[[EMPTIERS]]
  gpu.func @counts() kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    %r = "tile.make_ring"() {filled_by = "threads", producers = 64, emptied_by = "warps", consumers = 4} : () -> !tile.ring<1>
    gpu.return
  }

  // Threads write through the generic proxy, and MMAs or TMA may read the stage through the async one. Each arrives.
  // CHECK-LABEL: gpu.func @commit_by_threads
  gpu.func @commit_by_threads(%stage: i32) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %r = "tile.make_ring"() {filled_by = "threads", producers = 32, emptied_by = "threads", consumers = 32} : () -> !tile.ring<3>
    // CHECK: nvvm.fence.mbarrier.init
    // CHECK: }
    // CHECK-NEXT: nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
    // CHECK-NOT: scf.if
    // CHECK-NOT: tcgen05
    // CHECK: nvvm.mbarrier.arrive
    "tile.commit"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    // CHECK-NOT: nvvm.fence
    // CHECK-NOT: scf.if
    // CHECK: nvvm.mbarrier.arrive
    "tile.release"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    gpu.return
  }

  // One lane of each warp arrives, after what the others have written.
  // CHECK-LABEL: gpu.func @commit_by_warps
  gpu.func @commit_by_warps(%stage: i32) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %r = "tile.make_ring"() {filled_by = "warps", producers = 2, emptied_by = "threads", consumers = 32} : () -> !tile.ring<3>
    // CHECK: nvvm.fence.mbarrier.init
    // CHECK: nvvm.fence.proxy
    // CHECK: nvvm.bar.warp.sync
    // CHECK: %[[SIZE:.*]] = arith.constant 32 : i32
    // CHECK: arith.remui %{{.*}}, %[[SIZE]] : i32
    // CHECK: scf.if
    // CHECK: nvvm.mbarrier.arrive
    "tile.commit"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    gpu.return
  }

  // Tensor memory has no proxies: fences of tcgen05 order what warps have written before MMAs that read it.
  // CHECK-LABEL: gpu.func @commit_to_tensor_memory
  gpu.func @commit_to_tensor_memory(%stage: i32) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %r = "tile.make_ring"() {filled_by = "warps", producers = 2, emptied_by = "mma", consumers = 1, tensor_memory = true} : () -> !tile.ring<3>
    // CHECK: nvvm.fence.mbarrier.init
    // CHECK-NOT: nvvm.fence.proxy
    // CHECK: "tcgen05.fence"() {kind = "before_thread_sync"}
    // CHECK: nvvm.mbarrier.arrive
    "tile.commit"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    gpu.return
  }

  // TMA may fill a stage before loads of it have delivered: each lane fences what it has read, once where nothing is
  // read in between. Products have finished with what they read.
  // CHECK-LABEL: gpu.func @fenced_reads
  gpu.func @fenced_reads(%stage: i32, %data: !llvm.ptr<3>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %r = "tile.make_ring"() {emptied_by = "warps", consumers = 4} : () -> !tile.ring<3>
    %s = "tile.make_ring"() {emptied_by = "threads", consumers = 128} : () -> !tile.ring<3>
    %t = "tile.make_ring"() {emptied_by = "threads", consumers = 128, lanes_read = false} : () -> !tile.ring<3>
    // CHECK: llvm.load
    // CHECK-NEXT: nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
    // CHECK-NEXT: {{.*}} = arith.constant -1
    // CHECK-NEXT: nvvm.bar.warp.sync
    // CHECK: nvvm.mbarrier.arrive
    // CHECK-NOT: nvvm.fence
    // CHECK: nvvm.mbarrier.arrive
    // CHECK: llvm.load
    // CHECK-NOT: nvvm.fence
    // CHECK: nvvm.mbarrier.arrive
    // CHECK: nvvm.fence.proxy
    // CHECK: nvvm.mbarrier.arrive
    %0 = llvm.load %data : !llvm.ptr<3> -> f32
    "tile.release"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    "tile.release"(%s, %stage) : (!tile.ring<3>, i32) -> ()
    %1 = llvm.load %data : !llvm.ptr<3> -> f32
    "tile.release"(%t, %stage) : (!tile.ring<3>, i32) -> ()
    "tile.release"(%s, %stage) : (!tile.ring<3>, i32) -> ()
    gpu.return
  }

  llvm.func @reads()

  // A fence in a branch, or before a loop or a call that may read, isn't enough.
  // CHECK-LABEL: gpu.func @fenced_in_a_branch
  gpu.func @fenced_in_a_branch(%stage: i32, %data: !llvm.ptr<3>, %some: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %r = "tile.make_ring"() {emptied_by = "warps", consumers = 4} : () -> !tile.ring<3>
    // CHECK: scf.if
    // CHECK: nvvm.fence.proxy
    // CHECK: }
    // CHECK: nvvm.fence.proxy
    // CHECK: nvvm.mbarrier.arrive
    scf.if %some {
      nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
    }
    "tile.release"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    // CHECK: scf.if
    // CHECK: llvm.load
    // CHECK: }
    // CHECK: nvvm.fence.proxy
    // CHECK: nvvm.mbarrier.arrive
    scf.if %some {
      %0 = llvm.load %data : !llvm.ptr<3> -> f32
    }
    "tile.release"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    // What a call reads isn't known.
    // CHECK: llvm.call @reads
    // CHECK: nvvm.fence.proxy
    // CHECK: nvvm.mbarrier.arrive
    llvm.call @reads() : () -> ()
    "tile.release"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    gpu.return
  }

  // Stores to other buffers, and to other stages, need no fence; one to the stage, or to an unknown address, does.
  // CHECK-LABEL: gpu.func @stores_after_a_fence
  gpu.func @stores_after_a_fence(%stage: i32, %other: i32, %data: !llvm.ptr<3>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %r = "tile.make_ring"() {emptied_by = "warps", consumers = 4} : () -> !tile.ring<3>
    %tiles = "tile.alloc"() : () -> !tile.buffer<array<i64: 3, 8, 4>, f32, #tile.layout<"S[(3,8,4):(32,4,1)]">, "shared">
    %mine = "tile.stage"(%tiles, %stage) : (!tile.buffer<array<i64: 3, 8, 4>, f32, #tile.layout<"S[(3,8,4):(32,4,1)]">, "shared">, i32) -> !tile.buffer<array<i64: 8, 4>, f32, #tile.layout<"S[(8,4):(4,1)]">, "shared">
    %another = "tile.stage"(%tiles, %other) : (!tile.buffer<array<i64: 3, 8, 4>, f32, #tile.layout<"S[(3,8,4):(32,4,1)]">, "shared">, i32) -> !tile.buffer<array<i64: 8, 4>, f32, #tile.layout<"S[(8,4):(4,1)]">, "shared">
    %at = "tile.address"(%mine) : (!tile.buffer<array<i64: 8, 4>, f32, #tile.layout<"S[(8,4):(4,1)]">, "shared">) -> !llvm.ptr<3>
    %elsewhere = "tile.address"(%another) : (!tile.buffer<array<i64: 8, 4>, f32, #tile.layout<"S[(8,4):(4,1)]">, "shared">) -> !llvm.ptr<3>
    // CHECK: nvvm.fence.proxy
    nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
    // CHECK: llvm.store
    // CHECK-NOT: nvvm.fence
    // CHECK: nvvm.mbarrier.arrive
    llvm.store %stage, %elsewhere : i32, !llvm.ptr<3>
    "tile.release"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    // CHECK: llvm.store
    // CHECK: nvvm.fence.proxy
    // CHECK: nvvm.mbarrier.arrive
    llvm.store %stage, %at : i32, !llvm.ptr<3>
    "tile.release"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    // CHECK: llvm.store
    // CHECK: nvvm.fence.proxy
    // CHECK: nvvm.mbarrier.arrive
    llvm.store %stage, %data : i32, !llvm.ptr<3>
    "tile.release"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    gpu.return
  }

  // An MMA empties what TMA fills: the mbarrier for empty is signaled when the thread's MMAs are done. The wait for the
  // data is fenced; that of the thread that copies isn't.
  // CHECK-LABEL: gpu.func @from_tma_to_mma
  // CHECK-SAME: (%[[STAGE:[a-z0-9]+]]: i32, %[[PHASE:[a-z0-9]+]]: i32)
  gpu.func @from_tma_to_mma(%stage: i32, %phase: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // CHECK: %[[BASE:.*]] = "tile.address"
    %r = "tile.make_ring"() {emptied_by = "mma", consumers = 1} : () -> !tile.ring<3>
    // CHECK: nvvm.mbarrier.try_wait
    // CHECK-NOT: tcgen05
    // CHECK: scf.if
    // CHECK: nvvm.mbarrier.try_wait
    // CHECK: }
    // CHECK-NEXT: scf.yield
    // CHECK: }
    // CHECK-NEXT: "tcgen05.fence"() {kind = "after_thread_sync"} : () -> ()
    // CHECK: %[[EMPTY:.*]] = llvm.getelementptr %[[BASE]]
    // CHECK-NEXT: "tcgen05.commit"(%[[EMPTY]]) {cta_group = 1 : i64} : (!llvm.ptr<3>) -> ()
    "tile.acquire"(%r, %stage, %phase) : (!tile.ring<3>, i32, i32) -> ()
    %one = nvvm.elect.sync -> i1
    scf.if %one {
      "tile.await"(%r, %stage, %phase) : (!tile.ring<3>, i32, i32) -> ()
      "tile.release"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    }
    gpu.return
  }

  // Warps read from tensor memory what an MMA wrote, and it may write again: both sides fence their waits, and the
  // warps what they have read.
  // CHECK-LABEL: gpu.func @from_mma_to_warps
  gpu.func @from_mma_to_warps(%stage: i32, %phase: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // CHECK: %[[BASE:.*]] = "tile.address"
    %r = "tile.make_ring"() {filled_by = "mma", emptied_by = "warps", consumers = 4} : () -> !tile.ring<3>
    %one = nvvm.elect.sync -> i1
    scf.if %one {
      // CHECK: nvvm.mbarrier.try_wait
      // CHECK: "tcgen05.fence"() {kind = "after_thread_sync"} : () -> ()
      "tile.acquire"(%r, %stage, %phase) : (!tile.ring<3>, i32, i32) -> ()
      // CHECK: %[[FULL:.*]] = llvm.getelementptr %[[BASE]]
      // CHECK-NEXT: "tcgen05.commit"(%[[FULL]]) {cta_group = 1 : i64} : (!llvm.ptr<3>) -> ()
      "tile.commit"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    }
    // CHECK: nvvm.mbarrier.try_wait
    // CHECK: "tcgen05.fence"() {kind = "after_thread_sync"} : () -> ()
    "tile.await"(%r, %stage, %phase) : (!tile.ring<3>, i32, i32) -> ()
    // CHECK-NEXT: "tcgen05.fence"() {kind = "before_thread_sync"} : () -> ()
    // CHECK: nvvm.bar.warp.sync
    // CHECK: scf.if
    // CHECK: nvvm.mbarrier.arrive
    "tile.release"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    gpu.return
  }
}

// Chips before sm_90 test a barrier without sleeping, and have no proxies.
gpu.module @before_sm_90 [#nvvm.target<chip = "sm_80">] {
  // CHECK-LABEL: gpu.func @copied_by_threads
  // CHECK-NOT: nvvm.fence
  gpu.func @copied_by_threads(%stage: i32, %phase: i32) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %r = "tile.make_ring"() {filled_by = "threads", producers = 32, emptied_by = "threads", consumers = 32} : () -> !tile.ring<3>
    // CHECK: nvvm.mbarrier.test.wait
    "tile.acquire"(%r, %stage, %phase) : (!tile.ring<3>, i32, i32) -> ()
    // Each thread arrives when its copies have.
    // CHECK: nvvm.cp.async.mbarrier.arrive %{{.*}} {noinc = true}
    // CHECK-NOT: nvvm.mbarrier.arrive
    "tile.commit"(%r, %stage) {copies = true} : (!tile.ring<3>, i32) -> ()
    // CHECK: nvvm.mbarrier.test.wait
    "tile.await"(%r, %stage, %phase) : (!tile.ring<3>, i32, i32) -> ()
    gpu.return
  }
}
