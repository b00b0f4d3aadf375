// --tile-explain-dispatch prints for each tile op which candidate lowers it, and what refuses the others.

// RUN: weft-opt %s --lower-gemm --tile-explain-dispatch --verify-diagnostics
// RUN: weft-opt %s --lower-gemm --tile-explain-dispatch=false 2>&1 >%t | FileCheck %s --check-prefix=NONE --allow-empty
// NONE-NOT: remark
// RUN: weft compile %examples/matmul.mlir --arch sm_80 --tile-explain-dispatch 2>&1 >%t | FileCheck %s
// CHECK: matmul.mlir:{{[0-9]+}}:3: remark: 'tile.gemm' op is lowered by candidate mma.sync m16n8k16 (priority 2048)
// CHECK: note: candidate mma.sync m16n8k32 (priority 4096) refuses it: types: m16n8k32 needs A of one of
// CHECK: note: candidate mma.sync m16n8k8 (priority 1024) would lower it too, with a lower priority

!A16 = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B16 = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!A8 = tensor<16x8xf16, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
!B8 = tensor<8x8xf16, #tile.layout<"S[(4,2,8):(1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>

gpu.module @m {
  gpu.func @k16(%a: !A16, %b: !B16) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // expected-remark@+6 {{'tile.gemm' op is lowered by candidate mma.sync m16n8k16 (priority 2048)}}
    // expected-note@below {{candidate mma.sync m16n8k8 (priority 1024) would lower it too, with a lower priority}}
    // expected-note@below {{candidate mma.sync m16n8k32 (priority 4096) refuses it: types: m16n8k32 needs A of one of f8E4M3FN, f8E5M2, i8, ui8, got f16}}
    // expected-note@below {{candidate mma.sync m8n8k16 (priority 1024) refuses it: types: m8n8k16 needs A of one of i8, ui8, got f16}}
    // expected-note@below {{candidate mma.sync m16n8k4 (priority 512) refuses it: types: m16n8k4 needs A of one of f32, f64, got f16}}
    // expected-note@below {{candidate mma.sync m8n8k4 (priority 256) refuses it: types: m8n8k4 needs A of one of f64, got f16}}
    %0 = "tile.gemm"(%a, %b) : (!A16, !B16) -> !D
    gpu.return
  }
  gpu.func @k8(%a: !A8, %b: !B8) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // expected-remark@+6 {{'tile.gemm' op is lowered by candidate mma.sync m16n8k8 (priority 1024)}}
    // expected-note@below {{candidate mma.sync m16n8k16 (priority 2048) refuses it: extents: needs K % 16 == 0, got K = 8}}
    // expected-note@below {{candidate mma.sync m16n8k32 (priority 4096) refuses it: types: m16n8k32 needs A of one of f8E4M3FN, f8E5M2, i8, ui8, got f16}}
    // expected-note@below {{candidate mma.sync m8n8k16 (priority 1024) refuses it: types: m8n8k16 needs A of one of i8, ui8, got f16}}
    // expected-note@below {{candidate mma.sync m16n8k4 (priority 512) refuses it: types: m16n8k4 needs A of one of f32, f64, got f16}}
    // expected-note@below {{candidate mma.sync m8n8k4 (priority 256) refuses it: types: m8n8k4 needs A of one of f64, got f16}}
    %0 = "tile.gemm"(%a, %b) : (!A8, !B8) -> !D
    gpu.return
  }
}
