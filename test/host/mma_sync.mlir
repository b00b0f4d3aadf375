// A host function that launches a kernel with mma.sync, in the structure of upstream's integration tests for sm_80.

// RUN: weft run %s --entry main --on emulator | FileCheck %s
// CHECK:      0
// CHECK-NEXT: ran main for sm_80 in the emulator
// CHECK-NEXT: main_kernel: grid 1x1x1, block 32x1x1
// CHECK-NEXT: RAN
func.func @main() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %A = memref.alloc() : memref<16x16xf16>
  %B = memref.alloc() : memref<8x16xf16>
  %D = memref.alloc() : memref<16x8xf32>
  scf.for %i = %c0 to %c16 step %c1 {
    scf.for %k = %c0 to %c16 step %c1 {
      %a = func.call @number(%i, %k) : (index, index) -> f16
      memref.store %a, %A[%i, %k] : memref<16x16xf16>
      %isRow = arith.cmpi ult, %i, %c8 : index
      scf.if %isRow {
        %b = func.call @number(%k, %i) : (index, index) -> f16
        memref.store %b, %B[%i, %k] : memref<8x16xf16>
      }
    }
  }
  %a = memref.cast %A : memref<16x16xf16> to memref<*xf16>
  %b = memref.cast %B : memref<8x16xf16> to memref<*xf16>
  %d = memref.cast %D : memref<16x8xf32> to memref<*xf32>
  gpu.host_register %a : memref<*xf16>
  gpu.host_register %b : memref<*xf16>
  gpu.host_register %d : memref<*xf32>
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c32, %sy = %c1, %sz = %c1) {
    %two = arith.constant 2 : index
    %four = arith.constant 4 : index
    %g = arith.divui %tx, %four : index
    %t = arith.remui %tx, %four : index
    %k = arith.muli %t, %two : index
    %g8 = arith.addi %g, %c8 : index
    %k8 = arith.addi %k, %c8 : index
    %none = arith.constant dense<0.0> : vector<4x2xf16>
    %a0 = vector.load %A[%g, %k] : memref<16x16xf16>, vector<2xf16>
    %a1 = vector.load %A[%g8, %k] : memref<16x16xf16>, vector<2xf16>
    %a2 = vector.load %A[%g, %k8] : memref<16x16xf16>, vector<2xf16>
    %a3 = vector.load %A[%g8, %k8] : memref<16x16xf16>, vector<2xf16>
    %v0 = vector.insert %a0, %none [0] : vector<2xf16> into vector<4x2xf16>
    %v1 = vector.insert %a1, %v0 [1] : vector<2xf16> into vector<4x2xf16>
    %v2 = vector.insert %a2, %v1 [2] : vector<2xf16> into vector<4x2xf16>
    %va = vector.insert %a3, %v2 [3] : vector<2xf16> into vector<4x2xf16>
    %b0 = vector.load %B[%g, %k] : memref<8x16xf16>, vector<2xf16>
    %b1 = vector.load %B[%g, %k8] : memref<8x16xf16>, vector<2xf16>
    %nothing = arith.constant dense<0.0> : vector<2x2xf16>
    %w0 = vector.insert %b0, %nothing [0] : vector<2xf16> into vector<2x2xf16>
    %vb = vector.insert %b1, %w0 [1] : vector<2xf16> into vector<2x2xf16>
    %vc = arith.constant dense<0.0> : vector<2x2xf32>
    %vd = nvgpu.mma.sync (%va, %vb, %vc) {mmaShape = [16, 8, 16]}
      : (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
    %d0 = vector.extract %vd[0] : vector<2xf32> from vector<2x2xf32>
    %d1 = vector.extract %vd[1] : vector<2xf32> from vector<2x2xf32>
    vector.store %d0, %D[%g, %k] : memref<16x8xf32>, vector<2xf32>
    vector.store %d1, %D[%g8, %k] : memref<16x8xf32>, vector<2xf32>
    gpu.terminator
  }
  %wrong = func.call @differences(%A, %B, %D) : (memref<16x16xf16>, memref<8x16xf16>, memref<16x8xf32>) -> index
  vector.print %wrong : index
  return
}
func.func @number(%i: index, %j: index) -> f16 {
  %c3 = arith.constant 3 : index
  %c7 = arith.constant 7 : index
  %0 = arith.muli %i, %c3 : index
  %1 = arith.addi %0, %j : index
  %2 = arith.remui %1, %c7 : index
  %3 = arith.index_cast %2 : index to i32
  %4 = arith.sitofp %3 : i32 to f16
  return %4 : f16
}
func.func @differences(%A: memref<16x16xf16>, %B: memref<8x16xf16>, %D: memref<16x8xf32>) -> index {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  %count = scf.for %i = %c0 to %c16 step %c1 iter_args(%rows = %c0) -> (index) {
    %row = scf.for %j = %c0 to %c8 step %c1 iter_args(%n = %rows) -> (index) {
      %sum = scf.for %k = %c0 to %c16 step %c1 iter_args(%s = %zero) -> (f32) {
        %a = memref.load %A[%i, %k] : memref<16x16xf16>
        %b = memref.load %B[%j, %k] : memref<8x16xf16>
        %x = arith.extf %a : f16 to f32
        %y = arith.extf %b : f16 to f32
        %p = arith.mulf %x, %y : f32
        %q = arith.addf %s, %p : f32
        scf.yield %q : f32
      }
      %d = memref.load %D[%i, %j] : memref<16x8xf32>
      %differs = arith.cmpf une, %d, %sum : f32
      %one = arith.index_castui %differs : i1 to index
      %m = arith.addi %n, %one : index
      scf.yield %m : index
    }
    scf.yield %row : index
  }
  return %count : index
}
