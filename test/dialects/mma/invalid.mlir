// RUN: weft-opt %s --split-input-file --verify-diagnostics

func.func @unknown_shape(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'mma.sync' op has no shape m16n8k4: it is one of m16n8k8, m16n8k16; nearest legal: mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32}}
  %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k4", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @unknown_type(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{has no a_type e4m3: it is one of f16, bf16}}
  %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "e4m3", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @mixed_types(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{has no a_type f16 with shape m16n8k8, b_type bf16, c_type f32, d_type f32, a_layout row, b_layout col: it is one of bf16}}
  %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "f16", b_type = "bf16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @accumulator_type(%h: vector<2xf16>) {
  // expected-error @below {{has no c_type f16: it is one of f32}}
  %0 = "mma.sync"(%h, %h, %h, %h, %h) {shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type = "f16", d_type = "f16", operandSegmentSizes = array<i32: 2, 1, 2>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>) -> !llvm.struct<(vector<2xf16>, vector<2xf16>)>
  return
}

// -----

func.func @layout(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{has no a_layout col: it is one of row}}
  %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k8", a_layout = "col", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_75">] {
  gpu.func @chip_too_old(%h: vector<2xf16>, %f: f32) kernel {
    // expected-error @below {{needs sm_80 or later: sm_75 has no mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32; nearest legal: mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32}}
    %0 = "mma.sync"(%h, %h, %h, %h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k16", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 4, 2, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_72">] {
  gpu.func @chip_without_the_instruction(%address: !llvm.ptr<3>) kernel {
    // expected-error @below {{needs sm_75 or later: sm_72 has no form of ldmatrix}}
    %0 = "mma.ldmatrix"(%address) {num = 1 : i64} : (!llvm.ptr<3>) -> i32
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_99">] {
  gpu.func @unknown_chip(%address: !llvm.ptr<3>) kernel {
    // expected-error @below {{target knows no chip 'sm_99': it is one of sm_70,}}
    %0 = "mma.ldmatrix"(%address) {num = 1 : i64} : (!llvm.ptr<3>) -> i32
    gpu.return
  }
}

// -----

func.func @register_count(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'mma.sync' op expects 4 A registers of vector<2xf16>, got 2 of vector<2xf16>}}
  %0 = "mma.sync"(%h, %h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k16", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 2, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @register_types(%h: vector<2xf16>, %w: i32, %f: f32) {
  // expected-error @below {{expects 2 B registers of vector<2xf16>, got 2 of i32 and vector<2xf16>}}
  %0 = "mma.sync"(%h, %h, %h, %h, %h, %w, %f, %f, %f, %f) {shape = "m16n8k16", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 4, 2, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @no_c(%w: i32) {
  // expected-error @below {{expects 4 C registers of f32, got none}}
  %0 = "mma.sync"(%w, %w, %w) {shape = "m16n8k8", a_type = "bf16", b_type = "bf16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 0>} : (i32, i32, i32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @result_type(%w: i32, %f: f32) {
  // expected-error @below {{expects to return !llvm.struct<(f32, f32, f32, f32)>, got f32}}
  %0 = "mma.sync"(%w, %w, %w, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "bf16", b_type = "bf16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (i32, i32, i32, f32, f32, f32, f32) -> f32
  return
}

// -----

func.func @missing_attribute(%w: i32, %f: f32) {
  // expected-error @below {{'mma.sync' op expects the attribute 'b_type'}}
  %0 = "mma.sync"(%w, %w, %w, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "bf16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @attribute_kind(%w: i32, %f: f32) {
  // expected-error @below {{expects attribute 'shape' to be a string, got 16 : i64}}
  %0 = "mma.sync"(%w, %w, %w, %f, %f, %f, %f) {shape = 16, a_type = "bf16", b_type = "bf16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @optional_attribute_kind(%w: i32, %f: f32) {
  // expected-error @below {{expects attribute 'a_layout' to be a string, got 1 : i64}}
  %0 = "mma.sync"(%w, %w, %w, %f, %f, %f, %f) {shape = "m16n8k8", a_layout = 1, a_type = "bf16", b_type = "bf16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @misspelt_attribute(%w: i32, %f: f32) {
  // expected-error @below {{'mma.sync' op has no attribute 'layout_a': it has shape, a_type, b_type, c_type, d_type, a_layout, b_layout}}
  %0 = "mma.sync"(%w, %w, %w, %f, %f, %f, %f) {shape = "m16n8k8", layout_a = "col", a_type = "bf16", b_type = "bf16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @no_segments(%w: i32, %f: f32) {
  // expected-error @below {{expects 'operandSegmentSizes' with the number of operands in a, b, c}}
  %0 = "mma.sync"(%w, %w, %w, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "bf16", b_type = "bf16", c_type = "f32", d_type = "f32"} : (i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @segments_of_another_kind(%w: i32, %f: f32) {
  // expected-error @below {{expects 'operandSegmentSizes' to be array<i32>, got array<i64: 2, 1, 4>}}
  %0 = "mma.sync"(%w, %w, %w, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "bf16", b_type = "bf16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i64: 2, 1, 4>} : (i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @segments_that_do_not_add_up(%w: i32, %f: f32) {
  // expected-error @below {{expects 'operandSegmentSizes' of 3 groups (a, b, c) that sum to 7}}
  %0 = "mma.sync"(%w, %w, %w, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "bf16", b_type = "bf16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 2, 4>} : (i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @negative_segments(%w: i32, %f: f32) {
  // expected-error @below {{expects 'operandSegmentSizes' of 3 groups (a, b, c) that sum to 7}}
  %0 = "mma.sync"(%w, %w, %w, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "bf16", b_type = "bf16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 8, -5, 4>} : (i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @ldmatrix_count(%address: !llvm.ptr<3>) {
  // expected-error @below {{'mma.ldmatrix' op has no num 3: it is one of 1, 2, 4; nearest legal: ldmatrix.sync.aligned.m8n8.x1.shared.b16}}
  %0 = "mma.ldmatrix"(%address) {num = 3 : i64} : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32, i32)>
  return
}

// -----

func.func @ldmatrix_shape(%address: !llvm.ptr<3>) {
  // expected-error @below {{has no shape m16n16: it is one of m8n8}}
  %0 = "mma.ldmatrix"(%address) {num = 1 : i64, shape = "m16n16", trans = true, type = "b8"} : (!llvm.ptr<3>) -> i32
  return
}

// -----

func.func @ldmatrix_address(%address: !llvm.ptr) {
  // expected-error @below {{expects an address in shared memory (!llvm.ptr<3>), got !llvm.ptr}}
  %0 = "mma.ldmatrix"(%address) {num = 1 : i64} : (!llvm.ptr) -> i32
  return
}

// -----

func.func @ldmatrix_result(%address: !llvm.ptr<3>) {
  // expected-error @below {{expects to return !llvm.struct<(i32, i32)>, got i32}}
  %0 = "mma.ldmatrix"(%address) {num = 2 : i64} : (!llvm.ptr<3>) -> i32
  return
}

// -----

func.func @ldmatrix_without_a_count(%address: !llvm.ptr<3>) {
  // expected-error @below {{expects the attribute 'num'}}
  %0 = "mma.ldmatrix"(%address) : (!llvm.ptr<3>) -> i32
  return
}

// -----

func.func @ldmatrix_trans_kind(%address: !llvm.ptr<3>) {
  // expected-error @below {{expects attribute 'trans' to be true or false, got 1 : i64}}
  %0 = "mma.ldmatrix"(%address) {num = 1 : i64, trans = 1 : i64} : (!llvm.ptr<3>) -> i32
  return
}

// -----

func.func @ldmatrix_results(%address: !llvm.ptr<3>) {
  // expected-error @below {{'mma.ldmatrix' op expects 1 result (d), got 2}}
  %0:2 = "mma.ldmatrix"(%address) {num = 2 : i64} : (!llvm.ptr<3>) -> (i32, i32)
  return
}

// -----

func.func @ldmatrix_operands(%address: !llvm.ptr<3>) {
  // expected-error @below {{'mma.ldmatrix' op expects 1 operand (address), got 0}}
  %0 = "mma.ldmatrix"() {num = 1 : i64} : () -> i32
  return
}
