// Two CTAs compute D = A * B^T together, D 512x64 in f32, A 512x192 and B 64x192 in f16, as two tiles of 256 rows. Each
// CTA copies its own half of A's rows and of B's by TMA into a ring of the pair. The leader's warp 1 multiplies them into a
// ring of one accumulator in the tensor memory of both CTAs, 128 rows in each, which warps 4 to 7 of both read and store.

!Stages_A = !tile.buffer<array<i64: 2, 128, 64>, f16, #tile.layout<"S[(2,128,64):(8192,64,1)] xor 128B">, "shared">
!Stages_B = !tile.buffer<array<i64: 2, 32, 64>, f16, #tile.layout<"S[(2,32,64):(2048,64,1)] xor 128B">, "shared">
!Stage_A = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">, "shared">
!Stage_B = !tile.buffer<array<i64: 32, 64>, f16, #tile.layout<"S[(32,64):(64,1)] xor 128B">, "shared">
!Map_A = !tile.map<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(64,1)] xor 128B">>
!Map_B = !tile.map<array<i64: 32, 64>, f16, #tile.layout<"S[(32,64):(64,1)] xor 128B">>
!Word = !tile.buffer<array<i64: 1>, i32, #tile.layout<"S[(1):(1)]">, "shared">
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
    %columns = arith.constant 64 : i32
    %stages_a = "tile.alloc"() : () -> !Stages_A
    %stages_b = "tile.alloc"() : () -> !Stages_B
    %word = "tile.alloc"() : () -> !Word
    %map_a = "tile.tensor_map"(%A) : (memref<512x192xf16>) -> !Map_A
    %map_b = "tile.tensor_map"(%B) : (memref<64x192xf16>) -> !Map_B
    %ring = "tile.make_ring"() {emptied_by = "mma", consumers = 1 : i64, cta_group = 2 : i64} : () -> !Ring
    %sums = "tile.make_ring"() {filled_by = "mma", emptied_by = "warps", consumers = 4 : i64, cta_group = 2 : i64} : () -> !Sums
    %slot = "tile.address"(%word) : (!Word) -> !llvm.ptr<3>
    %rank = nvvm.read.ptx.sreg.cluster.ctarank : i32
    %odd = arith.remui %rank, %c2 : i32
    %leads = arith.cmpi eq, %odd, %c0 : i32
    nvvm.cluster.arrive
    nvvm.cluster.wait  // the rings are there for both CTAs
    "tile.role"() ({
    ^bb0(%number: i32):
      "tcgen05.alloc"(%slot, %columns) {cta_group = 2 : i64} : (!llvm.ptr<3>, i32) -> ()
      "tcgen05.relinquish_alloc_permit"() {cta_group = 2 : i64} : () -> ()
    }) {first = 1 : i64, warps = 1 : i64} : () -> ()
    nvvm.cluster.arrive
    nvvm.cluster.wait  // so are the columns
    %base = llvm.load %slot : !llvm.ptr<3> -> i32

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
        %idesc = "tcgen05.instruction_descriptor"() {kind = "f16", cta_group = 2 : i64, m = 256 : i64, n = 64 : i64, a_type = "f16", b_type = "f16", d_type = "f32"} : () -> i32
        %one = nvvm.elect.sync -> i1
        scf.if %one {
          %d = llvm.inttoptr %base : i32 to !llvm.ptr<6>
          %left:4 = scf.for %tile = %c0 to %tiles step %c1
              iter_args(%s = %c0, %p = %c0, %slice = %c0, %round = %c0) -> (i32, i32, i32, i32) : i32 {
            "tile.acquire"(%sums, %slice, %round) : (!Sums, i32, i32) -> ()
            %after:2 = scf.for %block = %c0 to %blocks step %c1 iter_args(%stage = %s, %phase = %p) -> (i32, i32) : i32 {
              "tile.await"(%ring, %stage, %phase) : (!Ring, i32, i32) -> ()
              %a = "tile.stage"(%stages_a, %stage) : (!Stages_A, i32) -> !Stage_A
              %b = "tile.stage"(%stages_b, %stage) : (!Stages_B, i32) -> !Stage_B
              %address_a = "tile.address"(%a) : (!Stage_A) -> !llvm.ptr<3>
              %address_b = "tile.address"(%b) : (!Stage_B) -> !llvm.ptr<3>
              %start_a = "tcgen05.shared_memory_descriptor"(%address_a) {stride_byte_offset = 1024 : i64, swizzle = "128B"} : (!llvm.ptr<3>) -> i64
              %start_b = "tcgen05.shared_memory_descriptor"(%address_b) {stride_byte_offset = 1024 : i64, swizzle = "128B"} : (!llvm.ptr<3>) -> i64
              %k0 = arith.constant 0 : i64
              %k1 = arith.constant 1 : i64
              %k4 = arith.constant 4 : i64
              %k2 = arith.constant 2 : i64
              scf.for %step = %k0 to %k4 step %k1 : i64 {
                %units = arith.muli %step, %k2 : i64
                %da = arith.addi %start_a, %units : i64
                %db = arith.addi %start_b, %units : i64
                %low = arith.trunci %step : i64 to i32
                %done = arith.ori %low, %block : i32
                %more = arith.cmpi ne, %done, %c0 : i32
                "tcgen05.mma"(%d, %da, %db, %idesc, %more) {kind = "f16", cta_group = 2 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1>} : (!llvm.ptr<6>, i64, i64, i32, i1) -> ()
              }
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
      %thread = gpu.thread_id x
      %tid = arith.index_cast %thread : index to i32
      %lane = arith.remui %tid, %32 : i32
      %first = arith.muli %number, %32 : i32
      %of_cta = arith.muli %rank, %128 : i32
      %in_cta = arith.addi %first, %lane : i32
      %own = arith.addi %of_cta, %in_cta : i32
      %16 = arith.constant 16 : i32
      %lanes = arith.shli %first, %16 : i32
      %zero = arith.constant 0 : index
      %left:2 = scf.for %tile = %c0 to %tiles step %c1 iter_args(%slice = %c0, %round = %c0) -> (i32, i32) : i32 {
        "tile.await"(%sums, %slice, %round) : (!Sums, i32, i32) -> ()
        %cell = arith.addi %base, %lanes : i32
        %from = llvm.inttoptr %cell : i32 to !llvm.ptr<6>
        %words = "tcgen05.ld"(%from) {shape = "32x32b", num = 64 : i64} : (!llvm.ptr<6>) -> vector<64xi32>
        "tcgen05.wait"() {kind = "ld"} : () -> ()
        "tile.release"(%sums, %slice) : (!Sums, i32) -> ()
        %values = vector.bitcast %words : vector<64xi32> to vector<64xf32>
        %start = arith.muli %tile, %256 : i32
        %row = arith.addi %start, %own : i32
        %line = arith.index_cast %row : i32 to index
        vector.store %values, %D[%line, %zero] : memref<512x64xf32>, vector<64xf32>
        %next:2 = "tile.advance"(%sums, %slice, %round) : (!Sums, i32, i32) -> (i32, i32)
        scf.yield %next#0, %next#1 : i32, i32
      }
      "tcgen05.fence"() {kind = "before_thread_sync"} : () -> ()
    }) {first = 4 : i64, warps = 4 : i64} : () -> ()

    nvvm.cluster.arrive
    nvvm.cluster.wait  // the sums of both CTAs have been read
    "tile.role"() ({
    ^bb0(%number: i32):
      "tcgen05.fence"() {kind = "after_thread_sync"} : () -> ()
      %all = llvm.inttoptr %base : i32 to !llvm.ptr<6>
      "tcgen05.dealloc"(%all, %columns) {cta_group = 2 : i64} : (!llvm.ptr<6>, i32) -> ()
    }) {first = 1 : i64, warps = 1 : i64} : () -> ()
    gpu.return
  }
}
