// RUN: weft-opt %s --split-input-file --verify-diagnostics

func.func @shape_m(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op m must be 64, got 128 in m128n8k16; nearest legal: wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16}}
  %0 = "wgmma.mma_async"(%f4, %l, %l, %c) {shape = "m128n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @shape_k(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op k must be 16 for bf16, got 8 in m64n8k8; nearest legal: wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16}}
  %0 = "wgmma.mma_async"(%f4, %l, %l, %c) {shape = "m64n8k8", a_type = "bf16", b_type = "bf16", d_type = "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @shape_n(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op n must be a multiple of 8 in 8..256, got 12 in m64n12k16; nearest legal: wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16, wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16}}
  %0 = "wgmma.mma_async"(%f4, %l, %l, %c) {shape = "m64n12k16", a_type = "bf16", b_type = "bf16", d_type = "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @shape_n_of_integers(%w4: !llvm.struct<(i32, i32, i32, i32)>, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op n must be 8, 16, 24, or a multiple of 16 in 32..256, got 40 in m64n40k32; nearest legal: wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.u8, wgmma.mma_async.sync.aligned.m64n48k32.s32.s8.u8}}
  %0 = "wgmma.mma_async"(%w4, %l, %l, %c) {shape = "m64n40k32", a_type = "s8", b_type = "u8", d_type = "s32", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(i32, i32, i32, i32)>, i64, i64, i1) -> !llvm.struct<(i32, i32, i32, i32)>
  return
}

// -----

func.func @shape_n_too_large(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op n must be a multiple of 8 in 8..256, got 264 in m64n264k16; nearest legal: wgmma.mma_async.sync.aligned.m64n248k16.f32.bf16.bf16, wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16}}
  %0 = "wgmma.mma_async"(%f4, %l, %l, %c) {shape = "m64n264k16", a_type = "bf16", b_type = "bf16", d_type = "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @sparse_k_counts_zeros(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'wgmma.sp_mma_async' op k must be 32 for bf16 with its zeros, got 16 in m64n8k16; nearest legal: wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16}}
  %0 = "wgmma.sp_mma_async"(%f4, %l, %l, %w, %c) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i32, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @unknown_type(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op a_type must be one of f16, bf16, tf32, e4m3, e5m2, s8, u8, b1, got s4}}
  %0 = "wgmma.mma_async"(%f4, %l, %l, %c) {shape = "m64n8k16", a_type = "s4", b_type = "s4", d_type = "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @mixed_types(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op A and B must have the same type, or both be of e4m3 and e5m2, or of s8 and u8, got bf16 and f16}}
  %0 = "wgmma.mma_async"(%f4, %l, %l, %c) {shape = "m64n8k16", a_type = "bf16", b_type = "f16", d_type = "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @accumulator(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op d_type must be f32 with shape m64n8k16, a_type bf16, b_type bf16, got f16}}
  %0 = "wgmma.mma_async"(%f4, %l, %l, %c) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f16", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @bits_without_operation(%w4: !llvm.struct<(i32, i32, i32, i32)>, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op bit_op must be and.popc for b1, got none}}
  %0 = "wgmma.mma_async"(%w4, %l, %l, %c) {shape = "m64n8k256", a_type = "b1", b_type = "b1", d_type = "s32", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(i32, i32, i32, i32)>, i64, i64, i1) -> !llvm.struct<(i32, i32, i32, i32)>
  return
}

// -----

func.func @bits_with_another_operation(%w4: !llvm.struct<(i32, i32, i32, i32)>, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op bit_op must be and.popc for b1, got xor.popc}}
  %0 = "wgmma.mma_async"(%w4, %l, %l, %c) {shape = "m64n8k256", a_type = "b1", b_type = "b1", d_type = "s32", bit_op = "xor.popc", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(i32, i32, i32, i32)>, i64, i64, i1) -> !llvm.struct<(i32, i32, i32, i32)>
  return
}

// -----

func.func @operation_without_bits(%w4: !llvm.struct<(i32, i32, i32, i32)>, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op and.popc needs A and B of b1, got s8 and u8}}
  %0 = "wgmma.mma_async"(%w4, %l, %l, %c) {shape = "m64n8k32", a_type = "s8", b_type = "u8", d_type = "s32", bit_op = "and.popc", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(i32, i32, i32, i32)>, i64, i64, i1) -> !llvm.struct<(i32, i32, i32, i32)>
  return
}

// -----

func.func @no_sparse_bits(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'wgmma.sp_mma_async' op has no sparse A of b1; nearest legal: wgmma.mma_async.sp.sync.aligned.m64n8k64.s32.s8.s8, wgmma.mma_async.sp.sync.aligned.m64n8k64.s32.u8.u8, wgmma.mma_async.sp.sync.aligned.m64n8k64.s32.s8.u8}}
  %0 = "wgmma.sp_mma_async"(%f4, %l, %l, %w, %c) {shape = "m64n8k512", a_type = "b1", b_type = "b1", d_type = "s32", bit_op = "and.popc", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i32, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @satfinite(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op satfinite needs s8 or u8 inputs, got bf16}}
  %0 = "wgmma.mma_async"(%f4, %l, %l, %c) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32", satfinite = true, operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @scale_a(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op scale_a must be 1 or -1, got 0}}
  %0 = "wgmma.mma_async"(%f4, %l, %l, %c) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32", scale_a = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @scale_of_integers(%w4: !llvm.struct<(i32, i32, i32, i32)>, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op takes no scale_b in this form: its operands are d, a, b, scale_d}}
  %0 = "wgmma.mma_async"(%w4, %l, %l, %c) {shape = "m64n8k32", a_type = "s8", b_type = "u8", d_type = "s32", scale_b = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(i32, i32, i32, i32)>, i64, i64, i1) -> !llvm.struct<(i32, i32, i32, i32)>
  return
}

// -----

func.func @transpose_of_bytes(%h2: !llvm.struct<(vector<2xf16>, vector<2xf16>)>, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op takes no trans_b in this form: its operands are d, a, b, scale_d, scale_a, scale_b; nearest legal with trans_b: wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16}}
  %0 = "wgmma.mma_async"(%h2, %l, %l, %c) {shape = "m64n8k32", a_type = "e4m3", b_type = "e5m2", d_type = "f16", trans_b = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(vector<2xf16>, vector<2xf16>)>, i64, i64, i1) -> !llvm.struct<(vector<2xf16>, vector<2xf16>)>
  return
}

// -----

func.func @transpose_of_registers(%f4: !llvm.struct<(f32, f32, f32, f32)>, %w: i32, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op takes no trans_a in this form: its operands are d, a, b, scale_d, scale_a, scale_b, trans_b; legal with a of type i64}}
  %0 = "wgmma.mma_async"(%f4, %w, %w, %w, %w, %l, %c) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32", trans_a = 1 : i64, operandSegmentSizes = array<i32: 1, 4, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i32, i32, i32, i32, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @transpose_value(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op trans_a must be 0 or 1, got 2}}
  %0 = "wgmma.mma_async"(%f4, %l, %l, %c) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32", trans_a = 2 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @transpose_kind(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op expects attribute 'trans_a' to be an integer, got "col"}}
  %0 = "wgmma.mma_async"(%f4, %l, %l, %c) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32", trans_a = "col", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @selector(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'wgmma.sp_mma_async' op selector must be 0 or 1, got 2}}
  %0 = "wgmma.sp_mma_async"(%f4, %l, %l, %w, %c) {shape = "m64n8k32", a_type = "bf16", b_type = "bf16", d_type = "f32", selector = 2 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i32, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @selector_of_bytes(%h2: !llvm.struct<(vector<2xf16>, vector<2xf16>)>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'wgmma.sp_mma_async' op selector must be 0, got 1}}
  %0 = "wgmma.sp_mma_async"(%h2, %l, %l, %w, %c) {shape = "m64n8k64", a_type = "e4m3", b_type = "e5m2", d_type = "f16", selector = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>} : (!llvm.struct<(vector<2xf16>, vector<2xf16>)>, i64, i64, i32, i1) -> !llvm.struct<(vector<2xf16>, vector<2xf16>)>
  return
}

// -----

func.func @selector_of_dense(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op has no attribute 'selector': it has shape, a_type, b_type, d_type, first_sum, scale_a, scale_b, trans_a, trans_b, bit_op, satfinite}}
  %0 = "wgmma.mma_async"(%f4, %l, %l, %c) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32", selector = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @metadata_type(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.sp_mma_async' op expects metadata of type i32, got i64}}
  %0 = "wgmma.sp_mma_async"(%f4, %l, %l, %l, %c) {shape = "m64n8k32", a_type = "bf16", b_type = "bf16", d_type = "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @a_registers(%f4: !llvm.struct<(f32, f32, f32, f32)>, %w: i32, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op expects 4 A registers of i32, got 2 of i32}}
  %0 = "wgmma.mma_async"(%f4, %w, %w, %l, %c) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32", operandSegmentSizes = array<i32: 1, 2, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i32, i32, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @a_register_type(%f4: !llvm.struct<(f32, f32, f32, f32)>, %h: vector<2xf16>, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op expects 4 A registers of i32, got 4 of vector<2xf16>}}
  %0 = "wgmma.mma_async"(%f4, %h, %h, %h, %h, %l, %c) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32", operandSegmentSizes = array<i32: 1, 4, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @b_in_registers(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op expects b of type i64, got i32}}
  %0 = "wgmma.mma_async"(%f4, %l, %w, %c) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i32, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @scale_d(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %w: i32) {
  // expected-error @below {{'wgmma.mma_async' op expects scale_d of type i1, got i32}}
  %0 = "wgmma.mma_async"(%f4, %l, %l, %w) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @inouts(%f2: !llvm.struct<(f32, f32)>, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op expects inouts of type !llvm.struct<(f32, f32, f32, f32)>, got !llvm.struct<(f32, f32)>}}
  %0 = "wgmma.mma_async"(%f2, %l, %l, %c) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @result(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op expects to return !llvm.struct<(f32, f32, f32, f32)>, got f32}}
  %0 = "wgmma.mma_async"(%f4, %l, %l, %c) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> f32
  return
}

// -----

func.func @missing_attribute(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op expects the attribute 'd_type': one of f16, f32, s32}}
  %0 = "wgmma.mma_async"(%f4, %l, %l, %c) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @segments(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %c: i1) {
  // expected-error @below {{'wgmma.mma_async' op expects 'operandSegmentSizes' of 4 groups (inouts, a, b, scale_d) that sum to 4, got array<i32: 1, 2, 1, 1>}}
  %0 = "wgmma.mma_async"(%f4, %l, %l, %c) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32", operandSegmentSizes = array<i32: 1, 2, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @wait_group_count() {
  // expected-error @below {{'wgmma.wait_group' op group must be in 0..2147483647, got -1}}
  "wgmma.wait_group"() {group = -1 : i64} : () -> ()
  return
}

// -----

func.func @wait_group_attribute() {
  // expected-error @below {{'wgmma.wait_group' op has no attribute 'count': it has group}}
  "wgmma.wait_group"() {count = 1 : i64} : () -> ()
  return
}

// -----

func.func @fence_operands() {
  // expected-error @below {{'wgmma.fence' op expects 0 results, got 1}}
  %0 = "wgmma.fence"() : () -> i32
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_90">] {
  gpu.func @plain_hopper(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %c: i1) kernel {
    // expected-error @below {{'wgmma.mma_async' op needs sm_90a: sm_90 has no form of wgmma.mma_async}}
    %0 = "wgmma.mma_async"(%f4, %l, %l, %c) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @blackwell(%f4: !llvm.struct<(f32, f32, f32, f32)>, %l: i64, %w: i32, %c: i1) kernel {
    // expected-error @below {{'wgmma.sp_mma_async' op needs sm_90a: sm_100a has no form of wgmma.mma_async.sp}}
    %0 = "wgmma.sp_mma_async"(%f4, %l, %l, %w, %c) {shape = "m64n8k32", a_type = "bf16", b_type = "bf16", d_type = "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i32, i1) -> !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_80">] {
  gpu.func @fence_on_ampere() kernel {
    // expected-error @below {{'wgmma.fence' op needs sm_90a: sm_80 has no form of wgmma.fence}}
    "wgmma.fence"() : () -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_89">] {
  gpu.func @commit_group_on_ada() kernel {
    // expected-error @below {{'wgmma.commit_group' op needs sm_90a: sm_89 has no form of wgmma.commit_group}}
    "wgmma.commit_group"() : () -> ()
    gpu.return
  }
}

// -----

func.func @descriptor_swizzle(%s: !llvm.ptr<3>) {
  // expected-error @below {{'wgmma.descriptor' op swizzle must be one of none, 32B, 64B, 128B, got 256B}}
  %0 = "wgmma.descriptor"(%s) {swizzle = "256B"} : (!llvm.ptr<3>) -> i64
  return
}

// -----

func.func @descriptor_offset_unit(%s: !llvm.ptr<3>) {
  // expected-error @below {{'wgmma.descriptor' op leading_byte_offset must be a multiple of 16, got 24; nearest legal: 16, 32}}
  %0 = "wgmma.descriptor"(%s) {leading_byte_offset = 24 : i64} : (!llvm.ptr<3>) -> i64
  return
}

// -----

func.func @descriptor_offset_range(%s: !llvm.ptr<3>) {
  // expected-error @below {{'wgmma.descriptor' op stride_byte_offset must be in 0..262128, got 262144}}
  %0 = "wgmma.descriptor"(%s) {stride_byte_offset = 262144 : i64} : (!llvm.ptr<3>) -> i64
  return
}

// -----

func.func @descriptor_stride_of_swizzle(%s: !llvm.ptr<3>) {
  // expected-error @below {{'wgmma.descriptor' op stride_byte_offset must be a multiple of 1024, eight rows of swizzle 128B, got 512; nearest legal: 1024}}
  %0 = "wgmma.descriptor"(%s) {stride_byte_offset = 512 : i64, swizzle = "128B"} : (!llvm.ptr<3>) -> i64
  return
}

// -----

func.func @descriptor_base_without_swizzle(%s: !llvm.ptr<3>) {
  // expected-error @below {{'wgmma.descriptor' op base_offset must be 0 without a swizzle, got 1}}
  %0 = "wgmma.descriptor"(%s) {base_offset = 1 : i64} : (!llvm.ptr<3>) -> i64
  return
}

// -----

func.func @descriptor_base_range(%s: !llvm.ptr<3>) {
  // expected-error @below {{'wgmma.descriptor' op base_offset must be in 0..7, got 8}}
  %0 = "wgmma.descriptor"(%s) {base_offset = 8 : i64, swizzle = "32B"} : (!llvm.ptr<3>) -> i64
  return
}

// -----

func.func @descriptor_address(%s: !llvm.ptr) {
  // expected-error @below {{'wgmma.descriptor' op expects an address in shared memory (!llvm.ptr<3>), got !llvm.ptr}}
  %0 = "wgmma.descriptor"(%s) : (!llvm.ptr) -> i64
  return
}

// -----

func.func @descriptor_result(%s: !llvm.ptr<3>) {
  // expected-error @below {{'wgmma.descriptor' op expects to return i64, got i32}}
  %0 = "wgmma.descriptor"(%s) : (!llvm.ptr<3>) -> i32
  return
}

// -----

func.func @descriptor_attribute(%s: !llvm.ptr<3>) {
  // expected-error @below {{'wgmma.descriptor' op has no attribute 'stride': it has leading_byte_offset, stride_byte_offset, base_offset, swizzle}}
  %0 = "wgmma.descriptor"(%s) {stride = 1024 : i64} : (!llvm.ptr<3>) -> i64
  return
}

// -----

func.func @group_without_its_operand(%d: !llvm.struct<(f32, f32, f32, f32)>, %a: i64, %s: i1) {
  // expected-error @below {{'wgmma.mma_async' op expects one operand in the group inouts of 'operandSegmentSizes', got 0}}
  %0 = "wgmma.mma_async"(%d, %a, %a, %s) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32", operandSegmentSizes = array<i32: 0, 2, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

gpu.module @of_another_target [#rocdl.target<chip = "gfx942">] {
  gpu.func @fence() kernel {
    // expected-error @below {{gpu.module must have an NVVM target, got #rocdl.target<chip = "gfx942">}}
    "wgmma.fence"() : () -> ()
    gpu.return
  }
}
