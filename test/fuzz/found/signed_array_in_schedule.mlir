// COMMAND: weft-opt
func.func @f(%A: memref<?x?xbf16>, %B: memref<?x?xbf16>, %D: memref<?x?xf32>) {
  "tile.matmul"(%A, %B, %D) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<si32: 64, 64, 64>, warps = array<i64: 2, 2>, stages = 3}} : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  return
}
