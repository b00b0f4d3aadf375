// RUN: weft-opt %s --lower-buffers --split-input-file --verify-diagnostics

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
gpu.module @m {
  gpu.func @used_by_a_copy(%m: memref<?x?xf16>, %i: i32) kernel {
    // expected-error @below {{'tile.alloc' op expects all its uses to be lowered: run --lower-copies before --lower-buffers}}
    %0 = "tile.alloc"() : () -> !T
    "tile.copy"(%m, %i, %i, %0) : (memref<?x?xf16>, i32, i32, !T) -> ()
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
gpu.module @m {
  gpu.func @carried_by_a_loop(%n: index) kernel {
    // expected-error @below {{'tile.alloc' op expects all its uses to be lowered}}
    %0 = "tile.alloc"() : () -> !T
    %1 = scf.for %k = %n to %n step %n iter_args(%b = %0) -> (!T) {
      scf.yield %b : !T
    }
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
gpu.module @m {
  gpu.func @from_an_argument(%b: !T) {
    // expected-error @below {{'tile.address' op expects a buffer from tile.alloc, tile.stage, tile.slice or tile.peer in the same kernel}}
    %0 = "tile.address"(%b) : (!T) -> !llvm.ptr<3>
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
func.func @outside_of_a_kernel() {
  // expected-error @below {{'tile.alloc' op expects a gpu.func around it}}
  %0 = "tile.alloc"() : () -> !T
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
!P = !tile.buffer<array<i64: 16, 64>, f16, #tile.layout<"S[(16,64):(64,1)]">, "shared">
gpu.module @m {
  gpu.func @part_of_an_argument(%b: !T, %i: i32) {
    // expected-error @below {{'tile.slice' op expects a buffer from tile.alloc, tile.stage, tile.slice or tile.peer in the same kernel}}
    %0 = "tile.slice"(%b, %i, %i) : (!T, i32, i32) -> !P
    gpu.return
  }
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
!P = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "cluster">
func.func @peer_outside_of_a_kernel(%b: !T, %i: i32) {
  // expected-error @below {{'tile.peer' op expects a gpu.func around it}}
  %0 = "tile.peer"(%b, %i) : (!T, i32) -> !P
  return
}

// -----

!T = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">
gpu.module @m {
  gpu.func @over_an_argument(%b: !T) {
    // expected-error @below {{'tile.alloc' op expects to overlap a buffer from an earlier tile.alloc in the same kernel}}
    %0 = "tile.alloc"(%b) : (!T) -> !T
    gpu.return
  }
}

// -----

!S = !tile.buffer<array<i64: 5, 5>, f32, #tile.layout<"S[(5,5):(5,1)]">, "shared">
!W = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
gpu.module @m {
  gpu.func @over_another_pattern() kernel {
    %0 = "tile.alloc"() : () -> !S
    %1 = "tile.alloc"() : () -> !S
    // expected-error @below {{'tile.alloc' op expects to overlap a buffer at a multiple of 1024 bytes, got 128}}
    %2 = "tile.alloc"(%1) : (!S) -> !W
    gpu.return
  }
}
