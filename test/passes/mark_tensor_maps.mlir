// RUN: weft-opt %s --mark-tensor-maps | FileCheck %s

gpu.module @m {
  // The last parameters are maps: 128 bytes each, by value, that TMA reads where the launch put them.
  // CHECK-LABEL: llvm.func @two_maps
  // CHECK-SAME: (%{{[a-z0-9]+}}: !llvm.ptr<1>, %{{[a-z0-9]+}}: i32,
  // CHECK-SAME: %{{[a-z0-9]+}}: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant},
  // CHECK-SAME: %{{[a-z0-9]+}}: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant})
  llvm.func @two_maps(%a: !llvm.ptr<1>, %n: i32, %m: !llvm.ptr, %o: !llvm.ptr) attributes {gpu.kernel, nvvm.kernel,
      weft.tensor_maps = [{box = array<i64: 64, 64>, l2_promotion = "256B", matrix = 0, swizzle = "128B"}, {box = array<i64: 8, 16>, l2_promotion = "none", matrix = 0, swizzle = "none"}]} {
    llvm.return
  }

  // What other parameters say stays.
  // CHECK-LABEL: llvm.func @others
  // CHECK-SAME: (%{{[a-z0-9]+}}: !llvm.ptr<1> {llvm.noalias}, %{{[a-z0-9]+}}: i32, %{{[a-z0-9]+}}: !llvm.ptr {llvm.align = 64 : i64,
  llvm.func @others(%a: !llvm.ptr<1> {llvm.noalias}, %n: i32, %m: !llvm.ptr) attributes {gpu.kernel, nvvm.kernel,
      weft.tensor_maps = [{box = array<i64: 64, 64>, l2_promotion = "256B", matrix = 0, swizzle = "128B"}]} {
    llvm.return
  }

  // CHECK-LABEL: llvm.func @without_maps
  // CHECK-NOT: llvm.byval
  llvm.func @without_maps(%a: !llvm.ptr) attributes {gpu.kernel, nvvm.kernel} {
    llvm.return
  }
}
