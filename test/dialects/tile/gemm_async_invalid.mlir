// RUN: weft-opt %s --split-input-file --verify-diagnostics

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
func.func @d_beside_c(%a: !A, %b: !B, %c: !C, %more: i1) {
  // expected-error @below {{expects no result where C is in tensor memory: D is written over C}}
  %d = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> !C
  return
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
func.func @no_d(%a: !A, %b: !B, %c: !D, %more: i1) {
  // expected-error @below {{expects to return D, unless C is in tensor memory, got 0 results}}
  "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, i1) -> ()
  return
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
func.func @a_pair_in_registers(%a: !A, %b: !B, %c: !D, %more: i1) {
  // expected-error @below {{expects C in tensor memory with cta_group, got tensor}}
  %d = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, cta_group = 2 : i64, transpose_b = true} : (!A, !B, !D, i1) -> !D
  return
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
func.func @n_in_registers(%a: !A, %b: !B, %c: !D, %more: i1, %n: i32) {
  // expected-error @below {{expects C in tensor memory with scales or n, got tensor}}
  %d = "tile.gemm_async"(%a, %b, %c, %more, %n) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 1, 0>, transpose_b = true} : (!A, !B, !D, i1, i32) -> !D
  return
}

// -----

!A = tensor<64x16xf16, #tile.layout<"S[(4,2,8,2,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!B = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!C = !tile.buffer<array<i64: 64, 64>, f32, #tile.layout<"S[(4,16,64):(32@TLane,1@TLane,1@TCol)]">, "tmem">
func.func @a_in_registers(%a: !A, %b: !B, %c: !C, %more: i1) {
  // expected-error @below {{expects A to be a tile.buffer where C is in tensor memory, got tensor}}
  "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !C, i1) -> ()
  return
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
func.func @three_ctas(%a: !A, %b: !B, %c: !C, %more: i1) {
  // expected-error @below {{cta_group must be 1 or 2, got 3}}
  "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, cta_group = 3 : i64, transpose_b = true} : (!A, !B, !C, i1) -> ()
  return
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
func.func @half_of_a_shape(%a: !A, %b: !B, %c: !C, %more: i1) {
  // expected-error @below {{mma_m and mma_n must both be positive or both be absent, got 128 and 0}}
  "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, mma_m = 128 : i64, transpose_b = true} : (!A, !B, !C, i1) -> ()
  return
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
func.func @a_elsewhere(%a: !A, %b: !B, %c: !C, %more: i1) {
  // expected-error @below {{use_a_tmem must be false for A in shared memory}}
  "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true, use_a_tmem = true} : (!A, !B, !C, i1) -> ()
  return
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
func.func @half_of_the_columns(%a: !A, %b: !B, %c: !C, %more: i1) {
  // expected-error @below {{expects D of shape [128, 128], got [128, 64]}}
  "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, cta_group = 2 : i64, transpose_b = true} : (!A, !B, !C, i1) -> ()
  return
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
func.func @wide_n(%a: !A, %b: !B, %c: !C, %more: i1, %n: i64) {
  // expected-error @below {{expects n to be i32, got i64}}
  "tile.gemm_async"(%a, %b, %c, %more, %n) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 1, 0>, transpose_b = true} : (!A, !B, !C, i1, i64) -> ()
  return
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
func.func @two_numbers(%a: !A, %b: !B, %c: !C, %more: i1, %n: i32) {
  // expected-error @below {{expects scale_a to be a buffer of rank 2 in tensor memory, got i32}}
  "tile.gemm_async"(%a, %b, %c, %more, %n, %n) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>, transpose_b = true} : (!A, !B, !C, i1, i32, i32) -> ()
  return
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
func.func @four_numbers(%a: !A, %b: !B, %c: !C, %more: i1, %n: i32) {
  // expected-error @below {{expects 'operandSegmentSizes' with the number of operands in a, b, c, accumulate, scale_a, scale_b, n, number}}
  "tile.gemm_async"(%a, %b, %c, %more, %n, %n, %n, %n) {transpose_b = true} : (!A, !B, !C, i1, i32, i32, i32, i32) -> ()
  return
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
func.func @blocks_of_64(%a: !A, %b: !B, %c: !C, %more: i1, %n: i32) {
  // expected-error @below {{scale_block must be 0 or 128, got 64}}
  "tile.gemm_async"(%a, %b, %c, %more, %n) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 1, 0>, transpose_b = true, scale_block = 64 : i64} : (!A, !B, !C, i1, i32) -> ()
  return
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
func.func @blocks_without_scales(%a: !A, %b: !B, %c: !C, %more: i1, %n: i32) {
  // expected-error @below {{expects scale_a, scale_b and number with scale_block, got n}}
  "tile.gemm_async"(%a, %b, %c, %more, %n) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 1, 0>, transpose_b = true, scale_block = 128 : i64} : (!A, !B, !C, i1, i32) -> ()
  return
}

// -----

!A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
func.func @wide_number(%a: !A, %b: !B, %c: !C, %more: i1, %n: i64) {
  // expected-error @below {{expects number to be i32, got i64}}
  "tile.gemm_async"(%a, %b, %c, %more, %n, %n, %n) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 1>, transpose_b = true, scale_block = 128 : i64} : (!A, !B, !C, i1, i64, i64, i64) -> ()
  return
}
