// One CTA computes D = A * B^T, or A^T * B^T if TRANSPOSED, in one stage: TMA copies A and B, tcgen05.mma multiplies them. The
// words in capital letters are chosen by the test.

!A = !tile.buffer<array<i64: SHAPE_A>, ELEMENT_A, #tile.layout<"LAYOUT_A">, "shared">
!B = !tile.buffer<array<i64: SHAPE_B>, ELEMENT_B, #tile.layout<"LAYOUT_B">, "shared">
!Map_A = !tile.map<array<i64: SHAPE_A>, ELEMENT_A, #tile.layout<"LAYOUT_A">>
!Map_B = !tile.map<array<i64: SHAPE_B>, ELEMENT_B, #tile.layout<"LAYOUT_B">>
!C = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!Rows = tensor<128x64xf32, #tile.layout<"S[(4,32,64):(1@warpid,1@laneid,1)]">>
!Ring = !tile.ring<1>
#one = affine_map<(d0, d1, d2, d3, d4, d5) -> (1, 1, 1)>
gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @m(%A: memref<?x?xELEMENT_A>, %B: memref<?x?xELEMENT_B>, %D: memref<128x64xf32>) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>, weft.grid = #one, weft.writes = array<i32: 2>} {
    %c0 = arith.constant 0 : i32
    %no = arith.constant false
    %a = "tile.alloc"() : () -> !A
    %b = "tile.alloc"() : () -> !B
    %map_a = "tile.tensor_map"(%A) : (memref<?x?xELEMENT_A>) -> !Map_A
    %map_b = "tile.tensor_map"(%B) : (memref<?x?xELEMENT_B>) -> !Map_B
    %ring = "tile.make_ring"() {emptied_by = "mma", consumers = 1} : () -> !Ring
    %sums = "tile.make_ring"() {filled_by = "mma", emptied_by = "warps", consumers = 4} : () -> !Ring
    "tile.tensor_memory"() ({
      %c = "tile.alloc"() : () -> !C
      "tile.role"() ({
      ^bb0(%number: i32):
        %one = nvvm.elect.sync -> i1
        scf.if %one {
          "tile.expect"(%ring, %c0) {bytes = BYTES} : (!Ring, i32) -> ()
          %full = "tile.full_barrier"(%ring, %c0) : (!Ring, i32) -> !llvm.ptr<3>
          "tile.copy_async"(%map_a, %c0, %c0, %a, %full) : (!Map_A, i32, i32, !A, !llvm.ptr<3>) -> ()
          "tile.copy_async"(%map_b, %c0, %c0, %b, %full) : (!Map_B, i32, i32, !B, !llvm.ptr<3>) -> ()
          "tile.await"(%ring, %c0, %c0) : (!Ring, i32, i32) -> ()
          "tile.gemm_async"(%a, %b, %c, %no) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_a = TRANSPOSED, transpose_b = true} : (!A, !B, !C, i1) -> ()
          "tile.commit"(%sums, %c0) : (!Ring, i32) -> ()
        }
      }) {first = 0, warps = 1} : () -> ()
      "tile.await"(%sums, %c0, %c0) : (!Ring, i32, i32) -> ()
      %d = "tile.load"(%c, %c0, %c0) : (!C, i32, i32) -> !Rows
      "tile.store"(%d, %D, %c0, %c0) {vector_bytes = 16} : (!Rows, memref<128x64xf32>, i32, i32) -> ()
    }) : () -> ()
    gpu.return
  }
}
