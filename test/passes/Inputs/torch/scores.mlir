#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
module {
  func.func @scores(%arg0: tensor<?x?x16xf16>, %arg1: tensor<?x?x16xf16>, %arg2: tensor<?x?x16xf16>) -> tensor<?x?x16xf16> {
    %c0_i64 = arith.constant 0 : i64
    %c1_i64 = arith.constant 1 : i64
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16_i64 = arith.constant 16 : i64
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant 0xFF800000 : f32
    %cst_1 = arith.constant 2.500000e-01 : f16
    %dim = tensor.dim %arg1, %c1 : tensor<?x?x16xf16>
    %0 = arith.index_cast %dim : index to i64
    %dim_2 = tensor.dim %arg2, %c0 : tensor<?x?x16xf16>
    %1 = arith.index_cast %dim_2 : index to i64
    %dim_3 = tensor.dim %arg1, %c0 : tensor<?x?x16xf16>
    %2 = tensor.empty(%dim_3, %dim) : tensor<?x16x?xf16>
    %transposed = linalg.transpose ins(%arg1 : tensor<?x?x16xf16>) outs(%2 : tensor<?x16x?xf16>) permutation = [0, 2, 1] 
    %3 = arith.cmpi sge, %1, %c0_i64 : i64
    cf.assert %3, "unimplemented: dynamic negative broadcast sizes"
    %4 = arith.cmpi sge, %0, %c0_i64 : i64
    cf.assert %4, "unimplemented: dynamic negative broadcast sizes"
    %5 = tensor.empty(%dim_2, %dim) : tensor<?x?x16xf16>
    %6 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel", "parallel", "parallel"]} outs(%5 : tensor<?x?x16xf16>) {
    ^bb0(%out: f16):
      %90 = linalg.index 0 : index
      %91 = linalg.index 1 : index
      %92 = linalg.index 2 : index
      %dim_13 = tensor.dim %arg0, %c0 : tensor<?x?x16xf16>
      %93 = arith.cmpi eq, %dim_13, %c1 : index
      %94 = arith.select %93, %c0, %90 : index
      %dim_14 = tensor.dim %arg0, %c1 : tensor<?x?x16xf16>
      %95 = arith.cmpi eq, %dim_14, %c1 : index
      %96 = arith.select %95, %c0, %91 : index
      %extracted = tensor.extract %arg0[%94, %96, %92] : tensor<?x?x16xf16>
      linalg.yield %extracted : f16
    } -> tensor<?x?x16xf16>
    %7 = arith.cmpi slt, %1, %c0_i64 : i64
    %8 = arith.select %7, %c1_i64, %1 : i64
    %9 = arith.extui %7 : i1 to i64
    %10 = arith.muli %8, %0 : i64
    %11 = arith.addi %9, %c1_i64 : i64
    %12 = arith.cmpi slt, %0, %c0_i64 : i64
    %13 = arith.select %12, %8, %10 : i64
    %14 = arith.select %12, %11, %9 : i64
    %15 = arith.muli %13, %c16_i64 : i64
    %16 = arith.cmpi sle, %14, %c1_i64 : i64
    cf.assert %16, "must have at most one inferred (negative) dimension"
    %17 = arith.muli %1, %0 : i64
    %18 = arith.muli %17, %c16_i64 : i64
    %19 = arith.divsi %18, %15 : i64
    %20 = arith.select %7, %19, %1 : i64
    %21 = arith.select %12, %19, %0 : i64
    %from_elements = tensor.from_elements %20, %21, %c16_i64 : tensor<3xi64>
    %reshape = tensor.reshape %6(%from_elements) : (tensor<?x?x16xf16>, tensor<3xi64>) -> tensor<?x?x16xf16>
    cf.assert %3, "unimplemented: dynamic negative broadcast sizes"
    cf.assert %4, "unimplemented: dynamic negative broadcast sizes"
    %22 = tensor.empty(%dim_2, %dim) : tensor<?x16x?xf16>
    %23 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel", "parallel", "parallel"]} outs(%22 : tensor<?x16x?xf16>) {
    ^bb0(%out: f16):
      %90 = linalg.index 0 : index
      %91 = linalg.index 1 : index
      %92 = linalg.index 2 : index
      %93 = arith.cmpi eq, %dim_3, %c1 : index
      %94 = arith.select %93, %c0, %90 : index
      %95 = arith.cmpi eq, %dim, %c1 : index
      %96 = arith.select %95, %c0, %92 : index
      %extracted = tensor.extract %transposed[%94, %91, %96] : tensor<?x16x?xf16>
      linalg.yield %extracted : f16
    } -> tensor<?x16x?xf16>
    %24 = arith.muli %8, %c16_i64 : i64
    %25 = arith.muli %24, %0 : i64
    %26 = arith.select %12, %24, %25 : i64
    cf.assert %16, "must have at most one inferred (negative) dimension"
    %27 = arith.muli %1, %c16_i64 : i64
    %28 = arith.muli %27, %0 : i64
    %29 = arith.divsi %28, %26 : i64
    %30 = arith.select %7, %29, %1 : i64
    %31 = arith.select %12, %29, %0 : i64
    %from_elements_4 = tensor.from_elements %30, %c16_i64, %31 : tensor<3xi64>
    %reshape_5 = tensor.reshape %23(%from_elements_4) : (tensor<?x16x?xf16>, tensor<3xi64>) -> tensor<?x16x?xf16>
    %32 = arith.index_cast %20 : i64 to index
    %33 = arith.index_cast %21 : i64 to index
    %34 = arith.index_cast %31 : i64 to index
    %35 = arith.cmpi eq, %20, %30 : i64
    cf.assert %35, "mismatching contracting dimension"
    %36 = tensor.empty(%32, %33, %34) : tensor<?x?x?xf32>
    %37 = linalg.fill ins(%cst : f32) outs(%36 : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
    %38 = linalg.batch_matmul ins(%reshape, %reshape_5 : tensor<?x?x16xf16>, tensor<?x16x?xf16>) outs(%37 : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
    %39 = tensor.empty(%32, %33, %34) : tensor<?x?x?xf16>
    %40 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%38 : tensor<?x?x?xf32>) outs(%39 : tensor<?x?x?xf16>) {
    ^bb0(%in: f32, %out: f16):
      %90 = arith.truncf %in : f32 to f16
      linalg.yield %90 : f16
    } -> tensor<?x?x?xf16>
    %41 = arith.muli %13, %0 : i64
    %42 = arith.addi %14, %c1_i64 : i64
    %43 = arith.select %12, %8, %41 : i64
    %44 = arith.select %12, %42, %9 : i64
    %45 = arith.cmpi sle, %44, %c1_i64 : i64
    cf.assert %45, "must have at most one inferred (negative) dimension"
    %46 = arith.muli %20, %21 : i64
    %47 = arith.muli %46, %31 : i64
    %48 = arith.divsi %47, %43 : i64
    %49 = arith.select %7, %48, %1 : i64
    %50 = arith.select %12, %48, %0 : i64
    %from_elements_6 = tensor.from_elements %49, %50, %50 : tensor<3xi64>
    %reshape_7 = tensor.reshape %40(%from_elements_6) : (tensor<?x?x?xf16>, tensor<3xi64>) -> tensor<?x?x?xf16>
    %51 = arith.index_cast %49 : i64 to index
    %52 = arith.index_cast %50 : i64 to index
    %53 = tensor.empty(%51, %52, %52) : tensor<?x?x?xf16>
    %54 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%reshape_7 : tensor<?x?x?xf16>) outs(%53 : tensor<?x?x?xf16>) {
    ^bb0(%in: f16, %out: f16):
      %90 = arith.mulf %in, %cst_1 : f16
      linalg.yield %90 : f16
    } -> tensor<?x?x?xf16>
    %55 = tensor.empty(%51, %52, %52) : tensor<?x?x?xf32>
    %56 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%54 : tensor<?x?x?xf16>) outs(%55 : tensor<?x?x?xf32>) {
    ^bb0(%in: f16, %out: f32):
      %90 = arith.extf %in : f16 to f32
      linalg.yield %90 : f32
    } -> tensor<?x?x?xf32>
    %57 = tensor.empty(%51, %52) : tensor<?x?xi64>
    %58 = linalg.fill ins(%c0_i64 : i64) outs(%57 : tensor<?x?xi64>) -> tensor<?x?xi64>
    %59 = tensor.empty(%51, %52) : tensor<?x?xf32>
    %60 = linalg.fill ins(%cst_0 : f32) outs(%59 : tensor<?x?xf32>) -> tensor<?x?xf32>
    %61:2 = linalg.generic {indexing_maps = [#map, #map1, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%56 : tensor<?x?x?xf32>) outs(%60, %58 : tensor<?x?xf32>, tensor<?x?xi64>) {
    ^bb0(%in: f32, %out: f32, %out_13: i64):
      %90 = linalg.index 2 : index
      %91 = arith.index_cast %90 : index to i64
      %92 = arith.maximumf %in, %out : f32
      %93 = arith.cmpf ogt, %in, %out : f32
      %94 = arith.select %93, %91, %out_13 : i64
      linalg.yield %92, %94 : f32, i64
    } -> (tensor<?x?xf32>, tensor<?x?xi64>)
    %expanded = tensor.expand_shape %61#0 [[0], [1, 2]] output_shape [%51, %52, 1] : tensor<?x?xf32> into tensor<?x?x1xf32>
    %62 = linalg.generic {indexing_maps = [#map, #map2, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%56, %expanded : tensor<?x?x?xf32>, tensor<?x?x1xf32>) outs(%55 : tensor<?x?x?xf32>) {
    ^bb0(%in: f32, %in_13: f32, %out: f32):
      %90 = arith.subf %in, %in_13 : f32
      linalg.yield %90 : f32
    } -> tensor<?x?x?xf32>
    %63 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%62 : tensor<?x?x?xf32>) outs(%55 : tensor<?x?x?xf32>) {
    ^bb0(%in: f32, %out: f32):
      %90 = math.exp %in : f32
      linalg.yield %90 : f32
    } -> tensor<?x?x?xf32>
    %64 = tensor.empty(%51, %52) : tensor<?x?x1xf32>
    %65 = linalg.fill ins(%cst : f32) outs(%64 : tensor<?x?x1xf32>) -> tensor<?x?x1xf32>
    %66 = linalg.generic {indexing_maps = [#map, #map2], iterator_types = ["parallel", "parallel", "reduction"]} ins(%63 : tensor<?x?x?xf32>) outs(%65 : tensor<?x?x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %90 = arith.addf %in, %out : f32
      linalg.yield %90 : f32
    } -> tensor<?x?x1xf32>
    %67 = linalg.generic {indexing_maps = [#map, #map2, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%63, %66 : tensor<?x?x?xf32>, tensor<?x?x1xf32>) outs(%55 : tensor<?x?x?xf32>) {
    ^bb0(%in: f32, %in_13: f32, %out: f32):
      %90 = arith.divf %in, %in_13 : f32
      linalg.yield %90 : f32
    } -> tensor<?x?x?xf32>
    %68 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%67 : tensor<?x?x?xf32>) outs(%53 : tensor<?x?x?xf16>) {
    ^bb0(%in: f32, %out: f16):
      %90 = arith.truncf %in : f32 to f16
      linalg.yield %90 : f16
    } -> tensor<?x?x?xf16>
    cf.assert %3, "unimplemented: dynamic negative broadcast sizes"
    cf.assert %4, "unimplemented: dynamic negative broadcast sizes"
    cf.assert %4, "unimplemented: dynamic negative broadcast sizes"
    %69 = tensor.empty(%dim_2, %dim, %dim) : tensor<?x?x?xf16>
    %70 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel", "parallel", "parallel"]} outs(%69 : tensor<?x?x?xf16>) {
    ^bb0(%out: f16):
      %90 = linalg.index 0 : index
      %91 = linalg.index 1 : index
      %92 = linalg.index 2 : index
      %93 = arith.cmpi eq, %51, %c1 : index
      %94 = arith.select %93, %c0, %90 : index
      %95 = arith.cmpi eq, %52, %c1 : index
      %96 = arith.select %95, %c0, %91 : index
      %97 = arith.select %95, %c0, %92 : index
      %extracted = tensor.extract %68[%94, %96, %97] : tensor<?x?x?xf16>
      linalg.yield %extracted : f16
    } -> tensor<?x?x?xf16>
    cf.assert %45, "must have at most one inferred (negative) dimension"
    %71 = arith.muli %17, %0 : i64
    %72 = arith.divsi %71, %43 : i64
    %73 = arith.select %7, %72, %1 : i64
    %74 = arith.select %12, %72, %0 : i64
    %from_elements_8 = tensor.from_elements %73, %74, %74 : tensor<3xi64>
    %reshape_9 = tensor.reshape %70(%from_elements_8) : (tensor<?x?x?xf16>, tensor<3xi64>) -> tensor<?x?x?xf16>
    cf.assert %3, "unimplemented: dynamic negative broadcast sizes"
    cf.assert %4, "unimplemented: dynamic negative broadcast sizes"
    %75 = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel", "parallel", "parallel"]} outs(%5 : tensor<?x?x16xf16>) {
    ^bb0(%out: f16):
      %90 = linalg.index 0 : index
      %91 = linalg.index 1 : index
      %92 = linalg.index 2 : index
      %93 = arith.cmpi eq, %dim_2, %c1 : index
      %94 = arith.select %93, %c0, %90 : index
      %dim_13 = tensor.dim %arg2, %c1 : tensor<?x?x16xf16>
      %95 = arith.cmpi eq, %dim_13, %c1 : index
      %96 = arith.select %95, %c0, %91 : index
      %extracted = tensor.extract %arg2[%94, %96, %92] : tensor<?x?x16xf16>
      linalg.yield %extracted : f16
    } -> tensor<?x?x16xf16>
    cf.assert %16, "must have at most one inferred (negative) dimension"
    %reshape_10 = tensor.reshape %75(%from_elements) : (tensor<?x?x16xf16>, tensor<3xi64>) -> tensor<?x?x16xf16>
    %76 = arith.index_cast %73 : i64 to index
    %77 = arith.index_cast %74 : i64 to index
    %78 = arith.cmpi eq, %73, %20 : i64
    cf.assert %78, "mismatching contracting dimension"
    %79 = arith.cmpi eq, %74, %21 : i64
    cf.assert %79, "mismatching contracting dimension"
    %80 = tensor.empty(%76, %77) : tensor<?x?x16xf32>
    %81 = linalg.fill ins(%cst : f32) outs(%80 : tensor<?x?x16xf32>) -> tensor<?x?x16xf32>
    %82 = linalg.batch_matmul ins(%reshape_9, %reshape_10 : tensor<?x?x?xf16>, tensor<?x?x16xf16>) outs(%81 : tensor<?x?x16xf32>) -> tensor<?x?x16xf32>
    %83 = tensor.empty(%76, %77) : tensor<?x?x16xf16>
    %84 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%82 : tensor<?x?x16xf32>) outs(%83 : tensor<?x?x16xf16>) {
    ^bb0(%in: f32, %out: f16):
      %90 = arith.truncf %in : f32 to f16
      linalg.yield %90 : f16
    } -> tensor<?x?x16xf16>
    cf.assert %16, "must have at most one inferred (negative) dimension"
    %85 = arith.muli %73, %74 : i64
    %86 = arith.muli %85, %c16_i64 : i64
    %87 = arith.divsi %86, %15 : i64
    %88 = arith.select %7, %87, %1 : i64
    %89 = arith.select %12, %87, %0 : i64
    %from_elements_11 = tensor.from_elements %88, %89, %c16_i64 : tensor<3xi64>
    %reshape_12 = tensor.reshape %84(%from_elements_11) : (tensor<?x?x16xf16>, tensor<3xi64>) -> tensor<?x?x16xf16>
    return %reshape_12 : tensor<?x?x16xf16>
  }
}
