// RUN: weft-opt %s --assign-layouts --split-input-file --verify-diagnostics

gpu.module @m {
  gpu.func @few_rows(%x: memref<?x?xf32>, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'tile.load' op can't divide 2 rows of 256 among 128 threads: use a multiple of 4 rows}}
    %0 = "tile.load"(%x, %i, %i) {vector_bytes = 16} : (memref<?x?xf32>, i32, i32) -> tensor<2x256xf32>
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @too_large(%x: memref<?x?xf32>, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'tile.load' op has a tile of 64 x 1024 that needs 512 registers of a thread, which has 255: loop over parts of its columns, at most 504 at once}}
    %0 = "tile.load"(%x, %i, %i) {vector_bytes = 16 : i64} : (memref<?x?xf32>, i32, i32) -> tensor<64x1024xf32>
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @product(%x: memref<?x?xf16>, %y: memref<?x?xf32>, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %0 = "tile.load"(%x, %i, %i) : (memref<?x?xf16>, i32, i32) -> tensor<64x64xf16>
    // expected-error @below {{'tile.gemm' op expects tiles with layouts: run --pipeline-loops first}}
    %1 = "tile.gemm"(%0, %0) : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf32>
    "tile.store"(%1, %y, %i, %i) : (tensor<64x64xf32>, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }
}
