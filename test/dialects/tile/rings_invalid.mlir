// RUN: weft-opt %s --split-input-file --verify-diagnostics

func.func @ring_without_producers() {
  // expected-error @below {{producers must be in 1..1048575, got 0}}
  %0 = "tile.make_ring"() {producers = 0, consumers = 1} : () -> !tile.ring<4>
  return
}

// -----

func.func @ring_of_too_many_consumers() {
  // expected-error @below {{consumers must be in 1..1048575, got 1048576}}
  %0 = "tile.make_ring"() {consumers = 1048576} : () -> !tile.ring<4>
  return
}

// -----

func.func @ring_filled_by_warpgroups() {
  // expected-error @below {{'tile.make_ring' op filled_by must be one of tma, threads, warps, mma, clc, got warpgroups (each of its warps arrives for itself)}}
  %0 = "tile.make_ring"() {filled_by = "warpgroups", consumers = 1} : () -> !tile.ring<4>
  return
}

// -----

func.func @ring_filled_by_an_unknown_agent() {
  // expected-error @below {{filled_by must be one of tma, threads, warps, mma, clc, got lanes}}
  %0 = "tile.make_ring"() {filled_by = "lanes", consumers = 1} : () -> !tile.ring<4>
  return
}

// -----

func.func @ring_filled_by_a_number() {
  // expected-error @below {{expects attribute 'filled_by' to be a string, got 1}}
  %0 = "tile.make_ring"() {filled_by = 1, consumers = 1} : () -> !tile.ring<4>
  return
}

// -----

func.func @ring_emptied_by_tma() {
  // expected-error @below {{emptied_by must be one of threads, warps, warpgroups, mma, got tma (a store by TMA completes a bulk async-group, not an mbarrier)}}
  %0 = "tile.make_ring"() {emptied_by = "tma", consumers = 1} : () -> !tile.ring<4>
  return
}

// -----

func.func @ring_from_mma_to_warpgroups() {
  // expected-error @below {{emptied_by must be threads or warps where filled_by is mma, got warpgroups (each of its warps waits for its own tcgen05.ld)}}
  %0 = "tile.make_ring"() {filled_by = "mma", consumers = 1} : () -> !tile.ring<4>
  return
}

// -----

func.func @ring_from_mma_to_mma() {
  // expected-error @below {{emptied_by must be threads or warps where filled_by is mma, got mma (MMAs of one thread are ordered without a ring)}}
  %0 = "tile.make_ring"() {filled_by = "mma", emptied_by = "mma", consumers = 1} : () -> !tile.ring<4>
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  func.func @ring_emptied_by_an_mma_of_sm_90a() {
    // expected-error @below {{emptied_by must not be mma on this chip: tcgen05.commit needs sm_100f, sm_100a, sm_103f, sm_103a, sm_107f, sm_107a, sm_110f, sm_110a: sm_90a has no form of tcgen05.commit}}
    %0 = "tile.make_ring"() {emptied_by = "mma", consumers = 1} : () -> !tile.ring<4>
    return
  }
}

// -----

func.func @commit_of_copies(%stage: i32) {
  %r = "tile.make_ring"() {consumers = 1} : () -> !tile.ring<4>
  // expected-error @below {{'tile.commit' op the ring's filled_by must be one of threads, warps, mma, got tma, which fills with tile.expect}}
  "tile.commit"(%r, %stage) : (!tile.ring<4>, i32) -> ()
  return
}

// -----

func.func @bytes_of_threads(%stage: i32) {
  %r = "tile.make_ring"() {filled_by = "threads", consumers = 1} : () -> !tile.ring<4>
  // expected-error @below {{'tile.expect' op the ring's filled_by must be tma, got threads, which fills with tile.commit}}
  "tile.expect"(%r, %stage) {bytes = 16} : (!tile.ring<4>, i32) -> ()
  return
}

// -----

func.func @release_of_a_peer_by_an_mma(%stage: i32, %rank: i32) {
  %r = "tile.make_ring"() {emptied_by = "mma", consumers = 1} : () -> !tile.ring<4>
  // expected-error @below {{the ring's emptied_by must be one of threads, warps, warpgroups, got mma, which releases stages of its own CTA}}
  "tile.release_peer"(%r, %stage, %rank) : (!tile.ring<4>, i32, i32) -> ()
  return
}

// -----

func.func @commit_of_no_ring(%r: i32) {
  // expected-error @below {{'tile.commit' op expects a tile.ring, got i32}}
  "tile.commit"(%r, %r) : (i32, i32) -> ()
  return
}

// -----

func.func @ring_of_three_ctas() {
  // expected-error @below {{cta_group must be 1 or 2, got 3}}
  %0 = "tile.make_ring"() {emptied_by = "mma", consumers = 1, cta_group = 3} : () -> !tile.ring<4>
  return
}

// -----

func.func @ring_of_a_pair_without_mma() {
  // expected-error @below {{filled_by or emptied_by must be mma where cta_group is 2, got tma and warps}}
  %0 = "tile.make_ring"() {emptied_by = "warps", consumers = 1, cta_group = 2} : () -> !tile.ring<4>
  return
}

// -----

func.func @ring_of_too_many_consumers_of_a_pair() {
  // expected-error @below {{consumers must be in 1..524287, got 524288}}
  %0 = "tile.make_ring"() {filled_by = "mma", emptied_by = "threads", consumers = 524288, cta_group = 2} : () -> !tile.ring<4>
  return
}

// -----

func.func @bytes_of_a_pair(%stage: i32) {
  %r = "tile.make_ring"() {emptied_by = "mma", consumers = 1, cta_group = 2} : () -> !tile.ring<4>
  // expected-error @below {{'tile.expect' op bytes must be in 0..524287, got 524288}}
  "tile.expect"(%r, %stage) {bytes = 524288} : (!tile.ring<4>, i32) -> ()
  return
}

// -----

func.func @release_of_a_peer_in_a_ring_of_a_pair(%stage: i32, %rank: i32) {
  %r = "tile.make_ring"() {filled_by = "mma", emptied_by = "warps", consumers = 1, cta_group = 2} : () -> !tile.ring<4>
  // expected-error @below {{'tile.release_peer' op the ring's cta_group must be 1, got 2, where tile.release reaches the leader}}
  "tile.release_peer"(%r, %stage, %rank) : (!tile.ring<4>, i32, i32) -> ()
  return
}

// -----

func.func @mask_of_threads(%stage: i32, %mask: i16) {
  %r = "tile.make_ring"() {emptied_by = "threads", consumers = 1} : () -> !tile.ring<4>
  // expected-error @below {{'tile.release' op the ring's emptied_by must be mma where there is a mask, got threads: use tile.release_peer}}
  "tile.release"(%r, %stage, %mask) : (!tile.ring<4>, i32, i16) -> ()
  return
}

// -----

func.func @mask_of_32_bits(%stage: i32) {
  %r = "tile.make_ring"() {emptied_by = "mma", consumers = 1} : () -> !tile.ring<4>
  // expected-error @below {{'tile.release' op expects at most one mask, of type i16, got i32}}
  "tile.release"(%r, %stage, %stage) : (!tile.ring<4>, i32, i32) -> ()
  return
}

// -----

func.func @launch_control_emptied_by_an_mma() {
  // expected-error @below {{emptied_by must be threads or warps where filled_by is clc, got mma}}
  %0 = "tile.make_ring"() {filled_by = "clc", emptied_by = "mma", consumers = 1} : () -> !tile.ring<4>
  return
}

// -----

func.func @launch_control_by_two() {
  // expected-error @below {{producers must be 1 where filled_by is clc, got 2}}
  %0 = "tile.make_ring"() {filled_by = "clc", producers = 2, emptied_by = "warps", consumers = 1} : () -> !tile.ring<4>
  return
}

// -----

func.func @launch_control_of_a_pair() {
  // expected-error @below {{cta_group must be 1 where filled_by is clc, got 2}}
  %0 = "tile.make_ring"() {filled_by = "clc", cta_group = 2, emptied_by = "warps", consumers = 1} : () -> !tile.ring<4>
  return
}

// -----

gpu.module @m [#nvvm.target<chip = "sm_90a">] {
  func.func @launch_control_on_sm_90a() {
    // expected-error @below {{filled_by must not be clc on this chip: clusterlaunchcontrol.try_cancel needs sm_100 or later, got sm_90a}}
    %0 = "tile.make_ring"() {filled_by = "clc", emptied_by = "warps", consumers = 1} : () -> !tile.ring<4>
    return
  }
}

// -----

func.func @request_in_a_ring_of_tma(%stage: i32) {
  %r = "tile.make_ring"() {emptied_by = "warps", consumers = 1} : () -> !tile.ring<4>
  // expected-error @below {{'tile.try_cancel' op the ring's filled_by must be clc, got tma}}
  "tile.try_cancel"(%r, %stage) : (!tile.ring<4>, i32) -> ()
  return
}

// -----

func.func @answer_in_a_ring_of_tma(%stage: i32) {
  %r = "tile.make_ring"() {emptied_by = "warps", consumers = 1} : () -> !tile.ring<4>
  // expected-error @below {{'tile.query_cancel' op the ring's filled_by must be clc, got tma}}
  %0:4 = "tile.query_cancel"(%r, %stage) : (!tile.ring<4>, i32) -> (i1, i32, i32, i32)
  return
}

// -----

func.func @answer_in_indices(%stage: i32) {
  %r = "tile.make_ring"() {filled_by = "clc", emptied_by = "warps", consumers = 1} : () -> !tile.ring<4>
  // expected-error @below {{'tile.query_cancel' op expects to return i1, i32, i32, i32, got i1, index, index, index}}
  %0:4 = "tile.query_cancel"(%r, %stage) : (!tile.ring<4>, i32) -> (i1, index, index, index)
  return
}

// -----

func.func @bytes_of_launch_control(%stage: i32) {
  %r = "tile.make_ring"() {filled_by = "clc", emptied_by = "warps", consumers = 1} : () -> !tile.ring<4>
  // expected-error @below {{the ring's filled_by must be tma, got clc, which fills with tile.try_cancel}}
  "tile.expect"(%r, %stage) {bytes = 16} : (!tile.ring<4>, i32) -> ()
  return
}

// -----

func.func @commit_of_launch_control(%stage: i32) {
  %r = "tile.make_ring"() {filled_by = "clc", emptied_by = "warps", consumers = 1} : () -> !tile.ring<4>
  // expected-error @below {{the ring's filled_by must be one of threads, warps, mma, got clc, which fills with tile.try_cancel}}
  "tile.commit"(%r, %stage) : (!tile.ring<4>, i32) -> ()
  return
}

// -----

func.func @release_of_a_peer_in_launch_control(%stage: i32, %rank: i32) {
  %r = "tile.make_ring"() {filled_by = "clc", emptied_by = "warps", consumers = 1} : () -> !tile.ring<4>
  // expected-error @below {{the ring's filled_by must not be clc, where tile.release reaches rank 0}}
  "tile.release_peer"(%r, %stage, %rank) : (!tile.ring<4>, i32, i32) -> ()
  return
}

// -----

func.func @copies_of_warps(%stage: i32) {
  %r = "tile.make_ring"() {filled_by = "warps", emptied_by = "threads", consumers = 32} : () -> !tile.ring<3>
  // expected-error @below {{'tile.commit' op the ring's filled_by must be threads with copies, got warps}}
  "tile.commit"(%r, %stage) {copies = true} : (!tile.ring<3>, i32) -> ()
  return
}
