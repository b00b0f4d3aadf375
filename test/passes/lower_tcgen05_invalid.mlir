// RUN: weft-opt %s --split-input-file --verify-diagnostics --lower-tcgen05

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @two_groups(%b: !llvm.ptr<3>) kernel {
    // expected-note @below {{'tcgen05.commit' op has cta_group 2}}
    "tcgen05.commit"(%b) {cta_group = 2 : i64} : (!llvm.ptr<3>) -> ()
    // expected-error @below {{'tcgen05.relinquish_alloc_permit' op cta_group must be 2, as that of the function's 'tcgen05.commit', got 1}}
    "tcgen05.relinquish_alloc_permit"() {cta_group = 1 : i64} : () -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  llvm.func @one_group_each(%b: !llvm.ptr<3>) {
    "tcgen05.commit"(%b) {cta_group = 1 : i64} : (!llvm.ptr<3>) -> ()
    llvm.return
  }
  llvm.func @two_groups(%b: !llvm.ptr<3>) attributes {nvvm.kernel} {
    // expected-note @below {{'tcgen05.commit' op has cta_group 2}}
    "tcgen05.commit"(%b) {cta_group = 2 : i64} : (!llvm.ptr<3>) -> ()
    // expected-error @below {{'tcgen05.commit' op cta_group must be 2, as that of the function's 'tcgen05.commit', got 1}}
    "tcgen05.commit"(%b) {cta_group = 1 : i64} : (!llvm.ptr<3>) -> ()
    llvm.return
  }
}

// -----

func.func @two_groups(%b: !llvm.ptr<3>) {
  // expected-note @below {{'tcgen05.commit' op has cta_group 1}}
  "tcgen05.commit"(%b) {cta_group = 1 : i64} : (!llvm.ptr<3>) -> ()
  %t = llvm.mlir.zero : !llvm.ptr<6>
  // expected-error @below {{'tcgen05.shift' op cta_group must be 1, as that of the function's 'tcgen05.commit', got 2}}
  "tcgen05.shift"(%t) {cta_group = 2 : i64} : (!llvm.ptr<6>) -> ()
  return
}

// -----

llvm.func @kind_of_another_product(%d: !llvm.ptr<6>, %a: i64, %more: i1) {
  // expected-note @below {{'tcgen05.instruction_descriptor' op has kind f16}}
  %i = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 64 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32"} : () -> i32
  // expected-error @below {{'tcgen05.mma' op expects idesc of kind tf32, got f16}}
  "tcgen05.mma"(%d, %a, %a, %i, %more) {kind = "tf32", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  llvm.return
}

// -----

llvm.func @group_of_another_product(%d: !llvm.ptr<6>, %a: i64, %more: i1) {
  // expected-note @below {{'tcgen05.instruction_descriptor' op has cta_group 1}}
  %i = "tcgen05.instruction_descriptor"() {kind = "f16", m = 128 : i64, n = 64 : i64, a_type = "bf16", b_type = "bf16", d_type = "f32"} : () -> i32
  // expected-error @below {{'tcgen05.mma' op expects idesc of cta_group 2, got 1}}
  "tcgen05.mma"(%d, %a, %a, %i, %more) {kind = "f16", cta_group = 2 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
  llvm.return
}

// -----

llvm.func @sparse_and_dense(%d: !llvm.ptr<6>, %a: i64, %more: i1) {
  // expected-note @below {{'tcgen05.block_scaled_descriptor' op has sparse true}}
  %i = "tcgen05.block_scaled_descriptor"() {kind = "mxf8f6f4", m = 128 : i64, n = 64 : i64, a_type = "e4m3", b_type = "e4m3", sparse = true} : () -> i32
  // expected-error @below {{'tcgen05.mma_block_scale' op expects idesc of sparse false, got true}}
  "tcgen05.mma_block_scale"(%d, %a, %a, %i, %d, %d, %more) {kind = "mxf8f6f4", cta_group = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  llvm.return
}
