// Launches in all their forms: of several modules, with clusters, dynamic shared memory, tokens and async regions.

// RUN: weft run %s --entry main --on emulator --arch sm_90a | FileCheck %s
// RUN: weft run %examples/host.mlir --entry main --on emulator | FileCheck %s --check-prefix=EXAMPLE
// EXAMPLE: offset = 224 sizes = [4] strides = [1]
// EXAMPLE: [4, 4, 4, 4]
// EXAMPLE: ran main for sm_80 in the emulator
// EXAMPLE: multiply: grid 1x1x1, block 32x1x1
// EXAMPLE: bias_relu: grid 16x1x1, block 16x1x1
// EXAMPLE: RAN
// CHECK:      [4, 5, 6, 7, 0, 1, 2, 3, 12, -1, -1, -1, 8]
// CHECK-NEXT: block 3 of cluster 1, -4, 1
// CHECK:      [12, 14]
// CHECK:      [30, 31, 20, 21]
// CHECK-NEXT: 2000
// CHECK-NEXT: ran main for sm_90a in the emulator
// CHECK:      shuffle: grid 1x1x1, block 13x1x1
// CHECK:      clusters: grid 4x1x1, block 1x1x1
// CHECK:      main_kernel: grid 1x1x1, block 2x1x1
// CHECK:      swap: grid 1x1x1, block 4x1x1
// CHECK:      main_kernel: grid 1x1x1, block 1x1x1
// CHECK-NEXT: RAN
module attributes {gpu.container_module} {
  gpu.module @first {
    gpu.func @shuffle(%m: memref<?xf32>) kernel {
      %i = gpu.thread_id x
      %n = gpu.block_dim x
      %width = arith.index_cast %n : index to i32
      %by = arith.constant 4 : i32
      %none = arith.constant -1.0 : f32
      %lane = arith.index_cast %i : index to i32
      %x = arith.sitofp %lane : i32 to f32
      %y, %valid = gpu.shuffle xor %x, %by, %width : f32
      %z = arith.select %valid, %y, %none : f32
      memref.store %z, %m[%i] : memref<?xf32>
      gpu.return
    }
    gpu.func @clusters() kernel {
      %b = gpu.block_id x
      %c = gpu.cluster_id x
      %last = arith.constant 3 : index
      %seven = arith.constant 7 : i8
      %is_last = arith.cmpi eq, %b, %last : index
      scf.if %is_last {
        %block = arith.index_cast %b : index to i8
        %short = arith.subi %block, %seven : i8
        gpu.printf "block %lld of cluster %lld, %d, %d\n", %b, %c, %short, %is_last : index, index, i8, i1
      }
      gpu.return
    }
  }
  gpu.module @second [#nvvm.target<chip = "sm_90a">] {
    // Through dynamic shared memory, which lies behind the static.
    memref.global "private" @bias : memref<4xi32, 3>
    gpu.func @swap(%m: memref<4xi32>) kernel {
      %two = arith.constant 2 : index
      %zero = arith.constant 0 : index
      %ten = arith.constant 10 : i32
      %i = gpu.thread_id x
      %bytes = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
      %room = memref.view %bytes[%zero][] : memref<?xi8, #gpu.address_space<workgroup>> to memref<4xi32, #gpu.address_space<workgroup>>
      %bias = memref.get_global @bias : memref<4xi32, 3>
      %x = memref.load %m[%i] : memref<4xi32>
      memref.store %x, %room[%i] : memref<4xi32, #gpu.address_space<workgroup>>
      memref.store %ten, %bias[%i] : memref<4xi32, 3>
      gpu.barrier
      %other = arith.xori %i, %two : index
      %y = memref.load %room[%other] : memref<4xi32, #gpu.address_space<workgroup>>
      %b = memref.load %bias[%other] : memref<4xi32, 3>
      %z = arith.addi %y, %b : i32
      memref.store %z, %m[%i] : memref<4xi32>
      gpu.return
    }
  }
  func.func @main() {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c13 = arith.constant 13 : index
    %m = memref.alloc(%c13) : memref<?xf32>
    %u = memref.cast %m : memref<?xf32> to memref<*xf32>
    gpu.host_register %u : memref<*xf32>
    gpu.launch_func @first::@shuffle blocks in (%c1, %c1, %c1) threads in (%c13, %c1, %c1) args(%m : memref<?xf32>)
    call @printMemrefF32(%u) : (memref<*xf32>) -> ()
    gpu.launch_func @first::@clusters clusters in (%c2, %c1, %c1) blocks in (%c4, %c1, %c1) threads in (%c1, %c1, %c1)

    // Copies in async regions, and a launch that depends on them.
    %h = memref.alloc(%c2) : memref<?xi32>
    %uh = memref.cast %h : memref<?xi32> to memref<*xi32>
    gpu.host_register %uh : memref<*xi32>
    %six = arith.constant 6 : i32
    %seven = arith.constant 7 : i32
    memref.store %six, %h[%c0] : memref<?xi32>
    memref.store %seven, %h[%c1] : memref<?xi32>
    %t0, %f0 = async.execute -> !async.value<memref<?xi32>> {
      %b = gpu.alloc(%c2) : memref<?xi32>
      gpu.memcpy %b, %h : memref<?xi32>, memref<?xi32>
      async.yield %b : memref<?xi32>
    }
    %t1 = async.execute [%t0] (%f0 as %b: !async.value<memref<?xi32>>) {
      gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
                 threads(%tx, %ty, %tz) in (%sx = %c2, %sy = %c1, %sz = %c1) {
        %x = memref.load %b[%tx] : memref<?xi32>
        %y = arith.addi %x, %x : i32
        memref.store %y, %h[%tx] : memref<?xi32>
        gpu.terminator
      }
      async.yield
    }
    async.await %t1 : !async.token
    call @printMemrefI32(%uh) : (memref<*xi32>) -> ()

    // Two streams, one of which waits for the other.
    %k = memref.alloc() : memref<4xi32>
    scf.for %i = %c0 to %c4 step %c1 {
      %x = arith.index_cast %i : index to i32
      %ten = arith.constant 10 : i32
      %is_high = arith.cmpi uge, %i, %c2 : index
      %low = arith.constant 8 : i32
      %high = arith.constant 18 : i32
      %base = arith.select %is_high, %high, %ten : i32
      %y = arith.addi %x, %base : i32
      memref.store %y, %k[%i] : memref<4xi32>
    }
    %one = gpu.wait async
    %other = gpu.wait async
    %d, %alloc = gpu.alloc async [%one] () : memref<4xi32>
    %copied = gpu.memcpy async [%alloc, %other] %d, %k : memref<4xi32>, memref<4xi32>
    %size = arith.constant 16 : i32
    %launched = gpu.launch_func async [%copied] @second::@swap blocks in (%c1, %c1, %c1) threads in (%c4, %c1, %c1)
      dynamic_shared_memory_size %size args(%d : memref<4xi32>)
    gpu.wait [%launched]
    gpu.memcpy %k, %d : memref<4xi32>, memref<4xi32>
    gpu.dealloc %d : memref<4xi32>
    %uk = memref.cast %k : memref<4xi32> to memref<*xi32>
    call @printMemrefI32(%uk) : (memref<*xi32>) -> ()

    %shared = gpu.alloc host_shared () : memref<1xi32>
    %thousand = arith.constant 1000 : i32
    memref.store %thousand, %shared[%c0] : memref<1xi32>
    gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
               threads(%tx, %ty, %tz) in (%sx = %c1, %sy = %c1, %sz = %c1) {
      %x = memref.load %shared[%tx] : memref<1xi32>
      %y = arith.addi %x, %x : i32
      memref.store %y, %shared[%tx] : memref<1xi32>
      gpu.terminator
    }
    %twice = memref.load %shared[%c0] : memref<1xi32>
    vector.print %twice : i32
    return
  }
  func.func private @printMemrefF32(memref<*xf32>)
  func.func private @printMemrefI32(memref<*xi32>)
}
