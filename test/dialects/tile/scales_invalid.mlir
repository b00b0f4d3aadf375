// RUN: weft-opt %s --split-input-file --verify-diagnostics

!A = memref<?x?xf8E4M3FN>
!B = memref<?x?x?xf8E4M3FN>
!D = memref<?x?xbf16>
!S = memref<?x?xf32>
func.func @scales_of_a_alone(%a: !A, %b: !A, %d: !D, %s: !S) {
  // expected-error @below {{expects scale_a and scale_b together, got only scale_a}}
  "tile.matmul"(%a, %b, %d, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (!A, !A, !D, !S) -> ()
  return
}

// -----

!A = memref<?x?xbf16>
!S = memref<?x?xf32>
func.func @scales_of_bf16(%a: !A, %b: !A, %d: !A, %s: !S) {
  // expected-error @below {{expects A and B of fp8 where there are scales of f32, got memref<?x?xbf16>}}
  "tile.matmul"(%a, %b, %d, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (!A, !A, !A, !S, !S) -> ()
  return
}

// -----

// Of 300 columns of K there are 3 blocks.
!A = memref<64x300xf8E4M3FN>
!D = memref<64x64xbf16>
!S = memref<2x?xf32>
func.func @scales_of_too_few_blocks(%a: !A, %b: !A, %d: !D, %s: !S) {
  // expected-error @below {{expects A (M x K) and scale_a (K/128 x M) to agree: K/128 is 3 in A and 2 in scale_a}}
  "tile.matmul"(%a, %b, %d, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (!A, !A, !D, !S, !S) -> ()
  return
}

// -----

!A = memref<?x?xbf16>
!B = memref<?x?x?xbf16>
func.func @groups_of_one_matrix(%a: !A, %b: !A, %d: !A, %g: memref<?xi32>) {
  // expected-error @below {{expects exactly B of rank 3 where groups select a B, got none}}
  "tile.matmul"(%a, %b, %d, %g) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (!A, !A, !A, memref<?xi32>) -> ()
  return
}

// -----

!A = memref<8x?xbf16>
!B = memref<?x?x?xbf16>
!D = memref<8x?xbf16>
func.func @groups_of_other_rows(%a: !A, %b: !B, %d: !D, %g: memref<4xi32>) {
  // expected-error @below {{expects D (M x N) and groups (M) to agree: M is 8 in D and 4 in groups}}
  "tile.matmul"(%a, %b, %d, %g) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, memref<4xi32>) -> ()
  return
}

// -----

!A = memref<2x?x?xbf16>
func.func @groups_of_another_batch(%a: !A, %b: !A, %d: !A, %g: memref<4xi32>) {
  // expected-error @below {{expects D (batch x M x N) and groups (batch) to agree: batch is 2 in D and 4 in groups}}
  "tile.matmul"(%a, %b, %d, %g) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (!A, !A, !A, memref<4xi32>) -> ()
  return
}

// -----

!A = memref<?x?xbf16>
!B = memref<?x?x?xbf16>
func.func @groups_of_floats(%a: !A, %b: !B, %d: !A, %g: memref<?xf32>) {
  // expected-error @below {{expects groups of element type i32, got memref<?xf32>}}
  "tile.matmul"(%a, %b, %d, %g) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !A, memref<?xf32>) -> ()
  return
}

// -----

!A = memref<?x?xf8E4M3FN>
!S = memref<?x?xf8E4M3FN>
!D = memref<?x?xbf16>
func.func @e4m3_scales_of_fp8(%a: !A, %b: !A, %d: !D, %s: !S) {
  // expected-error @below {{expects A and B of f4E2M1FN with scales of f8E4M3FN, got f8E4M3FN and f8E4M3FN: these have scales of f8E8M0FNU}}
  "tile.matmul"(%a, %b, %d, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (!A, !A, !D, !S, !S) -> ()
  return
}

// -----

!A = memref<?x?xbf16>
!S = memref<?x?xf8E8M0FNU>
func.func @block_scales_of_bf16(%a: !A, %b: !A, %d: !A, %s: !S) {
  // expected-error @below {{expects A and B of f8E4M3FN or f8E5M2 or f6E2M3FN or f6E3M2FN or f4E2M1FN with scales of f8E8M0FNU, got bf16 and bf16}}
  "tile.matmul"(%a, %b, %d, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (!A, !A, !A, !S, !S) -> ()
  return
}

// -----

!A = memref<?x?xf4E2M1FN>
!S = memref<?x?xf8E8M0FNU>
!T = memref<?x?xf8E4M3FN>
!D = memref<?x?xbf16>
func.func @scales_of_two_types(%a: !A, %b: !A, %d: !D, %s: !S, %t: !T) {
  // expected-error @below {{expects scale_a and scale_b of one element type, got f8E8M0FNU and f8E4M3FN}}
  "tile.matmul"(%a, %b, %d, %s, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (!A, !A, !D, !S, !T) -> ()
  return
}

// -----

!A = memref<?x?xf8E5M2>
!S = memref<?x?xf8E8M0FNU>
!D = memref<?x?xbf16>
func.func @promoted_block_scales(%a: !A, %b: !A, %d: !D, %s: !S) {
  // expected-error @below {{promote must be false with block scales, whose products are added in f32}}
  "tile.matmul"(%a, %b, %d, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, promote = true} : (!A, !A, !D, !S, !S) -> ()
  return
}

// -----

// A tile of scales is of 4 groups: 64 elements along K, where 16 share one.
!A = memref<300x136xf4E2M1FN>
!D = memref<300x300xf32>
!S = memref<3x1024xf8E4M3FN>
func.func @scales_of_too_few_groups(%a: !A, %b: !A, %d: !D, %s: !S) {
  // expected-error @below {{expects A (M x K) and scale_a (M/128 x 512*K/64) to agree: 512*K/64 is 1536 in A and 1024 in scale_a}}
  "tile.matmul"(%a, %b, %d, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (!A, !A, !D, !S, !S) -> ()
  return
}

// -----

!A = memref<300x256xf8E5M2>
!B = memref<200x256xf8E4M3FN>
!D = memref<300x200xf32>
!S = memref<3x1024xf8E8M0FNU>
func.func @scales_of_too_many_columns(%a: !A, %b: !B, %d: !D, %s: !S) {
  // expected-error @below {{expects D (M x N) and scale_b (N/128 x 512*K/128) to agree: N/128 is 2 in D and 3 in scale_b}}
  "tile.matmul"(%a, %b, %d, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, !S, !S) -> ()
  return
}

// -----

!A = memref<64x192xf6E2M3FN>
!B = memref<64x192xf8E4M3FN>
!S = memref<1x1024xf8E8M0FNU>
!D = memref<64x64xf32>
func.func @a_depth_that_does_not_expand(%a: !A, %b: !B, %d: !D, %s: !S) {
  // expected-error @below {{K must be a multiple of 128 for A and B of f6E2M3FN and f8E4M3FN, got 192}}
  "tile.matmul"(%a, %b, %d, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, !S, !S) -> ()
  return
}

// -----

!A = memref<64x33xf4E2M1FN>
!S = memref<?x?xf8E8M0FNU>
!D = memref<64x64xf32>
func.func @half_a_byte(%a: !A, %b: !A, %d: !D, %s: !S) {
  // expected-error @below {{K must be a multiple of 2 for A and B of f4E2M1FN and f4E2M1FN, got 33}}
  "tile.matmul"(%a, %b, %d, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (!A, !A, !D, !S, !S) -> ()
  return
}

// -----

!A = memref<64x64xf8E4M3FN>
!B = memref<64x64xbf16>
!D = memref<64x64xf32>
func.func @fp8_and_bf16(%a: !A, %b: !B, %d: !D) {
  // expected-error @below {{expects A and B of one element type, got memref<64x64xf8E4M3FN> and memref<64x64xbf16>}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D) -> ()
  return
}

// -----

!A = memref<64x640xf8E4M3FN>
!B = memref<64x640xf8E4M3FN>
!S = memref<2x64xi32>
!T = memref<2x64xi32>
!D = memref<64x64xf32>
func.func @words_of_nothing(%a: !A, %b: !B, %d: !D, %s: !S, %t: !T) {
  // expected-error @below {{scale_block must be 128 or 32 with scales of i32, got 0}}
  "tile.matmul"(%a, %b, %d, %s, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D, !S, !T) -> ()
  return
}

// -----

!A = memref<64x640xf8E4M3FN>
!B = memref<64x640xf8E4M3FN>
!S = memref<2x64xi32>
!T = memref<2x64xi32>
!D = memref<64x64xf32>
func.func @words_of_64(%a: !A, %b: !B, %d: !D, %s: !S, %t: !T) {
  // expected-error @below {{scale_block must be 128 or 32 with scales of i32, got 64}}
  "tile.matmul"(%a, %b, %d, %s, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, scale_block = 64 : i64} : (!A, !B, !D, !S, !T) -> ()
  return
}

// -----

!A = memref<64x640xf8E4M3FN>
!B = memref<64x640xf8E4M3FN>
!S = memref<?x?xf8E8M0FNU>
!T = memref<?x?xf8E8M0FNU>
!D = memref<64x64xf32>
func.func @blocks_of_tiles(%a: !A, %b: !B, %d: !D, %s: !S, %t: !T) {
  // expected-error @below {{scale_block must be 0 unless scales are of i32, got 128 with f8E8M0FNU}}
  "tile.matmul"(%a, %b, %d, %s, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, scale_block = 128 : i64} : (!A, !B, !D, !S, !T) -> ()
  return
}

// -----

!A = memref<64x640xf4E2M1FN>
!B = memref<64x640xf4E2M1FN>
!S = memref<2x64xi32>
!T = memref<2x64xi32>
!D = memref<64x64xf32>
func.func @two_scales_of_an_instruction(%a: !A, %b: !B, %d: !D, %s: !S, %t: !T) {
  // expected-error @below {{scale_block must be 32 for A and B of f4E2M1FN and f4E2M1FN, got 128}}
  "tile.matmul"(%a, %b, %d, %s, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, scale_block = 128 : i64} : (!A, !B, !D, !S, !T) -> ()
  return
}

// -----

!A = memref<64x640xf8E4M3FN>
!B = memref<64x640xf8E4M3FN>
!S = memref<2x64xi32>
!T = memref<?x?xf8E8M0FNU>
!D = memref<64x64xf32>
func.func @words_and_tiles(%a: !A, %b: !B, %d: !D, %s: !S, %t: !T) {
  // expected-error @below {{expects scale_a and scale_b of one element type, got i32 and f8E8M0FNU}}
  "tile.matmul"(%a, %b, %d, %s, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, scale_block = 128 : i64} : (!A, !B, !D, !S, !T) -> ()
  return
}

// -----

!A = memref<64x640xf16>
!B = memref<64x640xf16>
!S = memref<2x64xi32>
!T = memref<2x64xi32>
!D = memref<64x64xf32>
func.func @words_of_f16(%a: !A, %b: !B, %d: !D, %s: !S, %t: !T) {
  // expected-error @below {{with scales of f8E8M0FNU, got f16 and f16}}
  "tile.matmul"(%a, %b, %d, %s, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, scale_block = 128 : i64} : (!A, !B, !D, !S, !T) -> ()
  return
}

// -----

!A = memref<64x640xf8E4M3FN>
!B = memref<64x640xf8E4M3FN>
!S = memref<64x2xi32>
!T = memref<64x2xi32>
!D = memref<64x64xf32>
func.func @words_of_rows(%a: !A, %b: !B, %d: !D, %s: !S, %t: !T) {
  // expected-error @below {{expects A (M x K) and scale_a (K/512 x M) to agree: K/512 is 2 in A and 64 in scale_a}}
  "tile.matmul"(%a, %b, %d, %s, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, scale_block = 128 : i64} : (!A, !B, !D, !S, !T) -> ()
  return
}

// -----

!A = memref<64x640xf8E4M3FN>
!B = memref<64x640xf8E4M3FN>
!S = memref<5x64xi32>
!T = memref<5x128xi32>
!D = memref<64x64xf32>
func.func @words_of_more_columns(%a: !A, %b: !B, %d: !D, %s: !S, %t: !T) {
  // expected-error @below {{expects D (M x N) and scale_b (K/128 x N) to agree: N is 64 in D and 128 in scale_b}}
  "tile.matmul"(%a, %b, %d, %s, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, scale_block = 32 : i64} : (!A, !B, !D, !S, !T) -> ()
  return
}

// -----

!A = memref<?x?xf8E4M3FN>
!D = memref<?x?xf32>
func.func @columns_without_scales(%a: !A, %b: !A, %d: !D) {
  // expected-error @below {{scale_columns must be false unless scales are of f32, got scale_b of none}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, scale_columns = true} : (!A, !A, !D) -> ()
  return
}

// -----

!A = memref<?x?xf8E4M3FN>
!D = memref<?x?xf32>
!S = memref<?x?xf8E8M0FNU>
func.func @columns_of_block_scales(%a: !A, %b: !A, %d: !D, %s: !S) {
  // expected-error @below {{scale_columns must be false unless scales are of f32, got scale_b of memref<?x?xf8E8M0FNU>}}
  "tile.matmul"(%a, %b, %d, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, scale_columns = true}
    : (!A, !A, !D, !S, !S) -> ()
  return
}

// -----

// There is a scale for each of 40 columns, not for each 128 of them.
!A = memref<64x256xf8E4M3FN>
!B = memref<40x256xf8E4M3FN>
!D = memref<64x40xf32>
!S = memref<?x?xf32>
func.func @scales_of_blocks_for_columns(%a: !A, %b: !B, %d: !D, %s: memref<2x64xf32>, %t: memref<2x64xf32>) {
  // expected-error @below {{expects D (M x N) and scale_b (K/128 x N) to agree: N is 40 in D and 64 in scale_b}}
  "tile.matmul"(%a, %b, %d, %s, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, scale_columns = true}
    : (!A, !B, !D, memref<2x64xf32>, memref<2x64xf32>) -> ()
  return
}
