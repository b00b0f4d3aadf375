// RUN: weft-opt %s --mlir-print-local-scope --lower-gemm-async --tile-explain-dispatch 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t

!Stages = !tile.buffer<array<i64: 3, 128, 64>, f16, #tile.layout<"S[(3,128,64):(8192,64,1)] xor 128B">, "shared">
!Stage = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!Tall = !tile.buffer<array<i64: 128, 16>, bf16, #tile.layout<"S[(128,16):(16,1)] xor 32B">, "shared">
!Wide = !tile.buffer<array<i64: 512, 16>, bf16, #tile.layout<"S[(512,16):(16,1)] xor 32B">, "shared">
!InTensorMemory = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!Packed = !tile.buffer<array<i64: 128, 256>, f4E2M1FN, #tile.layout<"S[(128,256):(256,1)] xor 128B">, "shared">
!Scales = !tile.buffer<array<i64: 128, 16>, f8E4M3FN, #tile.layout<"S[(4,32,4,4):(4@TCol,1@TLane,16@TCol,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
!C = !tile.buffer<array<i64: 128, 128>, f32, #tile.layout<"S[(128,128):(1@TLane,1@TCol)]">, "tmem">
!Columns = !tile.buffer<array<i64: 128, 512>, f32, #tile.layout<"S[(128,512):(1@TLane,1@TCol)]">, "tmem">
!Pair = !tile.buffer<array<i64: 128, 256>, f32, #tile.layout<"S[(128,256):(1@TLane,1@TCol)]">, "tmem">
!Halves = !tile.buffer<array<i64: 128, 512>, f32, #tile.layout<"S[(2,4,16,512):(16@TLane,32@TLane,1@TLane,1@TCol)]">, "tmem">

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  // One thread multiplies stages 1 and 2 of two rings into columns 256 to 383, in four steps of 16 elements, which
  // are two units of a descriptor. The first step adds to C if it is told to, the others always do.
  // WHY: remark: 'tile.gemm_async' op is lowered by candidate tcgen05.mma (priority 10)
  // WHY: note: candidate tcgen05.mma.block_scale (priority 10) refuses it: scaled: needs scales of A and B, got none
  // WHY-NEXT: note: candidate tcgen05.mma.ws (priority 10) refuses it: weight_stationary: needs weight_stationary to be true, got false
  // WHY-NEXT: note: candidate wgmma.mma_async (priority 0) refuses it: accumulator_in_registers: needs C in registers, got
  // CHECK-LABEL: gpu.func @stages_and_columns
  // CHECK-SAME: %[[MORE:[a-z0-9]+]]: i1)
  gpu.func @stages_and_columns(%more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %c256 = arith.constant 256 : i32
    // CHECK: %[[RING_A:.*]] = "tile.alloc"
    // CHECK: %[[RING_B:.*]] = "tile.alloc"
    %stages_a = "tile.alloc"() : () -> !Stages
    %stages_b = "tile.alloc"() : () -> !Stages
    "tile.tensor_memory"() ({
      %all = "tile.alloc"() : () -> !Columns
      // CHECK: %[[C:.*]] = "tile.slice"
      %c = "tile.slice"(%all, %c0, %c256) : (!Columns, i32, i32) -> !C
      %a = "tile.stage"(%stages_a, %c1) : (!Stages, i32) -> !Stage
      %b = "tile.stage"(%stages_b, %c2) : (!Stages, i32) -> !Stage
      %thread = gpu.thread_id x
      %zero = arith.constant 0 : index
      %first = arith.cmpi eq, %thread, %zero : index
      scf.if %first {
        // CHECK: %[[AT_A:.*]] = "tile.address"(%[[RING_A]])
        // CHECK: %[[ALL_A:.*]] = "tcgen05.shared_memory_descriptor"(%[[AT_A]]) {leading_byte_offset = 1024 : i64, stride_byte_offset = 1024 : i64, swizzle = "128B"}
        // CHECK: llvm.bitcast %[[ALL_A]] : i64 to vector<2xi32>
        // CHECK: %[[A:.*]] = llvm.bitcast %{{.*}} : vector<2xi32> to i64
        // CHECK: %[[AT_B:.*]] = "tile.address"(%[[RING_B]])
        // CHECK: %[[ALL_B:.*]] = "tcgen05.shared_memory_descriptor"(%[[AT_B]]) {leading_byte_offset = 1024 : i64, stride_byte_offset = 1024 : i64, swizzle = "128B"}
        // CHECK: llvm.bitcast %[[ALL_B]] : i64 to vector<2xi32>
        // CHECK: %[[B:.*]] = llvm.bitcast %{{.*}} : vector<2xi32> to i64
        // CHECK: %[[D:.*]] = "tile.address"(%[[C]])
        // CHECK: %[[I:.*]] = "tcgen05.instruction_descriptor"() {a_type = "f16", b_type = "f16", d_type = "f32", kind = "f16", m = 128 : i64, n = 128 : i64}
        // CHECK: "tcgen05.mma"(%[[D]], %[[A]], %[[B]], %[[I]], %[[MORE]]) {cta_group = 1 : i64, kind = "f16"
        // CHECK: llvm.bitcast %[[A]] : i64 to vector<2xi32>
        // CHECK: %[[N:.*]] = arith.constant 2 : i32
        // CHECK: arith.addi %{{.*}}#0, %[[N]] : i32
        // CHECK: %[[A1:.*]] = llvm.bitcast %{{.*}} : vector<2xi32> to i64
        // CHECK: %[[N:.*]] = arith.constant 2 : i32
        // CHECK: arith.addi %{{.*}}#0, %[[N]] : i32
        // CHECK: %[[B1:.*]] = llvm.bitcast %{{.*}} : vector<2xi32> to i64
        // CHECK: %[[TRUE:.*]] = arith.constant true
        // CHECK: "tcgen05.mma"(%[[D]], %[[A1]], %[[B1]], %[[I]], %[[TRUE]])
        // CHECK: arith.constant 4 : i32
        // CHECK: "tcgen05.mma"
        // CHECK: arith.constant 6 : i32
        // CHECK: "tcgen05.mma"
        // CHECK-NOT: "tcgen05.mma"
        "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!Stage, !Stage, !C, i1) -> ()
      }
    }) : () -> ()
    gpu.return
  }

  // In a role of one warp, one of its lanes is elected.
  // CHECK-LABEL: gpu.func @by_a_warp
  gpu.func @by_a_warp(%a: !Stage, %b: !Stage, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      "tile.role"() ({
      ^bb0(%number: i32):
        // CHECK: %[[ONE:.*]] = nvvm.elect.sync
        // CHECK: scf.if %[[ONE]] {
        // CHECK: "tcgen05.mma"
        "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!Stage, !Stage, !C, i1) -> ()
      }) {first = 1 : i64, warps = 1 : i64} : () -> ()
    }) : () -> ()
    gpu.return
  }

  // M is that of the pair, and so is N: each CTA has half of B's columns.
  // CHECK-LABEL: gpu.func @by_a_pair
  gpu.func @by_a_pair(%a: !Stage, %b: !Stage, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>, known_cluster_size = array<i32: 2, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !Pair
      // CHECK: "tcgen05.instruction_descriptor"() {a_type = "f16", b_type = "f16", cta_group = 2 : i64, d_type = "f32", kind = "f16", m = 256 : i64, n = 256 : i64}
      // CHECK-COUNT-4: "tcgen05.mma"({{.*}}) {cta_group = 2 : i64, kind = "f16"
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, cta_group = 2 : i64, transpose_b = true} : (!Stage, !Stage, !Pair, i1) -> ()
    }) {cta_group = 2 : i64} : () -> ()
    gpu.return
  }

  // Two instructions along M and two along N: the second of M begins 16 lanes further, and 64 rows of 32 bytes (128 units)
  // further in A; the second of N 256 columns further, and 256 rows further in B.
  // CHECK-LABEL: gpu.func @nest
  gpu.func @nest(%a: !Tall, %b: !Wide, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      // CHECK: %[[C:.*]] = "tile.alloc"
      %c = "tile.alloc"() : () -> !Halves
      // CHECK: %[[A:.*]] = "tcgen05.shared_memory_descriptor"
      // CHECK: %[[B:.*]] = "tcgen05.shared_memory_descriptor"
      // CHECK: %[[D:.*]] = "tile.address"(%[[C]])
      // CHECK: "tcgen05.instruction_descriptor"() {a_type = "bf16", b_type = "bf16", d_type = "f32", kind = "f16", m = 64 : i64, n = 256 : i64}
      // CHECK: "tcgen05.mma"(%[[D]], %[[A]], %[[B]], {{.*}}, %[[MORE:[a-z0-9]+]])
      // CHECK: %[[D1:.*]] = llvm.getelementptr %[[D]][256]
      // CHECK: arith.constant 512 : i32
      // CHECK: "tcgen05.mma"(%[[D1]], %[[A]], %{{.*}}, {{.*}}, %[[MORE]])
      // CHECK: %[[D2:.*]] = llvm.getelementptr %[[D]][1048576]
      // CHECK: arith.constant 128 : i32
      // CHECK: "tcgen05.mma"(%[[D2]], %{{.*}}, %[[B]], {{.*}}, %[[MORE]])
      // CHECK: %[[D3:.*]] = llvm.getelementptr %[[D]][1048832]
      // CHECK: "tcgen05.mma"(%[[D3]],
      // CHECK-NOT: "tcgen05.mma"
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!Tall, !Wide, !Halves, i1) -> ()
    }) : () -> ()
    gpu.return
  }

  // N is shifted to its field of the descriptor, bits 17 to 22 in units of 8.
  // CHECK-LABEL: gpu.func @run_time_n
  // CHECK-SAME: %[[N:[a-z0-9]+]]: i32)
  gpu.func @run_time_n(%a: !Stage, %b: !Stage, %more: i1, %n: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // CHECK: %[[REST:.*]] = arith.constant 134217744 : i32
      // CHECK: %[[BITS:.*]] = arith.constant 14 : i32
      // CHECK: %[[FIELD:.*]] = arith.shli %[[N]], %[[BITS]] : i32
      // CHECK: %[[I:.*]] = arith.ori %[[REST]], %[[FIELD]] : i32
      // CHECK-COUNT-4: "tcgen05.mma"(%{{.*}}, %{{.*}}, %{{.*}}, %[[I]],
      "tile.gemm_async"(%a, %b, %c, %more, %n) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 1, 0>, transpose_b = true} : (!Stage, !Stage, !C, i1, i32) -> ()
    }) : () -> ()
    gpu.return
  }

  // A in tensor memory: 16 elements of a step are in 8 columns. Its collector keeps A for the next product.
  // CHECK-LABEL: gpu.func @a_in_tensor_memory
  gpu.func @a_in_tensor_memory(%b: !Stage, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      // CHECK: %[[TILE:.*]] = "tile.alloc"() : () -> !tile.buffer<array<i64: 128, 64>, f16,
      %a = "tile.alloc"() : () -> !InTensorMemory
      %c = "tile.alloc"() : () -> !C
      // CHECK: %[[A:.*]] = "tile.address"(%[[TILE]])
      // CHECK: "tcgen05.mma"(%{{.*}}, %[[A]], {{.*}}collector_a = "fill"
      // CHECK: %[[NEXT:.*]] = llvm.getelementptr %[[A]][8]
      // CHECK: "tcgen05.mma"(%{{.*}}, %[[NEXT]], {{.*}}collector_a = "fill"
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, collector = "fill", transpose_b = true, use_a_tmem = true} : (!InTensorMemory, !Stage, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }

  // WHY: remark: 'tile.gemm_async' op is lowered by candidate tcgen05.mma.ws (priority 10)
  // WHY: note: candidate tcgen05.mma (priority 10) refuses it: not_weight_stationary: needs weight_stationary to be false, got true
  // CHECK-LABEL: gpu.func @weight_stationary
  gpu.func @weight_stationary(%a: !Stage, %b: !Stage, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // CHECK: "tcgen05.instruction_descriptor"() {{.*}}ws = true
      // CHECK-COUNT-4: "tcgen05.mma_ws"({{.*}}) {{.*}}collector = "use", collector_buffer = "b2"
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, collector = "b2::use", transpose_b = true, weight_stationary = true} : (!Stage, !Stage, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }

  // An instruction of the stated shape, where a larger one fits.
  // CHECK-LABEL: gpu.func @stated_shape
  gpu.func @stated_shape(%a: !Stage, %b: !Stage, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // CHECK: m = 128 : i64, n = 64 : i64
      // CHECK-COUNT-8: "tcgen05.mma"
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, mma_m = 128 : i64, mma_n = 64 : i64, transpose_b = true} : (!Stage, !Stage, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// sm_103a has packed rows of 96 elements: three instructions for 256, where other chips have four. The six scales of the
// second begin in the middle of column 1, the four of the third at column 3.
gpu.module @long_rows [#nvvm.target<chip = "sm_103a">] {
  // WHY: remark: 'tile.gemm_async' op is lowered by candidate tcgen05.mma.block_scale (priority 10)
  // WHY: note: candidate tcgen05.mma (priority 10) refuses it: unscaled: needs no scales, got scales of A and B
  // CHECK-LABEL: gpu.func @rows_of_96
  gpu.func @rows_of_96(%a: !Packed, %b: !Packed, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %scale_a = "tile.alloc"() : () -> !Scales
      %scale_b = "tile.alloc"() : () -> !Scales
      %c = "tile.alloc"() : () -> !C
      // CHECK: %[[SCALES:.*]] = "tile.address"(%{{.*}}) : (!tile.buffer<array<i64: 128, 16>, f8E4M3FN,
      // CHECK: %[[I0:.*]] = "tcgen05.block_scaled_descriptor"() {a_type = "e2m1", b_type = "e2m1", k = 96 : i64, kind = "mxf4nvf4"
      // CHECK: %[[I1:.*]] = "tcgen05.block_scaled_descriptor"() {a_scale_id = 2 : i64, a_type = "e2m1", b_scale_id = 2 : i64, b_type = "e2m1", k = 96 : i64
      // CHECK: %[[I2:.*]] = "tcgen05.block_scaled_descriptor"() {a_type = "e2m1", b_type = "e2m1", kind = "mxf4nvf4"
      // CHECK: "tcgen05.mma_block_scale"(%{{.*}}, %{{.*}}, %{{.*}}, %[[I0]], %[[SCALES]],
      // CHECK: arith.constant 3 : i32
      // CHECK: %[[NEXT:.*]] = llvm.getelementptr %[[SCALES]][4]
      // CHECK: "tcgen05.mma_block_scale"(%{{.*}}, %{{.*}}, %{{.*}}, %[[I1]], %[[NEXT]],
      // CHECK: arith.constant 6 : i32
      // CHECK: %[[LAST:.*]] = llvm.getelementptr %[[SCALES]][12]
      // CHECK: "tcgen05.mma_block_scale"(%{{.*}}, %{{.*}}, %{{.*}}, %[[I2]], %[[LAST]],
      // CHECK-NOT: "tcgen05.mma_block_scale"
      "tile.gemm_async"(%a, %b, %c, %more, %scale_a, %scale_b) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>, transpose_b = true} : (!Packed, !Packed, !C, i1, !Scales, !Scales) -> ()
    }) : () -> ()
    gpu.return
  }
}

// One thread of each warpgroup of a role multiplies into the stage that has the warpgroup's number.
!OfWarpgroups = !tile.buffer<array<i64: 2, 128, 128>, f32, #tile.layout<"S[(2,128,128):(128@TCol,1@TLane,1@TCol)]">, "tmem">
gpu.module @warpgroups [#nvvm.target<chip = "sm_100a">] {
  // WHY: remark: 'tile.gemm_async' op is lowered by candidate tcgen05.mma (priority 10)
  // CHECK-LABEL: gpu.func @one_thread_of_each_warpgroup
  gpu.func @one_thread_of_each_warpgroup(%a: !Stage, %b: !Stage, %more: i1) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    "tile.tensor_memory"() ({
      %sums = "tile.alloc"() : () -> !OfWarpgroups
      "tile.role"() ({
      ^bb0(%number: i32):
        %c = "tile.stage"(%sums, %number) : (!OfWarpgroups, i32) -> !C
        %thread = gpu.thread_id x
        %c128 = arith.constant 128 : index
        %zero = arith.constant 0 : index
        %lane = arith.remui %thread, %c128 : index
        %some = arith.cmpi eq, %lane, %zero : index
        scf.if %some {
          // CHECK-COUNT-4: "tcgen05.mma"
          "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!Stage, !Stage, !C, i1) -> ()
        }
      }) {first = 0 : i64, warpgroups = 2 : i64} : () -> ()
    }) : () -> ()
    gpu.return
  }
}
