// RUN: weft-opt %s --split-input-file --verify-diagnostics --lower-tensor-memory

!Buffer = !tile.buffer<array<i64: 128, 4>, f32, #tile.layout<"S[(128,4):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m {
  gpu.func @two() kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.tensor_memory"() ({
      %0 = "tile.alloc"() : () -> !Buffer
    }) : () -> ()
    // expected-error @below {{'tile.tensor_memory' op expects to be the only one in its kernel: put all buffers in one region}}
    "tile.tensor_memory"() ({
      %0 = "tile.alloc"() : () -> !Buffer
    }) : () -> ()
    gpu.return
  }
}

// -----

!Buffer = !tile.buffer<array<i64: 128, 4>, f32, #tile.layout<"S[(128,4):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m {
  gpu.func @a_part_of_the_threads(%c: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %thread = gpu.thread_id x
    %c0 = arith.constant 0 : index
    %first = arith.cmpi eq, %thread, %c0 : index
    scf.if %first {
      // expected-error @below {{expects all threads of the CTA to reach it together, but 'scf.if' depends on the thread}}
      "tile.tensor_memory"() ({
        %0 = "tile.alloc"() : () -> !Buffer
      }) : () -> ()
    }
    gpu.return
  }
}

// -----

!Buffer = !tile.buffer<array<i64: 128, 4>, f32, #tile.layout<"S[(128,4):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m {
  gpu.func @warp() kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'tile.tensor_memory' op warp must be below 4, the warps of the CTA, got 4}}
    "tile.tensor_memory"() ({
      %0 = "tile.alloc"() : () -> !Buffer
    }) {warp = 4 : i64} : () -> ()
    gpu.return
  }
}

// -----

!Buffer = !tile.buffer<array<i64: 128, 4>, f32, #tile.layout<"S[(128,4):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m {
  gpu.func @no_cluster() kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{expects a kernel with 'known_cluster_size', so that its CTAs form pairs}}
    "tile.tensor_memory"() ({
      %0 = "tile.alloc"() : () -> !Buffer
    }) {cta_group = 2 : i64} : () -> ()
    gpu.return
  }
}

// -----

!Buffer = !tile.buffer<array<i64: 128, 4>, f32, #tile.layout<"S[(128,4):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m {
  gpu.func @no_pairs() kernel attributes {known_block_size = array<i32: 128, 1, 1>, known_cluster_size = array<i32: 3, 2, 1>} {
    // expected-error @below {{expects a cluster of whole pairs along x, got 3 CTAs}}
    "tile.tensor_memory"() ({
      %0 = "tile.alloc"() : () -> !Buffer
    }) {cta_group = 2 : i64} : () -> ()
    gpu.return
  }
}

// -----

!Buffers = !tile.buffer<array<i64: 2, 128, 4>, f32, #tile.layout<"S[(2,128,4):(4@TCol,1@TLane,1@TCol)]">, "tmem">
!Buffer = !tile.buffer<array<i64: 128, 4>, f32, #tile.layout<"S[(128,4):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m {
  gpu.func @selected(%c: i1, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.tensor_memory"() ({
      %0 = "tile.alloc"() : () -> !Buffers
      %1 = "tile.alloc"() : () -> !Buffers
      %2 = arith.select %c, %0, %1 : !Buffers
      // expected-error @below {{expects a buffer from a tile.alloc, tile.stage or tile.slice in the region}}
      %3 = "tile.stage"(%2, %i) : (!Buffers, i32) -> !Buffer
    }) : () -> ()
    gpu.return
  }
}

// -----

!Buffers = !tile.buffer<array<i64: 2, 128, 4>, f32, #tile.layout<"S[(2,128,4):(4@TCol,1@TLane,1@TCol)]">, "tmem">
gpu.module @m {
  gpu.func @used(%c: i1, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.tensor_memory"() ({
      %0 = "tile.alloc"() : () -> !Buffers
      %1 = "tile.alloc"() : () -> !Buffers
      // expected-error @below {{'arith.select' op uses tensor memory: lower it before --lower-tensor-memory}}
      %2 = arith.select %c, %0, %1 : !Buffers
    }) : () -> ()
    gpu.return
  }
}

// -----

!Buffers = !tile.buffer<array<i64: 2, 128, 4>, f32, #tile.layout<"S[(2,128,4):(4@TCol,1@TLane,1@TCol)]">, "tmem">
gpu.module @m {
  func.func @no_kernel() {
    // expected-error @below {{expects to be in a kernel, so that all threads of the CTA reach it together}}
    "tile.tensor_memory"() ({
      %0 = "tile.alloc"() : () -> !Buffers
    }) : () -> ()
    return
  }
}
