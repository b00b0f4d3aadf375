// What torch-mlir 20261001 exports from PyTorch 2.13 (`fx.export_and_import(module, *inputs, output_type="linalg-on-tensors")`).

// RUN: weft-opt %S/Inputs/torch/matmul.mlir --raise-linalg | FileCheck %s --check-prefix=MATMUL
// MATMUL: func.func @matmul(%arg0: memref<48x32xbf16>, %arg1: memref<32x40xbf16>, %arg2: memref<48x40xbf16>)
// MATMUL-NEXT: "tile.matmul"(%arg0, %arg1, %arg2) {operandSegmentSizes = {{.*}}} : (

// RUN: weft-opt %S/Inputs/torch/matmul_transposed.mlir --raise-linalg | FileCheck %s --check-prefix=TRANSPOSED
// TRANSPOSED: "tile.matmul"(%arg0, %arg1, %arg2) {operandSegmentSizes = {{.*}}, transpose_b = true} : (memref<48x32xbf16>, memref<40x32xbf16>

// RUN: weft-opt %S/Inputs/torch/bmm.mlir --raise-linalg | FileCheck %s --check-prefix=BMM
// BMM: "tile.matmul"(%arg0, %arg1, %arg2) {operandSegmentSizes = {{.*}}} : (memref<2x48x32xf16>, memref<2x32x40xf16>, memref<2x48x40xf16>)

// RUN: weft-opt %S/Inputs/torch/mv.mlir --raise-linalg | FileCheck %s --check-prefix=MV
// MV: "tile.matmul"(%arg1, %arg0, %arg2) {operandSegmentSizes = {{.*}}, transpose_b = true} : (memref<1x32xbf16>, memref<48x32xbf16>, memref<1x48xbf16>)

// RUN: weft-opt %S/Inputs/torch/scaled.mlir --raise-linalg | FileCheck %s --check-prefix=SCALED
// SCALED: "tile.matmul"(%arg0, %arg1, %arg2) {activation = "relu", alpha = 1.250000e-01 : f32, operandSegmentSizes = {{.*}}}

// RUN: weft-opt %S/Inputs/torch/dynamic.mlir --raise-linalg | FileCheck %s --check-prefix=DYNAMIC
// DYNAMIC: "tile.matmul"(%arg0, %arg1, %arg2) {activation = "relu", operandSegmentSizes = {{.*}}} : (memref<?x32xbf16>, memref<32x40xbf16>, memref<?x40xbf16>)

// With its inputs in f32, and with the bias added in bf16: the same layer.
// RUN: weft-opt %S/Inputs/torch/linear_gelu.mlir --raise-linalg | FileCheck %s --check-prefix=LINEAR
// RUN: weft-opt %S/Inputs/torch/linear_gelu_addmm.mlir --raise-linalg | FileCheck %s --check-prefix=LINEAR
// LINEAR: "tile.matmul"(%arg0, %arg1, %arg3, %arg2) {activation = "gelu", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0>, transpose_b = true}
// LINEAR-SAME: (memref<48x32xbf16>, memref<40x32xbf16>, memref<48x40xbf16>, memref<40xbf16>)

// RUN: weft-opt %S/Inputs/torch/linear_silu.mlir --raise-linalg | FileCheck %s --check-prefix=SILU
// SILU: "tile.matmul"(%arg0, %arg1, %arg3, %arg2) {activation = "silu", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0>, transpose_b = true}

// RUN: weft-opt %S/Inputs/torch/linear_tanh.mlir --raise-linalg | FileCheck %s --check-prefix=TANH
// TANH: "tile.matmul"(%arg0, %arg1, %arg4, {{.*}}) {activation = "gelu_tanh", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0>, transpose_b = true}

// The rows of all matrices of a batch are multiplied by one B.
// RUN: weft-opt %S/Inputs/torch/linear_3d.mlir --raise-linalg | FileCheck %s --check-prefix=FLAT
// FLAT: "tile.matmul"(%arg0, %arg1, %arg3, %arg2) {activation = "silu", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0>, transpose_b = true}
// FLAT-SAME: (memref<48x32xbf16>, memref<40x32xbf16>, memref<48x40xbf16>, memref<40xbf16>)

// RUN: weft-opt %S/Inputs/torch/softmax.mlir --raise-linalg 2>&1 >%t | FileCheck %s --check-prefix=SOFTMAX
// SOFTMAX: remark: 'linalg.generic' op becomes the plain kernel softmax_1: it is a reduction, but no product of two matrices

// A function of two products becomes two functions.
// RUN: weft-opt %S/Inputs/torch/mlp.mlir --raise-linalg | FileCheck %s --check-prefix=MLP
// MLP: func.func @mlp_0(
// MLP-SAME: weft.sources = ["argument 0", "argument 1", "argument 2", "product 0"]
// MLP-NEXT: "tile.matmul"(%arg0, %arg1, %arg3, %arg2) {activation = "gelu", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0>, transpose_b = true}
// MLP: func.func @mlp_1(
// MLP-SAME: weft.sources = ["argument 3", "argument 4", "product 0", "result 0"]
// MLP-NEXT: "tile.matmul"(%arg2, %arg0, %arg3, %arg1) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0>, transpose_b = true}
