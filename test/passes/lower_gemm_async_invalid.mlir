// RUN: weft-opt %s --lower-gemm-async --split-input-file --verify-diagnostics

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @in_a_function(%a: !A, %b: !B, %c: !D, %more: i1) attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{tcgen05.mma, tcgen05.mma.block_scale, tcgen05.mma.ws (accumulator_memory: needs C in tensor memory, got it in registers); wgmma.mma_async (full_active_threads: needs to be in a kernel, so that all 128 threads of the warpgroup reach it together}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @of_an_unknown_block(%a: !A, %b: !B, %c: !D, %more: i1) kernel {
    // expected-error @below {{full_active_threads: needs to be in a kernel with 'known_block_size', so that all 128 threads of the warpgroup reach it together)}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @by_one_warp(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %thread = gpu.thread_id x
    %c32 = arith.constant 32 : index
    %warp = arith.divui %thread, %c32 : index
    %c0 = arith.constant 0 : index
    %first = arith.cmpi eq, %warp, %c0 : index
    scf.if %first {
      // expected-error @below {{full_active_threads: needs all 128 threads of the warpgroup to reach it together, but 'scf.if' depends on the thread}}
      %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, i1) -> !D
    }
    gpu.return
  }
}

// -----

!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @wait_by_some_threads(%c: !D, %n: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %thread = gpu.thread_id x
    %c64 = arith.constant 64 : index
    %some = arith.cmpi ult, %thread, %c64 : index
    scf.if %some {
      // expected-error @below {{'tile.wait_gemm' op expects all 128 threads of the warpgroup to reach it together, but 'scf.if' depends on the thread}}
      %0 = "tile.wait_gemm"(%c) : (!D) -> !D
    }
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @in_half_a_warpgroup(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 192, 1, 1>} {
    %thread = gpu.thread_id x
    %c128 = arith.constant 128 : index
    %last = arith.cmpi uge, %thread, %c128 : index
    scf.if %last {
      // expected-error @below {{full_active_threads: needs a block of full warpgroups of 128 threads along x, got (192, 1, 1)}}
      %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, i1) -> !D
    }
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, i32, #tile.layout<"S[(64,16):(16,1)]">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @type_of_a(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{wgmma.mma_async (types: needs A of one of f16, bf16, f32, f8E4M3FN, f8E5M2, i8, ui8, got i32)}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, i64, #tile.layout<"S[(8,16):(16,1)]">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @type_of_b(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{wgmma.mma_async (types: needs B of one of f16, bf16, f32, f8E4M3FN, f8E5M2, i8, ui8, got i64)}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, bf16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @of_two_types(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{types: wgmma.mma_async A and B must have the same type,}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 12, 16>, f16, #tile.layout<"S[(12,16):(16,1)] xor 32B">, "shared">
!D = tensor<64x12xf32, #tile.layout<"S[(4,2,8,4,3):(1@warpid,3,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @columns(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{types: wgmma.mma_async n must be a multiple of 8 in 8..256, got 12}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = tensor<64x8xbf16, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @sums(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{types: wgmma.mma_async d_type must be one of f16, f32, s32, got bf16}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m [#nvvm.target<chip = "sm_90">] {
  gpu.func @another_chip(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{types: wgmma.mma_async needs sm_90a}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 8>, f16, #tile.layout<"S[(64,8):(8,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 8>, f16, #tile.layout<"S[(8,8):(8,1)] xor 32B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @depth(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{wgmma.mma_async (extents: needs K % 16 == 0, got K = 8)}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(4,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @sums_of_one_warp(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{accumulator: needs C and D of f32, i32 or f16 in layout S[(}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)]">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @a_without_a_swizzle(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{operand_a: needs A in rows of 8 contiguous elements, as wide as swizzle none, one after the other, got S[(64,16):(16,1)]}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 128B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @rows_narrower_than_the_swizzle(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{operand_b: needs B in rows of 64 contiguous elements, as wide as swizzle 128B, one after the other, got S[(8,16):(16,1)] xor 128B}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 64>, f16, #tile.layout<"S[(8,64):(64,1)] xor 128B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @rows_wider_than_the_swizzle(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{operand_a: needs A in rows of 16 contiguous elements, as wide as swizzle 32B, one after the other, got}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(32,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @rows_apart(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{operand_a: needs A in rows of 16 contiguous elements, as wide as swizzle 32B, one after the other, got S[(64,16):(32,1)] xor 32B}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(8,8,16):(16,256,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @rows_in_groups(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{operand_a: needs A in rows of 16 contiguous elements, as wide as swizzle 32B, one after the other, got S[(8,8,16):(16,256,1)] xor 32B}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,8,2):(16,1,8)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @elements_in_another_order(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{operand_a: needs A in rows of 16 contiguous elements, as wide as swizzle 32B, one after the other, got S[(64,8,2):(16,1,8)] xor 32B}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 16, 64>, f16, #tile.layout<"S[(16,64):(1,16)] xor 128B">, "shared">
!D = tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
gpu.module @m {
  gpu.func @n_outside_of_what_runs_fastest(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{operand_b: needs B in rows of 64 contiguous elements, as wide as swizzle 128B, one after the other, got S[(16,64):(1,16)] xor 128B}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 16, 128>, f16, #tile.layout<"S[(16,2,64):(64,131072,1)] xor 128B">, "shared">
!D = tensor<64x128xf32, #tile.layout<"S[(4,2,8,16,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
gpu.module @m {
  gpu.func @panels_too_far_apart(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{operand_b: needs B in a layout that a matrix descriptor describes: leading_byte_offset must be in 0..262128, got 262144}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = tensor<64x16xf16, #tile.layout<"S[(4,2,8,2,4,2):(1@warpid,4,4@laneid,2,1@laneid,1)]">>
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @registers_in_another_order(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{wgmma.mma_async (operand_a: needs A in registers in layout S[(4,2,8,2,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)], got S[}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = tensor<64x16xf16, #tile.layout<"S[(4,2,8,2,4,2):(8,2,4@laneid,4,1@laneid,1)]">>
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @registers_of_one_warp(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{operand_a: needs A in registers in layout S[}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = tensor<64x64xf16, #tile.layout<"S[(4,2,8,4,2,4,2):(1@warpid,2,4@laneid,8,4,1@laneid,1)]">>
!B = !tile.buffer<array<i64: 8, 64>, f16, #tile.layout<"S[(8,64):(64,1)] xor 128B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @registers_transposed(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{major: needs A in registers of type f16 to be K-major, got M-major}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_a = true, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 8>, f32, #tile.layout<"S[(64,8):(8,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 32>, f32, #tile.layout<"S[(8,32):(32,1)] xor 128B">, "shared">
!D = tensor<64x32xf32, #tile.layout<"S[(4,2,8,4,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
gpu.module @m {
  gpu.func @n_major_tf32(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{wgmma.mma_async (major: needs B of type f32 to be K-major, got N-major)}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 32, 64>, i8, #tile.layout<"S[(32,64):(64,1)] xor 64B">, "shared">
!B = !tile.buffer<array<i64: 8, 32>, i8, #tile.layout<"S[(8,32):(32,1)] xor 32B">, "shared">
!D = tensor<64x8xi32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @m_inside_of_i8(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{wgmma.mma_async (major: needs A of type i8 to be K-major, got M-major)}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_a = true, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "cluster">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @a_of_a_peer(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{wgmma.mma_async (own_memory: needs A in the CTA's own shared memory, got a buffer in cluster memory)}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!H = tensor<64x16xbf16, #tile.layout<"S[(4,2,8,2,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
gpu.module @m {
  gpu.func @wait_for_halves(%h: !H) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'tile.wait_gemm' op expects fragments of f32, i32 or f16, got tensor<}}
    %0 = "tile.wait_gemm"(%h) : (!H) -> !H
    gpu.return
  }
}

// -----

!H = tensor<64x16xbf16, #tile.layout<"S[(4,2,8,2,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
gpu.module @m {
  gpu.func @pin_halves(%h: !H) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'tile.pin' op expects fragments of f32, i32 or f16, got tensor<}}
    %0 = "tile.pin"(%h) : (!H) -> !H
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @by_half_a_warpgroup(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    // expected-error @below {{wgmma.mma_async (full_active_threads: needs a block of full warpgroups of 128 threads along x, got (64, 1, 1)}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = tensor<16x64xf16, #tile.layout<"S[(2,4,2,4,2,8):(4,1@laneid,1,1@warpid,2,4@laneid)]">>
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @transposed_registers(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{major: needs A in registers of type f16 to be K-major, got M-major}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_a = true, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

// Panels that no one distance leads through: the descriptor has but one.
!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 16, 256>, f16, #tile.layout<"S[(16,2,2,64):(64,1024,2048,1)] xor 128B">, "shared">
!D = tensor<64x256xf32, #tile.layout<"S[(4,2,8,32,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
gpu.module @m {
  gpu.func @panels_in_another_order(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{operand_b: needs B in panels at one stride, got S[}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 16, 64>, f16, #tile.layout<"S[(16,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!D = tensor<16x64xf32, #tile.layout<"S[(2,8,8,4,2):(2,4@laneid,4,1@laneid,1)]">>
gpu.module @m {
  gpu.func @rows_of_one_warp(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{wgmma.mma_async (extents: needs M % 64 == 0, got M = 16)}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "cluster">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @b_of_a_peer(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{own_memory: needs B in the CTA's own shared memory, got a buffer in cluster memory}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

gpu.module @m {
  // expected-error @below {{'gpu.func' op expects to be a kernel, since it has sums in named registers}}
  gpu.func @named_sums_of_a_function() {
    "tile.clear_sums"() {count = 4, first_sum = 0} : () -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  // expected-error @below {{'func.func' op expects to be a kernel, since it has sums in named registers}}
  func.func @named_sums_of_another_function() {
    "tile.clear_sums"() {count = 4, first_sum = 0} : () -> ()
    return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @named_sums_as_a_value(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'tile.gemm_async' op expects no use of D with first_sum: tile.read_sums returns the sums}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, first_sum = 0, transpose_b = true} : (!A, !B, !D, i1) -> !D
    %1 = "tile.wait_gemm"(%0) : (!D) -> !D
    gpu.return
  }
}
