#map = affine_map<(d0) -> (d0)>
#map1 = affine_map<(d0, d1) -> (d0, d1)>
#map2 = affine_map<(d0, d1) -> (d1)>
module {
  func.func @weights(%arg0: tensor<3x8xbf16>) -> tensor<3x4xbf16> {
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant 1.000000e+00 : bf16
    %cst_1 = arith.constant dense_resource<torch_tensor_4_torch.bfloat16> : tensor<4xbf16>
    %cst_2 = arith.constant dense_resource<torch_tensor_4_8_torch.bfloat16> : tensor<4x8xbf16>
    %0 = tensor.empty() : tensor<8x4xbf16>
    %transposed = linalg.transpose ins(%cst_2 : tensor<4x8xbf16>) outs(%0 : tensor<8x4xbf16>) permutation = [1, 0] 
    %1 = tensor.empty() : tensor<4xf32>
    %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%cst_1 : tensor<4xbf16>) outs(%1 : tensor<4xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %14 = arith.extf %in : bf16 to f32
      linalg.yield %14 : f32
    } -> tensor<4xf32>
    %3 = tensor.empty() : tensor<3x8xf32>
    %4 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<3x8xbf16>) outs(%3 : tensor<3x8xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %14 = arith.extf %in : bf16 to f32
      linalg.yield %14 : f32
    } -> tensor<3x8xf32>
    %5 = tensor.empty() : tensor<8x4xf32>
    %6 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%transposed : tensor<8x4xbf16>) outs(%5 : tensor<8x4xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %14 = arith.extf %in : bf16 to f32
      linalg.yield %14 : f32
    } -> tensor<8x4xf32>
    %7 = tensor.empty() : tensor<3x4xf32>
    %8 = linalg.fill ins(%cst : f32) outs(%7 : tensor<3x4xf32>) -> tensor<3x4xf32>
    %9 = linalg.matmul ins(%4, %6 : tensor<3x8xf32>, tensor<8x4xf32>) outs(%8 : tensor<3x4xf32>) -> tensor<3x4xf32>
    %10 = linalg.generic {indexing_maps = [#map1, #map2, #map1], iterator_types = ["parallel", "parallel"]} ins(%9, %2 : tensor<3x4xf32>, tensor<4xf32>) outs(%7 : tensor<3x4xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %14 = arith.addf %in, %in_3 : f32
      linalg.yield %14 : f32
    } -> tensor<3x4xf32>
    %11 = tensor.empty() : tensor<3x4xbf16>
    %12 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%10 : tensor<3x4xf32>) outs(%11 : tensor<3x4xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %14 = arith.truncf %in : f32 to bf16
      linalg.yield %14 : bf16
    } -> tensor<3x4xbf16>
    %13 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%12 : tensor<3x4xbf16>) outs(%11 : tensor<3x4xbf16>) {
    ^bb0(%in: bf16, %out: bf16):
      %14 = arith.negf %in : bf16
      %15 = math.exp %14 : bf16
      %16 = arith.addf %15, %cst_0 : bf16
      %17 = arith.divf %cst_0, %16 : bf16
      linalg.yield %17 : bf16
    } -> tensor<3x4xbf16>
    return %13 : tensor<3x4xbf16>
  }
}

{-#
  dialect_resources: {
    builtin: {
      torch_tensor_4_torch.bfloat16: "0x020000000000803E003F403F",
      torch_tensor_4_8_torch.bfloat16: "0x0200000080BF70BF60BF50BF40BF30BF20BF10BF00BFE0BEC0BEA0BE80BE40BE00BE80BD0000803D003E403E803EA03EC03EE03E003F103F203F303F403F503F603F703F"
    }
  }
#-}
