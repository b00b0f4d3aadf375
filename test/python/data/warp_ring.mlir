// Warp 0 writes six rows of numbers into a ring of two stages, a lane each number; warps 1 and 2 read them, and each
// adds them up.

!Stages = !tile.buffer<array<i64: 2, 1, 32>, i32, #tile.layout<"S[(2,1,32):(32,32,1)]">, "shared">
!Stage = !tile.buffer<array<i64: 1, 32>, i32, #tile.layout<"S[(32):(1)]">, "shared">
!Ring = !tile.ring<2 : i64>

#one = affine_map<(d0, d1) -> (1, 1, 1)>

gpu.module @warp_ring [#nvvm.target<chip = "sm_90a">] {
  gpu.func @warp_ring(%D: memref<2x32xi32>) kernel
      attributes {known_block_size = array<i32: 96, 1, 1>, weft.grid = #one, weft.writes = array<i32: 0>} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %rows = arith.constant 6 : i32
    %32 = arith.constant 32 : i32
    %stages = "tile.alloc"() : () -> !Stages
    %ring = "tile.make_ring"() {filled_by = "threads", producers = 32 : i64, emptied_by = "warps", consumers = 2 : i64} : () -> !Ring
    gpu.barrier  // the ring is there for all threads
    %thread = gpu.thread_id x
    %tid = arith.index_cast %thread : index to i32
    %lane = arith.remui %tid, %32 : i32
    %column = arith.index_cast %lane : i32 to index

    "tile.role"() ({
    ^bb0(%number: i32):
      %left:2 = scf.for %row = %c0 to %rows step %c1 iter_args(%stage = %c0, %phase = %c0) -> (i32, i32) : i32 {
        "tile.acquire"(%ring, %stage, %phase) : (!Ring, i32, i32) -> ()
        %slot = "tile.stage"(%stages, %stage) : (!Stages, i32) -> !Stage
        %base = "tile.address"(%slot) : (!Stage) -> !llvm.ptr<3>
        %cell = llvm.getelementptr %base[%lane] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
        %square = arith.muli %row, %row : i32
        %value = arith.addi %square, %lane : i32
        llvm.store %value, %cell : i32, !llvm.ptr<3>
        "tile.commit"(%ring, %stage) : (!Ring, i32) -> ()
        %next:2 = "tile.advance"(%ring, %stage, %phase) : (!Ring, i32, i32) -> (i32, i32)
        scf.yield %next#0, %next#1 : i32, i32
      }
    }) {first = 0 : i64, warps = 1 : i64} : () -> ()

    "tile.role"() ({
    ^bb0(%number: i32):
      %left:3 = scf.for %row = %c0 to %rows step %c1 iter_args(%sum = %number, %stage = %c0, %phase = %c0) -> (i32, i32, i32) : i32 {
        "tile.await"(%ring, %stage, %phase) : (!Ring, i32, i32) -> ()
        %slot = "tile.stage"(%stages, %stage) : (!Stages, i32) -> !Stage
        %base = "tile.address"(%slot) : (!Stage) -> !llvm.ptr<3>
        // Each lane reads what its neighbor wrote.
        %other = arith.xori %lane, %c1 : i32
        %cell = llvm.getelementptr %base[%other] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
        %value = llvm.load %cell : !llvm.ptr<3> -> i32
        "tile.release"(%ring, %stage) : (!Ring, i32) -> ()
        %total = arith.addi %sum, %value : i32
        %next:2 = "tile.advance"(%ring, %stage, %phase) : (!Ring, i32, i32) -> (i32, i32)
        scf.yield %total, %next#0, %next#1 : i32, i32, i32
      }
      %line = arith.index_cast %number : i32 to index
      memref.store %left#0, %D[%line, %column] : memref<2x32xi32>
    }) {first = 1 : i64, warps = 2 : i64} : () -> ()
    gpu.return
  }
}
