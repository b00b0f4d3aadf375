// RUN: weft-opt %s --lower-subgroups --split-input-file --verify-diagnostics | FileCheck %s

!matrix = !gpu.mma_matrix<16x16xf32, "COp">
gpu.module @m {
  // The members of a segment are its own lanes.
  // CHECK-LABEL: gpu.func @narrow
  // CHECK-SAME: %[[X:.*]]: i32, %[[BY:.*]]: i32
  // CHECK: %[[LANE:.*]] = nvvm.read.ptx.sreg.laneid
  // CHECK: %[[OTHERS:.*]] = arith.subi %{{.*}}, %[[WIDTH:.*]] : i32
  // CHECK: %[[FIRST:.*]] = arith.andi %[[LANE]], %{{.*}} : i32
  // CHECK: %[[ALL:.*]] = arith.shrui %{{.*}}, %[[OTHERS]] : i32
  // CHECK: %[[MEMBERS:.*]] = arith.shli %[[ALL]], %[[FIRST]] : i32
  // CHECK: %[[KEPT:.*]] = arith.shli %[[OTHERS]], %{{.*}} : i32
  // CHECK: %[[END:.*]] = arith.ori %[[KEPT]], %{{.*}} : i32
  // CHECK: %[[BOTH:.*]] = nvvm.shfl.sync down %[[MEMBERS]], %[[X]], %[[BY]], %[[END]] {return_value_and_is_valid}
  // CHECK: llvm.extractvalue %[[BOTH]][1]
  gpu.func @narrow(%x: i32, %by: i32, %d: memref<i32>) kernel {
    %width = arith.constant 16 : i32
    %0, %1 = gpu.shuffle down %x, %by, %width : i32
    memref.store %0, %d[] : memref<i32>
    gpu.return
  }

  // CHECK-LABEL: gpu.func @whole
  // CHECK: gpu.shuffle down
  gpu.func @whole(%x: i32, %by: i32, %d: memref<i32>) kernel {
    %width = arith.constant 32 : i32
    %0, %1 = gpu.shuffle down %x, %by, %width : i32
    memref.store %0, %d[] : memref<i32>
    gpu.return
  }

  // printf reads 32 or 64 bits of an integer.
  // CHECK-LABEL: gpu.func @printed
  // CHECK: %[[BYTE:.*]] = arith.extsi %{{.*}} : i8 to i32
  // CHECK: %[[BIT:.*]] = arith.extui %{{.*}} : i1 to i32
  // CHECK: %[[LONG:.*]] = arith.extsi %{{.*}} : i48 to i64
  // CHECK: gpu.printf "%d %d %lld", %[[BYTE]], %[[BIT]], %[[LONG]] : i32, i32, i64
  gpu.func @printed(%byte: i8, %bit: i1, %long: i48) kernel {
    gpu.printf "%d %d %lld", %byte, %bit, %long : i8, i1, i48
    gpu.return
  }

  // CHECK-LABEL: gpu.func @difference
  // CHECK: %[[A:.*]] = gpu.subgroup_mma_load_matrix
  // CHECK: %[[B:.*]] = gpu.subgroup_mma_load_matrix
  // CHECK: %[[ONE:.*]] = gpu.subgroup_mma_constant_matrix
  // CHECK: %[[NEGATIVE:.*]] = gpu.subgroup_mma_elementwise mulf %[[B]], %[[ONE]]
  // CHECK: gpu.subgroup_mma_elementwise addf %[[A]], %[[NEGATIVE]]
  gpu.func @difference(%m: memref<16x16xf32>, %n: memref<16x16xf32>, %i: index) kernel {
    %0 = gpu.subgroup_mma_load_matrix %m[%i, %i] {leadDimension = 16 : index} : memref<16x16xf32> -> !matrix
    %1 = gpu.subgroup_mma_load_matrix %n[%i, %i] {leadDimension = 16 : index} : memref<16x16xf32> -> !matrix
    %2 = gpu.subgroup_mma_elementwise subf %0, %1 : (!matrix, !matrix) -> !matrix
    gpu.subgroup_mma_store_matrix %2, %m[%i, %i] {leadDimension = 16 : index} : !matrix, memref<16x16xf32>
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @width(%x: i32, %d: memref<i32>) kernel {
    %width = arith.constant 33 : i32
    // expected-error @below {{'gpu.shuffle' op must have a width of 1 to 32, got 33}}
    %0, %1 = gpu.shuffle xor %x, %x, %width : i32
    memref.store %0, %d[] : memref<i32>
    gpu.return
  }
}
