// RUN: weft-opt %s --mlir-print-local-scope --lower-tma | FileCheck %s

!Tile = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
!Panels = !tile.buffer<array<i64: 64, 128>, f16, #tile.layout<"S[(64,2,64):(64,4096,1)] xor 128B">, "shared">
!PanelsMap = !tile.map<array<i64: 64, 128>, f16, #tile.layout<"S[(64,2,64):(64,4096,1)] xor 128B">>
!Tall = !tile.buffer<array<i64: 512, 16>, f32, #tile.layout<"S[(512,16):(16,1)] xor 64B">, "shared">
!TallMap = !tile.map<array<i64: 512, 16>, f32, #tile.layout<"S[(512,16):(16,1)] xor 64B">>
!Flat = !tile.buffer<array<i64: 8, 16>, i8, #tile.layout<"S[(8,16):(16,1)]">, "shared">
!Narrow = !tile.buffer<array<i64: 64, 8>, f16, #tile.layout<"S[(64,8):(8,1)]">, "shared">
!NarrowMap = !tile.map<array<i64: 64, 8>, f16, #tile.layout<"S[(64,8):(8,1)]">>
!FlatMap = !tile.map<array<i64: 8, 16>, i8, #tile.layout<"S[(8,16):(16,1)]">>

gpu.module @m {
  // The map is an argument after the others, which one thread asks for early; what a launch must put there stands on the
  // kernel. Coordinates are the column and the row, in the order of TMA, and shared memory is the cluster's.
  // CHECK-LABEL: gpu.func @load
  // CHECK-SAME: (%{{.*}}: memref<?x?xf16>, %{{.*}}: !tile.buffer<{{.*}}>, %[[ROW:[a-z0-9]+]]: i32, %[[COLUMN:[a-z0-9]+]]: i32, %[[FULL:[a-z0-9]+]]: !llvm.ptr<3>, %[[MAP:[a-z0-9]+]]: !llvm.ptr)
  // CHECK-SAME: weft.tensor_maps = [{box = array<i64: 64, 64>, l2_promotion = "256B", matrix = 0 : i64, swizzle = "128B"
  gpu.func @load(%a: memref<?x?xf16>, %t: !Tile, %row: i32, %column: i32, %full: !llvm.ptr<3>) kernel {
    %0 = "tile.tensor_map"(%a) : (memref<?x?xf16>) -> !Map
    // CHECK: scf.if
    // CHECK-NEXT: nvvm.prefetch tensormap, %[[MAP]]
    // CHECK-NEXT: }
    // CHECK: %[[BASE:.*]] = "tile.address"
    // CHECK: %[[NUMBER:.*]] = llvm.ptrtoint %[[BASE]] : !llvm.ptr<3> to i64
    // CHECK: %[[PLACE:.*]] = llvm.inttoptr %[[NUMBER]] : i64 to !llvm.ptr<7>
    // CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %[[PLACE]], %[[MAP]], %[[FULL]], box[%[[COLUMN]], %[[ROW]]]
    // CHECK-NOT: {{tile\.(copy|tensor)|cp\.async}}
    // CHECK: gpu.return
    "tile.copy_async"(%0, %row, %column, %t, %full) : (!Map, i32, i32, !Tile, !llvm.ptr<3>) -> ()
    gpu.return
  }

  // A box a panel: 64 columns on, 8192 bytes further. L2 reads a panel's row at once.
  // CHECK-LABEL: gpu.func @panels
  // CHECK-SAME: %[[ROW:[a-z0-9]+]]: i32, %[[COLUMN:[a-z0-9]+]]: i32, %[[FULL:[a-z0-9]+]]: !llvm.ptr<3>, %[[MAP:[a-z0-9]+]]: !llvm.ptr)
  // CHECK-SAME: weft.tensor_maps = [{box = array<i64: 64, 64>, l2_promotion = "128B"
  gpu.func @panels(%a: memref<?x?xf16>, %t: !Panels, %row: i32, %column: i32, %full: !llvm.ptr<3>) kernel {
    %0 = "tile.tensor_map"(%a) {l2_promotion = "128B"} : (memref<?x?xf16>) -> !PanelsMap
    // CHECK: %[[BASE:.*]] = "tile.address"
    // CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[MAP]], %[[FULL]], box[%[[COLUMN]], %[[ROW]]]
    // CHECK: %[[NEXT:.*]] = llvm.getelementptr %[[BASE]][8192]
    // CHECK: %[[NUMBER:.*]] = llvm.ptrtoint %[[NEXT]]
    // CHECK: %[[PLACE:.*]] = llvm.inttoptr %[[NUMBER]]
    // CHECK: %[[WIDTH:.*]] = arith.constant 64 : i32
    // CHECK: %[[BESIDE:.*]] = arith.addi %[[COLUMN]], %[[WIDTH]]
    // CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %[[PLACE]], %[[MAP]], %[[FULL]], box[%[[BESIDE]], %[[ROW]]]
    // CHECK-NOT: nvvm.cp.async
    // CHECK: gpu.return
    "tile.copy_async"(%0, %row, %column, %t, %full) : (!PanelsMap, i32, i32, !Panels, !llvm.ptr<3>) -> ()
    gpu.return
  }

  // Where each 16 elements of 4 or 6 bits have 16 bytes, the launch must say so: they are packed in the matrix. A swizzle
  // that moves 32 bytes has the driver's name.
  // CHECK-LABEL: gpu.func @padded
  // CHECK-SAME: box = array<i64: 64, 128>, l2_promotion = "256B", matrix = 0 : i64, padded, swizzle = "128B"
  // CHECK-SAME: box = array<i64: 64, 128>, l2_promotion = "256B", matrix = 1 : i64, padded, swizzle = "none"
  // CHECK-SAME: box = array<i64: 64, 256>, l2_promotion = "256B", matrix = 0 : i64, swizzle = "128B"
  // CHECK-SAME: box = array<i64: 64, 32>, l2_promotion = "256B", matrix = 2 : i64, swizzle = "128B_ATOM_32B"
  gpu.func @padded(%a: memref<?x?xf4E2M1FN>, %b: memref<?x?xf6E3M2FN>, %c: memref<?x?xf32>) kernel {
    %0 = "tile.tensor_map"(%a) : (memref<?x?xf4E2M1FN>) -> !tile.map<array<i64: 64, 128>, f4E2M1FN, #tile.layout<"S[(64,8,16):(256,32,1)] xor 128B">>
    %1 = "tile.tensor_map"(%b) : (memref<?x?xf6E3M2FN>) -> !tile.map<array<i64: 64, 128>, f6E3M2FN, #tile.layout<"S[(64,128):(128,1)]">>
    %2 = "tile.tensor_map"(%a) : (memref<?x?xf4E2M1FN>) -> !tile.map<array<i64: 64, 256>, f4E2M1FN, #tile.layout<"S[(64,256):(256,1)] xor 128B">>
    %3 = "tile.tensor_map"(%c) : (memref<?x?xf32>) -> !tile.map<array<i64: 64, 32>, f32, #tile.layout<"S[(64,32):(32,1)] xor 128B_32B">>
    gpu.return
  }

  // The launch moves the address of the map.
  // CHECK-LABEL: gpu.func @skewed
  // CHECK-SAME: weft.tensor_maps = [{box = array<i64: 64, 64>, {{.*}}matrix = 0 : i64, skewed, swizzle
  gpu.func @skewed(%a: memref<?x?xf16>) kernel {
    %0 = "tile.tensor_map"(%a) {skewed = true} : (memref<?x?xf16>) -> !Map
    gpu.return
  }

  // The map has a dimension for eight rows.
  // CHECK-LABEL: gpu.func @joined
  // CHECK-SAME: weft.tensor_maps = [{box = array<i64: 64, 8>, joined, {{.*}}matrix = 0 : i64, swizzle = "none"
  gpu.func @joined(%a: memref<?x?xf16>, %t: !Narrow, %k: i32, %full: !llvm.ptr<3>) kernel {
    %0 = "tile.tensor_map"(%a) {joined = true} : (memref<?x?xf16>) -> !NarrowMap
    %c = arith.constant 0 : i32
    // CHECK: %[[ROWS:.*]] = arith.divui %{{.*}}, %{{.*}} : i32
    // CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}} box[%{{.*}}, %{{.*}}, %[[ROWS]]]
    "tile.copy_async"(%0, %k, %c, %t, %full) : (!NarrowMap, i32, i32, !Narrow, !llvm.ptr<3>) -> ()
    gpu.return
  }

  // The launch may pass a map that no copy may use, so that nothing reads it before.
  // CHECK-LABEL: gpu.func @any_rows
  // CHECK-SAME: weft.tensor_maps = [{any_rows, box = array<i64: 64, 64>
  // CHECK-NOT: nvvm.prefetch
  // CHECK: gpu.return
  gpu.func @any_rows(%a: memref<?x?xf16>) kernel {
    %0 = "tile.tensor_map"(%a) {any_rows = true} : (memref<?x?xf16>) -> !Map
    gpu.return
  }

  // Rows are copied four by four, by their numbers, by all lanes of a warp; those of a pair may signal the other CTA.
  // CHECK-LABEL: gpu.func @gather
  // CHECK-SAME: box = array<i64: 1, 64>
  gpu.func @gather(%a: memref<?x?xf16>, %n: memref<?xi32>, %t: !Tile, %i: i32, %full: !llvm.ptr<3>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %0 = "tile.tensor_map"(%a) {indexed = true} : (memref<?x?xf16>) -> !Map
    // CHECK: %[[LANE:.*]] = arith.remui
    // CHECK: %[[END:.*]] = arith.constant 16 : i32
    // CHECK: %[[STEP:.*]] = arith.constant 32 : i32
    // CHECK: scf.for %{{.*}} = %[[LANE]] to %[[END]] step %[[STEP]]
    // CHECK-COUNT-4: llvm.load
    // CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}}box[%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}]{{.*}}isCTAOnly = true, mode = #nvvm.tma_load_mode<tile_gather4>
    "tile.gather_async"(%0, %n, %i, %i, %t, %full) : (!Map, memref<?xi32>, i32, i32, !Tile, !llvm.ptr<3>) -> ()
    %one = nvvm.elect.sync -> i1
    scf.if %one {
      // CHECK: %[[FIRST:.*]] = arith.constant 0 : i32
      // CHECK: %[[ALL:.*]] = arith.constant 16 : i32
      // CHECK: %[[NEXT:.*]] = arith.constant 1 : i32
      // CHECK: scf.for %{{.*}} = %[[FIRST]] to %[[ALL]] step %[[NEXT]]
      // CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}}group = #nvvm.cta_group<cta_2>, {{.*}}mode = #nvvm.tma_load_mode<tile_gather4>
      "tile.gather_async"(%0, %n, %i, %i, %t, %full) {cta_group = 2} : (!Map, memref<?xi32>, i32, i32, !Tile, !llvm.ptr<3>) -> ()
    }
    gpu.return
  }

  // The copies of a pair may signal the other CTA's mbarrier.
  // CHECK-LABEL: gpu.func @copies_of_a_pair
  // CHECK-SAME: %[[MASK:[a-z0-9]+]]: i16
  gpu.func @copies_of_a_pair(%a: memref<?x?xf16>, %t: !Tile, %i: i32, %full: !llvm.ptr<3>, %mask: i16) kernel {
    %0 = "tile.tensor_map"(%a) : (memref<?x?xf16>) -> !Map
    // CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}} {group = #nvvm.cta_group<cta_2>}
    // CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}}multicast_mask = %[[MASK]]{{.*}} {group = #nvvm.cta_group<cta_2>}
    "tile.copy_async"(%0, %i, %i, %t, %full) {cta_group = 2} : (!Map, i32, i32, !Tile, !llvm.ptr<3>) -> ()
    "tile.copy_multicast"(%0, %i, %i, %t, %full, %mask) {cta_group = 2} : (!Map, i32, i32, !Tile, !llvm.ptr<3>, i16) -> ()
    gpu.return
  }

  // How soon L2 gives up what comes is a policy, made once, that every copy of the map names; stores too.
  // CHECK-LABEL: gpu.func @evicted_first
  gpu.func @evicted_first(%a: memref<?x?xf16>, %t: !Panels, %row: i32, %column: i32, %full: !llvm.ptr<3>) kernel {
    // CHECK: %[[POLICY:.*]] = llvm.inline_asm has_side_effects "createpolicy.fractional.L2::evict_first.b64 $0, 1.0;", "=l" : () -> i64
    %0 = "tile.tensor_map"(%a) {l2_eviction = "evict_first"} : (memref<?x?xf16>) -> !PanelsMap
    // CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}}l2_cache_hint = %[[POLICY]]
    // CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}}l2_cache_hint = %[[POLICY]]
    "tile.copy_async"(%0, %row, %column, %t, %full) : (!PanelsMap, i32, i32, !Panels, !llvm.ptr<3>) -> ()
    // CHECK-COUNT-2: nvvm.cp.async.bulk.tensor.global.shared.cta {{.*}}l2_cache_hint = %[[POLICY]]
    "tile.store_async"(%t, %0, %row, %column) : (!Panels, !PanelsMap, i32, i32) -> ()
    gpu.return
  }

  // A box has at most 256 rows.
  // CHECK-LABEL: gpu.func @tall
  // CHECK-SAME: %[[ROW:[a-z0-9]+]]: i32, %[[COLUMN:[a-z0-9]+]]: i32, %{{.*}}: !llvm.ptr<3>, %{{.*}}: !llvm.ptr)
  // CHECK-SAME: weft.tensor_maps = [{box = array<i64: 256, 16>{{.*}}swizzle = "64B"
  gpu.func @tall(%a: memref<?x?xf32>, %t: !Tall, %row: i32, %column: i32, %full: !llvm.ptr<3>) kernel {
    %0 = "tile.tensor_map"(%a) : (memref<?x?xf32>) -> !TallMap
    // CHECK: %[[BASE:.*]] = "tile.address"
    // CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}}, box[%[[COLUMN]], %[[ROW]]]
    // CHECK: %[[NEXT:.*]] = llvm.getelementptr %[[BASE]][16384]
    // CHECK: %[[NUMBER:.*]] = llvm.ptrtoint %[[NEXT]]
    // CHECK: %[[PLACE:.*]] = llvm.inttoptr %[[NUMBER]]
    // CHECK: %[[HEIGHT:.*]] = arith.constant 256 : i32
    // CHECK: %[[BELOW:.*]] = arith.addi %[[ROW]], %[[HEIGHT]]
    // CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %[[PLACE]], {{.*}}, box[%[[COLUMN]], %[[BELOW]]]
    // CHECK-NOT: nvvm.cp.async
    // CHECK: gpu.return
    "tile.copy_async"(%0, %row, %column, %t, %full) : (!TallMap, i32, i32, !Tall, !llvm.ptr<3>) -> ()
    gpu.return
  }

  // CHECK-LABEL: gpu.func @multicast
  // CHECK-SAME: %[[FULL:[a-z0-9]+]]: !llvm.ptr<3>, %[[MASK:[a-z0-9]+]]: i16, %[[MAP:[a-z0-9]+]]: !llvm.ptr)
  gpu.func @multicast(%a: memref<?x?xf16>, %t: !Panels, %row: i32, %column: i32, %full: !llvm.ptr<3>, %mask: i16) kernel {
    %0 = "tile.tensor_map"(%a) : (memref<?x?xf16>) -> !PanelsMap
    // CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[MAP]], %[[FULL]], {{.*}}multicast_mask = %[[MASK]]
    // CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[MAP]], %[[FULL]], {{.*}}multicast_mask = %[[MASK]]
    // CHECK-NOT: nvvm.cp.async
    // CHECK: gpu.return
    "tile.copy_multicast"(%0, %row, %column, %t, %full, %mask) : (!PanelsMap, i32, i32, !Panels, !llvm.ptr<3>, i16) -> ()
    gpu.return
  }

  // Out of shared memory: no barrier, and the CTA's own memory.
  // CHECK-LABEL: gpu.func @store
  // CHECK-SAME: %[[ROW:[a-z0-9]+]]: i32, %[[COLUMN:[a-z0-9]+]]: i32, %[[MAP:[a-z0-9]+]]: !llvm.ptr)
  gpu.func @store(%d: memref<?x?xf16>, %t: !Panels, %row: i32, %column: i32) kernel {
    %0 = "tile.tensor_map"(%d) : (memref<?x?xf16>) -> !PanelsMap
    // CHECK: %[[BASE:.*]] = "tile.address"
    // CHECK: nvvm.cp.async.bulk.tensor.global.shared.cta %[[MAP]], %[[BASE]], box[%[[COLUMN]], %[[ROW]]]
    // CHECK: %[[BESIDE:.*]] = arith.addi %[[COLUMN]], %{{.*}}
    // CHECK: %[[NEXT:.*]] = llvm.getelementptr %[[BASE]][8192]
    // CHECK: nvvm.cp.async.bulk.tensor.global.shared.cta %[[MAP]], %[[NEXT]], box[%[[BESIDE]], %[[ROW]]]
    "tile.store_async"(%t, %0, %row, %column) : (!Panels, !PanelsMap, i32, i32) -> ()
    gpu.return
  }

  // Additions to a matrix of a batch: inline PTX, with the policy last.
  // CHECK-LABEL: gpu.func @add
  // CHECK-SAME: %[[NUMBER:[a-z0-9]+]]: i32, %[[ROW:[a-z0-9]+]]: i32, %[[COLUMN:[a-z0-9]+]]: i32, %[[MAP:[a-z0-9]+]]: !llvm.ptr, %[[OTHER:[a-z0-9]+]]: !llvm.ptr)
  gpu.func @add(%d: memref<?x?x?xf16>, %e: memref<?x?xf16>, %t: !Panels, %s: !Tile, %number: i32, %row: i32, %column: i32) kernel {
    %0 = "tile.tensor_map"(%d) : (memref<?x?x?xf16>) -> !PanelsMap
    // CHECK: %[[POLICY:.*]] = llvm.inline_asm has_side_effects "createpolicy
    %1 = "tile.tensor_map"(%e) {l2_eviction = "evict_last"} : (memref<?x?xf16>) -> !Map
    %2 = "tile.member"(%0, %number) : (!PanelsMap, i32) -> !PanelsMap
    // CHECK: %[[BASE:.*]] = "tile.address"
    // CHECK: llvm.inline_asm has_side_effects "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [$0, {$2, $3, $4}], [$1];", "l,r,r,r,r,~{memory}" %[[MAP]], %[[BASE]], %[[COLUMN]], %[[ROW]], %[[NUMBER]]
    // CHECK: %[[BESIDE:.*]] = arith.addi %[[COLUMN]], %{{.*}}
    // CHECK: %[[NEXT:.*]] = llvm.getelementptr %[[BASE]][8192]
    // CHECK: llvm.inline_asm has_side_effects "cp.reduce.async.bulk.tensor.3d{{.*}} %[[MAP]], %[[NEXT]], %[[BESIDE]], %[[ROW]], %[[NUMBER]]
    "tile.add_async"(%t, %2, %row, %column) : (!Panels, !PanelsMap, i32, i32) -> ()
    // CHECK: llvm.inline_asm has_side_effects "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group.L2::cache_hint [$0, {$2, $3}], [$1], $4;", "l,r,r,r,l,~{memory}" %[[OTHER]], %{{.*}}, %[[COLUMN]], %[[ROW]], %[[POLICY]]
    "tile.add_async"(%s, %1, %row, %column) : (!Tile, !Map, i32, i32) -> ()
    gpu.return
  }

  // Maps in the order in which they are made, whatever the order of their matrices; one of them has no swizzle.
  // CHECK-LABEL: gpu.func @two_maps
  // CHECK-SAME: %[[FIRST:[a-z0-9]+]]: !llvm.ptr, %[[SECOND:[a-z0-9]+]]: !llvm.ptr)
  // CHECK-SAME: {box = array<i64: 8, 16>{{.*}}matrix = 1 : i64{{.*}}swizzle = "none"{{.*}}}, {box = array<i64: 64, 64>{{.*}}matrix = 0 : i64{{.*}}swizzle = "128B"
  gpu.func @two_maps(%a: memref<?x?xf16>, %b: memref<?x?xi8>, %s: !Tile, %t: !Flat, %i: i32, %full: !llvm.ptr<3>) kernel {
    %0 = "tile.tensor_map"(%b) : (memref<?x?xi8>) -> !FlatMap
    %1 = "tile.tensor_map"(%a) : (memref<?x?xf16>) -> !Map
    // CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[SECOND]],
    // CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[FIRST]],
    "tile.copy_async"(%1, %i, %i, %s, %full) : (!Map, i32, i32, !Tile, !llvm.ptr<3>) -> ()
    "tile.copy_async"(%0, %i, %i, %t, %full) : (!FlatMap, i32, i32, !Flat, !llvm.ptr<3>) -> ()
    gpu.return
  }

  // One matrix of a batch: its number is the last coordinate, and a box is of one matrix. It has the policy of the batch.
  // CHECK-LABEL: gpu.func @member
  // CHECK-SAME: %[[NUMBER:[a-z0-9]+]]: i32, %[[I:[a-z0-9]+]]: i32, %[[FULL:[a-z0-9]+]]: !llvm.ptr<3>, %[[MAP:[a-z0-9]+]]: !llvm.ptr)
  // CHECK-SAME: {box = array<i64: 64, 64>
  gpu.func @member(%a: memref<?x?x?xf16>, %t: !Tile, %number: i32, %i: i32, %full: !llvm.ptr<3>) kernel {
    // CHECK: %[[POLICY:.*]] = llvm.inline_asm has_side_effects "createpolicy.fractional.L2::evict_last.b64
    %0 = "tile.tensor_map"(%a) {l2_eviction = "evict_last"} : (memref<?x?x?xf16>) -> !Map
    %1 = "tile.member"(%0, %number) : (!Map, i32) -> !Map
    // CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[MAP]], %[[FULL]], box[%[[I]], %[[I]], %[[NUMBER]]] l2_cache_hint = %[[POLICY]]
    // CHECK: nvvm.cp.async.bulk.tensor.global.shared.cta %[[MAP]], %{{.*}}, box[%[[I]], %[[I]], %[[NUMBER]]] l2_cache_hint = %[[POLICY]]
    "tile.copy_async"(%1, %i, %i, %t, %full) : (!Map, i32, i32, !Tile, !llvm.ptr<3>) -> ()
    "tile.store_async"(%t, %1, %i, %i) : (!Tile, !Map, i32, i32) -> ()
    gpu.return
  }

  // One matrix of a batch of batches: the index that was selected first is the last coordinate.
  // CHECK-LABEL: gpu.func @member_of_member
  // CHECK-SAME: %[[OUTER:[a-z0-9]+]]: i32, %[[INNER:[a-z0-9]+]]: i32, %[[FULL:[a-z0-9]+]]: !llvm.ptr<3>, %[[MAP:[a-z0-9]+]]: !llvm.ptr)
  gpu.func @member_of_member(%a: memref<?x?x?x?xf16>, %t: !Tile, %outer: i32, %inner: i32, %full: !llvm.ptr<3>) kernel {
    %0 = "tile.tensor_map"(%a) : (memref<?x?x?x?xf16>) -> !Map
    %1 = "tile.member"(%0, %outer) : (!Map, i32) -> !Map
    %2 = "tile.member"(%1, %inner) : (!Map, i32) -> !Map
    // CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global %{{.*}}, %[[MAP]], %[[FULL]], box[%[[INNER]], %[[INNER]], %[[INNER]], %[[OUTER]]]
    "tile.copy_async"(%2, %inner, %inner, %t, %full) : (!Map, i32, i32, !Tile, !llvm.ptr<3>) -> ()
    gpu.return
  }

  // What threads copy is for --lower-copies.
  // CHECK-LABEL: gpu.func @untouched
  // CHECK-NOT: weft.tensor_maps
  // CHECK: "tile.copy_async"
  gpu.func @untouched(%a: memref<?x?xf16>, %t: !Tile, %i: i32) kernel {
    "tile.copy_async"(%a, %i, %i, %t) {vector_bytes = 16} : (memref<?x?xf16>, i32, i32, !Tile) -> ()
    gpu.return
  }
}
