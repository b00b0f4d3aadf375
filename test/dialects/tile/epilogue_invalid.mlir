// RUN: weft-opt %s --split-input-file --verify-diagnostics

func.func @roles_of_earlier_versions(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %v: memref<?xf32>) {
  // expected-error @below {{expects 'operandSegmentSizes' with the number of operands in a, b, d, c, alpha, scale_a, scale_b, groups, row_ends, k_ends, bias, residual, row_factors, column_factors, team, epilogue: write operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0>}}
  "tile.matmul"(%a, %b, %d, %v) {roles = ["bias"]}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, memref<?xf32>) -> ()
  return
}

// -----

func.func @roles_unknown(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %v: memref<?xf32>) {
  // expected-error @below {{row_factors, column_factors, team, epilogue}}
  "tile.matmul"(%a, %b, %d, %v) {roles = ["bais"]}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, memref<?xf32>) -> ()
  return
}

// -----

func.func @bias_of_rank_2(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %x: memref<?x?xf32>) {
  // expected-error @below {{expects bias of rank 1, got memref<?x?xf32>}}
  "tile.matmul"(%a, %b, %d, %x) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0>}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @bias_is_c(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %v: memref<?xf32>) {
  // expected-error @below {{expects C of rank 2 or 3, got memref<?xf32>}}
  "tile.matmul"(%a, %b, %d, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, beta = 1.0 : f32}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, memref<?xf32>) -> ()
  return
}

// -----

func.func @bias_type(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %v: memref<?xi16>) {
  // expected-error @below {{expects bias of element type one of f32, f16, bf16, i32, f64, got memref<?xi16>}}
  "tile.matmul"(%a, %b, %d, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0>}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, memref<?xi16>) -> ()
  return
}

// -----

func.func @bias_strided(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %v: memref<?xf32, strided<[2]>>) {
  // expected-error @below {{expects bias to be contiguous (innermost stride 1), got memref<?xf32, strided<[2]>>}}
  "tile.matmul"(%a, %b, %d, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0>}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, memref<?xf32, strided<[2]>>) -> ()
  return
}

// -----

func.func @bias_memory(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %v: memref<?xf32, 3>) {
  // expected-error @below {{expects bias in global memory, got memref<?xf32, 3>}}
  "tile.matmul"(%a, %b, %d, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0>}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, memref<?xf32, 3>) -> ()
  return
}

// -----

func.func @bias_size(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x16xf32>, %v: memref<8xf32>) {
  // expected-error @below {{expects D (M x N) and bias (N) to agree: N is 16 in D and 8 in bias}}
  "tile.matmul"(%a, %b, %d, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0>}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x16xf32>, memref<8xf32>) -> ()
  return
}

// -----

func.func @residual_size(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<8x?xf32>, %v: memref<?xf32>, %x: memref<4x?xf32>) {
  // expected-error @below {{M is 8 in D and 4 in residual}}
  "tile.matmul"(%a, %b, %d, %v, %x) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0>}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<8x?xf32>, memref<?xf32>, memref<4x?xf32>) -> ()
  return
}

// -----

func.func @residual_of_rank_1(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %v: memref<?xf32>) {
  // expected-error @below {{expects residual of rank 2 or 3, got memref<?xf32>}}
  "tile.matmul"(%a, %b, %d, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0>}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, memref<?xf32>) -> ()
  return
}

// -----

func.func @bias_of_integers(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %v: memref<?xi32>, %x: memref<?x?xf32>) {
  // expected-error @below {{expects D and what is added to it to be i32 if and only if A and B are integers, got}}
  "tile.matmul"(%a, %b, %d, %v, %x) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0>}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, memref<?xi32>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @activation_unknown(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{activation must be one of relu, gelu, gelu_tanh, silu, swiglu, got 'swish'}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, activation = "swish"}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @activation_kind(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{activation must be one of relu, gelu, gelu_tanh, silu, swiglu, got 1}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, activation = 1}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @activation_of_integers(%a: memref<?x?xi8>, %b: memref<?x?xi8>, %d: memref<?x?xi32>) {
  // expected-error @below {{activation must be relu where D is i32, got 'silu'}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, activation = "silu"}
    : (memref<?x?xi8>, memref<?x?xi8>, memref<?x?xi32>) -> ()
  return
}

// -----

func.func @operand_of_nothing(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %e: !tile.exchange) {
  // expected-error @below {{expects bias to be a memref, got !tile.exchange}}
  "tile.matmul"(%a, %b, %d, %e) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0>}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, !tile.exchange) -> ()
  return
}

// -----

func.func @row_of_a_matrix(%v: memref<?x?xf32>, %i: i32) {
  // expected-error @below {{'tile.load_row' op expects the source of rank 1, got memref<?x?xf32>}}
  %0 = "tile.load_row"(%v, %i) : (memref<?x?xf32>, i32)
    -> tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
  return
}

// -----

func.func @row_type(%v: memref<?xf16>, %i: i32) {
  // expected-error @below {{expects equal element types, got memref<?xf16> and}}
  %0 = "tile.load_row"(%v, %i) : (memref<?xf16>, i32)
    -> tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
  return
}

// -----

func.func @row_width(%v: memref<?xf32>, %i: i32) {
  // expected-error @below {{expects vector_bytes to be one of 0, 2, 4, 8, 16, got 3}}
  %0 = "tile.load_row"(%v, %i) {vector_bytes = 3} : (memref<?xf32>, i32)
    -> tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
  return
}

// -----

func.func @row_column(%v: memref<?xf32>, %i: index) {
  // expected-error @below {{expects i32 coordinates, got index}}
  %0 = "tile.load_row"(%v, %i) : (memref<?xf32>, index)
    -> tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
  return
}

// -----

func.func @row_result(%v: memref<?xf32>, %i: i32) {
  // expected-error @below {{expects to return a tensor with a #tile.layout, got f32}}
  %0 = "tile.load_row"(%v, %i) : (memref<?xf32>, i32)
    -> f32
  return
}

// -----

func.func @alpha_type(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %s: memref<1xf64>) {
  // expected-error @below {{expects alpha of element type f32, got memref<1xf64>}}
  "tile.matmul"(%a, %b, %d, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, memref<1xf64>) -> ()
  return
}

// -----

func.func @alpha_of_rank_0(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %s: memref<f32>) {
  // expected-error @below {{expects alpha of rank 1, got memref<f32>}}
  "tile.matmul"(%a, %b, %d, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, memref<f32>) -> ()
  return
}

// -----

func.func @alpha_of_one_product(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %s: memref<2xf32>) {
  // expected-error @below {{expects alpha of 1 element, got memref<2xf32>}}
  "tile.matmul"(%a, %b, %d, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, memref<2xf32>) -> ()
  return
}

// -----

func.func @alpha_of_a_batch(%a: memref<3x?x?xf16>, %b: memref<?x?xf16>, %d: memref<3x?x?xf32>, %s: memref<2xf32>) {
  // expected-error @below {{expects alpha of 1 element or 3, one for each product, got memref<2xf32>}}
  "tile.matmul"(%a, %b, %d, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}
    : (memref<3x?x?xf16>, memref<?x?xf16>, memref<3x?x?xf32>, memref<2xf32>) -> ()
  return
}

// -----

func.func @alpha_of_groups(%a: memref<?x?xf16>, %b: memref<4x?x?xf16>, %d: memref<?x?xf32>, %s: memref<3xf32>, %g: memref<?xi32>) {
  // expected-error @below {{expects alpha of 1 element or 4, one for each product, got memref<3xf32>}}
  "tile.matmul"(%a, %b, %d, %s, %g) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true}
    : (memref<?x?xf16>, memref<4x?x?xf16>, memref<?x?xf32>, memref<3xf32>, memref<?xi32>) -> ()
  return
}

// -----

func.func @alpha_of_integers(%a: memref<?x?xi8>, %b: memref<?x?xi8>, %d: memref<?x?xi32>, %s: memref<1xf32>) {
  // expected-error @below {{expects alpha 1 where A and B are integers, got an operand 'alpha' and A of memref<?x?xi8>}}
  "tile.matmul"(%a, %b, %d, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}
    : (memref<?x?xi8>, memref<?x?xi8>, memref<?x?xi32>, memref<1xf32>) -> ()
  return
}

// -----

func.func @row_factors_of_integers(%a: memref<?x?xi8>, %b: memref<?x?xi8>, %d: memref<?x?xi32>, %s: memref<?xf32>) {
  // expected-error @below {{expects no row_factors where sums are i32, got A of memref<?x?xi8>}}
  "tile.matmul"(%a, %b, %d, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0>, transpose_b = true}
    : (memref<?x?xi8>, memref<?x?xi8>, memref<?x?xi32>, memref<?xf32>) -> ()
  return
}

// -----

func.func @column_factors_of_n(%a: memref<8x?xf16>, %b: memref<?x?xf16>, %d: memref<8x16xf32>, %s: memref<8xf32>) {
  // expected-error @below {{expects D (M x N) and column_factors (N) to agree: N is 16 in D and 8 in column_factors}}
  "tile.matmul"(%a, %b, %d, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0>}
    : (memref<8x?xf16>, memref<?x?xf16>, memref<8x16xf32>, memref<8xf32>) -> ()
  return
}

// -----

func.func @row_factors_with_groups(%a: memref<?x?xf16>, %b: memref<?x?x?xf16>, %d: memref<?x?xf32>, %s: memref<?xf32>, %g: memref<?xi32>) {
  // expected-error @below {{expects no row_factors with groups: use alpha, with a factor for each product}}
  "tile.matmul"(%a, %b, %d, %g, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0>, transpose_b = true}
    : (memref<?x?xf16>, memref<?x?x?xf16>, memref<?x?xf32>, memref<?xi32>, memref<?xf32>) -> ()
  return
}

// -----

func.func @columns_of_a_gate(%a: memref<?x?xbf16>, %b: memref<?x96xbf16>, %d: memref<?x96xbf16>) {
  // expected-error @below {{expects B to have twice the columns of D with swiglu, got 96 and 96}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, activation = "swiglu"} : (memref<?x?xbf16>, memref<?x96xbf16>, memref<?x96xbf16>) -> ()
  return
}

// -----

func.func @sum_with_a_gate(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xbf16>) {
  // expected-error @below {{expects nothing that is added or multiplied with swiglu}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, activation = "swiglu", alpha = 2.0 : f32}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>) -> ()
  return
}

// -----

func.func @bias_with_a_gate(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf16>, %v: memref<?xf32>) {
  // expected-error @below {{expects nothing that is added or multiplied with swiglu}}
  "tile.matmul"(%a, %b, %d, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0>, activation = "swiglu"}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf16>, memref<?xf32>) -> ()
  return
}

// -----

func.func @gate_without_its_columns(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xbf16>) {
  // expected-error @below {{without swap and splits, and with columns in multiples of 32, with swiglu, got block 64x16x64}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, activation = "swiglu",
    schedule = {block = array<i64: 64, 16, 64>, warpgroups = 1, stages = 2}}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>) -> ()
  return
}
