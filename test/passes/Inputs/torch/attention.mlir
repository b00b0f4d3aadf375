#map = affine_map<(d0) -> (d0)>
#map1 = affine_map<(d0, d1) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d1)>
#map3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map5 = affine_map<(d0, d1, d2, d3) -> (d2, d3)>
#map6 = affine_map<(d0, d1, d2, d3) -> ()>
#map7 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#map8 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, 0)>
module {
  func.func @attention(%arg0: tensor<96x32xbf16>, %arg1: tensor<96xbf16>, %arg2: tensor<32x32xbf16>, %arg3: tensor<32xbf16>, %arg4: tensor<2x8x32xbf16>, %arg5: tensor<8x8xi1>) -> tensor<2x8x32xbf16> {
    %c0_i64 = arith.constant 0 : i64
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant 0xFF800000 : f32
    %cst_1 = arith.constant dense<0xFF80> : tensor<bf16>
    %cst_2 = arith.constant 2.500000e-01 : bf16
    %collapsed = tensor.collapse_shape %arg4 [[0, 1], [2]] : tensor<2x8x32xbf16> into tensor<16x32xbf16>
    %0 = tensor.empty() : tensor<32x96xbf16>
    %transposed = linalg.transpose ins(%arg0 : tensor<96x32xbf16>) outs(%0 : tensor<32x96xbf16>) permutation = [1, 0] 
    %1 = tensor.empty() : tensor<96xf32>
    %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%arg1 : tensor<96xbf16>) outs(%1 : tensor<96xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %54 = arith.extf %in : bf16 to f32
      linalg.yield %54 : f32
    } -> tensor<96xf32>
    %3 = tensor.empty() : tensor<16x32xf32>
    %4 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%collapsed : tensor<16x32xbf16>) outs(%3 : tensor<16x32xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %54 = arith.extf %in : bf16 to f32
      linalg.yield %54 : f32
    } -> tensor<16x32xf32>
    %5 = tensor.empty() : tensor<32x96xf32>
    %6 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%transposed : tensor<32x96xbf16>) outs(%5 : tensor<32x96xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %54 = arith.extf %in : bf16 to f32
      linalg.yield %54 : f32
    } -> tensor<32x96xf32>
    %7 = tensor.empty() : tensor<16x96xf32>
    %8 = linalg.fill ins(%cst : f32) outs(%7 : tensor<16x96xf32>) -> tensor<16x96xf32>
    %9 = linalg.matmul ins(%4, %6 : tensor<16x32xf32>, tensor<32x96xf32>) outs(%8 : tensor<16x96xf32>) -> tensor<16x96xf32>
    %10 = linalg.generic {indexing_maps = [#map1, #map2, #map1], iterator_types = ["parallel", "parallel"]} ins(%9, %2 : tensor<16x96xf32>, tensor<96xf32>) outs(%7 : tensor<16x96xf32>) {
    ^bb0(%in: f32, %in_22: f32, %out: f32):
      %54 = arith.addf %in, %in_22 : f32
      linalg.yield %54 : f32
    } -> tensor<16x96xf32>
    %11 = tensor.empty() : tensor<16x96xbf16>
    %12 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%10 : tensor<16x96xf32>) outs(%11 : tensor<16x96xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %54 = arith.truncf %in : f32 to bf16
      linalg.yield %54 : bf16
    } -> tensor<16x96xbf16>
    %expanded = tensor.expand_shape %12 [[0, 1], [2]] output_shape [2, 8, 96] : tensor<16x96xbf16> into tensor<2x8x96xbf16>
    %extracted_slice = tensor.extract_slice %expanded[0, 0, 0] [2, 8, 32] [1, 1, 1] : tensor<2x8x96xbf16> to tensor<2x8x32xbf16>
    %extracted_slice_3 = tensor.extract_slice %expanded[0, 0, 32] [2, 8, 32] [1, 1, 1] : tensor<2x8x96xbf16> to tensor<2x8x32xbf16>
    %extracted_slice_4 = tensor.extract_slice %expanded[0, 0, 64] [2, 8, 32] [1, 1, 1] : tensor<2x8x96xbf16> to tensor<2x8x32xbf16>
    %expanded_5 = tensor.expand_shape %extracted_slice [[0], [1], [2, 3]] output_shape [2, 8, 2, 16] : tensor<2x8x32xbf16> into tensor<2x8x2x16xbf16>
    %13 = tensor.empty() : tensor<2x2x8x16xbf16>
    %transposed_6 = linalg.transpose ins(%expanded_5 : tensor<2x8x2x16xbf16>) outs(%13 : tensor<2x2x8x16xbf16>) permutation = [0, 2, 1, 3] 
    %expanded_7 = tensor.expand_shape %extracted_slice_3 [[0], [1], [2, 3]] output_shape [2, 8, 2, 16] : tensor<2x8x32xbf16> into tensor<2x8x2x16xbf16>
    %expanded_8 = tensor.expand_shape %extracted_slice_4 [[0], [1], [2, 3]] output_shape [2, 8, 2, 16] : tensor<2x8x32xbf16> into tensor<2x8x2x16xbf16>
    %transposed_9 = linalg.transpose ins(%expanded_8 : tensor<2x8x2x16xbf16>) outs(%13 : tensor<2x2x8x16xbf16>) permutation = [0, 2, 1, 3] 
    %14 = tensor.empty() : tensor<2x2x16x8xbf16>
    %transposed_10 = linalg.transpose ins(%expanded_7 : tensor<2x8x2x16xbf16>) outs(%14 : tensor<2x2x16x8xbf16>) permutation = [0, 2, 3, 1] 
    %collapsed_11 = tensor.collapse_shape %transposed_6 [[0, 1], [2], [3]] : tensor<2x2x8x16xbf16> into tensor<4x8x16xbf16>
    %collapsed_12 = tensor.collapse_shape %transposed_10 [[0, 1], [2], [3]] : tensor<2x2x16x8xbf16> into tensor<4x16x8xbf16>
    %15 = tensor.empty() : tensor<4x8x8xf32>
    %16 = linalg.fill ins(%cst : f32) outs(%15 : tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
    %17 = linalg.batch_matmul ins(%collapsed_11, %collapsed_12 : tensor<4x8x16xbf16>, tensor<4x16x8xbf16>) outs(%16 : tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
    %18 = tensor.empty() : tensor<4x8x8xbf16>
    %19 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%17 : tensor<4x8x8xf32>) outs(%18 : tensor<4x8x8xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %54 = arith.truncf %in : f32 to bf16
      linalg.yield %54 : bf16
    } -> tensor<4x8x8xbf16>
    %expanded_13 = tensor.expand_shape %19 [[0, 1], [2], [3]] output_shape [2, 2, 8, 8] : tensor<4x8x8xbf16> into tensor<2x2x8x8xbf16>
    %20 = tensor.empty() : tensor<2x2x8x8xbf16>
    %21 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_13 : tensor<2x2x8x8xbf16>) outs(%20 : tensor<2x2x8x8xbf16>) {
    ^bb0(%in: bf16, %out: bf16):
      %54 = arith.mulf %in, %cst_2 : bf16
      linalg.yield %54 : bf16
    } -> tensor<2x2x8x8xbf16>
    %22 = linalg.generic {indexing_maps = [#map5, #map6, #map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg5, %cst_1, %21 : tensor<8x8xi1>, tensor<bf16>, tensor<2x2x8x8xbf16>) outs(%20 : tensor<2x2x8x8xbf16>) {
    ^bb0(%in: i1, %in_22: bf16, %in_23: bf16, %out: bf16):
      %54 = arith.select %in, %in_22, %in_23 : bf16
      linalg.yield %54 : bf16
    } -> tensor<2x2x8x8xbf16>
    %23 = tensor.empty() : tensor<2x2x8x8xf32>
    %24 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%22 : tensor<2x2x8x8xbf16>) outs(%23 : tensor<2x2x8x8xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %54 = arith.extf %in : bf16 to f32
      linalg.yield %54 : f32
    } -> tensor<2x2x8x8xf32>
    %25 = tensor.empty() : tensor<2x2x8xi64>
    %26 = linalg.fill ins(%c0_i64 : i64) outs(%25 : tensor<2x2x8xi64>) -> tensor<2x2x8xi64>
    %27 = tensor.empty() : tensor<2x2x8xf32>
    %28 = linalg.fill ins(%cst_0 : f32) outs(%27 : tensor<2x2x8xf32>) -> tensor<2x2x8xf32>
    %29:2 = linalg.generic {indexing_maps = [#map4, #map7, #map7], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%24 : tensor<2x2x8x8xf32>) outs(%28, %26 : tensor<2x2x8xf32>, tensor<2x2x8xi64>) {
    ^bb0(%in: f32, %out: f32, %out_22: i64):
      %54 = linalg.index 3 : index
      %55 = arith.index_cast %54 : index to i64
      %56 = arith.maximumf %in, %out : f32
      %57 = arith.cmpf ogt, %in, %out : f32
      %58 = arith.select %57, %55, %out_22 : i64
      linalg.yield %56, %58 : f32, i64
    } -> (tensor<2x2x8xf32>, tensor<2x2x8xi64>)
    %expanded_14 = tensor.expand_shape %29#0 [[0], [1], [2, 3]] output_shape [2, 2, 8, 1] : tensor<2x2x8xf32> into tensor<2x2x8x1xf32>
    %30 = linalg.generic {indexing_maps = [#map4, #map8, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%24, %expanded_14 : tensor<2x2x8x8xf32>, tensor<2x2x8x1xf32>) outs(%23 : tensor<2x2x8x8xf32>) {
    ^bb0(%in: f32, %in_22: f32, %out: f32):
      %54 = arith.subf %in, %in_22 : f32
      linalg.yield %54 : f32
    } -> tensor<2x2x8x8xf32>
    %31 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%30 : tensor<2x2x8x8xf32>) outs(%23 : tensor<2x2x8x8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %54 = math.exp %in : f32
      linalg.yield %54 : f32
    } -> tensor<2x2x8x8xf32>
    %32 = tensor.empty() : tensor<2x2x8x1xf32>
    %33 = linalg.fill ins(%cst : f32) outs(%32 : tensor<2x2x8x1xf32>) -> tensor<2x2x8x1xf32>
    %34 = linalg.generic {indexing_maps = [#map4, #map8], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%31 : tensor<2x2x8x8xf32>) outs(%33 : tensor<2x2x8x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %54 = arith.addf %in, %out : f32
      linalg.yield %54 : f32
    } -> tensor<2x2x8x1xf32>
    %35 = linalg.generic {indexing_maps = [#map4, #map8, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%31, %34 : tensor<2x2x8x8xf32>, tensor<2x2x8x1xf32>) outs(%23 : tensor<2x2x8x8xf32>) {
    ^bb0(%in: f32, %in_22: f32, %out: f32):
      %54 = arith.divf %in, %in_22 : f32
      linalg.yield %54 : f32
    } -> tensor<2x2x8x8xf32>
    %36 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%35 : tensor<2x2x8x8xf32>) outs(%20 : tensor<2x2x8x8xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %54 = arith.truncf %in : f32 to bf16
      linalg.yield %54 : bf16
    } -> tensor<2x2x8x8xbf16>
    %collapsed_15 = tensor.collapse_shape %36 [[0, 1], [2], [3]] : tensor<2x2x8x8xbf16> into tensor<4x8x8xbf16>
    %collapsed_16 = tensor.collapse_shape %transposed_9 [[0, 1], [2], [3]] : tensor<2x2x8x16xbf16> into tensor<4x8x16xbf16>
    %37 = tensor.empty() : tensor<4x8x16xf32>
    %38 = linalg.fill ins(%cst : f32) outs(%37 : tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    %39 = linalg.batch_matmul ins(%collapsed_15, %collapsed_16 : tensor<4x8x8xbf16>, tensor<4x8x16xbf16>) outs(%38 : tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    %40 = tensor.empty() : tensor<4x8x16xbf16>
    %41 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%39 : tensor<4x8x16xf32>) outs(%40 : tensor<4x8x16xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %54 = arith.truncf %in : f32 to bf16
      linalg.yield %54 : bf16
    } -> tensor<4x8x16xbf16>
    %expanded_17 = tensor.expand_shape %41 [[0, 1], [2], [3]] output_shape [2, 2, 8, 16] : tensor<4x8x16xbf16> into tensor<2x2x8x16xbf16>
    %42 = tensor.empty() : tensor<2x8x2x16xbf16>
    %transposed_18 = linalg.transpose ins(%expanded_17 : tensor<2x2x8x16xbf16>) outs(%42 : tensor<2x8x2x16xbf16>) permutation = [0, 2, 1, 3] 
    %collapsed_19 = tensor.collapse_shape %transposed_18 [[0, 1], [2, 3]] : tensor<2x8x2x16xbf16> into tensor<16x32xbf16>
    %43 = tensor.empty() : tensor<32x32xbf16>
    %transposed_20 = linalg.transpose ins(%arg2 : tensor<32x32xbf16>) outs(%43 : tensor<32x32xbf16>) permutation = [1, 0] 
    %44 = tensor.empty() : tensor<32xf32>
    %45 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%arg3 : tensor<32xbf16>) outs(%44 : tensor<32xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %54 = arith.extf %in : bf16 to f32
      linalg.yield %54 : f32
    } -> tensor<32xf32>
    %46 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%collapsed_19 : tensor<16x32xbf16>) outs(%3 : tensor<16x32xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %54 = arith.extf %in : bf16 to f32
      linalg.yield %54 : f32
    } -> tensor<16x32xf32>
    %47 = tensor.empty() : tensor<32x32xf32>
    %48 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%transposed_20 : tensor<32x32xbf16>) outs(%47 : tensor<32x32xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %54 = arith.extf %in : bf16 to f32
      linalg.yield %54 : f32
    } -> tensor<32x32xf32>
    %49 = linalg.fill ins(%cst : f32) outs(%3 : tensor<16x32xf32>) -> tensor<16x32xf32>
    %50 = linalg.matmul ins(%46, %48 : tensor<16x32xf32>, tensor<32x32xf32>) outs(%49 : tensor<16x32xf32>) -> tensor<16x32xf32>
    %51 = linalg.generic {indexing_maps = [#map1, #map2, #map1], iterator_types = ["parallel", "parallel"]} ins(%50, %45 : tensor<16x32xf32>, tensor<32xf32>) outs(%3 : tensor<16x32xf32>) {
    ^bb0(%in: f32, %in_22: f32, %out: f32):
      %54 = arith.addf %in, %in_22 : f32
      linalg.yield %54 : f32
    } -> tensor<16x32xf32>
    %52 = tensor.empty() : tensor<16x32xbf16>
    %53 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%51 : tensor<16x32xf32>) outs(%52 : tensor<16x32xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %54 = arith.truncf %in : f32 to bf16
      linalg.yield %54 : bf16
    } -> tensor<16x32xbf16>
    %expanded_21 = tensor.expand_shape %53 [[0, 1], [2]] output_shape [2, 8, 32] : tensor<16x32xbf16> into tensor<2x8x32xbf16>
    return %expanded_21 : tensor<2x8x32xbf16>
  }
}
