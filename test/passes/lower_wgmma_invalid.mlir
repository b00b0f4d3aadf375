// RUN: weft-opt %s --lower-wgmma --split-input-file --verify-diagnostics

func.func @no_number(%inouts: !llvm.struct<(f32, f32, f32, f32)>, %a: i64, %b: i64, %scale_d: i1) {
  // expected-error@+1 {{'wgmma.mma_async' op expects attribute 'first_sum' to be an integer, got none}}
  %0 = "wgmma.mma_async"(%inouts, %a, %b, %scale_d) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type =
    "f32", first_sum = none, operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>,
    i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @below_0(%inouts: !llvm.struct<(f32, f32, f32, f32)>, %a: i64, %b: i64, %scale_d: i1) {
  // expected-error@+1 {{'wgmma.mma_async' op first_sum must be in 0..65535, or -1 for sums that are values, got -4}}
  %0 = "wgmma.mma_async"(%inouts, %a, %b, %scale_d) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type =
    "f32", first_sum = -4, operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>,
    i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}
