// The path of each copy, and why it isn't a faster one.
// RUN: weft-opt %s --lower-copies --tile-explain-dispatch --verify-diagnostics

!Halves = !tile.buffer<array<i64: 16, 16>, f16, #tile.layout<"S[(16,16):(16,1)]">, "shared">
!Floats = !tile.buffer<array<i64: 16, 8>, f32, #tile.layout<"S[(16,8):(8,1)]">, "shared">
!Padded = !tile.buffer<array<i64: 16, 8>, f32, #tile.layout<"S[(16,8):(9,1)]">, "shared">
!Peer = !tile.buffer<array<i64: 16, 8>, f32, #tile.layout<"S[(16,8):(8,1)]">, "cluster">
!PeerHalves = !tile.buffer<array<i64: 16, 16>, f16, #tile.layout<"S[(16,16):(16,1)]">, "cluster">
!Half = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!Rows = tensor<16x8xf32, #tile.layout<"S[(2,8,2,4):(1,4@laneid,2,1@laneid)]">>
!Pairs = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>

gpu.module @m [#nvvm.target<chip = "sm_80">] {
  gpu.func @copies(%m: memref<?x?xf16>, %h: !Halves, %i: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // expected-remark @below {{'tile.copy_async' op is lowered to cp.async.cg of 16 bytes}}
    // expected-note @below {{cp.async.bulk.tensor (TMA) needs a tile.map, got memref<?x?xf16>}}
    "tile.copy_async"(%m, %i, %i, %h) {vector_bytes = 16 : i64} : (memref<?x?xf16>, i32, i32, !Halves) -> ()
    // expected-remark @below {{'tile.copy_async' op is lowered to cp.async.ca of 4 bytes}}
    // expected-note @below {{cp.async of 16 bytes needs vector_bytes = 16, got 4}}
    // expected-note @below {{cp.async.bulk.tensor (TMA) needs a tile.map}}
    "tile.copy_async"(%m, %i, %i, %h) {vector_bytes = 4 : i64} : (memref<?x?xf16>, i32, i32, !Halves) -> ()
    // expected-remark @below {{'tile.copy' op is lowered to loads and stores of single elements}}
    // expected-note @below {{cp.async needs a tile.copy_async, whose rows are aligned to at least 4 bytes}}
    "tile.copy"(%m, %i, %i, %h) : (memref<?x?xf16>, i32, i32, !Halves) -> ()
    gpu.return
  }

  gpu.func @fragments(%h: !Halves, %f: !Floats, %o: !Padded, %p: !Peer, %i: i32)
      kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // expected-remark @below {{'tile.load' op is lowered to ldmatrix}}
    %0 = "tile.load"(%h, %i, %i) : (!Halves, i32, i32) -> !Half
    // expected-remark @below {{'tile.load' op is lowered to ldmatrix}}
    %1 = "tile.load"(%f, %i, %i) : (!Floats, i32, i32) -> !Rows
    // expected-remark @below {{'tile.load' op is lowered to plain loads}}
    // expected-note @below {{ldmatrix needs registers that hold rows of 8x8 matrices, got S[(2,8,4,2):(2,4@laneid,1@laneid,1)]}}
    %2 = "tile.load"(%f, %i, %i) : (!Floats, i32, i32) -> !Pairs
    // expected-remark @below {{'tile.load' op is lowered to plain loads}}
    // expected-note @below {{ldmatrix needs runs of 4 elements in a row of the buffer to be contiguous and aligned}}
    %3 = "tile.load"(%o, %i, %i) : (!Padded, i32, i32) -> !Rows
    // expected-remark @below {{'tile.load' op is lowered to plain loads}}
    // expected-note @below {{ldmatrix needs a buffer in the CTA's own shared memory, got cluster memory}}
    %4 = "tile.load"(%p, %i, %i) : (!Peer, i32, i32) -> !Rows
    // expected-remark @below {{'tile.store' op is lowered to plain stores}}
    // expected-note @below {{stmatrix needs elements of 16 bits, got 32}}
    "tile.store"(%1, %f, %i, %i) : (!Rows, !Floats, i32, i32) -> ()
    // expected-remark @below {{'tile.store' op is lowered to plain stores}}
    // expected-note @below {{stmatrix needs sm_90 or later, got sm_80}}
    "tile.store"(%0, %h, %i, %i) : (!Half, !Halves, i32, i32) -> ()
    gpu.return
  }
}

gpu.module @n [#nvvm.target<chip = "sm_90">] {
  gpu.func @stores(%h: !Halves, %f: !Half, %i: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // expected-remark @below {{'tile.store' op is lowered to stmatrix}}
    "tile.store"(%f, %h, %i, %i) : (!Half, !Halves, i32, i32) -> ()
    gpu.return
  }

  gpu.func @halves_of_a_peer(%h: !PeerHalves, %i: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    // expected-remark @below {{'tile.load' op is lowered to plain loads}}
    // expected-note @below {{ldmatrix needs a buffer in the CTA's own shared memory, got cluster memory}}
    %0 = "tile.load"(%h, %i, %i) : (!PeerHalves, i32, i32) -> !Half
    // expected-remark @below {{'tile.store' op is lowered to plain stores}}
    // expected-note @below {{stmatrix needs a buffer in the CTA's own shared memory, got cluster memory}}
    "tile.store"(%0, %h, %i, %i) : (!Half, !PeerHalves, i32, i32) -> ()
    gpu.return
  }
}
