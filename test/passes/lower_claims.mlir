// RUN: weft-opt %s --lower-claims | FileCheck %s

gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  // What the warp has written is met for and fenced; its first lane arrives, and all learn what the counter was. The last of three to
  // arrive fences what it has seen, turns the counter over and takes the shares of those who have stopped; one with a share
  // looks a while, acquiring, then sets its bit, unless all have arrived; the third has no share and goes on. No loop is one
  // lane's alone; what the first lane has acquired all see.
  // CHECK-LABEL: gpu.func @three
  // CHECK: nvvm.bar.warp.sync
  // CHECK-NEXT: llvm.fence syncscope("device") acq_rel
  // CHECK: %[[TOLD:.*]] = scf.if
  // CHECK: llvm.atomicrmw add %[[COUNTER:.*]], %{{.*}} syncscope("device") monotonic : !llvm.ptr<1>, i32
  // CHECK: %[[FOUND:.*]] = nvvm.shfl.sync idx %{{.*}}, %[[TOLD]],
  // CHECK: arith.andi %[[FOUND]]
  // CHECK: %[[ALL:.*]] = scf.if
  // CHECK-NEXT: llvm.fence syncscope("device") acq_rel
  // CHECK: llvm.atomicrmw xchg %[[COUNTER]], %{{.*}} syncscope("device") monotonic
  // CHECK: %[[STOPPED:.*]] = arith.shrui %[[FOUND]], %{{.*}} : i32
  // CHECK-NEXT: %[[PARTIES:.*]] = arith.constant 65535 : i32
  // CHECK-NEXT: arith.andi %[[STOPPED]], %[[PARTIES]] : i32
  // CHECK-NEXT: arith.ori
  // CHECK: } else {
  // CHECK: scf.while
  // CHECK: llvm.load %[[COUNTER]] atomic syncscope("device") acquire
  // CHECK: nvvm.shfl.sync idx
  // CHECK: scf.condition
  // CHECK: scf.while
  // CHECK: llvm.cmpxchg %[[COUNTER]], %{{.*}}, %{{.*}} syncscope("device") acquire acquire
  // CHECK: nvvm.shfl.sync idx
  // CHECK: scf.condition
  // CHECK-NOT: llvm.fence
  // CHECK: nvvm.bar.warp.sync
  // CHECK-NOT: tile.
  // CHECK: memref.store %[[ALL]]
  gpu.func @three(%counters: memref<?xi32>, %party: i32, %out: memref<?xi32>) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %zero = arith.constant 0 : i32
    %parties = arith.constant 3 : i32
    %shares = "tile.claim"(%counters, %zero, %party, %parties) {shares = 2} : (memref<?xi32>, i32, i32, i32) -> i32
    %thread = gpu.thread_id x
    memref.store %shares, %out[%thread] : memref<?xi32>
    gpu.return
  }

  // A warp looks a while whether all but it have arrived; nothing is written.
  // CHECK-LABEL: gpu.func @before
  // CHECK-SAME: %[[PARTIES:[a-z0-9]+]]: i32
  // CHECK-NOT: llvm.fence
  // CHECK: %[[ONE:.*]] = arith.constant 1 : i32
  // CHECK: %[[OTHERS:.*]] = arith.subi %[[PARTIES]], %[[ONE]] : i32
  // CHECK: %[[SEEN:.*]]:2 = scf.while
  // CHECK: llvm.load %{{.*}} atomic syncscope("device") acquire
  // CHECK: nvvm.shfl.sync idx
  // CHECK: arith.cmpi eq, %{{.*}}, %[[OTHERS]]
  // CHECK: arith.andi %[[SEEN]]#1
  // CHECK-NOT: llvm.atomicrmw
  // CHECK: %[[ARRIVED:.*]] = arith.cmpi eq, %{{.*}}, %[[OTHERS]]
  // CHECK: memref.store %[[ARRIVED]]
  gpu.func @before(%counters: memref<?xi32>, %parties: i32, %out: memref<?xi1>) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %zero = arith.constant 0 : i32
    %arrived = "tile.await_others"(%counters, %zero, %parties) : (memref<?xi32>, i32, i32) -> i1
    %thread = gpu.thread_id x
    memref.store %arrived, %out[%thread] : memref<?xi1>
    gpu.return
  }
}
