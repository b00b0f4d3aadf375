// RUN: weft-opt %s --weft-kernel=chip=sm_90a | FileCheck %s --check-prefix=KERNEL
// RUN: weft-opt %s --weft-kernel=chip=sm_90a --weft-to-instructions | FileCheck %s --check-prefix=INSTRUCTIONS
// RUN: weft-opt %s --weft-kernel=chip=sm_90a --weft-to-instructions --weft-to-llvm | FileCheck %s --check-prefix=LLVM
// RUN: weft-opt %s --weft=chip=sm_90a | weft-opt | FileCheck %s --check-prefix=LLVM
// RUN: weft-opt %s --pass-pipeline="builtin.module(weft-kernel{chip=sm_90a rows=any})" | FileCheck %s --check-prefix=ANY
// RUN: not weft-opt %s --pass-pipeline="builtin.module(weft{chip=sm_90a rows=any})" 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not weft-opt %s --weft-kernel=chip=sm_90a --lower-copies 2>&1 | FileCheck %s --check-prefix=COPIES
// RUN: not weft-opt %s --weft-kernel=chip=sm_90a --lower-gemm-async --lower-buffers 2>&1 | FileCheck %s --check-prefix=BUFFERS

// OPTION: pipeline 'weft' has no option 'rows': its options are chip
// COPIES: error: 'tile.copy_async' op expects a memref, got a tile.map: run --lower-tma before --lower-copies
// BUFFERS: error: 'tile.{{[a-z_]+}}' op expects all its uses to be lowered: run --lower-copies before --lower-buffers

// KERNEL: gpu.func @product
// KERNEL: "tile.gemm_async"
// KERNEL: "tile.store_async"
// KERNEL: "tile.copy_async"
// KERNEL-NOT: tile.matmul

// ANY: gpu.func @product
// ANY-NOT: weft.persistent
// ANY: "tile.gemm"

// INSTRUCTIONS-NOT: {{"?tile\.}}
// INSTRUCTIONS: nvvm.mbarrier.init
// INSTRUCTIONS-NOT: {{"?tile\.}}
// INSTRUCTIONS: "wgmma.mma_async"
// INSTRUCTIONS-NOT: {{"?tile\.}}
// INSTRUCTIONS: "mma.stmatrix"
// INSTRUCTIONS-NOT: {{"?tile\.}}
// INSTRUCTIONS: nvvm.cp.async.bulk.tensor.global.shared.cta
// INSTRUCTIONS-NOT: {{"?tile\.}}
// INSTRUCTIONS: nvvm.cp.async.bulk.tensor.shared.cluster.global
// INSTRUCTIONS-NOT: {{"?tile\.}}

// The maps are the last parameters, by value; what a launch needs is on the kernel.
// LLVM: gpu.module @product
// LLVM: llvm.func @product
// LLVM-SAME: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant})
// LLVM-SAME: nvvm.kernel
// LLVM-SAME: weft.shared_bytes = {{[1-9][0-9]*}} : i32
// LLVM-SAME: weft.tensor_maps = [{{.*}}matrix = 0 : i64{{.*}}matrix = 1 : i64{{.*}}matrix = 2 : i64
// LLVM-NOT: {{[" ](mma|wgmma|tile|scf|arith|vector|memref)\.[a-z_]+[" ]}}
// LLVM: nvvm.mbarrier.try_wait
// LLVM: llvm.inline_asm has_side_effects "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// LLVM-NOT: {{[" ](mma|wgmma|tile|scf|arith|vector|memref)\.[a-z_]+[" ]}}
// LLVM: nvvm.cp.async.bulk.tensor.global.shared.cta
// LLVM-NOT: {{[" ](mma|wgmma|tile|scf|arith|vector|memref)\.[a-z_]+[" ]}}
// LLVM: nvvm.cp.async.bulk.tensor.shared.cluster.global
// LLVM-NOT: {{[" ](mma|wgmma|tile|scf|arith|vector|memref)\.[a-z_]+[" ]}}
func.func @product(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xbf16>) {
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, schedule = {block = array<i64: 128, 64, 64>, warpgroups = 2, stages = 2}}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>) -> ()
  return
}
