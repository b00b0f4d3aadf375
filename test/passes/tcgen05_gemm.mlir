// The forms of examples/tcgen05_gemm.mlir on its way to PTX.
// RUN: weft-opt %examples/tcgen05_gemm.mlir --lower-gemm-async | FileCheck %s --check-prefix=PRODUCT
// RUN: weft-opt %examples/tcgen05_gemm.mlir --weft-to-instructions | FileCheck %s --check-prefix=INSTRUCTIONS
// RUN: weft compile %examples/tcgen05_gemm.mlir --emit ptx | FileCheck %s --check-prefix=PTX

// Both descriptors have offsets of 64 units of 16 bytes and swizzle mode 3, 128B. The second one of A is its stage 1, that
// of B its stage 2, which are 1024 units apart; the accumulator begins at column 256.
// PRODUCT: %[[D:.*]] = "tile.slice"(%{{.*}}, %{{.*}}, %c256_i32)
// PRODUCT: scf.if
// PRODUCT: %[[RING_A:.*]] = "tcgen05.shared_memory_descriptor"(%{{.*}}) {leading_byte_offset = 1024 : i64, stride_byte_offset = 1024 : i64, swizzle = "128B"}
// PRODUCT-NEXT: %[[STAGE:.*]] = arith.constant 1024 : i32
// PRODUCT-NEXT: arith.muli %c1_i32, %[[STAGE]]
// PRODUCT: %[[RING_B:.*]] = "tcgen05.shared_memory_descriptor"(%{{.*}}) {leading_byte_offset = 1024 : i64, stride_byte_offset = 1024 : i64, swizzle = "128B"}
// PRODUCT-NEXT: %[[STAGE:.*]] = arith.constant 1024 : i32
// PRODUCT-NEXT: arith.muli %c2_i32, %[[STAGE]]
// PRODUCT: %[[AT:.*]] = "tile.address"(%[[D]])
// PRODUCT: %[[IDESC:.*]] = "tcgen05.instruction_descriptor"() {a_type = "f16", b_type = "f16", d_type = "f32", kind = "f16", m = 128 : i64, n = 128 : i64}
// PRODUCT: "tcgen05.mma"(%[[AT]], %{{.*}}, %{{.*}}, %[[IDESC]], %false) {cta_group = 1 : i64, kind = "f16"
// PRODUCT-COUNT-3: "tcgen05.mma"(%[[AT]], %{{.*}}, %{{.*}}, %[[IDESC]], %true{{.*}}) {cta_group = 1 : i64, kind = "f16"
// PRODUCT-NOT: "tcgen05.mma"
// PRODUCT: "tile.commit"

// INSTRUCTIONS: nvvm.mbarrier.init
// INSTRUCTIONS: "tcgen05.alloc"(%{{.*}}, %c512_i32{{.*}}) {cta_group = 1 : i64}
// INSTRUCTIONS: "tcgen05.relinquish_alloc_permit"
// INSTRUCTIONS: gpu.barrier
// INSTRUCTIONS: nvvm.mbarrier.arrive.expect_tx
// INSTRUCTIONS-COUNT-2: nvvm.cp.async.bulk.tensor.shared.cluster.global
// INSTRUCTIONS: nvvm.mbarrier.try_wait
// INSTRUCTIONS-COUNT-4: "tcgen05.mma"
// INSTRUCTIONS: "tcgen05.commit"
// INSTRUCTIONS: nvvm.mbarrier.try_wait
// INSTRUCTIONS: "tcgen05.fence"() {kind = "after_thread_sync"}
// INSTRUCTIONS: "tcgen05.ld"
// INSTRUCTIONS: "tcgen05.wait"() {kind = "ld"}
// INSTRUCTIONS: gpu.barrier
// INSTRUCTIONS: "tcgen05.dealloc"(%{{.*}}, %c512_i32{{.*}}) {cta_group = 1 : i64}

// PTX: tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32
// PTX-COUNT-2: cp.async.bulk.tensor.2d.shared::cluster.global
// PTX: mbarrier.try_wait.parity
// PTX-COUNT-4: tcgen05.mma.cta_group::1.kind::f16
// PTX: tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64
// PTX: mbarrier.try_wait.parity
// PTX: tcgen05.fence::after_thread_sync
// PTX: tcgen05.ld.sync.aligned.32x32b
// PTX: tcgen05.wait::ld.sync.aligned
// PTX: tcgen05.dealloc.cta_group::1.sync.aligned.b32
