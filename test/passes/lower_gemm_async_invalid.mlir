// RUN: weft-opt %s --lower-gemm-async --split-input-file --verify-diagnostics

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, f32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @in_a_function(%a: !A, %b: !B, %c: !D, %more: i1) attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'tile.gemm_async' op expects all 128 threads of the warpgroup: a kernel around it, not a function that some of them may call}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, f32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @of_an_unknown_block(%a: !A, %b: !B, %c: !D, %more: i1) kernel {
    // expected-error @below {{expects all 128 threads of the warpgroup: a kernel with 'known_block_size'}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, f32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @by_one_warp(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %thread = gpu.thread_id x
    %c32 = arith.constant 32 : index
    %warp = arith.divui %thread, %c32 : index
    %c0 = arith.constant 0 : index
    %first = arith.cmpi eq, %warp, %c0 : index
    scf.if %first {
      // expected-error @below {{'tile.gemm_async' op expects all 128 threads of the warpgroup, but 'scf.if' decides by thread whether it runs}}
      %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_b = true} : (!A, !B, !D, i1) -> !D
    }
    gpu.return
  }
}

// -----

!D = !tile.fragment<array<i64: 64, 8>, f32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @wait_by_some_threads(%c: !D, %n: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %thread = gpu.thread_id x
    %c64 = arith.constant 64 : index
    %some = arith.cmpi ult, %thread, %c64 : index
    scf.if %some {
      // expected-error @below {{'tile.wait_gemm' op expects all 128 threads of the warpgroup, but 'scf.if' decides by thread whether it runs}}
      %0 = "tile.wait_gemm"(%c) : (!D) -> !D
    }
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, f32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @in_half_a_warpgroup(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 192, 1, 1>} {
    %thread = gpu.thread_id x
    %c128 = arith.constant 128 : index
    %last = arith.cmpi uge, %thread, %c128 : index
    scf.if %last {
      // expected-error @below {{expects all 128 threads of the warpgroup: a block of whole warpgroups along x, got (192, 1, 1)}}
      %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_b = true} : (!A, !B, !D, i1) -> !D
    }
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, i32, #tile.layout<"S[(64,16):(16,1)]">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, f32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @type_of_a(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{expects A of a type that tensor cores multiply, got i32}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, i64, #tile.layout<"S[(8,16):(16,1)]">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, f32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @type_of_b(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{expects B of a type that tensor cores multiply, got i64}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, bf16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, f32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @of_two_types(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{has no instruction: wgmma.mma_async multiplies A and B of one type,}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 12, 16>, f16, #tile.layout<"S[(12,16):(16,1)] xor 32B">, "shared">
!D = !tile.fragment<array<i64: 64, 12>, f32, #tile.layout<"S[(4,2,8,4,3):(1@warpid,3,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @columns(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{has no instruction: wgmma.mma_async has n a multiple of 8 from 8 to 256, got 12}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, bf16, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @sums(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{has no instruction: wgmma.mma_async has no d_type bf16}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, f32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m [#nvvm.target<chip = "sm_90">] {
  gpu.func @another_chip(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{has no instruction: wgmma.mma_async needs sm_90a}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 8>, f16, #tile.layout<"S[(64,8):(8,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 8>, f16, #tile.layout<"S[(8,8):(8,1)] xor 32B">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, f32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @depth(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{expects K in multiples of 16, got 8}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, f16, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @half_sums(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{expects C and D of f32 or i32 that lie as S[}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, f32, #tile.layout<"S[(4,2,8,4,2):(4,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @sums_of_one_warp(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{expects C and D of f32 or i32 that lie as S[(}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)]">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, f32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @a_without_a_swizzle(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{expects A in rows of 8 elements that follow each other, as swizzle none is wide, got S[(64,16):(16,1)]}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 128B">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, f32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @rows_narrower_than_the_swizzle(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{expects B in rows of 64 elements that follow each other, as swizzle 128B is wide, got S[(8,16):(16,1)] xor 128B}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 64>, f16, #tile.layout<"S[(8,64):(64,1)] xor 128B">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, f32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @rows_wider_than_the_swizzle(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{expects A in rows of 16 elements that follow each other, as swizzle 32B is wide, got}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(32,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, f32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @rows_apart(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{expects A in rows of 16 elements that follow each other, as swizzle 32B is wide, got S[(64,16):(32,1)] xor 32B}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(8,8,16):(16,256,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, f32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @rows_in_groups(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{expects A in rows of 16 elements that follow each other, as swizzle 32B is wide, got S[(8,8,16):(16,256,1)] xor 32B}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,8,2):(16,1,8)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, f32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @elements_in_another_order(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{expects A in rows of 16 elements that follow each other, as swizzle 32B is wide, got S[(64,8,2):(16,1,8)] xor 32B}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 16, 64>, f16, #tile.layout<"S[(16,64):(1,16)] xor 128B">, "shared">
!D = !tile.fragment<array<i64: 64, 64>, f32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
gpu.module @m {
  gpu.func @n_outside_of_what_runs_fastest(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{expects B in rows of 64 elements that follow each other, as swizzle 128B is wide, got S[(16,64):(1,16)] xor 128B}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 16, 128>, f16, #tile.layout<"S[(16,2,64):(64,131072,1)] xor 128B">, "shared">
!D = !tile.fragment<array<i64: 64, 128>, f32, #tile.layout<"S[(4,2,8,16,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
gpu.module @m {
  gpu.func @panels_too_far_apart(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{has no descriptor of B: needs leading_byte_offset from 0 to 262128, got 262144}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.fragment<array<i64: 64, 16>, f16, #tile.layout<"S[(4,2,8,2,4,2):(1@warpid,4,4@laneid,2,1@laneid,1)]">>
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, f32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @registers_in_another_order(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{expects A in registers as the instruction reads it, S[(4,2,8,2,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)], got S[}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.fragment<array<i64: 64, 16>, f16, #tile.layout<"S[(4,2,8,2,4,2):(8,2,4@laneid,4,1@laneid,1)]">>
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, f32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @registers_of_one_warp(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{expects A in registers as the instruction reads it, S[}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.fragment<array<i64: 64, 64>, f16, #tile.layout<"S[(4,2,8,4,2,4,2):(1@warpid,2,4@laneid,8,4,1@laneid,1)]">>
!B = !tile.buffer<array<i64: 8, 64>, f16, #tile.layout<"S[(8,64):(64,1)] xor 128B">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, f32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @registers_transposed(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{expects A in}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_a = true, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 8>, f32, #tile.layout<"S[(64,8):(8,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 32>, f32, #tile.layout<"S[(8,32):(32,1)] xor 128B">, "shared">
!D = !tile.fragment<array<i64: 64, 32>, f32, #tile.layout<"S[(4,2,8,4,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
gpu.module @m {
  gpu.func @n_inside_of_tf32(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'wgmma.mma_async' op takes no trans_b here}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 32, 64>, i8, #tile.layout<"S[(32,64):(64,1)] xor 64B">, "shared">
!B = !tile.buffer<array<i64: 8, 32>, i8, #tile.layout<"S[(8,32):(32,1)] xor 32B">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, i32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @m_inside_of_i8(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'wgmma.mma_async' op takes no trans_a here}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_a = true, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "cluster">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, f32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @a_of_a_peer(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'wgmma.descriptor' op expects an address in shared memory (!llvm.ptr<3>), got !llvm.ptr<7>}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!H = !tile.fragment<array<i64: 64, 16>, f16, #tile.layout<"S[(4,2,8,2,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
gpu.module @m {
  gpu.func @wait_for_halves(%h: !H) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'tile.wait_gemm' op expects fragments of f32 or i32, got !tile.fragment<}}
    %0 = "tile.wait_gemm"(%h) : (!H) -> !H
    gpu.return
  }
}

// -----

!H = !tile.fragment<array<i64: 64, 16>, f16, #tile.layout<"S[(4,2,8,2,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
gpu.module @m {
  gpu.func @pin_halves(%h: !H) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'tile.pin' op expects fragments of f32 or i32, got !tile.fragment<}}
    %0 = "tile.pin"(%h) : (!H) -> !H
    gpu.return
  }
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, f32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @by_half_a_warpgroup(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    // expected-error @below {{'tile.gemm_async' op expects all 128 threads of the warpgroup: a block of whole warpgroups along x, got (64, 1, 1)}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

!A = !tile.fragment<array<i64: 16, 64>, f16, #tile.layout<"S[(2,4,2,4,2,8):(4,1@laneid,1,1@warpid,2,4@laneid)]">>
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = !tile.fragment<array<i64: 64, 8>, f32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @transposed_registers(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'tile.gemm_async' op expects A}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) {transpose_a = true, transpose_b = true} : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}

// -----

// Panels that no one distance leads through: the descriptor has but one.
!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 16, 256>, f16, #tile.layout<"S[(16,2,2,64):(64,1024,2048,1)] xor 128B">, "shared">
!D = !tile.fragment<array<i64: 64, 256>, f32, #tile.layout<"S[(4,2,8,32,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
gpu.module @m {
  gpu.func @panels_in_another_order(%a: !A, %b: !B, %c: !D, %more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'tile.gemm_async' op expects panels of B at one distance}}
    %0 = "tile.gemm_async"(%a, %b, %c, %more) : (!A, !B, !D, i1) -> !D
    gpu.return
  }
}
