// The boxes of each copy by TMA, and why there aren't fewer.
// RUN: weft-opt %s --lower-tma --tile-explain-dispatch --verify-diagnostics
// RUN: weft-opt %s --lower-tma --tile-explain-dispatch 2>&1 | FileCheck %s

!Tile = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
!Large = !tile.buffer<array<i64: 512, 128>, f16, #tile.layout<"S[(512,2,64):(64,32768,1)] xor 128B">, "shared">
!LargeMap = !tile.map<array<i64: 512, 128>, f16, #tile.layout<"S[(512,2,64):(64,32768,1)] xor 128B">>

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  gpu.func @copies(%a: memref<?x?xf16>, %n: memref<?xi32>, %t: !Tile, %u: !Tile, %l: !Large, %i: i32, %j: i32, %full: !llvm.ptr<3>, %mask: i16) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    %m = "tile.tensor_map"(%a) : (memref<?x?xf16>) -> !Map
    %large = "tile.tensor_map"(%a) : (memref<?x?xf16>) -> !LargeMap
    %rows = "tile.tensor_map"(%a) {indexed = true} : (memref<?x?xf16>) -> !Map
    // expected-remark @below {{'tile.copy_async' op is lowered to 1 x cp.async.bulk.tensor of 64 x 64 elements}}
    "tile.copy_async"(%m, %i, %i, %t, %full) : (!Map, i32, i32, !Tile, !llvm.ptr<3>) -> ()
    // expected-remark @below {{'tile.copy_async' op is lowered to 4 x cp.async.bulk.tensor.cta_group::2 of 256 x 64 elements}}
    // expected-note @below {{a box of 128 columns is wider than the layout's rows, 64 elements}}
    // expected-note @below {{a box of 512 rows is taller than that of one copy, 256 rows}}
    "tile.copy_async"(%large, %i, %i, %l, %full) {cta_group = 2} : (!LargeMap, i32, i32, !Large, !llvm.ptr<3>) -> ()
    // expected-remark @below {{'tile.copy_multicast' op is lowered to 1 x cp.async.bulk.tensor.multicast::cluster of 64 x 64 elements}}
    "tile.copy_multicast"(%m, %i, %i, %t, %full, %mask) : (!Map, i32, i32, !Tile, !llvm.ptr<3>, i16) -> ()
    // expected-remark @below {{'tile.gather_async' op is lowered to 16 x cp.async.bulk.tensor.tile::gather4 of 4 x 64 elements}}
    // expected-note @below {{a box of 64 rows is taller than that of one copy, 4 rows}}
    "tile.gather_async"(%rows, %n, %i, %i, %t, %full) : (!Map, memref<?xi32>, i32, i32, !Tile, !llvm.ptr<3>) -> ()
    // expected-remark @below {{'tile.store_async' op is lowered to 1 x cp.async.bulk.tensor of 64 x 64 elements}}
    "tile.store_async"(%t, %m, %i, %i) : (!Tile, !Map, i32, i32) -> ()
    // expected-remark @below {{'tile.add_async' op is lowered to 1 x cp.reduce.async.bulk.tensor of 64 x 64 elements}}
    "tile.add_async"(%t, %m, %i, %i) : (!Tile, !Map, i32, i32) -> ()
    // One remark for equal operations at one location.
    // CHECK: weft-opt: remark: 'tile.store_async' op
    // CHECK-NOT: weft-opt: remark: 'tile.store_async' op
    // expected-remark @unknown {{'tile.store_async' op is lowered to 1 x cp.async.bulk.tensor of 64 x 64 elements}}
    "tile.store_async"(%t, %m, %i, %i) : (!Tile, !Map, i32, i32) -> () loc(unknown)
    "tile.store_async"(%u, %m, %j, %i) : (!Tile, !Map, i32, i32) -> () loc(unknown)
    gpu.return
  }
}
