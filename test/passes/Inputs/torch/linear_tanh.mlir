#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d1)>
module {
  func.func @linear_tanh(%arg0: tensor<48x32xbf16>, %arg1: tensor<40x32xbf16>, %arg2: tensor<40xbf16>, %arg3: tensor<48x40xbf16>) -> tensor<48x40xbf16> {
    %cst = arith.constant 0.000000e+00 : f32
    %c3_i64 = arith.constant 3 : i64
    %cst_0 = arith.constant 4.467770e-02 : bf16
    %cst_1 = arith.constant 7.968750e-01 : bf16
    %cst_2 = arith.constant 1.000000e+00 : bf16
    %cst_3 = arith.constant 5.000000e-01 : bf16
    %0 = tensor.empty() : tensor<32x40xbf16>
    %transposed = linalg.transpose ins(%arg1 : tensor<40x32xbf16>) outs(%0 : tensor<32x40xbf16>) permutation = [1, 0] 
    %1 = tensor.empty() : tensor<48x40xf32>
    %2 = linalg.fill ins(%cst : f32) outs(%1 : tensor<48x40xf32>) -> tensor<48x40xf32>
    %3 = linalg.matmul ins(%arg0, %transposed : tensor<48x32xbf16>, tensor<32x40xbf16>) outs(%2 : tensor<48x40xf32>) -> tensor<48x40xf32>
    %4 = tensor.empty() : tensor<48x40xbf16>
    %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%3 : tensor<48x40xf32>) outs(%4 : tensor<48x40xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %9 = arith.truncf %in : f32 to bf16
      linalg.yield %9 : bf16
    } -> tensor<48x40xbf16>
    %6 = linalg.generic {indexing_maps = [#map1, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg2, %5 : tensor<40xbf16>, tensor<48x40xbf16>) outs(%4 : tensor<48x40xbf16>) {
    ^bb0(%in: bf16, %in_4: bf16, %out: bf16):
      %9 = arith.addf %in, %in_4 : bf16
      linalg.yield %9 : bf16
    } -> tensor<48x40xbf16>
    %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%6 : tensor<48x40xbf16>) outs(%4 : tensor<48x40xbf16>) {
    ^bb0(%in: bf16, %out: bf16):
      %9 = math.fpowi %in, %c3_i64 : bf16, i64
      %10 = arith.mulf %9, %cst_0 : bf16
      %11 = arith.addf %in, %10 : bf16
      %12 = arith.mulf %11, %cst_1 : bf16
      %13 = math.tanh %12 : bf16
      %14 = arith.addf %13, %cst_2 : bf16
      %15 = arith.mulf %14, %cst_3 : bf16
      %16 = arith.mulf %in, %15 : bf16
      linalg.yield %16 : bf16
    } -> tensor<48x40xbf16>
    %8 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%7, %arg3 : tensor<48x40xbf16>, tensor<48x40xbf16>) outs(%4 : tensor<48x40xbf16>) {
    ^bb0(%in: bf16, %in_4: bf16, %out: bf16):
      %9 = arith.addf %in, %in_4 : bf16
      linalg.yield %9 : bf16
    } -> tensor<48x40xbf16>
    return %8 : tensor<48x40xbf16>
  }
}

