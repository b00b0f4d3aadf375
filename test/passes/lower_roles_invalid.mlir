// RUN: weft-opt %s --lower-roles --split-input-file --verify-diagnostics

gpu.module @m {
  gpu.func @of_an_unknown_block() kernel {
    // expected-error @below {{'tile.role' op expects to be in a kernel with 'known_block_size', so that all 128 threads of the warpgroup reach it together}}
    "tile.role"() ({
    ^bb0(%number: i32):
    }) {first = 0, warpgroups = 1, registers = 0} : () -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @of_two_dimensions() kernel attributes {known_block_size = array<i32: 128, 2, 1>} {
    // expected-error @below {{'tile.role' op expects a block of full warpgroups of 128 threads along x, got (128, 2, 1)}}
    "tile.role"() ({
    ^bb0(%number: i32):
    }) {first = 0, warpgroups = 1, registers = 0} : () -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @in_a_function() attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'tile.role' op expects to be in a kernel, so that all 128 threads of the warpgroup reach it together}}
    "tile.role"() ({
    ^bb0(%number: i32):
    }) {first = 0, warpgroups = 1, registers = 0} : () -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @by_some_threads() kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %thread = gpu.thread_id x
    %c64 = arith.constant 64 : index
    %some = arith.cmpi ult, %thread, %c64 : index
    scf.if %some {
      // expected-error @below {{'tile.role' op expects all 128 threads of the warpgroup to reach it together, but 'scf.if' depends on the thread}}
      "tile.role"() ({
      ^bb0(%number: i32):
      }) {first = 0, warpgroups = 1, registers = 0} : () -> ()
    }
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @warps_by_some_lanes() kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %thread = gpu.thread_id x
    %c8 = arith.constant 8 : index
    %some = arith.cmpi ult, %thread, %c8 : index
    scf.if %some {
      // expected-error @below {{'tile.role' op expects all 32 lanes of the warp to reach it together, but 'scf.if' depends on the lane}}
      "tile.role"() ({
      ^bb0(%number: i32):
      }) {first = 0, warps = 1} : () -> ()
    }
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @a_warpgroup_in_a_role_of_warps() kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.role"() ({
    ^bb0(%number: i32):
      // expected-error @below {{'tile.role' op expects all 128 threads of the warpgroup to reach it together, but 'scf.if' depends on the thread}}
      "tile.role"() ({
      ^bb0(%inner: i32):
      }) {first = 0, warpgroups = 1} : () -> ()
    }) {first = 0, warps = 4} : () -> ()
    gpu.return
  }
}
