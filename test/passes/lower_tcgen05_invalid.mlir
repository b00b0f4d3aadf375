// RUN: weft-opt %s --lower-tcgen05 --split-input-file --verify-diagnostics

gpu.module @m [#nvvm.target<chip = "sm_107a">] {
  gpu.func @wait() kernel {
    // expected-error @below {{'tcgen05.wait' op can't be lowered for sm_107a: LLVM 22.1 generates no code for it}}
    "tcgen05.wait"() {kind = "ld"} : () -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_107a">] {
  gpu.func @commit(%s: !llvm.ptr<3>, %w: i32) kernel {
    // expected-error @below {{'tcgen05.commit' op can't be lowered for sm_107a: LLVM 22.1 generates no code for it}}
    "tcgen05.commit"(%s, %w) {cta_group = 1 : i64} : (!llvm.ptr<3>, i32) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_107a">] {
  gpu.func @mma(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) kernel {
    // expected-error @below {{'tcgen05.mma' op can't be lowered for sm_107a: LLVM 22.1 generates no code for it}}
    "tcgen05.mma"(%t, %l, %l, %t, %w, %c) {kind = "f8f6f4", cta_group = 1 : i64, collector_b = "fill", decompress = "lut::b", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, !llvm.ptr<6>, i32, i1) -> ()
    gpu.return
  }
}
