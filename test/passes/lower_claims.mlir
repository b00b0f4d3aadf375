// RUN: weft-opt %s --lower-claims | FileCheck %s

gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  // What the warp has written is fenced; its first lane arrives. The last of three to do so turns the counter over and takes
  // the shares of those who have stopped; one with a share looks a while, then sets its bit, unless all have arrived; the
  // third has no share and goes on. All lanes learn what the first one has.
  // CHECK-LABEL: gpu.func @three
  // CHECK: llvm.fence syncscope("device") acq_rel
  // CHECK: nvvm.bar.warp.sync
  // CHECK: %[[SPOKEN:.*]] = scf.if
  // CHECK: llvm.atomicrmw add %[[COUNTER:.*]], %{{.*}} syncscope("device") monotonic : !llvm.ptr<1>, i32
  // CHECK: scf.if
  // CHECK: llvm.atomicrmw xchg %[[COUNTER]], %{{.*}} syncscope("device") monotonic
  // CHECK: arith.ori
  // CHECK: scf.while
  // CHECK: llvm.load %[[COUNTER]] atomic syncscope("device") monotonic
  // CHECK: scf.while
  // CHECK: llvm.cmpxchg %[[COUNTER]], %{{.*}}, %{{.*}} syncscope("device") monotonic monotonic
  // CHECK: %[[ALL:.*]], %{{.*}} = gpu.shuffle idx %[[SPOKEN]]
  // CHECK: llvm.fence syncscope("device") acq_rel
  // CHECK-NOT: tile.
  // CHECK: memref.store %[[ALL]]
  gpu.func @three(%counters: memref<?xi32>, %party: i32, %out: memref<?xi32>) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %zero = arith.constant 0 : i32
    %shares = "tile.claim"(%counters, %zero, %party) {parties = 3, shares = 2} : (memref<?xi32>, i32, i32) -> i32
    %thread = gpu.thread_id x
    memref.store %shares, %out[%thread] : memref<?xi32>
    gpu.return
  }
}
