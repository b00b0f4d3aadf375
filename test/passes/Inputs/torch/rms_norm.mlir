#map = affine_map<(d0) -> (d0)>
#map1 = affine_map<(d0, d1) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d1)>
#map3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map4 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#map5 = affine_map<(d0, d1, d2) -> (d2)>
module {
  func.func @rms_norm(%arg0: tensor<64x32xbf16>, %arg1: tensor<64xbf16>, %arg2: tensor<64xbf16>, %arg3: tensor<24x64xbf16>, %arg4: tensor<24xbf16>, %arg5: tensor<2x8x32xbf16>) -> tensor<2x8x24xbf16> {
    %c2_i64 = arith.constant 2 : i64
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant 1.000000e-05 : f64
    %cst_1 = arith.constant 6.400000e+01 : f32
    %collapsed = tensor.collapse_shape %arg5 [[0, 1], [2]] : tensor<2x8x32xbf16> into tensor<16x32xbf16>
    %0 = tensor.empty() : tensor<32x64xbf16>
    %transposed = linalg.transpose ins(%arg0 : tensor<64x32xbf16>) outs(%0 : tensor<32x64xbf16>) permutation = [1, 0] 
    %1 = tensor.empty() : tensor<64xf32>
    %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%arg1 : tensor<64xbf16>) outs(%1 : tensor<64xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %39 = arith.extf %in : bf16 to f32
      linalg.yield %39 : f32
    } -> tensor<64xf32>
    %3 = tensor.empty() : tensor<16x32xf32>
    %4 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%collapsed : tensor<16x32xbf16>) outs(%3 : tensor<16x32xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %39 = arith.extf %in : bf16 to f32
      linalg.yield %39 : f32
    } -> tensor<16x32xf32>
    %5 = tensor.empty() : tensor<32x64xf32>
    %6 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%transposed : tensor<32x64xbf16>) outs(%5 : tensor<32x64xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %39 = arith.extf %in : bf16 to f32
      linalg.yield %39 : f32
    } -> tensor<32x64xf32>
    %7 = tensor.empty() : tensor<16x64xf32>
    %8 = linalg.fill ins(%cst : f32) outs(%7 : tensor<16x64xf32>) -> tensor<16x64xf32>
    %9 = linalg.matmul ins(%4, %6 : tensor<16x32xf32>, tensor<32x64xf32>) outs(%8 : tensor<16x64xf32>) -> tensor<16x64xf32>
    %10 = linalg.generic {indexing_maps = [#map1, #map2, #map1], iterator_types = ["parallel", "parallel"]} ins(%9, %2 : tensor<16x64xf32>, tensor<64xf32>) outs(%7 : tensor<16x64xf32>) {
    ^bb0(%in: f32, %in_5: f32, %out: f32):
      %39 = arith.addf %in, %in_5 : f32
      linalg.yield %39 : f32
    } -> tensor<16x64xf32>
    %11 = tensor.empty() : tensor<16x64xbf16>
    %12 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%10 : tensor<16x64xf32>) outs(%11 : tensor<16x64xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %39 = arith.truncf %in : f32 to bf16
      linalg.yield %39 : bf16
    } -> tensor<16x64xbf16>
    %expanded = tensor.expand_shape %12 [[0, 1], [2]] output_shape [2, 8, 64] : tensor<16x64xbf16> into tensor<2x8x64xbf16>
    %13 = tensor.empty() : tensor<2x8x64xf32>
    %14 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded : tensor<2x8x64xbf16>) outs(%13 : tensor<2x8x64xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %39 = arith.extf %in : bf16 to f32
      linalg.yield %39 : f32
    } -> tensor<2x8x64xf32>
    %15 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%14 : tensor<2x8x64xf32>) outs(%13 : tensor<2x8x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      %39 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %39 : f32
    } -> tensor<2x8x64xf32>
    %16 = tensor.empty() : tensor<2x8x1xf32>
    %17 = linalg.fill ins(%cst : f32) outs(%16 : tensor<2x8x1xf32>) -> tensor<2x8x1xf32>
    %18 = linalg.generic {indexing_maps = [#map3, #map4], iterator_types = ["parallel", "parallel", "reduction"]} ins(%15 : tensor<2x8x64xf32>) outs(%17 : tensor<2x8x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %39 = arith.addf %in, %out : f32
      linalg.yield %39 : f32
    } -> tensor<2x8x1xf32>
    %19 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%18 : tensor<2x8x1xf32>) outs(%16 : tensor<2x8x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %39 = arith.divf %in, %cst_1 : f32
      linalg.yield %39 : f32
    } -> tensor<2x8x1xf32>
    %20 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%19 : tensor<2x8x1xf32>) outs(%16 : tensor<2x8x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %39 = arith.truncf %cst_0 : f64 to f32
      %40 = arith.addf %in, %39 : f32
      linalg.yield %40 : f32
    } -> tensor<2x8x1xf32>
    %21 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%20 : tensor<2x8x1xf32>) outs(%16 : tensor<2x8x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %39 = math.rsqrt %in : f32
      linalg.yield %39 : f32
    } -> tensor<2x8x1xf32>
    %22 = tensor.empty() : tensor<2x8x1xbf16>
    %23 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%21 : tensor<2x8x1xf32>) outs(%22 : tensor<2x8x1xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %39 = arith.truncf %in : f32 to bf16
      linalg.yield %39 : bf16
    } -> tensor<2x8x1xbf16>
    %24 = tensor.empty() : tensor<2x8x64xbf16>
    %25 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded, %23 : tensor<2x8x64xbf16>, tensor<2x8x1xbf16>) outs(%24 : tensor<2x8x64xbf16>) {
    ^bb0(%in: bf16, %in_5: bf16, %out: bf16):
      %39 = arith.mulf %in, %in_5 : bf16
      linalg.yield %39 : bf16
    } -> tensor<2x8x64xbf16>
    %26 = linalg.generic {indexing_maps = [#map3, #map5, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%25, %arg2 : tensor<2x8x64xbf16>, tensor<64xbf16>) outs(%24 : tensor<2x8x64xbf16>) {
    ^bb0(%in: bf16, %in_5: bf16, %out: bf16):
      %39 = arith.mulf %in, %in_5 : bf16
      linalg.yield %39 : bf16
    } -> tensor<2x8x64xbf16>
    %collapsed_2 = tensor.collapse_shape %26 [[0, 1], [2]] : tensor<2x8x64xbf16> into tensor<16x64xbf16>
    %27 = tensor.empty() : tensor<64x24xbf16>
    %transposed_3 = linalg.transpose ins(%arg3 : tensor<24x64xbf16>) outs(%27 : tensor<64x24xbf16>) permutation = [1, 0] 
    %28 = tensor.empty() : tensor<24xf32>
    %29 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%arg4 : tensor<24xbf16>) outs(%28 : tensor<24xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %39 = arith.extf %in : bf16 to f32
      linalg.yield %39 : f32
    } -> tensor<24xf32>
    %30 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%collapsed_2 : tensor<16x64xbf16>) outs(%7 : tensor<16x64xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %39 = arith.extf %in : bf16 to f32
      linalg.yield %39 : f32
    } -> tensor<16x64xf32>
    %31 = tensor.empty() : tensor<64x24xf32>
    %32 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%transposed_3 : tensor<64x24xbf16>) outs(%31 : tensor<64x24xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %39 = arith.extf %in : bf16 to f32
      linalg.yield %39 : f32
    } -> tensor<64x24xf32>
    %33 = tensor.empty() : tensor<16x24xf32>
    %34 = linalg.fill ins(%cst : f32) outs(%33 : tensor<16x24xf32>) -> tensor<16x24xf32>
    %35 = linalg.matmul ins(%30, %32 : tensor<16x64xf32>, tensor<64x24xf32>) outs(%34 : tensor<16x24xf32>) -> tensor<16x24xf32>
    %36 = linalg.generic {indexing_maps = [#map1, #map2, #map1], iterator_types = ["parallel", "parallel"]} ins(%35, %29 : tensor<16x24xf32>, tensor<24xf32>) outs(%33 : tensor<16x24xf32>) {
    ^bb0(%in: f32, %in_5: f32, %out: f32):
      %39 = arith.addf %in, %in_5 : f32
      linalg.yield %39 : f32
    } -> tensor<16x24xf32>
    %37 = tensor.empty() : tensor<16x24xbf16>
    %38 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%36 : tensor<16x24xf32>) outs(%37 : tensor<16x24xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %39 = arith.truncf %in : f32 to bf16
      linalg.yield %39 : bf16
    } -> tensor<16x24xbf16>
    %expanded_4 = tensor.expand_shape %38 [[0, 1], [2]] output_shape [2, 8, 24] : tensor<16x24xbf16> into tensor<2x8x24xbf16>
    return %expanded_4 : tensor<2x8x24xbf16>
  }
}
