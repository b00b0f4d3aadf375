// RUN: weft-opt %s --split-input-file --verify-diagnostics --lower-copies --lower-buffers --lower-rings

!Columns = !tile.buffer<array<i64: 128, 512>, f32, #tile.layout<"S[(128,512):(1@TLane,1@TCol)]">, "tmem">
!Sum = !tile.buffer<array<i64: 128, 128>, f32, #tile.layout<"S[(128,128):(1@TLane,1@TCol)]">, "tmem">
func.func @slice_between_columns(%b: !Columns) {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  // expected-error @below {{'tile.slice' op column must be a multiple of 128 in 0..384, got 64}}
  %0 = "tile.slice"(%b, %c0, %c64) : (!Columns, i32, i32) -> !Sum
  return
}

// -----

!Columns = !tile.buffer<array<i64: 128, 512>, f32, #tile.layout<"S[(128,512):(1@TLane,1@TCol)]">, "tmem">
!Sum = !tile.buffer<array<i64: 128, 128>, f32, #tile.layout<"S[(128,128):(1@TLane,1@TCol)]">, "tmem">
func.func @slice_after_the_last(%b: !Columns) {
  %c0 = arith.constant 0 : i32
  %c512 = arith.constant 512 : i32
  // expected-error @below {{'tile.slice' op column must be a multiple of 128 in 0..384, got 512}}
  %0 = "tile.slice"(%b, %c0, %c512) : (!Columns, i32, i32) -> !Sum
  return
}

// -----

!Rows = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!Part = !tile.buffer<array<i64: 16, 64>, f16, #tile.layout<"S[(16,64):(64,1)] xor 128B">, "shared">
func.func @slice_before_the_first(%b: !Rows) {
  %c0 = arith.constant 0 : i32
  %negative = arith.constant -16 : i32
  // expected-error @below {{'tile.slice' op row must be a multiple of 16 in 0..48, got -16}}
  %0 = "tile.slice"(%b, %negative, %c0) : (!Rows, i32, i32) -> !Part
  return
}

// -----

!Sums = !tile.buffer<array<i64: 2, 128, 64>, f32, #tile.layout<"S[(2,128,64):(64@TCol,1@TLane,1@TCol)]">, "tmem">
!Sum = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
func.func @stage_after_the_last(%b: !Sums) {
  %c2 = arith.constant 2 : i32
  // expected-error @below {{'tile.stage' op index must be in 0..1, got 2}}
  %0 = "tile.stage"(%b, %c2) : (!Sums, i32) -> !Sum
  return
}

// -----

!Sum = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!Rows = tensor<128x16xf32, #tile.layout<"S[(4,32,16):(1@warpid,1@laneid,1)]">>
func.func @load_between_parts(%b: !Sum) {
  %c0 = arith.constant 0 : i32
  %c8 = arith.constant 8 : i32
  // expected-error @below {{'tile.load' op column must be a multiple of 16 in 0..48, got 8}}
  %0 = "tile.load"(%b, %c0, %c8) : (!Sum, i32, i32) -> !Rows
  return
}

// -----

!Sum = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!Rows = tensor<128x16xf32, #tile.layout<"S[(4,32,16):(1@warpid,1@laneid,1)]">>
func.func @store_below_the_only_part(%b: !Sum, %f: !Rows) {
  %c0 = arith.constant 0 : i32
  %c128 = arith.constant 128 : i32
  // expected-error @below {{'tile.store' op row must be 0, got 128}}
  "tile.store"(%f, %b, %c128, %c0) : (!Rows, !Sum, i32, i32) -> ()
  return
}

// -----

// In the buffer, the tile is 8 x 16.
!Transposed = !tile.buffer<array<i64: 32, 64>, f16, #tile.layout<"S[(32,64):(64,1)]">, "shared">
!Fragment = tensor<16x8xf16, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @load_of_a_transposed_tile(%b: !Transposed) {
  %c0 = arith.constant 0 : i32
  %c4 = arith.constant 4 : i32
  // expected-error @below {{'tile.load' op row must be a multiple of 8 in 0..24, got 4}}
  %0 = "tile.load"(%b, %c4, %c0) {transpose = true} : (!Transposed, i32, i32) -> !Fragment
  return
}

// -----

func.func @stage_of_a_ring(%r: !tile.ring<4>, %phase: i32) {
  %c4 = arith.constant 4 : i32
  // expected-error @below {{'tile.await' op stage must be in 0..3, got 4}}
  "tile.await"(%r, %c4, %phase) : (!tile.ring<4>, i32, i32) -> ()
  return
}

// -----

func.func @phase_of_a_ring(%r: !tile.ring<4>, %stage: i32) {
  %c2 = arith.constant 2 : i32
  // expected-error @below {{'tile.acquire' op phase must be in 0..1, got 2}}
  "tile.acquire"(%r, %stage, %c2) : (!tile.ring<4>, i32, i32) -> ()
  return
}

// -----

func.func @only_stage(%r: !tile.ring<1>) {
  %c1 = arith.constant 1 : i32
  // expected-error @below {{'tile.release' op stage must be 0, got 1}}
  "tile.release"(%r, %c1) : (!tile.ring<1>, i32) -> ()
  return
}

// -----

func.func @no_cta(%r: !tile.ring<2>, %stage: i32) {
  %c0 = arith.constant 0 : i16
  // expected-error @below {{'tile.release' op mask must name at least one CTA, got 0}}
  "tile.release"(%r, %stage, %c0) : (!tile.ring<2>, i32, i16) -> ()
  return
}

// -----

!Stage = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
func.func @barrier_of_another_ring(%m: !Map, %t: !Stage, %i: i32) {
  %r = "tile.make_ring"() {filled_by = "mma", emptied_by = "warps", consumers = 4 : i64} : () -> !tile.ring<2>
  %b = "tile.full_barrier"(%r, %i) : (!tile.ring<2>, i32) -> !llvm.ptr<3>
  // expected-error @below {{'tile.copy_async' op expects the barrier of a ring whose filled_by is tma, got mma}}
  "tile.copy_async"(%m, %i, %i, %t, %b) : (!Map, i32, i32, !Stage, !llvm.ptr<3>) -> ()
  return
}

// -----

!Stage = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
func.func @barrier_of_a_pair(%m: !Map, %t: !Stage, %i: i32, %mask: i16) {
  %r = "tile.make_ring"() {emptied_by = "mma", consumers = 1 : i64, cta_group = 2 : i64} : () -> !tile.ring<2>
  %b = "tile.full_barrier"(%r, %i) : (!tile.ring<2>, i32) -> !llvm.ptr<3>
  // expected-error @below {{'tile.copy_multicast' op cta_group must be 2, that of the barrier's ring, got 1}}
  "tile.copy_multicast"(%m, %i, %i, %t, %b, %mask) : (!Map, i32, i32, !Stage, !llvm.ptr<3>, i16) -> ()
  return
}

// -----

func.func @no_region() {
  // expected-error @below {{'tile.tensor_memory' op expects 1 region (body), got 0}}
  "tile.tensor_memory"() : () -> ()
  return
}
