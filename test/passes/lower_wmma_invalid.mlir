// RUN: weft-opt %s --lower-wmma --split-input-file --verify-diagnostics

gpu.module @m [#nvvm.target<chip = "sm_107a">] {
  gpu.func @load(%p: !llvm.ptr) kernel {
    // expected-error @below {{'wmma.load' op can't be lowered for sm_107a: LLVM 22.1 generates no code for it}}
    %0 = "wmma.load"(%p) {shape = "m8n8k32", fragment = "a", type = "s4"} : (!llvm.ptr) -> i32
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_107a">] {
  gpu.func @mma(%w: i32) kernel {
    // expected-error @below {{'wmma.mma' op can't be lowered for sm_107a: LLVM 22.1 generates no code for it}}
    %0 = "wmma.mma"(%w, %w, %w, %w) {shape = "m8n8k128", a_type = "b1", b_type = "b1", c_type = "s32", d_type = "s32", bit_op = "and.popc", operandSegmentSizes = array<i32: 1, 1, 2>} : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
    gpu.return
  }
}
