// RUN: weft-opt %s --split-input-file --verify-diagnostics

// Types and attributes are verified wherever they are, also where no operation of the dialect uses them.

// expected-error @below {{'func.func' op has a buffer whose memory must be one of shared, cluster, tmem, got 'global'}}
func.func private @parameter(!tile.buffer<array<i64: 64, 64>, bf16, #tile.layout<"S[(64,64):(64,1)]">, "global">)

// -----

// expected-error @below {{'func.func' op has a fragment of shape [16, 0]: every extent must be at least 1}}
func.func private @result() -> tensor<16x0xf16, #tile.layout<"S[(2,8):(1,2)]">>

// -----

gpu.module @m {
  // expected-error @below {{'gpu.func' op has a ring whose stages must be in 1..64, got -1}}
  gpu.func @argument(%r: !tile.ring<-1>) kernel {
    gpu.return
  }
}

// -----

func.func @nested_in_types() {
  // expected-error @below {{'builtin.unrealized_conversion_cast' op has a ring whose stages must be in 1..64, got 65}}
  %0 = builtin.unrealized_conversion_cast to tuple<i32, tuple<tensor<4x!tile.ring<65>>>>
  return
}

// -----

func.func @argument_of_a_block() {
  cf.br ^end
^unreachable(
  // expected-error @below {{'func.func' op has a ring whose stages must be in 1..64, got 0}}
  %r: !tile.ring<0>):
  return
^end:
  return
}

// -----

// expected-error @below {{'func.func' op has an invalid layout: layout 'S[(64,64', column 9: expected}}
func.func private @attribute() attributes {test.layouts = [{first = #tile.layout<"S[(64,64">}]}

// -----

// expected-error @below {{'func.func' op has a buffer of shape [64, 32] whose layout doesn't fit: shape (64, 32) doesn't have the 4096 elements of}}
func.func private @type_in_an_attribute() attributes {test.type = (i32) -> !tile.buffer<array<i64: 64, 32>, bf16, #tile.layout<"S[(64,64):(64,1)]">, "shared">}

// -----

// Each is named once, all in one run.
!Ring = !tile.ring<0>
// expected-error @below {{has a ring whose stages must be in 1..64, got 0}}
func.func private @first(!Ring)
func.func private @second(i32, !Ring)
// expected-error @below {{has a ring whose stages must be in 1..64, got 99}}
func.func private @third() -> !tile.ring<99>
