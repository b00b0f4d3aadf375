"""`tcgen05.cp` and `shift` against their description in the PTX ISA."""

import emulator_tensor as tensor
import numpy as np
import pytest

from weft import emulator
from weft.isa.tcgen05.shared_descriptor import SharedMemoryDescriptor

RNG = np.random.default_rng(4)
SHAPES = [
    ("128x256b", "", lambda r: [r]),
    ("4x256b", "", lambda r: [32 * r]),
    ("128x128b", "", lambda r: [r]),
    ("64x128b", ".warpx2::02_13", lambda r: [r, r + 64]),
    ("64x128b", ".warpx2::01_23", lambda r: [r % 32 + 64 * (r // 32), r % 32 + 64 * (r // 32) + 32]),
    ("32x128b", ".warpx4", lambda r: [r, r + 32, r + 64, r + 96]),
]
SIZE = 16384
PROLOGUE = f"""
  mov.u64 %rd5, smem;
  mov.u32 %r200, smem;
  mov.u32 %r201, %i;
COPY:
  mad.wide.u32 %rd6, %r201, 4, %image;
  ld.global.u32 %r202, [%rd6];
  mad.lo.u32 %r203, %r201, 4, %r200;
  st.shared.u32 [%r203], %r202;
  add.u32 %r201, %r201, 128;
  setp.lt.u32 %p5, %r201, {SIZE // 4};
  @%p5 bra COPY;
  fence.proxy.async.shared::cta;
  bar.sync 0;
"""
WAIT = """
LOOP:
  mbarrier.try_wait.parity.shared::cta.b64 %p6, [bar], 0;
  @!%p6 bra LOOP;
  tcgen05.fence::after_thread_sync;
"""
SHARED = f".shared .align 1024 .b8 smem[{SIZE}];"


def swizzled(row, byte, swizzle, stride):
    """Where a byte of a row lies: groups of eight rows of 16 bytes (or of the swizzle's width)."""
    width = {"none": 16, "32B": 32, "64B": 64, "128B": 128}[swizzle]
    offset = row // 8 * stride + row % 8 * width + byte % width
    if swizzle != "none":
        offset ^= (offset >> 7 & (width // 16 - 1)) << 4
    return offset


def copied(image, shape, swizzle, stride, leading):
    rows, size = (int(n) for n in shape.rstrip("b").split("x"))
    out = np.zeros((rows, size // 8), np.uint8)
    width = {"none": 16, "32B": 32, "64B": 64, "128B": 128}[swizzle]
    for row in range(rows):
        for byte in range(size // 8):
            out[row, byte] = image[swizzled(row, byte, swizzle, stride) + byte // width * leading]
    return out


def unpack(rows, source):
    """Each 16 bytes begin with 16 elements of 6 or 4 bits; they become bytes."""
    if not source:
        return rows
    bits, shift = {"b6x16_p32": (6, 0), "b4x16_p64": (4, 2)}[source]
    out = np.zeros_like(rows)
    for row, chunk in np.ndindex(rows.shape[0], rows.shape[1] // 16):
        number = int.from_bytes(rows[row, 16 * chunk : 16 * chunk + 16].tobytes(), "little")
        for n in range(16):
            out[row, 16 * chunk + n] = (number >> (bits * n) & ((1 << bits) - 1)) << shift
    return out


@pytest.mark.sampled(32)
@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("source", ["", "b6x16_p32", "b4x16_p64"])
@pytest.mark.parametrize(("shape", "multicast", "lanes"), SHAPES)
def test_copy(shape, multicast, lanes, source, swizzle):
    width = {"none": 16, "32B": 32, "64B": 64, "128B": 128}[swizzle]
    leading = 4096 if swizzle == "none" else 0
    stride = 8 * width
    descriptor = SharedMemoryDescriptor(0, leading, stride, 0, swizzle)
    image = RNG.integers(0, 256, SIZE, dtype=np.uint8)
    memory, out = tensor.words(RNG, (64, 128)), np.zeros((64, 128), np.uint32)
    formats = f".b8x16.{source}" if source else ""
    body = f"""
      {PROLOGUE}
      {tensor.cells(0, 64, "memory")}
      tcgen05.fence::before_thread_sync;
      bar.sync 0;
      tcgen05.fence::after_thread_sync;
      and.b64 %rd7, %rd5, 0xffffff; shr.u64 %rd7, %rd7, 4; or.b64 %rd7, %rd7, {descriptor.encode()};
      add.u32 %r250, %t, 7;
      @%p1 tcgen05.cp.cta_group::1.{shape}{multicast}{formats} [%r250], %rd7;
      @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
      {WAIT}
      {tensor.cells(0, 64, "out", load=False)}"""
    arrays = {"image": image, "memory": memory, "out": out}
    tensor.launch(body, arrays, declare=SHARED)
    expected = memory.copy()
    rows = unpack(copied(image, shape, swizzle, stride, leading), source).view(np.uint32)
    for row in range(len(rows)):
        for lane in lanes(row):
            expected[7 : 7 + rows.shape[1], lane] = rows[row]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(("source", "octets"), [("b6x16_p32", 12), ("b4x16_p64", 8), ("", 16)])
def test_padding_of_packed_elements_is_not_read(source, octets):
    """Of each 16 bytes, only those of the elements are initialized; one less is a finding."""
    for written in (octets, octets - 4):
        stores = "".join(f"st.shared.u32 [%r203+{at}], %i; " for at in range(0, written, 4))
        body = f"""
          mov.u64 %rd5, smem; mov.u32 %r200, smem;
          mad.lo.u32 %r203, %i, 32, %r200; {stores}
          add.u32 %r203, %r203, 16; {stores}
          fence.proxy.async.shared::cta; bar.sync 0;
          and.b64 %rd7, %rd5, 0xffffff; shr.u64 %rd7, %rd7, 4;
          or.b64 %rd7, %rd7, {SharedMemoryDescriptor(0, 128, 256).encode()};
          @%p1 tcgen05.cp.cta_group::1.128x256b{".b8x16." * bool(source)}{source} [%t], %rd7;
          @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
          {WAIT}"""
        report = tensor.launch(body, {}, declare=SHARED, findings=True)
        rules = {finding.rule for finding in report.findings}
        assert rules == (set() if written == octets else {"uninitialized-shared"})


def test_copy_in_both_of_a_pair():
    images = RNG.integers(0, 256, (2, SIZE), dtype=np.uint8)
    out = np.zeros((2, 32, 128), np.uint32)
    descriptor = SharedMemoryDescriptor(0, 0, 128)
    body = f"""
      mad.wide.u32 %image, %c, {SIZE}, %image;
      mad.wide.u32 %out, %c, {32 * 128 * 4}, %out;
      {PROLOGUE}
      barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
      and.b64 %rd7, %rd5, 0xffffff; shr.u64 %rd7, %rd7, 4; or.b64 %rd7, %rd7, {descriptor.encode()};
      mov.u16 %h0, 3;
      setp.eq.and.u32 %p2, %c, 0, %p1;
      @%p2 tcgen05.cp.cta_group::2.128x128b [%t], %rd7;
      @%p2 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64
        [bar], %h0;
      {WAIT}
      {tensor.cells(0, 4, "out", load=False)}"""
    tensor.launch(
        body,
        {"image": images, "out": out},
        declare=SHARED,
        grid=2,
        cluster=(2, 1, 1),
        group=2,
    )
    for rank in range(2):
        expected = images[rank, : 128 * 16].view(np.uint32).reshape(128, 4).T
        np.testing.assert_array_equal(out[rank, :4], expected)


@pytest.mark.parametrize("lane", [0, 32, 96])
def test_shift(lane):
    memory, out = tensor.words(RNG, (32, 128)), np.zeros((32, 128), np.uint32)
    body = f"""
      {tensor.cells(0, 32, "memory")}
      tcgen05.fence::before_thread_sync;
      bar.sync 0;
      tcgen05.fence::after_thread_sync;
      add.u32 %r250, %t, {(lane << 16) + 8};
      @%p1 tcgen05.shift.cta_group::1.down [%r250];
      @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
      {WAIT}
      {tensor.cells(0, 32, "out", load=False)}"""
    tensor.launch(body, {"memory": memory, "out": out})
    expected = memory.copy()
    for row in range(lane, 128):
        if row % 32 != 31:
            expected[8:16, row] = memory[8:16, row + 1]
    np.testing.assert_array_equal(out, expected)


def test_a_shift_begins_at_a_warps_lanes():
    with pytest.raises(emulator.Fault, match="a multiple of 32, got 5"):
        tensor.launch("add.u32 %r0, %t, 327680; @%p1 tcgen05.shift.cta_group::1.down [%r0];", {})
