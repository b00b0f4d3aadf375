gpu.module @m {
  gpu.func @k(%p: memref<32xi32>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %i = gpu.thread_id x
    %c0 = arith.constant 0 : index
    %x = memref.load %p[%i] : memref<32xi32>
    %t = "mma.movmatrix"(%x) : (i32) -> i32
    %first = arith.cmpi eq, %i, %c0 : index
    scf.if %first {
      memref.store %t, %p[%i] : memref<32xi32>
    }
    gpu.return
  }
}
