// RUN: weft-opt %s --lower-roles | FileCheck %s

gpu.module @m {
  // Of 384 threads each begins with 168 registers: the role with fewer gives some back, the other takes them. The
  // region's argument is the warpgroup's number in the role, which a warp's lanes read from one of them.
  // CHECK-LABEL: gpu.func @two_roles
  // CHECK-SAME: (%[[P:[a-z0-9]+]]: !llvm.ptr<1>)
  gpu.func @two_roles(%p: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 384, 1, 1>} {
    // CHECK: %[[SIZE:.*]] = arith.constant 128 : i32
    // CHECK: %[[OWN:.*]] = arith.divui %{{.*}}, %[[SIZE]] : i32
    // CHECK: %[[NUMBER:.*]] = nvvm.shfl.sync idx %{{.*}}, %[[OWN]], %{{.*}}, %{{.*}} : i32 -> i32
    // CHECK: %[[COUNT:.*]] = arith.constant 1 : i32
    // CHECK: %[[INSIDE:.*]] = arith.cmpi ult, %[[NUMBER]], %[[COUNT]] : i32
    // CHECK: scf.if %[[INSIDE]] {
    // CHECK-NEXT: nvvm.setmaxregister decrease 40
    // CHECK-NEXT: llvm.store %[[NUMBER]], %[[P]]
    // CHECK-NEXT: }
    "tile.role"() ({
    ^bb0(%number: i32):
      llvm.store %number, %p : i32, !llvm.ptr<1>
    }) {first = 0, warpgroups = 1, registers = 40} : () -> ()
    // Numbers below the first wrap to large ones: one comparison tells.
    // CHECK: %[[ALL:.*]] = nvvm.shfl.sync
    // CHECK: %[[FIRST:.*]] = arith.constant 1 : i32
    // CHECK: %[[OTHER:.*]] = arith.subi %[[ALL]], %[[FIRST]] : i32
    // CHECK: %[[TWO:.*]] = arith.constant 2 : i32
    // CHECK: %[[WITHIN:.*]] = arith.cmpi ult, %[[OTHER]], %[[TWO]] : i32
    // CHECK: scf.if %[[WITHIN]] {
    // CHECK-NEXT: nvvm.setmaxregister increase 232
    // CHECK-NEXT: llvm.store %[[OTHER]], %[[P]]
    "tile.role"() ({
    ^bb0(%number: i32):
      llvm.store %number, %p : i32, !llvm.ptr<1>
    }) {first = 1, warpgroups = 2, registers = 232} : () -> ()
    gpu.return
  }

  // Of 512 threads each has 128 registers: 120 are fewer, 128 are not.
  // CHECK-LABEL: gpu.func @share_of_a_larger_block
  // CHECK: nvvm.setmaxregister decrease 120
  // CHECK: nvvm.setmaxregister increase 128
  gpu.func @share_of_a_larger_block() kernel attributes {known_block_size = array<i32: 512, 1, 1>} {
    "tile.role"() ({
    ^bb0(%number: i32):
    }) {first = 0, warpgroups = 2, registers = 120} : () -> ()
    "tile.role"() ({
    ^bb0(%number: i32):
    }) {first = 2, warpgroups = 2, registers = 128} : () -> ()
    gpu.return
  }

  // A thread has at most 255 registers, which leaves 248 in steps of eight: a small block doesn't have more.
  // CHECK-LABEL: gpu.func @share_of_a_small_block
  // CHECK: nvvm.setmaxregister decrease 240
  // CHECK: nvvm.setmaxregister increase 248
  gpu.func @share_of_a_small_block() kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.role"() ({
    ^bb0(%number: i32):
    }) {first = 0, warpgroups = 1, registers = 240} : () -> ()
    "tile.role"() ({
    ^bb0(%number: i32):
    }) {first = 0, warpgroups = 1, registers = 248} : () -> ()
    gpu.return
  }

  // A role within a role, with the registers that it has: both branches, the inner one within the outer.
  // CHECK-LABEL: gpu.func @nested
  gpu.func @nested(%p: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 384, 1, 1>} {
    // CHECK-NOT: nvvm.setmaxregister
    // CHECK: scf.if
    // CHECK: llvm.store %[[OUTER:[a-z0-9]+]],
    // CHECK: %[[INNER:.*]] = arith.subi
    // CHECK: scf.if
    // CHECK: llvm.store %[[INNER]],
    // CHECK-NOT: tile.role
    // CHECK: gpu.return
    "tile.role"() ({
    ^bb0(%outer: i32):
      llvm.store %outer, %p : i32, !llvm.ptr<1>
      "tile.role"() ({
      ^bb0(%inner: i32):
        llvm.store %inner, %p : i32, !llvm.ptr<1>
      }) {first = 2, warpgroups = 1, registers = 0} : () -> ()
    }) {first = 1, warpgroups = 2, registers = 0} : () -> ()
    gpu.return
  }

  // Roles of warps: the argument is the warp's number in the role. They keep their registers, or those of the role of
  // warpgroups around them; warps are numbered in the CTA there too.
  // CHECK-LABEL: gpu.func @warps
  // CHECK-SAME: (%[[P:[a-z0-9]+]]: !llvm.ptr<1>)
  gpu.func @warps(%p: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    // CHECK: scf.if
    // CHECK-NEXT: nvvm.setmaxregister decrease 40
    // CHECK: %[[SIZE:.*]] = arith.constant 32 : i32
    // CHECK: %[[OWN:.*]] = arith.divui %{{.*}}, %[[SIZE]] : i32
    // CHECK: %[[ALL:.*]] = nvvm.shfl.sync idx %{{.*}}, %[[OWN]], %{{.*}}, %{{.*}} : i32 -> i32
    // CHECK: %[[FIRST:.*]] = arith.constant 5 : i32
    // CHECK: %[[NUMBER:.*]] = arith.subi %[[ALL]], %[[FIRST]] : i32
    // CHECK: %[[COUNT:.*]] = arith.constant 2 : i32
    // CHECK: %[[INSIDE:.*]] = arith.cmpi ult, %[[NUMBER]], %[[COUNT]] : i32
    // CHECK: scf.if %[[INSIDE]] {
    // CHECK-NEXT: llvm.store %[[NUMBER]], %[[P]]
    "tile.role"() ({
    ^bb0(%outer: i32):
      "tile.role"() ({
      ^bb0(%number: i32):
        llvm.store %number, %p : i32, !llvm.ptr<1>
      }) {first = 5, warps = 2} : () -> ()
    }) {first = 1, warpgroups = 1, registers = 40} : () -> ()
    gpu.return
  }
}
