// RUN: weft-opt %s --pass-pipeline="builtin.module(select-schedule{chip=sm_90a rows=any})" --verify-diagnostics

func.func @promoted(%a: memref<?x?xf8E4M3FN>, %b: memref<?x?xf8E4M3FN>, %d: memref<?x?xf32>) {
  // expected-error @below {{'tile.matmul' op rows must begin at multiples of 16 bytes with elements of f8E4M3FN}}
  "tile.matmul"(%a, %b, %d) {transpose_b = true, promote = true} : (memref<?x?xf8E4M3FN>, memref<?x?xf8E4M3FN>, memref<?x?xf32>) -> ()
  return
}
