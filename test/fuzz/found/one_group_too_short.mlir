// COMMAND: weft compile --emit mlir --arch sm_90a
gpu.module @m {
  gpu.func @k(%inouts: !llvm.struct<(f32, f32, f32, f32)>, %a: i64, %b: i64, %scale_d: i1) kernel {
    %0 = "wgmma.mma_async"(%inouts, %a, %b, %scale_d) {
      shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32",
      operandSegmentSizes = array<i32: 0, 2, 1, 1>
    } : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}
