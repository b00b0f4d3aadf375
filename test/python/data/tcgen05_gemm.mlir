// One CTA computes D = A * B^T, D 384x64 in f32, A 384x128 and B 64x128 in f16, as three tiles of 128 rows. Warp 0 copies K
// blocks by TMA into a ring of three stages, which the products empty. Warp 1 multiplies them into a ring of two
// accumulators in tensor memory, which warps 4 to 7 read and store.

!Stages_A = !tile.buffer<array<i64: 3, 128, 64>, f16, #tile.layout<"S[(3,128,64):(8192,64,1)] xor 128B">, "shared">
!Stages_B = !tile.buffer<array<i64: 3, 64, 64>, f16, #tile.layout<"S[(3,64,64):(4096,64,1)] xor 128B">, "shared">
!Stage_A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!Stage_B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!Rows = tensor<128x64xf32, #tile.layout<"S[(4,32,64):(1@warpid,1@laneid,1)]">>
!Map_A = !tile.map<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">>
!Map_B = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
!Accumulators = !tile.buffer<array<i64: 2, 128, 64>, f32, #tile.layout<"S[(2,128,64):(64@TCol,1@TLane,1@TCol)]">, "tmem">
!Accumulator = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!Ring = !tile.ring<3 : i64>
!Sums = !tile.ring<2 : i64>

#one = affine_map<(d0, d1, d2, d3, d4, d5) -> (1, 1, 1)>

gpu.module @tcgen05_gemm [#nvvm.target<chip = "sm_100a">] {
  gpu.func @tcgen05_gemm(%A: memref<384x128xf16>, %B: memref<64x128xf16>, %D: memref<384x64xf32>) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>, weft.grid = #one, weft.writes = array<i32: 2>} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %tiles = arith.constant 3 : i32
    %blocks = arith.constant 2 : i32
    %64 = arith.constant 64 : i32
    %columns = arith.constant 128 : i32
    %stages_a = "tile.alloc"() : () -> !Stages_A
    %stages_b = "tile.alloc"() : () -> !Stages_B
    %map_a = "tile.tensor_map"(%A) : (memref<384x128xf16>) -> !Map_A
    %map_b = "tile.tensor_map"(%B) : (memref<64x128xf16>) -> !Map_B
    %ring = "tile.make_ring"() {emptied_by = "mma", consumers = 1 : i64} : () -> !Ring
    %sums = "tile.make_ring"() {filled_by = "mma", emptied_by = "warps", consumers = 4 : i64} : () -> !Sums
    "tile.tensor_memory"() ({
      %accumulators = "tile.alloc"() : () -> !Accumulators

      "tile.role"() ({
      ^bb0(%number: i32):
        %one = nvvm.elect.sync -> i1
        scf.if %one {
          %left:2 = scf.for %tile = %c0 to %tiles step %c1 iter_args(%s = %c0, %p = %c0) -> (i32, i32) : i32 {
            %row = arith.muli %tile, %columns : i32
            %after:2 = scf.for %block = %c0 to %blocks step %c1 iter_args(%stage = %s, %phase = %p) -> (i32, i32) : i32 {
              "tile.acquire"(%ring, %stage, %phase) : (!Ring, i32, i32) -> ()
              "tile.expect"(%ring, %stage) {bytes = 24576 : i64} : (!Ring, i32) -> ()
              %full = "tile.full_barrier"(%ring, %stage) : (!Ring, i32) -> !llvm.ptr<3>
              %k = arith.muli %block, %64 : i32
              %a = "tile.stage"(%stages_a, %stage) : (!Stages_A, i32) -> !Stage_A
              %b = "tile.stage"(%stages_b, %stage) : (!Stages_B, i32) -> !Stage_B
              "tile.copy_async"(%map_a, %row, %k, %a, %full) : (!Map_A, i32, i32, !Stage_A, !llvm.ptr<3>) -> ()
              "tile.copy_async"(%map_b, %c0, %k, %b, %full) : (!Map_B, i32, i32, !Stage_B, !llvm.ptr<3>) -> ()
              %next:2 = "tile.advance"(%ring, %stage, %phase) : (!Ring, i32, i32) -> (i32, i32)
              scf.yield %next#0, %next#1 : i32, i32
            }
            scf.yield %after#0, %after#1 : i32, i32
          }
        }
      }) {first = 0 : i64, warps = 1 : i64} : () -> ()

      "tile.role"() ({
      ^bb0(%number: i32):
        %one = nvvm.elect.sync -> i1
        scf.if %one {
          %left:4 = scf.for %tile = %c0 to %tiles step %c1
              iter_args(%s = %c0, %p = %c0, %slice = %c0, %round = %c0) -> (i32, i32, i32, i32) : i32 {
            "tile.acquire"(%sums, %slice, %round) : (!Sums, i32, i32) -> ()
            %accumulator = "tile.stage"(%accumulators, %slice) : (!Accumulators, i32) -> !Accumulator
            %after:2 = scf.for %block = %c0 to %blocks step %c1 iter_args(%stage = %s, %phase = %p) -> (i32, i32) : i32 {
              "tile.await"(%ring, %stage, %phase) : (!Ring, i32, i32) -> ()
              %a = "tile.stage"(%stages_a, %stage) : (!Stages_A, i32) -> !Stage_A
              %b = "tile.stage"(%stages_b, %stage) : (!Stages_B, i32) -> !Stage_B
              %more = arith.cmpi ne, %block, %c0 : i32
              "tile.gemm_async"(%a, %b, %accumulator, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!Stage_A, !Stage_B, !Accumulator, i1) -> ()
              "tile.release"(%ring, %stage) : (!Ring, i32) -> ()
              %next:2 = "tile.advance"(%ring, %stage, %phase) : (!Ring, i32, i32) -> (i32, i32)
              scf.yield %next#0, %next#1 : i32, i32
            }
            "tile.commit"(%sums, %slice) : (!Sums, i32) -> ()
            %following:2 = "tile.advance"(%sums, %slice, %round) : (!Sums, i32, i32) -> (i32, i32)
            scf.yield %after#0, %after#1, %following#0, %following#1 : i32, i32, i32, i32
          }
        }
      }) {first = 1 : i64, warps = 1 : i64} : () -> ()

      "tile.role"() ({
      ^bb0(%number: i32):
        %left:2 = scf.for %tile = %c0 to %tiles step %c1 iter_args(%slice = %c0, %round = %c0) -> (i32, i32) : i32 {
          "tile.await"(%sums, %slice, %round) : (!Sums, i32, i32) -> ()
          %accumulator = "tile.stage"(%accumulators, %slice) : (!Accumulators, i32) -> !Accumulator
          %values = "tile.load"(%accumulator, %c0, %c0) : (!Accumulator, i32, i32) -> !Rows
          "tile.release"(%sums, %slice) : (!Sums, i32) -> ()
          %row = arith.muli %tile, %columns : i32
          "tile.store"(%values, %D, %row, %c0) {vector_bytes = 16 : i64} : (!Rows, memref<384x64xf32>, i32, i32) -> ()
          %next:2 = "tile.advance"(%sums, %slice, %round) : (!Sums, i32, i32) -> (i32, i32)
          scf.yield %next#0, %next#1 : i32, i32
        }
      }) {first = 4 : i64, warps = 4 : i64} : () -> ()
    }) {warp = 1 : i64} : () -> ()
    gpu.return
  }
}
