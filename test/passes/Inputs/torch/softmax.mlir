#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0, d1) -> (d0, 0)>
module {
  func.func @softmax(%arg0: tensor<48x32xbf16>, %arg1: tensor<32x40xbf16>) -> tensor<48x40xbf16> {
    %cst = arith.constant 0.000000e+00 : f32
    %c0_i64 = arith.constant 0 : i64
    %cst_0 = arith.constant 0xFF800000 : f32
    %0 = tensor.empty() : tensor<48x40xf32>
    %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<48x40xf32>) -> tensor<48x40xf32>
    %2 = linalg.matmul ins(%arg0, %arg1 : tensor<48x32xbf16>, tensor<32x40xbf16>) outs(%1 : tensor<48x40xf32>) -> tensor<48x40xf32>
    %3 = tensor.empty() : tensor<48x40xbf16>
    %4 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<48x40xf32>) outs(%3 : tensor<48x40xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %18 = arith.truncf %in : f32 to bf16
      linalg.yield %18 : bf16
    } -> tensor<48x40xbf16>
    %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%4 : tensor<48x40xbf16>) outs(%0 : tensor<48x40xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %18 = arith.extf %in : bf16 to f32
      linalg.yield %18 : f32
    } -> tensor<48x40xf32>
    %6 = tensor.empty() : tensor<48xi64>
    %7 = linalg.fill ins(%c0_i64 : i64) outs(%6 : tensor<48xi64>) -> tensor<48xi64>
    %8 = tensor.empty() : tensor<48xf32>
    %9 = linalg.fill ins(%cst_0 : f32) outs(%8 : tensor<48xf32>) -> tensor<48xf32>
    %10:2 = linalg.generic {indexing_maps = [#map, #map1, #map1], iterator_types = ["parallel", "reduction"]} ins(%5 : tensor<48x40xf32>) outs(%9, %7 : tensor<48xf32>, tensor<48xi64>) {
    ^bb0(%in: f32, %out: f32, %out_1: i64):
      %18 = linalg.index 1 : index
      %19 = arith.index_cast %18 : index to i64
      %20 = arith.maximumf %in, %out : f32
      %21 = arith.cmpf ogt, %in, %out : f32
      %22 = arith.select %21, %19, %out_1 : i64
      linalg.yield %20, %22 : f32, i64
    } -> (tensor<48xf32>, tensor<48xi64>)
    %expanded = tensor.expand_shape %10#0 [[0, 1]] output_shape [48, 1] : tensor<48xf32> into tensor<48x1xf32>
    %11 = linalg.generic {indexing_maps = [#map, #map2, #map], iterator_types = ["parallel", "parallel"]} ins(%5, %expanded : tensor<48x40xf32>, tensor<48x1xf32>) outs(%0 : tensor<48x40xf32>) {
    ^bb0(%in: f32, %in_1: f32, %out: f32):
      %18 = arith.subf %in, %in_1 : f32
      linalg.yield %18 : f32
    } -> tensor<48x40xf32>
    %12 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%11 : tensor<48x40xf32>) outs(%0 : tensor<48x40xf32>) {
    ^bb0(%in: f32, %out: f32):
      %18 = math.exp %in : f32
      linalg.yield %18 : f32
    } -> tensor<48x40xf32>
    %13 = tensor.empty() : tensor<48x1xf32>
    %14 = linalg.fill ins(%cst : f32) outs(%13 : tensor<48x1xf32>) -> tensor<48x1xf32>
    %15 = linalg.generic {indexing_maps = [#map, #map2], iterator_types = ["parallel", "reduction"]} ins(%12 : tensor<48x40xf32>) outs(%14 : tensor<48x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %18 = arith.addf %in, %out : f32
      linalg.yield %18 : f32
    } -> tensor<48x1xf32>
    %16 = linalg.generic {indexing_maps = [#map, #map2, #map], iterator_types = ["parallel", "parallel"]} ins(%12, %15 : tensor<48x40xf32>, tensor<48x1xf32>) outs(%0 : tensor<48x40xf32>) {
    ^bb0(%in: f32, %in_1: f32, %out: f32):
      %18 = arith.divf %in, %in_1 : f32
      linalg.yield %18 : f32
    } -> tensor<48x40xf32>
    %17 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%16 : tensor<48x40xf32>) outs(%3 : tensor<48x40xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %18 = arith.truncf %in : f32 to bf16
      linalg.yield %18 : bf16
    } -> tensor<48x40xbf16>
    return %17 : tensor<48x40xbf16>
  }
}

