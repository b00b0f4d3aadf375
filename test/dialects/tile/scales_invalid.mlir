// RUN: weft-opt %s --split-input-file --verify-diagnostics

!A = memref<?x?xf8E4M3FN>
!B = memref<?x?x?xf8E4M3FN>
!D = memref<?x?xbf16>
!S = memref<?x?xf32>
func.func @scales_of_a_alone(%a: !A, %b: !A, %d: !D, %s: !S) {
  // expected-error @below {{expects scale_a and scale_b together, got only scale_a}}
  "tile.matmul"(%a, %b, %d, %s) {transpose_b = true, roles = ["scale_a"]} : (!A, !A, !D, !S) -> ()
  return
}

// -----

!A = memref<?x?xbf16>
!S = memref<?x?xf32>
func.func @scales_of_bf16(%a: !A, %b: !A, %d: !A, %s: !S) {
  // expected-error @below {{expects A and B of fp8 where there are scales, got memref<?x?xbf16>}}
  "tile.matmul"(%a, %b, %d, %s, %s) {transpose_b = true, roles = ["scale_a", "scale_b"]} : (!A, !A, !A, !S, !S) -> ()
  return
}

// -----

// Of 300 columns of K there are 3 blocks.
!A = memref<64x300xf8E4M3FN>
!D = memref<64x64xbf16>
!S = memref<2x?xf32>
func.func @scales_of_too_few_blocks(%a: !A, %b: !A, %d: !D, %s: !S) {
  // expected-error @below {{expects A (M x K) and scale_a (K/128 x M) to agree: K/128 is 3 in A and 2 in scale_a}}
  "tile.matmul"(%a, %b, %d, %s, %s) {transpose_b = true, roles = ["scale_a", "scale_b"]} : (!A, !A, !D, !S, !S) -> ()
  return
}

// -----

!A = memref<?x?xbf16>
!B = memref<?x?x?xbf16>
func.func @groups_of_one_matrix(%a: !A, %b: !A, %d: !A, %g: memref<?xi32>) {
  // expected-error @below {{expects exactly B of rank 3 where groups select a B, got none}}
  "tile.matmul"(%a, %b, %d, %g) {transpose_b = true, roles = ["groups"]} : (!A, !A, !A, memref<?xi32>) -> ()
  return
}

// -----

!A = memref<8x?xbf16>
!B = memref<?x?x?xbf16>
!D = memref<8x?xbf16>
func.func @groups_of_other_rows(%a: !A, %b: !B, %d: !D, %g: memref<4xi32>) {
  // expected-error @below {{expects D (M x N) and groups (M) to agree: M is 8 in D and 4 in groups}}
  "tile.matmul"(%a, %b, %d, %g) {transpose_b = true, roles = ["groups"]} : (!A, !B, !D, memref<4xi32>) -> ()
  return
}

// -----

!A = memref<2x?x?xbf16>
func.func @groups_of_another_batch(%a: !A, %b: !A, %d: !A, %g: memref<4xi32>) {
  // expected-error @below {{expects D (batch x M x N) and groups (batch) to agree: batch is 2 in D and 4 in groups}}
  "tile.matmul"(%a, %b, %d, %g) {transpose_b = true, roles = ["groups"]} : (!A, !A, !A, memref<4xi32>) -> ()
  return
}

// -----

!A = memref<?x?xbf16>
!B = memref<?x?x?xbf16>
func.func @groups_of_floats(%a: !A, %b: !B, %d: !A, %g: memref<?xf32>) {
  // expected-error @below {{expects groups of element type i32, got memref<?xf32>}}
  "tile.matmul"(%a, %b, %d, %g) {transpose_b = true, roles = ["groups"]} : (!A, !B, !A, memref<?xf32>) -> ()
  return
}
