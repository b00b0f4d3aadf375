// COMMAND: weft compile --arch sm_80
func.func @f(%a: vector<2xf16>, %c: f32) {
  %r = nvvm.mma.sync A[%a, %a, %a, %a] B[%a, %a] C[%c, %c, %c, %c] {
      layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, shape = #nvvm.shape<m = 16, n = 8, k = 16>
    } : (vector<2xf16>, vector<2xf16>, f32) -> !llvm.struct<(index, f32, f32, f32)>
  return
}
