// Each mistake of a user is one message and exit status 1, and writes nothing.

// RUN: rm -rf %t && mkdir %t
// RUN: not weft compile 2> %t/log
// RUN: not weft compile %t/none.mlir 2>> %t/log
// RUN: not weft compile %examples/attention.py 2>> %t/log
// RUN: not weft compile %examples/matmul.mlir --arch sm_1 -o %t/out 2>> %t/log
// RUN: not weft compile %examples/matmul.mlir --arch sm_75 -o %t/out 2>> %t/log
// RUN: not weft compile - --arch sm_75 -o %t/out < %examples/matmul.mlir 2>> %t/log
// RUN: not weft compile %examples/matmul.mlir --arch sm_80 --after cse 2>> %t/log
// RUN: not weft compile %examples/matmul.mlir --arch sm_80 --emit mlir --after lower-nothing 2>> %t/log
// RUN: not weft compile %examples/matmul.mlir --arch sm_80 --emit llvm -o %t/none/out 2>> %t/log
// RUN: not weft compile %s --arch sm_80 2>> %t/log
// RUN: not weft compile %s --arch sm_80 --kernel third 2>> %t/log
// RUN: not weft compile %s --arch sm_80 --kernel second -o %t/out 2>> %t/log
// RUN: not weft compile - < %S/Inputs/broken.txt 2>> %t/log
// RUN: not env WEFT_CACHE=0 WEFT_PTXAS=%t/ptxas weft compile %examples/matmul.mlir --arch sm_80 --emit cubin -o %t/out 2>> %t/log
// RUN: FileCheck %s < %t/log
// RUN: not cat %t/out

// CHECK:      weft: error: the following arguments are required: FILE.mlir (see weft compile --help)
// CHECK-NEXT: weft: error: cannot read '{{.*}}none.mlir': No such file or directory
// CHECK-NEXT: weft: error: '{{.*}}attention.py' is a program of Python: run it, or step through it by weft debug
// CHECK-NEXT: weft: error: target must be a known chip (sm_70,
// CHECK-NEXT: examples/matmul.mlir:13:3: error: 'tile.matmul' op has no schedule for sm_75 that multiplies bf16 and bf16: it needs sm_80 or later, or A and B of f16
// CHECK-NEXT:   "tile.matmul"(%A, %B, %D)
// CHECK-NEXT: {{^}}  ^
// CHECK-NEXT: <stdin>:13:3: error: 'tile.matmul' op has no schedule for sm_75 that multiplies bf16 and bf16: it needs sm_80 or later, or A and B of f16
// CHECK-NEXT:   "tile.matmul"(%A, %B, %D)
// CHECK-NEXT: {{^}}  ^
// CHECK-NEXT: weft: error: --after needs --emit mlir; got --emit ptx
// CHECK-NEXT: weft: error: no stage 'lower-nothing': the stages are source, outline-linalg, select-schedule{chip=sm_80 rows=aligned},
// CHECK-NEXT: weft: error: cannot write '{{.*}}out': No such file or directory
// CHECK-NEXT: compile-mistakes.mlir:[[# @LINE + 18]]:1: error: the file has several kernels: select one with --kernel: first, second
// CHECK-NEXT: func.func @second
// CHECK-NEXT: ^
// CHECK-NEXT: weft: error: {{.*}}compile-mistakes.mlir has no kernel 'third': it has first, second
// CHECK-NEXT: compile-mistakes.mlir:[[# @LINE + 15]]:8: error: 'memref.alloc' op must not be in a function with a tile.matmul
// CHECK-NEXT:   %0 = memref.alloc
// CHECK-NEXT: {{^}}       ^
// CHECK-NEXT: <stdin>:2:10: error: use of value '%a' expects different type
// CHECK-NEXT:   return %a : i64
// CHECK-NEXT: {{^}}         ^
// CHECK-NEXT: <stdin>:1:14: note: prior use here
// CHECK:      weft: error: WEFT_PTXAS is {{.*}}, which isn't a program

func.func @first(%A: memref<?x?xbf16>, %D: memref<?x?xf32>) {
  "tile.matmul"(%A, %A, %D) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  return
}

func.func @second(%A: memref<?x?xbf16>, %D: memref<?x?xf32>) {
  %0 = memref.alloc() : memref<4xf32>
  "tile.matmul"(%A, %A, %D) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  return
}
