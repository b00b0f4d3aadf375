// A plain function becomes a kernel: each thread computes elements of its result.
// RUN: weft-opt %s --outline-linalg --split-input-file --verify-diagnostics | FileCheck %s
// RUN: weft-opt %s --outline-linalg --weft-to-llvm --split-input-file --verify-diagnostics | FileCheck %s --check-prefix=LLVM
// LLVM: llvm.func @sums
// LLVM-NOT: call @__nv

// The sum of exponential functions of a row. The loop of the reduction keeps its sum in f32, whose rounding to f16
// may be left to the end.
// CHECK: #[[GRID:.*]] = affine_map<(d0, d1, d2) -> (d2 ceildiv 256, 1, 1)>
// CHECK-LABEL: gpu.func @sums(
// CHECK-SAME: %[[X:.*]]: memref<?x8xf16>, %[[M:.*]]: index, %[[D:.*]]: memref<?xf16>) kernel
// CHECK-SAME: known_block_size = array<i32: 256, 1, 1>, weft.grid = #[[GRID]], weft.persistent = 8 : i32
// CHECK-SAME: weft.writes = array<i32: 2>
// CHECK: %[[THREAD:.*]] = arith.addi
// CHECK: %[[STEP:.*]] = arith.muli %{{.*}}, %{{.*}} : index
// CHECK: scf.for %[[I:.*]] = %[[THREAD]] to %[[M]] step %[[STEP]] {
// CHECK: %[[SUM:.*]] = scf.for %[[K:.*]] = {{.*}} iter_args
// CHECK: memref.load %[[X]][%[[I]], %[[K]]]
// CHECK: math.exp
// CHECK: scf.yield
// CHECK: memref.store %[[SUM]], %[[D]][%[[I]]]
func.func @sums(%x: memref<?x8xf16>, %m: index, %d: memref<?xf16>) attributes {weft.plain} {
  %0 = bufferization.to_tensor %x restrict : memref<?x8xf16> to tensor<?x8xf16>
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty(%m) : tensor<?x8xf16>
  %1 = linalg.exp ins(%0 : tensor<?x8xf16>) outs(%e : tensor<?x8xf16>) -> tensor<?x8xf16>
  %l = tensor.empty(%m) : tensor<?xf16>
  %f = linalg.fill ins(%zero : f16) outs(%l : tensor<?xf16>) -> tensor<?xf16>
  %2 = linalg.reduce { arith.addf } ins(%1 : tensor<?x8xf16>) outs(%f : tensor<?xf16>) dimensions = [1]
  bufferization.materialize_in_destination %2 in restrict writable %d : (tensor<?xf16>, memref<?xf16>) -> ()
  return
}

// -----

// Sizes that one loop has must be equal, and booleans take a byte.
// CHECK: #[[DIFFERENCES:.*]] = affine_map<(d0, d1) -> (d0 - d1)>
// CHECK-LABEL: gpu.func @above(
// CHECK-SAME: memref<?xf32>, %[[D:.*]]: memref<?xi8>)
// CHECK-SAME: weft.requires = #[[DIFFERENCES]]
// CHECK: %[[BYTE:.*]] = arith.extui %{{.*}} : i1 to i8
// CHECK: memref.store %[[BYTE]], %[[D]]
func.func @above(%x: memref<?xf32>, %d: memref<?xi1>) attributes {weft.plain} {
  %0 = bufferization.to_tensor %x restrict : memref<?xf32> to tensor<?xf32>
  %c = arith.constant 0 : index
  %m = tensor.dim %0, %c : tensor<?xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%m) : tensor<?xi1>
  %1 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%0 : tensor<?xf32>) outs(%e : tensor<?xi1>) {
  ^bb0(%a: f32, %old: i1):
    %2 = arith.cmpf ogt, %a, %zero : f32
    linalg.yield %2 : i1
  } -> tensor<?xi1>
  bufferization.materialize_in_destination %1 in restrict writable %d : (tensor<?xi1>, memref<?xi1>) -> ()
  return
}

// -----

func.func @undefined(%d: memref<4xf32>) attributes {weft.plain} {
  // expected-error @+1 {{'tensor.empty' op is read before it is written; fill it first}}
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.exp ins(%e : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  bufferization.materialize_in_destination %0 in restrict writable %d : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

// -----

// expected-error @+1 {{'func.func' op must write one tensor to an argument, got 0}}
func.func @nothing(%d: memref<4xf32>) attributes {weft.plain} {
  return
}

// -----

// expected-error @+1 {{'func.func' op needs dimension 3 of a tensor<?xf32>}}
func.func @dimension(%x: memref<?xf32>, %d: memref<?xf32>) attributes {weft.plain} {
  %0 = bufferization.to_tensor %x restrict : memref<?xf32> to tensor<?xf32>
  %c = arith.constant 3 : index
  %m = tensor.dim %0, %c : tensor<?xf32>
  %e = tensor.empty(%m) : tensor<?xf32>
  %1 = linalg.exp ins(%0 : tensor<?xf32>) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  bufferization.materialize_in_destination %1 in restrict writable %d : (tensor<?xf32>, memref<?xf32>) -> ()
  return
}

// -----

func.func @floats(%x: memref<4xf8E4M3FN>, %d: memref<4xf32>) attributes {weft.plain} {
  %0 = bufferization.to_tensor %x restrict : memref<4xf8E4M3FN> to tensor<4xf8E4M3FN>
  %e = tensor.empty() : tensor<4xf32>
  %1 = linalg.map ins(%0 : tensor<4xf8E4M3FN>) outs(%e : tensor<4xf32>) (%a: f8E4M3FN, %old: f32) {
    // expected-error @+1 {{'arith.extf' op must have floats of f64, f32, f16, bf16 in a plain kernel, got f8E4M3FN}}
    %2 = arith.extf %a : f8E4M3FN to f32
    linalg.yield %2 : f32
  }
  bufferization.materialize_in_destination %1 in restrict writable %d : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}
