// Two CTAs compute D = A * B^T together, D 512x64 in f32, A 512x192 and B 64x192 in f16, as two tiles of 256 rows. Each
// CTA copies its own half of A's rows and of B's by TMA into a ring of the pair. The leader's warp 1 multiplies them into a
// ring of one accumulator in the tensor memory of both CTAs, 128 rows in each, which warps 4 to 7 of both read and store.

!Stages_A = !tile.buffer<array<i64: 2, 128, 64>, f16, #tile.layout<"S[(2,128,64):(8192,64,1)] xor 128B">, "shared">
!Stages_B = !tile.buffer<array<i64: 2, 32, 64>, f16, #tile.layout<"S[(2,32,64):(2048,64,1)] xor 128B">, "shared">
!Stage_A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!Stage_B = !tile.buffer<array<i64: 32, 64>, f16, #tile.layout<"S[(32,64):(64,1)] xor 128B">, "shared">
!Map_A = !tile.map<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">>
!Map_B = !tile.map<array<i64: 32, 64>, f16, #tile.layout<"S[(32,64):(64,1)] xor 128B">>
!Accumulator = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!Rows = tensor<128x64xf32, #tile.layout<"S[(4,32,64):(1@warpid,1@laneid,1)]">>
!Ring = !tile.ring<2 : i64>
!Sums = !tile.ring<1 : i64>

#two = affine_map<(d0, d1, d2, d3, d4, d5) -> (2, 1, 1)>

gpu.module @tcgen05_pair [#nvvm.target<chip = "sm_100a">] {
  gpu.func @tcgen05_pair(%A: memref<512x192xf16>, %B: memref<64x192xf16>, %D: memref<512x64xf32>) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>, known_cluster_size = array<i32: 2, 1, 1>, weft.grid = #two,
                  weft.writes = array<i32: 2>} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %tiles = arith.constant 2 : i32
    %blocks = arith.constant 3 : i32
    %32 = arith.constant 32 : i32
    %64 = arith.constant 64 : i32
    %128 = arith.constant 128 : i32
    %256 = arith.constant 256 : i32
    %stages_a = "tile.alloc"() : () -> !Stages_A
    %stages_b = "tile.alloc"() : () -> !Stages_B
    %map_a = "tile.tensor_map"(%A) : (memref<512x192xf16>) -> !Map_A
    %map_b = "tile.tensor_map"(%B) : (memref<64x192xf16>) -> !Map_B
    %ring = "tile.make_ring"() {emptied_by = "mma", consumers = 1 : i64, cta_group = 2 : i64} : () -> !Ring
    %sums = "tile.make_ring"() {filled_by = "mma", emptied_by = "warps", consumers = 4 : i64, cta_group = 2 : i64} : () -> !Sums
    %rank = nvvm.read.ptx.sreg.cluster.ctarank : i32
    %odd = arith.remui %rank, %c2 : i32
    %leads = arith.cmpi eq, %odd, %c0 : i32
    "tile.tensor_memory"() ({
      %accumulator = "tile.alloc"() : () -> !Accumulator

      "tile.role"() ({
      ^bb0(%number: i32):
        %one = nvvm.elect.sync -> i1
        scf.if %one {
          %own_a = arith.muli %rank, %128 : i32
          %own_b = arith.muli %rank, %32 : i32
          %left:2 = scf.for %tile = %c0 to %tiles step %c1 iter_args(%s = %c0, %p = %c0) -> (i32, i32) : i32 {
            %start = arith.muli %tile, %256 : i32
            %row = arith.addi %start, %own_a : i32
            %after:2 = scf.for %block = %c0 to %blocks step %c1 iter_args(%stage = %s, %phase = %p) -> (i32, i32) : i32 {
              "tile.acquire"(%ring, %stage, %phase) : (!Ring, i32, i32) -> ()
              "tile.expect"(%ring, %stage) {bytes = 20480 : i64} : (!Ring, i32) -> ()
              %full = "tile.full_barrier"(%ring, %stage) : (!Ring, i32) -> !llvm.ptr<3>
              %k = arith.muli %block, %64 : i32
              %a = "tile.stage"(%stages_a, %stage) : (!Stages_A, i32) -> !Stage_A
              %b = "tile.stage"(%stages_b, %stage) : (!Stages_B, i32) -> !Stage_B
              "tile.copy_async"(%map_a, %row, %k, %a, %full) {cta_group = 2 : i64} : (!Map_A, i32, i32, !Stage_A, !llvm.ptr<3>) -> ()
              "tile.copy_async"(%map_b, %own_b, %k, %b, %full) {cta_group = 2 : i64} : (!Map_B, i32, i32, !Stage_B, !llvm.ptr<3>) -> ()
              %next:2 = "tile.advance"(%ring, %stage, %phase) : (!Ring, i32, i32) -> (i32, i32)
              scf.yield %next#0, %next#1 : i32, i32
            }
            scf.yield %after#0, %after#1 : i32, i32
          }
          "tile.drain"(%ring, %left#0, %left#1) : (!Ring, i32, i32) -> ()
        }
      }) {first = 0 : i64, warps = 1 : i64} : () -> ()

      scf.if %leads {
        "tile.role"() ({
        ^bb0(%number: i32):
          %one = nvvm.elect.sync -> i1
          scf.if %one {
            %left:4 = scf.for %tile = %c0 to %tiles step %c1
                iter_args(%s = %c0, %p = %c0, %slice = %c0, %round = %c0) -> (i32, i32, i32, i32) : i32 {
              "tile.acquire"(%sums, %slice, %round) : (!Sums, i32, i32) -> ()
              %after:2 = scf.for %block = %c0 to %blocks step %c1 iter_args(%stage = %s, %phase = %p) -> (i32, i32) : i32 {
                "tile.await"(%ring, %stage, %phase) : (!Ring, i32, i32) -> ()
                %a = "tile.stage"(%stages_a, %stage) : (!Stages_A, i32) -> !Stage_A
                %b = "tile.stage"(%stages_b, %stage) : (!Stages_B, i32) -> !Stage_B
                %more = arith.cmpi ne, %block, %c0 : i32
                "tile.gemm_async"(%a, %b, %accumulator, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true, cta_group = 2 : i64} : (!Stage_A, !Stage_B, !Accumulator, i1) -> ()
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
      }

      "tile.role"() ({
      ^bb0(%number: i32):
        %own = arith.muli %rank, %128 : i32
        %left:2 = scf.for %tile = %c0 to %tiles step %c1 iter_args(%slice = %c0, %round = %c0) -> (i32, i32) : i32 {
          "tile.await"(%sums, %slice, %round) : (!Sums, i32, i32) -> ()
          %values = "tile.load"(%accumulator, %c0, %c0) : (!Accumulator, i32, i32) -> !Rows
          "tile.release"(%sums, %slice) : (!Sums, i32) -> ()
          %start = arith.muli %tile, %256 : i32
          %row = arith.addi %start, %own : i32
          "tile.store"(%values, %D, %row, %c0) {vector_bytes = 16 : i64} : (!Rows, memref<512x64xf32>, i32, i32) -> ()
          %next:2 = "tile.advance"(%sums, %slice, %round) : (!Sums, i32, i32) -> (i32, i32)
          scf.yield %next#0, %next#1 : i32, i32
        }
      }) {first = 4 : i64, warps = 4 : i64} : () -> ()
    }) {warp = 1 : i64, cta_group = 2 : i64} : () -> ()
    gpu.return
  }
}
