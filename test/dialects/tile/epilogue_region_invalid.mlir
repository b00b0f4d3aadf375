// RUN: weft-opt %s --split-input-file --verify-diagnostics

func.func @barrier(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    // expected-error @below {{'tile.epilogue' op can't have 'gpu.barrier' in its region: it computes one element by tile.load_element, tile.store_element, arith, math, nvvm.ex2, nvvm.rcp.approx.ftz.f, nvvm.sqrt, nvvm.sqrt.approx, nvvm.rsqrt, nvvm.sin, nvvm.cos}}
    gpu.barrier
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  return
}

// -----

func.func @sum_of_lanes(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    // expected-error @below {{can't have 'gpu.subgroup_reduce' in its region}}
    %0 = gpu.subgroup_reduce add %sum : (f32) -> f32
    "tile.yield"(%0) : (f32) -> ()
  }) : () -> !tile.function
  return
}

// -----

func.func @load(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    // expected-error @below {{can't have 'memref.load' in its region}}
    %0 = memref.load %d[%i, %j] : memref<?x?xf32>
    "tile.yield"(%0) : (f32) -> ()
  }) : () -> !tile.function
  return
}

// -----

func.func @vector(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    // expected-error @below {{expects scalars of one of f32, i32, f64, f16, bf16, index, i1, i8, i16, i64 for 'arith.constant' in its region}}
    %0 = arith.constant dense<0.0> : vector<2xf32>
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  return
}

// -----

func.func @fp8(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    // expected-error @below {{for 'arith.truncf' in its region, got f8E4M3FN}}
    %0 = arith.truncf %sum : f32 to f8E4M3FN
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  return
}

// -----

func.func @no_yield(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{expects its region to end with tile.yield}}
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    %0 = arith.negf %sum : f32
  }) : () -> !tile.function
  return
}

// -----

func.func @yields_another_type(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    %0 = arith.truncf %sum : f32 to f16
    // expected-error @below {{'tile.yield' op expects a value of the type of the sum, f32, got f16}}
    "tile.yield"(%0) : (f16) -> ()
  }) : () -> !tile.function
  return
}

// -----

func.func @other_index(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    %c = arith.constant 0 : index
    // expected-error @below {{'tile.load_element' op expects the row and the column of its region as indices, one of them, or none}}
    %0 = "tile.load_element"(%d, %i, %c) : (memref<?x?xf32>, index, index) -> f32
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  return
}

// -----

func.func @indices_exchanged(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    // expected-error @below {{expects the row and the column of its region as indices, one of them, or none}}
    %0 = "tile.load_element"(%d, %j, %i) : (memref<?x?xf32>, index, index) -> f32
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  return
}

// -----

func.func @rank(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %v: memref<?xf32>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    // expected-error @below {{expects the source of rank 2 or 3, got memref<?xf32>}}
    %0 = "tile.load_element"(%v, %i, %j) : (memref<?xf32>, index, index) -> f32
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  return
}

// -----

func.func @vector_of_fp8(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %v: memref<?xf8E5M2>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    // expected-error @below {{expects the source of element type one of f32, f16, bf16, i32, f64, got memref<?xf8E5M2>}}
    %0 = "tile.load_element"(%v, %i) : (memref<?xf8E5M2>, index) -> f32
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  return
}

// -----

func.func @other_type(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %v: memref<?xf16>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    // expected-error @below {{expects to return f32, the type of the sum, got f16}}
    %0 = "tile.load_element"(%v, %i) : (memref<?xf16>, index) -> f16
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  return
}

// -----

func.func @wider(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %v: memref<?xf64>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    // expected-error @below {{expects elements that f32 holds, got memref<?xf64>}}
    %0 = "tile.load_element"(%v, %i) : (memref<?xf64>, index) -> f32
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  return
}

// -----

func.func @strided(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %v: memref<?xf32, strided<[2]>>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    // expected-error @below {{expects the source to be contiguous (innermost stride 1)}}
    %0 = "tile.load_element"(%v, %i) : (memref<?xf32, strided<[2]>>, index) -> f32
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  return
}

// -----

func.func @with_a_bias(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  // expected-error @below {{expects no activation with an epilogue: compute it there}}
  "tile.matmul"(%a, %b, %d, %0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1>, activation = "relu"}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, !tile.function) -> ()
  return
}

// -----

func.func @rows_of_d_as_a_vector(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    %0 = "tile.load_element"(%d, %i) : (memref<?x?xf32>, index) -> f32
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  // expected-error @below {{expects an epilogue that loads from D the element which it computes}}
  "tile.matmul"(%a, %b, %d, %0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1>}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, !tile.function) -> ()
  return
}

// -----

func.func @outside(%v: memref<?xf32>, %i: index) {
  // expected-error @below {{'tile.load_element' op must be in a tile.epilogue}}
  %0 = "tile.load_element"(%v, %i) : (memref<?xf32>, index) -> f32
  return
}

// -----

func.func @arguments() {
  // expected-error @below {{expects a region of the sum (one of f32, i32, f64), the row (index) and the column (index), got (f16, index, index)}}
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f16, %i: index, %j: index):
    "tile.yield"(%sum) : (f16) -> ()
  }) : () -> !tile.function
  return
}

// -----

func.func @blocks() {
  // expected-error @below {{expects a region of one block, got 2}}
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    cf.br ^bb1
  ^bb1:
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  return
}

// -----

func.func @result() {
  // expected-error @below {{expects to return a !tile.function, got i32}}
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> i32
  return
}

// -----

func.func @no_function(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %v: memref<?xf32>) {
  // expected-error @below {{expects epilogue to be the result of a tile.epilogue, got memref<?xf32>}}
  "tile.matmul"(%a, %b, %d, %v) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1>}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, memref<?xf32>) -> ()
  return
}

// -----

func.func @of_integers(%a: memref<?x?xi8>, %b: memref<?x?xi8>, %d: memref<?x?xi32>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  // expected-error @below {{expects an epilogue of sums of i32, got one of f32}}
  "tile.matmul"(%a, %b, %d, %0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1>}
    : (memref<?x?xi8>, memref<?x?xi8>, memref<?x?xi32>, !tile.function) -> ()
  return
}

// -----

func.func @size(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<64x32xf32>, %v: memref<32xf32>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    %0 = "tile.load_element"(%v, %i) : (memref<32xf32>, index) -> f32
    "tile.yield"(%0) : (f32) -> ()
  }) : () -> !tile.function
  // expected-error @below {{expects D (M x N) and the source of tile.load_element (M) to agree: M is 64 in D and 32 in the source of tile.load_element}}
  "tile.matmul"(%a, %b, %d, %0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1>}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<64x32xf32>, !tile.function) -> ()
  return
}

// -----

func.func @of_a_batch(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %v: memref<4x?xf32>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    %0 = "tile.load_element"(%v, %i) : (memref<4x?xf32>, index) -> f32
    "tile.yield"(%0) : (f32) -> ()
  }) : () -> !tile.function
  // expected-error @below {{batch is 1 in D and 4 in the source of tile.load_element}}
  "tile.matmul"(%a, %b, %d, %0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1>}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, !tile.function) -> ()
  return
}

// -----

func.func @stores_at_no_index(%x: memref<?x?xbf16>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    // expected-error @below {{'tile.store_element' op expects the row and the column of its region as indices, or one of them}}
    "tile.store_element"(%sum, %x) : (f32, memref<?x?xbf16>) -> ()
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  return
}

// -----

func.func @no_kind(%v: memref<?xf32>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    // expected-error @below {{'tile.store_element' op expects a kind of #vector.kind<add> or #vector.kind<maximumf> with one index, which reduces rows or columns}}
    "tile.store_element"(%sum, %v, %j) : (f32, memref<?xf32>, index) -> ()
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  return
}

// -----

func.func @product_of_rows(%v: memref<?xf32>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    // expected-error @below {{kind must be #vector.kind<add> or #vector.kind<maximumf>, got #vector.kind<mul>}}
    "tile.store_element"(%sum, %v, %j) {kind = #vector.kind<mul>} : (f32, memref<?xf32>, index) -> ()
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  return
}

// -----

func.func @kind_of_elements(%x: memref<?x?xbf16>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    // expected-error @below {{kind must be absent with two indices, got #vector.kind<add>}}
    "tile.store_element"(%sum, %x, %i, %j) {kind = #vector.kind<add>} : (f32, memref<?x?xbf16>, index, index) -> ()
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  return
}

// -----

func.func @reduced_in_bf16(%v: memref<?xbf16>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    // expected-error @below {{expects the destination of element type f32, got memref<?xbf16>}}
    "tile.store_element"(%sum, %v, %j) {kind = #vector.kind<add>} : (f32, memref<?xbf16>, index) -> ()
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  return
}

// -----

func.func @reduced_integers(%v: memref<?xf32>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: i32, %i: index, %j: index):
    // expected-error @below {{expects a sum of f32 for elements of memref<?xf32>, got i32}}
    "tile.store_element"(%sum, %v, %i) {kind = #vector.kind<add>} : (i32, memref<?xf32>, index) -> ()
    "tile.yield"(%sum) : (i32) -> ()
  }) : () -> !tile.function
  return
}

// -----

func.func @another_value(%x: memref<?x?xbf16>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    // expected-error @below {{expects a value of the type of the sum, f32, got index}}
    "tile.store_element"(%i, %x, %i, %j) : (index, memref<?x?xbf16>, index, index) -> ()
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  return
}

// -----

func.func @stores_outside(%x: memref<?x?xbf16>, %s: f32, %i: index) {
  // expected-error @below {{'tile.store_element' op must be in a tile.epilogue}}
  "tile.store_element"(%s, %x, %i, %i) : (f32, memref<?x?xbf16>, index, index) -> ()
  return
}

// -----

func.func @stores_to_d(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %x: memref<?x?xbf16>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    // expected-error @below {{'tile.matmul' op expects a destination that nothing else of the product uses, got memref<?x?xf32> again}}
    "tile.store_element"(%sum, %d, %i, %j) : (f32, memref<?x?xf32>, index, index) -> ()
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  "tile.matmul"(%a, %b, %d, %0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1>}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, !tile.function) -> ()
  return
}

// -----

func.func @stores_a_batch(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %x: memref<4x?x?xbf16>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    // expected-error @below {{'tile.matmul' op expects a destination of rank 2 where D is of memref<?x?xf32>, got memref<4x?x?xbf16>}}
    "tile.store_element"(%sum, %x, %i, %j) : (f32, memref<4x?x?xbf16>, index, index) -> ()
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  "tile.matmul"(%a, %b, %d, %0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1>}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, !tile.function) -> ()
  return
}

// -----

func.func @reduces_groups(%a: memref<4x?x?xf16>, %b: memref<?x?xf16>, %d: memref<4x?x?xf32>, %v: memref<?xf32>, %g: memref<?xi32>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    // expected-error @below {{'tile.matmul' op expects no reduction by tile.store_element with groups: store each element, and reduce those}}
    "tile.store_element"(%sum, %v, %j) {kind = #vector.kind<add>} : (f32, memref<?xf32>, index) -> ()
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  "tile.matmul"(%a, %b, %d, %g, %0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1>}
    : (memref<4x?x?xf16>, memref<?x?xf16>, memref<4x?x?xf32>, memref<?xi32>, !tile.function) -> ()
  return
}

// -----

func.func @stores_with_a_team(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>, %x: memref<?x?xbf16>, %s: memref<4xi32>, %p: memref<?xbf16>, %f: memref<?xi32>, %q: memref<?x?xi64>) {
  %t = "tile.team"(%s, %p, %f, %q) {operandSegmentSizes = array<i32: 1, 0, 0, 0, 1, 1, 1, 0>}
    : (memref<4xi32>, memref<?xbf16>, memref<?xi32>, memref<?x?xi64>) -> !tile.exchange
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    // expected-error @below {{'tile.matmul' op expects no tile.store_element with a team: store from a tile.matmul of its own}}
    "tile.store_element"(%sum, %x, %i, %j) : (f32, memref<?x?xbf16>, index, index) -> ()
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  "tile.matmul"(%a, %b, %d, %t, %0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1>}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>, !tile.exchange, !tile.function) -> ()
  return
}

// -----

func.func @size_of_a_further_result(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<64x32xf32>, %v: memref<64xf32>) {
  %0 = "tile.epilogue"() ({
  ^bb0(%sum: f32, %i: index, %j: index):
    "tile.store_element"(%sum, %v, %j) {kind = #vector.kind<add>} : (f32, memref<64xf32>, index) -> ()
    "tile.yield"(%sum) : (f32) -> ()
  }) : () -> !tile.function
  // expected-error @below {{expects D (M x N) and the destination of tile.store_element (N) to agree: N is 32 in D and 64 in the destination of tile.store_element}}
  "tile.matmul"(%a, %b, %d, %0) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1>}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<64x32xf32>, !tile.function) -> ()
  return
}
