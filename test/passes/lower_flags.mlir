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

  // A signal is a store with release at the scope of the system, to a pointer made from the address.
  // CHECK-LABEL: gpu.func @signals
  // CHECK-SAME: %[[ADDRESS:.*]]: i64, %[[I:.*]]: i32, %[[VALUE:.*]]: i32
  // CHECK: llvm.inttoptr %[[ADDRESS]] : i64 to !llvm.ptr<1>
  // CHECK: llvm.insertvalue
  // CHECK: builtin.unrealized_conversion_cast
  // CHECK: llvm.store %[[VALUE]], %{{.*}} atomic release {alignment = 4 : i64}
  gpu.func @signals(%address: i64, %i: i32, %value: i32) kernel {
    %flags = "tile.remote"(%address) : (i64) -> memref<?xi32, 1>
    "tile.signal"(%flags, %i, %value) : (memref<?xi32, 1>, i32, i32) -> ()
    gpu.return
  }

  // The last thread to arrive acquires what the others have released, and sets the counter to 0.
  // CHECK-LABEL: gpu.func @counts
  // CHECK: llvm.fence syncscope("device") acq_rel
  // CHECK: %[[BEFORE:.*]] = llvm.atomicrmw add %{{.*}}, %{{.*}} syncscope("device") monotonic
  // CHECK: %[[LAST:.*]] = arith.cmpi eq, %[[BEFORE]], %{{.*}}
  // CHECK: scf.if %[[LAST]]
  // CHECK-NEXT: llvm.fence syncscope("device") acq_rel
  // CHECK: llvm.store
  gpu.func @counts(%counters: memref<?xi32>, %i: i32, %count: i32) kernel {
    %0 = "tile.is_last"(%counters, %i, %count) : (memref<?xi32>, i32, i32) -> i1
    gpu.return
  }

  // A buffer is sent by one bulk copy.
  // CHECK-LABEL: gpu.func @sends
  // CHECK: %[[FROM:.*]] = "tile.address"
  // CHECK: %[[SIZE:.*]] = arith.constant 2048 : i32
  // CHECK: nvvm.cp.async.bulk.global.shared.cta %{{.*}}, %[[FROM]], %[[SIZE]]
  gpu.func @sends(%address: i64, %i: i32) kernel {
    %0 = "tile.alloc"() : () -> !tile.buffer<array<i64: 128, 8>, bf16, #tile.layout<"S[(128,8):(8,1)]">, "shared">
    %1 = "tile.remote"(%address) : (i64) -> memref<?xbf16, 1>
    "tile.send_async"(%0, %1, %i)
      : (!tile.buffer<array<i64: 128, 8>, bf16, #tile.layout<"S[(128,8):(8,1)]">, "shared">, memref<?xbf16, 1>, i32) -> ()
    gpu.return
  }
}
