#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d1)>
module {
  func.func @mlp(%arg0: tensor<48x32xbf16>, %arg1: tensor<64x32xbf16>, %arg2: tensor<64xbf16>, %arg3: tensor<24x64xbf16>, %arg4: tensor<24xbf16>) -> tensor<48x24xbf16> {
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant 1.000000e+00 : bf16
    %cst_1 = arith.constant 2.000000e+00 : bf16
    %cst_2 = arith.constant 5.000000e-01 : bf16
    %0 = tensor.empty() : tensor<32x64xbf16>
    %transposed = linalg.transpose ins(%arg1 : tensor<64x32xbf16>) outs(%0 : tensor<32x64xbf16>) permutation = [1, 0] 
    %1 = tensor.empty() : tensor<48x64xf32>
    %2 = linalg.fill ins(%cst : f32) outs(%1 : tensor<48x64xf32>) -> tensor<48x64xf32>
    %3 = linalg.matmul ins(%arg0, %transposed : tensor<48x32xbf16>, tensor<32x64xbf16>) outs(%2 : tensor<48x64xf32>) -> tensor<48x64xf32>
    %4 = tensor.empty() : tensor<48x64xbf16>
    %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%3 : tensor<48x64xf32>) outs(%4 : tensor<48x64xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %15 = arith.truncf %in : f32 to bf16
      linalg.yield %15 : bf16
    } -> tensor<48x64xbf16>
    %6 = linalg.generic {indexing_maps = [#map1, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg2, %5 : tensor<64xbf16>, tensor<48x64xbf16>) outs(%4 : tensor<48x64xbf16>) {
    ^bb0(%in: bf16, %in_4: bf16, %out: bf16):
      %15 = arith.addf %in, %in_4 : bf16
      linalg.yield %15 : bf16
    } -> tensor<48x64xbf16>
    %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%6 : tensor<48x64xbf16>) outs(%4 : tensor<48x64xbf16>) {
    ^bb0(%in: bf16, %out: bf16):
      %15 = math.sqrt %cst_1 : bf16
      %16 = arith.divf %in, %15 : bf16
      %17 = math.erf %16 : bf16
      %18 = arith.addf %17, %cst_0 : bf16
      %19 = arith.mulf %18, %cst_2 : bf16
      %20 = arith.mulf %in, %19 : bf16
      linalg.yield %20 : bf16
    } -> tensor<48x64xbf16>
    %8 = tensor.empty() : tensor<64x24xbf16>
    %transposed_3 = linalg.transpose ins(%arg3 : tensor<24x64xbf16>) outs(%8 : tensor<64x24xbf16>) permutation = [1, 0] 
    %9 = tensor.empty() : tensor<48x24xf32>
    %10 = linalg.fill ins(%cst : f32) outs(%9 : tensor<48x24xf32>) -> tensor<48x24xf32>
    %11 = linalg.matmul ins(%7, %transposed_3 : tensor<48x64xbf16>, tensor<64x24xbf16>) outs(%10 : tensor<48x24xf32>) -> tensor<48x24xf32>
    %12 = tensor.empty() : tensor<48x24xbf16>
    %13 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%11 : tensor<48x24xf32>) outs(%12 : tensor<48x24xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %15 = arith.truncf %in : f32 to bf16
      linalg.yield %15 : bf16
    } -> tensor<48x24xbf16>
    %14 = linalg.generic {indexing_maps = [#map1, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg4, %13 : tensor<24xbf16>, tensor<48x24xbf16>) outs(%12 : tensor<48x24xbf16>) {
    ^bb0(%in: bf16, %in_4: bf16, %out: bf16):
      %15 = arith.addf %in, %in_4 : bf16
      linalg.yield %15 : bf16
    } -> tensor<48x24xbf16>
    return %14 : tensor<48x24xbf16>
  }
}

