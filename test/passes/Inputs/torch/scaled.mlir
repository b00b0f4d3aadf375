#map = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @scaled(%arg0: tensor<48x32xbf16>, %arg1: tensor<32x40xbf16>) -> tensor<48x40xbf16> {
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant 0.000000e+00 : bf16
    %cst_1 = arith.constant 1.250000e-01 : bf16
    %0 = tensor.empty() : tensor<48x40xf32>
    %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<48x40xf32>) -> tensor<48x40xf32>
    %2 = linalg.matmul ins(%arg0, %arg1 : tensor<48x32xbf16>, tensor<32x40xbf16>) outs(%1 : tensor<48x40xf32>) -> tensor<48x40xf32>
    %3 = tensor.empty() : tensor<48x40xbf16>
    %4 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<48x40xf32>) outs(%3 : tensor<48x40xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %7 = arith.truncf %in : f32 to bf16
      linalg.yield %7 : bf16
    } -> tensor<48x40xbf16>
    %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%4 : tensor<48x40xbf16>) outs(%3 : tensor<48x40xbf16>) {
    ^bb0(%in: bf16, %out: bf16):
      %7 = arith.mulf %in, %cst_1 : bf16
      linalg.yield %7 : bf16
    } -> tensor<48x40xbf16>
    %6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<48x40xbf16>) outs(%3 : tensor<48x40xbf16>) {
    ^bb0(%in: bf16, %out: bf16):
      %7 = arith.cmpf ugt, %in, %cst_0 : bf16
      %8 = arith.select %7, %in, %cst_0 : bf16
      linalg.yield %8 : bf16
    } -> tensor<48x40xbf16>
    return %6 : tensor<48x40xbf16>
  }
}

