// RUN: weft-opt %s --split-input-file --verify-diagnostics --lower-tcgen05

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @two_groups(%b: !llvm.ptr<3>) kernel {
    "tcgen05.commit"(%b) {cta_group = 2 : i64} : (!llvm.ptr<3>) -> ()
    // expected-error @below {{'tcgen05.relinquish_alloc_permit' op cta_group must be 2, as that of the kernel's 'tcgen05.commit', got 1}}
    "tcgen05.relinquish_alloc_permit"() {cta_group = 1 : i64} : () -> ()
    gpu.return
  }
}
