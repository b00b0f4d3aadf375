// RUN: weft-opt %s --canonicalize --cse | FileCheck %s

// A legal op stays legal where MLIR folds an operand to a constant. What is wrong with a constant is for passes that
// lower the op, and for `weft lint`, to say.

!Rows = !tile.buffer<array<i64: 64, 64>, bf16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!Part = !tile.buffer<array<i64: 16, 64>, bf16, #tile.layout<"S[(16,64):(64,1)] xor 128B">, "shared">

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  // CHECK-LABEL: gpu.func @row_after_the_last
  // CHECK: %[[LAST:.*]] = arith.constant 64 : i32
  // CHECK: "tile.slice"(%{{.*}}, %[[LAST]],
  gpu.func @row_after_the_last(%never: i1, %m: memref<i64>) kernel {
    %c0 = arith.constant 0 : i32
    %c16 = arith.constant 16 : i32
    %c48 = arith.constant 48 : i32
    %0 = "tile.alloc"() : () -> !Rows
    scf.if %never {
      %row = arith.addi %c48, %c16 : i32
      %s = "tile.slice"(%0, %row, %c0) : (!Rows, i32, i32) -> !Part
      %a = "tile.address"(%s) : (!Part) -> !llvm.ptr<3>
      %x = llvm.load %a : !llvm.ptr<3> -> i64
      memref.store %x, %m[] : memref<i64>
    }
    gpu.return
  }

  // CHECK-LABEL: gpu.func @columns
  // CHECK: %[[COLUMNS:.*]] = arith.constant 48 : i32
  // CHECK: "tcgen05.alloc"(%{{.*}}, %[[COLUMNS]])
  gpu.func @columns(%never: i1, %s: !llvm.ptr<3>) kernel {
    %c3 = arith.constant 3 : i32
    %c16 = arith.constant 16 : i32
    scf.if %never {
      %n = arith.muli %c3, %c16 : i32
      "tcgen05.alloc"(%s, %n) {cta_group = 1 : i64} : (!llvm.ptr<3>, i32) -> ()
    }
    gpu.return
  }
}
