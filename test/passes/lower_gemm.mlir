// RUN: weft-opt %s --lower-gemm --split-input-file | FileCheck %s
// RUN: weft-opt %s --lower-gemm --split-input-file | FileCheck %s --check-prefix=PACKED

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
#other = #tile.layout<"S[(2,8,4,2):(1,4@laneid,1@laneid,2)]">

gpu.module @m {
  // m16n8k16 is tried first. beta 0: the accumulators start from zeros.
  // CHECK-LABEL: @k16
  gpu.func @k16(%a: !A, %b: !B) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // CHECK: %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : vector<4xf32>
    // CHECK: %[[C:.*]]:4 = vector.to_elements %[[ZERO]]
    // CHECK: "mma.sync"
    // CHECK-SAME: %[[C]]#0, %[[C]]#1, %[[C]]#2, %[[C]]#3)
    // CHECK-SAME: operandSegmentSizes = array<i32: 4, 2, 4>, shape = "m16n8k16"
    // CHECK-NOT: "mma.sync"
    // CHECK-COUNT-4: llvm.extractvalue
    // CHECK: "tile.from_lane"
    %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
    gpu.return
  }

  // Pairs of elements are registers, in the order in which lanes hold them: A [rM, kHi], B [kHi].
  // CHECK-LABEL: @registers
  gpu.func @registers(%x: vector<8xf16>, %y: vector<4xf16>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // CHECK: %[[A:.*]]:8 = vector.to_elements
    // CHECK: %[[B:.*]]:4 = vector.to_elements
    // CHECK: %[[A0:.*]] = vector.from_elements %[[A]]#0, %[[A]]#1 : vector<2xf16>
    // CHECK: %[[A1:.*]] = vector.from_elements %[[A]]#2, %[[A]]#3 : vector<2xf16>
    // CHECK: %[[A2:.*]] = vector.from_elements %[[A]]#4, %[[A]]#5 : vector<2xf16>
    // CHECK: %[[A3:.*]] = vector.from_elements %[[A]]#6, %[[A]]#7 : vector<2xf16>
    // CHECK: %[[B0:.*]] = vector.from_elements %[[B]]#0, %[[B]]#1 : vector<2xf16>
    // CHECK: %[[B1:.*]] = vector.from_elements %[[B]]#2, %[[B]]#3 : vector<2xf16>
    // CHECK: "mma.sync"(%[[A0]], %[[A1]], %[[A2]], %[[A3]], %[[B0]], %[[B1]]
    %a = "tile.from_lane"(%x) : (vector<8xf16>) -> !A
    %b = "tile.from_lane"(%y) : (vector<4xf16>) -> !B
    %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
    gpu.return
  }

  // Another order of a lane's registers is a renaming.
  // CHECK-LABEL: @registers_in_another_order
  gpu.func @registers_in_another_order(%x: vector<8xf16>, %b: !B) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // CHECK: %[[A:.*]]:8 = vector.to_elements
    // CHECK: vector.from_elements %[[A]]#0, %[[A]]#4 : vector<2xf16>
    // CHECK: vector.from_elements %[[A]]#1, %[[A]]#5 : vector<2xf16>
    // CHECK: vector.from_elements %[[A]]#2, %[[A]]#6 : vector<2xf16>
    // CHECK: vector.from_elements %[[A]]#3, %[[A]]#7 : vector<2xf16>
    // CHECK: "mma.sync"
    %a = "tile.from_lane"(%x) : (vector<8xf16>)
      -> tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(1,4@laneid,2,1@laneid,4)]">>
    %0 = "tile.gemm"(%a, %b) : (tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(1,4@laneid,2,1@laneid,4)]">>, !B) -> !D
    gpu.return
  }

  // beta 1: C is where the accumulators start, in whatever order its lanes hold it.
  // CHECK-LABEL: @accumulate
  gpu.func @accumulate(%a: !A, %b: !B, %c: vector<4xf32>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // CHECK: %[[C:.*]]:4 = vector.to_elements %{{.*}} : vector<4xf32>
    // CHECK: "mma.sync"
    // CHECK-SAME: %[[C]]#0, %[[C]]#1, %[[C]]#2, %[[C]]#3)
    %0 = "tile.from_lane"(%c) : (vector<4xf32>) -> !D
    %1 = "tile.gemm"(%a, %b, %0) {beta = 1.0 : f32} : (!A, !B, !D) -> !D
    // CHECK: %[[E:.*]]:4 = vector.to_elements %{{.*}} : vector<4xf32>
    // CHECK: %[[SORTED:.*]] = vector.from_elements %[[E]]#0, %[[E]]#2, %[[E]]#1, %[[E]]#3
    // CHECK: %[[S:.*]]:4 = vector.to_elements %[[SORTED]]
    // CHECK: "mma.sync"
    // CHECK-SAME: %[[S]]#0, %[[S]]#1, %[[S]]#2, %[[S]]#3)
    %2 = "tile.from_lane"(%c) : (vector<4xf32>) -> tensor<16x8xf32, #other>
    %3 = "tile.gemm"(%a, %b, %2) {beta = 1.0 : f32} : (!A, !B, tensor<16x8xf32, #other>) -> !D
    // beta 0 doesn't read C.
    // CHECK: %[[Z:.*]]:4 = vector.to_elements %{{.*}} : vector<4xf32>
    // CHECK: "mma.sync"
    // CHECK-SAME: %[[Z]]#0, %[[Z]]#1, %[[Z]]#2, %[[Z]]#3)
    %4 = "tile.gemm"(%a, %b, %0) : (!A, !B, !D) -> !D
    gpu.return
  }
}

// -----

// K % 16 != 0: the k8 form, one for each 8 of K, each adding to the one before.
!A = tensor<16x24xf16, #tile.layout<"S[(2,8,3,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<24x8xf16, #tile.layout<"S[(3,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>

gpu.module @m {
  // CHECK-LABEL: @k8
  gpu.func @k8(%a: !A, %b: !B) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // CHECK: %[[FIRST:.*]] = "mma.sync"
    // CHECK-SAME: operandSegmentSizes = array<i32: 2, 1, 4>, shape = "m16n8k8"
    // CHECK-NEXT: %[[X:.*]] = llvm.extractvalue %[[FIRST]][0]
    // CHECK: %[[SECOND:.*]] = "mma.sync"
    // CHECK-SAME: %[[X]],
    // CHECK-NEXT: %[[Y:.*]] = llvm.extractvalue %[[SECOND]][0]
    // CHECK: "mma.sync"
    // CHECK-SAME: %[[Y]],
    // CHECK-NOT: "mma.sync"
    // CHECK: gpu.return
    %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
    gpu.return
  }
}

// -----

// Two by three tiles, two deep: the nest is unrolled, one mma for each, bf16 in registers of 32 bits.
// Each register is packed once: 16 of A and 12 of B.
!A = tensor<32x32xbf16, #tile.layout<"S[(2,2,8,2,2,4,2):(16,2,4@laneid,8,4,1@laneid,1)]">>
!B = tensor<32x24xbf16, #tile.layout<"S[(2,2,4,2,3,8):(12,2,1@laneid,1,4,4@laneid)]">>
!D = tensor<32x24xf32, #tile.layout<"S[(2,2,8,3,4,2):(12,2,4@laneid,4,1@laneid,1)]">>

gpu.module @m {
  // CHECK-LABEL: @nest
  gpu.func @nest(%a: !A, %b: !B) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // CHECK: llvm.bitcast %{{.*}} : vector<2xbf16> to i32
    // PACKED-LABEL: @nest
    // PACKED-COUNT-28: llvm.bitcast
    // PACKED-NOT: llvm.bitcast
    // PACKED-LABEL: @old_chip
    // CHECK-COUNT-12: "mma.sync"
    // CHECK-NOT: "mma.sync"
    // CHECK: vector.from_elements
    // CHECK-SAME: vector<24xf32>
    %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
    gpu.return
  }
}

// -----

// A chip that has the k8 form alone gets it, K % 16 == 0 or not.
!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>

gpu.module @m [#nvvm.target<chip = "sm_75">] {
  // CHECK-LABEL: @old_chip
  gpu.func @old_chip(%v: vector<8xf16>, %w: vector<4xf16>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    // CHECK-COUNT-2: shape = "m16n8k8"
    // CHECK-NOT: "mma.sync"
    %a = "tile.from_lane"(%v) : (vector<8xf16>) -> !A
    %b = "tile.from_lane"(%w) : (vector<4xf16>) -> !B
    %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
    gpu.return
  }
}

// -----

// Branches that a whole warp takes together.
!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>

gpu.module @m {
  // CHECK-LABEL: @uniform_branches
  gpu.func @uniform_branches(%v: vector<8xf16>, %w: vector<4xf16>, %n: index, %m: memref<8xindex>) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %a = "tile.from_lane"(%v) : (vector<8xf16>) -> !A
    %b = "tile.from_lane"(%w) : (vector<4xf16>) -> !B
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %thread = gpu.thread_id x
    %warp = arith.divui %thread, %c32 : index
    %block = gpu.block_id x
    %first = arith.cmpi eq, %warp, %c0 : index
    %count = memref.load %m[%block] : memref<8xindex>
    // CHECK-COUNT-2: "mma.sync"
    scf.if %first {
      %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
    }
    scf.for %i = %warp to %count step %c1 {
      %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
    }
    // What all lanes read from one of them is the same, whatever it was.
    // CHECK: "mma.sync"
    %all = arith.constant -1 : i32
    %lane0 = arith.constant 0 : i32
    %clamp = arith.constant 31 : i32
    %own = arith.index_cast %thread : index to i32
    %read = nvvm.shfl.sync idx %all, %own, %lane0, %clamp : i32 -> i32
    %is0 = arith.cmpi eq, %read, %lane0 : i32
    scf.if %is0 {
      %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
    }
    // CHECK: cf.cond_br
    // CHECK: "mma.sync"
    %some = arith.cmpi ult, %block, %n : index
    cf.cond_br %some, ^bb1, ^bb2
  ^bb1:
    %1 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
    cf.br ^bb2
  ^bb2:
    gpu.return
  }
}
