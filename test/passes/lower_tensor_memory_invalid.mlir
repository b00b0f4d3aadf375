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

// -----

!Buffer = !tile.buffer<array<i64: 128, 4>, f32, #tile.layout<"S[(128,4):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m {
  gpu.func @in_a_loop(%n: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    scf.for %i = %c0 to %n step %c1 : i32 {
      // expected-error @below {{'tile.tensor_memory' op expects to be reached once, outside of loops, got it inside a 'scf.for'}}
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
  gpu.func @in_a_loop_of_blocks(%more: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    cf.br ^again
  ^again:
    // expected-error @below {{expects to be reached once, outside of loops, got it inside a loop of blocks}}
    "tile.tensor_memory"() ({
      %0 = "tile.alloc"() : () -> !Buffer
    }) : () -> ()
    cf.cond_br %more, ^again, ^end
  ^end:
    gpu.return
  }
}

// -----

!Buffer = !tile.buffer<array<i64: 128, 4>, f32, #tile.layout<"S[(128,4):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m {
  gpu.func @ring_of_a_pair() kernel attributes {known_block_size = array<i32: 128, 1, 1>, known_cluster_size = array<i32: 2, 1, 1>} {
    // expected-error @below {{'tile.make_ring' op cta_group must be 1, as that of the function's 'tile.tensor_memory', got 2}}
    %r = "tile.make_ring"() {emptied_by = "mma", consumers = 1 : i64, cta_group = 2 : i64} : () -> !tile.ring<2>
    // expected-note @below {{'tile.tensor_memory' op has cta_group 1}}
    "tile.tensor_memory"() ({
      %0 = "tile.alloc"() : () -> !Buffer
    }) : () -> ()
    gpu.return
  }
}

// -----

!Buffer = !tile.buffer<array<i64: 128, 4>, f32, #tile.layout<"S[(128,4):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m {
  gpu.func @commit_of_one_cta(%b: !llvm.ptr<3>) kernel attributes {known_block_size = array<i32: 128, 1, 1>, known_cluster_size = array<i32: 2, 1, 1>} {
    // expected-note @below {{'tile.tensor_memory' op has cta_group 2}}
    "tile.tensor_memory"() ({
      %0 = "tile.alloc"() : () -> !Buffer
      // expected-error @below {{'tcgen05.commit' op cta_group must be 2, as that of the function's 'tile.tensor_memory', got 1}}
      "tcgen05.commit"(%b) {cta_group = 1 : i64} : (!llvm.ptr<3>) -> ()
    }) {cta_group = 2 : i64} : () -> ()
    gpu.return
  }
}
