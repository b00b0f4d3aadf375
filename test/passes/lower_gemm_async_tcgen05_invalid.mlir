// RUN: weft-opt %s --lower-gemm-async --split-input-file --verify-diagnostics

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @by_all_threads(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma, tcgen05.mma.block_scale, tcgen05.mma.ws (exec_scope: needs one thread or one warp, got exec_scope CTA (128 threads))}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @by_a_warpgroup(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      "tile.role"() ({
      ^bb0(%number: i32):
        // expected-error @below {{tcgen05.mma, tcgen05.mma.block_scale, tcgen05.mma.ws (exec_scope: needs one thread or one warp, got exec_scope warpgroup)}}
        "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
      }) {first = 0 : i64, warpgroups = 1 : i64} : () -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @by_two_warps(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      "tile.role"() ({
      ^bb0(%number: i32):
        // expected-error @below {{tcgen05.mma, tcgen05.mma.block_scale, tcgen05.mma.ws (exec_scope: needs one thread or one warp, got exec_scope 64 threads)}}
        "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
      }) {first = 0 : i64, warps = 2 : i64} : () -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @by_some_lanes(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      %thread = gpu.thread_id x
      %c8 = arith.constant 8 : index
      %some = arith.cmpi ult, %thread, %c8 : index
      scf.if %some {
        // expected-error @below {{tcgen05.mma, tcgen05.mma.block_scale, tcgen05.mma.ws (exec_scope: needs one thread or one warp, got exec_scope 8 threads)}}
        "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
      }
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @by_a_thread_of_each_warpgroup(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      %thread = gpu.thread_id x
      %c128 = arith.constant 128 : index
      %c0 = arith.constant 0 : index
      %number = arith.remui %thread, %c128 : index
      %some = arith.cmpi eq, %number, %c0 : index
      scf.if %some {
        // expected-error @below {{tcgen05.mma, tcgen05.mma.block_scale, tcgen05.mma.ws (exec_scope: needs one thread or one warp, got exec_scope 2 threads)}}
        "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
      }
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @by_an_elected_thread_of_each_warp(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      %some = nvvm.elect.sync -> i1
      scf.if %some {
        // expected-error @below {{tcgen05.mma, tcgen05.mma.block_scale, tcgen05.mma.ws (exec_scope: needs one thread or one warp, got exec_scope 4 threads)}}
        "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
      }
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @by_lanes_that_read_different_words(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      %thread = gpu.thread_id x
      %wide = arith.index_cast %thread : index to i32
      %lane = llvm.inttoptr %wide : i32 to !llvm.ptr<3>
      %word = llvm.load %lane : !llvm.ptr<3> -> i32
      %c0 = arith.constant 0 : i32
      %some = arith.cmpi eq, %word, %c0 : i32
      scf.if %some {
        // expected-error @below {{tcgen05.mma, tcgen05.mma.block_scale, tcgen05.mma.ws (exec_scope: needs one thread or one warp, got exec_scope some lanes of a warp)}}
        "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
      }
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "cluster">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @a_of_a_peer(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma, tcgen05.mma.block_scale, tcgen05.mma.ws (memory_of_a: needs A in the CTA's own shared memory or in tensor memory, got a buffer in cluster memory)}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "cluster">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @b_of_a_peer(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma, tcgen05.mma.block_scale, tcgen05.mma.ws (memory_of_b: needs B in the CTA's own shared memory, got a buffer in cluster memory)}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(1@TLane,1@TCol)]">, "tmem">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @b_in_tensor_memory(%a: !A, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %b = "tile.alloc"() : () -> !B
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma, tcgen05.mma.block_scale, tcgen05.mma.ws (memory_of_b: needs B in the CTA's own shared memory, got a buffer in tmem memory)}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,2@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @not_weight_stationary(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma.ws (weight_stationary: needs weight_stationary to be true, got false)}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 128>, f32, #tile.layout<"S[(128,128):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @weight_stationary(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>, known_cluster_size = array<i32: 2, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma, tcgen05.mma.block_scale (not_weight_stationary: needs weight_stationary to be false, got true); tcgen05.mma.ws (form: tcgen05.mma.ws cta_group must be 1 with weight stationary, got 2}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true, cta_group = 2 : i64, weight_stationary = true} : (!A, !B, !C, i1) -> ()
    }) {cta_group = 2 : i64} : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f8E5M2, #tile.layout<"S[(64,64):(64,1)] xor 64B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @types_of_two_kinds(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma (types: needs A and B of types of one kind: f16, bf16 (f16); f32 (tf32); f8E4M3FN, f8E5M2, f6E2M3FN, f6E3M2FN, f4E2M1FN (f8f6f4); ui8, i8 (i8); got f16 and f8E5M2)}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f8E5M2, #tile.layout<"S[(64,64):(64,1)] xor 64B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @unscaled(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma.block_scale (scaled: needs scales of A and B, got none)}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 128>, f8E4M3FN, #tile.layout<"S[(128,128):(128,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 128>, f8E4M3FN, #tile.layout<"S[(64,128):(128,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!S0 = !tile.buffer<array<i64: 128, 4>, f8E4M3FN, #tile.layout<"S[(4,32,4):(4@TCol,1@TLane,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
!S1 = !tile.buffer<array<i64: 128, 4>, f8E4M3FN, #tile.layout<"S[(4,32,4):(4@TCol,1@TLane,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @scales_without_their_candidate(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %s0 = "tile.alloc"() : () -> !S0
      %s1 = "tile.alloc"() : () -> !S1
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma (unscaled: needs no scales, got scales of A and B)}}
      "tile.gemm_async"(%a, %b, %c, %more, %s0, %s1) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>, transpose_b = true} : (!A, !B, !C, i1, !S0, !S1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 128>, f8E4M3FN, #tile.layout<"S[(128,128):(128,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 128>, f8E4M3FN, #tile.layout<"S[(64,128):(128,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!S0 = !tile.buffer<array<i64: 128, 4>, f8E8M0FNU, #tile.layout<"S[(4,32,4):(4@TCol,1@TLane,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
!S1 = !tile.buffer<array<i64: 128, 4>, f8E4M3FN, #tile.layout<"S[(4,32,4):(4@TCol,1@TLane,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @scales_of_two_types(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %s0 = "tile.alloc"() : () -> !S0
      %s1 = "tile.alloc"() : () -> !S1
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{scaled_types: needs scales of one type of f8E8M0FNU, f8E4M3FN, got f8E8M0FNU and f8E4M3FN}}
      "tile.gemm_async"(%a, %b, %c, %more, %s0, %s1) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>, transpose_b = true} : (!A, !B, !C, i1, !S0, !S1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 128>, f8E4M3FN, #tile.layout<"S[(128,128):(128,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 128>, f8E4M3FN, #tile.layout<"S[(64,128):(128,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!S0 = !tile.buffer<array<i64: 128, 2>, f8E8M0FNU, #tile.layout<"S[(4,32,2):(4@TCol,1@TLane,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
!S1 = !tile.buffer<array<i64: 128, 4>, f8E8M0FNU, #tile.layout<"S[(4,32,4):(4@TCol,1@TLane,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @too_few_scales(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %s0 = "tile.alloc"() : () -> !S0
      %s1 = "tile.alloc"() : () -> !S1
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{scaled_types: needs 4 or 8 scales in each row for K = 128, got 2}}
      "tile.gemm_async"(%a, %b, %c, %more, %s0, %s1) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>, transpose_b = true} : (!A, !B, !C, i1, !S0, !S1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 128>, f8E4M3FN, #tile.layout<"S[(128,128):(128,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 128>, f8E4M3FN, #tile.layout<"S[(64,128):(128,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!S0 = !tile.buffer<array<i64: 128, 4>, f8E4M3FN, #tile.layout<"S[(4,32,4):(4@TCol,1@TLane,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
!S1 = !tile.buffer<array<i64: 128, 4>, f8E4M3FN, #tile.layout<"S[(4,32,4):(4@TCol,1@TLane,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @scales_of_another_kind(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %s0 = "tile.alloc"() : () -> !S0
      %s1 = "tile.alloc"() : () -> !S1
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{scaled_types: needs A and B of 8, 6 or 4 bits, a byte each, with a scale of f8E8M0FNU for 32; or packed f4E2M1FN with one for 32 or 16, or one of f8E4M3FN for 16; got f8E4M3FN (a byte each) and f8E4M3FN (a byte each) with one of f8E4M3FN for 32}}
      "tile.gemm_async"(%a, %b, %c, %more, %s0, %s1) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>, transpose_b = true} : (!A, !B, !C, i1, !S0, !S1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 128>, f4E2M1FN, #tile.layout<"S[(128,128):(128,1)] xor 64B">, "shared">
!B = !tile.buffer<array<i64: 64, 128>, f8E4M3FN, #tile.layout<"S[(64,128):(128,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!S0 = !tile.buffer<array<i64: 128, 4>, f8E8M0FNU, #tile.layout<"S[(4,32,4):(4@TCol,1@TLane,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
!S1 = !tile.buffer<array<i64: 128, 4>, f8E8M0FNU, #tile.layout<"S[(4,32,4):(4@TCol,1@TLane,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @packed_and_padded(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %s0 = "tile.alloc"() : () -> !S0
      %s1 = "tile.alloc"() : () -> !S1
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{operand_a: needs A in a layout with 16 elements in 16 bytes for type e2m1 of kind mxf8f6f4, got S[(128,128):(128,1)] xor 64B}}
      "tile.gemm_async"(%a, %b, %c, %more, %s0, %s1) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>, transpose_b = true} : (!A, !B, !C, i1, !S0, !S1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, i8, #tile.layout<"S[(128,64):(64,1)] xor 64B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, i8, #tile.layout<"S[(64,64):(64,1)] xor 64B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, i32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_103a">] {
  gpu.func @i8_on_sm_103a(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma (form: tcgen05.mma kind i8 is legal on sm_100a, sm_110a only, got sm_103a}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @no_such_collector(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma (form: tcgen05.mma collector_a must be }}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true, collector = "keep"} : (!A, !B, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, i32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @accumulator_of_another_type(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma (accumulator_type: needs C of f32 or f16 for kind f16, got i32)}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 96, 64>, f16, #tile.layout<"S[(96,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 96, 64>, f32, #tile.layout<"S[(96,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @m_of_96(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma (m: needs M % 64 == 0 with cta_group 1, got M = 96)}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 32, 64>, f16, #tile.layout<"S[(32,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 32, 128>, f32, #tile.layout<"S[(32,128):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @m_of_a_pair(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>, known_cluster_size = array<i32: 2, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma (m: needs M % 128 == 0 with cta_group 2, got M = 64)}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true, cta_group = 2 : i64} : (!A, !B, !C, i1) -> ()
    }) {cta_group = 2 : i64} : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 12, 64>, f16, #tile.layout<"S[(12,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 12>, f32, #tile.layout<"S[(128,12):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @n_of_12(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma (n: needs N % 8 == 0 with cta_group 1, got N = 12)}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 12, 64>, f16, #tile.layout<"S[(12,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 24>, f32, #tile.layout<"S[(128,24):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @n_of_a_pair(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>, known_cluster_size = array<i32: 2, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma (n: needs N % 16 == 0 with cta_group 2, got N = 24)}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true, cta_group = 2 : i64} : (!A, !B, !C, i1) -> ()
    }) {cta_group = 2 : i64} : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 8>, f16, #tile.layout<"S[(128,8):(8,1)]">, "shared">
!B = !tile.buffer<array<i64: 64, 8>, f16, #tile.layout<"S[(64,8):(8,1)]">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @k_of_8(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma (k: needs K % 16 == 0 for kind f16, got K = 8)}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @no_such_mma(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma (mma_shape: mma_m must be 64 or 128 with cta_group 1, got 96)}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true, mma_m = 96 : i64, mma_n = 64 : i64} : (!A, !B, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @mma_that_does_not_divide(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma (mma_shape: needs N % mma_n == 0, got 64 and 48)}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true, mma_m = 128 : i64, mma_n = 48 : i64} : (!A, !B, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 512, 64>, f16, #tile.layout<"S[(512,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 512>, f32, #tile.layout<"S[(128,512):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @n_at_run_time(%a: !A, %b: !B, %more: i1, %n: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma (run_time_n: needs one instruction along N where N is known at run time, got N = 512)}}
      "tile.gemm_async"(%a, %b, %c, %more, %n) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 1, 0>, transpose_b = true} : (!A, !B, !C, i1, i32) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 64, 128>, f32, #tile.layout<"S[(64,2,64):(1@TLane,64@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @n_at_run_time_in_two_parts(%a: !A, %b: !B, %more: i1, %n: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>, known_cluster_size = array<i32: 2, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma (run_time_n: needs all columns of D in the same lanes where N is known at run time)}}
      "tile.gemm_async"(%a, %b, %c, %more, %n) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 1, 0>, transpose_b = true, cta_group = 2 : i64} : (!A, !B, !C, i1, i32) -> ()
    }) {cta_group = 2 : i64} : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,2@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @accumulator_of_another_layout(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma (accumulator_layout: needs C in layout S[(128,64):(1@TLane,1@TCol)], got S[(128,64):(1@TLane,2@TCol)])}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 64, 64>, f32, #tile.layout<"S[(64,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @accumulator_of_another_shape(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma (accumulator_layout: needs C in layout S[(4,16,64):(32@TLane,1@TLane,1@TCol)], got S[(64,64):(1@TLane,1@TCol)])}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(128,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @a_of_another_layout(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma (operand_a: needs A in groups of 8 rows, one after the other, of 64 contiguous elements, as wide as swizzle 128B, each group and each panel at one stride (K-major), got S[(128,64):(128,1)] xor 128B)}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(1@TLane,2@TCol)]">, "tmem">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @a_in_tensor_memory(%b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %a = "tile.alloc"() : () -> !A
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma (operand_a: needs each 128x16 of A in layout S[(128,16):(1@TLane,1@TCol)], got S[(128,64):(1@TLane,2@TCol)])}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 128>, f16, #tile.layout<"S[(64,128):(1@TCol,1@TLane)]">, "tmem">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @a_transposed_in_tensor_memory(%b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %a = "tile.alloc"() : () -> !A
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma (operand_a: needs A in tensor memory as M x K, got transpose_a)}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true, transpose_a = true} : (!A, !B, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(128,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @b_of_another_layout(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma (operand_b: needs B in groups of 8 rows, one after the other, of 64 contiguous elements, as wide as swizzle 128B, each group and each panel at one stride (K-major), got S[(64,64):(128,1)] xor 128B)}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 32>, f32, #tile.layout<"S[(128,32):(32,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 32, 64>, f32, #tile.layout<"S[(32,2,32):(32,1024,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @tf32_in_another_swizzle(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{operand_b: needs B in MN-major order with another swizzle: swizzle must be 128B_32B for a transposed operand of kind tf32, got 128B}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>} : (!A, !B, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 128>, f4E2M1FN, #tile.layout<"S[(128,128):(128,1)] xor 64B">, "shared">
!B = !tile.buffer<array<i64: 64, 128>, f8E4M3FN, #tile.layout<"S[(64,128):(128,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @packed_for_a_plain_kind(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{operand_a: needs A in a layout with 16 elements in 16 bytes for type e2m1 of kind f8f6f4, got S[(128,128):(128,1)] xor 64B}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 128>, f8E4M3FN, #tile.layout<"S[(128,128):(128,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 128>, f8E4M3FN, #tile.layout<"S[(64,128):(128,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!S0 = !tile.buffer<array<i64: 128, 4>, f8E8M0FNU, #tile.layout<"S[(4,32,4):(4@TCol,1@TLane,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
!S1 = !tile.buffer<array<i64: 128, 4>, f8E8M0FNU, #tile.layout<"S[(4,32,4):(4@TCol,1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @scales_of_another_layout(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %s0 = "tile.alloc"() : () -> !S0
      %s1 = "tile.alloc"() : () -> !S1
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{scale_layouts: needs scale_b of 64 rows, laid out as eight scales of each are in S[(2,32,2,4):(4@TCol,1@TLane,16@TCol,1@TCol)] + R[(4):(32@TLane)]; got }}
      "tile.gemm_async"(%a, %b, %c, %more, %s0, %s1) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>, transpose_b = true} : (!A, !B, !C, i1, !S0, !S1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 128>, f8E4M3FN, #tile.layout<"S[(128,128):(128,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 128>, f8E4M3FN, #tile.layout<"S[(64,128):(128,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!S0 = !tile.buffer<array<i64: 64, 4>, f8E8M0FNU, #tile.layout<"S[(2,32,4):(4@TCol,1@TLane,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
!S1 = !tile.buffer<array<i64: 128, 4>, f8E8M0FNU, #tile.layout<"S[(4,32,4):(4@TCol,1@TLane,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @too_few_rows_of_scales(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %s0 = "tile.alloc"() : () -> !S0
      %s1 = "tile.alloc"() : () -> !S1
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{scale_layouts: needs scale_a of 128 rows}}
      "tile.gemm_async"(%a, %b, %c, %more, %s0, %s1) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>, transpose_b = true} : (!A, !B, !C, i1, !S0, !S1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, bf16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, bf16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(1@TLane,2@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @sums_of_bf16_in_f16(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{tcgen05.mma (descriptor: d_type f16 is legal with f16 A and B only, got bf16)}}
      "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f8E4M3FN, #tile.layout<"S[(128,64):(64,1)] xor 64B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f8E4M3FN, #tile.layout<"S[(64,64):(64,1)] xor 64B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!S = !tile.buffer<array<i64: 128, 4>, f8E8M0FNU, #tile.layout<"S[(4,32,4):(4@TCol,1@TLane,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @half_a_block(%a: !A, %b: !B, %more: i1, %number: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %s0 = "tile.alloc"() : () -> !S
      %s1 = "tile.alloc"() : () -> !S
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{scaled_types: needs 4 scales in each row, and K a multiple of 128 up to 512, with scale_block, got 4 and 64}}
      "tile.gemm_async"(%a, %b, %c, %more, %s0, %s1, %number) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 1>, transpose_b = true, scale_block = 128 : i64} : (!A, !B, !C, i1, !S, !S, i32) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 256>, f4E2M1FN, #tile.layout<"S[(128,256):(256,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 256>, f4E2M1FN, #tile.layout<"S[(64,256):(256,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!S = !tile.buffer<array<i64: 128, 4>, f8E8M0FNU, #tile.layout<"S[(4,32,4):(4@TCol,1@TLane,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @two_scales_of_an_instruction(%a: !A, %b: !B, %more: i1, %number: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %s0 = "tile.alloc"() : () -> !S
      %s1 = "tile.alloc"() : () -> !S
      %c = "tile.alloc"() : () -> !C
      // expected-error @below {{scaled_types: needs one scale for the K of an instruction with scale_block, got kind mxf4, which has two}}
      "tile.gemm_async"(%a, %b, %c, %more, %s0, %s1, %number) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 1>, transpose_b = true, scale_block = 128 : i64} : (!A, !B, !C, i1, !S, !S, i32) -> ()
    }) : () -> ()
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @n_of_no_instruction(%a: !A, %b: !B, %more: i1) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      %n = arith.constant 20 : i32
      // expected-error @below {{tcgen05.mma (run_time_n: n must be in 8..64 by 8 of a C as wide as 64, got 20}}
      "tile.gemm_async"(%a, %b, %c, %more, %n) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 1, 0>, transpose_b = true} : (!A, !B, !C, i1, i32) -> ()
    }) : () -> ()
    gpu.return
  }
}
