// RUN: not weft-opt %s --select-schedule=chip=sm_80 2>&1 | FileCheck %s --check-prefix=SM80
// RUN: not weft-opt %s --pass-pipeline="builtin.module(select-schedule{chip=sm_90a rows=any})" 2>&1 | FileCheck %s --check-prefix=ANY

// SM80: error: 'tile.matmul' op has no schedule for sm_80: it needs sm_90a
// ANY: error: 'tile.matmul' op rows must begin at multiples of 16 bytes
func.func @transposed(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  "tile.matmul"(%a, %b, %d) {transpose_a = true} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}
