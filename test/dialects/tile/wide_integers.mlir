// RUN: weft-opt %s --split-input-file --verify-diagnostics
// An integer of thousands of bits has more digits than Python prints.

gpu.module @m {
  gpu.func @declared() {
    // expected-error @below {{'wgmma.wait_group' op expects attribute 'group' to be an integer of at most 64 bits, got -1 : i65535}}
    "wgmma.wait_group"() {group = -1 : i65535} : () -> ()
    gpu.return
  }
}

// -----

func.func @in_a_schedule(%a: memref<?x?xbf16>, %d: memref<?x?xf32>) {
  // expected-error @below {{schedule field 'stages' must be an integer of at most 64 bits, got -3 : i65535}}
  "tile.matmul"(%a, %a, %d) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, schedule = {block = array<i64: 16, 16, 32>, warps = array<i64: 1, 1>, stages = -3 : i65535}}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  return
}

// -----

func.func @of_a_ring() {
  // expected-error @below {{stages must be in 1..64, got a number too long to print}}
  %0 = "tile.make_ring"() {consumers = 1 : i64} : () -> !tile.ring<-3 : i65535>
  return
}
