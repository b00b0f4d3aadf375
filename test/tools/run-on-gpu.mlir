// weft run takes the GPU and its chip where there is one.

// REQUIRES: gpu
// RUN: weft run %examples/matmul.mlir --shape 1000x1000x1000 | FileCheck %s
// CHECK: product {{ +}}D[1000,1000] f32
// CHECK: kernel {{ +}}matmul for sm_{{.*}} on the GPU
// CHECK: time {{ +}}{{.*}} ms, {{.*}} TFLOP/s (median of 10 on
// CHECK: PASS

// Tile operations by hand, and an array with gaps between its rows that is given.
// RUN: weft run %examples/tma_gemm.mlir --on gpu | FileCheck %s --check-prefix=TILES
// TILES: kernel {{ +}}tma_gemm for sm_90a on the GPU
// TILES: argument 2 {{ +}}64x64 float32, changed: from -64.5457 to 70.0624
// TILES: RAN
// RUN: weft run %s --on gpu --kernel apart --arg 0=random:40x24 --arg 2=zeros:40x33 | FileCheck %s --check-prefix=APART
// APART: product {{ +}}D[40,33] f32 = A[40,24] f16
// APART: PASS
func.func @apart(%A: memref<?x?xf16, strided<[72, 1]>>, %B: memref<?x?xf16>, %D: memref<?x?xf32, strided<[40, 1]>>) {
  "tile.matmul"(%A, %B, %D) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}
    : (memref<?x?xf16, strided<[72, 1]>>, memref<?x?xf16>, memref<?x?xf32, strided<[40, 1]>>) -> ()
  return
}
