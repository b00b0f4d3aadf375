#map = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @matmul_transposed(%arg0: tensor<48x32xbf16>, %arg1: tensor<40x32xbf16>) -> tensor<48x40xbf16> {
    %cst = arith.constant 0.000000e+00 : f32
    %0 = tensor.empty() : tensor<32x40xbf16>
    %transposed = linalg.transpose ins(%arg1 : tensor<40x32xbf16>) outs(%0 : tensor<32x40xbf16>) permutation = [1, 0] 
    %1 = tensor.empty() : tensor<48x40xf32>
    %2 = linalg.fill ins(%cst : f32) outs(%1 : tensor<48x40xf32>) -> tensor<48x40xf32>
    %3 = linalg.matmul ins(%arg0, %transposed : tensor<48x32xbf16>, tensor<32x40xbf16>) outs(%2 : tensor<48x40xf32>) -> tensor<48x40xf32>
    %4 = tensor.empty() : tensor<48x40xbf16>
    %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%3 : tensor<48x40xf32>) outs(%4 : tensor<48x40xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %6 = arith.truncf %in : f32 to bf16
      linalg.yield %6 : bf16
    } -> tensor<48x40xbf16>
    return %5 : tensor<48x40xbf16>
  }
}

