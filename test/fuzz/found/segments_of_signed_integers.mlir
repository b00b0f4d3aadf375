// COMMAND: weft compile --arch sm_80
func.func @f(%A: vector<2xf16>) {
  %0 = "wmma.mma"(%A) {operandSegmentSizes = array<si32: 1, 0, 0>} : (vector<2xf16>) -> vector<2xf16>
  return
}
