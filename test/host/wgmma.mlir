// A host function that creates tensor maps and launches a kernel with TMA and wgmma, as upstream's for sm_90.

// RUN: weft run %s --entry main --on emulator --arch sm_90a | FileCheck %s
// RUN: not weft run %s --entry main --on emulator 2>&1 | FileCheck %s --check-prefix=CHIP
// CHECK:      798
// CHECK-NEXT: ran main for sm_90a in the emulator
// CHECK-NEXT: main_kernel: grid 1x1x1, block 128x1x1
// CHECK-NEXT: RAN
// CHIP: error: {{.*}} sm_80
// CHIP: note: sm_80 is the default chip: select another with --arch
!barrier = !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>>
!map = !nvgpu.tensormap.descriptor<tensor = memref<64x64xf16, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
!tile = memref<64x64xf16, 3>
memref.global "private" @tileA : !tile {alignment = 1024 : i64}
memref.global "private" @tileB : !tile {alignment = 1024 : i64}
func.func @main() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %zero = arith.constant 0.0 : f32
  %A = memref.alloc() : memref<64x64xf16>
  %B = memref.alloc() : memref<64x64xf16>
  %D = memref.alloc() : memref<64x64xf32>
  %R = memref.alloc() : memref<64x64xf32>
  scf.for %i = %c0 to %c64 step %c1 {
    scf.for %j = %c0 to %c64 step %c1 {
      %a, %b = func.call @numbers(%i, %j) : (index, index) -> (f16, f16)
      memref.store %a, %A[%i, %j] : memref<64x64xf16>
      memref.store %b, %B[%i, %j] : memref<64x64xf16>
      memref.store %zero, %R[%i, %j] : memref<64x64xf32>
    }
  }
  %start = gpu.wait async
  %dA, %t0 = gpu.alloc async [%start] () : memref<64x64xf16>
  %dB, %t1 = gpu.alloc async [%start] () : memref<64x64xf16>
  %dD, %t2 = gpu.alloc async [%start] () : memref<64x64xf32>
  %t3 = gpu.memcpy async [%start] %dA, %A : memref<64x64xf16>, memref<64x64xf16>
  %t4 = gpu.memcpy async [%start] %dB, %B : memref<64x64xf16>, memref<64x64xf16>
  %uA = memref.cast %dA : memref<64x64xf16> to memref<*xf16>
  %uB = memref.cast %dB : memref<64x64xf16> to memref<*xf16>
  %mapA = nvgpu.tma.create.descriptor %uA box[%c64, %c64] : memref<*xf16> -> !map
  %mapB = nvgpu.tma.create.descriptor %uB box[%c64, %c64] : memref<*xf16> -> !map
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c128, %sy = %c1, %sz = %c1) {
    %bytes = arith.constant 16384 : index
    %ticks = arith.constant 10000000 : index
    %phase = arith.constant 0 : i1
    %sA = memref.get_global @tileA : !tile
    %sB = memref.get_global @tileB : !tile
    %full = nvgpu.mbarrier.create -> !barrier
    %first = arith.cmpi eq, %tx, %c0 : index
    nvgpu.mbarrier.init %full[%c0], %c1, predicate = %first : !barrier
    gpu.barrier
    scf.if %first {
      nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes : !barrier
      nvgpu.tma.async.load %mapA[%c0, %c0], %full[%c0] to %sA : !map, !barrier -> !tile
      nvgpu.tma.async.load %mapB[%c0, %c0], %full[%c0] to %sB : !map, !barrier -> !tile
    }
    nvgpu.mbarrier.try_wait.parity %full[%c0], %phase, %ticks : !barrier
    %none = nvgpu.warpgroup.mma.init.accumulator -> <fragmented = vector<64x64xf32>>
    %a = nvgpu.warpgroup.generate.descriptor %sA, %mapA : !tile, !map -> !nvgpu.warpgroup.descriptor<tensor = !tile>
    %b = nvgpu.warpgroup.generate.descriptor %sB, %mapB : !tile, !map -> !nvgpu.warpgroup.descriptor<tensor = !tile>
    %d = nvgpu.warpgroup.mma %a, %b, %none {transposeB}
      : <tensor = !tile>, <tensor = !tile>, <fragmented = vector<64x64xf32>> -> <fragmented = vector<64x64xf32>>
    nvvm.wgmma.wait.group.sync.aligned 0
    nvgpu.warpgroup.mma.store %d, %dD : <fragmented = vector<64x64xf32>> to memref<64x64xf32>
    gpu.terminator
  }
  %t5 = gpu.memcpy async [%start] %D, %dD : memref<64x64xf32>, memref<64x64xf32>
  gpu.wait [%t5]
  linalg.matmul ins(%A, %B : memref<64x64xf16>, memref<64x64xf16>) outs(%R : memref<64x64xf32>)
  scf.for %i = %c0 to %c64 step %c1 {
    scf.for %j = %c0 to %c64 step %c1 {
      %d = memref.load %D[%i, %j] : memref<64x64xf32>
      %r = memref.load %R[%i, %j] : memref<64x64xf32>
      %same = arith.cmpf oeq, %d, %r : f32
      cf.assert %same, "an element of D is wrong"
    }
  }
  %last = memref.load %D[%c1, %c0] : memref<64x64xf32>
  vector.print %last : f32
  return
}
func.func @numbers(%i: index, %j: index) -> (f16, f16) {
  %c5 = arith.constant 5 : index
  %c9 = arith.constant 9 : index
  %0 = arith.muli %i, %c5 : index
  %1 = arith.addi %0, %j : index
  %2 = arith.remui %1, %c9 : index
  %3 = arith.muli %j, %c5 : index
  %4 = arith.addi %3, %i : index
  %5 = arith.remui %4, %c9 : index
  %6 = arith.index_cast %2 : index to i32
  %7 = arith.index_cast %5 : index to i32
  %8 = arith.sitofp %6 : i32 to f16
  %9 = arith.sitofp %7 : i32 to f16
  return %8, %9 : f16, f16
}
