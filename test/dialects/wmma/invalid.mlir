// RUN: weft-opt %s --split-input-file --verify-diagnostics

func.func @load_unknown_shape(%p: !llvm.ptr) {
  // expected-error @below {{'wmma.load' op shape must be one of m16n16k16, m8n32k16, m32n8k16, m16n16k8, m8n8k32, m8n8k128, got m16n8k16}}
  %0 = "wmma.load"(%p) {shape = "m16n8k16", fragment = "a", type = "f16"} : (!llvm.ptr) -> !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  return
}

// -----

func.func @load_tf32_shape(%p: !llvm.ptr) {
  // expected-error @below {{'wmma.load' op shape must be one of m16n16k16, m8n32k16, m32n8k16, m16n16k8, m8n8k32, m8n8k128, got m8n32k8}}
  %0 = "wmma.load"(%p) {shape = "m8n32k8", fragment = "a", type = "tf32"} : (!llvm.ptr) -> !llvm.struct<(i32, i32, i32, i32)>
  return
}

// -----

func.func @load_bf16_k8(%p: !llvm.ptr) {
  // expected-error @below {{'wmma.load' op shape must be one of m16n16k16, m8n32k16, m32n8k16 with fragment a, type bf16, got m16n16k8}}
  %0 = "wmma.load"(%p) {shape = "m16n16k8", fragment = "a", type = "bf16"} : (!llvm.ptr) -> !llvm.struct<(i32, i32, i32, i32)>
  return
}

// -----

func.func @load_fragment(%p: !llvm.ptr) {
  // expected-error @below {{'wmma.load' op fragment must be one of a, b, c, got d; nearest legal: wmma.load.a.sync.aligned.row.m16n16k16.f16, wmma.load.b.sync.aligned.row.m16n16k16.f16, wmma.load.c.sync.aligned.row.m16n16k16.f16}}
  %0 = "wmma.load"(%p) {shape = "m16n16k16", fragment = "d", type = "f16"} : (!llvm.ptr) -> !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  return
}

// -----

func.func @load_layout(%p: !llvm.ptr) {
  // expected-error @below {{'wmma.load' op layout must be row or col, got diagonal; nearest legal: wmma.load.a.sync.aligned.row.m16n16k16.f16, wmma.load.a.sync.aligned.col.m16n16k16.f16, wmma.load.a.sync.aligned.row.m16n16k16.shared.f16}}
  %0 = "wmma.load"(%p) {shape = "m16n16k16", fragment = "a", type = "f16", layout = "diagonal"} : (!llvm.ptr) -> !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  return
}

// -----

func.func @load_f64(%p: !llvm.ptr) {
  // expected-error @below {{'wmma.load' op has no f64: use mma.sync, whose fragments of f64 PTX documents; nearest legal: mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64}}
  %0 = "wmma.load"(%p) {shape = "m16n16k16", fragment = "a", type = "f64"} : (!llvm.ptr) -> !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  return
}

// -----

func.func @load_nibbles_in_columns(%p: !llvm.ptr) {
  // expected-error @below {{'wmma.load' op layout must be row for A of s4, got col; nearest legal: wmma.load.a.sync.aligned.row.m8n8k32.s4, wmma.load.b.sync.aligned.col.m8n8k32.s4, wmma.load.a.sync.aligned.row.m8n8k32.shared.s4}}
  %0 = "wmma.load"(%p) {shape = "m8n8k32", fragment = "a", type = "s4", layout = "col"} : (!llvm.ptr) -> i32
  return
}

// -----

func.func @load_bits_in_rows(%p: !llvm.ptr) {
  // expected-error @below {{'wmma.load' op layout must be col for B of b1, got row; nearest legal: wmma.load.b.sync.aligned.col.m8n8k128.b1, wmma.load.a.sync.aligned.row.m8n8k128.b1, wmma.load.b.sync.aligned.col.m8n8k128.shared.b1}}
  %0 = "wmma.load"(%p) {shape = "m8n8k128", fragment = "b", type = "b1"} : (!llvm.ptr) -> i32
  return
}

// -----

func.func @load_space(%q: !llvm.ptr<5>) {
  // expected-error @below {{'wmma.load' op expects address of type !llvm.ptr or !llvm.ptr<3> or !llvm.ptr<1>, got !llvm.ptr<5>}}
  %0 = "wmma.load"(%q) {shape = "m16n16k16", fragment = "a", type = "f16"} : (!llvm.ptr<5>) -> !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  return
}

// -----

func.func @load_address_type(%l: i64) {
  // expected-error @below {{'wmma.load' op expects address of type !llvm.ptr or !llvm.ptr<3> or !llvm.ptr<1>, got i64}}
  %0 = "wmma.load"(%l) {shape = "m16n16k16", fragment = "a", type = "f16"} : (i64) -> !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  return
}

// -----

func.func @load_stride_type(%p: !llvm.ptr, %l: i64) {
  // expected-error @below {{'wmma.load' op expects stride of type i32, got i64}}
  %0 = "wmma.load"(%p, %l) {shape = "m16n16k16", fragment = "a", type = "f16"} : (!llvm.ptr, i64) -> !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  return
}

// -----

func.func @load_two_strides(%p: !llvm.ptr, %w: i32) {
  // expected-error @below {{'wmma.load' op expects stride of type i32, got 2 values}}
  %0 = "wmma.load"(%p, %w, %w) {shape = "m16n16k16", fragment = "a", type = "f16"} : (!llvm.ptr, i32, i32) -> !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  return
}

// -----

func.func @load_result(%p: !llvm.ptr) {
  // expected-error @below {{'wmma.load' op expects to return !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>, got i32}}
  %0 = "wmma.load"(%p) {shape = "m16n16k16", fragment = "a", type = "f16"} : (!llvm.ptr) -> i32
  return
}

// -----

func.func @load_result_of_one_register(%p: !llvm.ptr) {
  // expected-error @below {{'wmma.load' op expects to return i32, got !llvm.struct<(i32)>}}
  %0 = "wmma.load"(%p) {shape = "m8n8k32", fragment = "a", type = "s4"} : (!llvm.ptr) -> !llvm.struct<(i32)>
  return
}

// -----

func.func @load_without_fragment(%p: !llvm.ptr) {
  // expected-error @below {{'wmma.load' op expects the attribute 'fragment': one of a, b, c}}
  %0 = "wmma.load"(%p) {shape = "m16n16k16", type = "f16"} : (!llvm.ptr) -> !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  return
}

// -----

func.func @load_attribute_kind(%p: !llvm.ptr) {
  // expected-error @below {{'wmma.load' op expects attribute 'layout' to be a string, got 1 : i64}}
  %0 = "wmma.load"(%p) {shape = "m16n16k16", fragment = "a", type = "f16", layout = 1 : i64} : (!llvm.ptr) -> !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  return
}

// -----

func.func @load_unknown_attribute(%p: !llvm.ptr) {
  // expected-error @below {{'wmma.load' op has no attribute 'stride': it has shape, fragment, type, layout}}
  %0 = "wmma.load"(%p) {shape = "m16n16k16", fragment = "a", type = "f16", stride = 16 : i64} : (!llvm.ptr) -> !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_75">] {
  gpu.func @load_bf16_on_turing(%p: !llvm.ptr) kernel {
    // expected-error @below {{'wmma.load' op needs sm_80 or later: sm_75 has no wmma.load.a.sync.aligned.row.m16n16k16.bf16}}
    %0 = "wmma.load"(%p) {shape = "m16n16k16", fragment = "a", type = "bf16"} : (!llvm.ptr) -> !llvm.struct<(i32, i32, i32, i32)>
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_70">] {
  gpu.func @load_integers_on_volta(%p: !llvm.ptr) kernel {
    // expected-error @below {{'wmma.load' op needs sm_72 or later: sm_70 has no wmma.load.a.sync.aligned.row.m16n16k16.s8}}
    %0 = "wmma.load"(%p) {shape = "m16n16k16", fragment = "a", type = "s8"} : (!llvm.ptr) -> !llvm.struct<(i32, i32)>
    gpu.return
  }
}

// -----

func.func @store_type(%p: !llvm.ptr, %f: f32) {
  // expected-error @below {{'wmma.store' op type must be one of f16, f32, s32, got bf16; nearest legal: wmma.store.d.sync.aligned.row.m16n16k16.f16, wmma.store.d.sync.aligned.row.m16n16k16.f32, wmma.store.d.sync.aligned.row.m16n16k16.s32}}
  "wmma.store"(%p, %f, %f, %f, %f, %f, %f, %f, %f) {shape = "m16n16k16", type = "bf16", operandSegmentSizes = array<i32: 1, 8, 0>} : (!llvm.ptr, f32, f32, f32, f32, f32, f32, f32, f32) -> ()
  return
}

// -----

func.func @store_f64(%p: !llvm.ptr, %f: f32) {
  // expected-error @below {{'wmma.store' op has no f64: use mma.sync, whose fragments of f64 PTX documents; nearest legal: mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64}}
  "wmma.store"(%p, %f, %f, %f, %f, %f, %f, %f, %f) {shape = "m16n16k16", type = "f64", operandSegmentSizes = array<i32: 1, 8, 0>} : (!llvm.ptr, f32, f32, f32, f32, f32, f32, f32, f32) -> ()
  return
}

// -----

func.func @store_shape(%p: !llvm.ptr, %f: f32) {
  // expected-error @below {{'wmma.store' op shape must be one of m16n16k16, m8n32k16, m32n8k16, m16n16k8 with type f32, got m8n8k32}}
  "wmma.store"(%p, %f, %f, %f, %f, %f, %f, %f, %f) {shape = "m8n8k32", type = "f32", operandSegmentSizes = array<i32: 1, 8, 0>} : (!llvm.ptr, f32, f32, f32, f32, f32, f32, f32, f32) -> ()
  return
}

// -----

func.func @store_register_count(%p: !llvm.ptr, %f: f32) {
  // expected-error @below {{'wmma.store' op expects 8 D registers of f32, got 4 of f32}}
  "wmma.store"(%p, %f, %f, %f, %f) {shape = "m16n16k16", type = "f32", operandSegmentSizes = array<i32: 1, 4, 0>} : (!llvm.ptr, f32, f32, f32, f32) -> ()
  return
}

// -----

func.func @store_register_type(%p: !llvm.ptr, %w: i32) {
  // expected-error @below {{'wmma.store' op expects 8 D registers of f32, got 8 of i32}}
  "wmma.store"(%p, %w, %w, %w, %w, %w, %w, %w, %w) {shape = "m16n16k16", type = "f32", operandSegmentSizes = array<i32: 1, 8, 0>} : (!llvm.ptr, i32, i32, i32, i32, i32, i32, i32, i32) -> ()
  return
}

// -----

func.func @store_address(%t: !llvm.ptr<6>, %f: f32) {
  // expected-error @below {{'wmma.store' op expects address of type !llvm.ptr or !llvm.ptr<3> or !llvm.ptr<1>, got !llvm.ptr<6>}}
  "wmma.store"(%t, %f, %f, %f, %f, %f, %f, %f, %f) {shape = "m16n16k16", type = "f32", operandSegmentSizes = array<i32: 1, 8, 0>} : (!llvm.ptr<6>, f32, f32, f32, f32, f32, f32, f32, f32) -> ()
  return
}

// -----

func.func @store_result(%p: !llvm.ptr, %f: f32) {
  // expected-error @below {{'wmma.store' op expects 0 results, got 1}}
  %0 = "wmma.store"(%p, %f, %f, %f, %f, %f, %f, %f, %f) {shape = "m16n16k16", type = "f32", operandSegmentSizes = array<i32: 1, 8, 0>} : (!llvm.ptr, f32, f32, f32, f32, f32, f32, f32, f32) -> f32
  return
}

// -----

func.func @store_segments(%p: !llvm.ptr, %f: f32, %w: i32) {
  // expected-error @below {{'wmma.store' op expects 'operandSegmentSizes' of 3 groups (address, d, stride) that sum to 10, got array<i32: 1, 9, 1>}}
  "wmma.store"(%p, %f, %f, %f, %f, %f, %f, %f, %f, %w) {shape = "m16n16k16", type = "f32", operandSegmentSizes = array<i32: 1, 9, 1>} : (!llvm.ptr, f32, f32, f32, f32, f32, f32, f32, f32, i32) -> ()
  return
}

// -----

func.func @store_without_segments(%p: !llvm.ptr, %f: f32) {
  // expected-error @below {{'wmma.store' op expects 'operandSegmentSizes' with the number of operands in address, d, stride}}
  "wmma.store"(%p, %f, %f, %f, %f, %f, %f, %f, %f) {shape = "m16n16k16", type = "f32"} : (!llvm.ptr, f32, f32, f32, f32, f32, f32, f32, f32) -> ()
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_70">] {
  gpu.func @store_on_volta(%p: !llvm.ptr, %w: i32) kernel {
    // expected-error @below {{'wmma.store' op needs sm_72 or later: sm_70 has no wmma.store.d.sync.aligned.row.m16n16k16.s32}}
    "wmma.store"(%p, %w, %w, %w, %w, %w, %w, %w, %w) {shape = "m16n16k16", type = "s32", operandSegmentSizes = array<i32: 1, 8, 0>} : (!llvm.ptr, i32, i32, i32, i32, i32, i32, i32, i32) -> ()
    gpu.return
  }
}

// -----

func.func @mma_shape(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'wmma.mma' op shape must be one of m16n16k16, m8n32k16, m32n8k16, m16n16k8, m8n8k32, m8n8k128, got m16n8k16}}
  %0 = "wmma.mma"(%h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %f, %f, %f, %f, %f, %f, %f, %f) {shape = "m16n8k16", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 8, 8, 8>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
  return
}

// -----

func.func @mma_input_types(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'wmma.mma' op A and B must have the same type, got f16 and bf16}}
  %0 = "wmma.mma"(%h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %f, %f, %f, %f, %f, %f, %f, %f) {shape = "m16n16k16", a_type = "f16", b_type = "bf16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 8, 8, 8>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
  return
}

// -----

func.func @mma_signed_by_unsigned(%w: i32) {
  // expected-error @below {{'wmma.mma' op A and B must have the same type, got s8 and u8}}
  %0 = "wmma.mma"(%w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w) {shape = "m16n16k16", a_type = "s8", b_type = "u8", c_type = "s32", d_type = "s32", operandSegmentSizes = array<i32: 2, 2, 8>} : (i32, i32, i32, i32, i32, i32, i32, i32, i32, i32, i32, i32) -> !llvm.struct<(i32, i32, i32, i32, i32, i32, i32, i32)>
  return
}

// -----

func.func @mma_f64(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'wmma.mma' op has no f64: use mma.sync, whose fragments of f64 PTX documents; nearest legal: mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64}}
  %0 = "wmma.mma"(%h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %f, %f, %f, %f, %f, %f, %f, %f) {shape = "m16n16k16", a_type = "f64", b_type = "f64", c_type = "f64", d_type = "f64", operandSegmentSizes = array<i32: 8, 8, 8>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
  return
}

// -----

func.func @mma_fp8(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'wmma.mma' op a_type must be one of f16, bf16, tf32, s8, u8, s4, u4, b1, got e4m3}}
  %0 = "wmma.mma"(%h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %f, %f, %f, %f, %f, %f, %f, %f) {shape = "m16n16k16", a_type = "e4m3", b_type = "e4m3", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 8, 8, 8>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
  return
}

// -----

func.func @mma_bf16_accumulates_in_f32(%w: i32, %f: f32) {
  // expected-error @below {{'wmma.mma' op d_type must be f32 with shape m16n16k16, a_type bf16, b_type bf16, c_type f32, got f16}}
  %0 = "wmma.mma"(%w, %w, %w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %f, %f, %f, %f) {shape = "m16n16k16", a_type = "bf16", b_type = "bf16", c_type = "f32", d_type = "f16", operandSegmentSizes = array<i32: 4, 4, 8>} : (i32, i32, i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
  return
}

// -----

func.func @mma_popc_of_bits_only(%w: i32) {
  // expected-error @below {{'wmma.mma' op xor.popc needs A and B of b1, got s8 and s8}}
  %0 = "wmma.mma"(%w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w, %w) {shape = "m16n16k16", a_type = "s8", b_type = "s8", c_type = "s32", d_type = "s32", bit_op = "xor.popc", operandSegmentSizes = array<i32: 2, 2, 8>} : (i32, i32, i32, i32, i32, i32, i32, i32, i32, i32, i32, i32) -> !llvm.struct<(i32, i32, i32, i32, i32, i32, i32, i32)>
  return
}

// -----

func.func @mma_bits_without_popc(%w: i32) {
  // expected-error @below {{'wmma.mma' op bit_op must be xor.popc or and.popc for b1, got none}}
  %0 = "wmma.mma"(%w, %w, %w, %w) {shape = "m8n8k128", a_type = "b1", b_type = "b1", c_type = "s32", d_type = "s32", operandSegmentSizes = array<i32: 1, 1, 2>} : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
  return
}

// -----

func.func @mma_other_popc(%w: i32) {
  // expected-error @below {{'wmma.mma' op bit_op must be one of none, xor.popc, and.popc, got or.popc}}
  %0 = "wmma.mma"(%w, %w, %w, %w) {shape = "m8n8k128", a_type = "b1", b_type = "b1", c_type = "s32", d_type = "s32", bit_op = "or.popc", operandSegmentSizes = array<i32: 1, 1, 2>} : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
  return
}

// -----

func.func @mma_bits_are_row_col(%w: i32) {
  // expected-error @below {{'wmma.mma' op b_layout must be col with shape m8n8k128, a_type b1, b_type b1, c_type s32, d_type s32, bit_op xor.popc, got row}}
  %0 = "wmma.mma"(%w, %w, %w, %w) {shape = "m8n8k128", a_type = "b1", b_type = "b1", c_type = "s32", d_type = "s32", bit_op = "xor.popc", b_layout = "row", operandSegmentSizes = array<i32: 1, 1, 2>} : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
  return
}

// -----

func.func @mma_satfinite(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'wmma.mma' op satfinite needs s8, u8, s4 or u4 inputs, got f16; nearest legal: wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32, wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32, wmma.mma.sync.aligned.col.col.m16n16k16.f32.f32}}
  %0 = "wmma.mma"(%h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %f, %f, %f, %f, %f, %f, %f, %f) {shape = "m16n16k16", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", satfinite = true, operandSegmentSizes = array<i32: 8, 8, 8>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
  return
}

// -----

func.func @mma_has_no_layout_of_c(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'wmma.mma' op has no attribute 'c_layout': it has shape, a_type, b_type, c_type, d_type, a_layout, b_layout, bit_op, satfinite}}
  %0 = "wmma.mma"(%h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %f, %f, %f, %f, %f, %f, %f, %f) {shape = "m16n16k16", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", c_layout = "row", operandSegmentSizes = array<i32: 8, 8, 8>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
  return
}

// -----

func.func @mma_register_count(%h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'wmma.mma' op expects 8 A registers of vector<2xf16>, got 4 of vector<2xf16>}}
  %0 = "wmma.mma"(%h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %f, %f, %f, %f, %f, %f, %f, %f) {shape = "m16n16k16", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 4, 8, 8>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
  return
}

// -----

func.func @mma_register_type(%hb: vector<2xbf16>, %w: i32, %f: f32) {
  // expected-error @below {{'wmma.mma' op expects 2 A registers of i32, got 2 of vector<2xbf16>}}
  %0 = "wmma.mma"(%hb, %hb, %w, %w, %w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %f, %f, %f, %f) {shape = "m8n32k16", a_type = "bf16", b_type = "bf16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 8, 8>} : (vector<2xbf16>, vector<2xbf16>, i32, i32, i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
  return
}

// -----

func.func @mma_no_c(%w: i32) {
  // expected-error @below {{'wmma.mma' op expects 2 C registers of i32, got none}}
  %0 = "wmma.mma"(%w, %w) {shape = "m8n8k128", a_type = "b1", b_type = "b1", c_type = "s32", d_type = "s32", bit_op = "xor.popc", operandSegmentSizes = array<i32: 1, 1, 0>} : (i32, i32) -> !llvm.struct<(i32, i32)>
  return
}

// -----

func.func @mma_result(%w: i32) {
  // expected-error @below {{'wmma.mma' op expects to return !llvm.struct<(i32, i32)>, got i32}}
  %0 = "wmma.mma"(%w, %w, %w, %w) {shape = "m8n8k128", a_type = "b1", b_type = "b1", c_type = "s32", d_type = "s32", bit_op = "xor.popc", operandSegmentSizes = array<i32: 1, 1, 2>} : (i32, i32, i32, i32) -> i32
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_75">] {
  gpu.func @mma_and_popc_on_turing(%w: i32) kernel {
    // expected-error @below {{'wmma.mma' op needs sm_80 or later: sm_75 has no wmma.mma.and.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32}}
    %0 = "wmma.mma"(%w, %w, %w, %w) {shape = "m8n8k128", a_type = "b1", b_type = "b1", c_type = "s32", d_type = "s32", bit_op = "and.popc", operandSegmentSizes = array<i32: 1, 1, 2>} : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_75">] {
  gpu.func @mma_bf16_on_turing(%w: i32, %f: f32) kernel {
    // expected-error @below {{'wmma.mma' op needs sm_80 or later: sm_75 has no wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32}}
    %0 = "wmma.mma"(%w, %w, %w, %w, %w, %w, %w, %w, %f, %f, %f, %f, %f, %f, %f, %f) {shape = "m16n16k16", a_type = "bf16", b_type = "bf16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 4, 4, 8>} : (i32, i32, i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_72">] {
  gpu.func @mma_nibbles_on_xavier(%w: i32) kernel {
    // expected-error @below {{'wmma.mma' op needs sm_75 or later: sm_72 has no wmma.mma.sync.aligned.row.col.m8n8k32.s32.u4.u4.s32}}
    %0 = "wmma.mma"(%w, %w, %w, %w) {shape = "m8n8k32", a_type = "u4", b_type = "u4", c_type = "s32", d_type = "s32", operandSegmentSizes = array<i32: 1, 1, 2>} : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
    gpu.return
  }
}
