// weft run takes the GPU and its chip where there is one.

// REQUIRES: gpu
// RUN: weft run %examples/matmul.mlir --shape 1000x1000x1000 | FileCheck %s
// CHECK: product {{ +}}D[1000,1000] f32
// CHECK: kernel {{ +}}matmul for sm_{{.*}} on the GPU
// CHECK: time {{ +}}{{.*}} ms, {{.*}} TFLOP/s (median of 10 on
// CHECK: PASS
