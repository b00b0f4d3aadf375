// RUN: weft-opt %s --nvvm-to-weft --split-input-file | FileCheck %s

// Upstream has A and B of one type, C and D of another, and all registers in one run.
// CHECK-LABEL: @wmma
llvm.func @wmma(%p: !llvm.ptr<3>, %stride: i32, %f: f32) {
  // CHECK: %[[A:.*]] = "wmma.load"(%{{.*}}, %{{.*}}) {fragment = "a", layout = "col", shape = "m16n16k16", type = "f16"} : (!llvm.ptr<3>, i32)
  %0 = nvvm.wmma.load %p, %stride {eltype = #nvvm.mma_type<f16>, frag = #nvvm.mma_frag<a>, k = 16 : i32, layout = #nvvm.mma_layout<col>, m = 16 : i32, n = 16 : i32} : (!llvm.ptr<3>) -> !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  // CHECK: llvm.extractvalue %[[A]][0]
  %h = llvm.extractvalue %0[0] : !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  // CHECK: "wmma.mma"
  // CHECK-SAME: a_layout = "col", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32"
  // CHECK-SAME: operandSegmentSizes = array<i32: 8, 8, 8>, shape = "m16n16k16"
  %1 = nvvm.wmma.mma %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %f, %f, %f, %f, %f, %f, %f, %f {eltypeA = #nvvm.mma_type<f16>, eltypeB = #nvvm.mma_type<f32>, k = 16 : i32, layoutA = #nvvm.mma_layout<col>, layoutB = #nvvm.mma_layout<col>, m = 16 : i32, n = 16 : i32} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
  // CHECK: "wmma.store"
  // CHECK-SAME: operandSegmentSizes = array<i32: 1, 8, 1>, shape = "m16n16k16", type = "f32"
  nvvm.wmma.store %p, %stride, %f, %f, %f, %f, %f, %f, %f, %f {eltype = #nvvm.mma_type<f32>, k = 16 : i32, layout = #nvvm.mma_layout<row>, m = 16 : i32, n = 16 : i32} : !llvm.ptr<3>, f32, f32, f32, f32, f32, f32, f32, f32
  llvm.return
}

// -----

// A fragment of one register is the bare register with us and in LLVM, a struct upstream, whose translation dies.
// CHECK-LABEL: @one_register
llvm.func @one_register(%p: !llvm.ptr, %stride: i32) -> i32 {
  // CHECK: %[[A:.*]] = "wmma.load"
  // CHECK-SAME: shape = "m8n32k16", type = "s8"} : (!llvm.ptr, i32) -> i32
  %0 = nvvm.wmma.load %p, %stride {eltype = #nvvm.mma_type<s8>, frag = #nvvm.mma_frag<a>, k = 16 : i32, layout = #nvvm.mma_layout<row>, m = 8 : i32, n = 32 : i32} : (!llvm.ptr) -> !llvm.struct<(i32)>
  %1 = llvm.extractvalue %0[0] : !llvm.struct<(i32)>
  // CHECK-NEXT: llvm.return %[[A]] : i32
  llvm.return %1 : i32
}

// -----

// Upstream infers types that it isn't told: A's and B's from f16 registers, C's and D's always.
// CHECK-LABEL: @sync
llvm.func @sync(%h: vector<2xf16>, %i: i32) {
  // CHECK: "mma.sync"
  // CHECK-SAME: a_type = "f16", b_type = "f16", c_type = "f16", d_type = "f16"
  // CHECK-SAME: shape = "m16n8k16"
  %0 = nvvm.mma.sync A[%h, %h, %h, %h] B[%h, %h] C[%h, %h] {layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, shape = #nvvm.shape<m = 16, n = 8, k = 16>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>) -> !llvm.struct<(vector<2xf16>, vector<2xf16>)>
  // CHECK: "mma.sync"
  // CHECK-SAME: a_type = "s8", b_type = "u8", c_type = "s32", d_type = "s32"
  // CHECK-SAME: satfinite = true
  %1 = nvvm.mma.sync A[%i] B[%i] C[%i, %i] {intOverflowBehavior = #nvvm.mma_int_overflow<satfinite>, layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, multiplicandAPtxType = #nvvm.mma_type<s8>, multiplicandBPtxType = #nvvm.mma_type<u8>, shape = #nvvm.shape<m = 8, n = 8, k = 16>} : (i32, i32, i32) -> !llvm.struct<(i32, i32)>
  // CHECK: "mma.sync"
  // CHECK-SAME: bit_op = "and.popc"
  %2 = nvvm.mma.sync A[%i] B[%i] C[%i, %i] {b1Op = #nvvm.mma_b1op<and_popc>, layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, multiplicandAPtxType = #nvvm.mma_type<b1>, multiplicandBPtxType = #nvvm.mma_type<b1>, shape = #nvvm.shape<m = 8, n = 8, k = 128>} : (i32, i32, i32) -> !llvm.struct<(i32, i32)>
  llvm.return
}

// -----

// What is a constant operand upstream is an attribute with us.
// CHECK-LABEL: @sparse
llvm.func @sparse(%i: i32, %f: f32) {
  // CHECK-NOT: constant
  // CHECK: "mma.sp_sync"
  // CHECK-SAME: ordered = false
  // CHECK-SAME: selector = 1 : i64
  %selector = arith.constant 1 : i32
  %0 = nvvm.mma.sp.sync A[%i, %i] B[%i, %i] C[%f, %f, %f, %f] sparseMetadata[%i] selector[%selector] {multiplicandAPtxType = #nvvm.mma_type<bf16>, multiplicandBPtxType = #nvvm.mma_type<bf16>, shape = #nvvm.shape<m = 16, n = 8, k = 16>} : (i32, i32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  llvm.return
}

// -----

// CHECK-LABEL: @block_scale
llvm.func @block_scale(%i: i32, %s: i16, %f: f32) {
  // CHECK: "mma.block_scale"
  // CHECK-SAME: kind = "mxf4nvf4"
  // CHECK-SAME: scale_type = "ue4m3", scale_vec = "4X", shape = "m16n8k64"
  %0 = nvvm.mma.block_scale A[%i, %i, %i, %i] B[%i, %i] C[%f, %f, %f, %f] scaleA[%i, %s, %s] scaleB[%i, %s, %s] {blockScaleFormat = #nvvm.block_scale_format<ue4m3>, kind = #nvvm.block_scale_kind<mxf4nvf4>, multiplicandAPtxType = #nvvm.mma_type<e2m1>, multiplicandBPtxType = #nvvm.mma_type<e2m1>, scaleVecSize = #nvvm.scale_vec_size<x4>, shape = #nvvm.shape<m = 16, n = 8, k = 64>} : (i32, i32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  llvm.return
}

// -----

// Attributes that no dialect knows come along.
// CHECK-LABEL: @matrices
llvm.func @matrices(%p: !llvm.ptr<3>, %i: i32) {
  // CHECK: "mma.ldmatrix"(%{{.*}}) {my.note = "x", num = 2 : i64, shape = "m8n8", trans = true} : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32)>
  %0 = nvvm.ldmatrix %p {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<col>, my.note = "x", num = 2 : i32, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>} : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32)>
  // CHECK: "mma.stmatrix"(%{{.*}}, %{{.*}}, %{{.*}}) {num = 2 : i64, shape = "m8n8"} :
  nvvm.stmatrix %p, %i, %i {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>} : !llvm.ptr<3>, i32, i32
  // CHECK: "mma.movmatrix"(%{{.*}}) : (i32) -> i32
  %1 = nvvm.movmatrix %i {eltType = #nvvm.ld_st_matrix_elt_type<b16>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>} : i32
  llvm.return
}

// -----

// Upstream's layouts are our transposes, its scale-d is our i1 operand.
// CHECK-LABEL: @wgmma
llvm.func @wgmma(%a: i64, %s: !llvm.struct<(f32, f32, f32, f32)>, %t: !llvm.struct<(i32, i32, i32, i32)>) {
  // CHECK: "wgmma.fence"()
  nvvm.wgmma.fence.aligned
  // CHECK: %[[ONCE:.*]] = llvm.mlir.constant(false) : i1
  // CHECK: "wgmma.mma_async"(%{{.*}}, %{{.*}}, %{{.*}}, %[[ONCE]]) {a_type = "f16", b_type = "f16", d_type = "f32"
  // CHECK-SAME: scale_a = -1 : i64
  // CHECK-SAME: shape = "m64n8k16"
  // CHECK-SAME: trans_b = 1 : i64
  %0 = nvvm.wgmma.mma_async %a, %a, %s, #nvvm.shape<m = 64, n = 8, k = 16>, D [<f32>, #nvvm.wgmma_scale_out<zero>], A [<f16>, #nvvm.wgmma_scale_in<neg>, <row>], B [<f16>, #nvvm.wgmma_scale_in<one>, <row>] : !llvm.struct<(f32, f32, f32, f32)> -> !llvm.struct<(f32, f32, f32, f32)>
  // Upstream has no word for b1's bit operation, of which there is one.
  // CHECK: "wgmma.mma_async"
  // CHECK-SAME: a_type = "b1", b_type = "b1", bit_op = "and.popc"
  %1 = nvvm.wgmma.mma_async %a, %a, %t, #nvvm.shape<m = 64, n = 8, k = 256>, D [<s32>, #nvvm.wgmma_scale_out<one>], A [<b1>, #nvvm.wgmma_scale_in<one>, <row>], B [<b1>, #nvvm.wgmma_scale_in<one>, <col>] : !llvm.struct<(i32, i32, i32, i32)> -> !llvm.struct<(i32, i32, i32, i32)>
  // CHECK: "wgmma.commit_group"()
  nvvm.wgmma.commit.group.sync.aligned
  // CHECK: "wgmma.wait_group"() {group = 1 : i64}
  nvvm.wgmma.wait.group.sync.aligned 1
  llvm.return
}

// -----

// CHECK-LABEL: @tensor_memory
llvm.func @tensor_memory(%p: !llvm.ptr<3>, %t: !llvm.ptr<6>, %n: i32, %desc: i64, %mask: i16) {
  // CHECK: "tcgen05.alloc"(%{{.*}}, %{{.*}}) {cta_group = 1 : i64}
  nvvm.tcgen05.alloc %p, %n : !llvm.ptr<3>, i32
  // CHECK: "tcgen05.cp"(%{{.*}}, %{{.*}}) {cta_group = 2 : i64, multicast = "warpx2::02_13", shape = "64x128b", source_format = "b6x16_p32"}
  nvvm.tcgen05.cp %t, %desc {group = #nvvm.cta_group<cta_2>, multicast = #nvvm.tcgen05_cp_multicast<warpx2_02_13>, shape = #nvvm.tcgen05_cp_shape<shape_64x128b>, srcFormat = #nvvm.tcgen05_cp_src_fmt<b6x16_p32>}
  // CHECK: "tcgen05.commit"(%{{.*}}, %{{.*}}) {cta_group = 1 : i64} : (!llvm.ptr<3>, i16)
  nvvm.tcgen05.commit %p, multicast_mask = %mask : !llvm.ptr<3>, i16
  // CHECK: "tcgen05.wait"() {kind = "ld"}
  nvvm.tcgen05.wait <load>
  // CHECK: "tcgen05.fence"() {kind = "after_thread_sync"}
  nvvm.tcgen05.fence <after>
  llvm.return
}

// -----

// How often the shape is moved stands in upstream's vector, which holds even one register.
// CHECK-LABEL: @registers
llvm.func @registers(%t: !llvm.ptr<6>) -> i32 {
  // CHECK: %[[FOUR:.*]] = "tcgen05.ld"(%{{.*}}) {num = 2 : i64, pack = true, shape = "16x128b"} : (!llvm.ptr<6>) -> vector<4xi32>
  %0 = nvvm.tcgen05.ld %t pack {shape = #nvvm.tcgen05_ldst_shape<shape_16x128b>} : vector<4xi32>
  // CHECK: "tcgen05.st"(%{{.*}}, %[[FOUR]]) {num = 4 : i64, offset = 8 : i64, shape = "16x32bx2"}
  %offset = llvm.mlir.constant(8 : i64) : i64
  nvvm.tcgen05.st %t, %0, %offset {shape = #nvvm.tcgen05_ldst_shape<shape_16x32bx2>} : vector<4xi32>
  // CHECK: %[[ONE:.*]] = "tcgen05.ld"(%{{.*}}) {num = 1 : i64, shape = "32x32b"} : (!llvm.ptr<6>) -> i32
  %1 = nvvm.tcgen05.ld %t {shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>} : vector<1xi32>
  %zero = llvm.mlir.constant(0 : i32) : i32
  %2 = llvm.extractelement %1[%zero : i32] : vector<1xi32>
  // CHECK: "tcgen05.ld_red"(%{{.*}}) {num = 2 : i64, op = "min", shape = "32x32b", type = "u32"} : (!llvm.ptr<6>) -> (vector<2xi32>, i32)
  %data, %least = nvvm.tcgen05.ld.red min %t {shape = #nvvm.tcgen05_ldst_shape<shape_32x32b>} : vector<2xi32>, i32
  // CHECK: llvm.return %[[ONE]] : i32
  llvm.return %2 : i32
}

// -----

// CHECK-LABEL: @tensor_products
llvm.func @tensor_products(%d: !llvm.ptr<6>, %a: i64, %idesc: i32, %more: i1, %mask: vector<4xi32>) {
  // CHECK-NOT: constant
  // CHECK: "tcgen05.mma"(%[[D:.*]], %[[A:.*]], %[[A]], %[[IDESC:.*]], %[[MASK:.*]], %[[MORE:.*]]) {cta_group = 1 : i64, kind = "f16"
  // CHECK-SAME: operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1>, scale_input_d = 3 : i64
  %scale = llvm.mlir.constant(3 : i64) : i64
  nvvm.tcgen05.mma %d, %a, %a, %idesc, %more scale = %scale mask = %mask {ctaGroup = #nvvm.cta_group<cta_1>, kind = #nvvm.tcgen05_mma_kind<f16>} : (!llvm.ptr<6>, i64, i64, i32, i1, i64, vector<4xi32>)
  // CHECK: "tcgen05.mma"(%[[D]], %[[D]], %[[A]], %[[IDESC]], %[[MORE]]) {ashift = true, collector_a = "lastuse"
  nvvm.tcgen05.mma %d, %d, %a, %idesc, %more {aShift, collectorOp = #nvvm.tcgen05_mma_collectorop<lastuse>, ctaGroup = #nvvm.cta_group<cta_2>, kind = #nvvm.tcgen05_mma_kind<tf32>} : (!llvm.ptr<6>, !llvm.ptr<6>, i64, i32, i1)
  // CHECK: "tcgen05.sp_mma_block_scale"(%[[D]], %[[A]], %[[A]], %[[D]], %[[IDESC]], %[[D]], %[[D]], %[[MORE]]) {cta_group = 1 : i64, kind = "mxf4"
  // CHECK-SAME: scale_vec = "block32"
  nvvm.tcgen05.mma.sp.block_scale %d, %a, %a, %idesc, %more, %d, %d, %d {blockScale = #nvvm.tcgen05_mma_block_scale<block32>, ctaGroup = #nvvm.cta_group<cta_1>, kind = #nvvm.tcgen05_mma_kind<mxf4>} : (!llvm.ptr<6>, i64, i64, i32, i1, !llvm.ptr<6>, !llvm.ptr<6>, !llvm.ptr<6>)
  // CHECK: "tcgen05.mma_ws"(%[[D]], %[[A]], %[[A]], %[[IDESC]], %[[MORE]], %[[A]]) {collector = "fill", collector_buffer = "b2", kind = "f8f6f4"}
  nvvm.tcgen05.mma.ws %d, %a, %a, %idesc, %more, %a {collectorBBuffer = #nvvm.tcgen05_mma_collectorb<b2>, collectorOp = #nvvm.tcgen05_mma_collectorop<fill>, kind = #nvvm.tcgen05_mma_kind<f8f6f4>} : (!llvm.ptr<6>, i64, i64, i32, i1, i64)
  llvm.return
}

// -----

// PTX has wmma of f64, the dialect hasn't: upstream's stays.
// CHECK-LABEL: @doubles
llvm.func @doubles(%p: !llvm.ptr, %stride: i32, %d: f64) {
  // CHECK: nvvm.wmma.load
  %0 = nvvm.wmma.load %p, %stride {eltype = #nvvm.mma_type<f64>, frag = #nvvm.mma_frag<a>, k = 4 : i32, layout = #nvvm.mma_layout<row>, m = 8 : i32, n = 8 : i32} : (!llvm.ptr) -> f64
  // CHECK: nvvm.wmma.store
  nvvm.wmma.store %p, %stride, %d, %d {eltype = #nvvm.mma_type<f64>, k = 4 : i32, layout = #nvvm.mma_layout<row>, m = 8 : i32, n = 8 : i32} : !llvm.ptr, f64, f64
  llvm.return
}

// -----

// Attributes of other dialects go along, except for those that mean something to Weft alone.
// CHECK-LABEL: @discardable_attribute
llvm.func @discardable_attribute(%b: !llvm.ptr<3>) {
  // CHECK: "tcgen05.commit"(%{{.*}}) {cta_group = 1 : i64, test.note = 1 : i32}
  nvvm.tcgen05.commit %b {test.note = 1 : i32, weft.first_sum = 0 : i64} : !llvm.ptr<3>
  llvm.return
}
