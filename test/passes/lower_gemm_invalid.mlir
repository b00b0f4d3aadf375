// RUN: weft-opt %s --lower-gemm --split-input-file --verify-diagnostics

!A = !tile.buffer<array<i64: 16, 16>, f16, #tile.layout<"S[(16,16):(16,1)]">, "shared">
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
gpu.func @register_scope_of_a(%a: !A, %b: !B) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
  // expected-error @below {{'tile.gemm' op has no candidate that lowers it: mma.sync m16n8k32, mma.sync m16n8k16, mma.sync m16n8k8, mma.sync m8n8k16, mma.sync m16n8k4, mma.sync m8n8k4 (register_scope: needs A in registers, got a buffer in shared memory)}}
  %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
  gpu.return
}
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = !tile.buffer<array<i64: 16, 8>, f16, #tile.layout<"S[(16,8):(8,1)]">, "shared">
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
gpu.func @register_scope_of_b(%a: !A, %b: !B) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
  // expected-error @below {{'tile.gemm' op has no candidate that lowers it: mma.sync m16n8k32, mma.sync m16n8k16, mma.sync m16n8k8, mma.sync m8n8k16, mma.sync m16n8k4, mma.sync m8n8k4 (register_scope: needs B in registers, got a buffer in shared memory)}}
  %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
  gpu.return
}
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
!C = !tile.buffer<array<i64: 16, 8>, f32, #tile.layout<"S[(16,8):(8,1)]">, "shared">
gpu.module @m {
gpu.func @register_scope_of_c(%a: !A, %b: !B, %c: !C) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
  // expected-error @below {{'tile.gemm' op has no candidate that lowers it: mma.sync m16n8k32, mma.sync m16n8k16, mma.sync m16n8k8, mma.sync m8n8k16, mma.sync m16n8k4, mma.sync m8n8k4 (register_scope: needs C in registers, got a buffer in shared memory)}}
  %0 = "tile.gemm"(%a, %b, %c) {beta = 1.0 : f32} : (!A, !B, !C) -> !D
  gpu.return
}
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = !tile.buffer<array<i64: 16, 8>, f32, #tile.layout<"S[(16,8):(8,1)]">, "shared">
gpu.module @m {
gpu.func @register_scope_of_d(%a: !A, %b: !B) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
  // expected-error @below {{'tile.gemm' op has no candidate that lowers it: mma.sync m16n8k32, mma.sync m16n8k16, mma.sync m16n8k8, mma.sync m8n8k16, mma.sync m16n8k4, mma.sync m8n8k4 (register_scope: needs D in registers, got a buffer in shared memory)}}
  %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
  gpu.return
}
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)] + R[(2):(8)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
gpu.func @no_replica_of_a(%a: !A, %b: !B) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
  // expected-error @below {{'tile.gemm' op has no candidate that lowers it: mma.sync m16n8k32, mma.sync m16n8k16, mma.sync m16n8k8, mma.sync m8n8k16, mma.sync m16n8k4, mma.sync m8n8k4 (no_replica: needs A without a replica, got layout S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)] + R[(2):(8)])}}
  %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
  gpu.return
}
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)] + R[(2):(4)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
gpu.func @no_replica_of_b(%a: !A, %b: !B) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
  // expected-error @below {{'tile.gemm' op has no candidate that lowers it: mma.sync m16n8k32, mma.sync m16n8k16, mma.sync m16n8k8, mma.sync m8n8k16, mma.sync m16n8k4, mma.sync m8n8k4 (no_replica: needs B without a replica, got layout S[(2,4,2,8):(2,1@laneid,1,4@laneid)] + R[(2):(4)])}}
  %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
  gpu.return
}
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
!C = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)] + R[(2):(4)]">>
gpu.module @m {
gpu.func @no_replica_of_c(%a: !A, %b: !B, %c: !C) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
  // expected-error @below {{'tile.gemm' op has no candidate that lowers it: mma.sync m16n8k32, mma.sync m16n8k16, mma.sync m16n8k8, mma.sync m8n8k16, mma.sync m16n8k4, mma.sync m8n8k4 (no_replica: needs C without a replica, got layout S[(2,8,4,2):(2,4@laneid,1@laneid,1)] + R[(2):(4)])}}
  %0 = "tile.gemm"(%a, %b, %c) : (!A, !B, !C) -> !D
  gpu.return
}
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)] + R[(2):(4)]">>
gpu.module @m {
gpu.func @no_replica_of_d(%a: !A, %b: !B) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
  // expected-error @below {{'tile.gemm' op has no candidate that lowers it: mma.sync m16n8k32, mma.sync m16n8k16, mma.sync m16n8k8, mma.sync m8n8k16, mma.sync m16n8k4, mma.sync m8n8k4 (no_replica: needs D without a replica, got layout S[(2,8,4,2):(2,4@laneid,1@laneid,1)] + R[(2):(4)])}}
  %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
  gpu.return
}
}

// -----

!A = tensor<16x16xi32, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xi32, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
gpu.func @types_of_inputs(%a: !A, %b: !B) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
  // expected-error @below {{types: needs A and B of one type of f16, bf16 and f32, or of fp8, with C and D of f32 (of f16 and fp8 also f16), or of 8-bit integers, with C and D of i32, or of f64, with C and D of f64, got D f32, A i32, B i32}}
  %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
  gpu.return
}
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xbf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
gpu.func @types_that_differ(%a: !A, %b: !B) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
  // expected-error @below {{types: needs A and B of one type of f16, bf16 and f32, or of fp8, with C and D of f32 (of f16 and fp8 also f16), or of 8-bit integers, with C and D of i32, or of f64, with C and D of f64, got D f32, A f16, B bf16}}
  %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
  gpu.return
}
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf16, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
!C = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
gpu.func @types_of_d(%a: !A, %b: !B, %c: !C) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
  // expected-error @below {{types: needs A and B of one type of f16, bf16 and f32, or of fp8, with C and D of f32 (of f16 and fp8 also f16), or of 8-bit integers, with C and D of i32, or of f64, with C and D of f64, got D f16, A f16, B f16, C f32}}
  %0 = "tile.gemm"(%a, %b, %c) : (!A, !B, !C) -> !D
  gpu.return
}
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
!C = tensor<16x8xbf16, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
gpu.func @types_of_c(%a: !A, %b: !B, %c: !C) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
  // expected-error @below {{types: needs A and B of one type of f16, bf16 and f32, or of fp8, with C and D of f32 (of f16 and fp8 also f16), or of 8-bit integers, with C and D of i32, or of f64, with C and D of f64, got D f32, A f16, B f16, C bf16}}
  %0 = "tile.gemm"(%a, %b, %c) {beta = 1.0 : f32} : (!A, !B, !C) -> !D
  gpu.return
}
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
gpu.func @alpha(%a: !A, %b: !B) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
  // expected-error @below {{'tile.gemm' op has no candidate that lowers it: mma.sync m16n8k32 (types: m16n8k32 needs A of one of f8E4M3FN, f8E5M2, i8, ui8, got f16); mma.sync m16n8k16, mma.sync m16n8k8 (alpha: needs alpha 1.0, got 2.0); mma.sync m8n8k16 (types: m8n8k16 needs A of one of i8, ui8, got f16); mma.sync m16n8k4 (types: m16n8k4 needs A of one of f32, f64, got f16); mma.sync m8n8k4 (types: m8n8k4 needs A of one of f64, got f16)}}
  %0 = "tile.gemm"(%a, %b) {alpha = 2.0 : f32} : (!A, !B) -> !D
  gpu.return
}
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
!C = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
gpu.func @beta(%a: !A, %b: !B, %c: !C) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
  // expected-error @below {{'tile.gemm' op has no candidate that lowers it: mma.sync m16n8k32 (types: m16n8k32 needs A of one of f8E4M3FN, f8E5M2, i8, ui8, got f16); mma.sync m16n8k16, mma.sync m16n8k8 (beta: needs beta 0.0 or 1.0, got 0.5); mma.sync m8n8k16 (types: m8n8k16 needs A of one of i8, ui8, got f16); mma.sync m16n8k4 (types: m16n8k4 needs A of one of f32, f64, got f16); mma.sync m8n8k4 (types: m8n8k4 needs A of one of f64, got f16)}}
  %0 = "tile.gemm"(%a, %b, %c) {beta = 0.5 : f32} : (!A, !B, !C) -> !D
  gpu.return
}
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
!C = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
gpu.func @beta_minus_one(%a: !A, %b: !B, %c: !C) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
  // expected-error @below {{'tile.gemm' op has no candidate that lowers it: mma.sync m16n8k32 (types: m16n8k32 needs A of one of f8E4M3FN, f8E5M2, i8, ui8, got f16); mma.sync m16n8k16, mma.sync m16n8k8 (beta: needs beta 0.0 or 1.0, got -1.0); mma.sync m8n8k16 (types: m8n8k16 needs A of one of i8, ui8, got f16); mma.sync m16n8k4 (types: m16n8k4 needs A of one of f32, f64, got f16); mma.sync m8n8k4 (types: m8n8k4 needs A of one of f64, got f16)}}
  %0 = "tile.gemm"(%a, %b, %c) {beta = -1.0 : f32} : (!A, !B, !C) -> !D
  gpu.return
}
}

// -----

!A = tensor<8x16xf16, #tile.layout<"S[(8,2,4,2):(4@laneid,2,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<8x8xf32, #tile.layout<"S[(8,4,2):(4@laneid,1@laneid,1)]">>
gpu.module @m {
gpu.func @extents_m(%a: !A, %b: !B) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
  // expected-error @below {{'tile.gemm' op has no candidate that lowers it: mma.sync m16n8k32 (types: m16n8k32 needs A of one of f8E4M3FN, f8E5M2, i8, ui8, got f16); mma.sync m16n8k16, mma.sync m16n8k8 (extents: needs M % 16 == 0, got M = 8); mma.sync m8n8k16 (types: m8n8k16 needs A of one of i8, ui8, got f16); mma.sync m16n8k4 (types: m16n8k4 needs A of one of f32, f64, got f16); mma.sync m8n8k4 (types: m8n8k4 needs A of one of f64, got f16)}}
  %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
  gpu.return
}
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x4xf16, #tile.layout<"S[(2,4,2,4):(1,1@laneid,16@laneid,4@laneid)]">>
!D = tensor<16x4xf32, #tile.layout<"S[(2,8,4):(1,4@laneid,1@laneid)]">>
gpu.module @m {
gpu.func @extents_n(%a: !A, %b: !B) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
  // expected-error @below {{'tile.gemm' op has no candidate that lowers it: mma.sync m16n8k32 (types: m16n8k32 needs A of one of f8E4M3FN, f8E5M2, i8, ui8, got f16); mma.sync m16n8k16, mma.sync m16n8k8 (extents: needs N % 8 == 0, got N = 4); mma.sync m8n8k16 (types: m8n8k16 needs A of one of i8, ui8, got f16); mma.sync m16n8k4 (types: m16n8k4 needs A of one of f32, f64, got f16); mma.sync m8n8k4 (types: m8n8k4 needs A of one of f64, got f16)}}
  %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
  gpu.return
}
}

// -----

!A = tensor<16x4xf16, #tile.layout<"S[(2,8,4):(1,4@laneid,1@laneid)]">>
!B = tensor<4x8xf16, #tile.layout<"S[(4,8):(1@laneid,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
gpu.func @extents_k(%a: !A, %b: !B) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
  // expected-error @below {{mma.sync m16n8k16 (extents: needs K % 16 == 0, got K = 4); mma.sync m16n8k8 (extents: needs K % 8 == 0, got K = 4)}}
  %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
  gpu.return
}
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,1@laneid,4,8@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
gpu.func @fragments_in_other_lanes(%a: !A, %b: !B) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
  // expected-error @below {{fragments: no m16n8k16 fits M=16, N=8, K=16: A must have element (0, 2) in lane 1, as in S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)], got S[(2,8,2,4,2):(2,1@laneid,4,8@laneid,1)]}}
  %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
  gpu.return
}
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,8@laneid,1,1@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
gpu.func @fragments_of_b(%a: !A, %b: !B) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
  // expected-error @below {{fragments: no m16n8k16 fits M=16, N=8, K=16: B must have element (2, 0) in lane 1, as in S[}}
  %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
  gpu.return
}
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,1@laneid,8@laneid,1)]">>
gpu.module @m {
gpu.func @fragments_of_d(%a: !A, %b: !B) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
  // expected-error @below {{fragments: no m16n8k16 fits M=16, N=8, K=16: D must have element (0, 2) in lane 1, as in S[}}
  %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
  gpu.return
}
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
!C = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,1@laneid,8@laneid,1)]">>
gpu.module @m {
gpu.func @fragments_of_c(%a: !A, %b: !B, %c: !C) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
  // expected-error @below {{fragments: no m16n8k16 fits M=16, N=8, K=16: C must have element (0, 2) in lane 1, as in S[}}
  %0 = "tile.gemm"(%a, %b, %c) {beta = 1.0 : f32} : (!A, !B, !C) -> !D
  gpu.return
}
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,2,4):(2,4@laneid,4,1,1@laneid)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
gpu.func @fragments_of_pairs_apart(%a: !A, %b: !B) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
  // expected-error @below {{fragments: no m16n8k16 fits M=16, N=8, K=16: A must have element (0, 1) in lane 0, as in S[}}
  %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
  gpu.return
}
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m [#nvvm.target<chip = "sm_72">] {
  gpu.func @types_on_an_old_chip(%v: vector<8xf16>, %w: vector<4xf16>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %a = "tile.from_lane"(%v) : (vector<8xf16>) -> !A
    %b = "tile.from_lane"(%w) : (vector<4xf16>) -> !B
    // expected-error @below {{types: mma.sync needs sm_80 or later: sm_72 has no mma.sync.aligned.m16n8k16}}
    %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
    gpu.return
  }
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @full_active_lanes_of_the_block(%v: vector<8xf16>, %w: vector<4xf16>) kernel attributes {known_block_size = array<i32: 48, 1, 1>} {
    %a = "tile.from_lane"(%v) : (vector<8xf16>) -> !A
    %b = "tile.from_lane"(%w) : (vector<4xf16>) -> !B
    // expected-error @below {{mma.sync m16n8k32, mma.sync m16n8k16, mma.sync m16n8k8, mma.sync m8n8k16, mma.sync m16n8k4, mma.sync m8n8k4 (full_active_lanes: needs a block of full warps of 32 lanes, got 48 threads)}}
    %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
    gpu.return
  }
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @full_active_lanes_in_a_branch(%v: vector<8xf16>, %w: vector<4xf16>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %a = "tile.from_lane"(%v) : (vector<8xf16>) -> !A
    %b = "tile.from_lane"(%w) : (vector<4xf16>) -> !B
    %thread = gpu.thread_id x
    %c16 = arith.constant 16 : index
    %some = arith.cmpi ult, %thread, %c16 : index
    scf.if %some {
    // expected-error @below {{mma.sync m16n8k32, mma.sync m16n8k16, mma.sync m16n8k8, mma.sync m8n8k16, mma.sync m16n8k4, mma.sync m8n8k4 (full_active_lanes: needs all 32 lanes of the warp to reach it together, but 'scf.if' depends on the lane)}}
    %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
    }
    gpu.return
  }
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @full_active_lanes_of_one_lane(%v: vector<8xf16>, %w: vector<4xf16>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %a = "tile.from_lane"(%v) : (vector<8xf16>) -> !A
    %b = "tile.from_lane"(%w) : (vector<4xf16>) -> !B
    %thread = gpu.thread_id x
    %some = nvvm.elect.sync -> i1
    scf.if %some {
    // expected-error @below {{mma.sync m16n8k32, mma.sync m16n8k16, mma.sync m16n8k8, mma.sync m8n8k16, mma.sync m16n8k4, mma.sync m8n8k4 (full_active_lanes: needs all 32 lanes of the warp to reach it together, but 'scf.if' depends on the lane)}}
    %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
    }
    gpu.return
  }
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @full_active_lanes_by_the_lane(%v: vector<8xf16>, %w: vector<4xf16>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %a = "tile.from_lane"(%v) : (vector<8xf16>) -> !A
    %b = "tile.from_lane"(%w) : (vector<4xf16>) -> !B
    %thread = gpu.lane_id
    %c16 = arith.constant 16 : index
    %some = arith.cmpi ult, %thread, %c16 : index
    scf.if %some {
    // expected-error @below {{mma.sync m16n8k32, mma.sync m16n8k16, mma.sync m16n8k8, mma.sync m8n8k16, mma.sync m16n8k4, mma.sync m8n8k4 (full_active_lanes: needs all 32 lanes of the warp to reach it together, but 'scf.if' depends on the lane)}}
    %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
    }
    gpu.return
  }
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @full_active_lanes_by_another_dimension(%v: vector<8xf16>, %w: vector<4xf16>) kernel attributes {known_block_size = array<i32: 16, 2, 1>} {
    %a = "tile.from_lane"(%v) : (vector<8xf16>) -> !A
    %b = "tile.from_lane"(%w) : (vector<4xf16>) -> !B
    %thread = gpu.thread_id y
    %c16 = arith.constant 16 : index
    %some = arith.cmpi ult, %thread, %c16 : index
    scf.if %some {
    // expected-error @below {{mma.sync m16n8k32, mma.sync m16n8k16, mma.sync m16n8k8, mma.sync m8n8k16, mma.sync m16n8k4, mma.sync m8n8k4 (full_active_lanes: needs all 32 lanes of the warp to reach it together, but 'scf.if' depends on the lane)}}
    %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
    }
    gpu.return
  }
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @full_active_lanes_in_a_loop(%v: vector<8xf16>, %w: vector<4xf16>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %a = "tile.from_lane"(%v) : (vector<8xf16>) -> !A
    %b = "tile.from_lane"(%w) : (vector<4xf16>) -> !B
    %thread = gpu.thread_id x
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %thread step %c1 {
    // expected-error @below {{mma.sync m16n8k32, mma.sync m16n8k16, mma.sync m16n8k8, mma.sync m8n8k16, mma.sync m16n8k4, mma.sync m8n8k4 (full_active_lanes: needs all 32 lanes of the warp to reach it together, but 'scf.for' depends on the lane)}}
    %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
    }
    gpu.return
  }
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @full_active_lanes_by_what_a_loop_carries(%v: vector<8xf16>, %w: vector<4xf16>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %a = "tile.from_lane"(%v) : (vector<8xf16>) -> !A
    %b = "tile.from_lane"(%w) : (vector<4xf16>) -> !B
    %thread = gpu.thread_id x
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c9 = arith.constant 9 : index
    %last = scf.for %i = %c0 to %c9 step %c1 iter_args(%x = %c0) -> (index) {
      %next = arith.addi %x, %thread : index
      %some = arith.cmpi ult, %x, %c9 : index
      scf.if %some {
        // expected-error @below {{mma.sync m16n8k32, mma.sync m16n8k16, mma.sync m16n8k8, mma.sync m8n8k16, mma.sync m16n8k4, mma.sync m8n8k4 (full_active_lanes: needs all 32 lanes of the warp to reach it together, but 'scf.if' depends on the lane)}}
    %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
      }
      scf.yield %next : index
    }
    gpu.return
  }
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @full_active_lanes_by_memory(%v: vector<8xf16>, %w: vector<4xf16>, %m: memref<32xi1>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %a = "tile.from_lane"(%v) : (vector<8xf16>) -> !A
    %b = "tile.from_lane"(%w) : (vector<4xf16>) -> !B
    %thread = gpu.thread_id x
    %some = memref.load %m[%thread] : memref<32xi1>
    scf.if %some {
    // expected-error @below {{mma.sync m16n8k32, mma.sync m16n8k16, mma.sync m16n8k8, mma.sync m8n8k16, mma.sync m16n8k4, mma.sync m8n8k4 (full_active_lanes: needs all 32 lanes of the warp to reach it together, but 'scf.if' depends on the lane)}}
    %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
    }
    gpu.return
  }
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @full_active_lanes_by_private_memory(%v: vector<8xf16>, %w: vector<4xf16>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %a = "tile.from_lane"(%v) : (vector<8xf16>) -> !A
    %b = "tile.from_lane"(%w) : (vector<4xf16>) -> !B
    %thread = gpu.thread_id x
    %c0 = arith.constant 0 : index
    %own = memref.alloca() : memref<1xindex>
    memref.store %thread, %own[%c0] : memref<1xindex>
    %mine = memref.load %own[%c0] : memref<1xindex>
    %some = arith.cmpi ult, %mine, %c0 : index
    scf.if %some {
    // expected-error @below {{mma.sync m16n8k32, mma.sync m16n8k16, mma.sync m16n8k8, mma.sync m8n8k16, mma.sync m16n8k4, mma.sync m8n8k4 (full_active_lanes: needs all 32 lanes of the warp to reach it together, but 'scf.if' depends on the lane)}}
    %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
    }
    gpu.return
  }
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @full_active_lanes_by_a_fragment(%v: vector<8xf16>, %w: vector<4xf16>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %a = "tile.from_lane"(%v) : (vector<8xf16>) -> !A
    %b = "tile.from_lane"(%w) : (vector<4xf16>) -> !B
    %lane = "tile.to_lane"(%a) : (!A) -> vector<8xf16>
    %x = vector.extract %lane[0] : f16 from vector<8xf16>
    %zero = arith.constant 0.0 : f16
    %some = arith.cmpf ogt, %x, %zero : f16
    scf.if %some {
    // expected-error @below {{mma.sync m16n8k32, mma.sync m16n8k16, mma.sync m16n8k8, mma.sync m8n8k16, mma.sync m16n8k4, mma.sync m8n8k4 (full_active_lanes: needs all 32 lanes of the warp to reach it together, but 'scf.if' depends on the lane)}}
    %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
    }
    gpu.return
  }
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @full_active_lanes_by_what_another_lane_has(%v: vector<8xf16>, %w: vector<4xf16>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %a = "tile.from_lane"(%v) : (vector<8xf16>) -> !A
    %b = "tile.from_lane"(%w) : (vector<4xf16>) -> !B
    %thread = gpu.thread_id x
    %own = arith.index_cast %thread : index to i32
    %all = arith.constant -1 : i32
    %c1 = arith.constant 1 : i32
    %clamp = arith.constant 31 : i32
    %other = nvvm.shfl.sync bfly %all, %own, %c1, %clamp : i32 -> i32
    %some = arith.cmpi eq, %other, %c1 : i32
    scf.if %some {
    // expected-error @below {{mma.sync m16n8k32, mma.sync m16n8k16, mma.sync m16n8k8, mma.sync m8n8k16, mma.sync m16n8k4, mma.sync m8n8k4 (full_active_lanes: needs all 32 lanes of the warp to reach it together, but 'scf.if' depends on the lane)}}
    %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
    }
    gpu.return
  }
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @full_active_lanes_by_what_a_segment_has(%v: vector<8xf16>, %w: vector<4xf16>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %a = "tile.from_lane"(%v) : (vector<8xf16>) -> !A
    %b = "tile.from_lane"(%w) : (vector<4xf16>) -> !B
    %thread = gpu.thread_id x
    %own = arith.index_cast %thread : index to i32
    %all = arith.constant -1 : i32
    %c1 = arith.constant 1 : i32
    %clamp = arith.constant 6175 : i32
    %other = nvvm.shfl.sync idx %all, %own, %c1, %clamp : i32 -> i32
    %some = arith.cmpi eq, %other, %c1 : i32
    scf.if %some {
    // expected-error @below {{mma.sync m16n8k32, mma.sync m16n8k16, mma.sync m16n8k8, mma.sync m8n8k16, mma.sync m16n8k4, mma.sync m8n8k4 (full_active_lanes: needs all 32 lanes of the warp to reach it together, but 'scf.if' depends on the lane)}}
    %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
    }
    gpu.return
  }
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @full_active_lanes_by_a_warp_of_two_rows(%v: vector<8xf16>, %w: vector<4xf16>) kernel attributes {known_block_size = array<i32: 48, 2, 1>} {
    %a = "tile.from_lane"(%v) : (vector<8xf16>) -> !A
    %b = "tile.from_lane"(%w) : (vector<4xf16>) -> !B
    %thread = gpu.thread_id x
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %warp = arith.divui %thread, %c32 : index
    %some = arith.cmpi eq, %warp, %c0 : index
    scf.if %some {
    // expected-error @below {{mma.sync m16n8k32, mma.sync m16n8k16, mma.sync m16n8k8, mma.sync m8n8k16, mma.sync m16n8k4, mma.sync m8n8k4 (full_active_lanes: needs all 32 lanes of the warp to reach it together, but 'scf.if' depends on the lane)}}
    %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
    }
    gpu.return
  }
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @full_active_lanes_in_a_while(%v: vector<8xf16>, %w: vector<4xf16>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %a = "tile.from_lane"(%v) : (vector<8xf16>) -> !A
    %b = "tile.from_lane"(%w) : (vector<4xf16>) -> !B
    %thread = gpu.thread_id x
    %c1 = arith.constant 1 : index
    %last = scf.while (%x = %thread) : (index) -> index {
      %some = arith.cmpi ugt, %x, %c1 : index
      scf.condition(%some) %x : index
    } do {
    ^bb0(%y: index):
      // expected-error @below {{mma.sync m16n8k32, mma.sync m16n8k16, mma.sync m16n8k8, mma.sync m8n8k16, mma.sync m16n8k4, mma.sync m8n8k4 (full_active_lanes: needs all 32 lanes of the warp to reach it together, but 'scf.while' depends on the lane)}}
    %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
      scf.yield %c1 : index
    }
    gpu.return
  }
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @full_active_lanes_after_a_branch(%v: vector<8xf16>, %w: vector<4xf16>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %a = "tile.from_lane"(%v) : (vector<8xf16>) -> !A
    %b = "tile.from_lane"(%w) : (vector<4xf16>) -> !B
    %thread = gpu.thread_id x
      %c16 = arith.constant 16 : index
      %some = arith.cmpi ult, %thread, %c16 : index
      cf.cond_br %some, ^bb1, ^bb2
    ^bb1:
      // expected-error @below {{mma.sync m16n8k32, mma.sync m16n8k16, mma.sync m16n8k8, mma.sync m8n8k16, mma.sync m16n8k4, mma.sync m8n8k4 (full_active_lanes: needs all 32 lanes of the warp to reach it together, but 'cf.cond_br' depends on the lane)}}
    %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
      cf.br ^bb2
    ^bb2:
    gpu.return
  }
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @full_active_lanes_in_a_region_of_lane_0(%v: vector<8xf16>, %w: vector<4xf16>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %a = "tile.from_lane"(%v) : (vector<8xf16>) -> !A
    %b = "tile.from_lane"(%w) : (vector<4xf16>) -> !B
    %lane = gpu.lane_id
    gpu.warp_execute_on_lane_0(%lane)[32] {
    // expected-error @below {{mma.sync m16n8k32, mma.sync m16n8k16, mma.sync m16n8k8, mma.sync m8n8k16, mma.sync m16n8k4, mma.sync m8n8k4 (full_active_lanes: needs all 32 lanes of the warp to reach it together, but 'gpu.warp_execute_on_lane_0' depends on the lane)}}
    %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
    }
    gpu.return
  }
}

// -----

!R = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
gpu.module @m {
  gpu.func @helper(%v: vector<8xf16>, %w: vector<4xf16>) {
    %a = "tile.from_lane"(%v) : (vector<8xf16>) -> !R
    %b = "tile.from_lane"(%w) : (vector<4xf16>) -> tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
    // Some lanes alone may call this.
    // expected-error @below {{full_active_lanes: needs to be in a kernel, so that all 32 lanes of the warp reach it together}}
    %0 = "tile.gemm"(%a, %b) : (!R, tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>)
      -> tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
    gpu.return
  }
}

// -----

!A = tensor<16x16xf16, #tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">>
!B = tensor<16x8xf16, #tile.layout<"S[(2,4,2,8):(2,1@laneid,1,4@laneid)]">>
!D = tensor<16x8xf32, #tile.layout<"S[(2,8,4,2):(2,4@laneid,1@laneid,1)]">>
gpu.module @m {
  gpu.func @full_active_lanes_of_an_unknown_block(%a: !A, %b: !B) kernel {
    // expected-error @below {{full_active_lanes: needs to be in a kernel with 'known_block_size', so that all 32 lanes of the warp reach it together}}
    %0 = "tile.gemm"(%a, %b) : (!A, !B) -> !D
    gpu.return
  }
}
