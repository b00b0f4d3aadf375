// RUN: weft-opt %s --split-input-file --verify-diagnostics --lower-tcgen05

gpu.module @m [#nvvm.target<chip = "sm_100f">] {
  gpu.func @i8_needs_an_arch_specific_target(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) kernel {
    // expected-error @below {{'tcgen05.mma' op kind i8 is legal on sm_100a, sm_110a only, got sm_100f}}
    "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "i8", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_103a">] {
  gpu.func @i8_is_not_on_sm_103(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) kernel {
    // expected-error @below {{'tcgen05.mma_ws' op kind i8 is legal on sm_100a, sm_110a only, got sm_103a}}
    "tcgen05.mma_ws"(%t, %l, %l, %w, %c) {kind = "i8"} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_100f">] {
  gpu.func @sparse_mxf4_needs_an_arch_specific_target(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) kernel {
    // expected-error @below {{'tcgen05.sp_mma_block_scale' op kind mxf4 with a sparse A is legal on sm_100a, sm_103a, sm_107a, sm_110a only, got sm_100f}}
    "tcgen05.sp_mma_block_scale"(%t, %l, %l, %t, %w, %t, %t, %c) {kind = "mxf4", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_103f">] {
  gpu.func @sparse_mxf4nvf4_needs_an_arch_specific_target(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) kernel {
    // expected-error @below {{'tcgen05.sp_mma_block_scale' op kind mxf4nvf4 with a sparse A is legal on sm_100a, sm_103a, sm_107a, sm_110a only, got sm_103f}}
    "tcgen05.sp_mma_block_scale"(%t, %l, %l, %t, %w, %t, %t, %c) {kind = "mxf4nvf4", cta_group = 1 : i64, scale_vec = "block16", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_100f">] {
  gpu.func @scale_vec_needs_an_arch_specific_target(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) kernel {
    // expected-error @below {{'tcgen05.mma_block_scale' op scale_vec::1X is legal on sm_100a, sm_103a, sm_107a, sm_110a only, got sm_100f}}
    "tcgen05.mma_block_scale"(%t, %l, %l, %w, %t, %t, %c) {kind = "mxf8f6f4", cta_group = 1 : i64, scale_vec = "1X", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
    gpu.return
  }
}

// -----

func.func @scale_input_d_of_other_kinds(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op scale_input_d is legal for kinds f16 and tf32 only, got f8f6f4}}
  "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "f8f6f4", cta_group = 1 : i64, scale_input_d = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  return
}

// -----

func.func @scale_input_d_of_i8(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.sp_mma' op scale_input_d is legal for kinds f16 and tf32 only, got i8}}
  "tcgen05.sp_mma"(%t, %l, %l, %t, %w, %c) {kind = "i8", cta_group = 1 : i64, scale_input_d = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, i1) -> ()
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_110a">] {
  gpu.func @scale_input_d_is_not_on_sm_110a(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) kernel {
    // expected-error @below {{'tcgen05.mma' op scale_input_d is legal on sm_100f, sm_100a, sm_103f, sm_103a, sm_107f, sm_107a only, got sm_110a}}
    "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "f16", cta_group = 1 : i64, scale_input_d = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
    gpu.return
  }
}

// -----

func.func @scale_input_d_range(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op scale_input_d must be in 0..15, got 16}}
  "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "f16", cta_group = 1 : i64, scale_input_d = 16 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  return
}

// -----

func.func @no_block_scale_for_f16(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_block_scale' op kind f16 has no .block_scale: with it the kind must be one of mxf8f6f4, mxf4, mxf4nvf4}}
  "tcgen05.mma_block_scale"(%t, %l, %l, %w, %t, %t, %c) {kind = "f16", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// -----

func.func @no_block_scale_for_tf32(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_block_scale' op kind tf32 has no .block_scale: with it the kind must be one of mxf8f6f4, mxf4, mxf4nvf4}}
  "tcgen05.mma_block_scale"(%t, %l, %l, %w, %t, %t, %c) {kind = "tf32", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// -----

func.func @no_block_scale_for_f8f6f4(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.sp_mma_block_scale' op kind f8f6f4 has no .block_scale: with it the kind must be one of mxf8f6f4, mxf4, mxf4nvf4}}
  "tcgen05.sp_mma_block_scale"(%t, %l, %l, %t, %w, %t, %t, %c) {kind = "f8f6f4", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// -----

func.func @no_block_scale_for_i8(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_block_scale' op kind i8 has no .block_scale: with it the kind must be one of mxf8f6f4, mxf4, mxf4nvf4}}
  "tcgen05.mma_block_scale"(%t, %l, %l, %w, %t, %t, %c) {kind = "i8", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// -----

func.func @mxf4_needs_block_scale(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op kind mxf4 needs .block_scale: without it the kind must be one of f16, tf32, f8f6f4, i8, ti16}}
  "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "mxf4", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  return
}

// -----

func.func @no_ashift_with_block_scale(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_block_scale' op ashift is not legal with block scale}}
  "tcgen05.mma_block_scale"(%t, %t, %l, %w, %t, %t, %c) {kind = "mxf8f6f4", cta_group = 1 : i64, ashift = true, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, !llvm.ptr<6>, i64, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// -----

func.func @ashift_needs_a_in_tensor_memory(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op ashift is legal with A in tensor memory only, got A in shared memory}}
  "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "f16", cta_group = 1 : i64, ashift = true, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  return
}

// -----

func.func @no_collector_fill_with_ashift(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op collector_a must be discard or lastuse with ashift, got fill}}
  "tcgen05.mma"(%t, %t, %l, %w, %c) {kind = "f16", cta_group = 1 : i64, ashift = true, collector_a = "fill", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, !llvm.ptr<6>, i64, i32, i1) -> ()
  return
}

// -----

func.func @no_collector_use_with_ashift(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.sp_mma' op collector_a must be discard or lastuse with ashift, got use}}
  "tcgen05.sp_mma"(%t, %t, %l, %t, %w, %c) {kind = "f16", cta_group = 1 : i64, ashift = true, collector_a = "use", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 0, 1>} : (!llvm.ptr<6>, !llvm.ptr<6>, i64, !llvm.ptr<6>, i32, i1) -> ()
  return
}

// -----

func.func @no_cta_group_2_with_weight_stationary(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_ws' op cta_group must be 1 with weight stationary, got 2}}
  "tcgen05.mma_ws"(%t, %l, %l, %w, %c) {kind = "f16", cta_group = 2 : i64} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  return
}

// -----

func.func @no_mxf8f6f4_with_weight_stationary(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_ws' op kind must be one of f16, tf32, f8f6f4, i8, ti16 with weight stationary, got mxf8f6f4}}
  "tcgen05.mma_ws"(%t, %l, %l, %w, %c) {kind = "mxf8f6f4"} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  return
}

// -----

func.func @no_fp4_with_weight_stationary(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.sp_mma_ws' op kind must be one of f16, tf32, f8f6f4, i8, ti16 with weight stationary, got mxf4}}
  "tcgen05.sp_mma_ws"(%t, %l, %l, %t, %w, %c) {kind = "mxf4"} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, i1) -> ()
  return
}

// -----

func.func @no_mxf4nvf4_with_weight_stationary(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_ws' op kind must be one of f16, tf32, f8f6f4, i8, ti16 with weight stationary, got mxf4nvf4}}
  "tcgen05.mma_ws"(%t, %l, %l, %w, %c) {kind = "mxf4nvf4"} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  return
}

// -----

func.func @no_ashift_with_weight_stationary(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_ws' op ashift is not legal with weight stationary}}
  "tcgen05.mma_ws"(%t, %t, %l, %w, %c) {kind = "f16", ashift = true} : (!llvm.ptr<6>, !llvm.ptr<6>, i64, i32, i1) -> ()
  return
}

// -----

func.func @no_2x_for_mxf8f6f4(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_block_scale' op scale_vec must be one of none, scale_vec::1X, block32 for kind mxf8f6f4, got scale_vec::2X}}
  "tcgen05.mma_block_scale"(%t, %l, %l, %w, %t, %t, %c) {kind = "mxf8f6f4", cta_group = 1 : i64, scale_vec = "2X", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// -----

func.func @no_4x_for_mxf8f6f4(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_block_scale' op scale_vec must be one of none, scale_vec::1X, block32 for kind mxf8f6f4, got scale_vec::4X}}
  "tcgen05.mma_block_scale"(%t, %l, %l, %w, %t, %t, %c) {kind = "mxf8f6f4", cta_group = 1 : i64, scale_vec = "4X", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// -----

func.func @no_1x_for_mxf4nvf4(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_block_scale' op scale_vec must be one of scale_vec::2X, scale_vec::4X, block16, block32 for kind mxf4nvf4, got scale_vec::1X}}
  "tcgen05.mma_block_scale"(%t, %l, %l, %w, %t, %t, %c) {kind = "mxf4nvf4", cta_group = 1 : i64, scale_vec = "1X", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// -----

func.func @mxf4nvf4_needs_a_size(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_block_scale' op scale_vec must be one of scale_vec::2X, scale_vec::4X, block16, block32 for kind mxf4nvf4, got none}}
  "tcgen05.mma_block_scale"(%t, %l, %l, %w, %t, %t, %c) {kind = "mxf4nvf4", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// -----

func.func @no_1x_for_mxf4(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.sp_mma_block_scale' op scale_vec must be one of none, scale_vec::2X, block32 for kind mxf4, got scale_vec::1X}}
  "tcgen05.sp_mma_block_scale"(%t, %l, %l, %t, %w, %t, %t, %c) {kind = "mxf4", cta_group = 1 : i64, scale_vec = "1X", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// -----

func.func @no_4x_for_mxf4(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.sp_mma_block_scale' op scale_vec must be one of none, scale_vec::2X, block32 for kind mxf4, got scale_vec::4X}}
  "tcgen05.sp_mma_block_scale"(%t, %l, %l, %t, %w, %t, %t, %c) {kind = "mxf4", cta_group = 1 : i64, scale_vec = "4X", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// -----

func.func @cp_shape(%t: !llvm.ptr<6>, %l: i64) {
  // expected-error @below {{'tcgen05.cp' op shape must be one of 128x256b, 4x256b, 128x128b, 64x128b, 32x128b, got 64x256b; nearest legal: tcgen05.cp.cta_group::1.4x256b, tcgen05.cp.cta_group::1.128x256b, tcgen05.cp.cta_group::1.128x128b}}
  "tcgen05.cp"(%t, %l) {shape = "64x256b", multicast = "", cta_group = 1 : i64} : (!llvm.ptr<6>, i64) -> ()
  return
}

// -----

func.func @cp_format(%t: !llvm.ptr<6>, %l: i64) {
  // expected-error @below {{'tcgen05.cp' op source_format must be one of none, b6x16_p32, b4x16_p64, got b8x16}}
  "tcgen05.cp"(%t, %l) {shape = "128x256b", multicast = "", cta_group = 1 : i64, source_format = "b8x16"} : (!llvm.ptr<6>, i64) -> ()
  return
}

// -----

func.func @cp_needs_a_multicast(%t: !llvm.ptr<6>, %l: i64) {
  // expected-error @below {{'tcgen05.cp' op multicast must be warpx2::02_13 or warpx2::01_23 for shape 64x128b, got }}
  "tcgen05.cp"(%t, %l) {shape = "64x128b", multicast = "", cta_group = 1 : i64} : (!llvm.ptr<6>, i64) -> ()
  return
}

// -----

func.func @cp_has_no_multicast(%t: !llvm.ptr<6>, %l: i64) {
  // expected-error @below {{'tcgen05.cp' op multicast must be none for shape 128x256b, got warpx4; nearest legal: tcgen05.cp.cta_group::1.128x256b, tcgen05.cp.cta_group::1.32x128b.warpx4, tcgen05.cp.cta_group::1.128x256b.b8x16.b6x16_p32}}
  "tcgen05.cp"(%t, %l) {shape = "128x256b", multicast = "warpx4", cta_group = 1 : i64} : (!llvm.ptr<6>, i64) -> ()
  return
}

// -----

func.func @cp_another_multicast(%t: !llvm.ptr<6>, %l: i64) {
  // expected-error @below {{'tcgen05.cp' op multicast must be warpx2::02_13 or warpx2::01_23 for shape 64x128b, got warpx2::03_12}}
  "tcgen05.cp"(%t, %l) {shape = "64x128b", multicast = "warpx2::03_12", cta_group = 1 : i64} : (!llvm.ptr<6>, i64) -> ()
  return
}

// -----

func.func @commit_mask_of_8_bits(%s: !llvm.ptr<3>, %b: i8) {
  // expected-error @below {{'tcgen05.commit' op the multicast mask must have 16 bits, or 32 on sm_107a and sm_107f, got 8}}
  "tcgen05.commit"(%s, %b) {cta_group = 1 : i64} : (!llvm.ptr<3>, i8) -> ()
  return
}

// -----

func.func @commit_mask_of_64_bits(%s: !llvm.ptr<3>, %l: i64) {
  // expected-error @below {{'tcgen05.commit' op the multicast mask must have 16 bits, or 32 on sm_107a and sm_107f, got 64}}
  "tcgen05.commit"(%s, %l) {cta_group = 1 : i64} : (!llvm.ptr<3>, i64) -> ()
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @commit_mask_of_32_bits_is_for_sm_107(%s: !llvm.ptr<3>, %w: i32) kernel {
    // expected-error @below {{'tcgen05.commit' op a multicast mask of 32 bits is legal on sm_107a and sm_107f only, got sm_100a}}
    "tcgen05.commit"(%s, %w) {cta_group = 1 : i64} : (!llvm.ptr<3>, i32) -> ()
    gpu.return
  }
}

// -----

func.func @commit_mask_is_no_integer(%s: !llvm.ptr<3>, %f: f32) {
  // expected-error @below {{'tcgen05.commit' op expects mask of type i16, got f32}}
  "tcgen05.commit"(%s, %f) {cta_group = 1 : i64} : (!llvm.ptr<3>, f32) -> ()
  return
}

// -----

func.func @commit_two_masks(%s: !llvm.ptr<3>, %i: i16) {
  // expected-error @below {{'tcgen05.commit' op expects mask of type i16, got 2 values}}
  "tcgen05.commit"(%s, %i, %i) {cta_group = 1 : i64} : (!llvm.ptr<3>, i16, i16) -> ()
  return
}

// -----

func.func @commit_space(%g: !llvm.ptr<1>) {
  // expected-error @below {{'tcgen05.commit' op expects mbarrier of type !llvm.ptr<3> or !llvm.ptr, got !llvm.ptr<1>}}
  "tcgen05.commit"(%g) {cta_group = 1 : i64} : (!llvm.ptr<1>) -> ()
  return
}

// -----

func.func @commit_restriction(%s: !llvm.ptr<3>) {
  // expected-error @below {{'tcgen05.commit' op sync_restrict must be none or shared::read::mma::a, got shared::cta}}
  "tcgen05.commit"(%s) {cta_group = 1 : i64, sync_restrict = "shared::cta"} : (!llvm.ptr<3>) -> ()
  return
}

// -----

func.func @alloc_cta_group(%s: !llvm.ptr<3>, %w: i32) {
  // expected-error @below {{'tcgen05.alloc' op cta_group must be 1 or 2, got 3}}
  "tcgen05.alloc"(%s, %w) {cta_group = 3 : i64} : (!llvm.ptr<3>, i32) -> ()
  return
}

// -----

func.func @alloc_address(%t: !llvm.ptr<6>, %w: i32) {
  // expected-error @below {{'tcgen05.alloc' op expects address of type !llvm.ptr<3> or !llvm.ptr, got !llvm.ptr<6>}}
  "tcgen05.alloc"(%t, %w) {cta_group = 1 : i64} : (!llvm.ptr<6>, i32) -> ()
  return
}

// -----

func.func @alloc_columns(%s: !llvm.ptr<3>, %l: i64) {
  // expected-error @below {{'tcgen05.alloc' op expects columns of type i32, got i64}}
  "tcgen05.alloc"(%s, %l) {cta_group = 1 : i64} : (!llvm.ptr<3>, i64) -> ()
  return
}

// -----

func.func @alloc_constant_columns(%s: !llvm.ptr<3>) {
  %c = arith.constant 48 : i32
  // expected-error @below {{'tcgen05.alloc' op columns must be one of 32, 64, 128, 256, 512, got 48}}
  "tcgen05.alloc"(%s, %c) {cta_group = 1 : i64} : (!llvm.ptr<3>, i32) -> ()
  return
}

// -----

func.func @dealloc_constant_columns(%t: !llvm.ptr<6>) {
  %c = llvm.mlir.constant(16 : i32) : i32
  // expected-error @below {{'tcgen05.dealloc' op columns must be one of 32, 64, 128, 256, 512, got 16}}
  "tcgen05.dealloc"(%t, %c) {cta_group = 1 : i64} : (!llvm.ptr<6>, i32) -> ()
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_100">] {
  gpu.func @alloc_without_a_variant(%s: !llvm.ptr<3>, %w: i32) kernel {
    // expected-error @below {{'tcgen05.alloc' op needs sm_100f, sm_100a, sm_103f, sm_103a, sm_107f, sm_107a, sm_110f, sm_110a: sm_100 has no form of tcgen05.alloc}}
    "tcgen05.alloc"(%s, %w) {cta_group = 1 : i64} : (!llvm.ptr<3>, i32) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_120a">] {
  gpu.func @alloc_on_sm_120a(%s: !llvm.ptr<3>, %w: i32) kernel {
    // expected-error @below {{'tcgen05.alloc' op needs sm_100f, sm_100a, sm_103f, sm_103a, sm_107f, sm_107a, sm_110f, sm_110a: sm_120a has no form of tcgen05.alloc}}
    "tcgen05.alloc"(%s, %w) {cta_group = 1 : i64} : (!llvm.ptr<3>, i32) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  gpu.func @dealloc_on_hopper(%t: !llvm.ptr<6>, %w: i32) kernel {
    // expected-error @below {{'tcgen05.dealloc' op needs sm_100f, sm_100a, sm_103f, sm_103a, sm_107f, sm_107a, sm_110f, sm_110a: sm_90a has no form of tcgen05.dealloc}}
    "tcgen05.dealloc"(%t, %w) {cta_group = 1 : i64} : (!llvm.ptr<6>, i32) -> ()
    gpu.return
  }
}

// -----

func.func @dealloc_address(%s: !llvm.ptr<3>, %w: i32) {
  // expected-error @below {{'tcgen05.dealloc' op expects address of type !llvm.ptr<6>, got !llvm.ptr<3>}}
  "tcgen05.dealloc"(%s, %w) {cta_group = 1 : i64} : (!llvm.ptr<3>, i32) -> ()
  return
}

// -----

func.func @dealloc_without_a_group(%t: !llvm.ptr<6>, %w: i32) {
  // expected-error @below {{'tcgen05.dealloc' op expects the attribute 'cta_group': 1 or 2}}
  "tcgen05.dealloc"(%t, %w) : (!llvm.ptr<6>, i32) -> ()
  return
}

// -----

func.func @relinquish_cta_group() {
  // expected-error @below {{'tcgen05.relinquish_alloc_permit' op cta_group must be 1 or 2, got none; nearest legal: tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned, tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned}}
  "tcgen05.relinquish_alloc_permit"() {cta_group = 0 : i64} : () -> ()
  return
}

// -----

func.func @wait_kind() {
  // expected-error @below {{'tcgen05.wait' op kind must be ld or st, got mma; nearest legal: tcgen05.wait::ld.sync.aligned, tcgen05.wait::st.sync.aligned}}
  "tcgen05.wait"() {kind = "mma"} : () -> ()
  return
}

// -----

func.func @fence_kind() {
  // expected-error @below {{'tcgen05.fence' op kind must be before_thread_sync or after_thread_sync, got before; nearest legal: tcgen05.fence::before_thread_sync, tcgen05.fence::after_thread_sync}}
  "tcgen05.fence"() {kind = "before"} : () -> ()
  return
}

// -----

func.func @shift_direction(%t: !llvm.ptr<6>) {
  // expected-error @below {{'tcgen05.shift' op direction must be down, got up; nearest legal: tcgen05.shift.cta_group::1.down, tcgen05.shift.cta_group::2.down}}
  "tcgen05.shift"(%t) {cta_group = 1 : i64, direction = "up"} : (!llvm.ptr<6>) -> ()
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_100f">] {
  gpu.func @shift_needs_an_arch_specific_target(%t: !llvm.ptr<6>) kernel {
    // expected-error @below {{'tcgen05.shift' op needs sm_100a, sm_103a, sm_107a, sm_110a: sm_100f has no form of tcgen05.shift}}
    "tcgen05.shift"(%t) {cta_group = 1 : i64} : (!llvm.ptr<6>) -> ()
    gpu.return
  }
}

// -----

func.func @cp_descriptor(%t: !llvm.ptr<6>, %w: i32) {
  // expected-error @below {{'tcgen05.cp' op expects descriptor of type i64, got i32}}
  "tcgen05.cp"(%t, %w) {shape = "128x256b", multicast = "", cta_group = 1 : i64} : (!llvm.ptr<6>, i32) -> ()
  return
}

// -----

func.func @ld_shape(%t: !llvm.ptr<6>) {
  // expected-error @below {{'tcgen05.ld' op shape must be one of 16x64b, 16x128b, 16x256b, 32x32b, 16x32bx2, got 16x32b; nearest legal: tcgen05.ld.sync.aligned.16x32bx2.x2.b32, tcgen05.ld.sync.aligned.32x32b.x2.b32, tcgen05.ld.sync.aligned.16x64b.x2.b32}}
  %0 = "tcgen05.ld"(%t) {shape = "16x32b", num = 2 : i64} : (!llvm.ptr<6>) -> vector<2xi32>
  return
}

// -----

func.func @ld_count(%t: !llvm.ptr<6>) {
  // expected-error @below {{'tcgen05.ld' op num must be one of 1, 2, 4, 8, 16, 32, 64, 128, got 3; nearest legal: tcgen05.ld.sync.aligned.16x64b.x2.b32, tcgen05.ld.sync.aligned.16x64b.x4.b32, tcgen05.ld.sync.aligned.16x64b.x1.b32}}
  %0 = "tcgen05.ld"(%t) {shape = "16x64b", num = 3 : i64} : (!llvm.ptr<6>) -> vector<2xi32>
  return
}

// -----

func.func @ld_too_many_registers(%t: !llvm.ptr<6>) {
  // expected-error @below {{'tcgen05.ld' op num must be at most 32 for shape 16x256b, which fills 128 registers, got 64; nearest legal: tcgen05.ld.sync.aligned.16x256b.x32.b32, tcgen05.ld.sync.aligned.16x256b.x16.b32, tcgen05.ld.sync.aligned.16x256b.x8.b32}}
  %0 = "tcgen05.ld"(%t) {shape = "16x256b", num = 64 : i64} : (!llvm.ptr<6>) -> vector<8xi32>
  return
}

// -----

func.func @ld_result(%t: !llvm.ptr<6>) {
  // expected-error @below {{'tcgen05.ld' op expects to return vector<2xi32>, got !llvm.struct<(i32, i32)>}}
  %0 = "tcgen05.ld"(%t) {shape = "16x64b", num = 2 : i64} : (!llvm.ptr<6>) -> !llvm.struct<(i32, i32)>
  return
}

// -----

func.func @ld_stray_offset(%t: !llvm.ptr<6>) {
  // expected-error @below {{'tcgen05.ld' op takes no offset in this form: its operands are data, address; nearest legal with offset: tcgen05.ld.sync.aligned.16x32bx2.x2.b32}}
  %0 = "tcgen05.ld"(%t) {shape = "16x64b", num = 2 : i64, offset = 0 : i64} : (!llvm.ptr<6>) -> vector<2xi32>
  return
}

// -----

func.func @ld_offset_range(%t: !llvm.ptr<6>) {
  // expected-error @below {{'tcgen05.ld' op offset must be in 0..511, got 512}}
  %0 = "tcgen05.ld"(%t) {shape = "16x32bx2", num = 2 : i64, offset = 512 : i64} : (!llvm.ptr<6>) -> vector<2xi32>
  return
}

// -----

func.func @ld_unpack(%t: !llvm.ptr<6>) {
  // expected-error @below {{'tcgen05.ld' op has no attribute 'unpack': it has shape, num, offset, pack}}
  %0 = "tcgen05.ld"(%t) {shape = "16x64b", num = 2 : i64, unpack = true} : (!llvm.ptr<6>) -> vector<2xi32>
  return
}

// -----

func.func @st_data(%t: !llvm.ptr<6>, %v4: vector<4xi32>) {
  // expected-error @below {{'tcgen05.st' op expects data of type vector<2xi32>, got vector<4xi32>}}
  "tcgen05.st"(%t, %v4) {shape = "16x64b", num = 2 : i64} : (!llvm.ptr<6>, vector<4xi32>) -> ()
  return
}

// -----

func.func @st_address(%p: !llvm.ptr, %v2: vector<2xi32>) {
  // expected-error @below {{'tcgen05.st' op expects address of type !llvm.ptr<6>, got !llvm.ptr}}
  "tcgen05.st"(%p, %v2) {shape = "16x64b", num = 2 : i64} : (!llvm.ptr, vector<2xi32>) -> ()
  return
}

// -----

func.func @st_stray_offset(%t: !llvm.ptr<6>, %v2: vector<2xi32>) {
  // expected-error @below {{'tcgen05.st' op takes no offset in this form: its operands are address, data}}
  "tcgen05.st"(%t, %v2) {shape = "32x32b", num = 2 : i64, offset = 16 : i64} : (!llvm.ptr<6>, vector<2xi32>) -> ()
  return
}

// -----

func.func @ld_red_shape(%t: !llvm.ptr<6>) {
  // expected-error @below {{'tcgen05.ld_red' op shape must be 32x32b or 16x32bx2, got 16x64b; nearest legal: tcgen05.ld.red.sync.aligned.16x32bx2.x4.min.u32, tcgen05.ld.red.sync.aligned.32x32b.x4.min.u32, tcgen05.ld.red.sync.aligned.16x32bx2.x4.min.s32}}
  %0:2 = "tcgen05.ld_red"(%t) {shape = "16x64b", num = 4 : i64, op = "min", type = "u32"} : (!llvm.ptr<6>) -> (vector<4xi32>, i32)
  return
}

// -----

func.func @ld_red_operation(%t: !llvm.ptr<6>) {
  // expected-error @below {{'tcgen05.ld_red' op op must be min or max, got add; nearest legal: tcgen05.ld.red.sync.aligned.32x32b.x4.min.u32, tcgen05.ld.red.sync.aligned.32x32b.x4.max.u32, tcgen05.ld.red.sync.aligned.32x32b.x4.min.s32}}
  %0:2 = "tcgen05.ld_red"(%t) {shape = "32x32b", num = 4 : i64, op = "add", type = "u32"} : (!llvm.ptr<6>) -> (vector<4xi32>, i32)
  return
}

// -----

func.func @ld_red_nan_of_integers(%t: !llvm.ptr<6>) {
  // expected-error @below {{'tcgen05.ld_red' op .abs and .NaN are legal for f32 only, got .NaN with u32}}
  %0:2 = "tcgen05.ld_red"(%t) {shape = "32x32b", num = 4 : i64, op = "min", type = "u32", nan = true} : (!llvm.ptr<6>) -> (vector<4xi32>, i32)
  return
}

// -----

func.func @ld_red_results(%t: !llvm.ptr<6>) {
  // expected-error @below {{'tcgen05.ld_red' op expects 2 results (data, reduced), got 1}}
  %0 = "tcgen05.ld_red"(%t) {shape = "32x32b", num = 4 : i64, op = "min", type = "u32"} : (!llvm.ptr<6>) -> vector<4xi32>
  return
}

// -----

func.func @ld_red_type_of_the_reduced(%t: !llvm.ptr<6>) {
  // expected-error @below {{'tcgen05.ld_red' op expects to return f32, got i32}}
  %0:2 = "tcgen05.ld_red"(%t) {shape = "32x32b", num = 4 : i64, op = "min", type = "f32"} : (!llvm.ptr<6>) -> (vector<4xf32>, i32)
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @ld_red_is_not_on_sm_100a(%t: !llvm.ptr<6>) kernel {
    // expected-error @below {{'tcgen05.ld_red' op needs sm_103f, sm_103a, sm_107f, sm_107a, sm_110f, sm_110a: sm_100a has no form of tcgen05.ld.red}}
    %0:2 = "tcgen05.ld_red"(%t) {shape = "32x32b", num = 4 : i64, op = "min", type = "u32"} : (!llvm.ptr<6>) -> (vector<4xi32>, i32)
    gpu.return
  }
}

// -----

func.func @mma_kind(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op kind must be one of f16, tf32, f8f6f4, i8, ti16, got f32}}
  "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "f32", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  return
}

// -----

func.func @mma_cta_group(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op cta_group must be 1 or 2, got 3}}
  "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "f16", cta_group = 3 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  return
}

// -----

func.func @mma_collector(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op collector_a must be one of discard, lastuse, fill, use, got keep}}
  "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "f16", cta_group = 1 : i64, collector_a = "keep", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  return
}

// -----

func.func @mma_mask_of_eight_registers(%t: !llvm.ptr<6>, %l: i64, %w: i32, %v8: vector<8xi32>, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op disable_output_lane must have 4 registers with cta_group::1, got 8}}
  "tcgen05.mma"(%t, %l, %l, %w, %v8, %c) {kind = "f16", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, vector<8xi32>, i1) -> ()
  return
}

// -----

func.func @mma_mask_of_four_registers_for_two_ctas(%t: !llvm.ptr<6>, %l: i64, %w: i32, %v4: vector<4xi32>, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op disable_output_lane must have 8 registers with cta_group::2, got 4}}
  "tcgen05.mma"(%t, %l, %l, %w, %v4, %c) {kind = "f16", cta_group = 2 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, vector<4xi32>, i1) -> ()
  return
}

// -----

func.func @mma_mask_of_one_register(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op disable_output_lane must have 4 registers with cta_group::1, got 1}}
  "tcgen05.mma"(%t, %l, %l, %w, %w, %c) {kind = "f16", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, i32, i1) -> ()
  return
}

// -----

func.func @mma_d(%w: i32, %l: i64, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op expects d of type !llvm.ptr<6>, got i32}}
  "tcgen05.mma"(%w, %l, %l, %w, %c) {kind = "f16", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (i32, i64, i64, i32, i1) -> ()
  return
}

// -----

func.func @mma_a(%t: !llvm.ptr<6>, %s: !llvm.ptr<3>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op expects a of type i64, got !llvm.ptr<3>}}
  "tcgen05.mma"(%t, %s, %l, %w, %c) {kind = "f16", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, !llvm.ptr<3>, i64, i32, i1) -> ()
  return
}

// -----

func.func @mma_b(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op expects b of type i64, got !llvm.ptr<6>}}
  "tcgen05.mma"(%t, %l, %t, %w, %c) {kind = "f16", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, !llvm.ptr<6>, i32, i1) -> ()
  return
}

// -----

func.func @mma_idesc(%t: !llvm.ptr<6>, %l: i64, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op expects idesc of type i32, got i64}}
  "tcgen05.mma"(%t, %l, %l, %l, %c) {kind = "f16", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i64, i1) -> ()
  return
}

// -----

func.func @mma_enable_input_d(%t: !llvm.ptr<6>, %l: i64, %w: i32) {
  // expected-error @below {{'tcgen05.mma' op expects enable_input_d of type i1, got i32}}
  "tcgen05.mma"(%t, %l, %l, %w, %w) {kind = "f16", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i32) -> ()
  return
}

// -----

func.func @mma_table_without_compression(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op takes no lut in this form: its operands are d, a, b, idesc, enable_input_d}}
  "tcgen05.mma"(%t, %l, %l, %t, %w, %c) {kind = "f16", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, i1) -> ()
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_103">] {
  gpu.func @mma_without_a_variant(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) kernel {
    // expected-error @below {{'tcgen05.mma' op needs sm_100f, sm_100a, sm_103f, sm_103a, sm_107f, sm_107a, sm_110f, sm_110a: sm_103 has no form of tcgen05.mma}}
    "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "f16", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_121a">] {
  gpu.func @mma_on_sm_121a(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) kernel {
    // expected-error @below {{'tcgen05.mma' op needs sm_100f, sm_100a, sm_103f, sm_103a, sm_107f, sm_107a, sm_110f, sm_110a: sm_121a has no form of tcgen05.mma}}
    "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "f16", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @collector_b_is_for_sm_107(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) kernel {
    // expected-error @below {{'tcgen05.mma' op collector_b is legal on sm_107f, sm_107a only, got sm_100a}}
    "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "f16", cta_group = 1 : i64, collector_b = "fill", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @decompress_is_for_sm_107(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) kernel {
    // expected-error @below {{'tcgen05.mma' op decompress is legal on sm_107f, sm_107a only, got sm_100a}}
    "tcgen05.mma"(%t, %l, %l, %t, %w, %c) {kind = "f8f6f4", cta_group = 1 : i64, decompress = "lut::b", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, i1) -> ()
    gpu.return
  }
}

// -----

func.func @decompress_kind(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op decompress::lut::b is legal with kinds f8f6f4 and mxf8f6f4, dense and unshifted, got kind f16}}
  "tcgen05.mma"(%t, %l, %l, %t, %w, %c) {kind = "f16", cta_group = 1 : i64, decompress = "lut::b", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, i1) -> ()
  return
}

// -----

func.func @sp_mma_metadata(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.sp_mma' op expects metadata of type !llvm.ptr<6>, got i32}}
  "tcgen05.sp_mma"(%t, %l, %l, %w, %w, %c) {kind = "f16", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i32, i1) -> ()
  return
}

// -----

func.func @block_scale_scales(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_block_scale' op expects scale_b of type !llvm.ptr<6>, got i32}}
  "tcgen05.mma_block_scale"(%t, %l, %l, %w, %t, %w, %c) {kind = "mxf8f6f4", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, !llvm.ptr<6>, i32, i1) -> ()
  return
}

// -----

func.func @block_scale_has_no_lane_mask(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_block_scale' op has no attribute 'disable_output_lane': it has kind, cta_group, scale_vec, collector_a, ashift, collector_b, decompress}}
  "tcgen05.mma_block_scale"(%t, %l, %l, %w, %t, %t, %c) {kind = "mxf8f6f4", cta_group = 1 : i64, disable_output_lane = 4 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// -----

func.func @ws_buffer(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_ws' op collector_buffer must be one of b0, b1, b2, b3, got b4}}
  "tcgen05.mma_ws"(%t, %l, %l, %w, %c) {kind = "f16", collector_buffer = "b4"} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  return
}

// -----

func.func @ws_mask(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_ws' op expects zero_column_mask of type i64, got i32}}
  "tcgen05.mma_ws"(%t, %l, %l, %w, %c, %w) {kind = "f16"} : (!llvm.ptr<6>, i64, i64, i32, i1, i32) -> ()
  return
}

// -----

func.func @ws_two_masks(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.sp_mma_ws' op expects zero_column_mask of type i64, got 2 values}}
  "tcgen05.sp_mma_ws"(%t, %l, %l, %t, %w, %c, %l, %l) {kind = "tf32"} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, i1, i64, i64) -> ()
  return
}

// -----

func.func @descriptor_kind() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op kind must be one of f16, tf32, f8f6f4, i8, got mxf4}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "mxf4", m = 128 : i64, n = 256 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32"} : () -> i32
  return
}

// -----

func.func @descriptor_m() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op m must be 64 or 128 for kind f16 with cta_group::1, got 96}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 96 : i64, n = 256 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32"} : () -> i32
  return
}

// -----

func.func @descriptor_m_of_two_ctas() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op m must be 128 or 256 for kind f16 with cta_group::2, got 64}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 64 : i64, n = 256 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32", cta_group = 2 : i64} : () -> i32
  return
}

// -----

func.func @descriptor_n() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op n must be in 8..256 by 8 for kind f16 with cta_group::1, got 260; nearest legal: 248, 256}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 260 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32"} : () -> i32
  return
}

// -----

func.func @descriptor_n_of_two_ctas() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op n must be in 16..256 by 16 for kind f16 with cta_group::2, got 24; nearest legal: 16, 32}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 24 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32", cta_group = 2 : i64} : () -> i32
  return
}

// -----

func.func @descriptor_n_of_i8() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op n must be in 8..256 by 8 then by 16 for kind i8 with cta_group::1, got 40; nearest legal: 32, 48}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "i8", m = 128 : i64, n = 40 : i64, a_type = "s8", b_type = "s8", d_type = "s32"} : () -> i32
  return
}

// -----

func.func @descriptor_m_of_weight_stationary() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op m must be one of 32, 64, 128 for kind f16 with cta_group::1 and weight stationary, got 256}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 256 : i64, n = 256 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32", ws = true} : () -> i32
  return
}

// -----

func.func @descriptor_n_of_weight_stationary() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op n must be one of 64, 128, 256 for kind f16 with cta_group::1 and weight stationary, got 32}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 32 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32", ws = true} : () -> i32
  return
}

// -----

func.func @descriptor_cta_group_of_weight_stationary() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op cta_group must be 1 with weight stationary, got 2}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 256 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32", cta_group = 2 : i64, ws = true} : () -> i32
  return
}

// -----

func.func @descriptor_a_type() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op a_type must be f16 or bf16 for kind f16, got tf32}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 256 : i64, a_type = "tf32", b_type = "bf16", d_type = "f32"} : () -> i32
  return
}

// -----

func.func @descriptor_d_type() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op d_type must be f16 or f32 for kind f16, got s32}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 256 : i64, a_type = "bf16", b_type = "bf16", d_type = "s32"} : () -> i32
  return
}

// -----

func.func @descriptor_f16_accumulator() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op d_type f16 is legal with f16 A and B only, got bf16}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 256 : i64, a_type = "bf16", b_type = "bf16", d_type = "f16"} : () -> i32
  return
}

// -----

func.func @descriptor_saturate() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op saturate is legal for kind i8 only}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 256 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32", saturate = true} : () -> i32
  return
}

// -----

func.func @descriptor_negated_integers() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op a negation is legal for kinds f16, tf32, f8f6f4, mxf8f6f4, mxf4, mxf4nvf4 only, got i8}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "i8", m = 128 : i64, n = 256 : i64, a_type = "s8", b_type = "s8", d_type = "s32", negate_a = true} : () -> i32
  return
}

// -----

func.func @descriptor_transposed_a_in_tensor_memory() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op transpose_a is legal with A in shared memory only, got A in tensor memory}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 256 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32", a = "tensor", transpose_a = true} : () -> i32
  return
}

// -----

func.func @descriptor_selector_of_dense() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op sparsity_selector is legal with a sparse A only}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 256 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32", sparsity_selector = 1 : i64} : () -> i32
  return
}

// -----

func.func @descriptor_max_shift() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op max_shift is legal with weight stationary (.ws) only}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 256 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32", max_shift = 8 : i64} : () -> i32
  return
}

// -----

func.func @descriptor_without_n() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op expects the attribute 'n'}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32"} : () -> i32
  return
}

// -----

func.func @descriptor_m_kind() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op expects attribute 'm' to be an integer, got "128"}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = "128", n = 256 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32"} : () -> i32
  return
}

// -----

func.func @descriptor_result() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op expects to return i32, got i64}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 256 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32"} : () -> i64
  return
}

// -----

func.func @scaled_descriptor_kind() {
  // expected-error @below {{'tcgen05.block_scaled_descriptor' op kind must be one of mxf8f6f4, mxf4, mxf4nvf4, got f16}}
  %0 = "tcgen05.block_scaled_descriptor"() {kind = "f16", m = 128 : i64, n = 64 : i64, a_type = "e2m1", b_type = "e2m1"} : () -> i32
  return
}

// -----

func.func @scaled_descriptor_m() {
  // expected-error @below {{'tcgen05.block_scaled_descriptor' op m must be 128 for kind mxf4 with cta_group::1, got 64}}
  %0 = "tcgen05.block_scaled_descriptor"() {kind = "mxf4", m = 64 : i64, n = 64 : i64, a_type = "e2m1", b_type = "e2m1"} : () -> i32
  return
}

// -----

func.func @scaled_descriptor_m_of_sparse() {
  // expected-error @below {{'tcgen05.block_scaled_descriptor' op m must be 256 for sparse kind mxf4 with cta_group::2, got 128}}
  %0 = "tcgen05.block_scaled_descriptor"() {kind = "mxf4", m = 128 : i64, n = 64 : i64, a_type = "e2m1", b_type = "e2m1", cta_group = 2 : i64, sparse = true} : () -> i32
  return
}

// -----

func.func @scaled_descriptor_type() {
  // expected-error @below {{'tcgen05.block_scaled_descriptor' op a_type must be e2m1 for kind mxf4, got e4m3}}
  %0 = "tcgen05.block_scaled_descriptor"() {kind = "mxf4", m = 128 : i64, n = 64 : i64, a_type = "e4m3", b_type = "e2m1"} : () -> i32
  return
}

// -----

func.func @scaled_descriptor_scale_type() {
  // expected-error @below {{'tcgen05.block_scaled_descriptor' op scale_type must be ue8m0 for kind mxf4, got ue4m3}}
  %0 = "tcgen05.block_scaled_descriptor"() {kind = "mxf4", m = 128 : i64, n = 64 : i64, a_type = "e2m1", b_type = "e2m1", scale_type = "ue4m3"} : () -> i32
  return
}

// -----

func.func @scaled_descriptor_scale_id() {
  // expected-error @below {{'tcgen05.block_scaled_descriptor' op a_scale_id must be 0 or 2 for kind mxf4, got 1}}
  %0 = "tcgen05.block_scaled_descriptor"() {kind = "mxf4", m = 128 : i64, n = 64 : i64, a_type = "e2m1", b_type = "e2m1", a_scale_id = 1 : i64} : () -> i32
  return
}

// -----

func.func @scaled_descriptor_transpose() {
  // expected-error @below {{'tcgen05.block_scaled_descriptor' op a transpose is legal for kinds f16, tf32, f8f6f4, i8, mxf8f6f4 only, got mxf4}}
  %0 = "tcgen05.block_scaled_descriptor"() {kind = "mxf4", m = 128 : i64, n = 64 : i64, a_type = "e2m1", b_type = "e2m1", transpose_b = true} : () -> i32
  return
}

// -----

func.func @scaled_descriptor_k() {
  // expected-error @below {{'tcgen05.block_scaled_descriptor' op k 96 is legal for a dense mxf4 or mxf4nvf4 only}}
  %0 = "tcgen05.block_scaled_descriptor"() {kind = "mxf4", sparse = true, m = 128 : i64, n = 64 : i64, a_type = "e2m1", b_type = "e2m1", k = 96 : i64} : () -> i32
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @scaled_descriptor_k_on_sm_100a() kernel {
    // expected-error @below {{'tcgen05.block_scaled_descriptor' op k 96 is legal on sm_103a, sm_107a only, got sm_100a}}
    %0 = "tcgen05.block_scaled_descriptor"() {kind = "mxf4", m = 256 : i64, n = 64 : i64, a_type = "e2m1", b_type = "e2m1", k = 96 : i64, cta_group = 2 : i64} : () -> i32
    gpu.return
  }
}

// -----

func.func @shared_descriptor_swizzle(%s: !llvm.ptr<3>) {
  // expected-error @below {{'tcgen05.shared_memory_descriptor' op swizzle must be one of none, 32B, 64B, 128B, 128B_32B, got 256B}}
  %0 = "tcgen05.shared_memory_descriptor"(%s) {swizzle = "256B"} : (!llvm.ptr<3>) -> i64
  return
}

// -----

func.func @shared_descriptor_offset(%s: !llvm.ptr<3>) {
  // expected-error @below {{'tcgen05.shared_memory_descriptor' op stride_byte_offset must be a multiple of 16, got 100; nearest legal: 96, 112}}
  %0 = "tcgen05.shared_memory_descriptor"(%s) {stride_byte_offset = 100 : i64} : (!llvm.ptr<3>) -> i64
  return
}

// -----

func.func @shared_descriptor_range(%s: !llvm.ptr<3>) {
  // expected-error @below {{'tcgen05.shared_memory_descriptor' op leading_byte_offset must be in 0..262128, got 262144}}
  %0 = "tcgen05.shared_memory_descriptor"(%s) {leading_byte_offset = 262144 : i64} : (!llvm.ptr<3>) -> i64
  return
}

// -----

func.func @shared_descriptor_base(%s: !llvm.ptr<3>) {
  // expected-error @below {{'tcgen05.shared_memory_descriptor' op base_offset is legal with a swizzle only}}
  %0 = "tcgen05.shared_memory_descriptor"(%s) {base_offset = 2 : i64} : (!llvm.ptr<3>) -> i64
  return
}

// -----

func.func @shared_descriptor_absolute(%s: !llvm.ptr<3>) {
  // expected-error @below {{'tcgen05.shared_memory_descriptor' op absolute is legal with swizzle 128B and base_offset 0 only, got 64B and 0}}
  %0 = "tcgen05.shared_memory_descriptor"(%s) {absolute = true, swizzle = "64B"} : (!llvm.ptr<3>) -> i64
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @shared_descriptor_absolute_on_sm_100a(%s: !llvm.ptr<3>) kernel {
    // expected-error @below {{'tcgen05.shared_memory_descriptor' op absolute is legal on sm_103a, sm_107a only, got sm_100a}}
    %0 = "tcgen05.shared_memory_descriptor"(%s) {absolute = true, swizzle = "128B"} : (!llvm.ptr<3>) -> i64
    gpu.return
  }
}

// -----

func.func @shared_descriptor_address(%s: !llvm.ptr<6>) {
  // expected-error @below {{'tcgen05.shared_memory_descriptor' op expects an address in shared memory (!llvm.ptr<3>), got !llvm.ptr<6>}}
  %0 = "tcgen05.shared_memory_descriptor"(%s) : (!llvm.ptr<6>) -> i64
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_107a">] {
  gpu.func @spcompress_without_red_reduces_nothing(%t: !llvm.ptr<6>) kernel {
    // expected-error @below {{'tcgen05.ld_spcompress' op expects 2 results, got 3}}
    %m, %d, %r = "tcgen05.ld_spcompress"(%t) {num = 4 : i64, op = "max"} : (!llvm.ptr<6>) -> (i32, vector<2xf32>, f32)
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_107a">] {
  gpu.func @spcompress_with_red_reduces(%t: !llvm.ptr<6>) kernel {
    // expected-error @below {{'tcgen05.ld_spcompress' op expects to return f32, got nothing}}
    %m, %d = "tcgen05.ld_spcompress"(%t) {num = 4 : i64, op = "max", red = true} : (!llvm.ptr<6>) -> (i32, vector<2xf32>)
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_103a">] {
  gpu.func @spcompress_is_for_sm_107(%t: !llvm.ptr<6>) kernel {
    // expected-error @below {{'tcgen05.ld_spcompress' op needs sm_107a: sm_103a has no form of tcgen05.ld.spcompress}}
    %m, %d = "tcgen05.ld_spcompress"(%t) {num = 4 : i64, op = "max"} : (!llvm.ptr<6>) -> (i32, vector<2xf32>)
    gpu.return
  }
}
