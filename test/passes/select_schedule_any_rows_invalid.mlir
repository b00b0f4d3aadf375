// RUN: weft-opt %s --pass-pipeline="builtin.module(select-schedule{chip=sm_120a rows=any})" --verify-diagnostics

func.func @narrow(%a: memref<?x?xf6E2M3FN>, %b: memref<?x?xf6E2M3FN>, %d: memref<?x?xf32>) {
  // expected-error @below {{must begin at multiples of 16 bytes with elements of f6E2M3FN}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (memref<?x?xf6E2M3FN>, memref<?x?xf6E2M3FN>, memref<?x?xf32>) -> ()
  return
}
