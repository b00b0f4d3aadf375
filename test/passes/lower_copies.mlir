// RUN: weft-opt %s --mlir-print-local-scope --lower-copies | FileCheck %s

!Rows = !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
!Short = !tile.buffer<array<i64: 16, 16>, f16, #tile.layout<"S[(16,4,4):(4,64,1)]">, "shared">
!Flat = !tile.buffer<array<i64: 16, 16>, f16, #tile.layout<"S[(16,16):(16,1)]">, "shared">
!Vectors = tensor<16x16xf16, #tile.layout<"S[(32,8):(1@laneid,1)]">>
!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
!Tall = tensor<64x32xf32, #tile.layout<"S[(4,2,8,4,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!Bytes = !tile.buffer<array<i64: 64, 128>, i8, #tile.layout<"S[(64,128):(128,1)] xor 128B">, "shared">
!BytesOfA = tensor<16x32xi8, #tile.layout<"S[(2,8,2,4,4):(4,4@laneid,8,1@laneid,1)]">>

gpu.module @m {
  // 128 threads copy 16 rows of 8 vectors at once: four rounds. What isn't in the matrix is 0 bytes long.
  // CHECK-LABEL: gpu.func @copy_async
  // CHECK: %[[BASE:.*]] = "tile.address"
  // CHECK: arith.xori
  // CHECK: %[[AT:.*]] = llvm.getelementptr %[[BASE]][%{{.*}}] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8
  // CHECK: nvvm.cp.async.shared.global %[[AT]], %{{.*}}, 16, cache = cg, %{{.*}} : !llvm.ptr<3>, !llvm.ptr<1>, i32
  // CHECK-COUNT-3: nvvm.cp.async.shared.global
  // CHECK-NOT: nvvm.cp.async.shared.global
  // CHECK-NOT: scf.if
  // CHECK: gpu.return
  gpu.func @copy_async(%m: memref<?x?xf16>, %i: i32, %t: !Rows) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.copy_async"(%m, %i, %i, %t) {vector_bytes = 16} : (memref<?x?xf16>, i32, i32, !Rows) -> ()
    gpu.return
  }

  // Elements before row 0 and column 0 are 0 bytes long, too.
  // CHECK-LABEL: gpu.func @copy_async_both
  // CHECK: %[[BELOW:.*]] = arith.cmpi slt, %[[ROW:.*]], %{{.*}} : i32
  // CHECK: %[[ABOVE:.*]] = arith.cmpi slt, %{{.*}}, %[[ROW]] : i32
  // CHECK: %[[HAS_ROW:.*]] = arith.andi %[[BELOW]], %[[ABOVE]] : i1
  // CHECK: %[[RIGHT:.*]] = arith.cmpi slt, %{{.*}}, %{{.*}} : i32
  // CHECK: %[[COUNT:.*]] = arith.select %[[RIGHT]], %{{.*}}, %{{.*}} : i32
  // CHECK: arith.select %[[HAS_ROW]], %[[COUNT]], %{{.*}} : i32
  // CHECK: gpu.return
  gpu.func @copy_async_both(%m: memref<?x?xf16>, %i: i32, %t: !Rows) kernel
      attributes {known_block_size = array<i32: 512, 1, 1>} {
    "tile.copy_async"(%m, %i, %i, %t) {vector_bytes = 16, rows = "both", columns = "both"}
      : (memref<?x?xf16>, i32, i32, !Rows) -> ()
    gpu.return
  }

  // In a role, the 128 threads of its warpgroup copy.
  // CHECK-LABEL: gpu.func @copy_async_in_a_role
  // CHECK: "tile.role"
  // CHECK-COUNT-4: nvvm.cp.async.shared.global
  // CHECK-NOT: nvvm.cp.async.shared.global
  // CHECK: gpu.return
  gpu.func @copy_async_in_a_role(%m: memref<?x?xf16>, %i: i32, %t: !Rows) kernel
      attributes {known_block_size = array<i32: 384, 1, 1>} {
    "tile.role"() ({
    ^bb0(%number: i32):
      "tile.copy_async"(%m, %i, %i, %t) {vector_bytes = 16} : (memref<?x?xf16>, i32, i32, !Rows) -> ()
    }) {first = 2, warpgroups = 1} : () -> ()
    gpu.return
  }

  // All columns are inside: a row beyond the last is replaced by that, and no copy has a length.
  // CHECK-LABEL: gpu.func @copy_async_any_rows
  // CHECK: %[[LAST:.*]] = arith.subi %{{.*}}, %{{.*}} : i32
  // CHECK: %[[ROW:.*]] = arith.minsi %{{.*}}, %[[LAST]]
  // CHECK: arith.index_cast %[[ROW]]
  // CHECK-COUNT-4: nvvm.cp.async.shared.global %{{.*}}, %{{.*}}, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
  // CHECK-NOT: nvvm.cp.async.shared.global
  // CHECK: gpu.return
  gpu.func @copy_async_any_rows(%m: memref<?x?xf16>, %i: i32, %t: !Rows) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.copy_async"(%m, %i, %i, %t) {vector_bytes = 16, rows = "any", columns = "inside"}
      : (memref<?x?xf16>, i32, i32, !Rows) -> ()
    gpu.return
  }

  // A warp stores two rows at once: aligned vectors, each from two of the buffer, then single elements.
  // CHECK-LABEL: gpu.func @copy_out
  // CHECK: %[[ROWS:.*]] = arith.constant 8 : i32
  // CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %[[ROWS]]
  // CHECK-COUNT-2: llvm.load %{{.*}} : !llvm.ptr<3> -> vector<4xi32>
  // CHECK-COUNT-4: llvm.intr.fshr
  // CHECK: llvm.store %{{.*}}, %{{.*}} : vector<4xi32>, !llvm.ptr<1>
  // CHECK: %[[ELEMENT:.*]] = llvm.load %{{.*}} : !llvm.ptr<3> -> i16
  // CHECK: llvm.store %[[ELEMENT]], %{{.*}} : i16, !llvm.ptr<1>
  // CHECK-NOT: llvm.store
  // CHECK: gpu.return
  gpu.func @copy_out(%m: memref<?x?xf16>, %i: i32, %t: !Rows) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.copy_out"(%t, %m, %i, %i) : (!Rows, memref<?x?xf16>, i32, i32) -> ()
    gpu.return
  }

  // Runs of 4 elements are contiguous: words of 4 bytes.
  // CHECK-LABEL: gpu.func @copy_out_of_short_runs
  // CHECK-NOT: vector<4xi32>
  // CHECK: llvm.store %{{.*}}, %{{.*}} : i32, !llvm.ptr<1>
  // CHECK: gpu.return
  gpu.func @copy_out_of_short_runs(%m: memref<?x?xf16>, %i: i32, %t: !Short) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.copy_out"(%t, %m, %i, %i) : (!Short, memref<?x?xf16>, i32, i32) -> ()
    gpu.return
  }

  // All rows are inside: only the columns limit the length, those of the last vector of a row at least.
  // CHECK-LABEL: gpu.func @copy_async_any_columns
  // CHECK: %[[COLUMN:.*]] = arith.minsi
  // CHECK: %[[LEFT:.*]] = arith.subi %{{.*}}, %[[COLUMN]]
  // CHECK: arith.minsi %[[LEFT]]
  // CHECK-NOT: arith.select
  // CHECK-COUNT-4: nvvm.cp.async.shared.global %{{.*}}, %{{.*}}, 16, cache = cg, %{{.*}} :
  gpu.func @copy_async_any_columns(%m: memref<?x?xf16>, %i: i32, %t: !Rows) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.copy_async"(%m, %i, %i, %t) {vector_bytes = 16, rows = "inside", columns = "any"}
      : (memref<?x?xf16>, i32, i32, !Rows) -> ()
    gpu.return
  }

  // 4 and 8 bytes go through the L1 cache; 48 threads end their third round early.
  // CHECK-LABEL: gpu.func @copy_async_uneven
  // CHECK-COUNT-2: nvvm.cp.async.shared.global %{{.*}}, %{{.*}}, 4, cache = ca, %{{.*}} :
  // CHECK: arith.cmpi slt
  // CHECK: scf.if
  // CHECK: nvvm.cp.async.shared.global
  // CHECK-NOT: nvvm.cp.async.shared.global
  // CHECK: gpu.return
  gpu.func @copy_async_uneven(%m: memref<?x?xf16>, %i: i32, %t: !Flat) kernel
      attributes {known_block_size = array<i32: 48, 1, 1>} {
    "tile.copy_async"(%m, %i, %i, %t) {vector_bytes = 4} : (memref<?x?xf16>, i32, i32, !Flat) -> ()
    gpu.return
  }

  // CHECK-LABEL: gpu.func @copy
  // CHECK: scf.for
  // CHECK: %[[FROM:.*]] = arith.select %[[INSIDE:.*]], %{{.*}}, %{{.*}} : !llvm.ptr<1>
  // CHECK: %[[LOADED:.*]] = llvm.load %[[FROM]]
  // CHECK: %[[KEPT:.*]] = arith.select %[[INSIDE]], %[[LOADED]]
  // CHECK: llvm.store %[[KEPT]]
  gpu.func @copy(%m: memref<?x?xf16>, %i: i32, %t: !Flat) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>} {
    "tile.copy"(%m, %i, %i, %t) : (memref<?x?xf16>, i32, i32, !Flat) -> ()
    gpu.return
  }

  // The four registers of A are four matrices, loaded at once.
  // CHECK-LABEL: gpu.func @load_a
  // CHECK: "mma.ldmatrix"(%{{.*}}) {num = 4 : i64, shape = "m8n8"} : (!llvm.ptr<3>)
  // CHECK-NOT: "mma.ldmatrix"
  // CHECK: vector.bitcast %{{.*}} : vector<4xi32> to vector<8xf16>
  // CHECK: "tile.from_lane"
  gpu.func @load_a(%t: !Rows, %i: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %0 = "tile.load"(%t, %i, %i) : (!Rows, i32, i32) -> !A
    gpu.return
  }

  // B's pairs lie along K: in K x N they are down columns, which ldmatrix transposes; in N x K along rows.
  // CHECK-LABEL: gpu.func @load_b
  // CHECK: "mma.ldmatrix"(%{{.*}}) {num = 2 : i64, shape = "m8n8", trans = true}
  // CHECK: "mma.ldmatrix"(%{{.*}}) {num = 2 : i64, shape = "m8n8"} :
  gpu.func @load_b(%t: !Rows, %i: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %0 = "tile.load"(%t, %i, %i) : (!Rows, i32, i32) -> !B
    %1 = "tile.load"(%t, %i, %i) {transpose = true} : (!Rows, i32, i32) -> !B
    gpu.return
  }

  // Where other threads may write the first element, nothing is read for elements outside.
  // CHECK-LABEL: gpu.func @load_only_inside
  // CHECK: %[[INSIDE:.*]] = arith.andi %{{.*}}, %{{.*}} : i1
  // CHECK: scf.if %[[INSIDE]] -> (f32) {
  // CHECK-NEXT: llvm.load
  // CHECK: scf.yield
  // CHECK-NEXT: } else {
  // CHECK: scf.yield
  gpu.func @load_only_inside(%m: memref<?x?xf32>, %i: i32) -> !D attributes {known_block_size = array<i32: 32, 1, 1>} {
    %0 = "tile.load"(%m, %i, %i) {only_inside = true} : (memref<?x?xf32>, i32, i32) -> !D
    gpu.return %0 : !D
  }

  // From a matrix: an element at a time, or two where they lie wholly inside of it or outside.
  // CHECK-LABEL: gpu.func @load_global
  // CHECK-COUNT-4: llvm.load %{{.*}} : !llvm.ptr<1> -> f32
  // CHECK: arith.ori
  // CHECK: scf.if
  // CHECK-COUNT-2: llvm.load %{{.*}} : !llvm.ptr<1> -> vector<2xf32>
  // CHECK: } else {
  // CHECK-COUNT-4: llvm.load %{{.*}} : !llvm.ptr<1> -> f32
  // CHECK-NOT: llvm.load
  // CHECK: gpu.return
  gpu.func @load_global(%m: memref<?x?xf32>, %i: i32) -> (!D, !D) attributes {known_block_size = array<i32: 32, 1, 1>} {
    %0 = "tile.load"(%m, %i, %i) : (memref<?x?xf32>, i32, i32) -> !D
    %1 = "tile.load"(%m, %i, %i) {vector_bytes = 8} : (memref<?x?xf32>, i32, i32) -> !D
    gpu.return %0, %1 : !D, !D
  }

  // A warpgroup's fragment that is wholly inside of the matrix: by plain loads, none of which waits for another.
  // CHECK-LABEL: gpu.func @load_global_by_a_warpgroup
  // CHECK: %[[INSIDE:.*]] = arith.andi
  // CHECK: %[[ALIGNED:.*]] = arith.andi %[[INSIDE]]
  // CHECK: scf.if %[[ALIGNED]]
  // CHECK-NOT: arith.select
  // CHECK-COUNT-8: llvm.load %{{.*}} : !llvm.ptr<1> -> vector<2xf32>
  // CHECK-NOT: arith.select
  // CHECK: } else {
  // CHECK: scf.if
  // CHECK: arith.select
  // CHECK-COUNT-8: llvm.load %{{.*}} : !llvm.ptr<1> -> vector<2xf32>
  // CHECK: } else {
  // CHECK-COUNT-16: llvm.load %{{.*}} : !llvm.ptr<1> -> f32
  // CHECK-NOT: llvm.load
  // CHECK: gpu.return
  gpu.func @load_global_by_a_warpgroup(%m: memref<?x?xf32>, %i: i32) -> !Tall
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %0 = "tile.load"(%m, %i, %i) {vector_bytes = 8} : (memref<?x?xf32>, i32, i32) -> !Tall
    gpu.return %0 : !Tall
  }

  // Of a row one address is computed, and what else is stored there lies so many bytes further on.
  // CHECK-LABEL: gpu.func @store
  // CHECK: scf.if
  // CHECK-NEXT: llvm.store %{{.*}}, %[[FIRST:.*]] : f32, !llvm.ptr<1>
  // CHECK: llvm.getelementptr %[[FIRST]][4]
  // CHECK-COUNT-3: scf.if
  // CHECK-NEXT: llvm.store %{{.*}} : f32, !llvm.ptr<1>
  // CHECK-COUNT-2: llvm.store %{{.*}} : vector<2xf32>, !llvm.ptr<1>
  // CHECK: } else {
  // CHECK-COUNT-4: llvm.store %{{.*}} : f32, !llvm.ptr<1>
  gpu.func @store(%d: !D, %m: memref<?x?xf32>, %i: i32) attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.store"(%d, %m, %i, %i) : (!D, memref<?x?xf32>, i32, i32) -> ()
    "tile.store"(%d, %m, %i, %i) {vector_bytes = 8} : (!D, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }
}

!Warpgroup = tensor<64x16xf16, #tile.layout<"S[(4,2,8,2,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!Sums = tensor<64x16xf32, #tile.layout<"S[(4,2,8,2,4,2):(1@warpid,2,4@laneid,4,1@laneid,1)]">>
!Turned = tensor<16x64xf16, #tile.layout<"S[(2,4,2,4,2,8):(4,1@laneid,1,1@warpid,2,4@laneid)]">>
!Floats = !tile.buffer<array<i64: 64, 64>, f32, #tile.layout<"S[(64,64):(64,1)]">, "shared">
!Peers = !tile.buffer<array<i64: 64, 64>, f32, #tile.layout<"S[(64,64):(64,1)]">, "cluster">

gpu.module @buffers {
  // Each warp of the warpgroup stores its 16 rows: four matrices at once, which a swizzle moves as wholes.
  // CHECK-LABEL: gpu.func @store_to_a_buffer
  // CHECK: %[[WORDS:.*]] = vector.bitcast %{{.*}} : vector<8xf16> to vector<4xi32>
  // CHECK: %[[W:.*]]:4 = vector.to_elements %[[WORDS]]
  // CHECK: %[[BASE:.*]] = "tile.address"
  // CHECK: arith.xori
  // CHECK: %[[AT:.*]] = llvm.getelementptr %[[BASE]]
  // CHECK: "mma.stmatrix"(%[[AT]], %[[W]]#0, %[[W]]#1, %[[W]]#2, %[[W]]#3) {num = 4 : i64, shape = "m8n8"} :
  // CHECK-NOT: "mma.stmatrix"
  // CHECK: gpu.return
  gpu.func @store_to_a_buffer(%f: !Warpgroup, %t: !Rows, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.store"(%f, %t, %i, %i) : (!Warpgroup, !Rows, i32, i32) -> ()
    gpu.return
  }

  // What was just rounded from f32 is rounded in pairs, each of which is a register.
  // CHECK-LABEL: gpu.func @store_rounded
  // CHECK: %[[N:.*]]:8 = vector.to_elements %{{.*}} : vector<8xf32>
  // CHECK: %[[PAIR:.*]] = vector.from_elements %[[N]]#0, %[[N]]#1 : vector<2xf32>
  // CHECK: %[[HALVES:.*]] = arith.truncf %[[PAIR]] : vector<2xf32> to vector<2xf16>
  // CHECK: %[[WORD:.*]] = llvm.bitcast %[[HALVES]] : vector<2xf16> to i32
  // CHECK-COUNT-3: arith.truncf {{.*}} : vector<2xf32> to vector<2xf16>
  // CHECK: "mma.stmatrix"(%{{.*}}, %[[WORD]], %{{.*}}) {num = 4 : i64, shape = "m8n8"} :
  // CHECK: gpu.return
  gpu.func @store_rounded(%v: vector<8xf32>, %t: !Rows, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %r = arith.truncf %v : vector<8xf32> to vector<8xf16>
    %f = "tile.from_lane"(%r) : (vector<8xf16>) -> !Warpgroup
    "tile.store"(%f, %t, %i, %i) : (!Warpgroup, !Rows, i32, i32) -> ()
    gpu.return
  }

  // Sums in named registers are rounded for each stmatrix, just before it, so that few words are in registers at once.
  // CHECK-LABEL: gpu.func @store_sums
  // CHECK: llvm.getelementptr
  // CHECK-NEXT: %[[WORDS:.*]] = llvm.inline_asm has_side_effects "cvt.rn.f16x2.f32 $0, %sums9, %sums8;\0A\09cvt.rn.f16x2.f32 $1, %sums11, %sums10;\0A\09cvt.rn.f16x2.f32 $2, %sums13, %sums12;\0A\09cvt.rn.f16x2.f32 $3, %sums15, %sums14;", "=r,=r,=r,=r" :
  // CHECK-NEXT: %[[W:.*]] = llvm.extractvalue %[[WORDS]][0]
  // CHECK: "mma.stmatrix"(%{{.*}}, %[[W]], %{{.*}}) {num = 4 : i64, shape = "m8n8"} :
  // CHECK: gpu.return
  gpu.func @store_sums(%t: !Rows, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %f = "tile.read_sums"() {first_sum = 8, rounds = true} : () -> !Warpgroup
    "tile.store"(%f, %t, %i, %i) : (!Warpgroup, !Rows, i32, i32) -> ()
    gpu.return
  }

  // Before they change, all are read at once. What is in another region changes nothing before the store.
  // CHECK-LABEL: gpu.func @store_sums_before_they_change
  // CHECK: "tile.read_sums"
  // CHECK: "tile.clear_sums"
  // CHECK-NOT: cvt.rn
  // CHECK: "mma.stmatrix"
  // CHECK: scf.if
  // CHECK: cvt.rn.f16x2.f32 $0, %sums9, %sums8;
  // CHECK: "mma.stmatrix"
  // CHECK: } else {
  gpu.func @store_sums_before_they_change(%t: !Rows, %i: i32, %c: i1) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %f = "tile.read_sums"() {first_sum = 8, rounds = true} : () -> !Warpgroup
    "tile.clear_sums"() {count = 4, first_sum = 8} : () -> ()
    "tile.store"(%f, %t, %i, %i) : (!Warpgroup, !Rows, i32, i32) -> ()
    scf.if %c {
      %g = "tile.read_sums"() {first_sum = 8, rounds = true} : () -> !Warpgroup
      "tile.store"(%g, %t, %i, %i) : (!Warpgroup, !Rows, i32, i32) -> ()
    } else {
      "tile.clear_sums"() {count = 4, first_sum = 8} : () -> ()
    }
    gpu.return
  }

  // Two stores share what is rounded once.
  // CHECK-LABEL: gpu.func @store_rounded_twice
  // CHECK: arith.truncf %{{.*}} : vector<8xf32> to vector<8xf16>
  // CHECK-NOT: arith.truncf
  // CHECK: gpu.return
  gpu.func @store_rounded_twice(%v: vector<8xf32>, %t: !Rows, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %r = arith.truncf %v : vector<8xf32> to vector<8xf16>
    %f = "tile.from_lane"(%r) : (vector<8xf16>) -> !Warpgroup
    "tile.store"(%f, %t, %i, %i) : (!Warpgroup, !Rows, i32, i32) -> ()
    "tile.store"(%f, %t, %i, %i) : (!Warpgroup, !Rows, i32, i32) -> ()
    gpu.return
  }

  // A warpgroup's words are stored under predicates, without branches around them.
  // CHECK-LABEL: gpu.func @store_of_a_warpgroup
  // CHECK: %[[INSIDE:.*]] = arith.andi
  // CHECK-NEXT: llvm.inline_asm has_side_effects "@$0 st.global.b32 [$1], $2;", "b,l,f,~{memory}" %[[INSIDE]],
  // CHECK-COUNT-7: "@$0 st.global.b32 [$1], $2;"
  // CHECK: scf.if
  // CHECK-COUNT-4: "@$0 st.global.v2.b32 [$1], {$2, $3};", "b,l,f,f,~{memory}"
  // CHECK: } else {
  // CHECK-NOT: scf.if
  // CHECK-COUNT-8: "@$0 st.global.b32 [$1], $2;"
  // CHECK: gpu.return
  gpu.func @store_of_a_warpgroup(%f: !Sums, %m: memref<?x?xf32>, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.store"(%f, %m, %i, %i) : (!Sums, memref<?x?xf32>, i32, i32) -> ()
    "tile.store"(%f, %m, %i, %i) {vector_bytes = 8} : (!Sums, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }

  // Pairs of rows: each matrix is stored transposed.
  // CHECK-LABEL: gpu.func @store_transposed
  // CHECK: "mma.stmatrix"
  // CHECK-SAME: {num = 4 : i64, shape = "m8n8", trans = true}
  gpu.func @store_transposed(%f: !Turned, %t: !Rows, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.store"(%f, %t, %i, %i) : (!Turned, !Rows, i32, i32) -> ()
    gpu.return
  }

  // Of 32 bits, a lane's elements go one by one, or in the pairs that it is told to.
  // A lane's first element is at row lane / 4 of its warp's 16 and at column lane % 4 * 2.
  // CHECK-LABEL: gpu.func @plain_stores
  // CHECK-SAME: %[[I:[a-z0-9]+]]: i32
  // CHECK: %[[BASE:.*]] = "tile.address"
  // CHECK: %[[IN_WARP:.*]] = arith.remui %{{.*}}, %c8_i32
  // CHECK: %[[WARP:.*]] = arith.muli %{{.*}}, %c16_i32
  // CHECK: %[[ROWS:.*]] = arith.addi %[[IN_WARP]], %[[WARP]]
  // CHECK: %[[COLUMNS:.*]] = arith.muli %{{.*}}, %c2_i32
  // CHECK: %[[ROW:.*]] = arith.addi %[[I]], %[[ROWS]]
  // CHECK: %[[COLUMN:.*]] = arith.addi %[[I]], %[[COLUMNS]]
  // CHECK: %[[ABOVE:.*]] = arith.muli %[[ROW]], %c64_i32
  // CHECK: %[[ELEMENTS:.*]] = arith.addi %[[ABOVE]], %[[COLUMN]]
  // CHECK: %[[BYTES:.*]] = arith.muli %[[ELEMENTS]], %c4_i32
  // CHECK: %[[FIRST:.*]] = llvm.getelementptr %[[BASE]][%[[BYTES]]]
  // CHECK-NEXT: llvm.store %{{.*}}, %[[FIRST]] : f32, !llvm.ptr<3>
  // CHECK-NEXT: llvm.getelementptr %[[FIRST]][4]
  // CHECK-NEXT: llvm.store
  // CHECK-NEXT: llvm.getelementptr %[[FIRST]][2048]
  // CHECK-COUNT-6: llvm.store %{{.*}} : f32, !llvm.ptr<3>
  // CHECK-COUNT-4: llvm.store %{{.*}} : vector<2xf32>, !llvm.ptr<3>
  // CHECK-NOT: llvm.store
  // CHECK: gpu.return
  gpu.func @plain_stores(%f: !Sums, %t: !Floats, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    "tile.store"(%f, %t, %i, %i) : (!Sums, !Floats, i32, i32) -> ()
    "tile.store"(%f, %t, %i, %i) {vector_bytes = 8} : (!Sums, !Floats, i32, i32) -> ()
    gpu.return
  }

  // CHECK-LABEL: gpu.func @load_of_a_peer
  // CHECK: "tile.address"(%{{.*}}) : (!tile.buffer<{{.*}}, "cluster">) -> !llvm.ptr<7>
  // CHECK-COUNT-4: llvm.load %{{.*}} : !llvm.ptr<7> -> vector<2xf32>
  // CHECK-NOT: llvm.load
  // CHECK: "tile.from_lane"
  gpu.func @load_of_a_peer(%t: !Peers, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %0 = "tile.load"(%t, %i, %i) {vector_bytes = 8} : (!Peers, i32, i32) -> !Sums
    gpu.return
  }

  // A role divides the CTA by warpgroups: whole warps load, also where its number decides.
  // CHECK-LABEL: gpu.func @in_a_role
  // CHECK: "mma.ldmatrix"
  gpu.func @in_a_role(%t: !Rows, %i: i32) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    "tile.role"() ({
    ^bb0(%number: i32):
      %first = arith.cmpi eq, %number, %i : i32
      scf.if %first {
        %0 = "tile.load"(%t, %i, %i) : (!Rows, i32, i32) -> !A
      }
    }) {first = 0, warpgroups = 2, registers = 0} : () -> ()
    gpu.return
  }
}

// stmatrix is of sm_90 and later: before, halves go one by one.
gpu.module @old [#nvvm.target<chip = "sm_80">] {
  // CHECK-LABEL: gpu.func @without_stmatrix
  // CHECK-NOT: "mma.stmatrix"
  // CHECK-COUNT-8: llvm.store %{{.*}} : f16, !llvm.ptr<3>
  gpu.func @without_stmatrix(%f: !A, %t: !Rows, %i: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    "tile.store"(%f, %t, %i, %i) : (!A, !Rows, i32, i32) -> ()
    gpu.return
  }
}

// Bytes of an MN-major A: one ldmatrix brings all four registers.
gpu.module @bytes [#nvvm.target<chip = "sm_120a">] {
  // CHECK-LABEL: gpu.func @transposed_bytes
  // CHECK: "mma.ldmatrix"(%{{.*}}) {num = 2 : i64, shape = "m16n16", trans = true, type = "b8"}
  // CHECK-NOT: nvvm.prmt
  // CHECK-NOT: "mma.ldmatrix"
  gpu.func @transposed_bytes(%t: !Bytes, %i: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %0 = "tile.load"(%t, %i, %i) {transpose = true} : (!Bytes, i32, i32) -> !BytesOfA
    gpu.return
  }
}

// Other chips transpose pairs of bytes only, in a buffer whose bytes alternate.
gpu.module @single_bytes [#nvvm.target<chip = "sm_100">] {
  // CHECK-LABEL: gpu.func @without_transposed_bytes
  // CHECK-NOT: "mma.ldmatrix"
  // CHECK-COUNT-16: llvm.load %{{.*}} : !llvm.ptr<3> -> i8
  gpu.func @without_transposed_bytes(%t: !Bytes, %i: i32) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    %0 = "tile.load"(%t, %i, %i) {transpose = true} : (!Bytes, i32, i32) -> !BytesOfA
    gpu.return
  }

  // Lanes that hold 16 bytes of a row each don't have what ldmatrix moves.
  // CHECK-LABEL: gpu.func @load_vectors
  // CHECK-NOT: mma.ldmatrix
  // CHECK: llvm.load %{{.*}} : !llvm.ptr<3> -> vector<8xf16>
  gpu.func @load_vectors(%t: !Flat, %i: i32, %out: !llvm.ptr<1>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    %f = "tile.load"(%t, %i, %i) {vector_bytes = 16} : (!Flat, i32, i32) -> !Vectors
    %lane = "tile.to_lane"(%f) : (!Vectors) -> vector<8xf16>
    llvm.store %lane, %out : vector<8xf16>, !llvm.ptr<1>
    gpu.return
  }
}
