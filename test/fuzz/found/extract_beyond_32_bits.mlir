// COMMAND: weft lint --arch sm_80
func.func @f(%s: !llvm.struct<(i32, i32)>) {
  %r = llvm.extractvalue %s[1099511627776] : !llvm.struct<(i32, i32)>
  return
}
