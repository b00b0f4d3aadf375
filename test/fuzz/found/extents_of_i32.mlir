// COMMAND: weft-opt
func.func @f(%A: !tile.buffer<array<i32: 64, 16>, f16, #tile.layout<"S[(64,16):(16,1)]">, "shared">) {
  return
}
