// Mistakes in operations of upstream's dialects nvgpu and nvvm are told by MLIR's verifiers and parsers, unchanged.

// RUN: weft-opt %s --split-input-file --verify-diagnostics --convert-nvvm-to-llvm

func.func @global_memory(%m: memref<32x32xf16>, %i: index) {
  // expected-error@below {{expected nvgpu.ldmatrix srcMemref must have a memory space attribute}}
  %0 = nvgpu.ldmatrix %m[%i, %i] {numTiles = 2 : i32, transpose = false} : memref<32x32xf16> -> vector<2x2xf16>
  return
}

// -----

func.func @fragment(%a: vector<2x2xf16>, %b: vector<2x2xf16>, %c: vector<2x2xf32>) {
  // expected-error@below {{expected 256 warp-wide matrix A elements}}
  %0 = nvgpu.mma.sync(%a, %b, %c) {mmaShape = [16, 8, 16]} : (vector<2x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>
  return
}

// -----

func.func @copied_bytes(%from: memref<64xf32>, %to: memref<64xf32, 3>, %i: index) {
  // expected-error@below {{Requested copy elements is 5 with width 32}}
  %0 = nvgpu.device_async_copy %from[%i], %to[%i], 5 : memref<64xf32> to memref<64xf32, 3>
  return
}

// -----

!a = !nvgpu.warpgroup.descriptor<tensor = memref<64x32xf16, 3>>
!b = !nvgpu.warpgroup.descriptor<tensor = memref<32x48xf16, 3>>
!d = !nvgpu.warpgroup.accumulator<fragmented = vector<64x64xf32>>
func.func @columns(%a: !a, %b: !b, %d: !d) {
  // expected-error@below {{2nd dim matrix-B ( 48 ) != 2nd dim matrix-C ( 64 )}}
  %0 = nvgpu.warpgroup.mma %a, %b, %d : !a, !b, !d -> !d
  return
}

// -----

!map = !nvgpu.tensormap.descriptor<tensor = memref<8x64xf32, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
func.func @swizzled_row(%x: memref<*xf32>, %n: index) {
  // expected-error@below {{must have last dimension of 128 bytes but it is 256 bytes}}
  %0 = nvgpu.tma.create.descriptor %x box[%n, %n] : memref<*xf32> -> !map
  return
}

// -----

!sums = !llvm.struct<(f32, f32, f32, f32)>
func.func @rows(%a: i64, %d: !sums) {
  // expected-error@below {{shape 'm' must be 64}}
  %0 = nvvm.wgmma.mma_async %a, %a, %d, #nvvm.shape<m = 16, n = 8, k = 16>,
    D [<f32>, #nvvm.wgmma_scale_out<one>], A [<f16>, #nvvm.wgmma_scale_in<one>, <row>],
    B [<f16>, #nvvm.wgmma_scale_in<one>, <col>] : !sums -> !sums
  return
}

// -----

func.func @twice(%x: i32) {
  // expected-error@below {{expected return type to be a two-element struct}}
  %0 = nvvm.shfl.sync up %x, %x, %x, %x {return_value_and_is_valid} : i32 -> i32
  // Only the first is told: the verifier stops at it.
  %1 = nvvm.shfl.sync up %x, %x, %x, %x {return_value_and_is_valid} : i32 -> i32
  return
}

// -----

func.func @layout(%a: vector<2xf16>, %c: f32) {
  // expected-error@below {{requires attribute 'layoutA'}}
  %0 = nvvm.mma.sync A[%a, %a, %a, %a] B[%a, %a] C[%c, %c, %c, %c] {shape = #nvvm.shape<m = 16, n = 8, k = 16>}
    : (vector<2xf16>, vector<2xf16>, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  return
}

// -----

func.func @unknown_type(%a: i64) {
  // expected-error@below {{expected ::mlir::NVVM::MMATypes to be one of}}
  // expected-error@below {{failed to parse MMATypesAttr parameter 'value'}}
  "nvvm.some"(%a) {kind = #nvvm.mma_type<f17>} : (i64) -> ()
}

// -----

// expected-error@below {{'"nvvm.maxntid"' attribute must be integer array with maximum 3 index}}
llvm.func @threads() attributes {nvvm.kernel, nvvm.maxntid = array<i32: 1, 2, 3, 4>} {
  llvm.return
}

// -----

llvm.func @shape(%t: !llvm.ptr<6>, %s: i64) {
  // expected-error@below {{Shape 32x128b requires multicast warpx4}}
  nvvm.tcgen05.cp %t, %s {shape = #nvvm.tcgen05_cp_shape<shape_32x128b>}
  llvm.return
}

// -----

// expected-note@below {{see existing symbol definition here}}
gpu.module @m {}
// expected-error@below {{redefinition of symbol named 'm'}}
gpu.module @m {}
