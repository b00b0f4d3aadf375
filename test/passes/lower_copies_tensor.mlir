// RUN: weft-opt %s --mlir-print-local-scope --lower-copies --tile-explain-dispatch 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t

!Sum = !tile.buffer<array<i64: 128, 96>, f32, #tile.layout<"S[(128,96):(1@TLane,1@TCol)]">, "tmem">
!Rows = tensor<128x48xf32, #tile.layout<"S[(4,32,48):(1@warpid,1@laneid,1)]">>
!Matrices = tensor<128x16xf32, #tile.layout<"S[(4,2,2,8,2,4,2):(1@warpid,8,2,4@laneid,4,1@laneid,1)]">>
!Halves = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(1@TLane,2@TCol)]">, "tmem">
!Half = tensor<128x16xf16, #tile.layout<"S[(4,32,16):(1@warpid,1@laneid,1)]">>
!Packed = !tile.buffer<array<i64: 128, 64>, f16, #tile.layout<"S[(128,64):(1@TLane,1@TCol)]">, "tmem">
!OneWarp = tensor<32x8xf32, #tile.layout<"S[(32,8):(1@laneid,1)]">>

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  // CHECK-LABEL: gpu.func @rows
  // A warpgroup's warps begin 32 lanes apart, at 2097152 = 32 << 16.
  // CHECK: %[[START:.*]] = "tile.address"(%{{.*}}) : (!tile.buffer<{{.*}}, "tmem">) -> !llvm.ptr<6>
  // CHECK: %[[LANES:.*]] = arith.constant 65536 : i32
  // CHECK-NEXT: arith.muli %{{.*}}, %[[LANES]] : i32
  // CHECK: %[[PART:.*]] = llvm.getelementptr %[[START]][%{{.*}}]
  // CHECK: arith.constant 2097152 : i32
  // CHECK: %[[MINE:.*]] = llvm.getelementptr %[[PART]][%{{.*}}]
  // CHECK: %[[FIRST:.*]] = "tcgen05.ld"(%[[MINE]]) {num = 32 : i64, shape = "32x32b"} : (!llvm.ptr<6>) -> vector<32xi32>
  // CHECK: %[[NEXT:.*]] = llvm.getelementptr %[[MINE]][32]
  // CHECK: %[[SECOND:.*]] = "tcgen05.ld"(%[[NEXT]]) {num = 16 : i64, shape = "32x32b"} : (!llvm.ptr<6>) -> vector<16xi32>
  // CHECK: "tcgen05.wait"() {kind = "ld"}
  // Nothing may use the registers before the wait.
  // CHECK: llvm.inline_asm has_side_effects
  // CHECK-NOT: tile.load
  // WHY: remark: 'tile.load' op is lowered to 1 x tcgen05.ld.32x32b.x32 and 1 x tcgen05.ld.32x32b.x16
  // WHY: note: tcgen05.ld.32x32b.x64 moves 64 registers, the fragment has 48
  // WHY-NEXT: note: tcgen05.ld.16x64b needs lane 8, column 0 in register 0 of thread 1, which has lane 1, column 0
  gpu.func @rows(%b: !Sum, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %0 = "tile.load"(%b, %i, %i) : (!Sum, i32, i32) -> !Rows
    gpu.return
  }

  // The 32 rows of a warp take two instructions of 16.
  // CHECK-LABEL: gpu.func @matrices
  // CHECK: "tcgen05.st"(%[[MINE:.*]], %{{.*}}) {num = 2 : i64, shape = "16x256b"} : (!llvm.ptr<6>, vector<8xi32>) -> ()
  // CHECK: %[[LOWER:.*]] = llvm.getelementptr %[[MINE]][1048576]
  // CHECK: "tcgen05.st"(%[[LOWER]], %{{.*}}) {num = 2 : i64, shape = "16x256b"} : (!llvm.ptr<6>, vector<8xi32>) -> ()
  // CHECK-NEXT: "tcgen05.wait"() {kind = "st"}
  // WHY: remark: 'tile.store' op is lowered to 2 x tcgen05.st.16x256b.x2
  // WHY: note: tcgen05.st.16x256b.x4 needs more columns that follow each other
  gpu.func @matrices(%f: !Matrices, %b: !Sum, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.store"(%f, %b, %i, %i) : (!Matrices, !Sum, i32, i32) -> ()
    gpu.return
  }

  // Two f16 sums are in two columns, but in one register.
  // CHECK-LABEL: gpu.func @halves
  // CHECK: "tcgen05.ld"(%{{.*}}) {num = 8 : i64, pack = true, shape = "32x32b"} : (!llvm.ptr<6>) -> vector<8xi32>
  // CHECK: vector.bitcast %{{.*}} : vector<8xi32> to vector<16xf16>
  // CHECK: "tcgen05.st"(%{{.*}}, %{{.*}}) {num = 8 : i64, shape = "32x32b", unpack = true} : (!llvm.ptr<6>, vector<8xi32>) -> ()
  // CHECK: "tcgen05.st"(%{{.*}}, %{{.*}}) {num = 8 : i64, shape = "32x32b"} : (!llvm.ptr<6>, vector<8xi32>) -> ()
  gpu.func @halves(%b: !Halves, %p: !Packed, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %0 = "tile.load"(%b, %i, %i) : (!Halves, i32, i32) -> !Half
    "tile.store"(%0, %b, %i, %i) : (!Half, !Halves, i32, i32) -> ()
    "tile.store"(%0, %p, %i, %i) : (!Half, !Packed, i32, i32) -> ()
    gpu.return
  }

  // One warp goes to the lanes that its coordinates select.
  // CHECK-LABEL: gpu.func @one_warp
  // CHECK-NOT: 2097152
  // CHECK: "tcgen05.ld"(%{{.*}}) {num = 8 : i64, shape = "32x32b"}
  gpu.func @one_warp(%b: !Sum, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %0 = "tile.load"(%b, %i, %i) : (!Sum, i32, i32) -> !OneWarp
    gpu.return
  }
}
