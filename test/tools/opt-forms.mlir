// Flags of mlir-opt about the input and the output: markers, chunks that fail, a single operation, dialects in IRDL.

// RUN: weft-opt %s --split-input-file --verify-diagnostics | FileCheck %s
// RUN: weft-opt %s --split-input-file --verify-diagnostics=only-expected | FileCheck %s
// RUN: weft-opt %s --split-input-file --verify-diagnostics --output-split-marker="// next" | FileCheck %s --check-prefix=MARKER
// RUN: not weft-opt %s --split-input-file -o %t.out 2>&1 | FileCheck %s --check-prefix=FAILS
// RUN: not weft-opt %s --split-input-file 2>/dev/null | FileCheck %s
// RUN: not cat %t.out
// RUN: not weft-opt %s --split-input-file="// +++" 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not weft-opt %s --verify-diagnostics=some 2>&1 | FileCheck %s --check-prefix=SOME

// The note that shows the operation needs no announcement.
// CHECK:      func.func @good
// CHECK:      // -----
// CHECK-NEXT: // -----
// CHECK-NEXT: module
// CHECK:      func.func @also_good
// MARKER:     // next
// FAILS:      opt-forms.mlir:[[# @LINE + 13]]:3: error: 'func.return' op has 0 operands
// FAILS-NEXT: return
// FAILS-NEXT: ^
// FAILS-NEXT: opt-forms.mlir:[[# @LINE + 10]]:3: note: see current operation
// FAILS-NOT:  {{^  return}}
// OTHER:      error: 'func.return' op has 0 operands
// SOME:       weft-opt: error: --verify-diagnostics must be all or only-expected; got 'some'
func.func @good() { return }

// -----

func.func @bad() -> i32 {
  // expected-error @below {{'func.return' op has 0 operands}}
  return
}

// -----

func.func @also_good() { return }

// RUN: echo 'func.func @only(%%a: i32) -> i32 { return %%a : i32 }' > %t.one
// RUN: weft-opt %t.one --no-implicit-module --cse | FileCheck %s --check-prefix=ONE
// ONE-NOT: module
// ONE:     func.func @only

// RUN: echo 'irdl.dialect @mine { irdl.operation @op { } }' > %t.irdl
// RUN: echo '"mine.op"() : () -> ()' > %t.mine
// RUN: weft-opt %t.mine --irdl-file=%t.irdl | FileCheck %s --check-prefix=IRDL
// RUN: weft-opt --dump-irdl -o %t.ours
// RUN: not weft-opt %t.mine --irdl-file=%t.ours 2>&1 | FileCheck %s --check-prefix=EXISTS
// EXISTS: 2:3: error: 'irdl.dialect' op defines 'tile', which weft-opt has: remove it, or rename it
// RUN: not weft-opt %t.mine 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// IRDL:    "mine.op"()
// UNKNOWN: error:
