#map = affine_map<(d0) -> (d0)>
#map1 = affine_map<(d0, d1) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d1)>
#map3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map4 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#map5 = affine_map<(d0, d1, d2) -> (d2)>
module {
  func.func @layer_norm(%arg0: tensor<64x32xbf16>, %arg1: tensor<64xbf16>, %arg2: tensor<64xbf16>, %arg3: tensor<64xbf16>, %arg4: tensor<24x64xbf16>, %arg5: tensor<24xbf16>, %arg6: tensor<2x8x32xbf16>) -> tensor<2x8x24xbf16> {
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant 0.000000e+00 : f64
    %cst_1 = arith.constant 1.000000e-05 : f64
    %cst_2 = arith.constant 6.400000e+01 : f64
    %cst_3 = arith.constant 6.400000e+01 : f32
    %collapsed = tensor.collapse_shape %arg6 [[0, 1], [2]] : tensor<2x8x32xbf16> into tensor<16x32xbf16>
    %0 = tensor.empty() : tensor<32x64xbf16>
    %transposed = linalg.transpose ins(%arg0 : tensor<64x32xbf16>) outs(%0 : tensor<32x64xbf16>) permutation = [1, 0] 
    %1 = tensor.empty() : tensor<64xf32>
    %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%arg1 : tensor<64xbf16>) outs(%1 : tensor<64xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %50 = arith.extf %in : bf16 to f32
      linalg.yield %50 : f32
    } -> tensor<64xf32>
    %3 = tensor.empty() : tensor<16x32xf32>
    %4 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%collapsed : tensor<16x32xbf16>) outs(%3 : tensor<16x32xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %50 = arith.extf %in : bf16 to f32
      linalg.yield %50 : f32
    } -> tensor<16x32xf32>
    %5 = tensor.empty() : tensor<32x64xf32>
    %6 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%transposed : tensor<32x64xbf16>) outs(%5 : tensor<32x64xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %50 = arith.extf %in : bf16 to f32
      linalg.yield %50 : f32
    } -> tensor<32x64xf32>
    %7 = tensor.empty() : tensor<16x64xf32>
    %8 = linalg.fill ins(%cst : f32) outs(%7 : tensor<16x64xf32>) -> tensor<16x64xf32>
    %9 = linalg.matmul ins(%4, %6 : tensor<16x32xf32>, tensor<32x64xf32>) outs(%8 : tensor<16x64xf32>) -> tensor<16x64xf32>
    %10 = linalg.generic {indexing_maps = [#map1, #map2, #map1], iterator_types = ["parallel", "parallel"]} ins(%9, %2 : tensor<16x64xf32>, tensor<64xf32>) outs(%7 : tensor<16x64xf32>) {
    ^bb0(%in: f32, %in_7: f32, %out: f32):
      %50 = arith.addf %in, %in_7 : f32
      linalg.yield %50 : f32
    } -> tensor<16x64xf32>
    %11 = tensor.empty() : tensor<16x64xbf16>
    %12 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%10 : tensor<16x64xf32>) outs(%11 : tensor<16x64xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %50 = arith.truncf %in : f32 to bf16
      linalg.yield %50 : bf16
    } -> tensor<16x64xbf16>
    %expanded = tensor.expand_shape %12 [[0, 1], [2]] output_shape [2, 8, 64] : tensor<16x64xbf16> into tensor<2x8x64xbf16>
    %13 = tensor.empty() : tensor<2x8x64xf32>
    %14 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded : tensor<2x8x64xbf16>) outs(%13 : tensor<2x8x64xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %50 = arith.extf %in : bf16 to f32
      linalg.yield %50 : f32
    } -> tensor<2x8x64xf32>
    %15 = tensor.empty() : tensor<2x8x64xf64>
    %16 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%14 : tensor<2x8x64xf32>) outs(%15 : tensor<2x8x64xf64>) {
    ^bb0(%in: f32, %out: f64):
      %50 = arith.extf %in : f32 to f64
      linalg.yield %50 : f64
    } -> tensor<2x8x64xf64>
    %17 = tensor.empty() : tensor<2x8x1xf64>
    %18 = linalg.fill ins(%cst_0 : f64) outs(%17 : tensor<2x8x1xf64>) -> tensor<2x8x1xf64>
    %19 = linalg.generic {indexing_maps = [#map3, #map4], iterator_types = ["parallel", "parallel", "reduction"]} ins(%16 : tensor<2x8x64xf64>) outs(%18 : tensor<2x8x1xf64>) {
    ^bb0(%in: f64, %out: f64):
      %50 = arith.addf %in, %out : f64
      linalg.yield %50 : f64
    } -> tensor<2x8x1xf64>
    %20 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%19 : tensor<2x8x1xf64>) outs(%17 : tensor<2x8x1xf64>) {
    ^bb0(%in: f64, %out: f64):
      %50 = arith.divf %in, %cst_2 : f64
      linalg.yield %50 : f64
    } -> tensor<2x8x1xf64>
    %21 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%16, %20 : tensor<2x8x64xf64>, tensor<2x8x1xf64>) outs(%15 : tensor<2x8x64xf64>) {
    ^bb0(%in: f64, %in_7: f64, %out: f64):
      %50 = arith.subf %in, %in_7 : f64
      linalg.yield %50 : f64
    } -> tensor<2x8x64xf64>
    %22 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%21, %21 : tensor<2x8x64xf64>, tensor<2x8x64xf64>) outs(%15 : tensor<2x8x64xf64>) {
    ^bb0(%in: f64, %in_7: f64, %out: f64):
      %50 = arith.mulf %in, %in_7 : f64
      linalg.yield %50 : f64
    } -> tensor<2x8x64xf64>
    %23 = linalg.generic {indexing_maps = [#map3, #map4], iterator_types = ["parallel", "parallel", "reduction"]} ins(%22 : tensor<2x8x64xf64>) outs(%18 : tensor<2x8x1xf64>) {
    ^bb0(%in: f64, %out: f64):
      %50 = arith.addf %in, %out : f64
      linalg.yield %50 : f64
    } -> tensor<2x8x1xf64>
    %24 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%23 : tensor<2x8x1xf64>) outs(%17 : tensor<2x8x1xf64>) {
    ^bb0(%in: f64, %out: f64):
      %50 = arith.divf %in, %cst_2 : f64
      linalg.yield %50 : f64
    } -> tensor<2x8x1xf64>
    %25 = tensor.empty() : tensor<2x8x1xf32>
    %26 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%24 : tensor<2x8x1xf64>) outs(%25 : tensor<2x8x1xf32>) {
    ^bb0(%in: f64, %out: f32):
      %50 = arith.truncf %in : f64 to f32
      linalg.yield %50 : f32
    } -> tensor<2x8x1xf32>
    %27 = linalg.fill ins(%cst : f32) outs(%25 : tensor<2x8x1xf32>) -> tensor<2x8x1xf32>
    %28 = linalg.generic {indexing_maps = [#map3, #map4], iterator_types = ["parallel", "parallel", "reduction"]} ins(%14 : tensor<2x8x64xf32>) outs(%27 : tensor<2x8x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = arith.addf %in, %out : f32
      linalg.yield %50 : f32
    } -> tensor<2x8x1xf32>
    %29 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%28 : tensor<2x8x1xf32>) outs(%25 : tensor<2x8x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = arith.divf %in, %cst_3 : f32
      linalg.yield %50 : f32
    } -> tensor<2x8x1xf32>
    %30 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%26 : tensor<2x8x1xf32>) outs(%25 : tensor<2x8x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = arith.truncf %cst_1 : f64 to f32
      %51 = arith.addf %in, %50 : f32
      linalg.yield %51 : f32
    } -> tensor<2x8x1xf32>
    %31 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%30 : tensor<2x8x1xf32>) outs(%25 : tensor<2x8x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %50 = math.rsqrt %in : f32
      linalg.yield %50 : f32
    } -> tensor<2x8x1xf32>
    %32 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%14, %29 : tensor<2x8x64xf32>, tensor<2x8x1xf32>) outs(%13 : tensor<2x8x64xf32>) {
    ^bb0(%in: f32, %in_7: f32, %out: f32):
      %50 = arith.subf %in, %in_7 : f32
      linalg.yield %50 : f32
    } -> tensor<2x8x64xf32>
    %33 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%32, %31 : tensor<2x8x64xf32>, tensor<2x8x1xf32>) outs(%13 : tensor<2x8x64xf32>) {
    ^bb0(%in: f32, %in_7: f32, %out: f32):
      %50 = arith.mulf %in, %in_7 : f32
      linalg.yield %50 : f32
    } -> tensor<2x8x64xf32>
    %34 = linalg.generic {indexing_maps = [#map3, #map5, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%33, %arg2 : tensor<2x8x64xf32>, tensor<64xbf16>) outs(%13 : tensor<2x8x64xf32>) {
    ^bb0(%in: f32, %in_7: bf16, %out: f32):
      %50 = arith.extf %in_7 : bf16 to f32
      %51 = arith.mulf %in, %50 : f32
      linalg.yield %51 : f32
    } -> tensor<2x8x64xf32>
    %35 = linalg.generic {indexing_maps = [#map3, #map5, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%34, %arg3 : tensor<2x8x64xf32>, tensor<64xbf16>) outs(%13 : tensor<2x8x64xf32>) {
    ^bb0(%in: f32, %in_7: bf16, %out: f32):
      %50 = arith.extf %in_7 : bf16 to f32
      %51 = arith.addf %in, %50 : f32
      linalg.yield %51 : f32
    } -> tensor<2x8x64xf32>
    %36 = tensor.empty() : tensor<2x8x64xbf16>
    %37 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%35 : tensor<2x8x64xf32>) outs(%36 : tensor<2x8x64xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %50 = arith.truncf %in : f32 to bf16
      linalg.yield %50 : bf16
    } -> tensor<2x8x64xbf16>
    %collapsed_4 = tensor.collapse_shape %37 [[0, 1], [2]] : tensor<2x8x64xbf16> into tensor<16x64xbf16>
    %38 = tensor.empty() : tensor<64x24xbf16>
    %transposed_5 = linalg.transpose ins(%arg4 : tensor<24x64xbf16>) outs(%38 : tensor<64x24xbf16>) permutation = [1, 0] 
    %39 = tensor.empty() : tensor<24xf32>
    %40 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%arg5 : tensor<24xbf16>) outs(%39 : tensor<24xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %50 = arith.extf %in : bf16 to f32
      linalg.yield %50 : f32
    } -> tensor<24xf32>
    %41 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%collapsed_4 : tensor<16x64xbf16>) outs(%7 : tensor<16x64xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %50 = arith.extf %in : bf16 to f32
      linalg.yield %50 : f32
    } -> tensor<16x64xf32>
    %42 = tensor.empty() : tensor<64x24xf32>
    %43 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%transposed_5 : tensor<64x24xbf16>) outs(%42 : tensor<64x24xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %50 = arith.extf %in : bf16 to f32
      linalg.yield %50 : f32
    } -> tensor<64x24xf32>
    %44 = tensor.empty() : tensor<16x24xf32>
    %45 = linalg.fill ins(%cst : f32) outs(%44 : tensor<16x24xf32>) -> tensor<16x24xf32>
    %46 = linalg.matmul ins(%41, %43 : tensor<16x64xf32>, tensor<64x24xf32>) outs(%45 : tensor<16x24xf32>) -> tensor<16x24xf32>
    %47 = linalg.generic {indexing_maps = [#map1, #map2, #map1], iterator_types = ["parallel", "parallel"]} ins(%46, %40 : tensor<16x24xf32>, tensor<24xf32>) outs(%44 : tensor<16x24xf32>) {
    ^bb0(%in: f32, %in_7: f32, %out: f32):
      %50 = arith.addf %in, %in_7 : f32
      linalg.yield %50 : f32
    } -> tensor<16x24xf32>
    %48 = tensor.empty() : tensor<16x24xbf16>
    %49 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%47 : tensor<16x24xf32>) outs(%48 : tensor<16x24xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %50 = arith.truncf %in : f32 to bf16
      linalg.yield %50 : bf16
    } -> tensor<16x24xbf16>
    %expanded_6 = tensor.expand_shape %49 [[0, 1], [2]] output_shape [2, 8, 24] : tensor<16x24xbf16> into tensor<2x8x24xbf16>
    return %expanded_6 : tensor<2x8x24xbf16>
  }
}
