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
