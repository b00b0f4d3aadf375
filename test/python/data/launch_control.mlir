// Each CTA of a cluster of two adds 1 to its own element of D, and then to those of the CTAs whose work it takes over:
// a grid of as many CTAs as elements. Warp 0 of the CTA of rank 0 asks for clusters. The elected threads of warps 1 and 2 and
// the whole warp 3 read the answers; warp 3 adds.

!Ring = !tile.ring<2 : i64>

#all = affine_map<(d0, d1) -> (d1, d0, 1)>

gpu.module @launch_control [#nvvm.target<chip = "sm_100a">] {
  gpu.func @launch_control(%D: memref<3x32xi32>) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>, known_cluster_size = array<i32: 2, 1, 1>, weft.grid = #all} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c32 = arith.constant 32 : i32
    %true = arith.constant true
    %ring = "tile.make_ring"() {filled_by = "clc", emptied_by = "warps", consumers = 3 : i64} : () -> !Ring
    %block_x = gpu.block_id x
    %block_y = gpu.block_id y
    %first_x = arith.index_cast %block_x : index to i32
    %first_y = arith.index_cast %block_y : index to i32
    %rank = nvvm.read.ptx.sreg.cluster.ctarank : i32
    %leads = arith.cmpi eq, %rank, %c0 : i32
    nvvm.cluster.arrive
    nvvm.cluster.wait

    "tile.role"() ({
    ^bb0(%number: i32):
      scf.if %leads {
        %one = nvvm.elect.sync -> i1
        scf.if %one {
          %end:3 = scf.while (%stage = %c0, %phase = %c0, %more = %true) : (i32, i32, i1) -> (i32, i32, i1) {
            scf.condition(%more) %stage, %phase, %more : i32, i32, i1
          } do {
          ^bb0(%stage: i32, %phase: i32, %more: i1):
            "tile.acquire"(%ring, %stage, %phase) : (!Ring, i32, i32) -> ()
            "tile.try_cancel"(%ring, %stage) : (!Ring, i32) -> ()
            "tile.await"(%ring, %stage, %phase) : (!Ring, i32, i32) -> ()
            %exists, %x, %y, %z = "tile.query_cancel"(%ring, %stage) : (!Ring, i32) -> (i1, i32, i32, i32)
            %next:2 = "tile.advance"(%ring, %stage, %phase) : (!Ring, i32, i32) -> (i32, i32)
            scf.yield %next#0, %next#1, %exists : i32, i32, i1
          }
        }
      }
    }) {first = 0 : i64, warps = 1 : i64} : () -> ()

    "tile.role"() ({
    ^bb0(%number: i32):
      %one = nvvm.elect.sync -> i1
      scf.if %one {
        %end:3 = scf.while (%stage = %c0, %phase = %c0, %more = %true) : (i32, i32, i1) -> (i32, i32, i1) {
          scf.condition(%more) %stage, %phase, %more : i32, i32, i1
        } do {
        ^bb0(%stage: i32, %phase: i32, %more: i1):
          "tile.await"(%ring, %stage, %phase) : (!Ring, i32, i32) -> ()
          %exists, %x, %y, %z = "tile.query_cancel"(%ring, %stage) : (!Ring, i32) -> (i1, i32, i32, i32)
          "tile.release"(%ring, %stage) : (!Ring, i32) -> ()
          %next:2 = "tile.advance"(%ring, %stage, %phase) : (!Ring, i32, i32) -> (i32, i32)
          scf.yield %next#0, %next#1, %exists : i32, i32, i1
        }
      }
    }) {first = 1 : i64, warps = 2 : i64} : () -> ()

    "tile.role"() ({
    ^bb0(%number: i32):
      %thread = gpu.thread_id x
      %tid = arith.index_cast %thread : index to i32
      %lane = arith.remui %tid, %c32 : i32
      %adds = arith.cmpi eq, %lane, %c0 : i32
      %end:5 = scf.while (%stage = %c0, %phase = %c0, %more = %true, %column = %first_x, %row = %first_y)
          : (i32, i32, i1, i32, i32) -> (i32, i32, i1, i32, i32) {
        scf.condition(%more) %stage, %phase, %more, %column, %row : i32, i32, i1, i32, i32
      } do {
      ^bb0(%stage: i32, %phase: i32, %more: i1, %column: i32, %row: i32):
        %at_row = arith.index_cast %row : i32 to index
        %at_column = arith.index_cast %column : i32 to index
        scf.if %adds {
          %old = memref.load %D[%at_row, %at_column] : memref<3x32xi32>
          %new = arith.addi %old, %c1 : i32
          memref.store %new, %D[%at_row, %at_column] : memref<3x32xi32>
        }
        "tile.await"(%ring, %stage, %phase) : (!Ring, i32, i32) -> ()
        %exists, %x, %y, %z = "tile.query_cancel"(%ring, %stage) : (!Ring, i32) -> (i1, i32, i32, i32)
        "tile.release"(%ring, %stage) : (!Ring, i32) -> ()
        %next:2 = "tile.advance"(%ring, %stage, %phase) : (!Ring, i32, i32) -> (i32, i32)
        scf.yield %next#0, %next#1, %exists, %x, %y : i32, i32, i1, i32, i32
      }
    }) {first = 3 : i64, warps = 1 : i64} : () -> ()

    nvvm.cluster.arrive
    nvvm.cluster.wait  // rank 0's barriers have been signaled
    gpu.return
  }
}
