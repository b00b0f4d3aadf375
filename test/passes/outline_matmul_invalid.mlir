// RUN: weft-opt %s --outline-matmul --split-input-file --verify-diagnostics

func.func @no_schedule(%a: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{'tile.matmul' op must have a schedule: run --select-schedule before --outline-matmul}}
  "tile.matmul"(%a, %a, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @something_beside(%a: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{'gpu.thread_id' op must not be in a function with a tile.matmul: a function that becomes a kernel has one product and a return}}
  %0 = gpu.thread_id x
  "tile.matmul"(%a, %a, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @two_products(%a: memref<?x?xf16>, %d: memref<?x?xf32>) {
  "tile.matmul"(%a, %a, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  // expected-error @below {{'tile.matmul' op must not be in a function with a tile.matmul}}
  "tile.matmul"(%a, %a, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @in_a_loop(%a: memref<?x?xf16>, %d: memref<?x?xf32>, %n: index) {
  // expected-error @below {{'scf.for' op must not be in a function with a tile.matmul}}
  scf.for %i = %n to %n step %n {
    "tile.matmul"(%a, %a, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  }
  return
}

// -----

// expected-error @below {{'func.func' op must not return values, since it becomes a kernel}}
func.func @with_a_result(%a: memref<?x?xf16>, %d: memref<?x?xf32>) -> memref<?x?xf32> {
  "tile.matmul"(%a, %a, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return %d : memref<?x?xf32>
}

// -----

// expected-error @below {{'func.func' op must have one block, since it becomes a kernel, got 2}}
func.func @of_two_blocks(%a: memref<?x?xf16>, %d: memref<?x?xf32>, %i: index, %v: f32) {
  "tile.matmul"(%a, %a, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  cf.br ^bb1
^bb1:
  memref.store %v, %d[%i, %i] : memref<?x?xf32>
  return
}

// -----

gpu.module @m {
  // expected-error @below {{'func.func' op must be at the top of the module, got one in a 'gpu.module'}}
  func.func @inside(%a: memref<?x?xf16>, %d: memref<?x?xf32>) {
    "tile.matmul"(%a, %a, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
    return
  }
}
