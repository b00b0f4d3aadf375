// weft run takes functions of linalg: the product that each becomes is checked.

// RUN: weft run %S/../passes/Inputs/torch/linear_gelu.mlir --on emulator --arch sm_90a | FileCheck %s
// CHECK: product    D[48,40] bf16 = gelu(A[48,32] bf16 * B[40,32]ᵀ bf16 + bias)
// CHECK: PASS

// RUN: not weft run %S/../passes/Inputs/torch/softmax.mlir --on emulator --arch sm_90a 2>&1 | FileCheck %s --check-prefix=REFUSED
// REFUSED: softmax.mlir:{{.*}}: error: 'linalg.generic' op isn't raised to tile.matmul: it is a reduction, but no product of two matrices

// Of several products, one is run at a time.
// RUN: not weft run %S/../passes/Inputs/torch/mlp.mlir --on emulator --arch sm_80 2>&1 | FileCheck %s --check-prefix=PRODUCTS
// PRODUCTS: error: function mlp becomes 2 kernels: mlp_0, mlp_1; select one of them, or compile all to one callable with weft.from_linalg
// RUN: weft run %S/../passes/Inputs/torch/mlp.mlir --on emulator --arch sm_80 --kernel mlp_1 | FileCheck %s --check-prefix=SECOND-OF-TWO
// SECOND-OF-TWO: product    D[48,24] bf16 = A[48,64] bf16 * B[24,64]ᵀ bf16 + bias

// RUN: not weft run %s --on emulator --arch sm_80 2>&1 | FileCheck %s --check-prefix=SEVERAL
// SEVERAL: error: the file has several kernels: select one with --kernel: first, second
// RUN: weft run %s --on emulator --arch sm_80 --kernel second --shape 24x16x32 | FileCheck %s --check-prefix=SECOND
// SECOND: product    D[24,16] f32 = A[32,24]ᵀ f16 * B[32,16] f16 + 1 * D
// SECOND: PASS
func.func @first(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  linalg.matmul ins(%a, %b : memref<?x?xf16>, memref<?x?xf16>) outs(%d : memref<?x?xf32>)
  return
}
func.func @second(%a: memref<?x24xf16>, %b: memref<?x16xf16>, %d: memref<24x16xf32>) {
  linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (k, n)>,
      affine_map<(m, n, k) -> (m, n)>]
    ins(%a, %b : memref<?x24xf16>, memref<?x16xf16>) outs(%d : memref<24x16xf32>)
  return
}
