// RUN: weft-opt %s | weft-opt --mlir-print-local-scope | FileCheck %s

!Accumulators = !tile.buffer<array<i64: 2, 128, 128>, f32, #tile.layout<"S[(2,128,128):(128@TCol,1@TLane,1@TCol)]">, "tmem">
!Accumulator = !tile.buffer<array<i64: 128, 128>, f32, #tile.layout<"S[(128,128):(1@TLane,1@TCol)]">, "tmem">
!Halves = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(1@TLane,2@TCol)]">, "tmem">
!Scales = !tile.buffer<array<i64: 256, 8>, i8, #tile.layout<"S[(8,32,2,4):(4@TCol,1@TLane,32@TCol,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
!Scale = !tile.buffer<array<i64: 256, 4>, i8, #tile.layout<"S[(8,32,4):(4@TCol,1@TLane,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
!Columns = !tile.buffer<array<i64: 96, 8>, i8, #tile.layout<"S[(3,32,2,4):(4@TCol,1@TLane,32@TCol,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
!M64 = !tile.buffer<array<i64: 2, 64, 32>, f32, #tile.layout<"S[(2,4,16,32):(16@TLane,32@TLane,1@TLane,1@TCol)]">, "tmem">
!Upper = !tile.buffer<array<i64: 64, 32>, f32, #tile.layout<"S[(4,16,32):(32@TLane,1@TLane,1@TCol)]">, "tmem">
!Overlapping = !tile.buffer<array<i64: 2, 128, 64>, f32, #tile.layout<"S[(2,128,64):(48@TCol,1@TLane,1@TCol)]">, "tmem">
!Second = !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!Cut = !tile.buffer<array<i64: 128, 32>, f32, #tile.layout<"S[(128,32):(1@TLane,1@TCol)]">, "tmem">

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  // CHECK-LABEL: @buffers
  gpu.func @buffers(%i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // CHECK: "tile.tensor_memory"() ({
    "tile.tensor_memory"() ({
      // CHECK-NEXT: "tile.alloc"() : () -> !tile.buffer<array<i64: 2, 128, 128>, f32, #tile.layout<"S[(2,128,128):(128@TCol,1@TLane,1@TCol)]">, "tmem">
      %sums = "tile.alloc"() : () -> !Accumulators
      // A second view of the same columns needs none of its own.
      // CHECK-NEXT: "tile.alloc"(%{{.*}}) : (!tile.buffer<{{.*}}, "tmem">) -> !tile.buffer<array<i64: 128, 64>, f16
      %halves = "tile.alloc"(%sums) : (!Accumulators) -> !Halves
      %scales = "tile.alloc"() : () -> !Scales
      %m64 = "tile.alloc"() : () -> !M64
      // CHECK: "tile.stage"
      // CHECK-SAME: -> !tile.buffer<array<i64: 128, 128>, f32, #tile.layout<"S[(128,128):(1@TLane,1@TCol)]">, "tmem">
      %one = "tile.stage"(%sums, %i) : (!Accumulators, i32) -> !Accumulator
      // Stages may be side by side in lanes.
      // CHECK: "tile.stage"
      // CHECK-SAME: -> !tile.buffer<array<i64: 64, 32>, f32, #tile.layout<"S[(4,16,32):(32@TLane,1@TLane,1@TCol)]">, "tmem">
      %upper = "tile.stage"(%m64, %i) : (!M64, i32) -> !Upper
      // CHECK: "tile.slice"
      // CHECK-SAME: -> !tile.buffer<array<i64: 128, 32>, f32, #tile.layout<"S[(128,32):(1@TLane,1@TCol)]">, "tmem">
      %cut = "tile.slice"(%one, %i, %i) : (!Accumulator, i32, i32) -> !Cut
      // Slices keep replicas.
      // CHECK: "tile.slice"
      // CHECK-SAME: -> !tile.buffer<array<i64: 256, 4>, i8, #tile.layout<"S[(8,32,4):(4@TCol,1@TLane,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
      %scale = "tile.slice"(%scales, %i, %i) : (!Scales, i32, i32) -> !Scale
      // Slices may begin at any multiple of a step, here in the middle of a tile of scales.
      // CHECK: "tile.slice"
      // CHECK-SAME: {row_step = 32 : i64}
      // CHECK-SAME: -> !tile.buffer<array<i64: 96, 8>, i8, #tile.layout<"S[(3,32,2,4):(4@TCol,1@TLane,32@TCol,1@TCol)] + R[(4):(32@TLane)]">, "tmem">
      %columns = "tile.slice"(%scales, %i, %i) {row_step = 32 : i64} : (!Scales, i32, i32) -> !Columns
      // Stages may overlap: the second begins 16 columns before the end of the first.
      // CHECK: "tile.stage"
      // CHECK-SAME: -> !tile.buffer<array<i64: 128, 64>, f32, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
      %overlapping = "tile.alloc"() : () -> !Overlapping
      %second = "tile.stage"(%overlapping, %i) : (!Overlapping, i32) -> !Second
      // CHECK: "tile.address"(%{{.*}}) : (!tile.buffer<{{.*}}, "tmem">) -> !llvm.ptr<6>
      %address = "tile.address"(%cut) : (!Cut) -> !llvm.ptr<6>
      // CHECK: }) {cta_group = 1 : i64, warp = 3 : i64} : () -> ()
    }) {warp = 3 : i64, cta_group = 1 : i64} : () -> ()
    gpu.return
  }
}
