// RUN: weft-opt %s --lower-rings --split-input-file --verify-diagnostics

gpu.module @m {
  gpu.func @ring_of_an_argument(%r: !tile.ring<3>, %stage: i32, %phase: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'tile.await' op expects a ring from tile.make_ring}}
    "tile.await"(%r, %stage, %phase) : (!tile.ring<3>, i32, i32) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @ring_of_a_select(%c: i1, %stage: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %r = "tile.make_ring"() {consumers = 1} : () -> !tile.ring<3>
    %q = arith.select %c, %r, %r : !tile.ring<3>
    // expected-error @below {{'tile.expect' op expects a ring from tile.make_ring}}
    "tile.expect"(%q, %stage) {bytes = 16} : (!tile.ring<3>, i32) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @ring_used_elsewhere(%c: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %r = "tile.make_ring"() {consumers = 1} : () -> !tile.ring<3>
    // expected-error @below {{'arith.select' op uses a ring: run --lower-tma before --lower-rings}}
    %q = arith.select %c, %r, %r : !tile.ring<3>
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @release_by_some_threads(%stage: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %r = "tile.make_ring"() {consumers = 1} : () -> !tile.ring<3>
    %thread = gpu.thread_id x
    %c0 = arith.constant 0 : index
    %one = arith.cmpi eq, %thread, %c0 : index
    scf.if %one {
      // expected-error @below {{'tile.release' op expects all 128 threads of the warpgroup to reach it together, but 'scf.if' depends on the thread}}
      "tile.release"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    }
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @release_by_one_warp(%stage: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %r = "tile.make_ring"() {consumers = 1} : () -> !tile.ring<3>
    %warp = gpu.subgroup_id : index
    %c0 = arith.constant 0 : index
    %one = arith.cmpi eq, %warp, %c0 : index
    scf.if %one {
      // expected-error @below {{'tile.release' op expects all 128 threads of the warpgroup to reach it together, but 'scf.if' depends on the thread}}
      "tile.release"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    }
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @release_in_an_unknown_block(%stage: i32) kernel {
    %r = "tile.make_ring"() {consumers = 1} : () -> !tile.ring<3>
    // expected-error @below {{'tile.release' op expects to be in a kernel with 'known_block_size', so that all 128 threads of the warpgroup reach it together}}
    "tile.release"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @release_of_a_peer_by_one_warp(%stage: i32, %rank: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %r = "tile.make_ring"() {consumers = 1} : () -> !tile.ring<3>
    %warp = gpu.subgroup_id : index
    %c0 = arith.constant 0 : index
    %one = arith.cmpi eq, %warp, %c0 : index
    scf.if %one {
      // expected-error @below {{'tile.release_peer' op expects all 128 threads of the warpgroup to reach it together, but 'scf.if' depends on the thread}}
      "tile.release_peer"(%r, %stage, %rank) : (!tile.ring<3>, i32, i32) -> ()
    }
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @commit_by_some_lanes(%stage: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %r = "tile.make_ring"() {filled_by = "warps", emptied_by = "warps", consumers = 1} : () -> !tile.ring<3>
    %thread = gpu.thread_id x
    %c0 = arith.constant 0 : index
    %one = arith.cmpi eq, %thread, %c0 : index
    scf.if %one {
      // expected-error @below {{'tile.commit' op expects all 32 lanes of the warp to reach it together, but 'scf.if' depends on the lane}}
      "tile.commit"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    }
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @release_by_mmas_of_a_whole_warp(%stage: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %r = "tile.make_ring"() {emptied_by = "mma", consumers = 1} : () -> !tile.ring<3>
    // expected-error @below {{'tile.release' op expects one thread, got exec_scope warp: put it where one thread issues the MMAs, such as in a branch on nvvm.elect.sync}}
    "tile.release"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @release_by_mmas_of_some_lanes(%stage: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %r = "tile.make_ring"() {emptied_by = "mma", consumers = 1} : () -> !tile.ring<3>
    %thread = nvvm.read.ptx.sreg.tid.x : i32
    %c2 = arith.constant 2 : i32
    %some = arith.cmpi ult, %thread, %c2 : i32
    scf.if %some {
      // expected-error @below {{'tile.release' op expects one thread, got exec_scope 2 threads: put it where one thread issues}}
      "tile.release"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    }
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @release_by_a_warpgroup_in_a_role_of_warps(%stage: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %r = "tile.make_ring"() {consumers = 1} : () -> !tile.ring<3>
    "tile.role"() ({
    ^bb0(%number: i32):
      // expected-error @below {{'tile.release' op expects all 128 threads of the warpgroup to reach it together, but 'tile.role' depends on the thread}}
      "tile.release"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    }) {first = 0, warps = 4} : () -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @release_by_the_lanes_that_were_not_elected(%stage: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %r = "tile.make_ring"() {emptied_by = "warps", consumers = 1} : () -> !tile.ring<3>
    %one = nvvm.elect.sync -> i1
    scf.if %one {
    } else {
      // expected-error @below {{'tile.release' op expects all 32 lanes of the warp to reach it together, but 'scf.if' depends on the lane}}
      "tile.release"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    }
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @release_by_a_thread_of_a_part_of_a_warp(%stage: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %r = "tile.make_ring"() {emptied_by = "warps", consumers = 1} : () -> !tile.ring<3>
    %lane = nvvm.read.ptx.sreg.laneid : i32
    %c8 = arith.constant 8 : i32
    %some = arith.cmpi ult, %lane, %c8 : i32
    scf.if %some {
      %one = nvvm.elect.sync -> i1
      scf.if %one {
        // expected-error @below {{'tile.release' op expects all 32 lanes of the warp to reach it together, but 'scf.if' depends on the lane}}
        "tile.release"(%r, %stage) : (!tile.ring<3>, i32) -> ()
      }
    }
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @request_by_a_warp(%stage: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %r = "tile.make_ring"() {filled_by = "clc", emptied_by = "warps", consumers = 1} : () -> !tile.ring<3>
    // expected-error @below {{'tile.try_cancel' op expects one thread, got exec_scope CTA (128 threads): put it in a branch on nvvm.elect.sync}}
    "tile.try_cancel"(%r, %stage) : (!tile.ring<3>, i32) -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @pair_without_a_cluster() kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'tile.make_ring' op expects a kernel whose 'known_cluster_size' has whole pairs, got 1 CTAs}}
    %r = "tile.make_ring"() {emptied_by = "mma", consumers = 1, cta_group = 2} : () -> !tile.ring<3>
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @pair_and_a_half() kernel attributes {known_block_size = array<i32: 128, 1, 1>, known_cluster_size = array<i32: 3, 1, 1>} {
    // expected-error @below {{whole pairs, got 3 CTAs}}
    %r = "tile.make_ring"() {emptied_by = "mma", consumers = 1, cta_group = 2} : () -> !tile.ring<3>
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @too_many_readers() kernel attributes {known_block_size = array<i32: 128, 1, 1>, known_cluster_size = array<i32: 4, 1, 1>} {
    // expected-error @below {{'tile.make_ring' op consumers must be in 1..262143 in a cluster of 4 CTAs, got 262144}}
    %r = "tile.make_ring"() {filled_by = "clc", emptied_by = "threads", consumers = 262144} : () -> !tile.ring<3>
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @made_by_a_role() kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    "tile.role"() ({
    ^bb0(%number: i32):
      // expected-error @below {{'tile.make_ring' op expects all threads of the CTA to reach it, got it inside a 'tile.role' that depends on the thread}}
      %r = "tile.make_ring"() {emptied_by = "warps", consumers = 4 : i64} : () -> !tile.ring<2>
    }) {first = 4 : i64, warps = 4 : i64} : () -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @made_again(%n: i32) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    scf.for %i = %c0 to %n step %c1 : i32 {
      // expected-error @below {{'tile.make_ring' op expects to be reached once, outside of loops, got it inside a 'scf.for'}}
      %r = "tile.make_ring"() {emptied_by = "warps", consumers = 4 : i64} : () -> !tile.ring<2>
    }
    gpu.return
  }
}
