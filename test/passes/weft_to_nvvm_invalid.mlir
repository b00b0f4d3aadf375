// RUN: weft-opt %s --weft-to-nvvm=strict=true --split-input-file --verify-diagnostics

llvm.func @wmma(%p: !llvm.ptr<3>, %stride: i32, %i: i32, %h: vector<2xf16>, %f: f32) {
  // expected-error @below {{'wmma.load' op can't be converted to nvvm: the nvvm operation takes one stride, got none}}
  %0 = "wmma.load"(%p) {shape = "m16n16k16", fragment = "a", type = "f16"} : (!llvm.ptr<3>) -> !llvm.struct<(vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>)>
  // expected-error @below {{'wmma.load' op can't be converted to nvvm: upstream's verifier reports: 'nvvm.wmma.load' op result #0 must be LLVM structure type}}
  %1 = "wmma.load"(%p, %stride) {shape = "m8n32k16", fragment = "a", type = "u8"} : (!llvm.ptr<3>, i32) -> i32
  // expected-error @below {{'wmma.load' op can't be converted to nvvm: upstream's verifier reports: 'nvvm.wmma.load' op invalid attribute combination}}
  %2 = "wmma.load"(%p, %stride) {shape = "m16n16k16", fragment = "a", type = "bf16"} : (!llvm.ptr<3>, i32) -> !llvm.struct<(i32, i32, i32, i32)>
  // expected-error @below {{'wmma.mma' op can't be converted to nvvm: the nvvm operation has no bit_op xor.popc}}
  %3 = "wmma.mma"(%i, %i, %i, %i) {shape = "m8n8k128", a_type = "b1", b_type = "b1", c_type = "s32", d_type = "s32", bit_op = "xor.popc", operandSegmentSizes = array<i32: 1, 1, 2>} : (i32, i32, i32, i32) -> !llvm.struct<(i32, i32)>
  // expected-error @below {{'wmma.mma' op can't be converted to nvvm: the nvvm operation has one eltypeB for c_type f16, d_type f32}}
  %4 = "wmma.mma"(%h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h, %h) {shape = "m16n16k16", a_type = "f16", b_type = "f16", c_type = "f16", d_type = "f32", operandSegmentSizes = array<i32: 8, 8, 4>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>) -> !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)>
  llvm.return
}

// -----

llvm.func @mma(%i: i32, %s: i16, %d: f64, %f: f32) {
  // expected-error @below {{'mma.sync' op can't be converted to nvvm: upstream's verifier reports: invalid shape or multiplicand type: f64}}
  %0 = "mma.sync"(%d, %d, %d, %d, %d, %d, %d) {shape = "m16n8k4", a_type = "f64", b_type = "f64", c_type = "f64", d_type = "f64", operandSegmentSizes = array<i32: 2, 1, 4>} : (f64, f64, f64, f64, f64, f64, f64) -> !llvm.struct<(f64, f64, f64, f64)>
  // expected-error @below {{'mma.sync' op can't be converted to nvvm: the nvvm operation has no kind f8f6f4}}
  %1 = "mma.sync"(%i, %i, %i, %i, %i, %i, %f, %f, %f, %f) {shape = "m16n8k32", a_type = "e3m2", b_type = "e2m1", c_type = "f32", d_type = "f32", kind = "f8f6f4", operandSegmentSizes = array<i32: 4, 2, 4>} : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  // expected-error @below {{'mma.sp_sync' op can't be converted to nvvm: upstream's translation drops the kind of e4m3 and e5m2 with f32}}
  %2 = "mma.sp_sync"(%i, %i, %i, %i, %i, %i, %i, %i, %f, %f, %f, %f, %i) {shape = "m16n8k64", a_type = "e4m3", b_type = "e5m2", c_type = "f32", d_type = "f32", kind = "f8f6f4", operandSegmentSizes = array<i32: 4, 4, 4, 1>} : (i32, i32, i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32) -> !llvm.struct<(f32, f32, f32, f32)>
  // expected-error @below {{'mma.block_scale' op can't be converted to nvvm: the nvvm operation has no scale_vec none}}
  %3 = "mma.block_scale"(%i, %i, %i, %i, %i, %i, %f, %f, %f, %f, %i, %s, %s, %i, %s, %s) {shape = "m16n8k64", kind = "mxf4", scale_vec = "", a_type = "e2m1", b_type = "e2m1", scale_type = "ue8m0", operandSegmentSizes = array<i32: 4, 2, 4, 1, 1, 1, 1, 1, 1>} : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32, i16, i16, i32, i16, i16) -> !llvm.struct<(f32, f32, f32, f32)>
  llvm.return
}

// -----

llvm.func @wgmma(%p: !llvm.ptr<3>, %i: i32, %a: i64, %more: i1, %f: !llvm.struct<(f32, f32, f32, f32)>, %s: !llvm.struct<(i32, i32, i32, i32)>) {
  // expected-error @below {{'wgmma.descriptor' op can't be converted to nvvm: it is arithmetic, not an instruction}}
  %0 = "wgmma.descriptor"(%p) {swizzle = "128B", stride_byte_offset = 1024 : i64} : (!llvm.ptr<3>) -> i64
  // expected-error @below {{'wgmma.mma_async' op can't be converted to nvvm: scale_d must be a constant, since nvvm's scaleD is an attribute}}
  %1 = "wgmma.mma_async"(%f, %a, %a, %more) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  %always = llvm.mlir.constant(true) : i1
  // expected-error @below {{'wgmma.mma_async' op can't be converted to nvvm: the nvvm operation takes one a, got 4}}
  %2 = "wgmma.mma_async"(%f, %i, %i, %i, %i, %a, %always) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32", operandSegmentSizes = array<i32: 1, 4, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i32, i32, i32, i32, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  // expected-error @below {{'wgmma.mma_async' op can't be converted to nvvm: upstream's translation drops the bit operation of b1}}
  %3 = "wgmma.mma_async"(%s, %a, %a, %always) {shape = "m64n8k256", a_type = "b1", b_type = "b1", d_type = "s32", bit_op = "and.popc", operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(i32, i32, i32, i32)>, i64, i64, i1) -> !llvm.struct<(i32, i32, i32, i32)>
  // expected-error @below {{'wgmma.sp_mma_async' op can't be converted to nvvm: nvvm has no operation for wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16}}
  %4 = "wgmma.sp_mma_async"(%f, %a, %a, %i, %always) {shape = "m64n8k32", a_type = "bf16", b_type = "bf16", d_type = "f32", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i32, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  // Its sums are in named registers, not in its operand and result.
  // expected-error @below {{'wgmma.mma_async' op can't be converted to nvvm: the nvvm operation has no sums in named registers}}
  %5 = "wgmma.mma_async"(%f, %a, %a, %always) {shape = "m64n8k16", a_type = "bf16", b_type = "bf16", d_type = "f32", first_sum = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (!llvm.struct<(f32, f32, f32, f32)>, i64, i64, i1) -> !llvm.struct<(f32, f32, f32, f32)>
  llvm.return
}

// -----

llvm.func @tcgen05(%t: !llvm.ptr<6>, %p: !llvm.ptr<3>, %n: i32, %a: i64, %more: i1) {
  // expected-error @below {{'tcgen05.alloc' op can't be converted to nvvm: the nvvm operation has no exclusive}}
  "tcgen05.alloc"(%p, %n) {cta_group = 1 : i64, exclusive = true} : (!llvm.ptr<3>, i32) -> ()
  // expected-error @below {{'tcgen05.ld_red' op can't be converted to nvvm: the nvvm operation infers type u32, got s32}}
  %0, %1 = "tcgen05.ld_red"(%t) {shape = "32x32b", num = 2 : i64, op = "min", type = "s32"} : (!llvm.ptr<6>) -> (vector<2xi32>, i32)
  // expected-error @below {{'tcgen05.mma_block_scale' op can't be converted to nvvm: the nvvm operation has no scale_vec 1X}}
  "tcgen05.mma_block_scale"(%t, %a, %a, %n, %t, %t, %more) {kind = "mxf8f6f4", cta_group = 1 : i64, scale_vec = "1X", operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 1>} : (!llvm.ptr<6>, i64, i64, i32, !llvm.ptr<6>, !llvm.ptr<6>, i1) -> ()
  llvm.return
}
