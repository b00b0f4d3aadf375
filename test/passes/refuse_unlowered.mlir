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
  "tile.matmul"(%a, %b, %d) : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
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
