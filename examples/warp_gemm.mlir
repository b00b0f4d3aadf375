// One warp computes D = A * B, D 16x8 in f32, A 16x16 and B 16x8 in f16, with one tile.gemm:
//
//   weft compile examples/warp_gemm.mlir --arch sm_80 --emit ptx
//
// A layout specifies which lane holds which element, and in which order. Lane 4g + t holds rows g and g + 8 of A and D, and
// column g of B. Along K, and along the columns of D, it holds 2t and 2t + 1; along K also 2t + 8 and 2t + 9.

#a = #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">
#b = #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">
#d = #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">
!A = tensor<16x16xf16, #a>
!B = tensor<16x8xf16, #b>
!D = tensor<16x8xf32, #d>

#one = affine_map<(d0, d1, d2, d3, d4, d5) -> (1, 1, 1)>

gpu.module @warp_gemm {
  gpu.func @warp_gemm(%A: memref<16x16xf16>, %B: memref<16x8xf16>, %D: memref<16x8xf32>) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>, weft.grid = #one, weft.writes = array<i32: 2>} {
    %c2 = arith.constant 2 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %lane = gpu.thread_id x
    %g = arith.divui %lane, %c4 : index
    %t = arith.remui %lane, %c4 : index
    %g8 = arith.addi %g, %c8 : index
    %k = arith.muli %t, %c2 : index
    %k1 = arith.addi %k, %c1 : index
    %k8 = arith.addi %k, %c8 : index
    %k9 = arith.addi %k1, %c8 : index

    // A: pairs along K; the row changes before K moves on by 8.
    %a0 = vector.load %A[%g, %k] : memref<16x16xf16>, vector<2xf16>
    %a1 = vector.load %A[%g8, %k] : memref<16x16xf16>, vector<2xf16>
    %a2 = vector.load %A[%g, %k8] : memref<16x16xf16>, vector<2xf16>
    %a3 = vector.load %A[%g8, %k8] : memref<16x16xf16>, vector<2xf16>
    %a01 = vector.shuffle %a0, %a1 [0, 1, 2, 3] : vector<2xf16>, vector<2xf16>
    %a23 = vector.shuffle %a2, %a3 [0, 1, 2, 3] : vector<2xf16>, vector<2xf16>
    %as = vector.shuffle %a01, %a23 [0, 1, 2, 3, 4, 5, 6, 7] : vector<4xf16>, vector<4xf16>
    %a = "tile.from_lane"(%as) : (vector<8xf16>) -> !A

    // B: one column, pairs along K.
    %b0 = memref.load %B[%k, %g] : memref<16x8xf16>
    %b1 = memref.load %B[%k1, %g] : memref<16x8xf16>
    %b2 = memref.load %B[%k8, %g] : memref<16x8xf16>
    %b3 = memref.load %B[%k9, %g] : memref<16x8xf16>
    %bs = vector.from_elements %b0, %b1, %b2, %b3 : vector<4xf16>
    %b = "tile.from_lane"(%bs) : (vector<4xf16>) -> !B

    %d = "tile.gemm"(%a, %b) : (!A, !B) -> !D

    %ds = "tile.to_lane"(%d) : (!D) -> vector<4xf32>
    %d0 = vector.extract_strided_slice %ds {offsets = [0], sizes = [2], strides = [1]} : vector<4xf32> to vector<2xf32>
    %d1 = vector.extract_strided_slice %ds {offsets = [2], sizes = [2], strides = [1]} : vector<4xf32> to vector<2xf32>
    vector.store %d0, %D[%g, %k] : memref<16x8xf32>, vector<2xf32>
    vector.store %d1, %D[%g8, %k] : memref<16x8xf32>, vector<2xf32>
    gpu.return
  }
}
