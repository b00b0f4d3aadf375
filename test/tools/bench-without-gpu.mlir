// Where there is no GPU, weft bench says so and measures nothing.

// REQUIRES: !gpu
// RUN: rm -f %t.json
// RUN: not weft bench 64x64x64 --json %t.json 2>&1 | FileCheck %s
// CHECK:     weft: error: weft bench needs a GPU: {{no .*}}
// CHECK-NOT: {{.+}}
// RUN: not ls %t.json
