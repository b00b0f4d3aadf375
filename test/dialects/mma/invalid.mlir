// RUN: weft-opt %s --split-input-file --verify-diagnostics --lower-mma

func.func @unknown_shape(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'mma.sync' op shape must be one of m8n8k4, m16n8k8, m16n8k16, m16n8k4, m8n8k16, m16n8k32, m8n8k32, m16n8k64, m8n8k128, m16n8k128, m16n8k256, got m16n8k2}}
  %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k2", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @unknown_type(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'mma.sync' op a_type must be one of f16, bf16, tf32, f64, s8, u8, s4, u4, b1, e4m3, e5m2, e3m2, e2m3, e2m1, got f32}}
  %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "f32", b_type = "f32", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @mixed_types(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'mma.sync' op A of f16 needs B of f16, got bf16; nearest legal: mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32, mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32, mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32}}
  %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "f16", b_type = "bf16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @tf32_shape(%w: i32, %f: f32) {
  // expected-error @below {{'mma.sync' op shape must be m16n8k4 or m16n8k8 with a_type tf32, b_type tf32, c_type f32, d_type f32, got m16n8k16}}
  %0 = "mma.sync"(%w, %w, %w, %w, %w, %w, %f, %f, %f, %f) {shape = "m16n8k16", a_type = "tf32", b_type = "tf32", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 4, 2, 4>} : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @nibble_shape(%w: i32) {
  // expected-error @below {{'mma.sync' op shape must be one of m8n8k4, m16n8k8, m16n8k16, m16n8k4, m8n8k16, m16n8k32, m8n8k32, m16n8k64, m8n8k128, m16n8k128, m16n8k256, got m8n8k64}}
  %0 = "mma.sync"(%w, %w, %w, %w) {shape = "m8n8k64", a_type = "s4", b_type = "s4", c_type = "s32", d_type = "s32", operandSegmentSizes = array<i32: 1, 1, 2>} : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
  return
}

// -----

func.func @accumulator_type(%h: vector<2xf16>) {
  // expected-error @below {{'mma.sync' op f16 inputs need D and C of f16 and f16 or f32 and f16 or f32 and f32, got f16 and f32}}
  %0 = "mma.sync"(%h, %h, %h, %h, %h) {shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f16", operandSegmentSizes = array<i32: 2, 1, 2>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>) -> !llvm.struct<(vector<2xf16>, vector<2xf16>)>
  return
}

// -----

func.func @bf16_accumulates_in_f32(%w: i32, %f: f32) {
  // expected-error @below {{'mma.sync' op bf16 inputs need D and C of f32 and f32, got bf16 and f32}}
  %0 = "mma.sync"(%w, %w, %w, %w, %w, %w, %f, %f, %f, %f) {shape = "m16n8k16", a_type = "bf16", b_type = "bf16", c_type = "f32", d_type = "bf16", operandSegmentSizes = array<i32: 4, 2, 4>} : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @layout(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'mma.sync' op layouts must be row.col, except for m8n8k4 of f16, got col.col}}
  %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", a_layout = "col", operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @satfinite(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'mma.sync' op satfinite needs s8, u8, s4 or u4 inputs, got f16 and f16}}
  %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", satfinite = true, operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @bits_without_operation(%w: i32) {
  // expected-error @below {{'mma.sync' op b1 needs a bit operation, xor.popc or and.popc, got none}}
  %0 = "mma.sync"(%w, %w, %w, %w) {shape = "m8n8k128", a_type = "b1", b_type = "b1", c_type = "s32", d_type = "s32", operandSegmentSizes = array<i32: 1, 1, 2>} : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
  return
}

// -----

func.func @bit_operation_of_nibbles(%w: i32) {
  // expected-error @below {{'mma.sync' op xor.popc needs A and B of b1, got s4 and s4; nearest legal: mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32, mma.sync.aligned.m8n8k32.row.col.satfinite.s32.s4.s4.s32, mma.sync.aligned.m8n8k32.row.col.s32.s4.u4.s32}}
  %0 = "mma.sync"(%w, %w, %w, %w) {shape = "m8n8k32", a_type = "s4", b_type = "s4", c_type = "s32", d_type = "s32", bit_op = "xor.popc", operandSegmentSizes = array<i32: 1, 1, 2>} : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
  return
}

// -----

func.func @bit_operation(%w: i32) {
  // expected-error @below {{'mma.sync' op bit_op must be one of none, xor.popc, and.popc, got or.popc}}
  %0 = "mma.sync"(%w, %w, %w, %w) {shape = "m8n8k128", a_type = "b1", b_type = "b1", c_type = "s32", d_type = "s32", bit_op = "or.popc", operandSegmentSizes = array<i32: 1, 1, 2>} : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
  return
}

// -----

func.func @fp6_without_a_kind(%w: i32, %f: f32) {
  // expected-error @below {{'mma.sync' op e3m2 needs kind f8f6f4, got none}}
  %0 = "mma.sync"(%w, %w, %w, %w, %w, %w, %f, %f, %f, %f) {shape = "m16n8k32", a_type = "e3m2", b_type = "e2m1", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 4, 2, 4>} : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @kind_of_f16(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'mma.sync' op kind f8f6f4 needs inputs of e4m3, e5m2, e3m2, e2m3, e2m1, got f16 and f16}}
  %0 = "mma.sync"(%h, %h, %h, %h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k16", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", kind = "f8f6f4", operandSegmentSizes = array<i32: 4, 2, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_75">] {
  gpu.func @chip_too_old(%h: vector<2xf16>, %f: f32) kernel {
    // expected-error @below {{'mma.sync' op needs sm_80 or later: sm_75 has no mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32}}
    %0 = "mma.sync"(%h, %h, %h, %h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k16", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 4, 2, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_80">] {
  gpu.func @doubles_on_ampere(%d: f64) kernel {
    // expected-error @below {{'mma.sync' op needs sm_90 or later: sm_80 has no mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64}}
    %0 = "mma.sync"(%d, %d, %d, %d, %d, %d, %d) {shape = "m16n8k4", a_type = "f64", b_type = "f64", c_type = "f64", d_type = "f64", operandSegmentSizes = array<i32: 2, 1, 4>} : (f64, f64, f64, f64, f64, f64, f64) -> !llvm.struct<(f64, f64, f64, f64)>
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_75">] {
  gpu.func @and_popc_on_turing(%w: i32) kernel {
    // expected-error @below {{'mma.sync' op needs sm_80 or later: sm_75 has no mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.and.popc}}
    %0 = "mma.sync"(%w, %w, %w, %w) {shape = "m8n8k128", a_type = "b1", b_type = "b1", c_type = "s32", d_type = "s32", bit_op = "and.popc", operandSegmentSizes = array<i32: 1, 1, 2>} : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_86">] {
  gpu.func @fp8_on_ampere(%w: i32, %h: vector<2xf16>) kernel {
    // expected-error @below {{'mma.sync' op needs sm_89 or later: sm_86 has no mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e5m2.f16}}
    %0 = "mma.sync"(%w, %w, %w, %w, %w, %w, %h, %h) {shape = "m16n8k32", a_type = "e4m3", b_type = "e5m2", c_type = "f16", d_type = "f16", operandSegmentSizes = array<i32: 4, 2, 2>} : (i32, i32, i32, i32, i32, i32, vector<2xf16>, vector<2xf16>) -> !llvm.struct<(vector<2xf16>, vector<2xf16>)>
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_120">] {
  gpu.func @kind_on_sm_120_without_a_variant(%w: i32, %f: f32) kernel {
    // expected-error @below {{'mma.sync' op needs sm_120f, sm_120a, sm_121f, sm_121a: sm_120 has no mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32}}
    %0 = "mma.sync"(%w, %w, %w, %w, %w, %w, %f, %f, %f, %f) {shape = "m16n8k32", a_type = "e3m2", b_type = "e2m1", c_type = "f32", d_type = "f32", kind = "f8f6f4", operandSegmentSizes = array<i32: 4, 2, 4>} : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @kind_on_sm_100a(%w: i32, %f: f32) kernel {
    // expected-error @below {{'mma.sync' op needs sm_120f, sm_120a, sm_121f, sm_121a: sm_100a has no mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32}}
    %0 = "mma.sync"(%w, %w, %w, %w, %w, %w, %f, %f, %f, %f) {shape = "m16n8k32", a_type = "e3m2", b_type = "e2m1", c_type = "f32", d_type = "f32", kind = "f8f6f4", operandSegmentSizes = array<i32: 4, 2, 4>} : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_99">] {
  gpu.func @unknown_chip(%s: !llvm.ptr<3>) kernel {
    // expected-error @below {{'mma.ldmatrix' op target must be a known chip (sm_70, sm_72, sm_75, sm_80, sm_86, sm_87, sm_88, sm_89, sm_90, sm_90a, sm_100, sm_100f, sm_100a, sm_103, sm_103f, sm_103a, sm_107, sm_107f, sm_107a, sm_110, sm_110f, sm_110a, sm_120, sm_120f, sm_120a, sm_121, sm_121f, sm_121a), got 'sm_99'}}
    %0 = "mma.ldmatrix"(%s) {shape = "m8n8", num = 1 : i64} : (!llvm.ptr<3>) -> i32
    gpu.return
  }
}

// -----

func.func @register_count(%w: i32, %f: f32) {
  // expected-error @below {{'mma.sync' op expects 4 A registers of i32, got 2 of i32}}
  %0 = "mma.sync"(%w, %w, %w, %w, %f, %f, %f, %f) {shape = "m16n8k16", a_type = "bf16", b_type = "bf16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 2, 4>} : (i32, i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @register_types(%h: vector<2xf16>, %w: i32, %f: f32) {
  // expected-error @below {{'mma.sync' op expects 2 B registers of vector<2xf16>, got 2 of i32 and vector<2xf16>}}
  %0 = "mma.sync"(%h, %h, %h, %h, %h, %w, %f, %f, %f, %f) {shape = "m16n8k16", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 4, 2, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @no_c(%w: i32) {
  // expected-error @below {{'mma.sync' op expects 4 C registers of f32, got none}}
  %0 = "mma.sync"(%w, %w, %w, %w, %w, %w) {shape = "m16n8k16", a_type = "bf16", b_type = "bf16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 4, 2, 0>} : (i32, i32, i32, i32, i32, i32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @result_type(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'mma.sync' op expects to return !llvm.struct<(f32, f32, f32, f32)>, got f32}}
  %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> f32
  return
}

// -----

func.func @missing_attribute(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'mma.sync' op expects the attribute 'b_type'}}
  %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @attribute_kind(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'mma.sync' op expects attribute 'shape' to be a string, got 16 : i64}}
  %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = 16 : i64, a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @optional_attribute_kind(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'mma.sync' op expects attribute 'a_layout' to be a string, got 1 : i64}}
  %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", a_layout = 1 : i64, operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @unknown_attribute(%w: i32) {
  // expected-error @below {{'mma.sync' op has no attribute 'saturate': it has shape, a_type, b_type, c_type, d_type, a_layout, b_layout, satfinite, bit_op, kind}}
  %0 = "mma.sync"(%w, %w, %w, %w) {shape = "m8n8k16", a_type = "s8", b_type = "u8", c_type = "s32", d_type = "s32", saturate = true, operandSegmentSizes = array<i32: 1, 1, 2>} : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
  return
}

// -----

func.func @no_segments(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'mma.sync' op expects 'operandSegmentSizes' with the number of operands in a, b, c}}
  %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32"} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @segments_of_another_kind(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'mma.sync' op expects 'operandSegmentSizes' to be array<i32>, got array<i64: 2, 1, 4>}}
  %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i64: 2, 1, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @segments_that_do_not_add_up(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'mma.sync' op expects 'operandSegmentSizes' of 3 groups (a, b, c) that sum to 7, got array<i32: 2, 2, 4>}}
  %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 2, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @negative_segments(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'mma.sync' op expects 'operandSegmentSizes' of 3 groups (a, b, c) that sum to 7, got array<i32: 8, -5, 4>}}
  %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 8, -5, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @sparse_shape(%h: vector<2xf16>, %f: f32, %w: i32) {
  // expected-error @below {{'mma.sp_sync' op shape must be m16n8k16 or m16n8k32 with a_type f16, b_type f16, c_type f32, d_type f32, got m16n8k8}}
  %0 = "mma.sp_sync"(%h, %h, %h, %h, %f, %f, %f, %f, %w) {shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 2, 4, 1>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32, i32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @sparse_fp8_with_f16(%w: i32, %h: vector<2xf16>) {
  // expected-error @below {{'mma.sp_sync' op e4m3 with f16 accumulators needs ordered metadata (sp::ordered_metadata), got sp}}
  %0 = "mma.sp_sync"(%w, %w, %w, %w, %w, %w, %w, %w, %h, %h, %w) {shape = "m16n8k64", a_type = "e4m3", b_type = "e4m3", c_type = "f16", d_type = "f16", ordered = false, operandSegmentSizes = array<i32: 4, 4, 2, 1>} : (i32, i32, i32, i32, i32, i32, i32, i32, vector<2xf16>, vector<2xf16>, i32) -> !llvm.struct<(vector<2xf16>, vector<2xf16>)>
  return
}

// -----

func.func @sparse_kind_needs_ordered_metadata(%w: i32, %h: vector<2xf16>) {
  // expected-error @below {{'mma.sp_sync' op kind f8f6f4 needs ordered metadata (sp::ordered_metadata), got sp}}
  %0 = "mma.sp_sync"(%w, %w, %w, %w, %w, %w, %w, %w, %h, %h, %w) {shape = "m16n8k64", a_type = "e4m3", b_type = "e4m3", c_type = "f16", d_type = "f16", kind = "f8f6f4", ordered = false, operandSegmentSizes = array<i32: 4, 4, 2, 1>} : (i32, i32, i32, i32, i32, i32, i32, i32, vector<2xf16>, vector<2xf16>, i32) -> !llvm.struct<(vector<2xf16>, vector<2xf16>)>
  return
}

// -----

func.func @sparse_layout(%h: vector<2xf16>, %f: f32, %w: i32) {
  // expected-error @below {{'mma.sp_sync' op layouts must be row.col, got row.row}}
  %0 = "mma.sp_sync"(%h, %h, %h, %h, %f, %f, %f, %f, %w) {shape = "m16n8k16", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", b_layout = "row", operandSegmentSizes = array<i32: 2, 2, 4, 1>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32, i32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @sparse_f64(%h: vector<2xf16>, %f: f32, %w: i32) {
  // expected-error @below {{'mma.sp_sync' op a_type must be one of f16, bf16, tf32, s8, u8, s4, u4, e4m3, e5m2, e3m2, e2m3, e2m1, got f64}}
  %0 = "mma.sp_sync"(%h, %h, %h, %h, %f, %f, %f, %f, %w) {shape = "m16n8k16", a_type = "f64", b_type = "f64", c_type = "f64", d_type = "f64", operandSegmentSizes = array<i32: 2, 2, 4, 1>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32, i32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @sparse_selector(%h: vector<2xf16>, %f: f32, %w: i32) {
  // expected-error @below {{'mma.sp_sync' op selector must be in 0..3, got 4}}
  %0 = "mma.sp_sync"(%h, %h, %h, %h, %f, %f, %f, %f, %w) {shape = "m16n8k16", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", selector = 4 : i64, operandSegmentSizes = array<i32: 2, 2, 4, 1>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32, i32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @sparse_selector_of_bytes(%w: i32, %f: f32) {
  // expected-error @below {{'mma.sp_sync' op selector must be 0, got 1}}
  %0 = "mma.sp_sync"(%w, %w, %w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %w) {shape = "m16n8k64", a_type = "e4m3", b_type = "e4m3", c_type = "f32", d_type = "f32", selector = 1 : i64, operandSegmentSizes = array<i32: 4, 4, 4, 1>} : (i32, i32, i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @sparse_selector_kind(%h: vector<2xf16>, %f: f32, %w: i32) {
  // expected-error @below {{'mma.sp_sync' op expects attribute 'selector' to be an integer, got "0"}}
  %0 = "mma.sp_sync"(%h, %h, %h, %h, %f, %f, %f, %f, %w) {shape = "m16n8k16", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", selector = "0", operandSegmentSizes = array<i32: 2, 2, 4, 1>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32, i32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @sparse_metadata(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'mma.sp_sync' op expects metadata of type i32, got vector<2xf16>}}
  %0 = "mma.sp_sync"(%h, %h, %h, %h, %f, %f, %f, %f, %h) {shape = "m16n8k16", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 2, 4, 1>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32, vector<2xf16>) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @sparse_a_is_stored_half(%h: vector<2xf16>, %f: f32, %w: i32) {
  // expected-error @below {{'mma.sp_sync' op expects 2 A registers of vector<2xf16>, got 4 of vector<2xf16>}}
  %0 = "mma.sp_sync"(%h, %h, %h, %h, %h, %h, %f, %f, %f, %f, %w) {shape = "m16n8k16", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 4, 2, 4, 1>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32, i32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_75">] {
  gpu.func @sparse_on_turing(%h: vector<2xf16>, %f: f32, %w: i32) kernel {
    // expected-error @below {{'mma.sp_sync' op needs sm_80 or later: sm_75 has no form of mma.sp}}
    %0 = "mma.sp_sync"(%h, %h, %h, %h, %f, %f, %f, %f, %w) {shape = "m16n8k16", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 2, 4, 1>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32, i32) -> !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}

// -----

func.func @scale_kind(%w: i32, %f: f32, %i: i16) {
  // expected-error @below {{'mma.block_scale' op kind must be one of mxf8f6f4, mxf4, mxf4nvf4, got f8f6f4}}
  %0 = "mma.block_scale"(%w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %w, %i, %i, %w, %i, %i) {shape = "m16n8k32", kind = "f8f6f4", scale_vec = "1X", a_type = "e4m3", b_type = "e2m1", scale_type = "ue8m0", operandSegmentSizes = array<i32: 4, 2, 4, 1, 1, 1, 1, 1, 1>} : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32, i16, i16, i32, i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @scale_vec_of_mxf8f6f4(%w: i32, %f: f32, %i: i16) {
  // expected-error @below {{'mma.block_scale' op scale_vec must be none or 1X for kind mxf8f6f4, got 2X}}
  %0 = "mma.block_scale"(%w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %w, %i, %i, %w, %i, %i) {shape = "m16n8k32", kind = "mxf8f6f4", scale_vec = "2X", a_type = "e4m3", b_type = "e2m1", scale_type = "ue8m0", operandSegmentSizes = array<i32: 4, 2, 4, 1, 1, 1, 1, 1, 1>} : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32, i16, i16, i32, i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @scale_vec_of_mxf4nvf4(%w: i32, %f: f32, %i: i16) {
  // expected-error @below {{'mma.block_scale' op scale_vec must be 2X or 4X for kind mxf4nvf4, got none}}
  %0 = "mma.block_scale"(%w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %w, %i, %i, %w, %i, %i) {shape = "m16n8k64", kind = "mxf4nvf4", scale_vec = "", a_type = "e2m1", b_type = "e2m1", scale_type = "ue4m3", operandSegmentSizes = array<i32: 4, 2, 4, 1, 1, 1, 1, 1, 1>} : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32, i16, i16, i32, i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @scale_type(%w: i32, %f: f32, %i: i16) {
  // expected-error @below {{'mma.block_scale' op scale_type must be ue8m0 for kind mxf8f6f4 with scale_vec 1X, got ue4m3}}
  %0 = "mma.block_scale"(%w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %w, %i, %i, %w, %i, %i) {shape = "m16n8k32", kind = "mxf8f6f4", scale_vec = "1X", a_type = "e4m3", b_type = "e2m1", scale_type = "ue4m3", operandSegmentSizes = array<i32: 4, 2, 4, 1, 1, 1, 1, 1, 1>} : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32, i16, i16, i32, i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @scale_input(%w: i32, %f: f32, %i: i16) {
  // expected-error @below {{'mma.block_scale' op a_type must be e2m1 with shape m16n8k64, kind mxf4nvf4, scale_vec 4X, b_type e2m1, scale_type ue4m3, got e4m3}}
  %0 = "mma.block_scale"(%w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %w, %i, %i, %w, %i, %i) {shape = "m16n8k64", kind = "mxf4nvf4", scale_vec = "4X", a_type = "e4m3", b_type = "e2m1", scale_type = "ue4m3", operandSegmentSizes = array<i32: 4, 2, 4, 1, 1, 1, 1, 1, 1>} : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32, i16, i16, i32, i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @scale_without_a_vector_size(%w: i32, %f: f32, %i: i16) {
  // expected-error @below {{'mma.block_scale' op expects the attribute 'scale_vec': one of none, 1X, 2X, 4X}}
  %0 = "mma.block_scale"(%w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %w, %i, %i, %w, %i, %i) {shape = "m16n8k32", kind = "mxf8f6f4", a_type = "e4m3", b_type = "e2m1", scale_type = "ue8m0", operandSegmentSizes = array<i32: 4, 2, 4, 1, 1, 1, 1, 1, 1>} : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32, i16, i16, i32, i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @scale_register(%w: i32, %f: f32, %i: i16) {
  // expected-error @below {{'mma.block_scale' op expects scale_a of type i32, got i16}}
  %0 = "mma.block_scale"(%w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %i, %i, %i, %w, %i, %i) {shape = "m16n8k32", kind = "mxf8f6f4", scale_vec = "1X", a_type = "e4m3", b_type = "e2m1", scale_type = "ue8m0", operandSegmentSizes = array<i32: 4, 2, 4, 1, 1, 1, 1, 1, 1>} : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i16, i16, i16, i32, i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @scale_byte_id(%w: i32, %f: f32, %i: i16) {
  // expected-error @below {{'mma.block_scale' op expects byte_id_a of type i16, got i32}}
  %0 = "mma.block_scale"(%w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %w, %w, %i, %w, %i, %i) {shape = "m16n8k32", kind = "mxf8f6f4", scale_vec = "1X", a_type = "e4m3", b_type = "e2m1", scale_type = "ue8m0", operandSegmentSizes = array<i32: 4, 2, 4, 1, 1, 1, 1, 1, 1>} : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32, i32, i16, i32, i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @scale_thread_id(%w: i32, %f: f32, %i: i16) {
  // expected-error @below {{'mma.block_scale' op expects thread_id_b of type i16, got i32}}
  %0 = "mma.block_scale"(%w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %w, %i, %i, %w, %i, %w) {shape = "m16n8k32", kind = "mxf8f6f4", scale_vec = "1X", a_type = "e4m3", b_type = "e2m1", scale_type = "ue8m0", operandSegmentSizes = array<i32: 4, 2, 4, 1, 1, 1, 1, 1, 1>} : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32, i16, i16, i32, i16, i32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @scale_constant_byte_id(%w: i32, %f: f32, %i: i16) {
  %c = arith.constant 1 : i16
  // expected-error @below {{'mma.block_scale' op byte_id_a must be 0, got 1}}
  %0 = "mma.block_scale"(%w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %w, %c, %i, %w, %i, %i) {shape = "m16n8k64", kind = "mxf4nvf4", scale_vec = "4X", a_type = "e2m1", b_type = "e2m1", scale_type = "ue4m3", operandSegmentSizes = array<i32: 4, 2, 4, 1, 1, 1, 1, 1, 1>} : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32, i16, i16, i32, i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_120">] {
  gpu.func @scale_on_sm_120_without_a_variant(%w: i32, %f: f32, %i: i16) kernel {
    // expected-error @below {{'mma.block_scale' op needs sm_120f, sm_120a, sm_121f, sm_121a: sm_120 has no form of mma.block_scale}}
    %0 = "mma.block_scale"(%w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %w, %i, %i, %w, %i, %i) {shape = "m16n8k32", kind = "mxf8f6f4", scale_vec = "1X", a_type = "e4m3", b_type = "e2m1", scale_type = "ue8m0", operandSegmentSizes = array<i32: 4, 2, 4, 1, 1, 1, 1, 1, 1>} : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32, i16, i16, i32, i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_120f">] {
  gpu.func @sparse_fp4_for_one_chip(%w: i32, %f: f32, %i: i16) kernel {
    // expected-error @below {{'mma.sp_block_scale' op needs sm_120a, sm_121a: sm_120f has no mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0}}
    %0 = "mma.sp_block_scale"(%w, %w, %w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %w, %w, %i, %i, %w, %i, %i) {shape = "m16n8k128", kind = "mxf4", scale_vec = "2X", a_type = "e2m1", b_type = "e2m1", scale_type = "ue8m0", operandSegmentSizes = array<i32: 4, 4, 4, 1, 1, 1, 1, 1, 1, 1>} : (i32, i32, i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32, i32, i16, i16, i32, i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}

// -----

func.func @sparse_scale_shape(%w: i32, %f: f32, %i: i16) {
  // expected-error @below {{'mma.sp_block_scale' op shape must be m16n8k64 or m16n8k128, got m16n8k32}}
  %0 = "mma.sp_block_scale"(%w, %w, %w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %w, %w, %i, %i, %w, %i, %i) {shape = "m16n8k32", kind = "mxf8f6f4", scale_vec = "", a_type = "e4m3", b_type = "e4m3", scale_type = "ue8m0", operandSegmentSizes = array<i32: 4, 4, 4, 1, 1, 1, 1, 1, 1, 1>} : (i32, i32, i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32, i32, i16, i16, i32, i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @sparse_scale_metadata_order(%w: i32, %f: f32, %i: i16) {
  // expected-error @below {{'mma.sp_block_scale' op ordered must be true, got false}}
  %0 = "mma.sp_block_scale"(%w, %w, %w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %w, %w, %i, %i, %w, %i, %i) {shape = "m16n8k64", kind = "mxf8f6f4", scale_vec = "", a_type = "e4m3", b_type = "e4m3", scale_type = "ue8m0", ordered = false, operandSegmentSizes = array<i32: 4, 4, 4, 1, 1, 1, 1, 1, 1, 1>} : (i32, i32, i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32, i32, i16, i16, i32, i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @sparse_scale_selector(%w: i32, %f: f32, %i: i16) {
  // expected-error @below {{'mma.sp_block_scale' op selector must be 0, got 1}}
  %0 = "mma.sp_block_scale"(%w, %w, %w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %w, %w, %i, %i, %w, %i, %i) {shape = "m16n8k64", kind = "mxf8f6f4", scale_vec = "", a_type = "e4m3", b_type = "e4m3", scale_type = "ue8m0", selector = 1 : i64, operandSegmentSizes = array<i32: 4, 4, 4, 1, 1, 1, 1, 1, 1, 1>} : (i32, i32, i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32, i32, i16, i16, i32, i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_72">] {
  gpu.func @chip_without_the_instruction(%s: !llvm.ptr<3>) kernel {
    // expected-error @below {{'mma.ldmatrix' op needs sm_75 or later: sm_72 has no form of ldmatrix}}
    %0 = "mma.ldmatrix"(%s) {shape = "m8n8", num = 1 : i64} : (!llvm.ptr<3>) -> i32
    gpu.return
  }
}

// -----

func.func @ldmatrix_count(%s: !llvm.ptr<3>) {
  // expected-error @below {{'mma.ldmatrix' op num must be one of 1, 2, 4, got 3; nearest legal: ldmatrix.sync.aligned.m8n8.x2.shared.b16, ldmatrix.sync.aligned.m8n8.x4.shared.b16, ldmatrix.sync.aligned.m8n8.x1.shared.b16}}
  %0 = "mma.ldmatrix"(%s) {shape = "m8n8", num = 3 : i64} : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32, i32)>
  return
}

// -----

func.func @ldmatrix_shape(%s: !llvm.ptr<3>) {
  // expected-error @below {{'mma.ldmatrix' op shape must be one of m8n8, m8n16, m16n16, got m16n8; nearest legal: ldmatrix.sync.aligned.m8n8.x1.shared.b16, ldmatrix.sync.aligned.m8n8.x1.b16, ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b6x16_p32}}
  %0 = "mma.ldmatrix"(%s) {shape = "m16n8", num = 1 : i64} : (!llvm.ptr<3>) -> i32
  return
}

// -----

func.func @ldmatrix_bytes_are_transposed(%s: !llvm.ptr<3>) {
  // expected-error @below {{'mma.ldmatrix' op trans must be true with shape m16n16, num 1, type b8, got false}}
  %0 = "mma.ldmatrix"(%s) {shape = "m16n16", num = 1 : i64, trans = false, type = "b8"} : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32)>
  return
}

// -----

func.func @ldmatrix_type(%s: !llvm.ptr<3>) {
  // expected-error @below {{'mma.ldmatrix' op type must be one of b16, b8x16.b6x16_p32, b8x16.b4x16_p64, b8, got b32; nearest legal: ldmatrix.sync.aligned.m8n8.x1.shared.b16, ldmatrix.sync.aligned.m8n8.x1.b16, ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16}}
  %0 = "mma.ldmatrix"(%s) {shape = "m8n8", num = 1 : i64, type = "b32"} : (!llvm.ptr<3>) -> i32
  return
}

// -----

func.func @ldmatrix_type_of_shape(%s: !llvm.ptr<3>) {
  // expected-error @below {{'mma.ldmatrix' op type must be b16 with shape m8n8, num 1, trans false, got b8; nearest legal: ldmatrix.sync.aligned.m8n8.x1.shared.b16, ldmatrix.sync.aligned.m8n8.x1.b16, ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16}}
  %0 = "mma.ldmatrix"(%s) {shape = "m8n8", num = 1 : i64, type = "b8"} : (!llvm.ptr<3>) -> i32
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  gpu.func @ldmatrix_bytes_on_hopper(%s: !llvm.ptr<3>) kernel {
    // expected-error @below {{'mma.ldmatrix' op needs sm_100f, sm_100a, sm_103f, sm_103a, sm_107f, sm_107a, sm_110f, sm_110a, sm_120f, sm_120a, sm_121f, sm_121a: sm_90a has no ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8}}
    %0 = "mma.ldmatrix"(%s) {shape = "m16n16", num = 1 : i64, trans = true, type = "b8"} : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32)>
    gpu.return
  }
}

// -----

func.func @ldmatrix_address(%g: !llvm.ptr<1>) {
  // expected-error @below {{'mma.ldmatrix' op expects address of type !llvm.ptr<3> or !llvm.ptr, got !llvm.ptr<1>}}
  %0 = "mma.ldmatrix"(%g) {shape = "m8n8", num = 1 : i64} : (!llvm.ptr<1>) -> i32
  return
}

// -----

func.func @ldmatrix_result(%s: !llvm.ptr<3>) {
  // expected-error @below {{'mma.ldmatrix' op expects to return !llvm.struct<(i32, i32)>, got i32}}
  %0 = "mma.ldmatrix"(%s) {shape = "m8n8", num = 2 : i64} : (!llvm.ptr<3>) -> i32
  return
}

// -----

func.func @ldmatrix_without_a_count(%s: !llvm.ptr<3>) {
  // expected-error @below {{'mma.ldmatrix' op expects the attribute 'num'}}
  %0 = "mma.ldmatrix"(%s) {shape = "m8n8"} : (!llvm.ptr<3>) -> i32
  return
}

// -----

func.func @ldmatrix_trans_kind(%s: !llvm.ptr<3>) {
  // expected-error @below {{'mma.ldmatrix' op expects attribute 'trans' to be true or false, got 1 : i64}}
  %0 = "mma.ldmatrix"(%s) {shape = "m8n8", num = 1 : i64, trans = 1 : i64} : (!llvm.ptr<3>) -> i32
  return
}

// -----

func.func @ldmatrix_results(%s: !llvm.ptr<3>) {
  // expected-error @below {{'mma.ldmatrix' op expects 1 result (d), got 2}}
  %0:2 = "mma.ldmatrix"(%s) {shape = "m8n8", num = 2 : i64} : (!llvm.ptr<3>) -> (i32, i32)
  return
}

// -----

func.func @ldmatrix_operands() {
  // expected-error @below {{'mma.ldmatrix' op expects 1 operand (address), got 0}}
  %0 = "mma.ldmatrix"() {shape = "m8n8", num = 1 : i64} : () -> i32
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_80">] {
  gpu.func @stmatrix_on_ampere(%s: !llvm.ptr<3>, %w: i32) kernel {
    // expected-error @below {{'mma.stmatrix' op needs sm_90 or later: sm_80 has no form of stmatrix}}
    "mma.stmatrix"(%s, %w, %w) {shape = "m8n8", num = 2 : i64} : (!llvm.ptr<3>, i32, i32) -> ()
    gpu.return
  }
}

// -----

func.func @stmatrix_registers(%s: !llvm.ptr<3>, %w: i32) {
  // expected-error @below {{'mma.stmatrix' op expects 2 A registers of i32, got 1 of i32}}
  "mma.stmatrix"(%s, %w) {shape = "m8n8", num = 2 : i64} : (!llvm.ptr<3>, i32) -> ()
  return
}

// -----

func.func @stmatrix_register_type(%s: !llvm.ptr<3>, %f: f32) {
  // expected-error @below {{'mma.stmatrix' op expects 2 A registers of i32, got 2 of f32}}
  "mma.stmatrix"(%s, %f, %f) {shape = "m8n8", num = 2 : i64} : (!llvm.ptr<3>, f32, f32) -> ()
  return
}

// -----

func.func @stmatrix_shape(%s: !llvm.ptr<3>, %w: i32) {
  // expected-error @below {{'mma.stmatrix' op shape must be m8n8 or m16n8, got m16n16; nearest legal: stmatrix.sync.aligned.m8n8.x2.shared.b16, stmatrix.sync.aligned.m8n8.x2.b16, stmatrix.sync.aligned.m8n8.x2.trans.shared.b16}}
  "mma.stmatrix"(%s, %w, %w) {shape = "m16n16", num = 2 : i64} : (!llvm.ptr<3>, i32, i32) -> ()
  return
}

// -----

func.func @stmatrix_bytes_are_transposed(%s: !llvm.ptr<3>, %w: i32) {
  // expected-error @below {{'mma.stmatrix' op trans must be true with shape m16n8, num 2, type b8, got false}}
  "mma.stmatrix"(%s, %w, %w) {shape = "m16n8", num = 2 : i64, trans = false, type = "b8"} : (!llvm.ptr<3>, i32, i32) -> ()
  return
}

// -----

func.func @movmatrix_is_transposed(%w: i32) {
  // expected-error @below {{'mma.movmatrix' op trans must be true, got false; nearest legal: movmatrix.sync.aligned.m8n8.trans.b16}}
  %0 = "mma.movmatrix"(%w) {trans = false} : (i32) -> i32
  return
}

// -----

func.func @movmatrix_type(%w: i32) {
  // expected-error @below {{'mma.movmatrix' op type must be b16, got b8; nearest legal: movmatrix.sync.aligned.m8n8.trans.b16}}
  %0 = "mma.movmatrix"(%w) {type = "b8"} : (i32) -> i32
  return
}

// -----

func.func @movmatrix_register(%h: vector<2xf16>) {
  // expected-error @below {{'mma.movmatrix' op expects a of type i32, got vector<2xf16>}}
  %0 = "mma.movmatrix"(%h) : (vector<2xf16>) -> i32
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_72">] {
  gpu.func @movmatrix_on_xavier(%w: i32) kernel {
    // expected-error @below {{'mma.movmatrix' op needs sm_75 or later: sm_72 has no form of movmatrix}}
    %0 = "mma.movmatrix"(%w) : (i32) -> i32
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @some_lanes(%w: i32, %pointer: !llvm.ptr<3>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %thread = gpu.thread_id x
    %c32 = arith.constant 32 : index
    %c40 = arith.constant 40 : index
    %whole_warps = arith.cmpi ult, %thread, %c32 : index
    scf.if %whole_warps {
      %0 = "mma.movmatrix"(%w) : (i32) -> i32
    }
    %lanes = arith.cmpi ult, %thread, %c40 : index
    scf.if %lanes {
      // expected-error @below {{'mma.ldmatrix' op expects all 32 lanes of the warp to reach it together, but 'scf.if' depends on the lane}}
      %0 = "mma.ldmatrix"(%pointer) {num = 1 : i64, shape = "m8n8"} : (!llvm.ptr<3>) -> i32
    }
    gpu.return
  }
}
