// RUN: weft-opt %s --lower-claims --split-input-file --verify-diagnostics

gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  gpu.func @by_lane(%counters: memref<?xi32>, %party: i32, %n: index) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %thread = gpu.thread_id x
    %some = arith.cmpi ult, %thread, %n : index
    scf.if %some {
      // expected-error @below {{'tile.claim' op expects all 32 lanes of the warp to reach it together, but 'scf.if' depends on the lane}}
      %0 = "tile.claim"(%counters, %party, %party, %party) {shares = 2} : (memref<?xi32>, i32, i32, i32) -> i32
    }
    gpu.return
  }
}
