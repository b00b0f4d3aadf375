// RUN: weft-opt %s --cse --lower-dot | FileCheck %s

// Bytes of A are signed, and those of B unsigned. Of two equal operations, one is left.
// CHECK-LABEL: gpu.func @mixed(
// CHECK-SAME: %[[A:.*]]: i32, %[[B:.*]]: i32, %[[C:.*]]: i32,
// CHECK: %[[D:.*]] = llvm.inline_asm {{.*}}"dp4a.s32.u32 $0, $1, $2, $3;"{{.*}} %[[A]], %[[B]], %[[C]] :
// CHECK-NOT: dp4a
// CHECK: arith.addi %[[D]], %[[D]]
gpu.module @m {
  gpu.func @mixed(%a: i32, %b: i32, %c: i32, %out: memref<i32>) kernel {
    %0 = "dot.dp4a"(%a, %b, %c) {a_type = "s32", b_type = "u32"} : (i32, i32, i32) -> i32
    %1 = "dot.dp4a"(%a, %b, %c) {a_type = "s32", b_type = "u32"} : (i32, i32, i32) -> i32
    %2 = arith.addi %0, %1 : i32
    memref.store %2, %out[] : memref<i32>
    gpu.return
  }
}
