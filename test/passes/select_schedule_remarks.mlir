// Which family's schedule a product gets, and why not one of each family that is preferred.
// RUN: weft-opt %s --select-schedule="chip=sm_100a" --tile-explain-dispatch --verify-diagnostics
// RUN: weft-opt %s --select-schedule="chip=sm_100a rows=any" --tile-explain-dispatch 2>&1 >%t | FileCheck %s --check-prefix=ANY
// RUN: weft-opt %s --select-schedule="chip=sm_90a" --tile-explain-dispatch 2>&1 >%t | FileCheck %s --check-prefix=SM90A
// RUN: weft-opt %s --select-schedule="chip=sm_80" --tile-explain-dispatch 2>&1 >%t | FileCheck %s --check-prefix=SM80

func.func @product(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-remark @below {{'tile.matmul' op is lowered to tcgen05, block }}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  // A product that names its schedule gets no remark.
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 64, 64, 32>, warps = array<i64: 2, 2>, stages = 2}} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// ANY: remark: 'tile.matmul' op is lowered to mma.sync, block
// ANY: note: a schedule of tcgen05 needs rows of matrices at multiples of 16 bytes
// ANY-NEXT: note: a schedule of wgmma needs sm_90a, got sm_100a
// ANY-NEXT: note: a schedule of mma.sync with TMA needs sm_90a, sm_120f, sm_120a, sm_121f, sm_121a, got sm_100a
// ANY-NOT: remark:

// SM90A: remark: 'tile.matmul' op is lowered to wgmma, block
// SM90A: note: a schedule of tcgen05 needs sm_100f, {{.*}}, got sm_90a
// SM90A-NEXT: note: see current operation: "tile.matmul"
// SM90A-NOT: {{(note|remark): }}

// SM80: remark: 'tile.matmul' op is lowered to mma.sync, block
// SM80: note: a schedule of tcgen05 needs
