// RUN: weft-opt %s --lower-copies --tile-explain-dispatch 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t

!SharedScales = !tile.buffer<array<i64: 256, 4>, f8E8M0FNU, #tile.layout<"S[(2,4,32,4):(512,4,16,1)]">, "shared">
!TensorScales = !tile.buffer<array<i64: 256, 4>, f8E8M0FNU, #tile.layout<"S[(8,32,4):(4@TCol,1@TLane,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
!SharedA = !tile.buffer<array<i64: 128, 32>, f16, #tile.layout<"S[(128,32):(64,1)] xor 128B">, "shared">
!TensorA = !tile.buffer<array<i64: 128, 32>, f16, #tile.layout<"S[(128,32):(1@TLane,1@TCol)]">, "tmem">

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  // Each tile of 512 bytes has the scales of 128 rows; a warp elects the thread that copies.
  // CHECK-LABEL: gpu.func @scales
  // CHECK: %[[FROM:.*]] = "tcgen05.shared_memory_descriptor"(%{{.*}}) {{{.*}}stride_byte_offset = 128 : i64{{.*}}}
  // CHECK: %[[TO:.*]] = "tile.address"
  // CHECK: nvvm.elect.sync
  // CHECK: scf.if
  // CHECK: "tcgen05.cp"(%[[TO]], %[[FROM]]) {cta_group = 2 : i64, multicast = "warpx4", shape = "32x128b"}
  // CHECK: %[[FURTHER:.*]] = llvm.getelementptr %[[TO]][4]
  // CHECK: arith.constant 32 : i32
  // CHECK: "tcgen05.cp"(%[[FURTHER]], %{{.*}}) {cta_group = 2 : i64, multicast = "warpx4", shape = "32x128b"}
  // WHY: remark: 'tile.copy_tmem' op is lowered to 2 x tcgen05.cp.32x128b.warpx4
  // WHY: note: tcgen05.cp.128x256b needs a source of groups of 8 rows, one after the other, of 16 contiguous elements, as wide as swizzle none
  // WHY-NEXT: note: tcgen05.cp.128x128b needs a source of groups of 8 rows
  gpu.func @scales(%s: !SharedScales, %t: !TensorScales) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.copy_tmem"(%s, %t) {cta_group = 2 : i64} : (!SharedScales, !TensorScales) -> ()
    gpu.return
  }

  // A swizzle stays: 32 bytes of each row are 2 units of 16 bytes further.
  // CHECK-LABEL: gpu.func @operand
  // CHECK: "tcgen05.shared_memory_descriptor"(%{{.*}}) {{{.*}}stride_byte_offset = 1024 : i64, swizzle = "128B"}
  // CHECK: "tcgen05.cp"(%{{.*}}, %{{.*}}) {cta_group = 1 : i64, multicast = "", shape = "128x256b"}
  // CHECK: arith.constant 2 : i32
  // CHECK: "tcgen05.cp"(%{{.*}}, %{{.*}}) {cta_group = 1 : i64, multicast = "", shape = "128x256b"}
  gpu.func @operand(%s: !SharedA, %t: !TensorA) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %one = nvvm.elect.sync -> i1
    scf.if %one {
      "tile.copy_tmem"(%s, %t) : (!SharedA, !TensorA) -> ()
    }
    gpu.return
  }
}
