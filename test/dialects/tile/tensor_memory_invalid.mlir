// RUN: weft-opt %s --split-input-file --verify-diagnostics

func.func @axis(%p: !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(64,1)]">, "tmem">) {
  // expected-error @below {{has a buffer in tensor memory of layout S[(128,64):(64,1)]: its axes must be among TLane, TCol, got m}}
  %0 = "tile.address"(%p) : (!tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(64,1)]">, "tmem">) -> !llvm.ptr<6>
  return
}

// -----

func.func @shared_axis(%p: !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "shared">) {
  // expected-error @below {{strides in memory have no axis, got @TLane}}
  %0 = "tile.address"(%p) : (!tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "shared">) -> !llvm.ptr<3>
  return
}

// -----

func.func @swizzle(%p: !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(1@TLane,1@TCol)] xor 128B">, "tmem">) {
  // expected-error @below {{it must not have an offset or swizzle}}
  %0 = "tile.address"(%p) : (!tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(1@TLane,1@TCol)] xor 128B">, "tmem">) -> !llvm.ptr<6>
  return
}

// -----

func.func @overlap(%p: !tile.buffer<array<i64: 64, 4>, i8, #tile.layout<"S[(64,4):(1@TLane,1@TCol)] + R[(4):(32@TLane)]">, "tmem">) {
  // expected-error @below {{its elements must not overlap}}
  %0 = "tile.address"(%p) : (!tile.buffer<array<i64: 64, 4>, i8, #tile.layout<"S[(64,4):(1@TLane,1@TCol)] + R[(4):(32@TLane)]">, "tmem">) -> !llvm.ptr<6>
  return
}

// -----

func.func @lanes(%p: !tile.buffer<array<i64: 256, 4>, f32, #tile.layout<"S[(256,4):(1@TLane,1@TCol)]">, "tmem">) {
  // expected-error @below {{has a buffer in tensor memory of layout S[(256,4):(1@TLane,1@TCol)]: it must span at most 128 lanes, got 256}}
  %0 = "tile.address"(%p) : (!tile.buffer<array<i64: 256, 4>, f32, #tile.layout<"S[(256,4):(1@TLane,1@TCol)]">, "tmem">) -> !llvm.ptr<6>
  return
}

// -----

func.func @columns(%p: !tile.buffer<array<i64: 128, 1026>, f16, #tile.layout<"S[(128,1026):(1@TLane,1@TCol)]">, "tmem">) {
  // expected-error @below {{it must span at most 512 columns, got 513}}
  %0 = "tile.address"(%p) : (!tile.buffer<array<i64: 128, 1026>, f16, #tile.layout<"S[(128,1026):(1@TLane,1@TCol)]">, "tmem">) -> !llvm.ptr<6>
  return
}

// -----

func.func @element(%p: !tile.buffer<array<i64: 128, 4>, i64, #tile.layout<"S[(128,4):(1@TLane,1@TCol)]">, "tmem">) {
  // expected-error @below {{has a buffer in tensor memory of i64: elements must have at most 32 bits}}
  %0 = "tile.address"(%p) : (!tile.buffer<array<i64: 128, 4>, i64, #tile.layout<"S[(128,4):(1@TLane,1@TCol)]">, "tmem">) -> !llvm.ptr<6>
  return
}

// -----

func.func @address(%p: !tile.buffer<array<i64: 128, 4>, f32, #tile.layout<"S[(128,4):(1@TLane,1@TCol)]">, "tmem">) {
  // expected-error @below {{expects to return !llvm.ptr<6>, got !llvm.ptr<3>}}
  %0 = "tile.address"(%p) : (!tile.buffer<array<i64: 128, 4>, f32, #tile.layout<"S[(128,4):(1@TLane,1@TCol)]">, "tmem">) -> !llvm.ptr<3>
  return
}

// -----

!Buffer = !tile.buffer<array<i64: 128, 4>, f32, #tile.layout<"S[(128,4):(1@TLane,1@TCol)]">, "tmem">
func.func @outside() {
  // expected-error @below {{'tile.alloc' op expects a buffer in tensor memory directly in a 'tile.tensor_memory', got it in 'func.func'}}
  %0 = "tile.alloc"() : () -> !Buffer
  return
}

// -----

!Buffer = !tile.buffer<array<i64: 128, 4>, f32, #tile.layout<"S[(128,4):(1@TLane,1@TCol)]">, "tmem">
func.func @in_a_branch(%c: i1) {
  "tile.tensor_memory"() ({
    scf.if %c {
      // expected-error @below {{directly in a 'tile.tensor_memory', got it in 'scf.if'}}
      %0 = "tile.alloc"() : () -> !Buffer
    }
  }) : () -> ()
  return
}

// -----

!Buffer = !tile.buffer<array<i64: 128, 4>, f32, #tile.layout<"S[(128,4):(1@TLane,1@TCol)]">, "tmem">
!Shared = !tile.buffer<array<i64: 128, 4>, f32, #tile.layout<"S[(128,4):(4,1)]">, "shared">
func.func @over_another_memory(%s: !Shared) {
  "tile.tensor_memory"() ({
    // expected-error @below {{expects to overlap a buffer in the same memory, got !tile.buffer<array<i64: 128, 4>, f32, #tile.layout<"S[(128,4):(4,1)]">, "shared">}}
    %0 = "tile.alloc"(%s) : (!Shared) -> !Buffer
  }) : () -> ()
  return
}

// -----

!Buffer = !tile.buffer<array<i64: 128, 4>, f32, #tile.layout<"S[(128,4):(1@TLane,1@TCol)]">, "tmem">
func.func @over_a_buffer_from_elsewhere(%b: !Buffer) {
  "tile.tensor_memory"() ({
    // expected-error @below {{expects to overlap a buffer from an earlier tile.alloc in the same region}}
    %0 = "tile.alloc"(%b) : (!Buffer) -> !Buffer
  }) : () -> ()
  return
}

// -----

!Rows = !tile.buffer<array<i64: 3, 128>, f16, #tile.layout<"S[(3,128):(1@TCol,1@TLane)]">, "tmem">
!Row = !tile.buffer<array<i64: 128>, f16, #tile.layout<"S[(128):(1@TLane)]">, "tmem">
func.func @stages(%b: !Rows, %i: i32) {
  // expected-error @below {{stages must be a multiple of 32 bits apart in tensor memory, got 16}}
  %0 = "tile.stage"(%b, %i) : (!Rows, i32) -> !Row
  return
}

// -----

!Whole = !tile.buffer<array<i64: 128, 6>, f16, #tile.layout<"S[(128,6):(1@TLane,1@TCol)]">, "tmem">
!Part = !tile.buffer<array<i64: 128, 3>, f16, #tile.layout<"S[(128,3):(1@TLane,1@TCol)]">, "tmem">
func.func @slices(%b: !Whole, %i: i32) {
  // expected-error @below {{slices must be a multiple of 32 bits apart in tensor memory, got 48}}
  %0 = "tile.slice"(%b, %i, %i) : (!Whole, i32, i32) -> !Part
  return
}

// -----

!Scales = !tile.buffer<array<i64: 256, 8>, i8, #tile.layout<"S[(8,32,2,4):(4@TCol,1@TLane,32@TCol,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
!Part = !tile.buffer<array<i64: 96, 8>, i8, #tile.layout<"S[(3,32,2,4):(4@TCol,1@TLane,32@TCol,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
func.func @slices_at_no_steps(%b: !Scales, %i: i32) {
  // expected-error @below {{row_step must be positive, got -32}}
  %0 = "tile.slice"(%b, %i, %i) {row_step = -32 : i64} : (!Scales, i32, i32) -> !Part
  return
}

// -----

!Scales = !tile.buffer<array<i64: 256, 8>, i8, #tile.layout<"S[(8,32,2,4):(4@TCol,1@TLane,32@TCol,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
!Part = !tile.buffer<array<i64: 96, 8>, i8, #tile.layout<"S[(3,32,2,4):(4@TCol,1@TLane,32@TCol,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
func.func @slices_that_steps_do_not_reach(%b: !Scales, %i: i32) {
  // expected-error @below {{expects a buffer of 96 rows and a multiple of 64 more, and a multiple of 8 columns, got [256, 8]}}
  %0 = "tile.slice"(%b, %i, %i) {row_step = 64 : i64} : (!Scales, i32, i32) -> !Part
  return
}

// -----

!Scales = !tile.buffer<array<i64: 256, 8>, i8, #tile.layout<"S[(8,32,2,4):(4@TCol,1@TLane,32@TCol,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
!Part = !tile.buffer<array<i64: 96, 8>, i8, #tile.layout<"S[(3,32,2,4):(4@TCol,1@TLane,32@TCol,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
func.func @slices_within_lanes(%b: !Scales, %i: i32) {
  // expected-error @below {{elements 16 to 111 of S[(8,32):(4@TCol,1@TLane)]: the positions have no common stride}}
  %0 = "tile.slice"(%b, %i, %i) {row_step = 16 : i64} : (!Scales, i32, i32) -> !Part
  return
}

// -----

!Buffer = !tile.buffer<array<i64: 128, 4>, f32, #tile.layout<"S[(128,4):(1@TLane,1@TCol)]">, "tmem">
func.func @copies(%b: !Buffer, %m: memref<?x?xf32>, %i: i32) {
  // expected-error @below {{'tile.copy' op expects the tile in shared memory}}
  "tile.copy"(%m, %i, %i, %b) : (memref<?x?xf32>, i32, i32, !Buffer) -> ()
  return
}

// -----

!Buffer = !tile.buffer<array<i64: 128, 4>, f32, #tile.layout<"S[(128,4):(1@TLane,1@TCol)]">, "tmem">
func.func @copies_out(%b: !Buffer, %m: memref<?x?xf32>, %i: i32) {
  // expected-error @below {{'tile.copy_out' op expects the tile in shared memory}}
  "tile.copy_out"(%b, %m, %i, %i) : (!Buffer, memref<?x?xf32>, i32, i32) -> ()
  return
}

// -----

!Row = !tile.buffer<array<i64: 1, 4>, f32, #tile.layout<"S[(4):(1@TCol)]">, "tmem">
!Fragment = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
func.func @loads_a_row(%b: !Row, %i: i32) {
  // expected-error @below {{'tile.load_row' op expects a buffer in shared memory or a memref}}
  %0 = "tile.load_row"(%b, %i) : (!Row, i32) -> !Fragment
  return
}

// -----

func.func @warp() {
  // expected-error @below {{'tile.tensor_memory' op warp must be in 0..31, got 32}}
  "tile.tensor_memory"() ({
  }) {warp = 32 : i64} : () -> ()
  return
}

// -----

func.func @cta_group() {
  // expected-error @below {{'tile.tensor_memory' op cta_group must be 1 or 2, got 4}}
  "tile.tensor_memory"() ({
  }) {cta_group = 4 : i64} : () -> ()
  return
}

// -----

func.func @arguments() {
  // expected-error @below {{'tile.tensor_memory' op expects a region of one block without arguments}}
  "tile.tensor_memory"() ({
  ^bb0(%i: i32):
  }) : () -> ()
  return
}

// -----

func.func @nested() {
  "tile.tensor_memory"() ({
    // expected-error @below {{expects to be reached by all threads of the CTA, got it inside a 'tile.tensor_memory'}}
    "tile.tensor_memory"() ({
      %0 = arith.constant 0 : i32
    }) : () -> ()
  }) : () -> ()
  return
}

// -----

func.func @in_a_role() {
  "tile.role"() ({
  ^bb0(%number: i32):
    // expected-error @below {{expects to be reached by all threads of the CTA, got it inside a 'tile.role'}}
    "tile.tensor_memory"() ({
      %0 = arith.constant 0 : i32
    }) : () -> ()
  }) {first = 0 : i64, warps = 1 : i64} : () -> ()
  return
}

// -----

!Large = !tile.buffer<array<i64: 128, 256>, f32, #tile.layout<"S[(128,256):(1@TLane,1@TCol)]">, "tmem">
!Small = !tile.buffer<array<i64: 128, 16>, f32, #tile.layout<"S[(128,16):(1@TLane,1@TCol)]">, "tmem">
func.func @too_many_columns() {
  // expected-error @below {{expects buffers of at most 512 columns, got 528 (256 + 16 over another + 256 + 16)}}
  "tile.tensor_memory"() ({
    %0 = "tile.alloc"() : () -> !Large
    %1 = "tile.alloc"(%0) : (!Large) -> !Small
    %2 = "tile.alloc"() : () -> !Large
    %3 = "tile.alloc"() : () -> !Small
  }) : () -> ()
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  gpu.func @chip() kernel {
    // expected-error @below {{'tile.tensor_memory' op expects a chip with tensor memory (sm_100a, sm_100f, sm_103a, sm_103f, sm_107a, sm_107f, sm_110a, sm_110f), got sm_90a}}
    "tile.tensor_memory"() ({
      %0 = arith.constant 0 : i32
    }) : () -> ()
    gpu.return
  }
}

// -----

!Sum = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!Rows = tensor<128x16xf32, #tile.layout<"S[(4,32,16):(1@warpid,1@laneid,1)]">>
func.func @load_transposed(%b: !Sum, %i: i32) {
  // expected-error @below {{'tile.load' op transpose must be false for a buffer in tensor memory}}
  %0 = "tile.load"(%b, %i, %i) {transpose = true} : (!Sum, i32, i32) -> !Rows
  return
}

// -----

!Sum = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!Rows = tensor<128x16xf32, #tile.layout<"S[(4,32,16):(1@warpid,1@laneid,1)]">>
func.func @store_vectors(%b: !Sum, %f: !Rows, %i: i32) {
  // expected-error @below {{'tile.store' op vector_bytes must be 0 for a buffer in tensor memory, got 16}}
  "tile.store"(%f, %b, %i, %i) {vector_bytes = 16 : i64} : (!Rows, !Sum, i32, i32) -> ()
  return
}

// -----

!Shared = !tile.buffer<array<i64: 128, 8>, f16, #tile.layout<"S[(128,8):(8,1)]">, "shared">
func.func @copy_of_no_buffer(%b: !Shared, %i: i32) {
  // expected-error @below {{'tile.copy_tmem' op expects a source and a destination that are tile.buffer, got !tile.buffer<array<i64: 128, 8>, f16, #tile.layout<"S[(128,8):(8,1)]">, "shared"> and i32}}
  "tile.copy_tmem"(%b, %i) : (!Shared, i32) -> ()
  return
}

// -----

!Shared = !tile.buffer<array<i64: 128, 8>, f16, #tile.layout<"S[(128,8):(8,1)]">, "shared">
func.func @copy_within_a_memory(%b: !Shared) {
  // expected-error @below {{expects a source in 'shared' and a destination in 'tmem' memory, got 'shared' and 'shared'}}
  "tile.copy_tmem"(%b, %b) : (!Shared, !Shared) -> ()
  return
}

// -----

!Shared = !tile.buffer<array<i64: 128, 8>, f16, #tile.layout<"S[(128,8):(8,1)]">, "shared">
!Tensor = !tile.buffer<array<i64: 128, 16>, f16, #tile.layout<"S[(128,16):(1@TLane,1@TCol)]">, "tmem">
func.func @copy_of_another_shape(%b: !Shared, %t: !Tensor) {
  // expected-error @below {{expects a source and a destination of the same shape, got [128, 8] and [128, 16]}}
  "tile.copy_tmem"(%b, %t) : (!Shared, !Tensor) -> ()
  return
}

// -----

!Shared = !tile.buffer<array<i64: 128, 8>, f16, #tile.layout<"S[(128,8):(8,1)]">, "shared">
!Tensor = !tile.buffer<array<i64: 128, 8>, bf16, #tile.layout<"S[(128,8):(1@TLane,1@TCol)]">, "tmem">
func.func @copy_of_other_elements(%b: !Shared, %t: !Tensor) {
  // expected-error @below {{expects equal element types, got !tile.buffer<}}
  "tile.copy_tmem"(%b, %t) : (!Shared, !Tensor) -> ()
  return
}

// -----

!Shared = !tile.buffer<array<i64: 128, 8>, f16, #tile.layout<"S[(128,8):(8,1)]">, "shared">
!Tensor = !tile.buffer<array<i64: 128, 8>, f16, #tile.layout<"S[(128,8):(1@TLane,1@TCol)]">, "tmem">
func.func @copy_by_three(%b: !Shared, %t: !Tensor) {
  // expected-error @below {{cta_group must be 1 or 2, got 3}}
  "tile.copy_tmem"(%b, %t) {cta_group = 3 : i64} : (!Shared, !Tensor) -> ()
  return
}

// -----

func.func @no_element() {
  "tile.tensor_memory"() ({
    // expected-error @below {{'tile.alloc' op has a buffer in tensor memory of index: elements must be one of}}
    %0 = "tile.alloc"() : () -> !tile.buffer<array<i64: 128, 4>, index, #tile.layout<"S[(128,4):(1@TLane,1@TCol)]">, "tmem">
  }) : () -> ()
  return
}

// -----

func.func @no_buffer() {
  "tile.tensor_memory"() ({
    // expected-error @below {{'tile.alloc' op expects 1 result (buffer), got 0}}
    "tile.alloc"() : () -> ()
  }) : () -> ()
  return
}
