// The products that examples/tcgen05_gemm.py builds: of a pair, of both formats with scales, and of wgmma.
// RUN: env PYTHONPATH=%examples python -c "from tcgen05_gemm import *; print(*(build(*each) for each in (('f16', 2), ('mxfp8',), ('nvfp4', 2))), build_wgmma(), sep='// -----\n')" > %t.mlir
// RUN: weft-opt %t.mlir --split-input-file --mlir-print-local-scope --lower-tma --lower-copies --lower-gemm-async | FileCheck %s

// The leader's instructions compute 256 rows and columns; all have the accumulator of the pair.
// CHECK: "tcgen05.shared_memory_descriptor"(%{{.*}}) {leading_byte_offset = 1024 : i64, stride_byte_offset = 1024 : i64, swizzle = "128B"}
// CHECK: "tcgen05.instruction_descriptor"() {a_type = "f16", b_type = "f16", cta_group = 2 : i64, d_type = "f32", kind = "f16", m = 256 : i64, n = 256 : i64}
// CHECK-COUNT-4: "tcgen05.mma"({{.*}}) {cta_group = 2 : i64, kind = "f16"
// CHECK-NOT: "tcgen05.mma"

// mxfp8: each step of 32 elements has the next scale of the same columns.
// CHECK: "tcgen05.cp"{{.*}} {cta_group = 1 : i64, multicast = "warpx4", shape = "32x128b"}
// CHECK: "tcgen05.cp"{{.*}} {cta_group = 1 : i64, multicast = "warpx4", shape = "32x128b"}
// CHECK-DAG: %[[SCALE_A:.*]] = "tile.address"(%{{.*}}f8E8M0FNU, {{.*}}"tmem">) -> !llvm.ptr<6>
// CHECK-DAG: %[[I0:.*]] = "tcgen05.block_scaled_descriptor"() {a_type = "e4m3", b_type = "e4m3", kind = "mxf8f6f4", m = 128 : i64, n = 128 : i64, scale_vec = "block32"}
// CHECK-DAG: %[[I1:.*]] = "tcgen05.block_scaled_descriptor"() {a_scale_id = 1 : i64, a_type = "e4m3", b_scale_id = 1 : i64, b_type = "e4m3", kind = "mxf8f6f4", m = 128 : i64, n = 128 : i64, scale_vec = "block32"}
// CHECK-DAG: %[[I2:.*]] = "tcgen05.block_scaled_descriptor"() {a_scale_id = 2 : i64,
// CHECK-DAG: %[[I3:.*]] = "tcgen05.block_scaled_descriptor"() {a_scale_id = 3 : i64,
// CHECK: "tcgen05.mma_block_scale"(%[[D:.*]], %{{.*}}, %{{.*}}, %[[I0]], %[[A:.*]], %[[B:.*]], %false
// CHECK: "tcgen05.mma_block_scale"(%[[D]], %{{.*}}, %{{.*}}, %[[I1]], %[[A]], %[[B]], %true
// CHECK: "tcgen05.mma_block_scale"(%[[D]], %{{.*}}, %{{.*}}, %[[I2]], %[[A]], %[[B]], %true
// CHECK: "tcgen05.mma_block_scale"(%[[D]], %{{.*}}, %{{.*}}, %[[I3]], %[[A]], %[[B]], %true

// nvfp4: each step of 64 elements has the next four columns of scales of A, and the next eight of B's 256 columns. One
// descriptor serves all.
// CHECK-COUNT-4: "tcgen05.cp"{{.*}} {cta_group = 2 : i64, multicast = "warpx4", shape = "32x128b"}
// CHECK: %[[I:.*]] = "tcgen05.block_scaled_descriptor"() {a_type = "e2m1", b_type = "e2m1", cta_group = 2 : i64, kind = "mxf4nvf4", m = 256 : i64, n = 256 : i64, scale_type = "ue4m3", scale_vec = "block16"}
// CHECK: "tcgen05.mma_block_scale"(%[[D:.*]], %{{.*}}, %{{.*}}, %[[I]], %[[A:.*]], %[[B:.*]], %false
// CHECK: %[[A1:.*]] = llvm.getelementptr %[[A]][4]
// CHECK: %[[B1:.*]] = llvm.getelementptr %[[B]][8]
// CHECK: "tcgen05.mma_block_scale"(%[[D]], %{{.*}}, %{{.*}}, %[[I]], %[[A1]], %[[B1]], %true
// CHECK: llvm.getelementptr %[[A]][8]
// CHECK: llvm.getelementptr %[[B]][16]
// CHECK: "tcgen05.mma_block_scale"
// CHECK: llvm.getelementptr %[[A]][12]
// CHECK: llvm.getelementptr %[[B]][24]
// CHECK: "tcgen05.mma_block_scale"

// CHECK-COUNT-2: "wgmma.descriptor"(%{{.*}}) {stride_byte_offset = 1024 : i64, swizzle = "128B"}
// CHECK-COUNT-8: "wgmma.mma_async"{{.*}} shape = "m64n128k16"
