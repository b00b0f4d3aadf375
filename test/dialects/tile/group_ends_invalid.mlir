// RUN: weft-opt %s --split-input-file --verify-diagnostics

!A = memref<?x?xbf16>
func.func @row_ends_of_one_b(%a: !A, %b: !A, %d: !A, %e: memref<?xi32>) {
  // expected-error @below {{expects exactly B of rank 3 where row_ends select a B, got none}}
  "tile.matmul"(%a, %b, %d, %e) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0>} : (!A, !A, !A, memref<?xi32>) -> ()
  return
}

// -----

!A = memref<?x?x?xbf16>
func.func @row_ends_of_a_batch(%a: !A, %b: !A, %d: !A, %e: memref<?xi32>) {
  // expected-error @below {{expects exactly B of rank 3 where row_ends select a B, got A and B and D}}
  "tile.matmul"(%a, %b, %d, %e) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0>} : (!A, !A, !A, memref<?xi32>) -> ()
  return
}

// -----

!A = memref<?x?xbf16>
!B = memref<3x?x?xbf16>
func.func @row_ends_of_other_groups(%a: !A, %b: !B, %d: !A, %e: memref<4xi32>) {
  // expected-error @below {{expects B (batch x K x N) and row_ends (batch) to agree: batch is 3 in B and 4 in row_ends}}
  "tile.matmul"(%a, %b, %d, %e) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0>} : (!A, !B, !A, memref<4xi32>) -> ()
  return
}

// -----

!A = memref<?x?xbf16>
func.func @k_ends_of_one_product(%a: !A, %b: !A, %d: !A, %e: memref<?xi32>) {
  // expected-error @below {{expects D of rank 3, but A, B and their scales of rank 2, where k_ends divide K, got none of rank 3}}
  "tile.matmul"(%a, %b, %d, %e) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0>} : (!A, !A, !A, memref<?xi32>) -> ()
  return
}

// -----

!A = memref<?x?xbf16>
!D = memref<?x?x?xf32>
!B = memref<?x?x?xbf16>
func.func @k_ends_of_a_batch(%a: !A, %b: !B, %d: !D, %e: memref<?xi32>) {
  // expected-error @below {{expects D of rank 3, but A, B and their scales of rank 2, where k_ends divide K, got B and D of rank 3}}
  "tile.matmul"(%a, %b, %d, %e) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0>} : (!A, !B, !D, memref<?xi32>) -> ()
  return
}

// -----

!A = memref<?x?xbf16>
!D = memref<3x?x?xf32>
func.func @k_ends_of_other_products(%a: !A, %b: !A, %d: !D, %e: memref<4xi32>) {
  // expected-error @below {{expects D (batch x M x N) and k_ends (batch) to agree: batch is 3 in D and 4 in k_ends}}
  "tile.matmul"(%a, %b, %d, %e) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0>} : (!A, !A, !D, memref<4xi32>) -> ()
  return
}

// -----

!A = memref<?x?xf8E4M3FN>
!D = memref<?x?x?xf32>
!S = memref<?x?xf8E8M0FNU>
func.func @k_ends_with_block_scales(%a: !A, %b: !A, %d: !D, %s: !S, %e: memref<?xi32>) {
  // expected-error @below {{k_ends must not come with block scales of groups along K}}
  "tile.matmul"(%a, %b, %d, %s, %s, %e) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0>, transpose_b = true}
    : (!A, !A, !D, !S, !S, memref<?xi32>) -> ()
  return
}

// -----

!A = memref<?x?xbf16>
!B = memref<?x?x?xbf16>
func.func @two_kinds_of_groups(%a: !A, %b: !B, %d: !A, %e: memref<?xi32>) {
  // expected-error @below {{expects at most one of groups, row_ends, k_ends, got groups and row_ends}}
  "tile.matmul"(%a, %b, %d, %e, %e) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (!A, !B, !A, memref<?xi32>, memref<?xi32>) -> ()
  return
}

// -----

!A = memref<?x?xf6E2M3FN>
!D = memref<?x?x?xf32>
func.func @k_block_of_two_groups(%a: !A, %b: !A, %d: !D, %e: memref<?xi32>) {
  // expected-error @below {{block K must divide 128 with k_ends, got 256}}
  "tile.matmul"(%a, %b, %d, %e) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0>, transpose_b = true,
    schedule = {block = array<i64: 128, 64, 256>, accumulators = 1, stages = 2}} : (!A, !A, !D, memref<?xi32>) -> ()
  return
}
