// RUN: weft-opt %s --lower-gemm-async | FileCheck %s

!D8 = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
!I8 = tensor<64x8xi32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
!R8 = tensor<64x8xbf16, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
!D64 = tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!D128 = tensor<64x128xf32, #tile.layout<"S[(4,2,8,16,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!Tall8 = tensor<128x8xf32, #tile.layout<"S[(2,4,2,8,4,2):(4,1@warpid,2,4@laneid,1@laneid,1)]">>

!A64 = !tile.buffer<array<i64: 64, 64>, bf16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!B64 = !tile.buffer<array<i64: 8, 64>, bf16, #tile.layout<"S[(8,64):(64,1)] xor 128B">, "shared">
!A128 = !tile.buffer<array<i64: 64, 128>, bf16, #tile.layout<"S[(64,2,64):(64,4096,1)] xor 128B">, "shared">
!B128 = !tile.buffer<array<i64: 8, 128>, bf16, #tile.layout<"S[(8,2,64):(64,512,1)] xor 128B">, "shared">
!A16 = !tile.buffer<array<i64: 64, 16>, bf16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B16 = !tile.buffer<array<i64: 8, 16>, bf16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!Tall16 = !tile.buffer<array<i64: 128, 16>, bf16, #tile.layout<"S[(128,16):(16,1)] xor 32B">, "shared">
!A32 = !tile.buffer<array<i64: 64, 32>, bf16, #tile.layout<"S[(64,32):(32,1)] xor 64B">, "shared">
!N64 = !tile.buffer<array<i64: 32, 64>, bf16, #tile.layout<"S[(32,64):(64,1)] xor 128B">, "shared">
!N128 = !tile.buffer<array<i64: 32, 128>, bf16, #tile.layout<"S[(32,2,64):(64,2048,1)] xor 128B">, "shared">
!Stages = !tile.buffer<array<i64: 3, 128, 64>, bf16, #tile.layout<"S[(3,128,64):(8192,64,1)] xor 128B">, "shared">
!Stage = !tile.buffer<array<i64: 128, 64>, bf16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!Wides = !tile.buffer<array<i64: 3, 32, 256>, bf16, #tile.layout<"S[(3,32,4,64):(8192,64,2048,1)] xor 128B">, "shared">
!Wide = !tile.buffer<array<i64: 32, 256>, bf16, #tile.layout<"S[(32,4,64):(64,2048,1)] xor 128B">, "shared">
!M128 = !tile.buffer<array<i64: 16, 128>, bf16, #tile.layout<"S[(16,2,64):(64,1024,1)] xor 128B">, "shared">

gpu.module @m {
  // Four steps of 32 bytes through a row of 128, two units of a descriptor each. The first adds to C where it is told
  // to, the others always. Rows in groups of eight lie one after the other.
  // CHECK-LABEL: gpu.func @k_major
  // CHECK-SAME: %[[MORE:[a-z0-9]+]]: i1)
  gpu.func @k_major(%a: !A64, %b: !B64, %v: vector<4xf32>, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // CHECK: %[[C:.*]] = "tile.from_lane"
    // CHECK: %[[B:.*]] = "wgmma.descriptor"(%{{.*}}) {stride_byte_offset = 1024 : i64, swizzle = "128B"}
    // CHECK: %[[A:.*]] = "wgmma.descriptor"(%{{.*}}) {stride_byte_offset = 1024 : i64, swizzle = "128B"}
    // CHECK: %[[LANE:.*]] = "tile.to_lane"(%[[C]])
    // CHECK: %[[C4:.*]]:4 = vector.to_elements %[[LANE]]
    // CHECK: "wgmma.fence"
    // CHECK: llvm.insertvalue %[[C4]]#0
    // CHECK: %[[S0:.*]] = llvm.insertvalue %[[C4]]#3
    // CHECK: %[[S1:.*]] = "wgmma.mma_async"(%[[S0]], %[[A]], %[[B]], %[[MORE]])
    // CHECK-SAME: {a_type = "bf16", b_type = "bf16", d_type = "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1>, shape = "m64n8k16"}
    // CHECK: llvm.bitcast %[[A]] : i64 to vector<2xi32>
    // CHECK: %[[N:.*]] = arith.constant 2 : i32
    // CHECK: arith.addi %{{.*}}#0, %[[N]] : i32
    // CHECK: %[[A1:.*]] = llvm.bitcast %{{.*}} : vector<2xi32> to i64
    // CHECK: llvm.bitcast %[[B]] : i64 to vector<2xi32>
    // CHECK: %[[N:.*]] = arith.constant 2 : i32
    // CHECK: arith.addi %{{.*}}#0, %[[N]] : i32
    // CHECK: %[[B1:.*]] = llvm.bitcast %{{.*}} : vector<2xi32> to i64
    // CHECK: %[[TRUE:.*]] = arith.constant true
    // CHECK: %[[S2:.*]] = "wgmma.mma_async"(%[[S1]], %[[A1]], %[[B1]], %[[TRUE]])
    // CHECK: llvm.bitcast %[[A]] : i64 to vector<2xi32>
    // CHECK: %[[N:.*]] = arith.constant 4 : i32
    // CHECK: arith.addi %{{.*}}#0, %[[N]] : i32
    // CHECK: llvm.bitcast %{{.*}} : vector<2xi32> to i64
    // CHECK: %[[S3:.*]] = "wgmma.mma_async"(%[[S2]],
    // CHECK: llvm.bitcast %[[A]] : i64 to vector<2xi32>
    // CHECK: %[[N:.*]] = arith.constant 6 : i32
    // CHECK: arith.addi %{{.*}}#0, %[[N]] : i32
    // CHECK: llvm.bitcast %{{.*}} : vector<2xi32> to i64
    // CHECK: %[[S4:.*]] = "wgmma.mma_async"(%[[S3]],
    // CHECK-NOT: "wgmma.mma_async"
    // CHECK: llvm.extractvalue %[[S4]][3]
    // CHECK: "wgmma.commit_group"
    // CHECK: "tile.from_lane"
    %c = "tile.from_lane"(%v) : (vector<4xf32>) -> !D8
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A64, !B64, !D8, i1) -> !D8
    gpu.return
  }

  // A part of a stage: the descriptor of all stages is moved to the part first, which lies alike in each of them, then to
  // the stage. Addresses in it count 16 bytes: a row is 64 elements of 2, a stage 1024 times 16.
  // CHECK-LABEL: gpu.func @part_of_a_stage
  // CHECK-SAME: %[[STAGE:[a-z0-9]+]]: i32, %[[ROW:[a-z0-9]+]]: i32)
  gpu.func @part_of_a_stage(%b: !B64, %c: !D8, %more: i1, %stage: i32, %row: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // CHECK: %[[ALL:.*]] = "tile.alloc"
    // CHECK: %[[START:.*]] = "tile.address"(%[[ALL]])
    // CHECK: %[[A:.*]] = "wgmma.descriptor"(%[[START]])
    // CHECK: %[[N:.*]] = arith.constant 64 : i32
    // CHECK: arith.muli %[[ROW]], %[[N]] : i32
    // CHECK: %[[N:.*]] = arith.constant 16 : i32
    // CHECK: %[[BELOW:.*]] = arith.divui %{{.*}}, %[[N]] : i32
    // CHECK: llvm.bitcast %[[A]] : i64 to vector<2xi32>
    // CHECK: arith.addi %{{.*}}#0, %[[BELOW]] : i32
    // CHECK: %[[PART:.*]] = llvm.bitcast %{{.*}} : vector<2xi32> to i64
    // CHECK: %[[N:.*]] = arith.constant 1024 : i32
    // CHECK: %[[FAR:.*]] = arith.muli %[[STAGE]], %[[N]] : i32
    // CHECK: llvm.bitcast %[[PART]] : i64 to vector<2xi32>
    // CHECK: arith.addi %{{.*}}#0, %[[FAR]] : i32
    // CHECK: %[[IN_STAGE:.*]] = llvm.bitcast %{{.*}} : vector<2xi32> to i64
    // CHECK: "wgmma.mma_async"(%{{.*}}, %[[IN_STAGE]],
    %all = "tile.alloc"() : () -> !Stages
    %zero = arith.constant 0 : i32
    %one = "tile.stage"(%all, %stage) : (!Stages, i32) -> !Stage
    %a = "tile.slice"(%one, %row, %zero) : (!Stage, i32, i32) -> !A64
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A64, !B64, !D8, i1) -> !D8
    gpu.return
  }

  // Columns of an MN-major stage: panels of 64 columns, 2048 elements each.
  // CHECK-LABEL: gpu.func @columns_of_a_stage
  // CHECK-SAME: %[[STAGE:[a-z0-9]+]]: i32, %[[COLUMN:[a-z0-9]+]]: i32)
  gpu.func @columns_of_a_stage(%a: !A32, %c: !D128, %more: i1, %stage: i32, %column: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // CHECK: "wgmma.descriptor"
    // CHECK: %[[IN_PANEL:.*]] = arith.remui %[[COLUMN]]
    // CHECK: %[[PANEL:.*]] = arith.divui %[[COLUMN]]
    // CHECK: %[[N:.*]] = arith.constant 2048 : i32
    // CHECK: %[[PANELS:.*]] = arith.muli %[[PANEL]], %[[N]] : i32
    // CHECK: %[[BESIDE:.*]] = arith.addi %[[IN_PANEL]], %[[PANELS]] : i32
    // CHECK: %[[ELEMENTS:.*]] = arith.addi %{{.*}}, %[[BESIDE]] : i32
    // CHECK: %[[N:.*]] = arith.constant 2 : i32
    // CHECK: %[[BYTES:.*]] = arith.muli %[[ELEMENTS]], %[[N]] : i32
    // CHECK: %[[N:.*]] = arith.constant 16 : i32
    // CHECK: %[[UNITS:.*]] = arith.divui %[[BYTES]], %[[N]] : i32
    // CHECK: arith.addi %{{.*}}#0, %[[UNITS]] : i32
    // CHECK: arith.muli %[[STAGE]]
    %all = "tile.alloc"() : () -> !Wides
    %zero = arith.constant 0 : i32
    %one = "tile.stage"(%all, %stage) : (!Wides, i32) -> !Wide
    %b = "tile.slice"(%one, %zero, %column) : (!Wide, i32, i32) -> !N128
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>} : (!A32, !N128, !D128, i1) -> !D128
    gpu.return
  }

  // The fifth step begins the next panel: 8192 bytes further in A, 1024 in B.
  // CHECK-LABEL: gpu.func @k_in_panels
  gpu.func @k_in_panels(%a: !A128, %b: !B128, %c: !D8, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // CHECK: %[[B:.*]] = "wgmma.descriptor"(%{{.*}}) {stride_byte_offset = 1024 : i64, swizzle = "128B"}
    // CHECK: %[[A:.*]] = "wgmma.descriptor"(%{{.*}}) {stride_byte_offset = 1024 : i64, swizzle = "128B"}
    // CHECK-COUNT-4: "wgmma.mma_async"
    // CHECK: llvm.bitcast %[[A]] : i64 to vector<2xi32>
    // CHECK: %[[N:.*]] = arith.constant 512 : i32
    // CHECK: arith.addi %{{.*}}#0, %[[N]] : i32
    // CHECK: %[[A4:.*]] = llvm.bitcast %{{.*}} : vector<2xi32> to i64
    // CHECK: llvm.bitcast %[[B]] : i64 to vector<2xi32>
    // CHECK: %[[N:.*]] = arith.constant 64 : i32
    // CHECK: arith.addi %{{.*}}#0, %[[N]] : i32
    // CHECK: %[[B4:.*]] = llvm.bitcast %{{.*}} : vector<2xi32> to i64
    // CHECK: "wgmma.mma_async"(%{{.*}}, %[[A4]], %[[B4]],
    // CHECK: llvm.bitcast %[[A]] : i64 to vector<2xi32>
    // CHECK: %[[N:.*]] = arith.constant 514 : i32
    // CHECK: arith.addi %{{.*}}#0, %[[N]] : i32
    // CHECK: llvm.bitcast %{{.*}} : vector<2xi32> to i64
    // CHECK: llvm.bitcast %[[B]] : i64 to vector<2xi32>
    // CHECK: %[[N:.*]] = arith.constant 66 : i32
    // CHECK: arith.addi %{{.*}}#0, %[[N]] : i32
    // CHECK: llvm.bitcast %{{.*}} : vector<2xi32> to i64
    // CHECK-COUNT-3: "wgmma.mma_async"
    // CHECK-NOT: "wgmma.mma_async"
    // CHECK: gpu.return
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A128, !B128, !D8, i1) -> !D8
    gpu.return
  }

  // Rows of 64 bytes, and of 32.
  // CHECK-LABEL: gpu.func @narrower_swizzles
  gpu.func @narrower_swizzles(%a: !A32, %s: !A16, %t: !B16, %c: !D64, %d: !D8, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // CHECK: "wgmma.descriptor"(%{{.*}}) {stride_byte_offset = 512 : i64, swizzle = "64B"}
    // CHECK-COUNT-2: "wgmma.mma_async"
    %0 = "tile.gemm_async"(%a, %a, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A32, !A32, !D64, i1) -> !D64
    // CHECK: "wgmma.descriptor"(%{{.*}}) {stride_byte_offset = 256 : i64, swizzle = "32B"}
    // CHECK: "wgmma.mma_async"
    // CHECK-NOT: "wgmma.mma_async"
    // CHECK: gpu.return
    %1 = "tile.gemm_async"(%s, %t, %d, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A16, !B16, !D8, i1) -> !D8
    gpu.return
  }

  // N runs fastest: groups of eight rows of K, and panels of 64 columns. A step is 16 rows on.
  // CHECK-LABEL: gpu.func @n_major
  gpu.func @n_major(%a: !A32, %b: !N128, %c: !D128, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // CHECK: %[[B:.*]] = "wgmma.descriptor"(%{{.*}}) {leading_byte_offset = 4096 : i64, stride_byte_offset = 1024 : i64, swizzle = "128B"}
    // CHECK: "wgmma.mma_async"
    // CHECK-SAME: shape = "m64n128k16", trans_b = 1 : i64}
    // CHECK: llvm.bitcast %[[B]] : i64 to vector<2xi32>
    // CHECK: %[[N:.*]] = arith.constant 128 : i32
    // CHECK: arith.addi %{{.*}}#0, %[[N]] : i32
    // CHECK: %[[B1:.*]] = llvm.bitcast %{{.*}} : vector<2xi32> to i64
    // CHECK: "wgmma.mma_async"(%{{.*}}, %{{.*}}, %[[B1]],
    // CHECK-SAME: trans_b = 1 : i64}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>} : (!A32, !N128, !D128, i1) -> !D128
    gpu.return
  }

  // One panel needs no distance to another.
  // CHECK-LABEL: gpu.func @n_major_in_one_panel
  // CHECK: "wgmma.descriptor"(%{{.*}}) {stride_byte_offset = 1024 : i64, swizzle = "128B"}
  // CHECK: trans_b = 1 : i64}
  gpu.func @n_major_in_one_panel(%a: !A32, %b: !N64, %c: !D64, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>} : (!A32, !N64, !D64, i1) -> !D64
    gpu.return
  }

  // M runs fastest, and the second 64 rows are the second panel.
  // CHECK-LABEL: gpu.func @m_inside
  gpu.func @m_inside(%a: !M128, %b: !B16, %c: !Tall8, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // CHECK: %[[A:.*]] = "wgmma.descriptor"(%{{.*}}) {leading_byte_offset = 2048 : i64, stride_byte_offset = 1024 : i64, swizzle = "128B"}
    // CHECK: "wgmma.mma_async"(%{{.*}}, %[[A]],
    // CHECK-SAME: trans_a = 1 : i64}
    // CHECK: llvm.bitcast %[[A]] : i64 to vector<2xi32>
    // CHECK: %[[N:.*]] = arith.constant 128 : i32
    // CHECK: arith.addi %{{.*}}#0, %[[N]] : i32
    // CHECK: %[[A1:.*]] = llvm.bitcast %{{.*}} : vector<2xi32> to i64
    // CHECK: "wgmma.mma_async"(%{{.*}}, %[[A1]],
    // CHECK-SAME: trans_a = 1 : i64}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_a = true, transpose_b = true} : (!M128, !B16, !Tall8, i1) -> !Tall8
    gpu.return
  }

  // 128 rows are two products in one group, each with its half of the sums; the same B serves both.
  // CHECK-LABEL: gpu.func @two_products
  // CHECK-SAME: %[[MORE:[a-z0-9]+]]: i1)
  gpu.func @two_products(%a: !Tall16, %b: !B16, %c: !Tall8, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // CHECK: %[[B:.*]] = "wgmma.descriptor"
    // CHECK: %[[A:.*]] = "wgmma.descriptor"
    // CHECK: %[[C:.*]]:8 = vector.to_elements
    // CHECK: "wgmma.fence"
    // CHECK: %[[LOW:.*]] = llvm.insertvalue %[[C]]#3
    // CHECK: "wgmma.mma_async"(%[[LOW]], %[[A]], %[[B]], %[[MORE]])
    // CHECK: llvm.insertvalue %[[C]]#4
    // CHECK: %[[HIGH:.*]] = llvm.insertvalue %[[C]]#7
    // CHECK: llvm.bitcast %[[A]] : i64 to vector<2xi32>
    // CHECK: %[[N:.*]] = arith.constant 128 : i32
    // CHECK: arith.addi %{{.*}}#0, %[[N]] : i32
    // CHECK: %[[A1:.*]] = llvm.bitcast %{{.*}} : vector<2xi32> to i64
    // CHECK: "wgmma.mma_async"(%[[HIGH]], %[[A1]], %[[B]], %[[MORE]])
    // CHECK: "wgmma.commit_group"
    // CHECK-NOT: wgmma.
    // CHECK: gpu.return
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!Tall16, !B16, !Tall8, i1) -> !Tall8
    gpu.return
  }
}

!Ra = tensor<64x32xbf16, #tile.layout<"S[(4,2,8,2,2,4,2):(1@warpid,2,4@laneid,8,4,1@laneid,1)]">>
!Rh = tensor<64x16xf16, #tile.layout<"S[(4,2,8,2,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!Rtf = tensor<64x8xf32, #tile.layout<"S[(4,2,8,2,4):(1@warpid,1,4@laneid,2,1@laneid)]">>
!Rtall = tensor<128x16xbf16, #tile.layout<"S[(2,4,2,8,2,4,2):(8,1@warpid,2,4@laneid,4,1@laneid,1)]">>
!B32 = !tile.buffer<array<i64: 8, 32>, bf16, #tile.layout<"S[(8,32):(32,1)] xor 64B">, "shared">
!Bh = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!Btf = !tile.buffer<array<i64: 8, 8>, f32, #tile.layout<"S[(8,8):(8,1)] xor 32B">, "shared">
!Atf = !tile.buffer<array<i64: 64, 8>, f32, #tile.layout<"S[(64,8):(8,1)] xor 32B">, "shared">
!As = !tile.buffer<array<i64: 64, 64>, i8, #tile.layout<"S[(64,64):(64,1)] xor 64B">, "shared">
!Bs = !tile.buffer<array<i64: 8, 64>, i8, #tile.layout<"S[(8,64):(64,1)] xor 64B">, "shared">
!Ae = !tile.buffer<array<i64: 64, 32>, f8E4M3FN, #tile.layout<"S[(64,32):(32,1)] xor 32B">, "shared">
!Be = !tile.buffer<array<i64: 8, 32>, f8E5M2, #tile.layout<"S[(8,32):(32,1)] xor 32B">, "shared">

gpu.module @registers {
  // A lane's elements in pairs are the four registers of each step.
  // CHECK-LABEL: gpu.func @a_in_registers
  gpu.func @a_in_registers(%a: !Ra, %b: !B32, %c: !D8, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // CHECK: %[[LANE:.*]] = "tile.to_lane"(%{{.*}}) : ({{.*}}) -> vector<16xbf16>
    // CHECK: %[[WORDS:.*]] = vector.bitcast %[[LANE]] : vector<16xbf16> to vector<8xi32>
    // CHECK: %[[A:.*]]:8 = vector.to_elements %[[WORDS]]
    // CHECK: "wgmma.mma_async"(%{{.*}}, %[[A]]#0, %[[A]]#1, %[[A]]#2, %[[A]]#3, %{{[0-9]+}}, %{{[a-z0-9]+}})
    // CHECK-SAME: operandSegmentSizes = array<i32: 1, 4, 1, 1>, shape = "m64n8k16"
    // CHECK: "wgmma.mma_async"(%{{.*}}, %[[A]]#4, %[[A]]#5, %[[A]]#6, %[[A]]#7, %{{[0-9]+}}, %{{[a-z0-9]+}})
    // CHECK-NOT: "wgmma.mma_async"
    // CHECK: gpu.return
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!Ra, !B32, !D8, i1) -> !D8
    gpu.return
  }

  // The instruction takes pairs of halves as such, and tf32 as bits.
  // CHECK-LABEL: gpu.func @types_of_registers
  gpu.func @types_of_registers(%h: !Rh, %f: !Rtf, %b: !Bh, %t: !Btf, %c: !D8, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // CHECK-COUNT-4: llvm.bitcast %{{.*}} : i32 to vector<2xf16>
    // CHECK: "wgmma.mma_async"
    // CHECK-SAME: vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, i64, i1)
    %0 = "tile.gemm_async"(%h, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!Rh, !Bh, !D8, i1) -> !D8
    // CHECK: vector.bitcast %{{.*}} : vector<4xf32> to vector<4xi32>
    // CHECK: "wgmma.mma_async"
    // CHECK-SAME: a_type = "tf32", b_type = "tf32"
    // CHECK-SAME: i32, i32, i32, i32, i64, i1)
    %1 = "tile.gemm_async"(%f, %t, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!Rtf, !Btf, !D8, i1) -> !D8
    gpu.return
  }

  // Of 128 rows, the second 64 are the registers that follow.
  // CHECK-LABEL: gpu.func @two_products_of_registers
  gpu.func @two_products_of_registers(%a: !Rtall, %b: !B16, %c: !Tall8, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // CHECK: %[[A:.*]]:8 = vector.to_elements %{{.*}} : vector<8xi32>
    // CHECK: "wgmma.mma_async"(%{{.*}}, %[[A]]#0, %[[A]]#1, %[[A]]#2, %[[A]]#3,
    // CHECK: "wgmma.mma_async"(%{{.*}}, %[[A]]#4, %[[A]]#5, %[[A]]#6, %[[A]]#7,
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!Rtall, !B16, !Tall8, i1) -> !Tall8
    gpu.return
  }

  // Steps are 32 bytes of K in every type; transposes are of 16-bit types alone.
  // CHECK-LABEL: gpu.func @types
  gpu.func @types(%s: !As, %t: !Bs, %f: !Atf, %g: !Btf, %e: !Ae, %h: !Be, %c: !D8, %i: !I8, %more: i1) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    // CHECK: "wgmma.mma_async"
    // CHECK-SAME: {a_type = "s8", b_type = "s8", d_type = "s32", operandSegmentSizes = array<i32: 1, 1, 1, 1>, shape = "m64n8k32"}
    // CHECK-SAME: !llvm.struct<(i32, i32, i32, i32)>
    // CHECK: llvm.bitcast %{{.*}} : i64 to vector<2xi32>
    // CHECK: %[[N:.*]] = arith.constant 2 : i32
    // CHECK: arith.addi %{{.*}}#0, %[[N]] : i32
    // CHECK: llvm.bitcast %{{.*}} : vector<2xi32> to i64
    // CHECK: "wgmma.mma_async"
    %0 = "tile.gemm_async"(%s, %t, %i, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!As, !Bs, !I8, i1) -> !I8
    // CHECK: "wgmma.mma_async"
    // CHECK-SAME: {a_type = "tf32", b_type = "tf32", d_type = "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1>, shape = "m64n8k8"}
    %1 = "tile.gemm_async"(%f, %g, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!Atf, !Btf, !D8, i1) -> !D8
    // CHECK: "wgmma.mma_async"
    // CHECK-SAME: {a_type = "e4m3", b_type = "e5m2", d_type = "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1>, shape = "m64n8k32"}
    %2 = "tile.gemm_async"(%e, %h, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!Ae, !Be, !D8, i1) -> !D8
    gpu.return
  }

  // After the wait the sums go through an empty instruction that may write them: nothing reads them before.
  // CHECK-LABEL: gpu.func @wait
  gpu.func @wait(%v: vector<4xf32>, %w: vector<4xi32>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c = "tile.from_lane"(%v) : (vector<4xf32>) -> !D8
    %i = "tile.from_lane"(%w) : (vector<4xi32>) -> !I8
    // CHECK: "wgmma.wait_group"() {group = 1 : i64}
    // CHECK: %[[V:.*]]:4 = vector.to_elements %{{.*}} : vector<4xf32>
    // CHECK: %[[DONE:.*]] = llvm.inline_asm has_side_effects "", "=f,=f,=f,=f,0,1,2,3" %[[V]]#0, %[[V]]#1, %[[V]]#2, %[[V]]#3 :
    // CHECK: %[[E0:.*]] = llvm.extractvalue %[[DONE]][0]
    // CHECK: vector.from_elements %[[E0]],
    %0 = "tile.wait_gemm"(%c) {pending = 1} : (!D8) -> !D8
    // CHECK: "wgmma.wait_group"() : () -> ()
    // CHECK: llvm.inline_asm has_side_effects "", "=r,=r,=r,=r,0,1,2,3"
    %1 = "tile.wait_gemm"(%i) : (!I8) -> !I8
    // CHECK: "wgmma.wait_group"
    // CHECK-NOT: llvm.inline_asm
    "tile.wait_gemm"() {pending = 2} : () -> ()
    // What is pinned goes through one alone.
    // CHECK: %[[P:.*]]:4 = vector.to_elements
    // CHECK-NOT: wgmma
    // CHECK: llvm.inline_asm has_side_effects "", "=f,=f,=f,=f,0,1,2,3" %[[P]]#0,
    // CHECK-NOT: wgmma
    // CHECK: gpu.return
    %2 = "tile.pin"(%0) : (!D8) -> !D8
    gpu.return
  }

  // The warpgroups of a role reach a product together, also where its number decides; so does one of three.
  // CHECK-LABEL: gpu.func @in_a_role
  gpu.func @in_a_role(%a: !A16, %b: !B16, %c: !D8, %more: i1) kernel attributes {known_block_size = array<i32: 384, 1, 1>} {
    // CHECK: "tile.role"
    "tile.role"() ({
    ^bb0(%number: i32):
      %zero = arith.constant 0 : i32
      %first = arith.cmpi eq, %number, %zero : i32
      scf.if %first {
        // CHECK: "wgmma.mma_async"
        %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A16, !B16, !D8, i1) -> !D8
      }
    }) {first = 1, warpgroups = 2, registers = 0} : () -> ()
    %thread = gpu.thread_id x
    %c128 = arith.constant 128 : index
    %warpgroup = arith.divui %thread, %c128 : index
    %last = arith.cmpi ugt, %warpgroup, %c128 : index
    scf.if %last {
      // CHECK: "wgmma.mma_async"
      %1 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A16, !B16, !D8, i1) -> !D8
    }
    gpu.return
  }

  // Sums in named registers: no loop carries them.
  // CHECK-LABEL: gpu.func @named_sums
  gpu.func @named_sums(%a: !Tall16, %b: !B16, %a8: !A16, %end: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // CHECK: llvm.inline_asm has_side_effects ".reg .b32 %sums<12>;", "" : () -> ()
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %v = llvm.mlir.undef : vector<8xf32>
    %c = "tile.from_lane"(%v) : (vector<8xf32>) -> !Tall8
    %w = llvm.mlir.undef : vector<4xf32>
    %d = "tile.from_lane"(%w) : (vector<4xf32>) -> !D8
    // CHECK: scf.for %{{.*}} iter_args(%[[NUMBER:.*]] = %{{.*}}) -> (i32)
    %number = scf.for %k = %zero to %end step %one iter_args(%n = %zero) -> (i32) : i32 {
      %more = arith.cmpi slt, %zero, %k : i32
      // CHECK: %[[UNDEFINED:.*]] = llvm.mlir.undef : !llvm.struct<(f32, f32, f32, f32)>
      // CHECK: "wgmma.mma_async"(%[[UNDEFINED]],
      // CHECK-SAME: first_sum = 0 : i64
      // CHECK: "wgmma.mma_async"
      // CHECK-SAME: first_sum = 4 : i64
      %next = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, first_sum = 0, transpose_b = true} : (!Tall16, !B16, !Tall8, i1) -> !Tall8
      "tile.wait_gemm"() : () -> ()
      // CHECK: %[[NEXT:.*]] = arith.addi %[[NUMBER]]
      // CHECK: scf.yield %[[NEXT]] : i32
      %m = arith.addi %n, %one : i32
      scf.yield %m : i32
    }
    // CHECK: "wgmma.wait_group"
    // CHECK: %[[READ:.*]] = llvm.inline_asm has_side_effects "mov.b32 $0, %sums0;\0A\09mov.b32 $1, %sums1;{{.*}}mov.b32 $7, %sums7;", "=f,=f,=f,=f,=f,=f,=f,=f" :
    // CHECK: llvm.extractvalue %[[READ]][0]
    "tile.wait_gemm"() : () -> ()
    %done = "tile.read_sums"() {first_sum = 0} : () -> !Tall8
    %used = "tile.to_lane"(%done) : (!Tall8) -> vector<8xf32>
    // CHECK: scf.for
    // CHECK-NOT: iter_args
    // CHECK: first_sum = 8 : i64
    scf.for %k = %zero to %end step %one : i32 {
      %more = arith.cmpi slt, %zero, %k : i32
      %next = "tile.gemm_async"(%a8, %b, %d, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, first_sum = 8, transpose_b = true} : (!A16, !B16, !D8, i1) -> !D8
    }
    // CHECK: llvm.inline_asm has_side_effects "mov.b32 $0, %sums8;
    "tile.wait_gemm"() : () -> ()
    %finished = "tile.read_sums"() {first_sum = 8} : () -> !D8
    %read = "tile.to_lane"(%finished) : (!D8) -> vector<4xf32>
    gpu.return
  }

  // Named registers of the kernel's own: products of one group, added to sums with factors and without.
  // CHECK-LABEL: gpu.func @promoted_sums
  gpu.func @promoted_sums(%a: !A16, %b: !B16, %c: !D8, %f: f32, %g: f32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // CHECK: llvm.inline_asm has_side_effects ".reg .b32 %sums<8>;", "" : () -> ()
    // CHECK: llvm.inline_asm has_side_effects "mov.b32 %sums4, 0;\0A\09mov.b32 %sums5, 0;\0A\09mov.b32 %sums6, 0;\0A\09mov.b32 %sums7, 0;", "" : () -> ()
    "tile.clear_sums"() {first_sum = 4, count = 4} : () -> ()
    %no = arith.constant false
    // CHECK: first_sum = 0 : i64
    %d = "tile.gemm_async"(%a, %b, %c, %no) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, first_sum = 0, transpose_b = true} : (!A16, !B16, !D8, i1) -> !D8
    "tile.wait_gemm"() : () -> ()
    // CHECK: llvm.inline_asm has_side_effects "fma.rn.f32 %sums4, %sums0, $0, %sums4;\0A\09fma.rn.f32 %sums5, %sums1, $1, %sums5;\0A\09fma.rn.f32 %sums6, %sums2, $0, %sums6;\0A\09fma.rn.f32 %sums7, %sums3, $1, %sums7;", "f,f" %{{.*}}, %{{.*}} : (f32, f32) -> ()
    "tile.add_products"(%f, %g) {first_product = 0, first_sum = 4, count = 4, factor_numbers = array<i64: 0, 1, 0, 1>} : (f32, f32) -> ()
    // CHECK: llvm.inline_asm has_side_effects "add.rn.f32 %sums4, %sums4, %sums0;\0A\09add.rn.f32 %sums5, %sums5, %sums1;", "" : () -> ()
    "tile.add_products"() {first_product = 0, first_sum = 4, count = 2} : () -> ()
    // CHECK: llvm.inline_asm has_side_effects "mov.b32 $0, %sums4;
    %0 = "tile.read_sums"() {first_sum = 4} : () -> !D8
    %1 = "tile.to_lane"(%0) : (!D8) -> vector<4xf32>
    // CHECK: %[[ROUNDED:.*]] = llvm.inline_asm has_side_effects "cvt.rn.bf16x2.f32 $0, %sums5, %sums6;\0A\09cvt.rn.bf16x2.f32 $1, %sums7, %sums4;", "=r,=r"
    // CHECK: %[[LOW:.*]] = llvm.extractvalue %[[ROUNDED]][0]
    // CHECK: %[[HIGH:.*]] = llvm.extractvalue %[[ROUNDED]][1]
    // CHECK: %[[WORDS:.*]] = vector.from_elements %[[LOW]], %[[HIGH]]
    // CHECK: vector.bitcast %[[WORDS]] : vector<2xi32> to vector<4xbf16>
    %2 = "tile.read_sums"() {first_sum = 4, order = array<i64: 2, 1, 0, 3>, rounds = true} : () -> !R8
    %3 = "tile.to_lane"(%2) : (!R8) -> vector<4xbf16>
    // One that nothing uses is no instruction.
    // CHECK-NOT: %sums
    // CHECK: gpu.return
    %4 = "tile.read_sums"() {first_sum = 0} : () -> !D8
    gpu.return
  }

  // Sums without first_sum are values.
  // CHECK-LABEL: gpu.func @carried_sums
  // CHECK-NOT: %sums
  // CHECK: gpu.return
  gpu.func @carried_sums(%a: !A16, %b: !B16, %zeros: vector<4xf32>, %end: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %c = "tile.from_lane"(%zeros) : (vector<4xf32>) -> !D8
    %w = llvm.mlir.undef : vector<4xf32>
    %d = "tile.from_lane"(%w) : (vector<4xf32>) -> !D8
    %sums:2 = scf.for %k = %zero to %end step %one iter_args(%x = %c, %y = %d) -> (!D8, !D8) : i32 {
      %more = arith.cmpi slt, %zero, %k : i32
      %0 = "tile.gemm_async"(%a, %b, %x, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A16, !B16, !D8, i1) -> !D8
      %1 = "tile.gemm_async"(%a, %b, %y, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A16, !B16, !D8, i1) -> !D8
      %2 = "tile.wait_gemm"(%1) : (!D8) -> !D8
      scf.yield %0, %2 : !D8, !D8
    }
    %done:2 = "tile.wait_gemm"(%sums#0, %sums#1) : (!D8, !D8) -> (!D8, !D8)
    gpu.return
  }
}
