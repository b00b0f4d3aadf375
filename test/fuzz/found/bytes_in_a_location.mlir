// COMMAND: weft compile --arch sm_80
func.func @f(%A: memref<?x?xbf16>, %B: memref<?x?xbf16>, %D: memref<?x?xf32>) {
  "tile.matmul"(%A, %B, %D) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, color = 1} : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> () loc("\FF":1:1)
  return
}
