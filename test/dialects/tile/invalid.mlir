// RUN: weft-opt %s --split-input-file --verify-diagnostics --lower-claims

func.func @matmul_of_no_memref(%a: tensor<4x4xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{'tile.matmul' op expects A to be a memref, got tensor<4x4xf16>}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<4x4xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @matmul_unranked(%a: memref<?x?xf16>, %b: memref<*xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{expects B to be a memref, got memref<*xf16>}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16>, memref<*xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @matmul_rank(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?xf32>) {
  // expected-error @below {{expects D of rank 2 or 3, got memref<?xf32>}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16>, memref<?x?xf16>, memref<?xf32>) -> ()
  return
}

// -----

func.func @matmul_rank_0(%a: memref<f16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{expects A of rank 2 or 3, got memref<f16>}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<f16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @matmul_input_type(%a: memref<?x?xi16>, %b: memref<?x?xi16>, %d: memref<?x?xf32>) {
  // expected-error @below {{expects A of element type one of f16, bf16, f32, f64, f8E4M3FN, f8E5M2, i8, ui8, f6E2M3FN, f6E3M2FN, f4E2M1FN, i4, ui4, i1, got memref<?x?xi16>}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xi16>, memref<?x?xi16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @matmul_signed_type(%a: memref<?x?xsi8>, %b: memref<?x?xsi8>, %d: memref<?x?xi32>) {
  // expected-error @below {{i4, ui4, i1, got memref<?x?xsi8>: i8 is signed, too}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xsi8>, memref<?x?xsi8>, memref<?x?xi32>) -> ()
  return
}

// -----

func.func @matmul_output_type(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xi16>) {
  // expected-error @below {{expects D of element type one of f32, f16, bf16, i32, f64, f8E4M3FN, f8E5M2, got memref<?x?xi16>}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xi16>) -> ()
  return
}

// -----

func.func @matmul_memory(%a: memref<?x?xf16>, %b: memref<?x?xf16, 3>, %d: memref<?x?xf32>) {
  // expected-error @below {{expects B in global memory, got memref<?x?xf16, 3>}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16>, memref<?x?xf16, 3>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @matmul_empty(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<0x?xf32>) {
  // expected-error @below {{expects no empty dimension in D, got memref<0x?xf32>}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16>, memref<?x?xf16>, memref<0x?xf32>) -> ()
  return
}

// -----

func.func @matmul_column_major(%a: memref<?x?xf16, strided<[1, ?]>>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{expects rows of A to be contiguous (innermost stride 1), got memref<?x?xf16, strided<[1, ?]>>}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16, strided<[1, ?]>>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @matmul_dynamic_stride(%a: memref<?x?xf16, strided<[?, ?]>>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{expects rows of A to be contiguous (innermost stride 1)}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16, strided<[?, ?]>>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @matmul_odd_layout(%a: memref<4x4xf16, affine_map<(i, j) -> (i mod 2, j, i floordiv 2)>>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{expects rows of A at one stride, got memref<4x4xf16, affine_map<(d0, d1) -> (d0 mod 2, d1, d0 floordiv 2)>>}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<4x4xf16, affine_map<(i, j) -> (i mod 2, j, i floordiv 2)>>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @matmul_mixed_types(%a: memref<?x?xf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{expects A and B of one element type, got memref<?x?xf16> and memref<?x?xbf16>}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @matmul_m(%a: memref<16x?xf16>, %b: memref<?x?xf16>, %d: memref<8x?xf32>) {
  // expected-error @below {{expects A (M x K), B (K x N) and D (M x N) to agree: M is 16 in A and 8 in D}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<16x?xf16>, memref<?x?xf16>, memref<8x?xf32>) -> ()
  return
}

// -----

func.func @matmul_n(%a: memref<?x?xf16>, %b: memref<?x16xf16>, %d: memref<?x8xf32>) {
  // expected-error @below {{N is 16 in B and 8 in D}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16>, memref<?x16xf16>, memref<?x8xf32>) -> ()
  return
}

// -----

func.func @matmul_k(%a: memref<?x8xf16>, %b: memref<16x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{K is 8 in A and 16 in B}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x8xf16>, memref<16x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @matmul_transposed_k(%a: memref<?x8xf16>, %b: memref<?x16xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{expects A (M x K), B (N x K) and D (M x N) to agree: K is 8 in A and 16 in B}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (memref<?x8xf16>, memref<?x16xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @matmul_c(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x8xf32>, %c: memref<?x4xf16>) {
  // expected-error @below {{N is 8 in D and 4 in C}}
  "tile.matmul"(%a, %b, %d, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, beta = 1.0 : f32} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x8xf32>, memref<?x4xf16>) -> ()
  return
}

// -----

func.func @matmul_c_type(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %c: memref<?x?xi32>) {
  // expected-error @below {{expects D and what is added to it to be i32 if and only if A and B are integers, got memref<?x?xf16>, memref<?x?xf32> and memref<?x?xi32>}}
  "tile.matmul"(%a, %b, %d, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, beta = 1.0 : f32} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, memref<?x?xi32>) -> ()
  return
}

// -----

func.func @matmul_too_many(%a: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{expects 'operandSegmentSizes' with the number of operands in a, b, d, c, alpha}}
  "tile.matmul"(%a, %a, %d, %d, %d) : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, memref<?x?xf32>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @matmul_too_few(%a: memref<?x?xf16>) {
  // expected-error @below {{expects at least 3 operands (a, b, d), got 2}}
  "tile.matmul"(%a, %a) : (memref<?x?xf16>, memref<?x?xf16>) -> ()
  return
}

// -----

func.func @matmul_attribute_kind(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{expects attribute 'transpose_b' to be true or false, got 1 : i64}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = 1} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @matmul_alpha_beyond_f32(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{alpha must be finite in f32, got 1e+300}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, alpha = 1.0e300 : f64} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @matmul_beta_beyond_f32(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{beta must be finite in f32, got -1e+300}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, beta = -1.0e300 : f64} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @matmul_over_a(%a: memref<?x?xf16>, %b: memref<?x?xf16>) {
  // expected-error @below {{expects A and D to be different matrices: D would overwrite what is read}}
  "tile.matmul"(%a, %b, %a) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf16>) -> ()
  return
}

// -----

func.func @matmul_over_b(%a: memref<?x?xf16>, %b: memref<?x?xf16>) {
  // expected-error @below {{expects B and D to be different matrices: D would overwrite what is read}}
  "tile.matmul"(%a, %b, %b) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf16>) -> ()
  return
}

// -----

func.func @matmul_alpha_kind(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{expects attribute 'alpha' to be a float, got 1 : i64}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, alpha = 1} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @schedule_kind(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{schedule must be a dictionary, got 3}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = 3} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @schedule_unknown_field(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{schedule has no field 'clusters': its fields are block, warps, stages, group}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 64>, warps = array<i64: 2, 2>, stages = 3, clusters = 2}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @schedule_misspelled_kind(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{schedule has no field 'warpgroup': its fields are block, warp_grid, stages, group; or block, warps, stages, group; or block, readers; or block, consumers, stages, group, unit_scales; or block, warpgroups, stages, group, splits}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 64>, warpgroup = 2, stages = 3}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @schedule_misspelled(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{schedule has no field 'stage': its fields are block, warps, stages, group; did you mean 'stages'?}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 64>, warps = array<i64: 2, 2>, stage = 3}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @schedule_missing_field(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{schedule must have one of 'warp_grid' (for wmma.mma), 'warps' (for mma.sync), 'readers' (for mma.sync from registers), 'consumers' (for mma.sync with TMA), 'warpgroups' (for wgmma)}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 64>, stages = 3}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @schedule_field_kind(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{schedule field 'block' must be an array<i64> of 3, got array<i64: 128, 128>}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128>, warps = array<i64: 2, 2>, stages = 3}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @schedule_number_kind(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{schedule field 'stages' must be an integer, got 3.000000e+00 : f64}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 64>, warps = array<i64: 2, 2>, stages = 3.0}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @schedule_negative(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{group must be at least 1, got 0}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 64>, warps = array<i64: 2, 2>, stages = 3, group = 0}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @schedule_stages(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{stages must be at least 2, got 1}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 64>, warps = array<i64: 2, 2>, stages = 1}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @schedule_warps(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{warps must be at most 32 in all, got 8 x 8}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 1024, 1024, 64>, warps = array<i64: 8, 8>, stages = 3}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @schedule_block_m(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{divide block M 100 in multiples of 16 and block N 128 in multiples of 16}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 100, 128, 64>, warps = array<i64: 2, 2>, stages = 3}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @schedule_group(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{group must be at most 1024, got 1073741824}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 64, 64, 64>, warps = array<i64: 2, 2>, stages = 2, group = 1073741824}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @schedule_sums(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{a warp must hold at most 32768 sums, 1024 for each lane, got 256 x 256}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 256, 256, 64>, warps = array<i64: 1, 1>, stages = 2}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @schedule_block_k(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{block K must be 32 or 64 (rows of 64 or 128 bytes in shared memory), got 16}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 16>, warps = array<i64: 2, 2>, stages = 3}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @gemm_of_no_tile(%a: vector<8xf16>, %b: !B) {
  // expected-error @below {{'tile.gemm' op expects A to be a tensor with a #tile.layout or a tile.buffer, got vector<8xf16>}}
  %0 = "tile.gemm"(%a, %b) : (vector<8xf16>, !B) -> !D
  return
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
func.func @gemm_to_no_tile(%a: !A, %b: !B) {
  // expected-error @below {{expects D to be a tensor with a #tile.layout or a tile.buffer, got f32}}
  %0 = "tile.gemm"(%a, %b) : (!A, !B) -> f32
  return
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!A8 = tensor<8x8xf16, #tile.layout<"S[(8,4,2):(4@laneid,1@laneid,1)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @gemm_shape_of_b(%a: !A, %b: !A8) {
  // expected-error @below {{expects B of shape [16, 8] for A [16, 16] and B [8, 8], got [8, 8]}}
  %0 = "tile.gemm"(%a, %b) : (!A, !A8) -> !D
  return
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
func.func @gemm_shape_of_d(%a: !A, %b: !B) {
  // expected-error @below {{expects D of shape [16, 8] for A [16, 16] and B [16, 8], got [16, 16]}}
  %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !A
  return
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @gemm_shape_of_c(%a: !A, %b: !B, %c: !A) {
  // expected-error @below {{expects C of shape [16, 8] for A [16, 16] and B [16, 8], got [16, 16]}}
  %0 = "tile.gemm"(%a, %b, %c) {beta = 1.0 : f32} : (!A, !B, !A) -> !D
  return
}

// -----

!R = tensor<256xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @gemm_rank(%a: !R, %b: !B) {
  // expected-error @below {{expects A of rank 2, got shape [256]}}
  %0 = "tile.gemm"(%a, %b) : (!R, !B) -> !D
  return
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @gemm_beta_with_no_c(%a: !A, %b: !B) {
  // expected-error @below {{expects a C operand with beta 1.0}}
  %0 = "tile.gemm"(%a, %b) {beta = 1.0 : f32} : (!A, !B) -> !D
  return
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @gemm_too_many(%a: !A, %b: !B, %c: !D) {
  // expected-error @below {{expects A, B and at most one C, got 4 operands}}
  %0 = "tile.gemm"(%a, %b, %c, %c) : (!A, !B, !D, !D) -> !D
  return
}

// -----

!A = tensor<16x32xf8E4M3FN, #tile.layout<"S[(2,8,2,4,4):(4,4@laneid,8,1@laneid,1)]">>
!B = tensor<32x8xf8E4M3FN, #tile.layout<"S[(2,4,4,8):(4,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @gemm_scales_of_f32(%a: !A, %b: !B, %c: !D) {
  // expected-error @below {{expects scales both of one of f8E8M0FNU, f8E4M3FN, got f32 and f32}}
  %0 = "tile.gemm_scaled"(%a, %b, %c, %c, %c) : (!A, !B, !D, !D, !D) -> !D
  return
}

// -----

!A = tensor<16x32xf8E4M3FN, #tile.layout<"S[(2,8,2,4,4):(4,4@laneid,8,1@laneid,1)]">>
!B = tensor<32x8xf8E4M3FN, #tile.layout<"S[(2,4,4,8):(4,1@laneid,1,4@laneid)]">>
!S = tensor<32x4xf8E8M0FNU, #tile.layout<"S[(2,2,8,4):(2@laneid,1@laneid,4@laneid,1)]">>
!T = tensor<4x32xf8E8M0FNU, #tile.layout<"S[(4,4,8):(1,1@laneid,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @gemm_scales_of_other_rows(%a: !A, %b: !B, %c: !D, %s: !S, %t: !T) {
  // expected-error @below {{expects scale_a of 16 x G and scale_b of G x 8, got 32 x 4 and 4 x 32}}
  %0 = "tile.gemm_scaled"(%a, %b, %c, %s, %t) : (!A, !B, !D, !S, !T) -> !D
  return
}

// -----

!A = tensor<32x32xf8E4M3FN, #tile.layout<"S[(4,8,2,4,4):(4,4@laneid,16,1@laneid,1)]">>
!B = tensor<32x32xf8E4M3FN, #tile.layout<"S[(2,4,4,4,8):(4,1@laneid,1,8,4@laneid)]">>
!S = tensor<32x4xf8E8M0FNU, #tile.layout<"S[(2,2,8,4):(2@laneid,1@laneid,4@laneid,1)]">>
!T = tensor<4x32xf8E8M0FNU, #tile.layout<"S[(4,4,8):(1,1@laneid,4@laneid)]">>
!D = tensor<32x32xf32, #tile.layout<"S[(4,8,4,4,2):(2,4@laneid,8,1@laneid,1)]">>
func.func @gemm_first_group(%a: !A, %b: !B, %c: !D, %s: !S, %t: !T) {
  // expected-error @below {{first_group must be in 0..3 for 1 of 4 groups, got 4}}
  %0 = "tile.gemm_scaled"(%a, %b, %c, %s, %t) {first_group = 4 : i64} : (!A, !B, !D, !S, !T) -> !D
  return
}

// -----

!A = tensor<32x32xf8E4M3FN, #tile.layout<"S[(4,8,2,4,4):(4,4@laneid,16,1@laneid,1)]">>
!B = tensor<32x32xf8E4M3FN, #tile.layout<"S[(2,4,4,4,8):(4,1@laneid,1,8,4@laneid)]">>
!S = tensor<32x4xf8E8M0FNU, #tile.layout<"S[(2,2,8,4):(2@laneid,1@laneid,4@laneid,1)]">>
!T = tensor<4x32xf8E8M0FNU, #tile.layout<"S[(4,4,8):(1,1@laneid,4@laneid)]">>
!D = tensor<32x32xf32, #tile.layout<"S[(4,8,4,4,2):(2,4@laneid,8,1@laneid,1)]">>
func.func @gemm_negative_group(%a: !A, %b: !B, %c: !D, %s: !S, %t: !T) {
  // expected-error @below {{first_group must be in 0..3 for 1 of 4 groups, got -1}}
  %0 = "tile.gemm_scaled"(%a, %b, %c, %s, %t) {first_group = -1 : i64} : (!A, !B, !D, !S, !T) -> !D
  return
}

// -----

!A = tensor<16x32xf8E4M3FN, #tile.layout<"S[(2,8,2,4,4):(4,4@laneid,8,1@laneid,1)]">>
!B = tensor<32x8xf8E4M3FN, #tile.layout<"S[(2,4,4,8):(4,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @gemm_element_of_fp8(%a: !A, %b: !B, %c: !D) {
  // expected-error @below {{a_element must not be given where the tile isn't of i8, got a tile of f8E4M3FN}}
  %0 = "tile.gemm_scaled"(%a, %b, %c, %c, %c) {a_element = "f4E2M1FN"} : (!A, !B, !D, !D, !D) -> !D
  return
}

// -----

func.func @fragment_notation(%a: tensor<16x8xf32, #tile.layout<"S[(2,8)]">>) {
  // expected-error @below {{has a fragment of shape [16, 8] whose layout doesn't fit: layout 'S[(2,8)]', column 8: expected ':', got ']'}}
  %0 = "tile.to_lane"(%a) : (tensor<16x8xf32, #tile.layout<"S[(2,8)]">>) -> vector<4xf32>
  return
}

// -----

func.func @fragment_shape_kind(%a: tensor<?x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>) {
  // expected-error @below {{has a fragment of type tensor<?x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>: every extent must be a number}}
  %0 = "tile.to_lane"(%a) : (tensor<?x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>) -> vector<4xf32>
  return
}

// -----

func.func @fragment_extent(%a: tensor<16x0xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>) {
  // expected-error @below {{has a fragment of shape [16, 0]: every extent must be at least 1}}
  %0 = "tile.to_lane"(%a) : (tensor<16x0xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>) -> vector<4xf32>
  return
}

// -----

func.func @fragment_element(%a: tensor<16x8xindex, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>) {
  // expected-error @below {{has a fragment of index: elements must be one of i1, f16, bf16, f32, f64, f8E4M3FN, f8E5M2, i8, ui8, f6E2M3FN, f6E3M2FN, f4E2M1FN, f8E8M0FNU, i16, i32, i64, ui16, ui32, ui64}}
  %0 = "tile.to_lane"(%a) : (tensor<16x8xindex, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>) -> vector<4xf32>
  return
}

// -----

func.func @fragment_size(%a: tensor<8x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>) {
  // expected-error @below {{has a fragment of shape [8, 8] whose layout doesn't fit: shape (8, 8) doesn't have the 128 elements of}}
  %0 = "tile.to_lane"(%a) : (tensor<8x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>) -> vector<4xf32>
  return
}

// -----

func.func @fragment_axis(%a: tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(1@warpid,4@laneid,1@laneid,1)]">>) {
  // expected-error @below {{it must span 1 warp or the 4 of a warpgroup, got 2}}
  %0 = "tile.to_lane"(%a) : (tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(1@warpid,4@laneid,1@laneid,1)]">>) -> vector<4xf32>
  return
}

// -----

func.func @fragment_swizzle(%a: tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)] xor 128B">>) {
  // expected-error @below {{it must not have a swizzle}}
  %0 = "tile.to_lane"(%a) : (tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)] xor 128B">>) -> vector<4xf32>
  return
}

// -----

func.func @fragment_of_some_lanes(%a: tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(8,4@laneid,2,1)]">>) {
  // expected-error @below {{each of 32 lanes must hold one element in each of 16 registers, got none in register 0 of lane 1}}
  %0 = "tile.to_lane"(%a) : (tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(8,4@laneid,2,1)]">>) -> vector<4xf32>
  return
}

// -----

func.func @fragment_of_too_many_lanes(%a: tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,8@laneid,1@laneid,1)]">>) {
  // expected-error @below {{each of 32 lanes must hold one element in each of 4 registers}}
  %0 = "tile.to_lane"(%a) : (tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,8@laneid,1@laneid,1)]">>) -> vector<4xf32>
  return
}

// -----

func.func @fragment_with_a_hole(%a: tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(4,4@laneid,1@laneid,1)]">>) {
  // expected-error @below {{each of 32 lanes must hold one element in each of 6 registers}}
  %0 = "tile.to_lane"(%a) : (tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(4,4@laneid,1@laneid,1)]">>) -> vector<4xf32>
  return
}

// -----

func.func @fragment_with_an_offset(%a: tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)] + O[1]">>) {
  // expected-error @below {{each of 32 lanes must hold one element in each of 4 registers}}
  %0 = "tile.to_lane"(%a) : (tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)] + O[1]">>) -> vector<4xf32>
  return
}

// -----

func.func @fragment_of_half_a_tile(%a: tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(0,4@laneid,1@laneid,1)]">>) {
  // expected-error @below {{each of 32 lanes must hold one element in each of 2 registers, got (0, 0) and (8, 0) at the same position}}
  %0 = "tile.to_lane"(%a) : (tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(0,4@laneid,1@laneid,1)]">>) -> vector<4xf32>
  return
}

// -----

func.func @fragment_far_too_large(%a: tensor<100000x100000xf32, #tile.layout<"S[(100000,100000):(1,1)]">>) {
  // expected-error @below {{a lane must hold at most 1024 elements, got 199999}}
  %0 = "tile.to_lane"(%a) : (tensor<100000x100000xf32, #tile.layout<"S[(100000,100000):(1,1)]">>) -> vector<4xf32>
  return
}

// -----

func.func @alloc_of_no_buffer() {
  // expected-error @below {{'tile.alloc' op expects to return a tile.buffer, got tensor<16x8xf32,}}
  %0 = "tile.alloc"() : () -> tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
  return
}

// -----

func.func @buffer_memory() {
  // expected-error @below {{has a buffer whose memory must be one of shared, cluster, tmem, got 'register'}}
  %0 = "tile.alloc"() : () -> !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "register">
  return
}

// -----

func.func @buffer_shape() {
  // expected-error @below {{has a buffer of shape [64, 32] whose layout doesn't fit: shape (64, 32) doesn't have the 4096 elements of}}
  %0 = "tile.alloc"() : () -> !tile.buffer<array<i64: 64, 32>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
  return
}

// -----

func.func @buffer_axis() {
  // expected-error @below {{strides in memory have no axis, got @laneid}}
  %0 = "tile.alloc"() : () -> !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1@laneid)]">, "shared">
  return
}

// -----

func.func @buffer_replica() {
  // expected-error @below {{it must not have a replica or offset}}
  %0 = "tile.alloc"() : () -> !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] + R[(2):(4096)]">, "shared">
  return
}

// -----

func.func @buffer_offset() {
  // expected-error @below {{it must not have a replica or offset}}
  %0 = "tile.alloc"() : () -> !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] + O[8]">, "shared">
  return
}

// -----

func.func @buffer_overlap() {
  // expected-error @below {{its elements must not overlap, got (0, 32) and (1, 0) at the same position}}
  %0 = "tile.alloc"() : () -> !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(32,1)]">, "shared">
  return
}

// -----

func.func @buffer_of_one_place() {
  // expected-error @below {{its elements must not overlap}}
  %0 = "tile.alloc"() : () -> !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(0,1)]">, "shared">
  return
}

// -----

func.func @stage_of_no_buffer(%a: tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>, %i: i32) {
  // expected-error @below {{'tile.stage' op expects tile.buffer operand and result, got tensor<}}
  %0 = "tile.stage"(%a, %i) : (tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>, i32) -> !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
  return
}

// -----

func.func @stage_index(%a: !tile.buffer<array<i64: 3, 64, 64>, f16, #tile.layout<"S[(3,64,64):(4096,64,1)] xor 128B">, "shared">, %i: index) {
  // expected-error @below {{expects i32 coordinates, got index}}
  %0 = "tile.stage"(%a, %i) : (!tile.buffer<array<i64: 3, 64, 64>, f16, #tile.layout<"S[(3,64,64):(4096,64,1)] xor 128B">, "shared">, index) -> !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
  return
}

// -----

func.func @stage_result(%a: !tile.buffer<array<i64: 3, 64, 64>, f16, #tile.layout<"S[(3,64,64):(4096,64,1)] xor 128B">, "shared">, %i: i32) {
  // expected-error @below {{expects to return !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">, got}}
  %0 = "tile.stage"(%a, %i) : (!tile.buffer<array<i64: 3, 64, 64>, f16, #tile.layout<"S[(3,64,64):(4096,64,1)] xor 128B">, "shared">, i32) -> !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
  return
}

// -----

func.func @stage_rank(%a: !tile.buffer<array<i64: 64>, f16, #tile.layout<"S[(64):(1)]">, "shared">, %i: i32) {
  // expected-error @below {{expects a buffer whose first dimension has one stride, got}}
  %0 = "tile.stage"(%a, %i) : (!tile.buffer<array<i64: 64>, f16, #tile.layout<"S[(64):(1)]">, "shared">, i32) -> !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
  return
}

// -----

func.func @stage_of_two_strides(%a: !tile.buffer<array<i64: 4, 64, 64>, f16, #tile.layout<"S[(2,2,64,64):(16384,4096,64,1)]">, "shared">, %i: i32) {
  // expected-error @below {{expects a buffer whose first dimension has one stride, got}}
  %0 = "tile.stage"(%a, %i) : (!tile.buffer<array<i64: 4, 64, 64>, f16, #tile.layout<"S[(2,2,64,64):(16384,4096,64,1)]">, "shared">, i32) -> !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
  return
}

// -----

func.func @stage_across_a_swizzle(%a: !tile.buffer<array<i64: 2, 4, 64>, f16, #tile.layout<"S[(2,4,64):(256,64,1)] xor 128B">, "shared">, %i: i32) {
  // expected-error @below {{stages must be a multiple of 1024 bytes apart, got 512}}
  %0 = "tile.stage"(%a, %i) : (!tile.buffer<array<i64: 2, 4, 64>, f16, #tile.layout<"S[(2,4,64):(256,64,1)] xor 128B">, "shared">, i32) -> !tile.buffer<array<i64: 4, 64>, f16, #tile.layout<"S[(4,64):(64,1)] xor 128B">, "shared">
  return
}

// -----

func.func @address_of_no_buffer(%a: tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>) {
  // expected-error @below {{'tile.address' op expects a tile.buffer, got tensor<}}
  %0 = "tile.address"(%a) : (tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>) -> !llvm.ptr<3>
  return
}

// -----

func.func @address_result(%a: !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">) {
  // expected-error @below {{expects to return !llvm.ptr<3>, got !llvm.ptr}}
  %0 = "tile.address"(%a) : (!tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">) -> !llvm.ptr
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
func.func @copy_from_no_matrix(%m: f16, %i: i32, %t: !T) {
  // expected-error @below {{'tile.copy' op expects the source to be a memref, got f16}}
  "tile.copy"(%m, %i, %i, %t) : (f16, i32, i32, !T) -> ()
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
func.func @copy_from_shared(%m: memref<4x4xf16, 3>, %i: i32, %t: !T) {
  // expected-error @below {{expects the source in global memory, got memref<4x4xf16, 3>}}
  "tile.copy"(%m, %i, %i, %t) : (memref<4x4xf16, 3>, i32, i32, !T) -> ()
  return
}

// -----

!T = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
func.func @copy_to_no_buffer(%m: memref<?x?xf16>, %i: i32, %t: !T) {
  // expected-error @below {{expects the tile to be a tile.buffer, got tensor<}}
  "tile.copy"(%m, %i, %i, %t) : (memref<?x?xf16>, i32, i32, !T) -> ()
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
func.func @copy_coordinates(%m: memref<?x?xf16>, %i: index, %t: !T) {
  // expected-error @below {{expects i32 coordinates, got index}}
  "tile.copy"(%m, %i, %i, %t) : (memref<?x?xf16>, index, index, !T) -> ()
  return
}

// -----

!T = !tile.buffer<array<i64: 3, 64, 64>, f16, #tile.layout<"S[(3,64,64):(4096,64,1)] xor 128B">, "shared">
func.func @copy_rank(%m: memref<?x?xf16>, %i: i32, %t: !T) {
  // expected-error @below {{expects a tile of rank 2, got shape [3, 64, 64]}}
  "tile.copy"(%m, %i, %i, %t) : (memref<?x?xf16>, i32, i32, !T) -> ()
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
func.func @copy_types(%m: memref<?x?xbf16>, %i: i32, %t: !T) {
  // expected-error @below {{expects equal element types, got memref<?x?xbf16> and !tile.buffer<}}
  "tile.copy"(%m, %i, %i, %t) : (memref<?x?xbf16>, i32, i32, !T) -> ()
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
func.func @copy_out_to_no_matrix(%m: f16, %i: i32, %t: !T) {
  // expected-error @below {{'tile.copy_out' op expects the destination to be a memref, got f16}}
  "tile.copy_out"(%t, %m, %i, %i) : (!T, f16, i32, i32) -> ()
  return
}

// -----

!T = !tile.buffer<array<i64: 3, 64, 64>, f16, #tile.layout<"S[(3,64,64):(4096,64,1)] xor 128B">, "shared">
func.func @copy_out_rank(%m: memref<?x?xf16>, %i: i32, %t: !T) {
  // expected-error @below {{'tile.copy_out' op expects a tile of rank 2, got shape [3, 64, 64]}}
  "tile.copy_out"(%t, %m, %i, %i) : (!T, memref<?x?xf16>, i32, i32) -> ()
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
func.func @copy_out_types(%m: memref<?x?xbf16>, %i: i32, %t: !T) {
  // expected-error @below {{'tile.copy_out' op expects equal element types, got memref<?x?xbf16> and !tile.buffer<}}
  "tile.copy_out"(%t, %m, %i, %i) : (!T, memref<?x?xbf16>, i32, i32) -> ()
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
func.func @copy_async_from_no_matrix(%m: f16, %i: i32, %t: !T) {
  // expected-error @below {{'tile.copy_async' op expects the source to be a memref, got f16}}
  "tile.copy_async"(%m, %i, %i, %t) {vector_bytes = 16} : (f16, i32, i32, !T) -> ()
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
func.func @copy_async_width(%m: memref<?x?xf16>, %i: i32, %t: !T) {
  // expected-error @below {{expects vector_bytes to be one of 4, 8, 16, got 2}}
  "tile.copy_async"(%m, %i, %i, %t) {vector_bytes = 2} : (memref<?x?xf16>, i32, i32, !T) -> ()
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
func.func @copy_async_edge(%m: memref<?x?xf16>, %i: i32, %t: !T) {
  // expected-error @below {{rows must be zero, both, any or inside, got none}}
  "tile.copy_async"(%m, %i, %i, %t) {vector_bytes = 16, rows = "none"} : (memref<?x?xf16>, i32, i32, !T) -> ()
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
func.func @copy_async_without_width(%m: memref<?x?xf16>, %i: i32, %t: !T) {
  // expected-error @below {{expects vector_bytes to be one of 4, 8, 16, got 0}}
  "tile.copy_async"(%m, %i, %i, %t) : (memref<?x?xf16>, i32, i32, !T) -> ()
  return
}

// -----

!R = f16
func.func @load_of_no_fragment(%m: memref<?x?xf16>, %i: i32) {
  // expected-error @below {{'tile.load' op expects to return a tensor with a #tile.layout, got f16}}
  %0 = "tile.load"(%m, %i, %i) : (memref<?x?xf16>, i32, i32) -> !R
  return
}

// -----

!R = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
func.func @load_from_no_memory(%m: f16, %i: i32) {
  // expected-error @below {{expects a tile.buffer or a memref, got f16}}
  %0 = "tile.load"(%m, %i, %i) : (f16, i32, i32) -> !R
  return
}

// -----

!R = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
func.func @load_rank_0(%m: memref<f16>, %i: i32) {
  // expected-error @below {{expects the source of rank 2, got memref<f16>}}
  %0 = "tile.load"(%m, %i, %i) : (memref<f16>, i32, i32) -> !R
  return
}

// -----

!R = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
func.func @load_coordinates(%m: memref<?x?xf16>, %i: index) {
  // expected-error @below {{expects i32 coordinates, got index}}
  %0 = "tile.load"(%m, %i, %i) : (memref<?x?xf16>, index, index) -> !R
  return
}

// -----

!R = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
func.func @load_types(%m: memref<?x?xf32>, %i: i32) {
  // expected-error @below {{expects equal element types, got memref<?x?xf32> and tensor<}}
  %0 = "tile.load"(%m, %i, %i) : (memref<?x?xf32>, i32, i32) -> !R
  return
}

// -----

!R = tensor<256xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
func.func @load_fragment_rank(%m: memref<?x?xf16>, %i: i32) {
  // expected-error @below {{expects a fragment of rank 2, got shape [256]}}
  %0 = "tile.load"(%m, %i, %i) : (memref<?x?xf16>, i32, i32) -> !R
  return
}

// -----

!R = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
func.func @load_buffer_rank(%m: !tile.buffer<array<i64: 3, 64, 64>, f16, #tile.layout<"S[(3,64,64):(4096,64,1)] xor 128B">, "shared">, %i: i32) {
  // expected-error @below {{expects a buffer of rank 2, got shape [3, 64, 64]}}
  %0 = "tile.load"(%m, %i, %i) : (!tile.buffer<array<i64: 3, 64, 64>, f16, #tile.layout<"S[(3,64,64):(4096,64,1)] xor 128B">, "shared">, i32, i32) -> !R
  return
}

// -----

!R = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
func.func @load_larger_than_buffer(%m: !tile.buffer<array<i64: 8, 64>, f16, #tile.layout<"S[(8,64):(64,1)]">, "shared">, %i: i32) {
  // expected-error @below {{expects a buffer whose shape is a multiple of [16, 16], got [8, 64]}}
  %0 = "tile.load"(%m, %i, %i) : (!tile.buffer<array<i64: 8, 64>, f16, #tile.layout<"S[(8,64):(64,1)]">, "shared">, i32, i32) -> !R
  return
}

// -----

!R = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
func.func @load_transposed_matrix(%m: memref<?x?xf16>, %i: i32) {
  // expected-error @below {{transpose must be false where the source is a memref}}
  %0 = "tile.load"(%m, %i, %i) {transpose = true} : (memref<?x?xf16>, i32, i32) -> !R
  return
}

// -----

!R = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
func.func @store_transposed_matrix(%f: !R, %m: memref<?x?xf16>, %i: i32) {
  // expected-error @below {{transpose must be false where the destination is a memref}}
  "tile.store"(%f, %m, %i, %i) {transpose = true} : (!R, memref<?x?xf16>, i32, i32) -> ()
  return
}

// -----

!R = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
func.func @load_width(%m: memref<?x?xf16>, %i: i32) {
  // expected-error @below {{expects vector_bytes to be one of 0, 2, 4, 8, 16, got 6}}
  %0 = "tile.load"(%m, %i, %i) {vector_bytes = 6} : (memref<?x?xf16>, i32, i32) -> !R
  return
}

// -----

!R = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
func.func @load_width_kind(%m: memref<?x?xf16>, %i: i32) {
  // expected-error @below {{expects attribute 'vector_bytes' to be an integer, got true}}
  %0 = "tile.load"(%m, %i, %i) {vector_bytes = true} : (memref<?x?xf16>, i32, i32) -> !R
  return
}

// -----

!F = f32
func.func @store_of_no_fragment(%f: !F, %m: memref<?x?xf32>, %i: i32) {
  // expected-error @below {{'tile.store' op expects a tensor with a #tile.layout, got f32}}
  "tile.store"(%f, %m, %i, %i) : (!F, memref<?x?xf32>, i32, i32) -> ()
  return
}

// -----

!F = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @store_to_no_matrix(%f: !F, %m: f32, %i: i32) {
  // expected-error @below {{expects the destination to be a memref, got f32}}
  "tile.store"(%f, %m, %i, %i) : (!F, f32, i32, i32) -> ()
  return
}

// -----

!F = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @store_coordinates(%f: !F, %m: memref<?x?xf32>, %i: i64) {
  // expected-error @below {{expects i32 coordinates, got i64}}
  "tile.store"(%f, %m, %i, %i) : (!F, memref<?x?xf32>, i64, i64) -> ()
  return
}

// -----

!F = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @store_types(%f: !F, %m: memref<?x?xf16>, %i: i32) {
  // expected-error @below {{expects equal element types, got tensor<}}
  "tile.store"(%f, %m, %i, %i) : (!F, memref<?x?xf16>, i32, i32) -> ()
  return
}

// -----

!F = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @store_width(%f: !F, %m: memref<?x?xf32>, %i: i32) {
  // expected-error @below {{expects vector_bytes to be one of 0, 2, 4, 8, 16, got 32}}
  "tile.store"(%f, %m, %i, %i) {vector_bytes = 32} : (!F, memref<?x?xf32>, i32, i32) -> ()
  return
}

// -----

!F = tensor<128xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @store_rank(%f: !F, %m: memref<?x?xf32>, %i: i32) {
  // expected-error @below {{expects a fragment of rank 2, got shape [128]}}
  "tile.store"(%f, %m, %i, %i) : (!F, memref<?x?xf32>, i32, i32) -> ()
  return
}

// -----

!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @from_lane_width(%v: vector<8xf32>) {
  // expected-error @below {{'tile.from_lane' op expects vector<4xf32> for a lane of tensor<}}
  %0 = "tile.from_lane"(%v) : (vector<8xf32>) -> !D
  return
}

// -----

func.func @from_lane_result(%v: vector<8xf32>) {
  // expected-error @below {{expects a tensor with a #tile.layout, got vector<8xf32>}}
  %0 = "tile.from_lane"(%v) : (vector<8xf32>) -> vector<8xf32>
  return
}

// -----

!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @to_lane_type(%f: !D) {
  // expected-error @below {{'tile.to_lane' op expects vector<4xf32> for a lane of tensor<}}
  %0 = "tile.to_lane"(%f) : (!D) -> vector<4xf16>
  return
}

// -----

func.func @layout_of_another_attribute() {
  // expected-error @below {{expected base attribute 'tile.layout' but got 'builtin.string'}}
  %0 = "tile.alloc"() : () -> !tile.buffer<array<i64: 64, 64>, f16, "S[(64,64):(64,1)]", "shared">
  return
}

// -----

func.func @type_of_too_few_parameters() {
  // expected-error @below {{expected 4 type arguments, but had 2}}
  %0 = "tile.alloc"() : () -> !tile.buffer<array<i64: 64, 64>, f16>
  return
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @loop_of_mismatching_fragments(%a: !A, %d: !D, %i: index) {
  // expected-error @below {{'scf.for' op along control flow edge from Operation scf.yield to Region #0}}
  // expected-note @below {{see current operation}}
  %0 = scf.for %k = %i to %i step %i iter_args(%x = %a) -> (!A) {
    // expected-note @below {{region branch point}}
    scf.yield %d : !D
  }
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_86">] {
  func.func @schedule_for_the_chip(%a: memref<?x?xf16>, %d: memref<?x?xf32>) {
    // expected-error @below {{shared memory must be at most 101376 bytes on sm_86, got 147456 (3 stages of 49152)}}
    "tile.matmul"(%a, %a, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 256, 64>, warps = array<i64: 2, 4>, stages = 3}}
      : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
    return
  }
}

// -----

func.func @misspelled_attribute(%a: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{'tile.matmul' op has no attribute 'transposeB': it has transpose_a, transpose_b, alpha, beta, promote, accumulate, bit_op, schedule}}
  "tile.matmul"(%a, %a, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transposeB = true} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @attribute_of_an_op_without(%m: memref<?x?xf16>, %i: i32, %t: !tile.buffer<array<i64: 8, 8>, f16, #tile.layout<"S[(8,8):(8,1)]">, "shared">) {
  // expected-error @below {{'tile.copy' op has no attribute 'vector_bytes': it has any_start}}
  "tile.copy"(%m, %i, %i, %t) {vector_bytes = 16} : (memref<?x?xf16>, i32, i32, !tile.buffer<array<i64: 8, 8>, f16, #tile.layout<"S[(8,8):(8,1)]">, "shared">) -> ()
  return
}

// -----

!Stages = !tile.buffer<array<i64: 2, 3, 4>, f16, #tile.layout<"S[(2,3,4):(12,4,1)]">, "shared">
!Stage = !tile.buffer<array<i64: 3, 4>, f16, #tile.layout<"S[(3,4):(4,1)]">, "shared">
func.func @stages_that_vectors_cant_start_in(%b: !Stages, %i: i32) {
  // expected-error @below {{'tile.stage' op stages must be a multiple of 16 bytes apart, got 24}}
  %0 = "tile.stage"(%b, %i) : (!Stages, i32) -> !Stage
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
gpu.module @m [#nvvm.target<chip = "sm_75">] {
  gpu.func @copy_async_on_an_old_chip(%m: memref<?x?xf16>, %i: i32, %t: !T) kernel {
    // expected-error @below {{'tile.copy_async' op needs sm_80 or later: sm_75 has no form of cp.async}}
    "tile.copy_async"(%m, %i, %i, %t) {vector_bytes = 16} : (memref<?x?xf16>, i32, i32, !T) -> ()
    gpu.return
  }
}

// -----

func.func @matmul_fp8_with_f16(%a: memref<?x?xf8E4M3FN>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{expects A and B of one element type, got memref<?x?xf8E4M3FN> and memref<?x?xf16>}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf8E4M3FN>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @matmul_i8_to_f32(%a: memref<?x?xi8>, %b: memref<?x?xi8>, %d: memref<?x?xf32>) {
  // expected-error @below {{expects D and what is added to it to be i32 if and only if A and B are integers, got memref<?x?xi8>, memref<?x?xf32>}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xi8>, memref<?x?xi8>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @matmul_f16_to_i32(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xi32>) {
  // expected-error @below {{expects D and what is added to it to be i32 if and only if A and B are integers, got memref<?x?xf16>, memref<?x?xi32>}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xi32>) -> ()
  return
}

// -----

func.func @matmul_batch_without_d(%a: memref<?x?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{expects D of rank 3, because A is a batch, got memref<?x?xf32>}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @matmul_batches_of_two_sizes(%a: memref<2x?x?xf16>, %b: memref<3x?x?xf16>, %d: memref<?x?x?xf32>) {
  // expected-error @below {{expects batches of one size, got 2 in A and 3 in B}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<2x?x?xf16>, memref<3x?x?xf16>, memref<?x?x?xf32>) -> ()
  return
}

// -----

func.func @matmul_promoted_f16(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{'tile.matmul' op expects A and B of fp8 where promote is true, got memref<?x?xf16>}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, promote = true} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @matmul_alpha_of_integers(%a: memref<?x?xi8>, %b: memref<?x?xi8>, %d: memref<?x?xi32>) {
  // expected-error @below {{expects alpha 1 and beta 0 or 1 where A and B are integers, got 2.0 and 0.0}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, alpha = 2.0 : f32} : (memref<?x?xi8>, memref<?x?xi8>, memref<?x?xi32>) -> ()
  return
}

// -----

func.func @matmul_beta_of_integers(%a: memref<?x?xi8>, %b: memref<?x?xi8>, %d: memref<?x?xi32>) {
  // expected-error @below {{expects alpha 1 and beta 0 or 1 where A and B are integers, got 1.0 and 0.5}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, beta = 0.5 : f32} : (memref<?x?xi8>, memref<?x?xi8>, memref<?x?xi32>) -> ()
  return
}

// -----

func.func @matmul_transposed_m(%a: memref<16x32xf16>, %b: memref<?x?xf16>, %d: memref<16x?xf32>) {
  // expected-error @below {{expects A (K x M), B (K x N) and D (M x N) to agree: M is 32 in A and 16 in D}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_a = true} : (memref<16x32xf16>, memref<?x?xf16>, memref<16x?xf32>) -> ()
  return
}

// -----

func.func @matmul_both_transposed_k(%a: memref<16x32xf16>, %b: memref<?x64xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{expects A (K x M), B (N x K) and D (M x N) to agree: K is 16 in A and 64 in B}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_a = true, transpose_b = true} : (memref<16x32xf16>, memref<?x64xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @matmul_transpose_a_kind(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{expects attribute 'transpose_a' to be true or false, got 1 : i64}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_a = 1} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @warps_of_f32(%a: memref<?x?xf32>, %b: memref<?x?xf32>, %d: memref<?x?xf32>) {
  // expected-error @below {{block K must be 16 or 32 (rows of 64 or 128 bytes in shared memory), got 64}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 64>, warps = array<i64: 2, 2>, stages = 3}} : (memref<?x?xf32>, memref<?x?xf32>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @warps_of_transpose_a(%a: memref<?x?xi8>, %b: memref<?x?xi8>, %d: memref<?x?xi32>) {
  // expected-error @below {{block M must be a multiple of 32 for an MN-major operand, got 16}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_a = true, schedule = {block = array<i64: 16, 128, 64>, warps = array<i64: 1, 2>, stages = 3}} : (memref<?x?xi8>, memref<?x?xi8>, memref<?x?xi32>) -> ()
  return
}

// -----

func.func @schedule_of_two_families(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{schedule must have only one of the fields 'warps' (for mma.sync) and 'warpgroups' (for wgmma)}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 64>, warpgroups = 2, stages = 3, warps = array<i64: 2, 2>}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @warpgroups_missing_field(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{schedule must have the field 'stages'}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 64>, warpgroups = 2}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @warpgroups_block_kind(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{schedule field 'block' must be an array<i64> of 3, got array<i64: 128, 128>}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128>, warpgroups = 2, stages = 3}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @warpgroups_kind(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{schedule field 'warpgroups' must be an integer, got array<i64: 2, 2>}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 64>, warpgroups = array<i64: 2, 2>, stages = 3}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @warpgroups_no_split(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{splits must be at least 1, got 0}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 64>, warpgroups = 2, stages = 3, splits = 0}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @warpgroups_n(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{schedule must have a legal instruction: wgmma.mma_async n must be a multiple of 8 in 8..256, got 260}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 260, 64>, warpgroups = 2, stages = 3}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @warpgroups_n_of_i8(%a: memref<?x?xi8>, %b: memref<?x?xi8>, %d: memref<?x?xi32>) {
  // expected-error @below {{n must be 8, 16, 24, or a multiple of 16 in 32..256, got 40}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, schedule = {block = array<i64: 128, 40, 128>, warpgroups = 2, stages = 3}} : (memref<?x?xi8>, memref<?x?xi8>, memref<?x?xi32>) -> ()
  return
}

// -----

func.func @warpgroups_stages(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{stages must be at least 2, got 1}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 64>, warpgroups = 2, stages = 1}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @warpgroups_group(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{group must be at most 1024, got 4294967296}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 2, group = 4294967296}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @warpgroups_that_do_not_divide(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{warpgroups must be in 1..3 and divide block M 96 in multiples of 64, got 2}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 96, 64, 64>, warpgroups = 2, stages = 3}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @warpgroups_too_many(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{warpgroups must be in 1..3 and divide block M 256 in multiples of 64, got 4}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 256, 64, 64>, warpgroups = 4, stages = 3}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @warpgroups_registers(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{a warpgroup must hold at most}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 256, 256, 64>, warpgroups = 2, stages = 3}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @warpgroups_splits(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{splits must be 1, 2, 4 or 8 and divide block N 128 in multiples of 8, got 3}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 64>, warpgroups = 2, stages = 3, splits = 3}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @warpgroups_splits_of_n(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{splits must be 1, 2, 4 or 8 and divide block N 32 in multiples of 8, got 8}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 32, 64>, warpgroups = 2, stages = 3, splits = 8}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @warpgroups_mn_major(%a: memref<?x?xf32>, %b: memref<?x?xf32>, %d: memref<?x?xf32>) {
  // expected-error @below {{B must be K-major (transpose_b = true), as wgmma reads f32, got an MN-major one}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 32>, warpgroups = 2, stages = 3}} : (memref<?x?xf32>, memref<?x?xf32>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @warpgroups_block_k(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{block K must have 32, 64 or a multiple of 128 bytes, got 96 (48 of f16)}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 48>, warpgroups = 2, stages = 3}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @cluster_kind(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{schedule field 'cluster' must be an array<i64> of 2, got array<i64: 2>}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 64>, warpgroups = 2, stages = 3, cluster = array<i64: 2>}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @cluster_of_three(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{cluster must have 2, 4 or 8 CTAs, and splits must be 1 with a cluster, got 3 x 1 and 1}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 64>, warpgroups = 2, stages = 3, cluster = array<i64: 3, 1>}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @cluster_of_none(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{cluster must have numbers of at least 1, got 0 x 2}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 64>, warpgroups = 2, stages = 3, cluster = array<i64: 0, 2>}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @cluster_with_splits(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{cluster must have 2, 4 or 8 CTAs, and splits must be 1 with a cluster, got 2 x 1 and 2}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 64>, warpgroups = 2, stages = 3, cluster = array<i64: 2, 1>, splits = 2}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @cluster_that_does_not_divide(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{cluster must divide block N 24 in multiples of 8, got 2 CTAs}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, schedule = {block = array<i64: 128, 24, 64>, warpgroups = 2, stages = 3, cluster = array<i64: 2, 1>}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @cluster_across_panels(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{cluster must divide block N 64 in multiples of 64 or block K 32 in multiples of 8, got 8 CTAs}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 64, 32>, warpgroups = 2, stages = 3, cluster = array<i64: 8, 1>}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @skewed_mn_major(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{skewed must be false with MN-major operands}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 64, 64>, warpgroups = 2, stages = 3, skewed = true}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @joined_k_major(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{joined must be false with a K-major A}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 64, 8, 64>, warpgroups = 1, stages = 3, swap = true, joined = true}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @joined_columns(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{joined must be false with tiles of more than 8 rows of A}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_a = true, schedule = {block = array<i64: 64, 16, 64>, warpgroups = 1, stages = 3, swap = true, joined = true}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @alternating_splits(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{alternating must be false with splits}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 64, 64, 64>, warpgroups = 2, stages = 3, global_splits = 2, alternating = true}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @joined_wide_rows(%m: memref<?x?xf16, strided<[?, 1]>>) {
  // expected-error @below {{tiles of a joined map must have a multiple of 8 rows of 8, got 8 x 16}}
  %0 = "tile.tensor_map"(%m) {joined = true} : (memref<?x?xf16, strided<[?, 1]>>) -> !tile.map<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)]">>
  return
}

// -----

func.func @joined_indexed(%m: memref<?x?xf16, strided<[?, 1]>>) {
  // expected-error @below {{joined must be false with indexed}}
  %0 = "tile.tensor_map"(%m) {joined = true, indexed = true} : (memref<?x?xf16, strided<[?, 1]>>) -> !tile.map<array<i64: 8, 8>, f16, #tile.layout<"S[(8,8):(8,1)]">>
  return
}

// -----

func.func @skewed_any_rows(%m: memref<?x?xf16, strided<[?, 1]>>) {
  // expected-error @below {{skewed must be false with any_rows}}
  %0 = "tile.tensor_map"(%m) {any_rows = true, skewed = true} : (memref<?x?xf16, strided<[?, 1]>>) -> !tile.map<array<i64: 8, 8>, f16, #tile.layout<"S[(8,8):(8,1)]">>
  return
}

// -----

func.func @warpgroups_rows_of_b(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{block N must be a multiple of 16 for an MN-major operand that threads load, got 24}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 24, 64>, warpgroups = 2, stages = 3, loaders = 1}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @warpgroups_rows_of_a(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{block N must be a multiple of 16 for an MN-major operand that threads load, got 24}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_a = true, transpose_b = true, schedule = {block = array<i64: 128, 24, 64>, warpgroups = 2, stages = 3, loaders = 1, swap = true}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @warpgroups_rows_of_d(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf16>) {
  // expected-error @below {{block N must be a multiple of 16 for a D that TMA writes, got 24}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, schedule = {block = array<i64: 128, 24, 64>, warpgroups = 2, stages = 3}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf16>) -> ()
  return
}

// -----

!W = f16
!P = !tile.buffer<array<i64: 16, 64>, f16, #tile.layout<"S[(16,64):(64,1)]">, "shared">
func.func @slice_of_no_buffer(%b: !W, %i: i32) {
  // expected-error @below {{'tile.slice' op expects tile.buffer operand and result, got f16 and !tile.buffer<}}
  %0 = "tile.slice"(%b, %i, %i) : (!W, i32, i32) -> !P
  return
}

// -----

!W = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
!P = f16
func.func @slice_to_no_buffer(%b: !W, %i: i32) {
  // expected-error @below {{expects tile.buffer operand and result, got !tile.buffer<}}
  %0 = "tile.slice"(%b, %i, %i) : (!W, i32, i32) -> !P
  return
}

// -----

!W = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(32,1)]">, "shared">
!P = !tile.buffer<array<i64: 16, 64>, f16, #tile.layout<"S[(16,64):(32,1)]">, "shared">
func.func @slice_of_a_bad_layout(%b: !W, %i: i32) {
  // expected-error @below {{has a buffer of layout S[(64,64):(32,1)]: its elements must not overlap}}
  %0 = "tile.slice"(%b, %i, %i) : (!W, i32, i32) -> !P
  return
}

// -----

!W = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
!P = !tile.buffer<array<i64: 16, 64>, f16, #tile.layout<"S[(16,64):(64,1)]">, "shared">
func.func @slice_coordinates(%b: !W, %i: index) {
  // expected-error @below {{expects i32 coordinates, got index}}
  %0 = "tile.slice"(%b, %i, %i) : (!W, index, index) -> !P
  return
}

// -----

!W = !tile.buffer<array<i64: 3, 64, 64>, f16, #tile.layout<"S[(3,64,64):(4096,64,1)]">, "shared">
!P = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
func.func @slice_rank(%b: !W, %i: i32) {
  // expected-error @below {{expects buffers of rank 2, got shapes [3, 64, 64] and [64, 64]}}
  %0 = "tile.slice"(%b, %i, %i) : (!W, i32, i32) -> !P
  return
}

// -----

!W = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
!P = !tile.buffer<array<i64: 48, 64>, f16, #tile.layout<"S[(48,64):(64,1)]">, "shared">
func.func @slice_shape(%b: !W, %i: i32) {
  // expected-error @below {{expects a buffer whose shape is a multiple of [48, 64], got [64, 64]}}
  %0 = "tile.slice"(%b, %i, %i) : (!W, i32, i32) -> !P
  return
}

// -----

!W = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!P = !tile.buffer<array<i64: 16, 64>, f16, #tile.layout<"S[(16,64):(64,1)]">, "shared">
func.func @slice_result(%b: !W, %i: i32) {
  // expected-error @below {{expects to return !tile.buffer<array<i64: 16, 64>, f16, #tile.layout<"S[(16,64):(64,1)] xor 128B">, "shared">, got}}
  %0 = "tile.slice"(%b, %i, %i) : (!W, i32, i32) -> !P
  return
}

// -----

!W = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!P = !tile.buffer<array<i64: 4, 64>, f16, #tile.layout<"S[(4,64):(64,1)] xor 128B">, "shared">
func.func @slice_of_rows_across_a_swizzle(%b: !W, %i: i32) {
  // expected-error @below {{slices must be a multiple of 1024 bytes apart, got 512}}
  %0 = "tile.slice"(%b, %i, %i) : (!W, i32, i32) -> !P
  return
}

// -----

!W = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!P = !tile.buffer<array<i64: 64, 32>, f16, #tile.layout<"S[(64,32):(64,1)] xor 128B">, "shared">
func.func @slice_of_columns_across_a_swizzle(%b: !W, %i: i32) {
  // expected-error @below {{slices must be a multiple of 1024 bytes apart, got 64}}
  %0 = "tile.slice"(%b, %i, %i) : (!W, i32, i32) -> !P
  return
}

// -----

!W = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
!P = !tile.buffer<array<i64: 64, 4>, f16, #tile.layout<"S[(64,4):(64,1)]">, "shared">
func.func @slice_that_vectors_cant_start_in(%b: !W, %i: i32) {
  // expected-error @below {{slices must be a multiple of 16 bytes apart, got 8}}
  %0 = "tile.slice"(%b, %i, %i) : (!W, i32, i32) -> !P
  return
}

// -----

!W = !tile.buffer<array<i64: 8, 96>, f16, #tile.layout<"S[(8,3,32):(96,1000,1)]">, "shared">
!P = !tile.buffer<array<i64: 8, 48>, f16, #tile.layout<"S[(8,48):(96,1)]">, "shared">
func.func @slice_of_no_strides(%b: !W, %i: i32) {
  // expected-error @below {{elements 0 to 47 of}}
  %0 = "tile.slice"(%b, %i, %i) : (!W, i32, i32) -> !P
  return
}

// -----

!B = f16
!P = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "cluster">
func.func @peer_of_no_buffer(%b: !B, %i: i32) {
  // expected-error @below {{'tile.peer' op expects tile.buffer operand and result, got f16 and !tile.buffer<}}
  %0 = "tile.peer"(%b, %i) : (!B, i32) -> !P
  return
}

// -----

!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!P = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "cluster">
func.func @peer_rank(%b: !B, %i: index) {
  // expected-error @below {{expects i32 coordinates, got index}}
  %0 = "tile.peer"(%b, %i) : (!B, index) -> !P
  return
}

// -----

!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "cluster">
!P = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "cluster">
func.func @peer_of_a_peer(%b: !B, %i: i32) {
  // expected-error @below {{'tile.peer' op expects a buffer in the CTA's own shared memory, got !tile.buffer<}}
  %0 = "tile.peer"(%b, %i) : (!B, i32) -> !P
  return
}

// -----

!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!P = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
func.func @peer_in_the_same_cta(%b: !B, %i: i32) {
  // expected-error @below {{'tile.peer' op expects to return !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "cluster">, got}}
  %0 = "tile.peer"(%b, %i) : (!B, i32) -> !P
  return
}

// -----

!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "cluster">
func.func @address_of_a_peer(%b: !B) {
  // expected-error @below {{expects to return !llvm.ptr<7>, got !llvm.ptr<3>}}
  %0 = "tile.address"(%b) : (!B) -> !llvm.ptr<3>
  return
}

// -----

!F = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = !tile.buffer<array<i64: 64, 64>, bf16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
func.func @store_to_a_buffer_of_another_type(%f: !F, %b: !B, %i: i32) {
  // expected-error @below {{'tile.store' op expects equal element types, got tensor<}}
  "tile.store"(%f, %b, %i, %i) : (!F, !B, i32, i32) -> ()
  return
}

// -----

!F = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = !tile.buffer<array<i64: 3, 64, 64>, f16, #tile.layout<"S[(3,64,64):(4096,64,1)]">, "shared">
func.func @store_to_a_buffer_of_another_rank(%f: !F, %b: !B, %i: i32) {
  // expected-error @below {{expects a buffer of rank 2, got shape [3, 64, 64]}}
  "tile.store"(%f, %b, %i, %i) : (!F, !B, i32, i32) -> ()
  return
}

// -----

!F = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = !tile.buffer<array<i64: 8, 64>, f16, #tile.layout<"S[(8,64):(64,1)]">, "shared">
func.func @store_larger_than_a_buffer(%f: !F, %b: !B, %i: i32) {
  // expected-error @below {{expects a buffer whose shape is a multiple of [16, 16], got [8, 64]}}
  "tile.store"(%f, %b, %i, %i) : (!F, !B, i32, i32) -> ()
  return
}

// -----

!F = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(32,1)]">, "shared">
func.func @store_to_a_buffer_of_a_bad_layout(%f: !F, %b: !B, %i: i32) {
  // expected-error @below {{has a buffer of layout S[(64,64):(32,1)]: its elements must not overlap}}
  "tile.store"(%f, %b, %i, %i) : (!F, !B, i32, i32) -> ()
  return
}

// -----

!F = tensor<16x8xf32, #tile.layout<"S[(16,8):(1@TLane,1@TCol)]">>
func.func @fragment_in_tensor_memory(%f: !F) {
  // expected-error @below {{its axes must be among warpid, laneid, m, got TLane}}
  %0 = "tile.to_lane"(%f) : (!F) -> vector<4xf32>
  return
}

// -----

!F = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(2@warpid,2,4@laneid,1@laneid,1)]">>
func.func @fragment_of_a_warpgroup_with_a_hole(%f: !F) {
  // expected-error @below {{it must span 1 warp or the 4 of a warpgroup, got 7}}
  %0 = "tile.to_lane"(%f) : (!F) -> vector<4xf32>
  return
}

// -----

!F = tensor<64x4xf32, #tile.layout<"S[(4,2,8,4):(1@warpid,3,4@laneid,1@laneid)]">>
func.func @fragment_of_a_warpgroups_first_warp(%f: !F) {
  // expected-error @below {{each of 32 lanes must hold one element in each of 4 registers}}
  %0 = "tile.to_lane"(%f) : (!F) -> vector<4xf32>
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_90">] {
  func.func @warpgroups_on_another_chip(%a: memref<?x?xf16>, %d: memref<?x?xf32>) {
    // expected-error @below {{schedule must have a legal instruction: wgmma.mma_async}}
    "tile.matmul"(%a, %a, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 256, 64>, warpgroups = 2, stages = 5}}
      : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
    return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  func.func @warpgroups_memory(%a: memref<?x?xf16>, %d: memref<?x?xf32>) {
    // expected-error @below {{shared memory must be at most 232448 bytes on sm_90a, got}}
    "tile.matmul"(%a, %a, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 256, 64>, warpgroups = 2, stages = 5}}
      : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
    return
  }
}

// -----

func.func @alloc_over_two(%b: !tile.buffer<array<i64: 8, 8>, f32, #tile.layout<"S[(8,8):(8,1)]">, "shared">) {
  // expected-error @below {{'tile.alloc' op expects at most one buffer to overlap, got 2}}
  %0 = "tile.alloc"(%b, %b) : (!tile.buffer<array<i64: 8, 8>, f32, #tile.layout<"S[(8,8):(8,1)]">, "shared">, !tile.buffer<array<i64: 8, 8>, f32, #tile.layout<"S[(8,8):(8,1)]">, "shared">) -> !tile.buffer<array<i64: 8, 8>, f32, #tile.layout<"S[(8,8):(8,1)]">, "shared">
  return
}

// -----

func.func @alloc_over_a_number(%i: i32) {
  // expected-error @below {{'tile.alloc' op expects to overlap a tile.buffer, got i32}}
  %0 = "tile.alloc"(%i) : (i32) -> !tile.buffer<array<i64: 8, 8>, f32, #tile.layout<"S[(8,8):(8,1)]">, "shared">
  return
}

// -----

// Memory of a peer isn't the CTA's to give.
func.func @alloc_in_a_peer() {
  // expected-error @below {{'tile.alloc' op expects a shared buffer or one in tensor memory, got}}
  %0 = "tile.alloc"() : () -> !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "cluster">
  return
}

// -----

// Columns 32 to 63 lie in two panels, those from 0 or 64 on together: no one type says how a part lies.
!W = !tile.buffer<array<i64: 8, 96>, f16, #tile.layout<"S[(8,2,3,16):(96,1024,16,1)]">, "shared">
!P = !tile.buffer<array<i64: 8, 32>, f16, #tile.layout<"S[(8,32):(96,1)]">, "shared">
func.func @slice_across_panels(%b: !W, %i: i32) {
  // expected-error @below {{'tile.slice' op}}
  %0 = "tile.slice"(%b, %i, %i) : (!W, i32, i32) -> !P
  return
}

// -----

func.func @swap_kind(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{schedule field 'swap' must be true or false, got 3 : i64}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 64, 64>, warpgroups = 2, stages = 3, swap = 3}}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @warpgroups_kind(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{schedule field 'warpgroups' must be an integer, got true}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 64, 64>, warpgroups = true, stages = 3}}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @claim_of_floats(%c: memref<?xf32>, %i: i32) {
  %n = arith.constant 2 : i32
  // expected-error @below {{'tile.claim' op expects counters in a memref of rank 1 of i32, got memref<?xf32>}}
  %0 = "tile.claim"(%c, %i, %i, %n) {shares = 2} : (memref<?xf32>, i32, i32, i32) -> i32
  return
}

// -----

func.func @claim_apart(%c: memref<?xi32, strided<[2]>>, %i: i32) {
  %n = arith.constant 2 : i32
  // expected-error @below {{'tile.claim' op expects contiguous counters, got memref<?xi32, strided<[2]>>}}
  %0 = "tile.claim"(%c, %i, %i, %n) {shares = 2} : (memref<?xi32, strided<[2]>>, i32, i32, i32) -> i32
  return
}

// -----

func.func @claim_alone(%c: memref<?xi32>, %i: i32) {
  %n = arith.constant 1 : i32
  // expected-error @below {{'tile.claim' op parties must be in 2..16, got 1}}
  %0 = "tile.claim"(%c, %i, %i, %n) {shares = 1} : (memref<?xi32>, i32, i32, i32) -> i32
  return
}

// -----

func.func @claim_of_many(%c: memref<?xi32>, %i: i32) {
  %n = arith.constant 17 : i32
  // expected-error @below {{'tile.claim' op parties must be in 2..16, got 17}}
  %0 = "tile.claim"(%c, %i, %i, %n) {shares = 1} : (memref<?xi32>, i32, i32, i32) -> i32
  return
}

// -----

func.func @claim_of_too_much(%c: memref<?xi32>, %i: i32) {
  %n = arith.constant 4 : i32
  // expected-error @below {{'tile.claim' op shares must be in 1..4, the number of parties, got 5}}
  %0 = "tile.claim"(%c, %i, %i, %n) {shares = 5} : (memref<?xi32>, i32, i32, i32) -> i32
  return
}

// -----

func.func @claim_with_floats(%c: memref<?xi32>, %i: i32, %n: f32) {
  // expected-error @below {{'tile.claim' op expects i32 coordinates, got f32}}
  %0 = "tile.claim"(%c, %i, %i, %n) {shares = 2} : (memref<?xi32>, i32, i32, f32) -> i32
  return
}

// -----

func.func @await_others_of_floats(%c: memref<?xf32>, %i: i32) {
  // expected-error @below {{'tile.await_others' op expects counters in a memref of rank 1 of i32, got memref<?xf32>}}
  %0 = "tile.await_others"(%c, %i, %i) : (memref<?xf32>, i32, i32) -> i1
  return
}

// -----

func.func @await_nobody(%c: memref<?xi32>, %i: i32) {
  %n = arith.constant 1 : i32
  // expected-error @below {{'tile.await_others' op parties must be in 2..16, got 1}}
  %0 = "tile.await_others"(%c, %i, %n) : (memref<?xi32>, i32, i32) -> i1
  return
}

// -----

func.func @await_a_number(%c: memref<?xi32>, %i: i32) {
  // expected-error @below {{'tile.await_others' op expects to return i1, got i32}}
  %0 = "tile.await_others"(%c, %i, %i) : (memref<?xi32>, i32, i32) -> i32
  return
}

// -----

func.func @global_splits_of_too_many(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{global_splits must be in 1..16, and splits must be 1 where global_splits > 1, got 17 and 1}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 64>, warpgroups = 2, stages = 3, global_splits = 17}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @global_splits_and_splits(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{global_splits must be in 1..16, and splits must be 1 where global_splits > 1, got 2 and 2}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 64>, warpgroups = 2, stages = 3, global_splits = 2, splits = 2}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @stream_k_and_cluster(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{splits, global_splits and cluster must be 1 with stream_k, got block 128x128x64, 2 warpgroups, 3 stages, group 8, stream-K, cluster 2x1}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 64>, warpgroups = 2, stages = 3, stream_k = true, cluster = array<i64: 2, 1>}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @stream_k_of_a_number(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{schedule field 'stream_k' must be true or false, got 1 : i64}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 64>, warpgroups = 2, stages = 3, stream_k = 1}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @global_splits_of_none(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{global_splits must be at least 1, got 0}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 128, 128, 64>, warpgroups = 2, stages = 3, global_splits = 0}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,99999999999999999999@laneid,1@laneid,1)]">>

func.func @far_apart(%v: vector<4xf32>) {
  // expected-error @below {{iterator 8:99999999999999999999@laneid must have an extent and a stride of at most 2147483647}}
  %0 = "tile.from_lane"(%v) : (vector<4xf32>) -> !D
  return
}

// -----

func.func @address_in_unknown_memory(%buffer: !tile.buffer<array<i64: 8, 8>, f32, #tile.layout<"S[(8,8):(8,1)]">, "nowhere">) {
  // expected-error @below {{has a buffer whose memory must be one of shared, cluster, tmem, got 'nowhere'}}
  %0 = "tile.address"(%buffer) : (!tile.buffer<array<i64: 8, 8>, f32, #tile.layout<"S[(8,8):(8,1)]">, "nowhere">) -> !llvm.ptr<3>
  return
}

// -----

func.func @await_a_float(%flags: memref<?xf32>, %i: i32) {
  // expected-error @below {{'tile.await_flag' op expects flags in a memref of rank 1 of i32, got memref<?xf32>}}
  "tile.await_flag"(%flags, %i, %i, %i) {proxy = "async"} : (memref<?xf32>, i32, i32, i32) -> ()
  return
}

// -----

func.func @await_flags_apart(%flags: memref<?xi32, strided<[2]>>, %i: i32) {
  // expected-error @below {{'tile.await_flag' op expects contiguous flags, got}}
  "tile.await_flag"(%flags, %i, %i, %i) {proxy = "async"} : (memref<?xi32, strided<[2]>>, i32, i32, i32) -> ()
  return
}

// -----

func.func @await_by_proxy(%flags: memref<?xi32>, %i: i32) {
  // expected-error @below {{'tile.await_flag' op proxy must be generic or async, got 'tma'}}
  "tile.await_flag"(%flags, %i, %i, %i) {proxy = "tma"} : (memref<?xi32>, i32, i32, i32) -> ()
  return
}

// -----

func.func @await_a_wide_number(%flags: memref<?xi32>, %i: i64) {
  // expected-error @below {{'tile.await_flag' op expects i32 coordinates, got i64}}
  "tile.await_flag"(%flags, %i, %i, %i) {proxy = "async"} : (memref<?xi32>, i64, i64, i64) -> ()
  return
}

// -----

func.func @is_last_of_floats(%counters: memref<?xf32>, %i: i32) {
  // expected-error @below {{'tile.is_last' op expects counters in a memref of rank 1 of i32, got memref<?xf32>}}
  %0 = "tile.is_last"(%counters, %i, %i) : (memref<?xf32>, i32, i32) -> i1
  return
}

// -----

func.func @is_last_number(%counters: memref<?xi32>, %i: i32) {
  // expected-error @below {{'tile.is_last' op expects to return i1, got i32}}
  %0 = "tile.is_last"(%counters, %i, %i) : (memref<?xi32>, i32, i32) -> i32
  return
}

// -----

func.func @signal_a_float(%flags: memref<?xf32>, %i: i32) {
  // expected-error @below {{'tile.signal' op expects flags in a memref of rank 1 of i32, got memref<?xf32>}}
  "tile.signal"(%flags, %i, %i) : (memref<?xf32>, i32, i32) -> ()
  return
}

// -----

func.func @remote_at_an_index(%address: i32) {
  // expected-error @below {{'tile.remote' op expects an address of i64, got i32}}
  %0 = "tile.remote"(%address) : (i32) -> memref<?xi32, 1>
  return
}

// -----

func.func @remote_matrix(%address: i64) {
  // expected-error @below {{'tile.remote' op expects to return memref<?xT, 1>, got memref<?x?xi32, 1>}}
  %0 = "tile.remote"(%address) : (i64) -> memref<?x?xi32, 1>
  return
}

// -----

func.func @send_to_another_type(%address: i64, %i: i32) {
  %0 = "tile.alloc"() : () -> !tile.buffer<array<i64: 128, 8>, bf16, #tile.layout<"S[(128,8):(8,1)]">, "shared">
  %1 = "tile.remote"(%address) : (i64) -> memref<?xf32, 1>
  // expected-error @below {{'tile.send_async' op expects memory of type memref<?xbf16, 1>, got memref<?xf32, 1>}}
  "tile.send_async"(%0, %1, %i)
    : (!tile.buffer<array<i64: 128, 8>, bf16, #tile.layout<"S[(128,8):(8,1)]">, "shared">, memref<?xf32, 1>, i32) -> ()
  return
}

// -----

func.func @send_no_buffer(%m: memref<?xf32, 1>, %i: i32) {
  // expected-error @below {{'tile.send_async' op expects a tile.buffer, got memref<?xf32, 1>}}
  "tile.send_async"(%m, %m, %i) : (memref<?xf32, 1>, memref<?xf32, 1>, i32) -> ()
  return
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @gemm_of_a_pair(%a: !A, %b: !B) {
  // expected-error @below {{'tile.gemm' op cta_group must be 1 for tiles with layouts, got 2}}
  %0 = "tile.gemm"(%a, %b) {cta_group = 2 : i64} : (!A, !B) -> !D
  return
}

// -----

func.func @gemm_of_three_ctas(%a: tensor<16x16xf16>, %b: tensor<16x8xf16>) {
  // expected-error @below {{'tile.gemm' op cta_group must be 1 or 2, got 3}}
  %0 = "tile.gemm"(%a, %b) {cta_group = 3 : i64} : (tensor<16x16xf16>, tensor<16x8xf16>) -> tensor<16x8xf32>
  return
}
