#map = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @dynamic(%arg0: tensor<?x32xbf16>, %arg1: tensor<32x40xbf16>) -> tensor<?x40xbf16> {
    %c0 = arith.constant 0 : index
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant 0.000000e+00 : bf16
    %dim = tensor.dim %arg0, %c0 : tensor<?x32xbf16>
    %0 = tensor.empty(%dim) : tensor<?x40xf32>
    %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<?x40xf32>) -> tensor<?x40xf32>
    %2 = linalg.matmul ins(%arg0, %arg1 : tensor<?x32xbf16>, tensor<32x40xbf16>) outs(%1 : tensor<?x40xf32>) -> tensor<?x40xf32>
    %3 = tensor.empty(%dim) : tensor<?x40xbf16>
    %4 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<?x40xf32>) outs(%3 : tensor<?x40xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %6 = arith.truncf %in : f32 to bf16
      linalg.yield %6 : bf16
    } -> tensor<?x40xbf16>
    %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%4 : tensor<?x40xbf16>) outs(%3 : tensor<?x40xbf16>) {
    ^bb0(%in: bf16, %out: bf16):
      %6 = arith.cmpf ugt, %in, %cst_0 : bf16
      %7 = arith.select %6, %in, %cst_0 : bf16
      linalg.yield %7 : bf16
    } -> tensor<?x40xbf16>
    return %5 : tensor<?x40xbf16>
  }
}

