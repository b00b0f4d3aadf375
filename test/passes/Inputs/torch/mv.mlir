#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0) -> (d0)>
#map2 = affine_map<(d0, d1) -> (d1)>
#map3 = affine_map<(d0, d1) -> (d0)>
module {
  func.func @mv(%arg0: tensor<48x32xbf16>, %arg1: tensor<32xbf16>) -> tensor<48xbf16> {
    %cst = arith.constant 0.000000e+00 : f32
    %0 = tensor.empty() : tensor<48x32xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<48x32xbf16>) outs(%0 : tensor<48x32xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %10 = arith.extf %in : bf16 to f32
      linalg.yield %10 : f32
    } -> tensor<48x32xf32>
    %2 = tensor.empty() : tensor<32xf32>
    %3 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%arg1 : tensor<32xbf16>) outs(%2 : tensor<32xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %10 = arith.extf %in : bf16 to f32
      linalg.yield %10 : f32
    } -> tensor<32xf32>
    %4 = linalg.generic {indexing_maps = [#map, #map2, #map], iterator_types = ["parallel", "parallel"]} ins(%1, %3 : tensor<48x32xf32>, tensor<32xf32>) outs(%0 : tensor<48x32xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %10 = arith.mulf %in, %in_0 : f32
      linalg.yield %10 : f32
    } -> tensor<48x32xf32>
    %5 = tensor.empty() : tensor<48xf32>
    %6 = linalg.fill ins(%cst : f32) outs(%5 : tensor<48xf32>) -> tensor<48xf32>
    %7 = linalg.generic {indexing_maps = [#map, #map3], iterator_types = ["parallel", "reduction"]} ins(%4 : tensor<48x32xf32>) outs(%6 : tensor<48xf32>) {
    ^bb0(%in: f32, %out: f32):
      %10 = arith.addf %in, %out : f32
      linalg.yield %10 : f32
    } -> tensor<48xf32>
    %8 = tensor.empty() : tensor<48xbf16>
    %9 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel"]} ins(%7 : tensor<48xf32>) outs(%8 : tensor<48xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %10 = arith.truncf %in : f32 to bf16
      linalg.yield %10 : bf16
    } -> tensor<48xbf16>
    return %9 : tensor<48xbf16>
  }
}

