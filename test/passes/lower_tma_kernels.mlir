// RUN: weft-opt %s --lower-tma | FileCheck %s

// A kernel whose arguments say something gets its map too.
!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
gpu.module @m {
  // CHECK: gpu.func @k(%{{[a-z0-9]+}}: memref<?x?xf16> {llvm.noalias}, %{{[a-z0-9]+}}: !llvm.ptr)
  gpu.func @k(%a: memref<?x?xf16> {llvm.noalias}) kernel {
    %0 = "tile.tensor_map"(%a) : (memref<?x?xf16>) -> !Map
    gpu.return
  }
}
