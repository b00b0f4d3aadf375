// RUN: weft-opt %s --lower-buffers | FileCheck %s

!Stages = !tile.buffer<array<i64: 3, 64, 64>, f16, #tile.layout<"S[(3,64,64):(4096,64,1)] xor 128B">, "shared">
!Stage = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!Sides = !tile.buffer<array<i64: 2, 8, 64>, f16, #tile.layout<"S[(2,8,64):(64,128,1)]">, "shared">
!Side = !tile.buffer<array<i64: 8, 64>, f16, #tile.layout<"S[(8,64):(128,1)]">, "shared">
!Panels = !tile.buffer<array<i64: 64, 256>, f16, #tile.layout<"S[(64,4,64):(64,4096,1)] xor 128B">, "shared">
!Two = !tile.buffer<array<i64: 64, 128>, f16, #tile.layout<"S[(64,2,64):(64,4096,1)] xor 128B">, "shared">
!Peer = !tile.buffer<array<i64: 64, 128>, f16, #tile.layout<"S[(64,2,64):(64,4096,1)] xor 128B">, "cluster">
!Small = !tile.buffer<array<i64: 5, 5>, f32, #tile.layout<"S[(5,5):(5,1)]">, "shared">
!Sums = !llvm.struct<(f32, f32, f32, f32)>

// CHECK: gpu.module @m
// CHECK-NEXT: llvm.mlir.global external @weft_shared() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
// CHECK-NOT: llvm.mlir.global
gpu.module @m {
  // Each buffer begins where its swizzle may, at multiples of 128 bytes without one: 0, 24576 and 24704; what a launch
  // needs stands on the kernel.
  // CHECK-LABEL: gpu.func @places
  // CHECK-SAME: weft.shared_bytes = 26752 : i32
  // CHECK-NOT: tile.
  gpu.func @places(%i: i32, %v: f32) kernel {
    // CHECK: %[[BASE:.*]] = llvm.mlir.addressof @weft_shared : !llvm.ptr<3>
    %0 = "tile.alloc"() : () -> !Stages
    // CHECK: %[[SMALL:.*]] = llvm.getelementptr %{{.*}}[24576] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
    %1 = "tile.alloc"() : () -> !Small
    // CHECK: %[[SIDES:.*]] = llvm.getelementptr %{{.*}}[24704] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
    %2 = "tile.alloc"() : () -> !Sides
    // Stages lie as far apart as the buffer's layout says: 8192 bytes one after the other, 128 side by side.
    // CHECK: %[[BYTES:.*]] = arith.constant 8192 : i32
    // CHECK: %[[OFFSET:.*]] = arith.muli %{{.*}}, %[[BYTES]] : i32
    // CHECK: %[[STAGE:.*]] = llvm.getelementptr %[[BASE]][%[[OFFSET]]]
    %3 = "tile.stage"(%0, %i) : (!Stages, i32) -> !Stage
    // CHECK: %[[ASIDE:.*]] = arith.constant 128 : i32
    // CHECK: %[[NEXT:.*]] = arith.muli %{{.*}}, %[[ASIDE]] : i32
    // CHECK: %[[SIDE:.*]] = llvm.getelementptr %[[SIDES]][%[[NEXT]]]
    %4 = "tile.stage"(%2, %i) : (!Sides, i32) -> !Side
    %5 = "tile.address"(%3) : (!Stage) -> !llvm.ptr<3>
    %6 = "tile.address"(%1) : (!Small) -> !llvm.ptr<3>
    %7 = "tile.address"(%4) : (!Side) -> !llvm.ptr<3>
    // CHECK: llvm.store %{{.*}}, %[[STAGE]]
    llvm.store %v, %5 : f32, !llvm.ptr<3>
    // CHECK: llvm.store %{{.*}}, %[[SMALL]]
    llvm.store %v, %6 : f32, !llvm.ptr<3>
    // CHECK: llvm.store %{{.*}}, %[[SIDE]]
    llvm.store %v, %7 : f32, !llvm.ptr<3>
    gpu.return
  }

  // Kernels share the symbol, not the places.
  // CHECK-LABEL: gpu.func @another
  // CHECK-SAME: weft.shared_bytes = 100 : i32
  // CHECK: llvm.mlir.addressof @weft_shared
  // CHECK-NOT: tile.
  gpu.func @another() kernel {
    %0 = "tile.alloc"() : () -> !Small
    gpu.return
  }

  // What lies over a buffer begins where that does, and adds only what goes beyond all that is there: 24576 + 128 bytes of
  // the two, 25600 of what lies over both, and what follows comes after it.
  // CHECK-LABEL: gpu.func @over
  // CHECK-SAME: weft.shared_bytes = 25700 : i32
  // CHECK-NOT: tile.
  gpu.func @over(%v: f32) kernel {
    // CHECK: %[[OVER:.*]] = llvm.mlir.addressof @weft_shared : !llvm.ptr<3>
    %0 = "tile.alloc"() : () -> !Stages
    // CHECK: llvm.getelementptr %[[OVER]][24576]
    %1 = "tile.alloc"() : () -> !Small
    %2 = "tile.alloc"(%0) : (!Stages) -> !tile.buffer<array<i64: 64, 100>, f32, #tile.layout<"S[(64,100):(100,1)]">, "shared">
    // CHECK: %[[AFTER:.*]] = llvm.getelementptr %{{.*}}[25600]
    %3 = "tile.alloc"() : () -> !Small
    %4 = "tile.address"(%2) : (!tile.buffer<array<i64: 64, 100>, f32, #tile.layout<"S[(64,100):(100,1)]">, "shared">) -> !llvm.ptr<3>
    %5 = "tile.address"(%3) : (!Small) -> !llvm.ptr<3>
    // CHECK: llvm.store %{{.*}}, %[[OVER]]
    llvm.store %v, %4 : f32, !llvm.ptr<3>
    // CHECK: llvm.store %{{.*}}, %[[AFTER]]
    llvm.store %v, %5 : f32, !llvm.ptr<3>
    gpu.return
  }

  // CHECK-LABEL: gpu.func @without
  // CHECK-NOT: weft.shared_bytes
  gpu.func @without() kernel {
    gpu.return
  }

  // A part lies where its first element does: rows are 64 elements apart, every 64 columns a panel of 4096.
  // CHECK-LABEL: gpu.func @parts
  // CHECK-SAME: (%[[ROW:[a-z0-9]+]]: i32, %[[COLUMN:[a-z0-9]+]]: i32,
  gpu.func @parts(%row: i32, %column: i32, %v: f32) kernel {
    // CHECK: %[[BASE:.*]] = llvm.mlir.addressof @weft_shared
    %0 = "tile.alloc"() : () -> !Panels
    // CHECK: %[[DOWN:.*]] = arith.muli %[[ROW]], %{{.*}} : i32
    // CHECK: %[[INSIDE:.*]] = arith.remui %[[COLUMN]], %{{.*}} : i32
    // CHECK: %[[PANEL:.*]] = arith.divui %[[COLUMN]], %{{.*}} : i32
    // CHECK: %[[APART:.*]] = arith.constant 4096 : i32
    // CHECK: %[[ACROSS:.*]] = arith.muli %[[PANEL]], %[[APART]] : i32
    // CHECK: %[[ALONG:.*]] = arith.addi %[[INSIDE]], %[[ACROSS]] : i32
    // CHECK: %[[ELEMENTS:.*]] = arith.addi %[[DOWN]], %[[ALONG]] : i32
    // CHECK: %[[SIZE:.*]] = arith.constant 2 : i32
    // CHECK: %[[BYTES:.*]] = arith.muli %[[ELEMENTS]], %[[SIZE]] : i32
    // CHECK: %[[PART:.*]] = llvm.getelementptr %[[BASE]][%[[BYTES]]]
    %1 = "tile.slice"(%0, %row, %column) : (!Panels, i32, i32) -> !Two
    // CHECK: llvm.store %{{.*}}, %[[PART]]
    %2 = "tile.address"(%1) : (!Two) -> !llvm.ptr<3>
    llvm.store %v, %2 : f32, !llvm.ptr<3>
    gpu.return
  }

  // The same place in another CTA of the cluster.
  // CHECK-LABEL: gpu.func @peers
  // CHECK-SAME: (%[[RANK:[a-z0-9]+]]: i32, %[[V:[a-z0-9]+]]: f32)
  // CHECK: %[[PEER:.*]] = nvvm.mapa %{{.*}}, %[[RANK]] : !llvm.ptr<3> -> !llvm.ptr<7>
  // CHECK: llvm.store %[[V]], %[[PEER]] : f32, !llvm.ptr<7>
  gpu.func @peers(%rank: i32, %v: f32) kernel {
    %0 = "tile.alloc"() : () -> !Two
    %1 = "tile.peer"(%0, %rank) : (!Two, i32) -> !Peer
    %2 = "tile.address"(%1) : (!Peer) -> !llvm.ptr<7>
    llvm.store %v, %2 : f32, !llvm.ptr<7>
    gpu.return
  }

  // In a kernel with matrix descriptors, which have to be in uniform registers, all addresses follow from what a shuffle
  // gives: lane 0's number.
  // CHECK-LABEL: gpu.func @descriptors
  // CHECK: %[[START:.*]] = llvm.mlir.addressof @weft_shared
  // CHECK: %[[LANE:.*]] = nvvm.read.ptx.sreg.laneid
  // CHECK: %[[ZERO:.*]] = nvvm.shfl.sync idx %{{.*}}, %[[LANE]], %{{.*}}, %{{.*}}
  // CHECK: %[[BASE:.*]] = llvm.getelementptr %[[START]][%[[ZERO]]]
  // CHECK: llvm.store %{{.*}}, %[[BASE]]
  gpu.func @descriptors(%v: f32, %a: i64, %sums: !Sums, %more: i1) kernel {
    %0 = "tile.alloc"() : () -> !Small
    %1 = "tile.address"(%0) : (!Small) -> !llvm.ptr<3>
    llvm.store %v, %1 : f32, !llvm.ptr<3>
    %2 = "wgmma.mma_async"(%sums, %a, %a, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1>, shape = "m64n8k16",
      a_type = "f16", b_type = "f16", d_type = "f32"} : (!Sums, i64, i64, i1) -> !Sums
    gpu.return
  }
}
