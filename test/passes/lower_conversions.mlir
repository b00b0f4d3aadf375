// RUN: weft-opt %s --lower-conversions | FileCheck %s

gpu.module @without [#nvvm.target<chip = "sm_89">] {
  // Beyond the 24 digits of f32, the lowest digits become one that is set if any of them was.
  // CHECK-LABEL: gpu.func @signed
  // CHECK-SAME: %[[X:.*]]: i32
  // CHECK: %[[LOW:.*]] = arith.andi %[[X]], %{{.*}} : i32
  // CHECK: %[[SOME:.*]] = arith.cmpi ne, %[[LOW]]
  // CHECK: %[[DIGITS:.*]] = arith.subi %[[X]], %[[LOW]]
  // CHECK: %[[ODD:.*]] = arith.ori %[[DIGITS]]
  // CHECK: %[[FITS:.*]] = arith.cmpi ult
  // CHECK: %[[SHORT:.*]] = arith.select %[[FITS]], %[[X]], %[[ODD]]
  // CHECK: %[[EXACT:.*]] = arith.sitofp %[[SHORT]] : i32 to f32
  // CHECK: arith.truncf %[[EXACT]] : f32 to bf16
  gpu.func @signed(%x: i32, %d: memref<bf16>) kernel {
    %0 = arith.sitofp %x : i32 to bf16
    memref.store %0, %d[] : memref<bf16>
    gpu.return
  }

  // CHECK-LABEL: gpu.func @vectors
  // CHECK-COUNT-3: arith.select %{{.*}} : vector<2xi1>, vector<2xi64>
  // CHECK: arith.uitofp %{{.*}} : vector<2xi64> to vector<2xf32>
  // CHECK: arith.truncf %{{.*}} : vector<2xf32> to vector<2xbf16>
  gpu.func @vectors(%x: vector<2xi64>, %d: memref<2xbf16>, %i: index) kernel {
    %0 = arith.uitofp %x : vector<2xi64> to vector<2xbf16>
    vector.store %0, %d[%i] : memref<2xbf16>, vector<2xbf16>
    gpu.return
  }

  // CHECK-LABEL: gpu.func @others
  // CHECK: arith.sitofp %{{.*}} : i16 to bf16
  // CHECK: arith.sitofp %{{.*}} : i64 to f16
  gpu.func @others(%x: i16, %y: i64, %d: memref<bf16>, %e: memref<f16>) kernel {
    %0 = arith.sitofp %x : i16 to bf16
    %1 = arith.sitofp %y : i64 to f16
    memref.store %0, %d[] : memref<bf16>
    memref.store %1, %e[] : memref<f16>
    gpu.return
  }
}

// CHECK-LABEL: gpu.module @with
// CHECK: arith.sitofp %{{.*}} : i32 to bf16
gpu.module @with [#nvvm.target<chip = "sm_90">] {
  gpu.func @signed(%x: i32, %d: memref<bf16>) kernel {
    %0 = arith.sitofp %x : i32 to bf16
    memref.store %0, %d[] : memref<bf16>
    gpu.return
  }
}

// CHECK-LABEL: func.func @host
// CHECK: arith.sitofp %{{.*}} : i64 to bf16
func.func @host(%x: i64) -> bf16 {
  %0 = arith.sitofp %x : i64 to bf16
  return %0 : bf16
}
