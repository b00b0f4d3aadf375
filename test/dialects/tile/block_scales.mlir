// RUN: weft-opt %s | weft-opt --mlir-print-local-scope | FileCheck %s

// Every pair of elements and scales: nvfp4, mxfp4, mxfp6, mxfp8, and two formats at once.

// CHECK-LABEL: @nvfp4
func.func @nvfp4(%a: memref<300x136xf4E2M1FN>, %b: memref<200x136xf4E2M1FN>, %d: memref<300x200xbf16>,
                 %s: memref<3x1536xf8E4M3FN>, %t: memref<2x1536xf8E4M3FN>) {
  // CHECK: "tile.matmul"
  // CHECK-SAME: alpha = 5.000000e-01 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>
  "tile.matmul"(%a, %b, %d, %s, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, alpha = 0.5 : f32}
    : (memref<300x136xf4E2M1FN>, memref<200x136xf4E2M1FN>, memref<300x200xbf16>, memref<3x1536xf8E4M3FN>, memref<2x1536xf8E4M3FN>) -> ()
  return
}

!A4 = memref<?x?xf4E2M1FN>
!A6 = memref<?x?xf6E3M2FN>
!A8 = memref<?x?xf8E4M3FN>
!W8 = memref<?x?xf8E5M2>
!S = memref<?x?xf8E8M0FNU>
!D = memref<?x?xf32>
// CHECK-LABEL: @mx
func.func @mx(%a4: !A4, %a6: !A6, %a8: !A8, %w8: !W8, %s: !S, %d: !D) {
  // CHECK-COUNT-5: "tile.matmul"
  "tile.matmul"(%a4, %a4, %d, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (!A4, !A4, !D, !S, !S) -> ()
  "tile.matmul"(%a6, %a6, %d, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (!A6, !A6, !D, !S, !S) -> ()
  "tile.matmul"(%a8, %w8, %d, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (!A8, !W8, !D, !S, !S) -> ()
  "tile.matmul"(%a8, %a4, %d, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (!A8, !A4, !D, !S, !S) -> ()
  "tile.matmul"(%a6, %w8, %d, %s, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true} : (!A6, !W8, !D, !S, !S) -> ()
  return
}

// The products of a batch have scales of their own, or share them.
// CHECK-LABEL: @batch
func.func @batch(%a: memref<4x64x128xf8E4M3FN>, %b: memref<64x128xf8E4M3FN>, %d: memref<4x64x64xbf16>,
                 %s: memref<4x1x512xf8E8M0FNU>, %t: memref<1x512xf8E8M0FNU>) {
  // CHECK: "tile.matmul"
  "tile.matmul"(%a, %b, %d, %s, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true}
    : (memref<4x64x128xf8E4M3FN>, memref<64x128xf8E4M3FN>, memref<4x64x64xbf16>, memref<4x1x512xf8E8M0FNU>, memref<1x512xf8E8M0FNU>) -> ()
  return
}

// Scales may come as words of four.
// CHECK-LABEL: @words
func.func @words(%a: memref<64x640xf8E4M3FN>, %b: memref<96x640xf8E4M3FN>, %d: memref<64x96xbf16>,
                 %s: memref<2x64xi32>, %t: memref<2x96xi32>) {
  // CHECK: "tile.matmul"{{.*}}scale_block = 128
  "tile.matmul"(%a, %b, %d, %s, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>, transpose_b = true, scale_block = 128 : i64}
    : (memref<64x640xf8E4M3FN>, memref<96x640xf8E4M3FN>, memref<64x96xbf16>, memref<2x64xi32>, memref<2x96xi32>) -> ()
  return
}

// Other ops hold such elements, too.
// CHECK-LABEL: @buffers
func.func @buffers(%m: memref<256x256xf4E2M1FN>) {
  // CHECK: !tile.buffer<array<i64: 128, 256>, f4E2M1FN
  %b = "tile.alloc"() : () -> !tile.buffer<array<i64: 128, 256>, f4E2M1FN, #tile.layout<"S[(128,256):(256,1)]">, "shared">
  // CHECK: !tile.buffer<array<i64: 2, 512>, f8E8M0FNU
  %s = "tile.alloc"() : () -> !tile.buffer<array<i64: 2, 512>, f8E8M0FNU, #tile.layout<"S[(2,512):(512,1)]">, "shared">
  return
}
