// Each mistake in a host function, or in what it launches, is one message at its line.

// RUN: not weft run %s --entry unregistered --on emulator 2>&1 | FileCheck %s --check-prefix=UNREGISTERED
// RUN: not weft run %s --entry frees --on emulator 2>&1 | FileCheck %s --check-prefix=FREED
// RUN: not weft run %s --entry asserts --on emulator 2>&1 | FileCheck %s --check-prefix=ASSERTS
// RUN: not weft run %s --entry takes --on emulator 2>&1 | FileCheck %s --check-prefix=TAKES
// RUN: not weft run %s --entry unknown --on emulator 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not weft run %s --entry tensors --on emulator 2>&1 | FileCheck %s --check-prefix=TENSORS
// RUN: not weft run %s --entry big --on emulator 2>&1 | FileCheck %s --check-prefix=BIG
// RUN: not weft run %s --entry maps --on emulator --arch sm_90a 2>&1 | FileCheck %s --check-prefix=MAPS
// RUN: not weft run %s --entry mains --on emulator 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not weft run %s --entry takes --kernel main 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: weft run %s --entry returns --on emulator --json | FileCheck %s --check-prefix=JSON
// UNREGISTERED: mistakes.mlir:[[# @LINE + 21]]:5: error: out-of-bounds global access of 4 bytes
// UNREGISTERED: note: kernels access memory of gpu.alloc, and what gpu.host_register has registered
// FREED: error: out-of-bounds global access of 4 bytes
// ASSERTS: error: assertion failed: that can't be
// TAKES: error: function 'takes' must take no arguments, and return nothing or one number to be run, got (i32) -> ()
// UNKNOWN: error: function 'elsewhere' has no body, and weft run has none: it has printI64,
// TENSORS: error: 'tensor.empty' op can't run in a host function: bufferize it with upstream's passes (weft-opt --one-shot-bufferize)
// BIG: error: 'gpu.func' op has a block that no launch can have: block must be in 1..1024 on x, got 9999
// MAPS: mistakes.mlir:[[# @LINE + 81]]:5: error: 'gpu.launch_func' op can't launch 'mapped', whose arguments are followed by tensor maps: make it by --weft-kernel=rows=any, or launch it by weft.compile
// NAME: error: {{.*}}mistakes.mlir has no function 'mains': it has unregistered, asserts, takes, unknown, tensors, returns, frees, big, maps, overflows, frees_twice, negative; did you mean
// OPTION: error: --kernel is for one kernel, and --entry runs a host function: leave one out
// JSON: "entry": "returns",
// JSON: "result": 2.5,
// JSON: "passed": true,
// JSON: "printed": ""
func.func @unregistered() {
  %c1 = arith.constant 1 : index
  %m = memref.alloc() : memref<4xf32>
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c1, %sy = %c1, %sz = %c1) {
    %f = arith.constant 1.0 : f32
    memref.store %f, %m[%tx] : memref<4xf32>
    gpu.terminator
  }
  return
}
func.func @asserts() -> i32 {
  %no = arith.constant false
  cf.assert %no, "that can't be"
  %x = arith.constant 3 : i32
  return %x : i32
}
func.func @takes(%x: i32) { return }
func.func @unknown() { 
  call @elsewhere() : () -> ()
  return }
func.func private @elsewhere()
func.func private @printMemrefF32(memref<*xf32>)
func.func @tensors() {
  %0 = tensor.empty() : tensor<4xf32>
  %1 = bufferization.to_buffer %0 : tensor<4xf32> to memref<4xf32>
  %u = memref.cast %1 : memref<4xf32> to memref<*xf32>
  call @printMemrefF32(%u) : (memref<*xf32>) -> ()
  return
}
func.func @returns() -> f32 {
  %x = arith.constant 2.5 : f32
  return %x : f32
}
func.func @frees() {
  %c1 = arith.constant 1 : index
  %m = gpu.alloc () : memref<4xf32>
  gpu.dealloc %m : memref<4xf32>
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c1, %sy = %c1, %sz = %c1) {
    %f = arith.constant 1.0 : f32
    memref.store %f, %m[%tx] : memref<4xf32>
    gpu.terminator
  }
  return
}
func.func @big() {
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9999 : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
             threads(%tx, %ty, %tz) in (%sx = %c9, %sy = %c1, %sz = %c1) {
    gpu.terminator
  }
  return
}
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @mapped(%A: memref<64x64xf16>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
      %0 = "tile.tensor_map"(%A) : (memref<64x64xf16>)
        -> !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>
      %tile = "tile.alloc"() : ()
        -> !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">
      %row = arith.constant 0 : i32
      %full = llvm.mlir.zero : !llvm.ptr<3>
      "tile.copy_async"(%0, %row, %row, %tile, %full) : (
        !tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">>, i32, i32,
        !tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">, !llvm.ptr<3>) -> ()
      gpu.return
    }
  }
  func.func @maps() {
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %A = gpu.alloc () : memref<64x64xf16>
    gpu.launch_func @kernels::@mapped blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1)
      args(%A : memref<64x64xf16>)
    return
  }
}

// What memory can't have.
// RUN: not weft run %s --entry overflows --on emulator 2>&1 | FileCheck %s --check-prefix=OVERFLOWS
// RUN: not weft run %s --entry frees_twice --on emulator 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not weft run %s --entry negative --on emulator 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not weft run %s --entry of_gpu --on emulator 2>&1 | FileCheck %s --check-prefix=OF-GPU
// OF-GPU: has no function 'of_gpu': it has unregistered,
// OVERFLOWS: error: gpu.memcpy of 40 bytes ends 24 bytes past gpu.alloc 1 of 16 bytes
// TWICE: error: memref.dealloc: memory must come from memref.alloc, and be freed once
// NEGATIVE: error: gpu.alloc: sizes must be at least 0; got -20 bytes
func.func @overflows() {
  %c10 = arith.constant 10 : index
  %few = gpu.alloc () : memref<4xf32>
  %many = memref.alloc(%c10) : memref<?xf32>
  %to = memref.cast %few : memref<4xf32> to memref<?xf32>
  gpu.memcpy %to, %many : memref<?xf32>, memref<?xf32>
  return
}
func.func @frees_twice() {
  %m = memref.alloc() : memref<4xf32>
  %u = memref.cast %m : memref<4xf32> to memref<*xf32>
  call @printMemrefF32(%u) : (memref<*xf32>) -> ()
  memref.dealloc %m : memref<4xf32>
  memref.dealloc %m : memref<4xf32>
  return
}
func.func @negative() {
  %few = arith.constant -5 : index
  %m = gpu.alloc (%few) : memref<?xf32>
  return
}
gpu.module @functions {
  func.func @of_gpu() { return }
}
