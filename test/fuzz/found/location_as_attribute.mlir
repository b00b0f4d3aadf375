// COMMAND: weft lint --json
func.func @f(%h: vector<2xf16>, %f: f32) {
  %0 = "mma.sync"(%h, %h, %h, %f) {shape = "m16n8k8", a_type = "f16", b_type = loc(unknown), c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 1>} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32) -> f32
  return
}
