// weft-opt prints what it read, in the forms and to the places that its flags name.

// RUN: weft-opt %s | FileCheck %s
// RUN: weft-opt < %s | FileCheck %s
// RUN: weft-opt - -o %t.mlir < %s
// RUN: FileCheck %s < %t.mlir
// CHECK-LABEL: func.func @double(%{{.*}}: i32) -> i32 {
// CHECK-NEXT:    %[[SUM:.*]] = arith.addi
// CHECK-NEXT:    return %[[SUM]] : i32
func.func @double(%a: i32) -> i32 {
  %sum = arith.addi %a, %a : i32
  return %sum : i32
}

// RUN: weft-opt %s --mlir-print-op-generic --mlir-print-debuginfo | FileCheck %s --check-prefix=GENERIC
// GENERIC:     "func.func"() <{function_type = (i32) -> i32, sym_name = "double"}> ({
// GENERIC:       %{{.*}} = "arith.addi"(%{{.*}}) {{.*}} loc(#[[PLACE:.*]])
// GENERIC:     #[[PLACE]] = loc("{{.*}}opt-output.mlir":11:10)

// RUN: weft-opt --version | FileCheck %s --check-prefix=VERSION
// VERSION:      weft {{[0-9.]+}}
// VERSION-NEXT:   MLIR   {{torch-mlir|mlir-python-bindings}} {{[0-9]+}}

// RUN: weft-opt --help | FileCheck %s --check-prefix=HELP
// HELP: usage: weft-opt [FILE.mlir | -]
// HELP: --split-input-file
// HELP: --list-passes shows Weft's

// RUN: weft-opt --list-passes | FileCheck %s --check-prefix=LIST
// LIST:      Passes:
// LIST-NEXT:   --raise-linalg             turn functions of linalg on memrefs or tensors into functions of one tile.matmul
// LIST-NEXT:       plain=true
// LIST-NEXT:   --outline-linalg
// LIST-NEXT:   --select-schedule {{ +}}choose
// LIST-NEXT:       chip=sm_80
// LIST:        --lower-mma {{ +}}lower
// LIST:      Pipelines:
// LIST-NEXT:   --weft {{ +}}all passes, from tile.matmul
// LIST:      MLIR's own passes, as
