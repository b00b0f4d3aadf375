// RUN: weft-opt %s --refuse-unlowered --split-input-file --verify-diagnostics
// RUN: not weft-opt %s --weft-to-llvm --split-input-file 2>&1 | FileCheck %s

// Conversions to LLVM would split the role's body, and then report that it has several blocks.

// CHECK: 'tile.role' op must be lowered before --weft-to-llvm
gpu.module @m {
  gpu.func @role(%d: memref<?xf32>, %i: index) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    // expected-error @below {{'tile.role' op must be lowered before --weft-to-llvm: run --weft-to-instructions first}}
    "tile.role"() ({
    ^bb0(%number: i32):
      %0 = arith.constant 0 : i32
      %first = arith.cmpi eq, %number, %0 : i32
      scf.if %first {
        %1 = arith.constant 1.0 : f32
        memref.store %1, %d[%i] : memref<?xf32>
      }
    }) {first = 0, warpgroups = 1} : () -> ()
    gpu.return
  }
}

// -----

// CHECK: 'tile.matmul' op must be lowered before --weft-to-llvm
func.func @product(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{'tile.matmul' op must be lowered before --weft-to-llvm: run --weft instead}}
  "tile.matmul"(%a, %b, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  return
}

// -----

gpu.module @m {
  gpu.func @tensor() kernel {
    // expected-error @below {{'tensor.empty' op isn't lowered by any pass of Weft: bufferize it with upstream's passes (--one-shot-bufferize)}}
    %0 = tensor.empty() : tensor<4xf32>
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @functions(%x: f32, %y: vector<2xf64>, %b: f8E4M3FN, %v: i16, %i: i32) kernel {
    // expected-error @below {{'math.atan' op isn't lowered by any pass of Weft: write copysign(pi / 2, x) - atan(1 / x), with y = x / (1 + 0.28 * x * x) and, twice, y = y - cos(y) * (sin(y) - x * cos(y)) as atan(x) for x in -1..1; f64 needs __nv_atan in the module}}
    %0 = math.atan %x : f32
    // expected-error @below {{'math.erf' op on f64 isn't lowered by any pass of Weft: legal types are f16, bf16, f32}}
    %1 = math.erf %y : vector<2xf64>
    // expected-error @below {{'arith.addf' op on f8E4M3FN isn't lowered by any pass of Weft: legal types are f16, bf16, f32, f64}}
    %2 = arith.addf %b, %b : f8E4M3FN
    // expected-error @below {{'gpu.shuffle' op on i16 isn't lowered by any pass of Weft: extend or bitcast it to 32 bits; legal types are i32, i64, f32, f64}}
    %3, %4 = gpu.shuffle xor %v, %i, %i : i16
    // expected-error @below {{'arith.divf' op with a rounding mode isn't lowered by any pass of Weft: omit the mode, which rounds to nearest even; llvm.call_intrinsic has others of f32 and f64, such as llvm.nvvm.add.rp.f}}
    %5 = arith.divf %x, %x upward : f32
    gpu.return
  }
}

// -----

!matrix = !gpu.mma_matrix<16x16xi32, "COp">
gpu.module @m {
  gpu.func @elementwise(%m: memref<16x16xi32>, %i: index) kernel {
    %0 = gpu.subgroup_mma_load_matrix %m[%i, %i] {leadDimension = 16 : index} : memref<16x16xi32> -> !matrix
    // expected-error @below {{'gpu.subgroup_mma_elementwise' op addi on i32 isn't lowered by any pass of Weft: store the matrix and use arith}}
    %1 = gpu.subgroup_mma_elementwise addi %0, %0 : (!matrix, !matrix) -> !matrix
    gpu.subgroup_mma_store_matrix %1, %m[%i, %i] {leadDimension = 16 : index} : !matrix, memref<16x16xi32>
    gpu.return
  }
}

// -----

!square = !gpu.mma_matrix<16x16xf64, "COp">
gpu.module @m {
  gpu.func @sizes(%m: memref<16x16xf64>, %i: index) kernel {
    // expected-error @below {{'gpu.subgroup_mma_load_matrix' op on !gpu.mma_matrix<16x16xf64, "COp"> isn't lowered by any pass of Weft: legal sizes are 8x8}}
    %0 = gpu.subgroup_mma_load_matrix %m[%i, %i] {leadDimension = 16 : index} : memref<16x16xf64> -> !square
    gpu.return
  }
}

// -----

!tf32 = !gpu.mma_matrix<16x8xf32, "AOp">
gpu.module @m {
  gpu.func @tf32(%m: memref<16x8xf32>, %i: index) kernel {
    %0 = gpu.subgroup_mma_load_matrix %m[%i, %i] {leadDimension = 8 : index} : memref<16x8xf32> -> !tf32
    // expected-error @below {{'gpu.subgroup_mma_elementwise' op maxf on f32 isn't lowered by any pass of Weft: store the matrix and use arith}}
    %1 = gpu.subgroup_mma_elementwise maxf %0, %0 : (!tf32, !tf32) -> !tf32
    // expected-error @below {{'gpu.barrier' op of a cluster isn't lowered by any pass of Weft: use nvvm.cluster.arrive and nvvm.cluster.wait}}
    gpu.barrier scope <cluster>
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @vectors(%x: vector<4xf32>, %m: vector<4xi1>, %y: f32) kernel {
    // expected-error @below {{'vector.mask' op isn't lowered by any pass of Weft: use vector.maskedload, vector.maskedstore or arith.select}}
    %0 = vector.mask %m { vector.reduction <add>, %x : vector<4xf32> into f32 } : vector<4xi1> -> f32
    // expected-error @below {{'vector.contract' op with kind maximumf isn't lowered by any pass of Weft: use vector.reduction}}
    %1 = vector.contract {indexing_maps = [affine_map<(k) -> (k)>, affine_map<(k) -> (k)>, affine_map<(k) -> ()>],
        iterator_types = ["reduction"], kind = #vector.kind<maximumf>} %x, %x, %y : vector<4xf32>, vector<4xf32> into f32
    // expected-error @below {{'vector.multi_reduction' op isn't lowered by any pass of Weft: use vector.reduction on each row}}
    %2 = vector.multi_reduction <add>, %x, %y [0] : vector<4xf32> to f32
    gpu.return
  }
}
