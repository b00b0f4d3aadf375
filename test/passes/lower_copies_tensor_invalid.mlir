// RUN: weft-opt %s --split-input-file --verify-diagnostics --lower-copies

!Sum = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!Lines = tensor<128x64xf32, #tile.layout<"S[(128,4,16):(1,1@warpid,2@laneid)]">>
!Columns = tensor<128x32xf32, #tile.layout<"S[(4,32,32):(1@warpid,1,1@laneid)]">>
gpu.module @m {
  gpu.func @transposed(%b: !Sum, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'tile.load' op expects a fragment that an instruction moves: 16x64b needs lane 8, column 0 in register 0 of thread 1, which has lane 0, column 1; 16x128b needs lane 1, column 0 in register 0 of thread 4, which has lane 0, column 4; 16x256b needs lane 0, column 1 in register 1 of thread 0; 32x32b needs lane 1,}}
    %0 = "tile.load"(%b, %i, %i) : (!Sum, i32, i32) -> !Columns
    gpu.return
  }
}

// -----

!Sum = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!Blocks = tensor<32x64xf32, #tile.layout<"S[(32,4,16):(1@laneid,1@warpid,1)]">>
gpu.module @m {
  gpu.func @lanes_of_other_warps(%b: !Sum, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'tile.load' op expects warps whose parts are 32 lanes apart, got that of warp 1 at lane 0, column 16 instead of lane 32, column 0}}
    %0 = "tile.load"(%b, %i, %i) : (!Sum, i32, i32) -> !Blocks
    gpu.return
  }
}

// -----

!Copies = !tile.buffer<array<i64: 64, 8>, i8, #tile.layout<"S[(64,8):(1@TLane,1@TCol)] + R[(2):(64@TLane)]">, "tmem">
!Rows = tensor<64x8xi8, #tile.layout<"S[(2,32,2,4):(1@warpid,1@laneid,2@warpid,1)]">>
gpu.module @m {
  gpu.func @copies(%b: !Copies, %f: !Rows, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'tile.store' op expects a fragment of one warp for a buffer with copies, got layout S[(2,32,2,4):(1@warpid,1@laneid,2@warpid,1)]}}
    "tile.store"(%f, %b, %i, %i) : (!Rows, !Copies, i32, i32) -> ()
    gpu.return
  }
}

// -----

!Copies = !tile.buffer<array<i64: 16, 4>, i8, #tile.layout<"S[(16,4):(1@TLane,1@TCol)] + R[(2):(16@TLane)]">, "tmem">
!Rows = tensor<16x4xi8, #tile.layout<"S[(16,2,2):(1@laneid,16@laneid,1)]">>
gpu.module @m {
  gpu.func @copies_in_a_warps_lanes(%b: !Copies, %f: !Rows, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'tile.store' op expects copies in the lanes of other warps, 32 lanes apart or more, got layout S[(16,4):(1@TLane,1@TCol)] + R[(2):(16@TLane)]}}
    "tile.store"(%f, %b, %i, %i) : (!Rows, !Copies, i32, i32) -> ()
    gpu.return
  }
}

// -----

!Packed = !tile.buffer<array<i64: 32, 6>, f16, #tile.layout<"S[(32,6):(1@TLane,1@TCol)]">, "tmem">
!Three = tensor<32x3xf16, #tile.layout<"S[(32,3):(1@laneid,1)]">>
gpu.module @m {
  gpu.func @half_a_column(%b: !Packed, %f: !Three, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'tile.store' op expects parts of shape [32, 3] that begin at whole columns of 32 bits}}
    "tile.store"(%f, %b, %i, %i) : (!Three, !Packed, i32, i32) -> ()
    gpu.return
  }
}

// -----

!Packed = !tile.buffer<array<i64: 32, 4>, f16, #tile.layout<"S[(32,4):(1@TLane,1@TCol)]">, "tmem">
!Apart = tensor<32x4xf16, #tile.layout<"S[(32,2,2):(1@laneid,1,2)]">>
gpu.module @m {
  gpu.func @split_columns(%b: !Packed, %f: !Apart, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'tile.store' op expects registers of 2 elements that are one column of the buffer}}
    "tile.store"(%f, %b, %i, %i) : (!Apart, !Packed, i32, i32) -> ()
    gpu.return
  }
}

// -----

!Panels = !tile.buffer<array<i64: 128, 48>, f32, #tile.layout<"S[(128,2,24):(1@TLane,32@TCol,1@TCol)]">, "tmem">
!Rows = tensor<128x16xf32, #tile.layout<"S[(4,32,16):(1@warpid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @different_parts(%b: !Panels, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'tile.load' op expects parts of shape [128, 16] of one layout in the buffer}}
    %0 = "tile.load"(%b, %i, %i) : (!Panels, i32, i32) -> !Rows
    gpu.return
  }
}

// -----

!Sum = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!Rows = tensor<128x16xf32, #tile.layout<"S[(4,32,16):(1@warpid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @some_lanes(%b: !Sum, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %one = nvvm.elect.sync -> i1
    scf.if %one {
      // expected-error @below {{expects all 32 lanes of the warp to reach it together, but 'scf.if' depends on the lane}}
      %0 = "tile.load"(%b, %i, %i) : (!Sum, i32, i32) -> !Rows
    }
    gpu.return
  }
}

// -----

!Shared = !tile.buffer<array<i64: 128, 8>, f16, #tile.layout<"S[(128,8):(8,1)]">, "shared">
!Tensor = !tile.buffer<array<i64: 128, 8>, f16, #tile.layout<"S[(128,8):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m {
  gpu.func @copy_by_all(%s: !Shared, %t: !Tensor) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'tile.copy_tmem' op expects one thread or a warp, got exec_scope CTA (128 threads)}}
    "tile.copy_tmem"(%s, %t) : (!Shared, !Tensor) -> ()
    gpu.return
  }
}

// -----

!Shared = !tile.buffer<array<i64: 128, 4>, f16, #tile.layout<"S[(128,4):(4,1)]">, "shared">
!Tensor = !tile.buffer<array<i64: 128, 4>, f16, #tile.layout<"S[(128,4):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m {
  gpu.func @copy_of_eight_bytes(%s: !Shared, %t: !Tensor) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // expected-error @below {{'tile.copy_tmem' op expects whole units of 16 bytes in each lane, got layout S[(128,4):(1@TLane,1@TCol)]}}
    "tile.copy_tmem"(%s, %t) : (!Shared, !Tensor) -> ()
    gpu.return
  }
}

// -----

!Shared = !tile.buffer<array<i64: 128, 8>, f16, #tile.layout<"S[(128,8):(1,128)]">, "shared">
!Tensor = !tile.buffer<array<i64: 128, 8>, f16, #tile.layout<"S[(128,8):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m {
  gpu.func @copy_of_columns(%s: !Shared, %t: !Tensor) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // expected-error @below {{expects elements in units of 16 bytes in both buffers, in the same order, got layouts S[(128,8):(1,128)] and S[(128,8):(1@TLane,1@TCol)]}}
    "tile.copy_tmem"(%s, %t) : (!Shared, !Tensor) -> ()
    gpu.return
  }
}

// -----

!Shared = !tile.buffer<array<i64: 128, 8>, f16, #tile.layout<"S[(128,8):(16,1)]">, "shared">
!Tensor = !tile.buffer<array<i64: 128, 8>, f16, #tile.layout<"S[(128,8):(1@TLane,1@TCol)]">, "tmem">
gpu.module @m {
  gpu.func @copy_of_rows_apart(%s: !Shared, %t: !Tensor) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // expected-error @below {{expects layouts between which an instruction copies: 128x256b needs lanes 0..127 of 8 columns; 128x128b needs a source of groups of 8 rows, one after the other, of 8 contiguous elements, as wide as swizzle none}}
    "tile.copy_tmem"(%s, %t) : (!Shared, !Tensor) -> ()
    gpu.return
  }
}

// -----

!Sum = !tile.buffer<array<i64: 128, 16>, f32, #tile.layout<"S[(128,16):(1@TLane,1@TCol)]">, "tmem">
!Rows = tensor<128x16xf32, #tile.layout<"S[(4,32,16):(1@warpid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @three_warps(%b: !Sum, %i: i32) kernel attributes {known_block_size = array<i32: 96, 1, 1>} {
    // expected-error @below {{'tile.load' op expects all 4 warps of a warpgroup, which hold the fragment, got warps 0, 1, 2 only: move it out of the branch that the others don't take}}
    %0 = "tile.load"(%b, %i, %i) : (!Sum, i32, i32) -> !Rows
    gpu.return
  }
}

// -----

!Rows = tensor<128x16xf32, #tile.layout<"S[(4,32,16):(1@warpid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @a_role_of_two_warps(%f: !Rows, %d: memref<128x16xf32>, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.role"() ({
    ^bb0(%number: i32):
      // expected-error @below {{'tile.store' op expects all 4 warps of a warpgroup, which hold the fragment, got warps 1, 2 only: move it out of the branch that the others don't take}}
      "tile.store"(%f, %d, %i, %i) : (!Rows, memref<128x16xf32>, i32, i32) -> ()
    }) {first = 1 : i64, warps = 2 : i64} : () -> ()
    gpu.return
  }
}
