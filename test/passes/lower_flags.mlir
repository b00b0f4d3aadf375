// RUN: weft-opt %s --lower-flags | FileCheck %s

gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  // Loads at the scope of the system, until the flag isn't below the value, or the time is over.
  // CHECK-LABEL: gpu.func @copies
  // CHECK-SAME: %[[FLAGS:.*]]: memref<?xi32>, %[[I:.*]]: i32, %[[VALUE:.*]]: i32, %[[LIMIT:.*]]: i32
  // CHECK: %[[START:.*]] = nvvm.read.ptx.sreg.globaltimer
  // CHECK: scf.while
  // CHECK: %[[FLAG:.*]] = llvm.load %{{.*}} atomic acquire {alignment = 4 : i64}
  // CHECK: %[[LEFT:.*]] = arith.subi %[[FLAG]], %[[VALUE]]
  // CHECK: %[[BELOW:.*]] = arith.cmpi slt, %[[LEFT]]
  // CHECK: scf.condition(%[[BELOW]])
  // CHECK: %[[NOW:.*]] = nvvm.read.ptx.sreg.globaltimer
  // CHECK: %[[PASSED:.*]] = arith.subi %[[NOW]], %[[START]]
  // CHECK: arith.cmpi ugt, %[[PASSED]]
  // CHECK: llvm.intr.trap
  // CHECK: nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.global>}
  gpu.func @copies(%flags: memref<?xi32>, %i: i32, %value: i32, %limit: i32) kernel {
    "tile.await_flag"(%flags, %i, %value, %limit) {proxy = "async"} : (memref<?xi32>, i32, i32, i32) -> ()
    gpu.return
  }

  // Threads that load need no fence.
  // CHECK-LABEL: gpu.func @loads
  // CHECK: atomic acquire
  // CHECK-NOT: fence
  gpu.func @loads(%flags: memref<?xi32>, %i: i32, %value: i32, %limit: i32) kernel {
    "tile.await_flag"(%flags, %i, %value, %limit) {proxy = "generic"} : (memref<?xi32>, i32, i32, i32) -> ()
    gpu.return
  }
}
