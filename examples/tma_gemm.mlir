// One CTA computes D = A * B^T with D 64x64 in f32, and A and B 64x256 in f16. One thread of the first warpgroup copies K blocks
// by TMA into a ring of three stages. The other warpgroup multiplies them by wgmma.
//
//   weft run examples/tma_gemm.mlir
//
// A stage is a tile of 64 rows of 128 bytes with the 128B swizzle that wgmma and TMA share. The stage and the phase of a ring
// begin at 0.

!Stages = !tile.buffer<array<i64: 3, 64, 64>, f16, #tile.layout<"S[(3,64,64):(4096,64,1)] xor 128B">, "shared">
!Stage = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
!Sums = tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!Ring = !tile.ring<3 : i64>

#one = affine_map<(d0, d1, d2, d3, d4, d5) -> (1, 1, 1)>

gpu.module @tma_gemm [#nvvm.target<chip = "sm_90a">] {
  gpu.func @tma_gemm(%A: memref<64x256xf16>, %B: memref<64x256xf16>, %D: memref<64x64xf32>) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>, weft.grid = #one, weft.writes = array<i32: 2>} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %blocks = arith.constant 4 : i32
    %stages_a = "tile.alloc"() : () -> !Stages
    %stages_b = "tile.alloc"() : () -> !Stages
    %map_a = "tile.tensor_map"(%A) : (memref<64x256xf16>) -> !Map
    %map_b = "tile.tensor_map"(%B) : (memref<64x256xf16>) -> !Map
    %ring = "tile.make_ring"() {consumers = 1 : i64} : () -> !Ring
    gpu.barrier  // the ring is there for all threads

    "tile.role"() ({
    ^bb0(%number: i32):
      %thread = gpu.thread_id x
      %first = arith.constant 0 : index
      %one = arith.cmpi eq, %thread, %first : index
      scf.if %one {
        %64 = arith.constant 64 : i32
        %left:2 = scf.for %block = %c0 to %blocks step %c1 iter_args(%stage = %c0, %phase = %c0) -> (i32, i32) : i32 {
          "tile.acquire"(%ring, %stage, %phase) : (!Ring, i32, i32) -> ()
          "tile.expect"(%ring, %stage) {bytes = 16384 : i64} : (!Ring, i32) -> ()  // a stage of A and one of B
          %full = "tile.full_barrier"(%ring, %stage) : (!Ring, i32) -> !llvm.ptr<3>
          %k = arith.muli %block, %64 : i32
          %a = "tile.stage"(%stages_a, %stage) : (!Stages, i32) -> !Stage
          %b = "tile.stage"(%stages_b, %stage) : (!Stages, i32) -> !Stage
          "tile.copy_async"(%map_a, %c0, %k, %a, %full) : (!Map, i32, i32, !Stage, !llvm.ptr<3>) -> ()
          "tile.copy_async"(%map_b, %c0, %k, %b, %full) : (!Map, i32, i32, !Stage, !llvm.ptr<3>) -> ()
          %next:2 = "tile.advance"(%ring, %stage, %phase) : (!Ring, i32, i32) -> (i32, i32)
          scf.yield %next#0, %next#1 : i32, i32
        }
      }
    }) {first = 0 : i64, warpgroups = 1 : i64, registers = 0 : i64} : () -> ()

    "tile.role"() ({
    ^bb0(%number: i32):
      %lane = arith.constant dense<0.0> : vector<32xf32>
      %zero = "tile.from_lane"(%lane) : (vector<32xf32>) -> !Sums
      %true = arith.constant true
      %left:3 = scf.for %block = %c0 to %blocks step %c1 iter_args(%sums = %zero, %stage = %c0, %phase = %c0)
          -> (!Sums, i32, i32) : i32 {
        "tile.await"(%ring, %stage, %phase) : (!Ring, i32, i32) -> ()
        %a = "tile.stage"(%stages_a, %stage) : (!Stages, i32) -> !Stage
        %b = "tile.stage"(%stages_b, %stage) : (!Stages, i32) -> !Stage
        %under_way = "tile.gemm_async"(%a, %b, %sums, %true) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!Stage, !Stage, !Sums, i1) -> !Sums
        %done = "tile.wait_gemm"(%under_way) : (!Sums) -> !Sums
        "tile.release"(%ring, %stage) : (!Ring, i32) -> ()
        %next:2 = "tile.advance"(%ring, %stage, %phase) : (!Ring, i32, i32) -> (i32, i32)
        scf.yield %done, %next#0, %next#1 : !Sums, i32, i32
      }
      "tile.store"(%left#0, %D, %c0, %c0) {vector_bytes = 8 : i64} : (!Sums, memref<64x64xf32>, i32, i32) -> ()
    }) {first = 1 : i64, warpgroups = 1 : i64, registers = 0 : i64} : () -> ()
    gpu.return
  }
}
