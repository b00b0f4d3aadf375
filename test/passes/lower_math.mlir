// RUN: weft-opt %s --lower-math --split-input-file --verify-diagnostics | FileCheck %s

gpu.module @m {
  // CHECK-LABEL: gpu.func @functions
  // CHECK: llvm.call_intrinsic "llvm.sqrt.f32"
  // CHECK: llvm.call_intrinsic "llvm.maxnum.f32"
  // CHECK: llvm.call_intrinsic "llvm.ctlz.i32"(%{{.*}}, %{{.*}}) : (i32, i1) -> i32
  gpu.func @functions(%x: f32, %i: i32, %d: memref<f32>, %e: memref<i32>) kernel {
    %0 = math.sqrt %x : f32
    %1 = arith.maxnumf %0, %x : f32
    memref.store %1, %d[] : memref<f32>
    %2 = math.ctlz %i : i32
    memref.store %2, %e[] : memref<i32>
    gpu.return
  }

  // Of f16 in f32, element by element.
  // CHECK-LABEL: gpu.func @short
  // CHECK: %[[E:.*]]:2 = vector.to_elements
  // CHECK: %[[WIDE:.*]] = arith.extf %[[E]]#0 : f16 to f32
  // CHECK: %[[FLOOR:.*]] = llvm.call_intrinsic "llvm.floor.f32"(%[[WIDE]])
  // CHECK: arith.truncf %[[FLOOR]] : f32 to f16
  // CHECK: vector.from_elements %{{.*}}, %{{.*}} : vector<2xf16>
  gpu.func @short(%x: vector<2xf16>, %d: memref<2xf16>, %i: index) kernel {
    %0 = math.floor %x : vector<2xf16>
    vector.store %0, %d[%i] : memref<2xf16>, vector<2xf16>
    gpu.return
  }

  // The sum of an exact product is rounded once.
  // CHECK-LABEL: gpu.func @fma
  // CHECK: llvm.intr.fma(%{{.*}}) : (f16, f16, f16) -> f16
  gpu.func @fma(%x: f16, %d: memref<f16>) kernel {
    %0 = math.fma %x, %x, %x : f16
    memref.store %0, %d[] : memref<f16>
    gpu.return
  }

  // Functions that may be approximated become the instructions that approximate them.
  // CHECK-LABEL: gpu.func @approximate
  // CHECK: %[[A:.*]] = nvvm.ex2 %{{.*}} {ftz = true} : f32
  // CHECK: %[[B:.*]] = llvm.inline_asm "lg2.approx.ftz.f32 $0, $1;", "=f,f" %[[A]]
  // CHECK: %[[C:.*]] = nvvm.rcp.approx.ftz.f %[[B]]
  // CHECK: arith.divf %[[C]], %{{.*}} fastmath<afn>
  gpu.func @approximate(%x: f32, %d: memref<f32>) kernel {
    %one = arith.constant 1.0 : f32
    %0 = math.exp2 %x fastmath<afn> : f32
    %1 = math.log2 %0 fastmath<fast> : f32
    %2 = arith.divf %one, %1 fastmath<contract,afn> : f32
    %3 = arith.divf %2, %x fastmath<afn> : f32
    memref.store %3, %d[] : memref<f32>
    gpu.return
  }

  // f64 has no approximation.
  // CHECK-LABEL: gpu.func @wide
  // CHECK-NOT: ex2
  // CHECK: gpu.return
  gpu.func @wide(%x: f64, %d: memref<f64>) kernel {
    %0 = math.exp2 %x fastmath<afn> : f64
    memref.store %0, %d[] : memref<f64>
    gpu.return
  }
}

// -----

// A library of the module's own is called.
gpu.module @m {
  llvm.func @__nv_sinf(f32) -> f32
  // CHECK-LABEL: gpu.func @own
  // CHECK: math.sin
  gpu.func @own(%x: f32, %d: memref<f32>) kernel {
    %0 = math.sin %x : f32
    memref.store %0, %d[] : memref<f32>
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_75">] {
  gpu.func @without(%x: bf16, %d: memref<bf16>) kernel {
    // expected-error @below {{'math.fma' op on bf16 needs sm_80 or later, got sm_75: extend to f32}}
    %0 = math.fma %x, %x, %x : bf16
    memref.store %0, %d[] : memref<bf16>
    gpu.return
  }
}

// -----

// sm_75 is the first with tanh.
gpu.module @m [#nvvm.target<chip = "sm_70">] {
  // CHECK-LABEL: gpu.func @tanh
  // CHECK-NOT: tanh.approx
  // CHECK: gpu.return
  gpu.func @tanh(%x: f32, %d: memref<f32>) kernel {
    %0 = math.tanh %x fastmath<afn> : f32
    memref.store %0, %d[] : memref<f32>
    gpu.return
  }
}
