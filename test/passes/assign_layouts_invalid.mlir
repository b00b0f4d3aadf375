// RUN: weft-opt %s --assign-layouts --split-input-file --verify-diagnostics

gpu.module @m {
  gpu.func @few_rows(%x: memref<?x?xf32>, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'tile.load' op can't divide 2 rows of 256 among 128 threads: use a multiple of 4 rows}}
    %0 = "tile.load"(%x, %i, %i) {vector_bytes = 16} : (memref<?x?xf32>, i32, i32) -> tensor<2x256xf32>
    gpu.return
  }
}
