// RUN: weft-opt %s --split-input-file --verify-diagnostics

func.func @tensor_map_result(%m: memref<?x?xf16>) {
  // expected-error @below {{'tile.tensor_map' op expects to return a tile.map, got f16}}
  %0 = "tile.tensor_map"(%m) : (memref<?x?xf16>) -> f16
  return
}

// -----

!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
func.func @tensor_map_promotion(%m: memref<?x?xf16>) {
  // expected-error @below {{'tile.tensor_map' op l2_promotion must be one of none, 64B, 128B, 256B, got 512B}}
  %0 = "tile.tensor_map"(%m) {l2_promotion = "512B"} : (memref<?x?xf16>) -> !M
  return
}

// -----

!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
func.func @tensor_map_eviction(%m: memref<?x?xf16>) {
  // expected-error @below {{'tile.tensor_map' op l2_eviction must be one of evict_normal, evict_first, evict_last, evict_unchanged, got never}}
  %0 = "tile.tensor_map"(%m) {l2_eviction = "never"} : (memref<?x?xf16>) -> !M
  return
}

// -----

!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
func.func @tensor_map_of_no_matrix(%m: f16) {
  // expected-error @below {{expects the matrix to be a memref, got f16}}
  %0 = "tile.tensor_map"(%m) : (f16) -> !M
  return
}

// -----

!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
func.func @tensor_map_in_shared_memory(%m: memref<?x?xf16, 3>) {
  // expected-error @below {{expects the matrix in global memory, got memref<?x?xf16, 3>}}
  %0 = "tile.tensor_map"(%m) : (memref<?x?xf16, 3>) -> !M
  return
}

// -----

!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
func.func @tensor_map_of_columns(%m: memref<?x?xf16, strided<[1, ?]>>) {
  // expected-error @below {{expects rows of the matrix to be contiguous (innermost stride 1)}}
  %0 = "tile.tensor_map"(%m) : (memref<?x?xf16, strided<[1, ?]>>) -> !M
  return
}

// -----

!M = !tile.map<array<i64: 2, 64, 64>, f16, #tile.layout<"S[(2,64,64):(4096,64,1)] xor 128B">>
func.func @tensor_map_rank(%m: memref<?x?xf16>) {
  // expected-error @below {{expects tiles of rank 2, got shape [2, 64, 64]}}
  %0 = "tile.tensor_map"(%m) : (memref<?x?xf16>) -> !M
  return
}

// -----

!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
func.func @tensor_map_types(%m: memref<?x?xbf16>) {
  // expected-error @below {{expects equal element types, got memref<?x?xbf16> and !tile.map<}}
  %0 = "tile.tensor_map"(%m) : (memref<?x?xbf16>) -> !M
  return
}

// -----

!M = !tile.map<array<i32: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">>
func.func @map_shape_kind(%m: memref<?x?xf16>) {
  // expected-error @below {{has a map whose shape must be array<i64: ...>, got array<i32: 64, 64>}}
  %0 = "tile.tensor_map"(%m) : (memref<?x?xf16>) -> !M
  return
}

// -----

!M = !tile.map<array<i64: 64, 0>, f16, #tile.layout<"S[(64,64):(64,1)]">>
func.func @map_extent(%m: memref<?x?xf16>) {
  // expected-error @below {{has a map of shape [64, 0]: every extent must be at least 1}}
  %0 = "tile.tensor_map"(%m) : (memref<?x?xf16>) -> !M
  return
}

// -----

!M = !tile.map<array<i64: 64, 64>, i1, #tile.layout<"S[(64,64):(64,1)]">>
func.func @map_element(%m: memref<?x?xf16>) {
  // expected-error @below {{has a map of i1: elements must be one of f16, bf16, f32,}}
  %0 = "tile.tensor_map"(%m) : (memref<?x?xf16>) -> !M
  return
}

// -----

!M = !tile.map<array<i64: 64, 32>, f16, #tile.layout<"S[(64,64):(64,1)]">>
func.func @map_size(%m: memref<?x?xf16>) {
  // expected-error @below {{has a map of shape [64, 32] whose layout doesn't fit: shape (64, 32) doesn't have the 4096 elements of}}
  %0 = "tile.tensor_map"(%m) : (memref<?x?xf16>) -> !M
  return
}

// -----

!M = !tile.map<array<i64: 64, 32>, f16, #tile.layout<"S[(64,32):(1,1@laneid)]">>
func.func @map_axis(%m: memref<?x?xf16>) {
  // expected-error @below {{strides in memory have no axis, got @laneid}}
  %0 = "tile.tensor_map"(%m) : (memref<?x?xf16>) -> !M
  return
}

// -----

!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(32,1)]">>
func.func @map_overlap(%m: memref<?x?xf16>) {
  // expected-error @below {{has a map of layout S[(64,64):(32,1)]: its elements must not overlap}}
  %0 = "tile.tensor_map"(%m) : (memref<?x?xf16>) -> !M
  return
}

// -----

!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
func.func @copy_without_a_barrier(%m: !M, %i: i32, %t: !T) {
  // expected-error @below {{'tile.copy_async' op expects one barrier (!llvm.ptr<3>) after the tile, got 0 operands}}
  "tile.copy_async"(%m, %i, %i, %t) : (!M, i32, i32, !T) -> ()
  return
}

// -----

!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
func.func @copy_with_two_barriers(%m: !M, %i: i32, %t: !T, %b: !llvm.ptr<3>) {
  // expected-error @below {{expects one barrier (!llvm.ptr<3>) after the tile, got 2 operands}}
  "tile.copy_async"(%m, %i, %i, %t, %b, %b) : (!M, i32, i32, !T, !llvm.ptr<3>, !llvm.ptr<3>) -> ()
  return
}

// -----

!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
func.func @copy_with_a_barrier_elsewhere(%m: !M, %i: i32, %t: !T, %b: !llvm.ptr) {
  // expected-error @below {{expects a barrier of type !llvm.ptr<3>, got !llvm.ptr}}
  "tile.copy_async"(%m, %i, %i, %t, %b) : (!M, i32, i32, !T, !llvm.ptr) -> ()
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
func.func @copy_of_a_matrix_with_a_barrier(%m: memref<?x?xf16>, %i: i32, %t: !T, %b: !llvm.ptr<3>) {
  // expected-error @below {{expects a barrier only where the source is a tile.map, got memref<?x?xf16>}}
  "tile.copy_async"(%m, %i, %i, %t, %b) {vector_bytes = 16} : (memref<?x?xf16>, i32, i32, !T, !llvm.ptr<3>) -> ()
  return
}

// -----

!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
func.func @copy_of_vectors_from_a_map(%m: !M, %i: i32, %t: !T, %b: !llvm.ptr<3>) {
  // expected-error @below {{expects vector_bytes only where the source is a memref, got a tile.map}}
  "tile.copy_async"(%m, %i, %i, %t, %b) {vector_bytes = 16} : (!M, i32, i32, !T, !llvm.ptr<3>) -> ()
  return
}

// -----

!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
func.func @copy_to_no_buffer(%m: !M, %i: i32, %t: f16, %b: !llvm.ptr<3>) {
  // expected-error @below {{expects a tile.buffer, got f16}}
  "tile.copy_async"(%m, %i, %i, %t, %b) : (!M, i32, i32, f16, !llvm.ptr<3>) -> ()
  return
}

// -----

!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
func.func @copy_to_another_layout(%m: !M, %i: i32, %t: !T, %b: !llvm.ptr<3>) {
  // expected-error @below {{expects a buffer of the map's type, !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">, got}}
  "tile.copy_async"(%m, %i, %i, %t, %b) : (!M, i32, i32, !T, !llvm.ptr<3>) -> ()
  return
}

// -----

!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "cluster">
func.func @copy_to_a_peer(%m: !M, %i: i32, %t: !T, %b: !llvm.ptr<3>) {
  // expected-error @below {{expects a buffer of the map's type,}}
  "tile.copy_async"(%m, %i, %i, %t, %b) : (!M, i32, i32, !T, !llvm.ptr<3>) -> ()
  return
}

// -----

!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
func.func @copy_coordinates(%m: !M, %i: index, %t: !T, %b: !llvm.ptr<3>) {
  // expected-error @below {{expects i32 coordinates, got index}}
  "tile.copy_async"(%m, %i, %i, %t, %b) : (!M, index, index, !T, !llvm.ptr<3>) -> ()
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
func.func @store_to_no_map(%m: memref<?x?xf16>, %i: i32, %t: !T) {
  // expected-error @below {{'tile.store_async' op expects the matrix to be a tile.map, got memref<?x?xf16>}}
  "tile.store_async"(%t, %m, %i, %i) : (!T, memref<?x?xf16>, i32, i32) -> ()
  return
}

// -----

!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
!D = tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
func.func @store_of_a_fragment(%m: !M, %i: i32, %t: !D) {
  // expected-error @below {{expects a tile.buffer, got tensor<}}
  "tile.store_async"(%t, %m, %i, %i) : (!D, !M, i32, i32) -> ()
  return
}

// -----

!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
!T = !tile.buffer<array<i64: 64, 64>, bf16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
func.func @store_of_another_type(%m: !M, %i: i32, %t: !T) {
  // expected-error @below {{expects a buffer of the map's type, !tile.buffer<array<i64: 64, 64>, f16,}}
  "tile.store_async"(%t, %m, %i, %i) : (!T, !M, i32, i32) -> ()
  return
}

// -----

!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
func.func @store_coordinates(%m: !M, %i: i64, %t: !T) {
  // expected-error @below {{expects i32 coordinates, got i64}}
  "tile.store_async"(%t, %m, %i, %i) : (!T, !M, i64, i64) -> ()
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
func.func @add_to_no_map(%m: memref<?x?xf16>, %i: i32, %t: !T) {
  // expected-error @below {{'tile.add_async' op expects the matrix to be a tile.map, got memref<?x?xf16>}}
  "tile.add_async"(%t, %m, %i, %i) : (!T, memref<?x?xf16>, i32, i32) -> ()
  return
}

// -----

!M = !tile.map<array<i64: 64, 128>, i8, #tile.layout<"S[(64,128):(128,1)] xor 128B">>
!T = !tile.buffer<array<i64: 64, 128>, i8, #tile.layout<"S[(64,128):(128,1)] xor 128B">, "shared">
func.func @add_of_bytes(%m: !M, %i: i32, %t: !T) {
  // expected-error @below {{'tile.add_async' op expects elements of f32, f16, bf16, i64, i32, ui64, ui32, got i8}}
  "tile.add_async"(%t, %m, %i, %i) : (!T, !M, i32, i32) -> ()
  return
}

// -----

!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
func.func @add_coordinates(%m: !M, %i: i64, %t: !T) {
  // expected-error @below {{'tile.add_async' op expects i32 coordinates, got i64}}
  "tile.add_async"(%t, %m, %i, %i) : (!T, !M, i64, i64) -> ()
  return
}

// -----

!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
func.func @multicast_barrier(%m: !M, %i: i32, %t: !T, %b: !llvm.ptr<7>, %mask: i16) {
  // expected-error @below {{'tile.copy_multicast' op expects a barrier of type !llvm.ptr<3>, got !llvm.ptr<7>}}
  "tile.copy_multicast"(%m, %i, %i, %t, %b, %mask) : (!M, i32, i32, !T, !llvm.ptr<7>, i16) -> ()
  return
}

// -----

!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
func.func @multicast_mask(%m: !M, %i: i32, %t: !T, %b: !llvm.ptr<3>, %mask: i32) {
  // expected-error @below {{expects mask to be i16, got i32}}
  "tile.copy_multicast"(%m, %i, %i, %t, %b, %mask) : (!M, i32, i32, !T, !llvm.ptr<3>, i32) -> ()
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
func.func @multicast_of_a_matrix(%m: memref<?x?xf16>, %i: i32, %t: !T, %b: !llvm.ptr<3>, %mask: i16) {
  // expected-error @below {{expects the matrix to be a tile.map, got memref<?x?xf16>}}
  "tile.copy_multicast"(%m, %i, %i, %t, %b, %mask) : (memref<?x?xf16>, i32, i32, !T, !llvm.ptr<3>, i16) -> ()
  return
}

// -----

!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
!S = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
func.func @multicast_to_another_layout(%m: !M, %i: i32, %t: !S, %b: !llvm.ptr<3>, %mask: i16) {
  // expected-error @below {{expects a buffer of the map's type, !tile.buffer<}}
  "tile.copy_multicast"(%m, %i, %i, %t, %b, %mask) : (!M, i32, i32, !S, !llvm.ptr<3>, i16) -> ()
  return
}

// -----

!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
func.func @multicast_coordinates(%m: !M, %i: index, %t: !T, %b: !llvm.ptr<3>, %mask: i16) {
  // expected-error @below {{expects i32 coordinates, got index}}
  "tile.copy_multicast"(%m, %i, %i, %t, %b, %mask) : (!M, index, index, !T, !llvm.ptr<3>, i16) -> ()
  return
}

// -----

func.func @ring_result() {
  // expected-error @below {{'tile.make_ring' op expects to return a tile.ring, got i32}}
  %0 = "tile.make_ring"() {consumers = 1} : () -> i32
  return
}

// -----

func.func @ring_of_no_stages() {
  // expected-error @below {{'tile.make_ring' op has a ring whose stages must be in 1..64, got 0}}
  %0 = "tile.make_ring"() {consumers = 1} : () -> !tile.ring<0>
  return
}

// -----

func.func @ring_of_too_many_stages() {
  // expected-error @below {{stages must be in 1..64, got 65}}
  %0 = "tile.make_ring"() {consumers = 1} : () -> !tile.ring<65>
  return
}

// -----

!R = !tile.ring<4>
func.func @ring_for_nobody() {
  // expected-error @below {{consumers must be in 1..1048575, got 0}}
  %0 = "tile.make_ring"() {consumers = 0} : () -> !R
  return
}

// -----

!R = !tile.ring<4>
func.func @ring_without_consumers() {
  // expected-error @below {{expects the attribute 'consumers'}}
  %0 = "tile.make_ring"() : () -> !R
  return
}

// -----

func.func @acquire_of_no_ring(%r: i32, %i: i32) {
  // expected-error @below {{'tile.acquire' op expects a tile.ring, got i32}}
  "tile.acquire"(%r, %i, %i) : (i32, i32, i32) -> ()
  return
}

// -----

!R = !tile.ring<4>
func.func @acquire_coordinates(%r: !R, %i: index) {
  // expected-error @below {{'tile.acquire' op expects i32 coordinates, got index}}
  "tile.acquire"(%r, %i, %i) : (!R, index, index) -> ()
  return
}

// -----

func.func @expect_of_no_ring(%r: i32, %i: i32) {
  // expected-error @below {{'tile.expect' op expects a tile.ring, got i32}}
  "tile.expect"(%r, %i) {bytes = 8} : (i32, i32) -> ()
  return
}

// -----

!R = !tile.ring<4>
func.func @expect_coordinates(%r: !R, %i: index) {
  // expected-error @below {{'tile.expect' op expects i32 coordinates, got index}}
  "tile.expect"(%r, %i) {bytes = 8} : (!R, index) -> ()
  return
}

// -----

func.func @await_of_no_ring(%r: i32, %i: i32) {
  // expected-error @below {{'tile.await' op expects a tile.ring, got i32}}
  "tile.await"(%r, %i, %i) : (i32, i32, i32) -> ()
  return
}

// -----

!R = !tile.ring<4>
func.func @await_coordinates(%r: !R, %i: index) {
  // expected-error @below {{'tile.await' op expects i32 coordinates, got index}}
  "tile.await"(%r, %i, %i) : (!R, index, index) -> ()
  return
}

// -----

func.func @release_of_no_ring(%r: i32, %i: i32) {
  // expected-error @below {{'tile.release' op expects a tile.ring, got i32}}
  "tile.release"(%r, %i) : (i32, i32) -> ()
  return
}

// -----

!R = !tile.ring<4>
func.func @release_coordinates(%r: !R, %i: index) {
  // expected-error @below {{'tile.release' op expects i32 coordinates, got index}}
  "tile.release"(%r, %i) : (!R, index) -> ()
  return
}

// -----

func.func @release_peer_of_no_ring(%r: i32, %i: i32) {
  // expected-error @below {{'tile.release_peer' op expects a tile.ring, got i32}}
  "tile.release_peer"(%r, %i, %i) : (i32, i32, i32) -> ()
  return
}

// -----

!R = !tile.ring<4>
func.func @release_peer_coordinates(%r: !R, %i: index) {
  // expected-error @below {{'tile.release_peer' op expects i32 coordinates, got index}}
  "tile.release_peer"(%r, %i, %i) : (!R, index, index) -> ()
  return
}

// -----

!R = !tile.ring<4>
func.func @expect_of_less_than_nothing(%r: !R, %i: i32) {
  // expected-error @below {{'tile.expect' op bytes must be in 0..1048575, got -1}}
  "tile.expect"(%r, %i) {bytes = -1} : (!R, i32) -> ()
  return
}

// -----

!R = !tile.ring<4>
func.func @expect_of_too_much(%r: !R, %i: i32) {
  // expected-error @below {{bytes must be in 0..1048575, got 1048576}}
  "tile.expect"(%r, %i) {bytes = 1048576} : (!R, i32) -> ()
  return
}

// -----

func.func @full_barrier_of_no_ring(%r: i32, %i: i32) {
  // expected-error @below {{'tile.full_barrier' op expects a tile.ring, got i32}}
  %0 = "tile.full_barrier"(%r, %i) : (i32, i32) -> !llvm.ptr<3>
  return
}

// -----

!R = !tile.ring<4>
func.func @full_barrier_coordinates(%r: !R, %i: i64) {
  // expected-error @below {{'tile.full_barrier' op expects i32 coordinates, got i64}}
  %0 = "tile.full_barrier"(%r, %i) : (!R, i64) -> !llvm.ptr<3>
  return
}

// -----

!R = !tile.ring<4>
func.func @full_barrier_result(%r: !R, %i: i32) {
  // expected-error @below {{expects to return !llvm.ptr<3>, got !llvm.ptr}}
  %0 = "tile.full_barrier"(%r, %i) : (!R, i32) -> !llvm.ptr
  return
}

// -----

func.func @advance_of_no_ring(%r: i32, %i: i32) {
  // expected-error @below {{'tile.advance' op expects a tile.ring, got i32}}
  %0, %1 = "tile.advance"(%r, %i, %i) : (i32, i32, i32) -> (i32, i32)
  return
}

// -----

!R = !tile.ring<4>
func.func @advance_result(%r: !R, %i: i32) {
  // expected-error @below {{'tile.advance' op expects i32 coordinates, got i64}}
  %0, %1 = "tile.advance"(%r, %i, %i) : (!R, i32, i32) -> (i32, i64)
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!D = tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
func.func @gemm_a(%a: i64, %b: !T, %c: !D, %more: i1) {
  // expected-error @below {{'tile.gemm_async' op expects A to be a tensor with a #tile.layout or a tile.buffer, got i64}}
  %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>} : (i64, !T, !D, i1) -> !D
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!D = tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
func.func @gemm_b(%a: !T, %b: !D, %c: !D, %more: i1) {
  // expected-error @below {{expects B to be a tile.buffer, got tensor<}}
  %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>} : (!T, !D, !D, i1) -> !D
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!D = tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!B = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(32,1)]">, "shared">
func.func @gemm_of_a_bad_layout(%a: !T, %b: !B, %c: !D, %more: i1) {
  // expected-error @below {{has a buffer of layout S[(64,64):(32,1)]: its elements must not overlap}}
  %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>} : (!T, !B, !D, i1) -> !D
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!D = tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
func.func @gemm_flag(%a: !T, %b: !T, %c: !D, %more: i32) {
  // expected-error @below {{expects accumulate to be i1, got i32}}
  %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>} : (!T, !T, !D, i32) -> !D
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!D = tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!S = !tile.buffer<array<i64: 3, 64, 64>, f16, #tile.layout<"S[(3,64,64):(4096,64,1)] xor 128B">, "shared">
func.func @gemm_rank(%a: !S, %b: !T, %c: !D, %more: i1) {
  // expected-error @below {{expects A of rank 2, got shape [3, 64, 64]}}
  %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>} : (!S, !T, !D, i1) -> !D
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!D = tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!B = !tile.buffer<array<i64: 64>, f16, #tile.layout<"S[(64):(1)]">, "shared">
func.func @gemm_rank_of_b(%a: !T, %b: !B, %c: !D, %more: i1) {
  // expected-error @below {{expects B of rank 2, got shape [64]}}
  %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>} : (!T, !B, !D, i1) -> !D
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!D = tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
func.func @gemm_into_a_buffer(%a: !T, %b: !T, %c: !T, %more: i1) {
  // expected-error @below {{expects C and D to be one type of fragment, got !tile.buffer<}}
  %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>} : (!T, !T, !T, i1) -> !T
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!D = tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!I = tensor<64x64xi32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
func.func @gemm_c_and_d(%a: !T, %b: !T, %c: !D, %more: i1) {
  // expected-error @below {{expects C and D to be one type of fragment, got tensor<}}
  %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>} : (!T, !T, !D, i1) -> !I
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!D = tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!W = !tile.buffer<array<i64: 64, 128>, f16, #tile.layout<"S[(64,2,64):(64,4096,1)] xor 128B">, "shared">
func.func @gemm_n(%a: !T, %b: !W, %c: !D, %more: i1) {
  // expected-error @below {{expects D of shape [64, 128], got [64, 64]}}
  %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>} : (!T, !W, !D, i1) -> !D
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!D = tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!W = !tile.buffer<array<i64: 64, 128>, f16, #tile.layout<"S[(64,2,64):(64,4096,1)] xor 128B">, "shared">
func.func @gemm_m_with_m_inside(%a: !W, %b: !T, %c: !D, %more: i1) {
  // expected-error @below {{expects D of shape [128, 64], got [64, 64]}}
  %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_a = true} : (!W, !T, !D, i1) -> !D
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!D = tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!W = !tile.buffer<array<i64: 64, 128>, f16, #tile.layout<"S[(64,2,64):(64,4096,1)] xor 128B">, "shared">
func.func @gemm_k(%a: !W, %b: !T, %c: !D, %more: i1) {
  // expected-error @below {{expects A and B of equal K, got 128 in A and 64 in B}}
  %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>} : (!W, !T, !D, i1) -> !D
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!D = tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!W = !tile.buffer<array<i64: 64, 128>, f16, #tile.layout<"S[(64,2,64):(64,4096,1)] xor 128B">, "shared">
func.func @gemm_k_with_k_major(%a: !T, %b: !W, %c: !D, %more: i1) {
  // expected-error @below {{expects A and B of equal K, got 64 in A and 128 in B; with transpose_b = false they have}}
  %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!T, !W, !D, i1) -> !D
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!D = tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
func.func @gemm_attribute(%a: !T, %b: !T, %c: !D, %more: i1) {
  // expected-error @below {{expects attribute 'transpose_a' to be true or false, got 1 : i64}}
  %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_a = 1} : (!T, !T, !D, i1) -> !D
  return
}

// -----

!D = tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
func.func @wait_pending(%c: !D) {
  // expected-error @below {{'tile.wait_gemm' op pending must be at least 0, got -1}}
  %0 = "tile.wait_gemm"(%c) {pending = -1} : (!D) -> !D
  return
}

// -----

!D = tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
func.func @wait_results(%c: !D) {
  // expected-error @below {{expects results of the operands' types}}
  "tile.wait_gemm"(%c) : (!D) -> ()
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
func.func @wait_for_a_buffer(%t: !T) {
  // expected-error @below {{expects fragments, got !tile.buffer<}}
  %0 = "tile.wait_gemm"(%t) : (!T) -> !T
  return
}

// -----

!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)] xor 128B">>
func.func @wait_for_a_bad_layout(%c: !D) {
  // expected-error @below {{it must not have a swizzle}}
  %0 = "tile.wait_gemm"(%c) : (!D) -> !D
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
func.func @pin_a_buffer(%t: !T) {
  // expected-error @below {{'tile.pin' op expects a fragment, got !tile.buffer<}}
  %0 = "tile.pin"(%t) : (!T) -> !T
  return
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D8 = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
func.func @pin_under_way(%a: !A, %b: !B, %c: !D8, %more: i1) {
  %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, transpose_b = true} : (!A, !B, !D8, i1) -> !D8
  // expected-error @below {{'tile.pin' op expects a finished fragment, got that of tile.gemm_async: use that of tile.wait_gemm}}
  %1 = "tile.pin"(%0) : (!D8) -> !D8
  return
}

// -----

!D = tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
func.func @pin_and_change(%c: !D) {
  // expected-error @below {{'tile.pin' op expects a result of the operand's type, got i32}}
  %0 = "tile.pin"(%c) : (!D) -> i32
  return
}

// -----

func.func @role_before_the_first() {
  // expected-error @below {{'tile.role' op first must be at least 0, got -1}}
  "tile.role"() ({
  ^bb0(%n: i32):
  }) {first = -1, warpgroups = 1, registers = 0} : () -> ()
  return
}

// -----

func.func @role_of_nobody() {
  // expected-error @below {{warpgroups must be in 1..8, got 0}}
  "tile.role"() ({
  ^bb0(%n: i32):
  }) {first = 0, warpgroups = 0, registers = 0} : () -> ()
  return
}

// -----

func.func @role_of_too_many() {
  // expected-error @below {{warpgroups must be in 1..8, got 9}}
  "tile.role"() ({
  ^bb0(%n: i32):
  }) {first = 0, warpgroups = 9, registers = 0} : () -> ()
  return
}

// -----

func.func @role_registers_by_8() {
  // expected-error @below {{registers must be 0 or a multiple of 8 in 24..256, got 100}}
  "tile.role"() ({
  ^bb0(%n: i32):
  }) {first = 0, warpgroups = 1, registers = 100} : () -> ()
  return
}

// -----

func.func @role_of_too_few_registers() {
  // expected-error @below {{registers must be 0 or a multiple of 8 in 24..256, got 16}}
  "tile.role"() ({
  ^bb0(%n: i32):
  }) {first = 0, warpgroups = 1, registers = 16} : () -> ()
  return
}

// -----

func.func @role_of_too_many_registers() {
  // expected-error @below {{registers must be 0 or a multiple of 8 in 24..256, got 264}}
  "tile.role"() ({
  ^bb0(%n: i32):
  }) {first = 0, warpgroups = 1, registers = 264} : () -> ()
  return
}

// -----

func.func @role_argument() {
  // expected-error @below {{expects a region of one block with one argument of type i32}}
  "tile.role"() ({
  ^bb0(%n: index):
  }) {first = 0, warpgroups = 1, registers = 0} : () -> ()
  return
}

// -----

func.func @role_without_argument() {
  // expected-error @below {{expects a region of one block with one argument of type i32}}
  "tile.role"() ({
  ^bb0:
    gpu.barrier
  }) {first = 0, warpgroups = 1, registers = 0} : () -> ()
  return
}

// -----

func.func @role_without_first() {
  // expected-error @below {{expects the attribute 'first'}}
  "tile.role"() ({
  ^bb0(%n: i32):
  }) {warpgroups = 1} : () -> ()
  return
}

// -----

func.func @role_without_agents() {
  // expected-error @below {{'tile.role' op expects one of the attributes 'warpgroups' and 'warps', got neither}}
  "tile.role"() ({
  ^bb0(%n: i32):
  }) {first = 0} : () -> ()
  return
}

// -----

func.func @role_of_warps_and_warpgroups() {
  // expected-error @below {{expects one of the attributes 'warpgroups' and 'warps', got both}}
  "tile.role"() ({
  ^bb0(%n: i32):
  }) {first = 0, warps = 1, warpgroups = 1} : () -> ()
  return
}

// -----

func.func @role_of_too_many_warps() {
  // expected-error @below {{warps must be in 1..32, got 33}}
  "tile.role"() ({
  ^bb0(%n: i32):
  }) {first = 0, warps = 33} : () -> ()
  return
}

// -----

func.func @registers_of_warps() {
  // expected-error @below {{registers must be 0 in a role of warps, got 40: setmaxnreg changes the registers of a whole warpgroup}}
  "tile.role"() ({
  ^bb0(%n: i32):
  }) {first = 0, warps = 1, registers = 40} : () -> ()
  return
}

// -----

func.func @role_of_two_blocks() {
  // expected-error @below {{expects a region of one block with one argument of type i32}}
  "tile.role"() ({
  ^bb0(%n: i32):
    cf.br ^bb1
  ^bb1:
    gpu.barrier
  }) {first = 0, warpgroups = 1, registers = 0} : () -> ()
  return
}

// -----

func.func @ring_of_no_number() {
  // expected-error @below {{expected base attribute 'builtin.integer' but got 'builtin.string'}}
  %0 = "tile.make_ring"() {consumers = 1} : () -> !tile.ring<"four">
  return
}

// -----

!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
func.func @member_of_another_type(%m: !Map, %i: i32) {
  // expected-error @below {{expects to take and return one tile.map, got}}
  %0 = "tile.member"(%m, %i) : (!Map, i32) -> i32
  return
}

// -----

!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
func.func @member_by_no_number(%m: !Map, %i: index) {
  // expected-error @below {{expects i32 coordinates, got index}}
  %0 = "tile.member"(%m, %i) : (!Map, index) -> !Map
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
func.func @copy_of_four_ctas(%m: !M, %t: !T, %i: i32, %full: !llvm.ptr<3>) {
  // expected-error @below {{'tile.copy_async' op cta_group must be 1 or 2, got 4}}
  "tile.copy_async"(%m, %i, %i, %t, %full) {cta_group = 4} : (!M, i32, i32, !T, !llvm.ptr<3>) -> ()
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
func.func @copy_of_a_pair_without_tma(%m: memref<?x?xf16>, %t: !T, %i: i32) {
  // expected-error @below {{expects cta_group only where the source is a tile.map, got a memref}}
  "tile.copy_async"(%m, %i, %i, %t) {vector_bytes = 16, cta_group = 2} : (memref<?x?xf16>, i32, i32, !T) -> ()
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  func.func @multicast_of_a_pair_on_sm_90a(%m: !M, %t: !T, %i: i32, %full: !llvm.ptr<3>, %mask: i16) {
    // expected-error @below {{'tile.copy_multicast' op cta_group must be 1 on this chip: cp.async.bulk.tensor with .cta_group::2 needs sm_100f, sm_100a, sm_103f, sm_103a, sm_107f, sm_107a, sm_110f, sm_110a, got sm_90a}}
    "tile.copy_multicast"(%m, %i, %i, %t, %full, %mask) {cta_group = 2} : (!M, i32, i32, !T, !llvm.ptr<3>, i16) -> ()
    return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  func.func @indexed_on_sm_90a(%m: memref<?x?xf16>) {
    // expected-error @below {{'tile.tensor_map' op indexed must be false on this chip: cp.async.bulk.tensor with .tile::gather4 needs sm_100 or later, got sm_90a}}
    %0 = "tile.tensor_map"(%m) {indexed = true} : (memref<?x?xf16>) -> !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
    return
  }
}

// -----

func.func @indexed_batch(%m: memref<?x?x?xf16>) {
  // expected-error @below {{expects a matrix of rank 2 for an indexed map, got memref<?x?x?xf16>}}
  %0 = "tile.tensor_map"(%m) {indexed = true} : (memref<?x?x?xf16>) -> !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
  return
}

// -----

func.func @indexed_tile_of_six_rows(%m: memref<?x?xf16>) {
  // expected-error @below {{expects a multiple of 4 rows in tiles of an indexed map, got 6}}
  %0 = "tile.tensor_map"(%m) {indexed = true} : (memref<?x?xf16>) -> !tile.map<array<i64: 6, 64>, f16, #tile.layout<"S[(6,64):(64,1)] xor 128B">>
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
func.func @gather_by_wide_numbers(%m: !M, %n: memref<?xi64>, %t: !T, %i: i32, %full: !llvm.ptr<3>) {
  // expected-error @below {{'tile.gather_async' op expects the indices of element type i32, got memref<?xi64>}}
  "tile.gather_async"(%m, %n, %i, %i, %t, %full) : (!M, memref<?xi64>, i32, i32, !T, !llvm.ptr<3>) -> ()
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!M = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
func.func @gather_to_a_number(%m: !M, %n: memref<?xi32>, %t: !T, %i: i32) {
  // expected-error @below {{expects a barrier of type !llvm.ptr<3>, got i32}}
  "tile.gather_async"(%m, %n, %i, %i, %t, %i) : (!M, memref<?xi32>, i32, i32, !T, i32) -> ()
  return
}

// -----

func.func @indexed_chunks(%m: memref<?x?xi8>) {
  // expected-error @below {{chunk must be 0 in an indexed map, got 16}}
  %0 = "tile.tensor_map"(%m) {indexed = true, chunk = 16} : (memref<?x?xi8>) -> !tile.map<array<i64: 64, 64>, i8, #tile.layout<"S[(64,64):(64,1)]">>
  return
}

// -----

func.func @clear_no_sums() {
  // expected-error @below {{'tile.clear_sums' op count must be in 1..255, got 0}}
  "tile.clear_sums"() {count = 0, first_sum = 32} : () -> ()
  return
}

// -----

func.func @clear_more_than_a_thread_has() {
  // expected-error @below {{'tile.clear_sums' op count must be in 1..255, got 100000000}}
  "tile.clear_sums"() {count = 100000000, first_sum = 0} : () -> ()
  return
}

// -----

func.func @clear_after_the_last() {
  // expected-error @below {{'tile.clear_sums' op first_sum must be in 0..65535, got 65536}}
  "tile.clear_sums"() {count = 4, first_sum = 65536} : () -> ()
  return
}

// -----

func.func @clear_before_the_first() {
  // expected-error @below {{'tile.clear_sums' op first_sum must be in 0..65535, got -4}}
  "tile.clear_sums"() {count = 4, first_sum = -4} : () -> ()
  return
}

// -----

func.func @add_products_to_themselves() {
  // expected-error @below {{'tile.add_products' op expects 4 products and as many sums in different registers}}
  "tile.add_products"() {count = 4, first_product = 0, first_sum = 3} : () -> ()
  return
}

// -----

func.func @add_products_before_the_first() {
  // expected-error @below {{'tile.add_products' op first_product must be in 0..65535, got -1}}
  "tile.add_products"() {count = 4, first_product = -1, first_sum = 8} : () -> ()
  return
}

// -----

func.func @add_no_products() {
  // expected-error @below {{'tile.add_products' op count must be in 1..255, got 0}}
  "tile.add_products"() {count = 0, first_product = 0, first_sum = 8} : () -> ()
  return
}

// -----

func.func @add_with_an_integer(%f: f32, %i: i32) {
  // expected-error @below {{'tile.add_products' op expects factors of f32, got i32}}
  "tile.add_products"(%i) {count = 1, factor_numbers = array<i64: 0>, first_product = 0, first_sum = 8} : (i32) -> ()
  return
}

// -----

func.func @add_with_a_number(%f: f32, %i: i32) {
  // expected-error @below {{'tile.add_products' op expects attribute 'factor_numbers' to be array<i64: ...>, got 0}}
  "tile.add_products"(%f) {count = 1, factor_numbers = 0, first_product = 0, first_sum = 8} : (f32) -> ()
  return
}

// -----

func.func @add_with_a_factor_for_none(%f: f32, %i: i32) {
  // expected-error @below {{'tile.add_products' op expects factor_numbers of 2 elements, got 1}}
  "tile.add_products"(%f) {count = 2, factor_numbers = array<i64: 0>, first_product = 0, first_sum = 8} : (f32) -> ()
  return
}

// -----

func.func @add_without_factors() {
  // expected-error @below {{'tile.add_products' op expects factor_numbers of 0 elements, got 1}}
  "tile.add_products"() {count = 1, factor_numbers = array<i64: 0>, first_product = 0, first_sum = 8} : () -> ()
  return
}

// -----

func.func @add_with_another_factor(%f: f32, %i: i32) {
  // expected-error @below {{'tile.add_products' op factor_numbers must be in 0..0, got 1}}
  "tile.add_products"(%f) {count = 2, factor_numbers = array<i64: 0, 1>, first_product = 0, first_sum = 8} : (f32) -> ()
  return
}

// -----

func.func @read_a_number() {
  // expected-error @below {{'tile.read_sums' op expects to return a fragment of f32, i32 or f16, got f32}}
  %0 = "tile.read_sums"() {first_sum = 0} : () -> f32
  return
}

// -----

!D = tensor<64x64xf32, #tile.layout<"S[(4,2,8,8,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
func.func @read_before_the_first() {
  // expected-error @below {{'tile.read_sums' op first_sum must be in 0..65535, got -1}}
  %0 = "tile.read_sums"() {first_sum = -1} : () -> !D
  return
}

// -----

!A = !tile.buffer<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 32B">, "shared">
!B = !tile.buffer<array<i64: 8, 16>, f16, #tile.layout<"S[(8,16):(16,1)] xor 32B">, "shared">
!D8 = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
func.func @multiply_before_the_first(%a: !A, %b: !B, %c: !D8, %more: i1) {
  // expected-error @below {{'tile.gemm_async' op first_sum must be in 0..65535, or -1 for sums that are values, got -2}}
  %0 = "tile.gemm_async"(%a, %b, %c, %more) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>, first_sum = -2, transpose_b = true} : (!A, !B, !D8, i1) -> !D8
  return
}

// -----

!D8 = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
func.func @round_to_f32() {
  // expected-error @below {{'tile.read_sums' op expects to return a fragment of f16 or bf16, got tensor<}}
  %0 = "tile.read_sums"() {first_sum = 0, rounds = true} : () -> !D8
  return
}

// -----

!D8 = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
func.func @read_in_a_number() {
  // expected-error @below {{'tile.read_sums' op expects attribute 'order' to be array<i64: ...>, got 1}}
  %0 = "tile.read_sums"() {first_sum = 0, order = 1} : () -> !D8
  return
}

// -----

!D8 = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
func.func @read_too_few() {
  // expected-error @below {{'tile.read_sums' op expects order to have 4 numbers in 0..65535, got array<i64: 0, 1>}}
  %0 = "tile.read_sums"() {first_sum = 0, order = array<i64: 0, 1>} : () -> !D8
  return
}

// -----

!D8 = tensor<64x8xf32, #tile.layout<"S[(4,2,8,4,2):(1@warpid,2,4@laneid,1@laneid,1)]">>
func.func @read_below() {
  // expected-error @below {{'tile.read_sums' op expects order to have 4 numbers in 0..65535, got array<i64: 0, 1, 2, -1>}}
  %0 = "tile.read_sums"() {first_sum = 0, order = array<i64: 0, 1, 2, -1>} : () -> !D8
  return
}

// -----

gpu.module @m {
  gpu.func @more_than_the_block_has() kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    // expected-error @below {{'tile.role' op first + warpgroups must be at most 2, as known_block_size is 256, got 3}}
    "tile.role"() ({
    ^bb0(%number: i32):
    }) {first = 1, warpgroups = 2, registers = 0} : () -> ()
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @more_warps_than_the_block_has() kernel attributes {known_block_size = array<i32: 96, 1, 1>} {
    // expected-error @below {{'tile.role' op first + warps must be at most 3, as known_block_size is 96, got 4}}
    "tile.role"() ({
    ^bb0(%number: i32):
    }) {first = 2, warps = 2} : () -> ()
    gpu.return
  }
}
