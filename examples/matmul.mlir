// D = A * Bᵀ on tensor cores, as one operation.
//
//   weft run examples/matmul.mlir                         compile, launch on random inputs, compare with float64
//   weft run examples/matmul.mlir --shape 1000x1000x1000  the sizes are arguments: one kernel takes every shape
//   weft compile examples/matmul.mlir --arch sm_80        the PTX that it becomes
//   weft-opt examples/matmul.mlir --weft-kernel           the same product as a kernel in tile operations
//
// A is M x K and D is M x N, both row-major. With transpose_b, B is N x K (K-major); without it, B is K x N. Elements are bf16,
// and sums are f32. The attributes alpha and beta give D = alpha * A * B + beta * C. C is a fourth operand; without one it is D
// itself. The attribute schedule sets how the product is divided into tiles; without it, a pass chooses.

func.func @matmul(%A: memref<?x?xbf16>, %B: memref<?x?xbf16>, %D: memref<?x?xf32>) {
  "tile.matmul"(%A, %B, %D) {
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>,
    transpose_b = true} : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  return
}
