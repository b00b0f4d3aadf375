// A pipeline of one's own makes the binary, which `weft run` takes as it is.

// RUN: weft-opt %examples/host.mlir --pass-pipeline='builtin.module(gpu.module(canonicalize,weft-to-instructions,cse),symbol-dce,weft-to-binary{chips=sm_80,sm_90a})' | weft run - --entry main --on emulator | FileCheck %s
// RUN: weft-opt %examples/host.mlir --weft-to-binary='chips=sm_80 format=bin' | not weft run - --entry main --on emulator 2>&1 | FileCheck %s --check-prefix=CODE
// CHECK: [4,  4,  4,  4]
// CHECK: multiply: grid 1x1x1, block 32x1x1
// CHECK: bias_relu: grid 16x1x1, block 16x1x1
// CODE: error: the emulator runs PTX, got machine code: use --weft-to-binary=format=isa
