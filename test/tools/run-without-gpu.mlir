// Where there is no GPU, weft run says so and emulates; asked for one, it fails.

// REQUIRES: !gpu
// RUN: weft run %examples/matmul.mlir --shape 16x8x16 | FileCheck %s
// CHECK:      no GPU: {{.*}}; running in the emulator
// CHECK-NEXT: product {{ +}}D[16,8] f32
// CHECK-NEXT: kernel {{ +}}matmul for sm_80 in the emulator
// CHECK:      PASS

// RUN: not weft run %examples/matmul.mlir --on gpu 2>&1 | FileCheck %s --check-prefix=ASKED
// ASKED:    weft: error: no GPU to run on: {{.*}}
// ASKED-NOT:  {{.+}}

// RUN: not weft run %s --on gpu 2>&1 | FileCheck %s --check-prefix=ASKED
// RUN: not weft run %s 2>&1 | FileCheck %s --check-prefix=DEFAULT
// RUN: not weft compile %s 2>&1 | FileCheck %s --check-prefix=DEFAULT
// RUN: not weft compile %s --arch sm_80 2>&1 | FileCheck %s --check-prefix=NAMED
// DEFAULT:  error: 'tile.matmul' op schedule must have a legal instruction: wgmma.mma_async needs sm_90a: sm_80 has no form
// DEFAULT:  note: sm_80 is the default chip: select another with --arch, such as sm_90a or sm_100a (in Python, arch='sm_90a')
// NAMED:     wgmma.mma_async needs sm_90a: sm_80 has no form
// NAMED-NOT: note:
func.func @warpgroups(%A: memref<?x?xbf16>, %D: memref<?x?xf32>) {
  "tile.matmul"(%A, %A, %D) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 4}}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  return
}
