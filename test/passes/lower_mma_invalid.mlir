// RUN: weft-opt %s --lower-mma --split-input-file --verify-diagnostics

gpu.module @m [#nvvm.target<chip = "sm_107a">] {
  gpu.func @sync(%h: vector<2xf16>, %f: f32) kernel {
    // expected-error @below {{'mma.sync' op can't be lowered for sm_107a: LLVM 22.1 generates no code for it}}
    %0 = "mma.sync"(%h, %h, %h, %f, %f, %f, %f) {shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_107a">] {
  gpu.func @movmatrix(%w: i32) kernel {
    // expected-error @below {{'mma.movmatrix' op can't be lowered for sm_107a: LLVM 22.1 generates no code for it}}
    %0 = "mma.movmatrix"(%w) : (i32) -> i32
    gpu.return
  }
}
