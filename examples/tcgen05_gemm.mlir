// One warpgroup computes D = A * B^T with A 128x64 and B 128x64 in f16, and D 128x128 in f32. TMA copies A and B to
// stages 1 and 2 of buffers of three stages. One thread multiplies them by tcgen05.mma into columns 256 to 383 of tensor
// memory.
//
//   weft emulate examples/tcgen05_gemm.mlir
//   weft compile examples/tcgen05_gemm.mlir --emit ptx
//
// A stage is 128 rows of 128 bytes with the 128B swizzle that TMA and tcgen05.mma share.

!Stages = !tile.buffer<array<i64: 3, 128, 64>, f16, #tile.layout<"S[(3,128,64):(8192,64,1)] xor 128B">, "shared">
!Stage = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!Map = !tile.map<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">>
!Columns = !tile.buffer<array<i64: 128, 512>, f32, #tile.layout<"S[(128,512):(1@TLane,1@TCol)]">, "tmem">
!Accumulator = !tile.buffer<array<i64: 128, 128>, f32, #tile.layout<"S[(128,128):(1@TLane,1@TCol)]">, "tmem">
!Rows = tensor<128x128xf32, #tile.layout<"S[(4,32,128):(1@warpid,1@laneid,1)]">>
!Ring = !tile.ring<1 : i64>

#one = affine_map<(d0, d1, d2, d3, d4, d5) -> (1, 1, 1)>

gpu.module @tcgen05_gemm [#nvvm.target<chip = "sm_100a">] {
  gpu.func @tcgen05_gemm(%A: memref<128x64xf16>, %B: memref<128x64xf16>, %D: memref<128x128xf32>) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>, weft.grid = #one, weft.writes = array<i32: 2>} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %c256 = arith.constant 256 : i32
    %false = arith.constant false
    %stages_a = "tile.alloc"() : () -> !Stages
    %stages_b = "tile.alloc"() : () -> !Stages
    %map_a = "tile.tensor_map"(%A) : (memref<128x64xf16>) -> !Map
    %map_b = "tile.tensor_map"(%B) : (memref<128x64xf16>) -> !Map
    // Each ring of one stage is an mbarrier for what fills it, and one for what empties it.
    %loaded = "tile.make_ring"() {emptied_by = "mma", consumers = 1 : i64} : () -> !Ring
    %multiplied = "tile.make_ring"() {filled_by = "mma", emptied_by = "warps", consumers = 4 : i64} : () -> !Ring

    // Allocates 512 columns, whose address the barrier at the region's beginning gives to all threads.
    "tile.tensor_memory"() ({
      %columns = "tile.alloc"() : () -> !Columns
      %d = "tile.slice"(%columns, %c0, %c256) : (!Columns, i32, i32) -> !Accumulator
      %a = "tile.stage"(%stages_a, %c1) : (!Stages, i32) -> !Stage
      %b = "tile.stage"(%stages_b, %c2) : (!Stages, i32) -> !Stage
      %thread = gpu.thread_id x
      %first = arith.constant 0 : index
      %one = arith.cmpi eq, %thread, %first : index
      scf.if %one {
        "tile.expect"(%loaded, %c0) {bytes = 32768 : i64} : (!Ring, i32) -> ()
        %full = "tile.full_barrier"(%loaded, %c0) : (!Ring, i32) -> !llvm.ptr<3>
        "tile.copy_async"(%map_a, %c0, %c0, %a, %full) : (!Map, i32, i32, !Stage, !llvm.ptr<3>) -> ()
        "tile.copy_async"(%map_b, %c0, %c0, %b, %full) : (!Map, i32, i32, !Stage, !llvm.ptr<3>) -> ()
        "tile.await"(%loaded, %c0, %c0) : (!Ring, i32, i32) -> ()
        "tile.gemm_async"(%a, %b, %d, %false) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!Stage, !Stage, !Accumulator, i1) -> ()
        "tile.commit"(%multiplied, %c0) : (!Ring, i32) -> ()
      }
      // The ring's wait is followed by the fence that orders it before reads of tensor memory.
      "tile.await"(%multiplied, %c0, %c0) : (!Ring, i32, i32) -> ()
      %rows = "tile.load"(%d, %c0, %c0) : (!Accumulator, i32, i32) -> !Rows
      "tile.store"(%rows, %D, %c0, %c0) {vector_bytes = 16 : i64} : (!Rows, memref<128x128xf32>, i32, i32) -> ()
    }) : () -> ()  // frees the columns
    gpu.return
  }
}
