// RUN: weft-opt %s --split-input-file --verify-diagnostics

gpu.module @m {
  gpu.func @type(%a: i32) kernel {
    // expected-error @+1 {{'dot.dp4a' op a_type must be s32 or u32, got f32; nearest legal: dp4a.s32.s32}}
    %0 = "dot.dp4a"(%a, %a, %a) {a_type = "f32", b_type = "s32"} : (i32, i32, i32) -> i32
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @register(%a: i64, %b: i32) kernel {
    // expected-error @+1 {{'dot.dp4a' op expects a of type i32, got i64}}
    %0 = "dot.dp4a"(%a, %b, %b) {a_type = "s32", b_type = "s32"} : (i64, i32, i32) -> i32
    gpu.return
  }
}
