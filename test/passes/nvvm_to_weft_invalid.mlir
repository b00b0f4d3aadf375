// RUN: weft-opt %s --nvvm-to-weft --split-input-file --verify-diagnostics

// Upstream's verifier takes all of these; its translation dies of some, LLVM or ptxas of the others.

llvm.func @mixed_inputs(%i: i32, %f: f32) {
  // expected-error @below {{'mma.sync' op A of bf16 needs B of bf16, got tf32}}
  %0 = nvvm.mma.sync A[%i, %i, %i, %i] B[%i, %i] C[%f, %f, %f, %f] {layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, multiplicandAPtxType = #nvvm.mma_type<bf16>, multiplicandBPtxType = #nvvm.mma_type<tf32>, shape = #nvvm.shape<m = 16, n = 8, k = 16>} : (i32, i32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  // Each is reported, not only the first.
  // expected-error @below {{'mma.sync' op A of s8 needs B of s8 or u8, got s4}}
  %1 = nvvm.mma.sync A[%i, %i] B[%i] C[%i, %i, %i, %i] {intOverflowBehavior = #nvvm.mma_int_overflow<wrapped>, layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, multiplicandAPtxType = #nvvm.mma_type<s8>, multiplicandBPtxType = #nvvm.mma_type<s4>, shape = #nvvm.shape<m = 16, n = 8, k = 16>} : (i32, i32, i32) -> !llvm.struct<(i32, i32, i32, i32)>
  llvm.return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_80">] {
  llvm.func @fp8(%i: i32, %f: f32) {
    // expected-error @below {{'mma.sync' op needs sm_89 or later: sm_80 has no mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32}}
    %0 = nvvm.mma.sync A[%i, %i, %i, %i] B[%i, %i] C[%f, %f, %f, %f] {layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, multiplicandAPtxType = #nvvm.mma_type<e4m3>, multiplicandBPtxType = #nvvm.mma_type<e4m3>, shape = #nvvm.shape<m = 16, n = 8, k = 32>} : (i32, i32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    llvm.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_75">] {
  llvm.func @bf16(%i: i32, %f: f32) {
    // expected-error @below {{'mma.sync' op needs sm_80 or later: sm_75 has no mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32; nearest legal: mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32}}
    %0 = nvvm.mma.sync A[%i, %i] B[%i] C[%f, %f, %f, %f] {layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, multiplicandAPtxType = #nvvm.mma_type<bf16>, multiplicandBPtxType = #nvvm.mma_type<bf16>, shape = #nvvm.shape<m = 16, n = 8, k = 8>} : (i32, i32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    llvm.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_70">] {
  llvm.func @wmma(%p: !llvm.ptr, %stride: i32) {
    // expected-error @below {{'wmma.load' op needs sm_72 or later: sm_70 has no wmma.load.a.sync.aligned.row.m16n16k16.s8}}
    %0 = nvvm.wmma.load %p, %stride {eltype = #nvvm.mma_type<s8>, frag = #nvvm.mma_frag<a>, k = 16 : i32, layout = #nvvm.mma_layout<row>, m = 16 : i32, n = 16 : i32} : (!llvm.ptr) -> !llvm.struct<(i32, i32)>
    llvm.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_75">] {
 llvm.func @doubles(%p: !llvm.ptr, %stride: i32) {
  // expected-error @below {{'wmma.load' op has no f64: use mma.sync, whose fragments of f64 PTX documents; nearest legal: wmma.load.a.sync.aligned.row.m16n16k16.f16,}}
  %0 = nvvm.wmma.load %p, %stride {eltype = #nvvm.mma_type<f64>, frag = #nvvm.mma_frag<a>, k = 4 : i32, layout = #nvvm.mma_layout<row>, m = 8 : i32, n = 8 : i32} : (!llvm.ptr) -> f64
  llvm.return
}
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  llvm.func @wgmma(%a: i64, %s: !llvm.struct<(f32, f32, f32, f32)>) {
    // expected-error @below {{'wgmma.mma_async' op needs sm_90a: sm_100a has no form of wgmma.mma_async}}
    %0 = nvvm.wgmma.mma_async %a, %a, %s, #nvvm.shape<m = 64, n = 8, k = 16>, D [<f32>, #nvvm.wgmma_scale_out<one>], A [<f16>, #nvvm.wgmma_scale_in<one>, <row>], B [<f16>, #nvvm.wgmma_scale_in<one>, <col>] : !llvm.struct<(f32, f32, f32, f32)> -> !llvm.struct<(f32, f32, f32, f32)>
    llvm.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_103a">] {
  llvm.func @int8_kind(%d: !llvm.ptr<6>, %a: i64, %idesc: i32, %more: i1) {
    // expected-error @below {{'tcgen05.mma' op kind i8 is legal on sm_100a, sm_110a only, got sm_103a}}
    nvvm.tcgen05.mma %d, %a, %a, %idesc, %more {ctaGroup = #nvvm.cta_group<cta_1>, kind = #nvvm.tcgen05_mma_kind<i8>} : (!llvm.ptr<6>, i64, i64, i32, i1)
    llvm.return
  }
}

// -----

llvm.func @no_constant(%i: i32, %selector: i32, %f: f32) {
  // expected-error @below {{'nvvm.mma.sp.sync' op expects selector to be a constant, since the instruction takes an immediate}}
  %0 = nvvm.mma.sp.sync A[%i, %i] B[%i, %i] C[%f, %f, %f, %f] sparseMetadata[%i] selector[%selector] {multiplicandAPtxType = #nvvm.mma_type<bf16>, multiplicandBPtxType = #nvvm.mma_type<bf16>, shape = #nvvm.shape<m = 16, n = 8, k = 16>} : (i32, i32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  llvm.return
}

// -----

llvm.func @selector_of_no_lane(%i: i32, %f: f32) {
  %selector = llvm.mlir.constant(2 : i32) : i32
  // expected-error @below {{'mma.sp_sync' op selector must be 0 or 1, got 2}}
  %0 = nvvm.mma.sp.sync A[%i, %i, %i, %i] B[%i, %i, %i, %i] C[%f, %f, %f, %f] sparseMetadata[%i] selector[%selector] {multiplicandAPtxType = #nvvm.mma_type<bf16>, multiplicandBPtxType = #nvvm.mma_type<bf16>, orderedMetadata, shape = #nvvm.shape<m = 16, n = 8, k = 32>} : (i32, i32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  llvm.return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_100a">] {
  llvm.func @attribute_of_a_later_release(%b: !llvm.ptr<3>) {
    // expected-error @below {{'nvvm.tcgen05.commit' op has attribute 'smem_a_read', which means to signal once A was read from shared memory: leave it out, or write 'tcgen05.commit' with sync_restrict "shared::read::mma::a", on sm_107}}
    nvvm.tcgen05.commit %b {smem_a_read = true} : !llvm.ptr<3>
    llvm.return
  }
}

// -----

llvm.func @misspelled_attribute(%b: !llvm.ptr<3>) {
  // expected-error @below {{'nvvm.tcgen05.commit' op has no attribute 'groups': it has group; did you mean 'group'?}}
  nvvm.tcgen05.commit %b {groups = 2} : !llvm.ptr<3>
  llvm.return
}

// -----

llvm.func @attribute_of_nothing() {
  // expected-error @below {{'nvvm.wgmma.fence.aligned' op has no attribute 'fast': it has none}}
  nvvm.wgmma.fence.aligned {fast}
  llvm.return
}
