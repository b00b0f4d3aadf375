// RUN: weft-opt %s --mlir-print-local-scope --lower-rings | FileCheck %s

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  // One request of the cluster fills the stages of both CTAs, whose readers all arrive at the CTA of rank 0.
  // CHECK-LABEL: gpu.func @cluster
  // CHECK-SAME: (%[[STAGE:[a-z0-9]+]]: i32)
  gpu.func @cluster(%stage: i32) kernel attributes {known_block_size = array<i32: 64, 1, 1>, known_cluster_size = array<i32: 2, 1, 1>} {
    // CHECK: %[[BASE:.*]] = "tile.address"
    // CHECK: "tile.alloc"() : () -> !tile.buffer<array<i64: 3, 4>, i32
    // CHECK: %[[ANSWERS:.*]] = "tile.address"
    // CHECK: %[[ONE:.*]] = arith.constant 1 : i32
    // CHECK: nvvm.mbarrier.init %{{.*}}, %[[ONE]]
    // CHECK: %[[READERS:.*]] = arith.constant 10 : i32
    // CHECK: nvvm.mbarrier.init %{{.*}}, %[[READERS]]
    %r = "tile.make_ring"() {filled_by = "clc", emptied_by = "threads", consumers = 5} : () -> !tile.ring<3>
    %one = nvvm.elect.sync -> i1
    scf.if %one {
      // CHECK: nvvm.elect.sync
      // CHECK: %[[ANSWER:.*]] = llvm.getelementptr %[[ANSWERS]]
      // CHECK: %[[FULL:.*]] = llvm.getelementptr %[[BASE]]
      // CHECK-NEXT: nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
      // CHECK-NEXT: nvvm.fence.proxy.sync_restrict {order = #nvvm.mem_order<acquire>}
      // CHECK: %[[BYTES:.*]] = arith.constant 16 : i32
      // CHECK: %[[FIRST:.*]] = nvvm.mapa %[[FULL]]
      // CHECK: nvvm.mbarrier.arrive.expect_tx %[[FIRST]], %[[BYTES]]
      // CHECK: %[[OTHER:.*]] = nvvm.mapa %[[FULL]]
      // CHECK: nvvm.mbarrier.arrive.expect_tx %[[OTHER]], %[[BYTES]]
      // CHECK: nvvm.clusterlaunchcontrol.try.cancel multicast, %[[ANSWER]], %[[FULL]]
      "tile.try_cancel"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    }
    // CHECK: %[[RESPONSE:.*]] = llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> i128
    // CHECK: %[[EXISTS:.*]] = nvvm.clusterlaunchcontrol.query.cancel query = is_canceled, %[[RESPONSE]] : i1
    // CHECK: scf.if %[[EXISTS]]
    // CHECK: %[[X:.*]] = nvvm.clusterlaunchcontrol.query.cancel query = get_first_cta_id_x, %[[RESPONSE]] : i32
    // CHECK: %[[OWN:.*]] = nvvm.read.ptx.sreg.cluster.ctaid.x
    // CHECK: arith.addi %[[X]], %[[OWN]]
    // CHECK: else
    // CHECK: }
    %exists, %x, %y, %z = "tile.query_cancel"(%r, %stage) : (!tile.ring<3>, i32) -> (i1, i32, i32, i32)
    // CHECK: nvvm.fence.proxy.sync_restrict {order = #nvvm.mem_order<release>}
    // CHECK: %[[ZERO:.*]] = arith.constant 0 : i32
    // CHECK: %[[EMPTY:.*]] = nvvm.mapa %{{.*}}, %[[ZERO]]
    // CHECK: nvvm.mbarrier.arrive %[[EMPTY]]
    "tile.release"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    gpu.return
  }

  // A CTA alone needs neither another's barrier nor a position in its cluster.
  // CHECK-LABEL: gpu.func @alone
  gpu.func @alone(%stage: i32) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    // CHECK: %[[READERS:.*]] = arith.constant 5 : i32
    // CHECK: nvvm.mbarrier.init %{{.*}}, %[[READERS]]
    // CHECK-NOT: {{mapa|multicast|cluster.ctaid}}
    // CHECK: gpu.return
    %r = "tile.make_ring"() {filled_by = "clc", emptied_by = "threads", consumers = 5} : () -> !tile.ring<3>
    %one = nvvm.elect.sync -> i1
    scf.if %one {
      "tile.try_cancel"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    }
    %exists, %x, %y, %z = "tile.query_cancel"(%r, %stage) : (!tile.ring<3>, i32) -> (i1, i32, i32, i32)
    "tile.release"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    gpu.return
  }

  // All lanes of a warp get one answer, so that collective operations may depend on it.
  // CHECK-LABEL: gpu.func @uniform
  gpu.func @uniform(%stage: i32) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %r = "tile.make_ring"() {filled_by = "clc", emptied_by = "warps", consumers = 2} : () -> !tile.ring<3>
    %exists, %x, %y, %z = "tile.query_cancel"(%r, %stage) : (!tile.ring<3>, i32) -> (i1, i32, i32, i32)
    %c0 = arith.constant 0 : i32
    %odd = arith.cmpi ne, %x, %c0 : i32
    scf.if %exists {
      scf.if %odd {
        // CHECK: nvvm.bar.warp.sync
        "tile.release"(%r, %stage) : (!tile.ring<3>, i32) -> ()
      }
    }
    gpu.return
  }
}
