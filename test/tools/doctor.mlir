// weft doctor names every tool, where it is, and the remedy for one that is missing.

// RUN: weft doctor | FileCheck %s
// CHECK:      weft {{[0-9.]+}}, Python 3
// CHECK-NEXT: ok       MLIR       {{[a-z-]+}} {{[0-9]+}} (LLVM {{[0-9a-f]+}}); dialects {{.*}}mma, {{.*}}tile{{.*}} beside upstream's
// CHECK-NEXT: ok       LLVM       {{[0-9.]+}} (llvmlite {{[0-9.]+}}); generates code for {{.*}}sm_80{{.*}}sm_90(a)
// CHECK-NEXT: ok       ptxas      {{[0-9.]+}} ({{.*}}ptxas); assembles for {{.*}}sm_80
// CHECK-NEXT: {{ok|none}} {{ +}}nvdisasm
// CHECK-NEXT: {{ok|none}} {{ +}}GPU
// CHECK-NEXT: {{ok|none}} {{ +}}host code
// CHECK-NEXT: ok       emulator
// CHECK-NEXT: ok       cache      {{.*}}/build/cache: {{[0-9]+}} entries{{.*}}
// CHECK-NEXT: ok       extensions none installed

// RUN: env WEFT_CACHE=0 WEFT_PTXAS=/nowhere/ptxas not weft doctor | FileCheck %s --check-prefix=MISSING
// MISSING:      MISSING  ptxas      WEFT_PTXAS is /nowhere/ptxas, which isn't a program
// MISSING:      none     cache      switched off by WEFT_CACHE=0
// MISSING:      Missing: ptxas.

// RUN: env WEFT_CACHE_DIR=/dev/null/x weft doctor | FileCheck %s --check-prefix=UNWRITTEN
// UNWRITTEN: none     cache      /dev/null/x can't be written, so nothing is kept: Not a directory

// RUN: weft --version | FileCheck %s --check-prefix=VERSION
// VERSION:      weft {{[0-9.]+}}
// VERSION-NEXT:   MLIR   {{torch-mlir|mlir-python-bindings}} {{[0-9]+}}
// VERSION-NEXT:   LLVM   {{[0-9.]+}} (llvmlite {{[0-9.]+}})
// VERSION-NEXT:   ptxas  {{[0-9.]+$}}
// RUN: env WEFT_PTXAS=/nowhere/ptxas weft --version | FileCheck %s --check-prefix=NO-PTXAS
// NO-PTXAS:      weft {{[0-9.]+}}
// NO-PTXAS:        ptxas  missing: WEFT_PTXAS is /nowhere/ptxas, which isn't a program
// RUN: weft --help | FileCheck %s --check-prefix=HELP
// HELP: compile
// HELP: run
// HELP: doctor
// RUN: weft emulate --help | FileCheck %s --check-prefix=EMULATE
// EMULATE: Run a kernel of any PTX or .mlir file on the CPU
// RUN: weft run --help | FileCheck %s --check-prefix=RUN-HELP
// RUN-HELP: a file with a function of one tile.matmul, or
// RUN: not weft 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: weft: error: the following arguments are required: COMMAND (see weft --help)
// RUN: not weft weave 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: weft: error: argument COMMAND: invalid choice: 'weave'
// RUN: not weft bench --sustain 2>&1 | FileCheck %s --check-prefix=OPTION
// OPTION: weft: error: unrecognized arguments: --sustain; did you mean '--sustained'? (see weft bench --help)

// RUN: weft doctor --json | FileCheck %s --check-prefix=JSON
// JSON: "weft": "{{[0-9.]+}}",
// JSON: "findings": [
// JSON: "name": "MLIR",
// JSON-NEXT: "state": "ok",
// JSON-NEXT: "required": true,
// JSON-NEXT: "text": "{{.*}}torch-mlir
