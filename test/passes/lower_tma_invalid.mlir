// RUN: weft-opt %s --lower-tma --split-input-file --verify-diagnostics

!Tile = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
gpu.module @m {
  gpu.func @copy_of_another_map(%m: !Map, %t: !Tile, %i: i32, %full: !llvm.ptr<3>) kernel {
    // expected-error @below {{'tile.copy_async' op expects a map from tile.tensor_map}}
    "tile.copy_async"(%m, %i, %i, %t, %full) : (!Map, i32, i32, !Tile, !llvm.ptr<3>) -> ()
    gpu.return
  }
}

// -----

!Tile = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
gpu.module @m {
  gpu.func @store_to_another_map(%a: memref<?x?xf16>, %c: i1, %t: !Tile, %i: i32) kernel {
    %0 = "tile.tensor_map"(%a) : (memref<?x?xf16>) -> !Map
    %1 = arith.select %c, %0, %0 : !Map
    // expected-error @below {{'tile.store_async' op expects a map from tile.tensor_map}}
    "tile.store_async"(%t, %1, %i, %i) : (!Tile, !Map, i32, i32) -> ()
    gpu.return
  }
}

// -----

!Tile = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
gpu.module @m {
  gpu.func @multicast_of_another_map(%m: !Map, %t: !Tile, %i: i32, %full: !llvm.ptr<3>, %mask: i16) kernel {
    // expected-error @below {{'tile.copy_multicast' op expects a map from tile.tensor_map}}
    "tile.copy_multicast"(%m, %i, %i, %t, %full, %mask) : (!Map, i32, i32, !Tile, !llvm.ptr<3>, i16) -> ()
    gpu.return
  }
}

// -----

!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
gpu.module @m {
  gpu.func @map_of_a_part(%a: memref<128x128xf16>) kernel {
    %0 = memref.subview %a[0, 0] [64, 64] [1, 1] : memref<128x128xf16> to memref<64x64xf16, strided<[128, 1]>>
    // expected-error @below {{'tile.tensor_map' op expects the matrix to be an argument of the kernel}}
    %1 = "tile.tensor_map"(%0) : (memref<64x64xf16, strided<[128, 1]>>) -> !Map
    gpu.return
  }
}

// -----

!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
gpu.module @m {
  gpu.func @map_of_what_a_loop_carries(%a: memref<?x?xf16>, %n: index) kernel {
    %0 = scf.for %i = %n to %n step %n iter_args(%x = %a) -> (memref<?x?xf16>) {
      // expected-error @below {{'tile.tensor_map' op expects the matrix to be an argument of the kernel}}
      %1 = "tile.tensor_map"(%x) : (memref<?x?xf16>) -> !Map
      scf.yield %x : memref<?x?xf16>
    }
    gpu.return
  }
}

// -----

!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
func.func @map_outside_of_a_kernel(%a: memref<?x?xf16>) {
  // expected-error @below {{'tile.tensor_map' op expects a gpu.func around it}}
  %0 = "tile.tensor_map"(%a) : (memref<?x?xf16>) -> !Map
  return
}

// -----

!Tile = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
func.func @store_outside_of_a_kernel(%m: !Map, %t: !Tile, %i: i32) {
  // expected-error @below {{'tile.store_async' op survives --lower-tma}}
  "tile.store_async"(%t, %m, %i, %i) : (!Tile, !Map, i32, i32) -> ()
  return
}

// -----

!Tile = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
func.func @multicast_outside_of_a_kernel(%m: !Map, %t: !Tile, %i: i32, %full: !llvm.ptr<3>, %mask: i16) {
  // expected-error @below {{'tile.copy_multicast' op survives --lower-tma}}
  "tile.copy_multicast"(%m, %i, %i, %t, %full, %mask) : (!Map, i32, i32, !Tile, !llvm.ptr<3>, i16) -> ()
  return
}

// -----

!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(1,64)]">>
gpu.module @m {
  gpu.func @map_of_columns(%a: memref<?x?xf16>) kernel {
    // expected-error @below {{'tile.tensor_map' op expects contiguous columns in a tile, got S[(64,64):(1,64)]}}
    %0 = "tile.tensor_map"(%a) : (memref<?x?xf16>) -> !Map
    gpu.return
  }
}

// -----

!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(72,1)]">>
gpu.module @m {
  gpu.func @map_of_rows_apart(%a: memref<?x?xf16>) kernel {
    // expected-error @below {{expects rows of a tile to be 64 elements apart, got S[(64,64):(72,1)]}}
    %0 = "tile.tensor_map"(%a) : (memref<?x?xf16>) -> !Map
    gpu.return
  }
}

// -----

!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(8,8,64):(64,1024,1)]">>
gpu.module @m {
  gpu.func @map_of_rows_in_groups(%a: memref<?x?xf16>) kernel {
    // expected-error @below {{expects rows of a tile to be 64 elements apart, got S[(8,8,64):(64,1024,1)]}}
    %0 = "tile.tensor_map"(%a) : (memref<?x?xf16>) -> !Map
    gpu.return
  }
}

// -----

!Map = !tile.map<array<i64: 64, 4>, f16, #tile.layout<"S[(64,4):(4,1)]">>
gpu.module @m {
  gpu.func @map_of_short_rows(%a: memref<?x?xf16>) kernel {
    // expected-error @below {{expects contiguous rows of a multiple of 16 bytes in 16..512, got 8}}
    %0 = "tile.tensor_map"(%a) : (memref<?x?xf16>) -> !Map
    gpu.return
  }
}

// -----

!Map = !tile.map<array<i64: 8, 512>, i8, #tile.layout<"S[(8,512):(512,1)]">>
gpu.module @m {
  gpu.func @map_of_long_rows(%a: memref<?x?xi8>) kernel {
    // expected-error @below {{expects contiguous rows of a multiple of 16 bytes in 16..256, got 512}}
    %0 = "tile.tensor_map"(%a) : (memref<?x?xi8>) -> !Map
    gpu.return
  }
}

// -----

!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 64B">>
gpu.module @m {
  gpu.func @map_of_rows_wider_than_the_swizzle(%a: memref<?x?xf16>) kernel {
    // expected-error @below {{expects rows of 64 bytes with swizzle 64B, got 128: swizzle 128B has such rows}}
    %0 = "tile.tensor_map"(%a) : (memref<?x?xf16>) -> !Map
    gpu.return
  }
}

// -----

// 264 rows are two boxes of 132, of which the second begins within the swizzle's pattern.
!Map = !tile.map<array<i64: 264, 64>, f16, #tile.layout<"S[(264,64):(64,1)] xor 128B">>
gpu.module @m {
  gpu.func @map_of_uneven_boxes(%a: memref<?x?xf16>) kernel {
    // expected-error @below {{expects tiles of at most 256 rows, or of a multiple of 256, got 264}}
    %0 = "tile.tensor_map"(%a) : (memref<?x?xf16>) -> !Map
    gpu.return
  }
}

// -----

// A map would come after what isn't an argument.
!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
gpu.module @m {
  gpu.func @attributions(%a: memref<?x?xf16>) workgroup(%w: memref<4xf32, 3>) kernel {
    // expected-error @below {{'tile.tensor_map' op expects}}
    %0 = "tile.tensor_map"(%a) : (memref<?x?xf16>) -> !Map
    gpu.return
  }
}

// -----

// TMA puts rows of a swizzled box as far apart as the swizzle is wide: 128 bytes, not 32.
!Map = !tile.map<array<i64: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)] xor 128B">>
gpu.module @m {
  gpu.func @rows_narrower_than_the_swizzle(%a: memref<?x?xf16>) kernel {
    // expected-error @below {{'tile.tensor_map' op expects rows}}
    %0 = "tile.tensor_map"(%a) : (memref<?x?xf16>) -> !Map
    gpu.return
  }
}

// -----

// A box begins at a multiple of 128 bytes.
!Map = !tile.map<array<i64: 4, 16>, f16, #tile.layout<"S[(4,2,8):(8,32,1)]">>
gpu.module @m {
  gpu.func @panels_of_64_bytes(%a: memref<?x?xf16>) kernel {
    // expected-error @below {{'tile.tensor_map' op expects boxes at multiples of 128 bytes, got one at 64}}
    %0 = "tile.tensor_map"(%a) : (memref<?x?xf16>) -> !Map
    gpu.return
  }
}

// -----

// A batch is copied one matrix at a time.
!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
!Tile = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
gpu.module @m {
  gpu.func @all_of_a_batch(%a: memref<?x?x?xf16>, %t: !Tile, %i: i32) kernel {
    %0 = "tile.tensor_map"(%a) : (memref<?x?x?xf16>) -> !Map
    // expected-error @below {{'tile.store_async' op expects one matrix of a batch, got the whole batch: use tile.member}}
    "tile.store_async"(%t, %0, %i, %i) : (!Tile, !Map, i32, i32) -> ()
    gpu.return
  }
}

// -----

!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
gpu.module @m {
  gpu.func @member_of_a_matrix(%a: memref<?x?xf16>, %i: i32) kernel {
    %0 = "tile.tensor_map"(%a) : (memref<?x?xf16>) -> !Map
    // expected-error @below {{'tile.member' op expects the map of a batch from tile.tensor_map}}
    %1 = "tile.member"(%0, %i) : (!Map, i32) -> !Map
    gpu.return
  }
}

// -----

!Padded = !tile.buffer<array<i64: 64, 128>, f4E2M1FN, #tile.layout<"S[(64,8,16):(256,32,1)] xor 128B">, "shared">
!PaddedMap = !tile.map<array<i64: 64, 128>, f4E2M1FN, #tile.layout<"S[(64,8,16):(256,32,1)] xor 128B">>
gpu.module @m {
  gpu.func @store_of_padded_elements(%a: memref<?x?xf4E2M1FN>, %t: !Padded, %i: i32) kernel {
    %0 = "tile.tensor_map"(%a) : (memref<?x?xf4E2M1FN>) -> !PaddedMap
    // expected-error @below {{'tile.store_async' op expects elements that have a byte in memory, or are packed, got}}
    "tile.store_async"(%t, %0, %i, %i) : (!Padded, !PaddedMap, i32, i32) -> ()
    gpu.return
  }
}

// -----

!Tile = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
gpu.module @m {
  gpu.func @copy_from_an_indexed_map(%a: memref<?x?xf16>, %t: !Tile, %i: i32, %full: !llvm.ptr<3>) kernel {
    %0 = "tile.tensor_map"(%a) {indexed = true} : (memref<?x?xf16>) -> !Map
    // expected-error @below {{'tile.copy_async' op expects a map that isn't indexed: tile.gather_async copies from an indexed one}}
    "tile.copy_async"(%0, %i, %i, %t, %full) : (!Map, i32, i32, !Tile, !llvm.ptr<3>) -> ()
    gpu.return
  }
}

// -----

!Tile = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!Map = !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
gpu.module @m {
  gpu.func @gather_from_another_map(%a: memref<?x?xf16>, %n: memref<?xi32>, %t: !Tile, %i: i32, %full: !llvm.ptr<3>) kernel {
    %0 = "tile.tensor_map"(%a) : (memref<?x?xf16>) -> !Map
    // expected-error @below {{'tile.gather_async' op expects a map from a tile.tensor_map with indexed = true}}
    "tile.gather_async"(%0, %n, %i, %i, %t, %full) : (!Map, memref<?xi32>, i32, i32, !Tile, !llvm.ptr<3>) -> ()
    gpu.return
  }
}

// -----

!Tile = !tile.buffer<array<i64: 64, 8>, f16, #tile.layout<"S[(64,8):(8,1)]">, "shared">
!Map = !tile.map<array<i64: 64, 8>, f16, #tile.layout<"S[(64,8):(8,1)]">>
gpu.module @m {
  gpu.func @gather_of_narrow_rows(%a: memref<?x?xf16>, %n: memref<?xi32>, %t: !Tile, %i: i32, %full: !llvm.ptr<3>) kernel {
    %0 = "tile.tensor_map"(%a) {indexed = true} : (memref<?x?xf16>) -> !Map
    // expected-error @below {{'tile.gather_async' op expects rows of a multiple of 32 bytes in a box, got 16}}
    "tile.gather_async"(%0, %n, %i, %i, %t, %full) : (!Map, memref<?xi32>, i32, i32, !Tile, !llvm.ptr<3>) -> ()
    gpu.return
  }
}

// -----

!Tile = !tile.buffer<array<i64: 1, 1024>, f8E8M0FNU, #tile.layout<"S[(1,1024):(1024,1)]">, "shared">
!Map = !tile.map<array<i64: 1, 1024>, f8E8M0FNU, #tile.layout<"S[(1,1024):(1024,1)]">>
gpu.module @m {
  gpu.func @column_in_a_chunk(%a: memref<?x?xf8E8M0FNU>, %t: !Tile, %i: i32, %full: !llvm.ptr<3>) kernel {
    %c256 = arith.constant 256 : i32
    %0 = "tile.tensor_map"(%a) {chunk = 512 : i64} : (memref<?x?xf8E8M0FNU>) -> !Map
    // expected-error @below {{'tile.copy_async' op column must be a multiple of 512, the map's chunk, got 256}}
    "tile.copy_async"(%0, %i, %c256, %t, %full) : (!Map, i32, i32, !Tile, !llvm.ptr<3>) -> ()
    gpu.return
  }
}

// -----

!Tile = !tile.buffer<array<i64: 64, 128>, f6E2M3FN, #tile.layout<"S[(64,128):(128,1)] xor 128B">, "shared">
!Map = !tile.map<array<i64: 64, 128>, f6E2M3FN, #tile.layout<"S[(64,128):(128,1)] xor 128B">>
gpu.module @m {
  gpu.func @column_in_a_row(%a: memref<?x?xf6E2M3FN>, %t: !Tile, %i: i32, %full: !llvm.ptr<3>) kernel {
    %c16 = arith.constant 16 : i32
    %0 = "tile.tensor_map"(%a) : (memref<?x?xf6E2M3FN>) -> !Map
    // expected-error @below {{'tile.copy_async' op column must be a multiple of 128, of which TMA expands rows, got 16}}
    "tile.copy_async"(%0, %i, %c16, %t, %full) : (!Map, i32, i32, !Tile, !llvm.ptr<3>) -> ()
    gpu.return
  }
}
