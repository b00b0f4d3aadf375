// RUN: weft-opt %s --split-input-file --verify-diagnostics

gpu.module @m [#nvvm.target<chip = "sm_100f">] {
  gpu.func @i8_needs_an_arch_specific_target(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) kernel {
    // expected-error @below {{'tcgen05.mma' op takes kind i8 on architecture-specific targets only (sm_100a, sm_110a), found sm_100f}}
    "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "i8", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_103a">] {
  gpu.func @i8_is_not_on_sm_103(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) kernel {
    // expected-error @below {{'tcgen05.mma_ws' op takes kind i8 on architecture-specific targets only (sm_100a, sm_110a), found sm_103a}}
    "tcgen05.mma_ws"(%t, %l, %l, %w, %c) {kind = "i8"} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_100f">] {
  gpu.func @sparse_mxf4_needs_an_arch_specific_target(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) kernel {
    // expected-error @below {{'tcgen05.sp_mma_block_scale' op takes kinds mxf4 and mxf4nvf4 on architecture-specific targets only (sm_100a, sm_103a, sm_107a, sm_110a), found kind mxf4 on sm_100f}}
    "tcgen05.sp_mma_block_scale"(%t, %l, %l, %t, %w, %t, %t, %c) {kind = "mxf4", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_103f">] {
  gpu.func @sparse_mxf4nvf4_needs_an_arch_specific_target(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) kernel {
    // expected-error @below {{'tcgen05.sp_mma_block_scale' op takes kinds mxf4 and mxf4nvf4 on architecture-specific targets only (sm_100a, sm_103a, sm_107a, sm_110a), found kind mxf4nvf4 on sm_103f}}
    "tcgen05.sp_mma_block_scale"(%t, %l, %l, %t, %w, %t, %t, %c) {kind = "mxf4nvf4", cta_group = 1 : i64, scale_vec = "block16", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_100f">] {
  gpu.func @scale_vec_needs_an_arch_specific_target(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) kernel {
    // expected-error @below {{'tcgen05.mma_block_scale' op takes an explicit scale vector size on architecture-specific targets only (sm_100a, sm_103a, sm_107a, sm_110a), found scale_vec::1X on sm_100f}}
    "tcgen05.mma_block_scale"(%t, %l, %l, %w, %t, %t, %c) {kind = "mxf8f6f4", cta_group = 1 : i64, scale_vec = "1X", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
    gpu.return
  }
}

// -----

func.func @scale_input_d_of_other_kinds(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op scales the input accumulator for kinds f16 and tf32 only, found kind f8f6f4}}
  "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "f8f6f4", cta_group = 1 : i64, scale_input_d = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  return
}

// -----

func.func @scale_input_d_of_i8(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.sp_mma' op scales the input accumulator for kinds f16 and tf32 only, found kind i8}}
  "tcgen05.sp_mma"(%t, %l, %l, %t, %w, %c) {kind = "i8", cta_group = 1 : i64, scale_input_d = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, i1) -> ()
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_110a">] {
  gpu.func @scale_input_d_is_not_on_sm_110a(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) kernel {
    // expected-error @below {{'tcgen05.mma' op scales the input accumulator on sm_100f, sm_100a, sm_103f, sm_103a, sm_107f, sm_107a only, found sm_110a}}
    "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "f16", cta_group = 1 : i64, scale_input_d = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
    gpu.return
  }
}

// -----

func.func @scale_input_d_range(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op expects scale_input_d to be in 0..15, got 16}}
  "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "f16", cta_group = 1 : i64, scale_input_d = 16 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  return
}

// -----

func.func @no_block_scale_for_f16(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_block_scale' op takes no .block_scale for kind f16: with it the kind is one of mxf8f6f4, mxf4, mxf4nvf4}}
  "tcgen05.mma_block_scale"(%t, %l, %l, %w, %t, %t, %c) {kind = "f16", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// -----

func.func @no_block_scale_for_tf32(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_block_scale' op takes no .block_scale for kind tf32: with it the kind is one of mxf8f6f4, mxf4, mxf4nvf4}}
  "tcgen05.mma_block_scale"(%t, %l, %l, %w, %t, %t, %c) {kind = "tf32", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// -----

func.func @no_block_scale_for_f8f6f4(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.sp_mma_block_scale' op takes no .block_scale for kind f8f6f4: with it the kind is one of mxf8f6f4, mxf4, mxf4nvf4}}
  "tcgen05.sp_mma_block_scale"(%t, %l, %l, %t, %w, %t, %t, %c) {kind = "f8f6f4", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// -----

func.func @no_block_scale_for_i8(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_block_scale' op takes no .block_scale for kind i8: with it the kind is one of mxf8f6f4, mxf4, mxf4nvf4}}
  "tcgen05.mma_block_scale"(%t, %l, %l, %w, %t, %t, %c) {kind = "i8", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// -----

func.func @mxf4_needs_block_scale(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op needs .block_scale for kind mxf4: without it the kind is one of f16, tf32, f8f6f4, i8, ti16}}
  "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "mxf4", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  return
}

// -----

func.func @no_ashift_with_block_scale(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_block_scale' op takes no ashift with block scale}}
  "tcgen05.mma_block_scale"(%t, %t, %l, %w, %t, %t, %c) {kind = "mxf8f6f4", cta_group = 1 : i64, ashift = true, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, !llvm.ptr<6>, i64, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// -----

func.func @ashift_needs_a_in_tensor_memory(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op shifts A in tensor memory only (ashift), found A in shared memory}}
  "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "f16", cta_group = 1 : i64, ashift = true, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  return
}

// -----

func.func @no_collector_fill_with_ashift(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op takes no collector::a::fill with ashift: it is one of discard, lastuse}}
  "tcgen05.mma"(%t, %t, %l, %w, %c) {kind = "f16", cta_group = 1 : i64, ashift = true, collector_a = "fill", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, !llvm.ptr<6>, i64, i32, i1) -> ()
  return
}

// -----

func.func @no_collector_use_with_ashift(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.sp_mma' op takes no collector::a::use with ashift: it is one of discard, lastuse}}
  "tcgen05.sp_mma"(%t, %t, %l, %t, %w, %c) {kind = "f16", cta_group = 1 : i64, ashift = true, collector_a = "use", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 0, 1>} : (!llvm.ptr<6>, !llvm.ptr<6>, i64, !llvm.ptr<6>, i32, i1) -> ()
  return
}

// -----

func.func @no_cta_group_2_with_weight_stationary(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_ws' op takes no cta_group::2 with weight stationary: it is cta_group::1}}
  "tcgen05.mma_ws"(%t, %l, %l, %w, %c) {kind = "f16", cta_group = 2 : i64} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  return
}

// -----

func.func @no_mxf8f6f4_with_weight_stationary(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_ws' op takes no kind mxf8f6f4 with weight stationary: it is one of f16, tf32, f8f6f4, i8, ti16}}
  "tcgen05.mma_ws"(%t, %l, %l, %w, %c) {kind = "mxf8f6f4"} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  return
}

// -----

func.func @no_fp4_with_weight_stationary(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.sp_mma_ws' op takes no kind mxf4 with weight stationary: it is one of f16, tf32, f8f6f4, i8, ti16}}
  "tcgen05.sp_mma_ws"(%t, %l, %l, %t, %w, %c) {kind = "mxf4"} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, i1) -> ()
  return
}

// -----

func.func @no_mxf4nvf4_with_weight_stationary(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_ws' op takes no kind mxf4nvf4 with weight stationary: it is one of f16, tf32, f8f6f4, i8, ti16}}
  "tcgen05.mma_ws"(%t, %l, %l, %w, %c) {kind = "mxf4nvf4"} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  return
}

// -----

func.func @no_ashift_with_weight_stationary(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_ws' op takes no ashift with weight stationary}}
  "tcgen05.mma_ws"(%t, %t, %l, %w, %c) {kind = "f16", ashift = true} : (!llvm.ptr<6>, !llvm.ptr<6>, i64, i32, i1) -> ()
  return
}

// -----

func.func @no_2x_for_mxf8f6f4(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_block_scale' op takes no scale_vec::2X for kind mxf8f6f4: its scale vector size is one of none, scale_vec::1X, block32}}
  "tcgen05.mma_block_scale"(%t, %l, %l, %w, %t, %t, %c) {kind = "mxf8f6f4", cta_group = 1 : i64, scale_vec = "2X", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// -----

func.func @no_4x_for_mxf8f6f4(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_block_scale' op takes no scale_vec::4X for kind mxf8f6f4: its scale vector size is one of none, scale_vec::1X, block32}}
  "tcgen05.mma_block_scale"(%t, %l, %l, %w, %t, %t, %c) {kind = "mxf8f6f4", cta_group = 1 : i64, scale_vec = "4X", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// -----

func.func @no_1x_for_mxf4nvf4(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_block_scale' op takes no scale_vec::1X for kind mxf4nvf4: its scale vector size is one of scale_vec::2X, scale_vec::4X, block16, block32}}
  "tcgen05.mma_block_scale"(%t, %l, %l, %w, %t, %t, %c) {kind = "mxf4nvf4", cta_group = 1 : i64, scale_vec = "1X", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// -----

func.func @mxf4nvf4_needs_a_size(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma_block_scale' op needs a scale vector size for kind mxf4nvf4: one of scale_vec::2X, scale_vec::4X, block16, block32}}
  "tcgen05.mma_block_scale"(%t, %l, %l, %w, %t, %t, %c) {kind = "mxf4nvf4", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// -----

func.func @no_1x_for_mxf4(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.sp_mma_block_scale' op takes no scale_vec::1X for kind mxf4: its scale vector size is one of none, scale_vec::2X, block32}}
  "tcgen05.sp_mma_block_scale"(%t, %l, %l, %t, %w, %t, %t, %c) {kind = "mxf4", cta_group = 1 : i64, scale_vec = "1X", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// -----

func.func @no_4x_for_mxf4(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.sp_mma_block_scale' op takes no scale_vec::4X for kind mxf4: its scale vector size is one of none, scale_vec::2X, block32}}
  "tcgen05.sp_mma_block_scale"(%t, %l, %l, %t, %w, %t, %t, %c) {kind = "mxf4", cta_group = 1 : i64, scale_vec = "4X", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  return
}

// -----

func.func @cp_shape(%t: !llvm.ptr<6>, %l: i64) {
  // expected-error @below {{'tcgen05.cp' op copies no shape 64x256b: it is one of 128x256b, 4x256b, 128x128b, 64x128b, 32x128b; nearest legal: tcgen05.cp.cta_group::1.4x256b, tcgen05.cp.cta_group::1.128x256b, tcgen05.cp.cta_group::1.128x128b}}
  "tcgen05.cp"(%t, %l) {shape = "64x256b", multicast = "", cta_group = 1 : i64} : (!llvm.ptr<6>, i64) -> ()
  return
}

// -----

func.func @cp_format(%t: !llvm.ptr<6>, %l: i64) {
  // expected-error @below {{'tcgen05.cp' op has no source format b8x16: it is b6x16_p32 or b4x16_p64 (to b8x16), or none}}
  "tcgen05.cp"(%t, %l) {shape = "128x256b", multicast = "", cta_group = 1 : i64, source_format = "b8x16"} : (!llvm.ptr<6>, i64) -> ()
  return
}

// -----

func.func @cp_needs_a_multicast(%t: !llvm.ptr<6>, %l: i64) {
  // expected-error @below {{'tcgen05.cp' op copies shape 64x128b with multicast warpx2::02_13 or warpx2::01_23, found no multicast}}
  "tcgen05.cp"(%t, %l) {shape = "64x128b", multicast = "", cta_group = 1 : i64} : (!llvm.ptr<6>, i64) -> ()
  return
}

// -----

func.func @cp_has_no_multicast(%t: !llvm.ptr<6>, %l: i64) {
  // expected-error @below {{'tcgen05.cp' op copies shape 128x256b with multicast none, found multicast warpx4; nearest legal: tcgen05.cp.cta_group::1.128x256b, tcgen05.cp.cta_group::1.32x128b.warpx4, tcgen05.cp.cta_group::1.128x256b.b8x16.b6x16_p32}}
  "tcgen05.cp"(%t, %l) {shape = "128x256b", multicast = "warpx4", cta_group = 1 : i64} : (!llvm.ptr<6>, i64) -> ()
  return
}

// -----

func.func @cp_another_multicast(%t: !llvm.ptr<6>, %l: i64) {
  // expected-error @below {{'tcgen05.cp' op copies shape 64x128b with multicast warpx2::02_13 or warpx2::01_23, found multicast warpx2::03_12}}
  "tcgen05.cp"(%t, %l) {shape = "64x128b", multicast = "warpx2::03_12", cta_group = 1 : i64} : (!llvm.ptr<6>, i64) -> ()
  return
}

// -----

func.func @commit_mask_of_8_bits(%s: !llvm.ptr<3>, %b: i8) {
  // expected-error @below {{'tcgen05.commit' op has no multicast mask of 8 bits: it has 16, or 32 on sm_107a and sm_107f}}
  "tcgen05.commit"(%s, %b) {cta_group = 1 : i64} : (!llvm.ptr<3>, i8) -> ()
  return
}

// -----

func.func @commit_mask_of_64_bits(%s: !llvm.ptr<3>, %l: i64) {
  // expected-error @below {{'tcgen05.commit' op has no multicast mask of 64 bits: it has 16, or 32 on sm_107a and sm_107f}}
  "tcgen05.commit"(%s, %l) {cta_group = 1 : i64} : (!llvm.ptr<3>, i64) -> ()
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @commit_mask_of_32_bits_is_for_sm_107(%s: !llvm.ptr<3>, %w: i32) kernel {
    // expected-error @below {{'tcgen05.commit' op has a multicast mask of 32 bits on sm_107a and sm_107f only: sm_100a has 16 bits}}
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
  // expected-error @below {{'tcgen05.commit' op has no sync_restrict shared::cta: it is one of none, shared::read::mma::a}}
  "tcgen05.commit"(%s) {cta_group = 1 : i64, sync_restrict = "shared::cta"} : (!llvm.ptr<3>) -> ()
  return
}

// -----

func.func @alloc_cta_group(%s: !llvm.ptr<3>, %w: i32) {
  // expected-error @below {{'tcgen05.alloc' op has no cta_group 3: it is one of 1, 2}}
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
  // expected-error @below {{'tcgen05.alloc' op expects columns to be one of 32, 64, 128, 256, 512, got 48}}
  "tcgen05.alloc"(%s, %c) {cta_group = 1 : i64} : (!llvm.ptr<3>, i32) -> ()
  return
}

// -----

func.func @dealloc_constant_columns(%t: !llvm.ptr<6>) {
  %c = llvm.mlir.constant(16 : i32) : i32
  // expected-error @below {{'tcgen05.dealloc' op expects columns to be one of 32, 64, 128, 256, 512, got 16}}
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
  // expected-error @below {{'tcgen05.dealloc' op expects the attribute 'cta_group'}}
  "tcgen05.dealloc"(%t, %w) : (!llvm.ptr<6>, i32) -> ()
  return
}

// -----

func.func @relinquish_cta_group() {
  // expected-error @below {{'tcgen05.relinquish_alloc_permit' op needs cta_group: it is one of 1, 2; nearest legal: tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned, tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned}}
  "tcgen05.relinquish_alloc_permit"() {cta_group = 0 : i64} : () -> ()
  return
}

// -----

func.func @wait_kind() {
  // expected-error @below {{'tcgen05.wait' op has no kind mma: it is one of ld, st; nearest legal: tcgen05.wait::ld.sync.aligned, tcgen05.wait::st.sync.aligned}}
  "tcgen05.wait"() {kind = "mma"} : () -> ()
  return
}

// -----

func.func @fence_kind() {
  // expected-error @below {{'tcgen05.fence' op has no kind before: it is one of before_thread_sync, after_thread_sync; nearest legal: tcgen05.fence::before_thread_sync, tcgen05.fence::after_thread_sync}}
  "tcgen05.fence"() {kind = "before"} : () -> ()
  return
}

// -----

func.func @shift_direction(%t: !llvm.ptr<6>) {
  // expected-error @below {{'tcgen05.shift' op shifts down only, found up; nearest legal: tcgen05.shift.cta_group::1.down, tcgen05.shift.cta_group::2.down}}
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
  // expected-error @below {{'tcgen05.ld' op has no shape 16x32b: it is one of 16x64b, 16x128b, 16x256b, 32x32b, 16x32bx2; nearest legal: tcgen05.ld.sync.aligned.16x32bx2.x2.b32, tcgen05.ld.sync.aligned.32x32b.x2.b32, tcgen05.ld.sync.aligned.16x64b.x2.b32}}
  %0 = "tcgen05.ld"(%t) {shape = "16x32b", num = 2 : i64} : (!llvm.ptr<6>) -> vector<2xi32>
  return
}

// -----

func.func @ld_count(%t: !llvm.ptr<6>) {
  // expected-error @below {{'tcgen05.ld' op has no num 3: it is one of 1, 2, 4, 8, 16, 32, 64, 128; nearest legal: tcgen05.ld.sync.aligned.16x64b.x2.b32, tcgen05.ld.sync.aligned.16x64b.x4.b32, tcgen05.ld.sync.aligned.16x64b.x1.b32}}
  %0 = "tcgen05.ld"(%t) {shape = "16x64b", num = 3 : i64} : (!llvm.ptr<6>) -> vector<2xi32>
  return
}

// -----

func.func @ld_too_many_registers(%t: !llvm.ptr<6>) {
  // expected-error @below {{'tcgen05.ld' op moves at most 128 registers: 16x256b goes up to x32, found x64; nearest legal: tcgen05.ld.sync.aligned.16x256b.x32.b32, tcgen05.ld.sync.aligned.16x256b.x16.b32, tcgen05.ld.sync.aligned.16x256b.x8.b32}}
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
  // expected-error @below {{'tcgen05.ld' op takes no offset in this form: its operands are data, address}}
  %0 = "tcgen05.ld"(%t) {shape = "16x64b", num = 2 : i64, offset = 0 : i64} : (!llvm.ptr<6>) -> vector<2xi32>
  return
}

// -----

func.func @ld_offset_range(%t: !llvm.ptr<6>) {
  // expected-error @below {{'tcgen05.ld' op expects offset to be in 0..511, got 512}}
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
  // expected-error @below {{'tcgen05.ld_red' op has no shape 16x64b: it is one of 32x32b, 16x32bx2; nearest legal: tcgen05.ld.red.sync.aligned.16x32bx2.x4.min.u32, tcgen05.ld.red.sync.aligned.32x32b.x4.min.u32, tcgen05.ld.red.sync.aligned.16x32bx2.x4.min.s32}}
  %0:2 = "tcgen05.ld_red"(%t) {shape = "16x64b", num = 4 : i64, op = "min", type = "u32"} : (!llvm.ptr<6>) -> (vector<4xi32>, i32)
  return
}

// -----

func.func @ld_red_operation(%t: !llvm.ptr<6>) {
  // expected-error @below {{'tcgen05.ld_red' op has no op add: it is one of min, max; nearest legal: tcgen05.ld.red.sync.aligned.32x32b.x4.min.u32, tcgen05.ld.red.sync.aligned.32x32b.x4.max.u32, tcgen05.ld.red.sync.aligned.32x32b.x4.min.s32}}
  %0:2 = "tcgen05.ld_red"(%t) {shape = "32x32b", num = 4 : i64, op = "add", type = "u32"} : (!llvm.ptr<6>) -> (vector<4xi32>, i32)
  return
}

// -----

func.func @ld_red_nan_of_integers(%t: !llvm.ptr<6>) {
  // expected-error @below {{'tcgen05.ld_red' op takes .abs and .NaN for f32 only, found .NaN with u32}}
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
  // expected-error @below {{'tcgen05.mma' op has no kind f32: it is one of f16, tf32, f8f6f4, i8, ti16}}
  "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "f32", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  return
}

// -----

func.func @mma_cta_group(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op has no cta_group 3: it is one of 1, 2}}
  "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "f16", cta_group = 3 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  return
}

// -----

func.func @mma_collector(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op has no collector_a keep: it is one of discard, lastuse, fill, use}}
  "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "f16", cta_group = 1 : i64, collector_a = "keep", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  return
}

// -----

func.func @mma_mask_of_eight_registers(%t: !llvm.ptr<6>, %l: i64, %w: i32, %v8: vector<8xi32>, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op masks output lanes with 4 registers for cta_group::1, found 8}}
  "tcgen05.mma"(%t, %l, %l, %w, %v8, %c) {kind = "f16", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, vector<8xi32>, i1) -> ()
  return
}

// -----

func.func @mma_mask_of_four_registers_for_two_ctas(%t: !llvm.ptr<6>, %l: i64, %w: i32, %v4: vector<4xi32>, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op masks output lanes with 8 registers for cta_group::2, found 4}}
  "tcgen05.mma"(%t, %l, %l, %w, %v4, %c) {kind = "f16", cta_group = 2 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, vector<4xi32>, i1) -> ()
  return
}

// -----

func.func @mma_mask_of_one_register(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op masks output lanes with 4 registers for cta_group::1, found 1}}
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
    // expected-error @below {{'tcgen05.mma' op takes .collector::b on sm_107f, sm_107a only, found sm_100a}}
    "tcgen05.mma"(%t, %l, %l, %w, %c) {kind = "f16", cta_group = 1 : i64, collector_b = "fill", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @decompress_is_for_sm_107(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) kernel {
    // expected-error @below {{'tcgen05.mma' op takes .decompress on sm_107f, sm_107a only, found sm_100a}}
    "tcgen05.mma"(%t, %l, %l, %t, %w, %c) {kind = "f8f6f4", cta_group = 1 : i64, decompress = "lut::b", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, i1) -> ()
    gpu.return
  }
}

// -----

func.func @decompress_kind(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  // expected-error @below {{'tcgen05.mma' op takes decompress::lut::b with kinds f8f6f4 and mxf8f6f4, dense and unshifted, found kind f16}}
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
  // expected-error @below {{'tcgen05.mma_ws' op has no collector buffer b4 with weight stationary: it is one of b0, b1, b2, b3}}
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
  // expected-error @below {{'tcgen05.instruction_descriptor' op has no kind mxf4: it is one of f16, tf32, f8f6f4, i8}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "mxf4", m = 128 : i64, n = 256 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32"} : () -> i32
  return
}

// -----

func.func @descriptor_m() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op has no m 96 for kind f16 with cta_group::1: it is one of 64, 128}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 96 : i64, n = 256 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32"} : () -> i32
  return
}

// -----

func.func @descriptor_m_of_two_ctas() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op has no m 64 for kind f16 with cta_group::2: it is one of 128, 256}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 64 : i64, n = 256 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32", cta_group = 2 : i64} : () -> i32
  return
}

// -----

func.func @descriptor_n() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op has no n 260 for kind f16 with cta_group::1: it is 8 to 256, by 8; nearest legal: 248, 256}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 260 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32"} : () -> i32
  return
}

// -----

func.func @descriptor_n_of_two_ctas() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op has no n 24 for kind f16 with cta_group::2: it is 16 to 256, by 16; nearest legal: 16, 32}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 24 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32", cta_group = 2 : i64} : () -> i32
  return
}

// -----

func.func @descriptor_n_of_i8() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op has no n 40 for kind i8 with cta_group::1: it is 8 to 256, by 8 then by 16; nearest legal: 32, 48}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "i8", m = 128 : i64, n = 40 : i64, a_type = "s8", b_type = "s8", d_type = "s32"} : () -> i32
  return
}

// -----

func.func @descriptor_m_of_weight_stationary() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op has no m 256 for kind f16 with cta_group::1 and weight stationary: it is one of 32, 64, 128}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 256 : i64, n = 256 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32", ws = true} : () -> i32
  return
}

// -----

func.func @descriptor_n_of_weight_stationary() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op has no n 32 for kind f16 with cta_group::1 and weight stationary: it is one of 64, 128, 256}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 32 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32", ws = true} : () -> i32
  return
}

// -----

func.func @descriptor_cta_group_of_weight_stationary() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op has no cta_group 2 with weight stationary: it is one of 1}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 256 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32", cta_group = 2 : i64, ws = true} : () -> i32
  return
}

// -----

func.func @descriptor_a_type() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op has no a_type tf32 for kind f16: it is one of f16, bf16}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 256 : i64, a_type = "tf32", b_type = "bf16", d_type = "f32"} : () -> i32
  return
}

// -----

func.func @descriptor_d_type() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op has no d_type s32 for kind f16: it is one of f16, f32}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 256 : i64, a_type = "bf16", b_type = "bf16", d_type = "s32"} : () -> i32
  return
}

// -----

func.func @descriptor_f16_accumulator() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op takes d_type f16 with f16 A and B only, found bf16}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 256 : i64, a_type = "bf16", b_type = "bf16", d_type = "f16"} : () -> i32
  return
}

// -----

func.func @descriptor_saturate() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op takes saturate for kind i8 only}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 256 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32", saturate = true} : () -> i32
  return
}

// -----

func.func @descriptor_negated_integers() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op takes a negation for kinds f16, tf32, f8f6f4, mxf8f6f4, mxf4, mxf4nvf4 only, found i8}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "i8", m = 128 : i64, n = 256 : i64, a_type = "s8", b_type = "s8", d_type = "s32", negate_a = true} : () -> i32
  return
}

// -----

func.func @descriptor_transposed_a_in_tensor_memory() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op takes transpose_a with A in shared memory only, found A in tensor memory}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 256 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32", a = "tensor", transpose_a = true} : () -> i32
  return
}

// -----

func.func @descriptor_selector_of_dense() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op takes sparsity_selector with a sparse A only}}
  %0 = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 256 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32", sparsity_selector = 1 : i64} : () -> i32
  return
}

// -----

func.func @descriptor_max_shift() {
  // expected-error @below {{'tcgen05.instruction_descriptor' op takes max_shift with weight stationary (.ws) only}}
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
  // expected-error @below {{'tcgen05.block_scaled_descriptor' op has no kind f16: it is one of mxf8f6f4, mxf4, mxf4nvf4}}
  %0 = "tcgen05.block_scaled_descriptor"() {kind = "f16", m = 128 : i64, n = 64 : i64, a_type = "e2m1", b_type = "e2m1"} : () -> i32
  return
}

// -----

func.func @scaled_descriptor_m() {
  // expected-error @below {{'tcgen05.block_scaled_descriptor' op has no m 64 for kind mxf4 with cta_group::1: it is one of 128}}
  %0 = "tcgen05.block_scaled_descriptor"() {kind = "mxf4", m = 64 : i64, n = 64 : i64, a_type = "e2m1", b_type = "e2m1"} : () -> i32
  return
}

// -----

func.func @scaled_descriptor_m_of_sparse() {
  // expected-error @below {{'tcgen05.block_scaled_descriptor' op has no m 128 for sparse kind mxf4 with cta_group::2: it is one of 256}}
  %0 = "tcgen05.block_scaled_descriptor"() {kind = "mxf4", m = 128 : i64, n = 64 : i64, a_type = "e2m1", b_type = "e2m1", cta_group = 2 : i64, sparse = true} : () -> i32
  return
}

// -----

func.func @scaled_descriptor_type() {
  // expected-error @below {{'tcgen05.block_scaled_descriptor' op has no a_type e4m3 for kind mxf4: it is one of e2m1}}
  %0 = "tcgen05.block_scaled_descriptor"() {kind = "mxf4", m = 128 : i64, n = 64 : i64, a_type = "e4m3", b_type = "e2m1"} : () -> i32
  return
}

// -----

func.func @scaled_descriptor_scale_type() {
  // expected-error @below {{'tcgen05.block_scaled_descriptor' op has no scale_type ue4m3 for kind mxf4: it is one of ue8m0}}
  %0 = "tcgen05.block_scaled_descriptor"() {kind = "mxf4", m = 128 : i64, n = 64 : i64, a_type = "e2m1", b_type = "e2m1", scale_type = "ue4m3"} : () -> i32
  return
}

// -----

func.func @scaled_descriptor_scale_id() {
  // expected-error @below {{'tcgen05.block_scaled_descriptor' op has no a_scale_id 1 for kind mxf4: it is one of 0, 2}}
  %0 = "tcgen05.block_scaled_descriptor"() {kind = "mxf4", m = 128 : i64, n = 64 : i64, a_type = "e2m1", b_type = "e2m1", a_scale_id = 1 : i64} : () -> i32
  return
}

// -----

func.func @scaled_descriptor_transpose() {
  // expected-error @below {{'tcgen05.block_scaled_descriptor' op takes a transpose for kinds f16, tf32, f8f6f4, i8, mxf8f6f4 only, found mxf4}}
  %0 = "tcgen05.block_scaled_descriptor"() {kind = "mxf4", m = 128 : i64, n = 64 : i64, a_type = "e2m1", b_type = "e2m1", transpose_b = true} : () -> i32
  return
}

// -----

func.func @scaled_descriptor_k() {
  // expected-error @below {{'tcgen05.block_scaled_descriptor' op takes k 96 for a dense mxf4 or mxf4nvf4 only}}
  %0 = "tcgen05.block_scaled_descriptor"() {kind = "mxf4", sparse = true, m = 128 : i64, n = 64 : i64, a_type = "e2m1", b_type = "e2m1", k = 96 : i64} : () -> i32
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @scaled_descriptor_k_on_sm_100a() kernel {
    // expected-error @below {{'tcgen05.block_scaled_descriptor' op takes k 96 on sm_103a, sm_107a only, found sm_100a}}
    %0 = "tcgen05.block_scaled_descriptor"() {kind = "mxf4", m = 256 : i64, n = 64 : i64, a_type = "e2m1", b_type = "e2m1", k = 96 : i64, cta_group = 2 : i64} : () -> i32
    gpu.return
  }
}

// -----

func.func @shared_descriptor_swizzle(%s: !llvm.ptr<3>) {
  // expected-error @below {{'tcgen05.shared_memory_descriptor' op has no swizzle 256B: it is one of none, 32B, 64B, 128B, 128B_32B}}
  %0 = "tcgen05.shared_memory_descriptor"(%s) {swizzle = "256B"} : (!llvm.ptr<3>) -> i64
  return
}

// -----

func.func @shared_descriptor_offset(%s: !llvm.ptr<3>) {
  // expected-error @below {{'tcgen05.shared_memory_descriptor' op needs stride_byte_offset in multiples of 16, got 100; nearest legal: 96, 112}}
  %0 = "tcgen05.shared_memory_descriptor"(%s) {stride_byte_offset = 100 : i64} : (!llvm.ptr<3>) -> i64
  return
}

// -----

func.func @shared_descriptor_range(%s: !llvm.ptr<3>) {
  // expected-error @below {{'tcgen05.shared_memory_descriptor' op needs leading_byte_offset from 0 to 262128, got 262144}}
  %0 = "tcgen05.shared_memory_descriptor"(%s) {leading_byte_offset = 262144 : i64} : (!llvm.ptr<3>) -> i64
  return
}

// -----

func.func @shared_descriptor_base(%s: !llvm.ptr<3>) {
  // expected-error @below {{'tcgen05.shared_memory_descriptor' op takes base_offset with a swizzle only}}
  %0 = "tcgen05.shared_memory_descriptor"(%s) {base_offset = 2 : i64} : (!llvm.ptr<3>) -> i64
  return
}

// -----

func.func @shared_descriptor_absolute(%s: !llvm.ptr<3>) {
  // expected-error @below {{'tcgen05.shared_memory_descriptor' op takes absolute with swizzle 128B and base_offset 0 only, found 64B and 0}}
  %0 = "tcgen05.shared_memory_descriptor"(%s) {absolute = true, swizzle = "64B"} : (!llvm.ptr<3>) -> i64
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @shared_descriptor_absolute_on_sm_100a(%s: !llvm.ptr<3>) kernel {
    // expected-error @below {{'tcgen05.shared_memory_descriptor' op takes absolute on sm_103a, sm_107a only, found sm_100a}}
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
