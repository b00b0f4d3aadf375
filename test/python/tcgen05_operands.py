"""Operands of `tcgen05.mma` in shared memory by the PTX ISA's canonical layouts, and kernels on them."""

import emulator_tensor as tensor
import numpy as np

from weft.isa.tcgen05.descriptors import InstructionDescriptor
from weft.isa.tcgen05.shared_descriptor import SharedMemoryDescriptor

RNG = np.random.default_rng(11)
ROOM, B_AT, COLUMNS = 65536, 32768, 256
COPIED = f"""
      mov.u32 %r201, %i;
    COPY:
      mad.wide.u32 %rd6, %r201, 16, %image; ld.global.v4.u32 {{%r202, %r203, %r204, %r205}}, [%rd6];
      mad.lo.u32 %r206, %r201, 16, %r200; st.shared.v4.u32 [%r206], {{%r202, %r203, %r204, %r205}};
      add.u32 %r201, %r201, 128; setp.lt.u32 %p5, %r201, {ROOM // 16}; @%p5 bra COPY;"""
"""The image in global memory, copied to shared memory."""


class Operand:
    """A matrix `[rows, depth]` at `start` of shared memory, whose bytes `address` places one by one."""

    def __init__(self, values, start, swizzle="none", fastest="k", gap=0):
        self.values, self.start, self.swizzle, self.fastest = values, start, swizzle, fastest
        self.size = values.dtype.itemsize
        rows, depth = values.shape
        width = 16 if swizzle == "none" else int(swizzle[:-1])
        across = depth if fastest == "k" else rows
        down = rows if fastest == "k" else depth
        self.width, self.group = width, 8 * width + gap
        self.panel = self.group * (down // 8) + gap
        if across * self.size <= width:
            self.panel = 16
        swapped = swizzle == "none" and fastest != "k"
        self.leading, self.stride = (self.group, self.panel) if swapped else (self.panel, self.group)

    def address(self, row, k):
        fast, slow = (k, row) if self.fastest == "k" else (row, k)
        byte = fast * self.size
        at = self.start + byte % self.width + byte // self.width * self.panel
        at += slow % 8 * self.width + slow // 8 * self.group
        bits = {"none": 0, "32B": 1, "64B": 3, "128B": 7}[self.swizzle]
        return at ^ (at >> 7 & bits) << 4

    def fill(self, image):
        octets = np.ascontiguousarray(self.values).view(np.uint8).reshape(*self.values.shape, self.size)
        row, k = np.indices(self.values.shape)
        at = self.address(row, k)
        for byte in range(self.size):
            image[at + byte] = octets[..., byte]

    def descriptor(self, k=0):
        """That of what begins at `k`."""
        start = self.start
        if self.fastest == "k" and self.swizzle != "none":
            start += k * self.size
        elif self.fastest == "k":
            start += k * self.size // 16 * self.panel
        else:
            start += k // 8 * self.group
        return SharedMemoryDescriptor(start, self.leading, self.stride, 0, self.swizzle).encode()


def product(
    text,
    image,
    *,
    columns=32,
    before="",
    after="",
    group=1,
    findings=False,
    fence=True,
    copy=True,
    target=tensor.TARGET,
    columns_from=0,
    words=None,
):
    """Runs `text`, which thread 0 of the first CTA issues; D of `columns` columns, and the report."""
    out = np.zeros((group, columns, 128), np.uint32)
    data = np.ascontiguousarray(image).reshape(group, ROOM)
    told = "multicast::cluster.b64 [bar], %h0" if group == 2 else "b64 [bar]"
    body = f"""
      mad.wide.u32 %image, %c, {ROOM}, %image; mad.wide.u32 %out, %c, {columns * 512}, %out;
      mov.u32 %r200, smem;
      {COPIED if copy else ""}
      {"fence.proxy.async.shared::cta;" if fence else ""}
      {before}
      tcgen05.fence::before_thread_sync;
      bar.sync 0;
      {"barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" if group == 2 else ""}
      tcgen05.fence::after_thread_sync;
      cvt.u64.u32 %rd7, %r200; shr.u64 %rd7, %rd7, 4; mov.u16 %h0, 3;
      setp.eq.and.u32 %p2, %c, 0, %p1;
      @!%p2 bra ISSUED;
      {text}
      tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster.{told};
    ISSUED:
      mbarrier.try_wait.parity.shared::cta.b64 %p6, [bar], 0; @!%p6 bra ISSUED;
      tcgen05.fence::after_thread_sync;
      {after or tensor.cells(columns_from, columns, "out", load=False)}"""
    report = tensor.launch(
        body,
        {"image": data, "out": out} | ({} if words is None else {"words": words}),
        columns=COLUMNS,
        target=target,
        declare=f".shared .align 1024 .b8 smem[{ROOM}];",
        grid=group,
        cluster=(group, 1, 1),
        group=group,
        findings=findings,
    )
    return out, report


def multiply(a, b, idesc, *, steps=1, depth=0, kind="f16", group=1, column=0, first=0):
    """The instructions of some steps along K; the first doesn't read D."""
    lines = [f"add.u32 %r239, %t, {column}; mov.u32 %r244, {idesc};"]
    for step in range(first, first + steps):
        lines.append(
            f"add.u64 %rd8, %rd7, {a.descriptor(step * depth)};"
            f"add.u64 %rd9, %rd7, {b.descriptor(step * depth)};"
            f"setp.ne.u32 %p7, {step - first}, 0;"
            f"tcgen05.mma.cta_group::{group}.kind::{kind} [%r239], %rd8, %rd9, %r244, %p7;"
        )
    return "\n".join(lines)


def small(shape, dtype=np.float16):
    return RNG.integers(-3, 4, shape).astype(dtype)


def exact(a, b):
    return a.astype(np.float64) @ b.astype(np.float64).T


def descriptor(kind="f16", name="f16", m=128, n=32, **more):
    return InstructionDescriptor(kind, m, n, name, name, "s32" if kind == "i8" else "f32", **more).encode()
