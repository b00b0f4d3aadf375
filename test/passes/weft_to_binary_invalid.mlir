// What --weft-to-binary can't make a gpu.binary of is refused at its line.

// RUN: weft-opt %s --weft-to-binary --split-input-file --verify-diagnostics

// expected-error @+1 {{can't be compiled for sm_80: module must have a kernel}}
gpu.module @no_kernel [#nvvm.target<chip = "sm_80">] {
  func.func @f() {
    return
  }
}

// -----

// expected-error @+1 {{can't be compiled for sm_999: target must be a known chip}}
gpu.module @unknown_chip [#nvvm.target<chip = "sm_999">] {
  gpu.func @k() kernel {
    gpu.return
  }
}

// -----

gpu.module @outer [#nvvm.target<chip = "sm_80">] {
  // expected-error @+1 {{must not stand in another gpu.module, got one in one: move it out}}
  gpu.module @inner [#nvvm.target<chip = "sm_80">] {
    gpu.func @k() kernel {
      gpu.return
    }
  }
}
