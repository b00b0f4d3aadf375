// RUN: weft-opt %s --pipeline-loops --split-input-file --verify-diagnostics

gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  gpu.func @thread(%a: memref<?x?xbf16>, %d: memref<?x?xf32>, %n: i32) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    // expected-error @below {{'gpu.thread_id' op can't be divided among the warps of a product of loaded tiles, as loads, stores and operations by element and by row can: write roles}}
    %thread = gpu.thread_id x
    %row = arith.index_cast %thread : index to i32
    %s = scf.for %k = %c0 to %n step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = "tile.load"(%a, %row, %k) : (memref<?x?xbf16>, i32, i32) -> tensor<128x64xbf16>
      %y = "tile.load"(%a, %k, %c0) : (memref<?x?xbf16>, i32, i32) -> tensor<64x128xbf16>
      // expected-note @below {{the product of loaded tiles, which --pipeline-loops divides}}
      %t = "tile.gemm"(%x, %y, %acc) {beta = 1.0 : f32} : (tensor<128x64xbf16>, tensor<64x128xbf16>, tensor<128x128xf32>) -> tensor<128x128xf32>
      scf.yield %t : tensor<128x128xf32>
    }
    "tile.store"(%s, %d, %c0, %c0) : (tensor<128x128xf32>, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  gpu.func @columns(%a: memref<?x?xbf16>, %d: memref<?x?xf32>, %n: i32) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 24 : i32
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %s = scf.for %k = %c0 to %n step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      // expected-error @below {{'tile.load' op loads 24 columns of an array, which must be a multiple of 16: use 32}}
      %x = "tile.load"(%a, %c0, %k) : (memref<?x?xbf16>, i32, i32) -> tensor<128x24xbf16>
      %y = "tile.load"(%a, %k, %c0) : (memref<?x?xbf16>, i32, i32) -> tensor<24x128xbf16>
      // expected-note @below {{the product of loaded tiles, which --pipeline-loops divides}}
      %t = "tile.gemm"(%x, %y, %acc) {beta = 1.0 : f32} : (tensor<128x24xbf16>, tensor<24x128xbf16>, tensor<128x128xf32>) -> tensor<128x128xf32>
      scf.yield %t : tensor<128x128xf32>
    }
    "tile.store"(%s, %d, %c0, %c0) : (tensor<128x128xf32>, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  gpu.func @read_twice(%a: memref<?x?xbf16>, %d: memref<?x?xf32>, %n: i32) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %s = scf.for %k = %c0 to %n step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = "tile.load"(%a, %c0, %k) : (memref<?x?xbf16>, i32, i32) -> tensor<128x64xbf16>
      %y = "tile.load"(%a, %k, %c0) : (memref<?x?xbf16>, i32, i32) -> tensor<64x128xbf16>
      // expected-error @below {{'arith.extf' op reads a tile that a product reads from shared memory: load it a second time}}
      %w = arith.extf %x : tensor<128x64xbf16> to tensor<128x64xf32>
      // expected-note @below {{the product of loaded tiles, which --pipeline-loops divides}}
      %t = "tile.gemm"(%x, %y, %acc) {beta = 1.0 : f32} : (tensor<128x64xbf16>, tensor<64x128xbf16>, tensor<128x128xf32>) -> tensor<128x128xf32>
      scf.yield %t : tensor<128x128xf32>
    }
    "tile.store"(%s, %d, %c0, %c0) : (tensor<128x128xf32>, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  gpu.func @large(%a: memref<?x?xbf16>, %d: memref<?x?xf32>, %n: i32) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 512 : i32
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    // expected-error @below {{'scf.for' op loads 262144 bytes in an iteration, and 231424 of shared memory must hold two: use smaller tiles}}
    %s = scf.for %k = %c0 to %n step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = "tile.load"(%a, %c0, %k) : (memref<?x?xbf16>, i32, i32) -> tensor<128x512xbf16>
      %y = "tile.load"(%a, %k, %c0) : (memref<?x?xbf16>, i32, i32) -> tensor<512x128xbf16>
      // expected-note @below {{the product of loaded tiles, which --pipeline-loops divides}}
      %t = "tile.gemm"(%x, %y, %acc) {beta = 1.0 : f32} : (tensor<128x512xbf16>, tensor<512x128xbf16>, tensor<128x128xf32>) -> tensor<128x128xf32>
      scf.yield %t : tensor<128x128xf32>
    }
    "tile.store"(%s, %d, %c0, %c0) : (tensor<128x128xf32>, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  gpu.func @rows(%a: memref<?x?xbf16>, %d: memref<?x?xf32>, %n: i32) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<40x128xf32>
    %s = scf.for %k = %c0 to %n step %step iter_args(%acc = %zero) -> (tensor<40x128xf32>) : i32 {
      %x = "tile.load"(%a, %c0, %k) : (memref<?x?xbf16>, i32, i32) -> tensor<40x64xbf16>
      %y = "tile.load"(%a, %k, %c0) : (memref<?x?xbf16>, i32, i32) -> tensor<64x128xbf16>
      // expected-error @below {{'tile.gemm' op has sums of 40 x 128, which warps can't divide together with all other tiles; nearest legal, if all have as many rows: 64 x 128}}
      %t = "tile.gemm"(%x, %y, %acc) {beta = 1.0 : f32} : (tensor<40x64xbf16>, tensor<64x128xbf16>, tensor<40x128xf32>) -> tensor<40x128xf32>
      scf.yield %t : tensor<40x128xf32>
    }
    "tile.store"(%s, %d, %c0, %c0) : (tensor<40x128xf32>, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_75">] {
  gpu.func @old_chip(%a: memref<?x?xbf16>, %d: memref<?x?xf32>, %n: i32) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : i32
    %step = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<128x128xf32>
    %s = scf.for %k = %c0 to %n step %step iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i32 {
      %x = "tile.load"(%a, %c0, %k) : (memref<?x?xbf16>, i32, i32) -> tensor<128x64xbf16>
      %y = "tile.load"(%a, %k, %c0) : (memref<?x?xbf16>, i32, i32) -> tensor<64x128xbf16>
      // expected-error @below {{'tile.gemm' op needs cp.async, sm_80 or later, got sm_75: multiply buffers in a role}}
      // expected-note @below {{the product of loaded tiles, which --pipeline-loops divides}}
      %t = "tile.gemm"(%x, %y, %acc) {beta = 1.0 : f32} : (tensor<128x64xbf16>, tensor<64x128xbf16>, tensor<128x128xf32>) -> tensor<128x128xf32>
      scf.yield %t : tensor<128x128xf32>
    }
    "tile.store"(%s, %d, %c0, %c0) : (tensor<128x128xf32>, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  gpu.func @carried(%a: memref<?x?xbf16>, %d: memref<?x?xf32>, %n: i32) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    // expected-error @below {{'scf.for' op carries a value by which it computes where tiles are: compute that from the loop's number}}
    %s:2 = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero, %at = %c0) -> (tensor<64x64xf32>, i32) : i32 {
      %x = "tile.load"(%a, %at, %k) : (memref<?x?xbf16>, i32, i32) -> tensor<64x64xbf16>
      %y = "tile.load"(%a, %k, %c0) : (memref<?x?xbf16>, i32, i32) -> tensor<64x64xbf16>
      // expected-note @below {{the product of loaded tiles, which --pipeline-loops divides}}
      %t = "tile.gemm"(%x, %y, %acc) {beta = 1.0 : f32} : (tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xf32>) -> tensor<64x64xf32>
      %next = arith.addi %at, %c64 : i32
      scf.yield %t, %next : tensor<64x64xf32>, i32
    }
    "tile.store"(%s#0, %d, %c0, %c0) : (tensor<64x64xf32>, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  gpu.func @no_loop(%a: memref<?x?xbf16>, %d: memref<?x?xf32>, %i: i32) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %x = "tile.load"(%a, %i, %i) : (memref<?x?xbf16>, i32, i32) -> tensor<64x64xbf16>
    // expected-error @below {{'tile.gemm' op multiplies loaded tiles, which must be in a loop: w.range(0, K, …)}}
    %t = "tile.gemm"(%x, %x) : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xf32>
    "tile.store"(%t, %d, %i, %i) : (tensor<64x64xf32>, memref<?x?xf32>, i32, i32) -> ()
    gpu.return
  }
}
