// COMMAND: weft-opt
func.func @f(%t: !llvm.ptr<6>, %l: i64, %w: i32, %c: i1) {
  "tcgen05.sp_mma"(%t, %t, %l, %t, %w, %c) {kind = "\FF\00", cta_group = 2 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 0, 0>} : (!llvm.ptr<6>, !llvm.ptr<6>, i64, !llvm.ptr<6>, i32, i1) -> ()
  return
}
