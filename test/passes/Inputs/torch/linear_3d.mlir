#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d1)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
module {
  func.func @linear_3d(%arg0: tensor<3x16x32xbf16>, %arg1: tensor<40x32xbf16>, %arg2: tensor<40xbf16>) -> tensor<3x16x40xbf16> {
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant 1.000000e+00 : f32
    %collapsed = tensor.collapse_shape %arg0 [[0, 1], [2]] : tensor<3x16x32xbf16> into tensor<48x32xbf16>
    %0 = tensor.empty() : tensor<32x40xbf16>
    %transposed = linalg.transpose ins(%arg1 : tensor<40x32xbf16>) outs(%0 : tensor<32x40xbf16>) permutation = [1, 0] 
    %1 = tensor.empty() : tensor<48x40xf32>
    %2 = linalg.fill ins(%cst : f32) outs(%1 : tensor<48x40xf32>) -> tensor<48x40xf32>
    %3 = linalg.matmul ins(%collapsed, %transposed : tensor<48x32xbf16>, tensor<32x40xbf16>) outs(%2 : tensor<48x40xf32>) -> tensor<48x40xf32>
    %4 = tensor.empty() : tensor<48x40xbf16>
    %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%3 : tensor<48x40xf32>) outs(%4 : tensor<48x40xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %13 = arith.truncf %in : f32 to bf16
      linalg.yield %13 : bf16
    } -> tensor<48x40xbf16>
    %6 = linalg.generic {indexing_maps = [#map1, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg2, %5 : tensor<40xbf16>, tensor<48x40xbf16>) outs(%4 : tensor<48x40xbf16>) {
    ^bb0(%in: bf16, %in_1: bf16, %out: bf16):
      %13 = arith.addf %in, %in_1 : bf16
      linalg.yield %13 : bf16
    } -> tensor<48x40xbf16>
    %expanded = tensor.expand_shape %6 [[0, 1], [2]] output_shape [3, 16, 40] : tensor<48x40xbf16> into tensor<3x16x40xbf16>
    %7 = tensor.empty() : tensor<3x16x40xf32>
    %8 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded : tensor<3x16x40xbf16>) outs(%7 : tensor<3x16x40xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %13 = arith.extf %in : bf16 to f32
      linalg.yield %13 : f32
    } -> tensor<3x16x40xf32>
    %9 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel", "parallel"]} ins(%8 : tensor<3x16x40xf32>) outs(%7 : tensor<3x16x40xf32>) {
    ^bb0(%in: f32, %out: f32):
      %13 = arith.negf %in : f32
      %14 = math.exp %13 : f32
      %15 = arith.addf %14, %cst_0 : f32
      %16 = arith.divf %cst_0, %15 : f32
      linalg.yield %16 : f32
    } -> tensor<3x16x40xf32>
    %10 = linalg.generic {indexing_maps = [#map2, #map2, #map2], iterator_types = ["parallel", "parallel", "parallel"]} ins(%8, %9 : tensor<3x16x40xf32>, tensor<3x16x40xf32>) outs(%7 : tensor<3x16x40xf32>) {
    ^bb0(%in: f32, %in_1: f32, %out: f32):
      %13 = arith.mulf %in, %in_1 : f32
      linalg.yield %13 : f32
    } -> tensor<3x16x40xf32>
    %11 = tensor.empty() : tensor<3x16x40xbf16>
    %12 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel", "parallel", "parallel"]} ins(%10 : tensor<3x16x40xf32>) outs(%11 : tensor<3x16x40xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %13 = arith.truncf %in : f32 to bf16
      linalg.yield %13 : bf16
    } -> tensor<3x16x40xbf16>
    return %12 : tensor<3x16x40xbf16>
  }
}

