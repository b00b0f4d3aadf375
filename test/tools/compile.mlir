// weft compile shows every stage between .mlir and machine code.

// RUN: weft compile %examples/matmul.mlir --arch sm_80 | FileCheck %s --check-prefix=PTX
// RUN: weft compile --emit ptx --arch sm_80 --kernel product - < %s | FileCheck %s --check-prefix=STDIN
// PTX: .target sm_80
// PTX: .visible .entry matmul(
// PTX: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// PTX: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// STDIN: .visible .entry product(

// RUN: weft compile %s --arch sm_90 --kernel product --emit mlir | FileCheck %s --check-prefix=MLIR
// MLIR: gpu.module @product {{.*}}chip = "sm_90"
// MLIR: llvm.func @product

// RUN: weft compile %examples/matmul.mlir --arch sm_80 --emit mlir --after lower-gemm \
// RUN:   | FileCheck %s --check-prefix=AFTER
// AFTER: "mma.sync"
// AFTER: "tile.

// RUN: weft compile %examples/matmul.mlir --arch sm_80 --emit mlir --after source | FileCheck %s --check-prefix=SOURCE
// SOURCE: func.func @matmul
// SOURCE: "tile.matmul"

// RUN: weft compile %examples/matmul.mlir --arch sm_80 --emit llvm | FileCheck %s --check-prefix=LLVM
// LLVM: define ptx_kernel void @matmul(
// LLVM: call { float, float, float, float } @llvm.nvvm.mma.m16n8k16

// RUN: weft compile %s --arch sm_80 --kernel product --emit sass | FileCheck %s --check-prefix=SASS
// SASS: HMMA.16816.F32.BF16

// RUN: weft compile %examples/matmul.mlir --arch sm_90a --emit launch | FileCheck %s --check-prefix=LAUNCH
// LAUNCH: {
// LAUNCH-NEXT: "matmul": {
// LAUNCH-NEXT: "parameters": ["argument 0: pointer", "argument 0: pointer", "argument 0: offset", "argument 0: size 0",
// LAUNCH-SAME: "map 0", "map 1"],
// LAUNCH: "grid": ["((s4 ceildiv 256) * 2)", "(s5 ceildiv 256)", "1"],
// LAUNCH: "requires": ["(s0 - s4)", "(s1 - s3)", "(s2 - s5)"]
// LAUNCH: "dependent": true,

// RUN: env WEFT_CACHE_DIR=/dev/null/x weft compile %s --arch sm_80 --kernel product -o %t.ptx 2>&1 \
// RUN:   | FileCheck %s --check-prefix=UNCACHED
// UNCACHED: {{^}}weft: warning: weft compiles uncached: /dev/null/x: Not a directory{{$}}
// UNCACHED-NOT: {{.}}

// RUN: weft compile %s --arch sm_80 --kernel product --emit cubin > %t.cubin
// RUN: weft compile %s --arch sm_80 --kernel product --emit cubin -o %t.also.cubin
// RUN: cmp %t.cubin %t.also.cubin

// Of several kernels, --kernel picks one; the others need not be right for the chip.
// RUN: weft compile %s --arch sm_80 --kernel second --emit mlir --after source | FileCheck %s --check-prefix=SECOND
// SECOND-NOT: @first
// SECOND:     gpu.module @others
// SECOND-NOT: @third
// SECOND:     gpu.func @second
// SECOND-NOT: @third

func.func @first(%A: memref<?x?xbf16>, %D: memref<?x?xf32>) {
  "tile.matmul"(%A, %A, %D) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  return
}

func.func @product(%A: memref<?x?xbf16>, %B: memref<?x?xbf16>, %D: memref<?x?xf32>) {
  "tile.matmul"(%A, %B, %D) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 16, 16, 32>, warps = array<i64: 1, 1>, stages = 2}}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  return
}

gpu.module @others {
  gpu.func @second(%a: memref<?xf32>) kernel {
    gpu.return
  }
  gpu.func @third(%a: memref<?xf32>) kernel {
    gpu.return
  }
}

// RUN: weft compile %s --arch sm_80 --kernel product --emit resources | FileCheck %s --check-prefix=RESOURCES
// RESOURCES: "product": {
// RESOURCES-NEXT: "registers": {{[0-9]+}},
// RESOURCES-NEXT: "shared_bytes": 4096,
// RESOURCES-NEXT: "spill_stores": 0,
