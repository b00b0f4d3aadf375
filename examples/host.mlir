// A program: host code that launches two kernels. Run it on the GPU, or without one in the emulator:
//   weft run examples/host.mlir --entry main
module attributes {gpu.container_module} {
  // D = A B, of which A and B are small and D is f32.
  gpu.module @products {
    gpu.func @multiply(%A: memref<16x16xf16>, %B: memref<16x16xf16>, %D: memref<16x16xf32>) kernel
        attributes {known_block_size = array<i32: 32, 1, 1>} {
      %zero = arith.constant 0 : index
      %none = arith.constant 0.0 : f32
      %a = gpu.subgroup_mma_load_matrix %A[%zero, %zero] {leadDimension = 16 : index}
        : memref<16x16xf16> -> !gpu.mma_matrix<16x16xf16, "AOp">
      %b = gpu.subgroup_mma_load_matrix %B[%zero, %zero] {leadDimension = 16 : index}
        : memref<16x16xf16> -> !gpu.mma_matrix<16x16xf16, "BOp">
      %c = gpu.subgroup_mma_constant_matrix %none : !gpu.mma_matrix<16x16xf32, "COp">
      %d = gpu.subgroup_mma_compute %a, %b, %c
        : !gpu.mma_matrix<16x16xf16, "AOp">, !gpu.mma_matrix<16x16xf16, "BOp"> -> !gpu.mma_matrix<16x16xf32, "COp">
      gpu.subgroup_mma_store_matrix %d, %D[%zero, %zero] {leadDimension = 16 : index}
        : !gpu.mma_matrix<16x16xf32, "COp">, memref<16x16xf32>
      gpu.return
    }
  }

  // D = max(D + bias, 0), a row for each CTA.
  gpu.module @rows {
    gpu.func @bias_relu(%D: memref<16x16xf32>, %bias: f32) kernel {
      %none = arith.constant 0.0 : f32
      %row = gpu.block_id x
      %column = gpu.thread_id x
      %d = memref.load %D[%row, %column] : memref<16x16xf32>
      %sum = arith.addf %d, %bias : f32
      %positive = arith.maximumf %sum, %none : f32
      memref.store %positive, %D[%row, %column] : memref<16x16xf32>
      gpu.return
    }
  }

  func.func @main() {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %size = arith.constant 16 : index
    %warp = arith.constant 32 : index

    // A[i, j] = i, and B is the unit matrix: D = A.
    %A = memref.alloc() : memref<16x16xf16>
    %B = memref.alloc() : memref<16x16xf16>
    %D = memref.alloc() : memref<16x16xf32>
    scf.for %i = %zero to %size step %one {
      %row = arith.index_cast %i : index to i32
      %a = arith.sitofp %row : i32 to f16
      scf.for %j = %zero to %size step %one {
        %diagonal = arith.cmpi eq, %i, %j : index
        %b = arith.uitofp %diagonal : i1 to f16
        memref.store %a, %A[%i, %j] : memref<16x16xf16>
        memref.store %b, %B[%i, %j] : memref<16x16xf16>
      }
    }

    %start = gpu.wait async
    %deviceA, %t0 = gpu.alloc async [%start] () : memref<16x16xf16>
    %deviceB, %t1 = gpu.alloc async [%t0] () : memref<16x16xf16>
    %deviceD, %t2 = gpu.alloc async [%t1] () : memref<16x16xf32>
    %t3 = gpu.memcpy async [%t2] %deviceA, %A : memref<16x16xf16>, memref<16x16xf16>
    %t4 = gpu.memcpy async [%t3] %deviceB, %B : memref<16x16xf16>, memref<16x16xf16>
    %t5 = gpu.launch_func async [%t4] @products::@multiply
      blocks in (%one, %one, %one) threads in (%warp, %one, %one)
      args(%deviceA : memref<16x16xf16>, %deviceB : memref<16x16xf16>, %deviceD : memref<16x16xf32>)
    %ten = arith.constant -10.0 : f32
    %t6 = gpu.launch_func async [%t5] @rows::@bias_relu
      blocks in (%size, %one, %one) threads in (%size, %one, %one)
      args(%deviceD : memref<16x16xf32>, %ten : f32)
    %t7 = gpu.memcpy async [%t6] %D, %deviceD : memref<16x16xf32>, memref<16x16xf32>
    %t8 = gpu.dealloc async [%t7] %deviceD : memref<16x16xf32>
    gpu.wait [%t8]

    %row = memref.subview %D[14, 0] [1, 4] [1, 1] : memref<16x16xf32> to memref<4xf32, strided<[1], offset: 224>>
    %shown = memref.cast %row : memref<4xf32, strided<[1], offset: 224>> to memref<*xf32>
    call @printMemrefF32(%shown) : (memref<*xf32>) -> ()
    return
  }
  func.func private @printMemrefF32(memref<*xf32>)
}
