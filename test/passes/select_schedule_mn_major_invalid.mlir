// RUN: weft-opt %s --select-schedule=chip=sm_90a --split-input-file --verify-diagnostics

func.func @mn_major_f32(%a: memref<?x?xf32>, %b: memref<?x?xf32>, %d: memref<?x?xf32>) {
  // expected-error @below {{'tile.matmul' op B must be K-major (transpose_b = true), as wgmma reads f32, got an MN-major one}}
  "tile.matmul"(%a, %b, %d) : (memref<?x?xf32>, memref<?x?xf32>, memref<?x?xf32>) -> ()
  return
}
