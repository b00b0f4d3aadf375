// RUN: weft-opt %s --lower-copies --split-input-file --verify-diagnostics

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
gpu.module @m {
  gpu.func @copy_without_block_size(%m: memref<?x?xf16>, %i: i32, %t: !T) kernel {
    // expected-error @below {{'tile.copy' op expects a gpu.func with 'known_block_size' around it}}
    "tile.copy"(%m, %i, %i, %t) : (memref<?x?xf16>, i32, i32, !T) -> ()
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
gpu.module @m {
  gpu.func @copy_in_two_dimensions(%m: memref<?x?xf16>, %i: i32, %t: !T) kernel attributes {known_block_size = array<i32: 16, 2, 1>} {
    // expected-error @below {{'tile.copy' op expects a block of one dimension, got 16 x 2 x 1}}
    "tile.copy"(%m, %i, %i, %t) : (memref<?x?xf16>, i32, i32, !T) -> ()
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
gpu.module @m {
  gpu.func @copy_async_in_two_dimensions(%m: memref<?x?xf16>, %i: i32, %t: !T) kernel attributes {known_block_size = array<i32: 16, 2, 1>} {
    // expected-error @below {{'tile.copy_async' op expects a block of one dimension, got 16 x 2 x 1}}
    "tile.copy_async"(%m, %i, %i, %t) {vector_bytes = 16} : (memref<?x?xf16>, i32, i32, !T) -> ()
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 20>, f16, #tile.layout<"S[(64,20):(20,1)]">, "shared">
gpu.module @m {
  gpu.func @copy_async_of_odd_rows(%m: memref<?x?xf16>, %i: i32, %t: !T) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // expected-error @below {{'tile.copy_async' op expects tile rows of a multiple of 16 bytes, got 40}}
    "tile.copy_async"(%m, %i, %i, %t) {vector_bytes = 16} : (memref<?x?xf16>, i32, i32, !T) -> ()
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(1,64)]">, "shared">
gpu.module @m {
  gpu.func @copy_async_to_columns(%m: memref<?x?xf16>, %i: i32, %t: !T) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // expected-error @below {{op expects runs of 8 elements in a row of the buffer to be contiguous and aligned}}
    "tile.copy_async"(%m, %i, %i, %t) {vector_bytes = 16} : (memref<?x?xf16>, i32, i32, !T) -> ()
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,16,4):(4,256,1)]">, "shared">
gpu.module @m {
  gpu.func @copy_async_to_short_panels(%m: memref<?x?xf16>, %i: i32, %t: !T) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // expected-error @below {{op expects runs of 8 elements in a row of the buffer to be contiguous and aligned}}
    "tile.copy_async"(%m, %i, %i, %t) {vector_bytes = 16} : (memref<?x?xf16>, i32, i32, !T) -> ()
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(68,1)]">, "shared">
gpu.module @m {
  gpu.func @copy_async_to_unaligned_rows(%m: memref<?x?xf16>, %i: i32, %t: !T) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // expected-error @below {{op expects runs of 8 elements in a row of the buffer to be contiguous and aligned}}
    "tile.copy_async"(%m, %i, %i, %t) {vector_bytes = 16} : (memref<?x?xf16>, i32, i32, !T) -> ()
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
gpu.module @m {
  gpu.func @copy_by_some_lanes(%m: memref<?x?xf16>, %i: i32, %t: !T) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %thread = gpu.thread_id x
    %c16 = arith.constant 16 : index
    %some = arith.cmpi ult, %thread, %c16 : index
    scf.if %some {
      // expected-error @below {{'tile.copy' op expects all threads of the CTA to reach it together, but 'scf.if' depends on the thread}}
      "tile.copy"(%m, %i, %i, %t) : (memref<?x?xf16>, i32, i32, !T) -> ()
    }
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
gpu.module @m {
  gpu.func @copy_async_by_some_lanes(%m: memref<?x?xf16>, %i: i32, %t: !T) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %thread = gpu.thread_id x
    %c16 = arith.constant 16 : index
    %some = arith.cmpi ult, %thread, %c16 : index
    scf.if %some {
      // expected-error @below {{'tile.copy_async' op expects all threads of the CTA to reach it together, but 'scf.if' depends on the thread}}
      "tile.copy_async"(%m, %i, %i, %t) {vector_bytes = 16} : (memref<?x?xf16>, i32, i32, !T) -> ()
    }
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
!F = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
gpu.module @m {
  gpu.func @load_by_some_lanes(%m: memref<?x?xf16>, %i: i32, %t: !T) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %thread = gpu.thread_id x
    %c16 = arith.constant 16 : index
    %some = arith.cmpi ult, %thread, %c16 : index
    scf.if %some {
      // expected-error @below {{'tile.load' op expects all 32 lanes of the warp to reach it together, but 'scf.if' depends on the lane}}
      %0 = "tile.load"(%t, %i, %i) : (!T, i32, i32) -> !F
    }
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
!F = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
gpu.module @m {
  gpu.func @load_in_two_dimensions(%m: memref<?x?xf16>, %i: i32, %t: !T) kernel attributes {known_block_size = array<i32: 16, 2, 1>} {
    // expected-error @below {{'tile.load' op expects a block of one dimension, got 16 x 2 x 1}}
    %0 = "tile.load"(%t, %i, %i) : (!T, i32, i32) -> !F
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(1,64)]">, "shared">
!F = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
gpu.module @m {
  gpu.func @load_from_columns(%m: memref<?x?xf16>, %i: i32, %t: !T) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // expected-error @below {{op expects runs of 8 elements in a row of the buffer to be contiguous and aligned}}
    %0 = "tile.load"(%t, %i, %i) : (!T, i32, i32) -> !F
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(68,1)]">, "shared">
!F = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
gpu.module @m {
  gpu.func @load_from_unaligned_rows(%m: memref<?x?xf16>, %i: i32, %t: !T) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // expected-error @below {{op expects runs of 8 elements in a row of the buffer to be contiguous and aligned}}
    %0 = "tile.load"(%t, %i, %i) : (!T, i32, i32) -> !F
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
!F = tensor<4x8xf16, #tile.layout<"S[(4,8):(8@laneid,1@laneid)]">>
gpu.module @m {
  gpu.func @load_of_single_elements(%m: memref<?x?xf16>, %i: i32, %t: !T) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // expected-error @below {{'tile.load' op expects a fragment of 16-bit elements in pairs, got tensor<}}
    %0 = "tile.load"(%t, %i, %i) : (!T, i32, i32) -> !F
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
!F = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,1@laneid,4,8@laneid,1)]">>
gpu.module @m {
  gpu.func @load_of_other_lanes(%m: memref<?x?xf16>, %i: i32, %t: !T) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // expected-error @below {{op expects registers that hold 8x8 matrices as ldmatrix loads them, got S[(2,8,2,4,2):(2,1@laneid,4,8@laneid,1)]}}
    %0 = "tile.load"(%t, %i, %i) : (!T, i32, i32) -> !F
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
!F = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(1,4@laneid,4,1@laneid,2)]">>
gpu.module @m {
  gpu.func @load_of_pairs_apart(%m: memref<?x?xf16>, %i: i32, %t: !T) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // expected-error @below {{op expects registers that hold 8x8 matrices as ldmatrix loads them, got }}
    %0 = "tile.load"(%t, %i, %i) : (!T, i32, i32) -> !F
    gpu.return
  }
}

// -----

!F = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @load_global_without_block_size(%m: memref<?x?xf32>, %i: i32) kernel {
    // expected-error @below {{'tile.load' op expects a gpu.func with 'known_block_size' around it}}
    %0 = "tile.load"(%m, %i, %i) : (memref<?x?xf32>, i32, i32) -> !F
    gpu.return
  }
}

// -----

!F = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @load_global_in_two_dimensions(%m: memref<?x?xf32>, %i: i32) kernel attributes {known_block_size = array<i32: 16, 2, 1>} {
    // expected-error @below {{'tile.load' op expects a block of one dimension, got 16 x 2 x 1}}
    %0 = "tile.load"(%m, %i, %i) : (memref<?x?xf32>, i32, i32) -> !F
    gpu.return
  }
}

// -----

!F = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @load_global_of_wide_runs(%m: memref<?x?xf32>, %i: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // expected-error @below {{'tile.load' op expects runs of 4 registers in one row where vector_bytes is 16; nearest legal: 8}}
    %0 = "tile.load"(%m, %i, %i) {vector_bytes = 16} : (memref<?x?xf32>, i32, i32) -> !F
    gpu.return
  }
}

// -----

!F = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @store_in_two_dimensions(%f: !F, %m: memref<?x?xf32>, %i: i32) kernel attributes {known_block_size = array<i32: 16, 2, 1>} {
    // expected-error @below {{'tile.store' op expects a block of one dimension, got 16 x 2 x 1}}
    "tile.store"(%f, %m, %i, %i) : (!F, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }
}

// -----

!F = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @store_of_wide_runs(%f: !F, %m: memref<?x?xf32>, %i: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // expected-error @below {{'tile.store' op expects runs of 4 registers in one row where vector_bytes is 16; nearest legal: 8}}
    "tile.store"(%f, %m, %i, %i) {vector_bytes = 16} : (!F, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
gpu.module @m {
  gpu.func @copy_by_one_warp_of_the_warps_number(%m: memref<?x?xf16>, %i: i32, %t: !T) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %warp = gpu.subgroup_id : index
    %c0 = arith.constant 0 : index
    %first = arith.cmpi eq, %warp, %c0 : index
    scf.if %first {
      // expected-error @below {{'tile.copy' op expects all threads of the CTA to reach it together, but 'scf.if' depends on the thread}}
      "tile.copy"(%m, %i, %i, %t) : (memref<?x?xf16>, i32, i32, !T) -> ()
    }
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
gpu.module @m {
  gpu.func @copy_by_one_warp_of_a_quotient(%m: memref<?x?xf16>, %i: i32, %t: !T) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %thread = gpu.thread_id x
    %c32 = arith.constant 32 : index
    %warp = arith.divui %thread, %c32 : index
    %c0 = arith.constant 0 : index
    %first = arith.cmpi eq, %warp, %c0 : index
    scf.if %first {
      // expected-error @below {{'tile.copy' op expects all threads of the CTA to reach it together, but 'scf.if' depends on the thread}}
      "tile.copy"(%m, %i, %i, %t) : (memref<?x?xf16>, i32, i32, !T) -> ()
    }
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
gpu.module @m {
  gpu.func @copy_async_by_one_warp_of_the_warps_number(%m: memref<?x?xf16>, %i: i32, %t: !T) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %warp = gpu.subgroup_id : index
    %c0 = arith.constant 0 : index
    %first = arith.cmpi eq, %warp, %c0 : index
    scf.if %first {
      // expected-error @below {{'tile.copy_async' op expects all threads of the CTA to reach it together, but 'scf.if' depends on the thread}}
      "tile.copy_async"(%m, %i, %i, %t) {vector_bytes = 16} : (memref<?x?xf16>, i32, i32, !T) -> ()
    }
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
gpu.module @m {
  gpu.func @copy_async_by_one_warp_of_a_quotient(%m: memref<?x?xf16>, %i: i32, %t: !T) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %thread = gpu.thread_id x
    %c32 = arith.constant 32 : index
    %warp = arith.divui %thread, %c32 : index
    %c0 = arith.constant 0 : index
    %first = arith.cmpi eq, %warp, %c0 : index
    scf.if %first {
      // expected-error @below {{'tile.copy_async' op expects all threads of the CTA to reach it together, but 'scf.if' depends on the thread}}
      "tile.copy_async"(%m, %i, %i, %t) {vector_bytes = 16} : (memref<?x?xf16>, i32, i32, !T) -> ()
    }
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
gpu.module @m {
  gpu.func @copy_in_a_function(%m: memref<?x?xf16>, %i: i32, %t: !T) attributes {known_block_size = array<i32: 64, 1, 1>} {
    // expected-error @below {{'tile.copy' op expects to be in a kernel, so that all threads of the CTA reach it together}}
    "tile.copy"(%m, %i, %i, %t) : (memref<?x?xf16>, i32, i32, !T) -> ()
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
!F = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
gpu.module @m {
  gpu.func @load_by_part_of_a_warp(%i: i32, %t: !T) kernel attributes {known_block_size = array<i32: 48, 1, 1>} {
    // expected-error @below {{'tile.load' op expects a block of full warps of 32 lanes, got 48 threads}}
    %0 = "tile.load"(%t, %i, %i) : (!T, i32, i32) -> !F
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
gpu.module @m {
  gpu.func @copy_by_tma(%a: memref<?x?xf16>, %i: i32, %t: !T, %full: !llvm.ptr<3>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %0 = "tile.tensor_map"(%a) : (memref<?x?xf16>) -> !M
    // expected-error @below {{'tile.copy_async' op expects a memref, got a tile.map: run --lower-tma before --lower-copies}}
    "tile.copy_async"(%0, %i, %i, %t, %full) : (!M, i32, i32, !T, !llvm.ptr<3>) -> ()
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f32, #tile.layout<"S[(64,64):(1,64)]">, "shared">
!F = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @store_of_pairs_to_columns(%f: !F, %t: !T, %i: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // expected-error @below {{'tile.store' op expects runs of 2 elements in a row of the buffer to be contiguous and aligned}}
    "tile.store"(%f, %t, %i, %i) {vector_bytes = 8} : (!F, !T, i32, i32) -> ()
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f32, #tile.layout<"S[(64,64):(64,1)]">, "shared">
!F = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @store_of_wide_runs_to_a_buffer(%f: !F, %t: !T, %i: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // expected-error @below {{'tile.store' op expects runs of 4 registers in one row where vector_bytes is 16; nearest legal: 8}}
    "tile.store"(%f, %t, %i, %i) {vector_bytes = 16} : (!F, !T, i32, i32) -> ()
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
!F = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
gpu.module @m {
  gpu.func @store_to_a_buffer_by_some_lanes(%f: !F, %t: !T, %i: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %thread = gpu.thread_id x
    %c16 = arith.constant 16 : index
    %some = arith.cmpi ult, %thread, %c16 : index
    scf.if %some {
      // expected-error @below {{'tile.store' op expects all 32 lanes of the warp to reach it together, but 'scf.if' depends on the lane}}
      "tile.store"(%f, %t, %i, %i) : (!F, !T, i32, i32) -> ()
    }
    gpu.return
  }
}

// -----

// A role's number is the same in a warpgroup, not in the CTA.
!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
gpu.module @m {
  gpu.func @copy_in_a_role(%m: memref<?x?xf16>, %i: i32, %t: !T) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    "tile.role"() ({
    ^bb0(%number: i32):
      // expected-error @below {{'tile.copy' op expects all threads of the CTA to reach it together, but 'tile.role' depends on the thread}}
      "tile.copy"(%m, %i, %i, %t) : (memref<?x?xf16>, i32, i32, !T) -> ()
    }) {first = 0, warpgroups = 1, registers = 0} : () -> ()
    gpu.return
  }
}
