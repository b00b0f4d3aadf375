"""Products of `tile.gemm_async` in tensor memory, run in the emulator on images of both memories."""

import contextlib
from dataclasses import dataclass, field
from functools import cached_property

import ml_dtypes
import numpy as np

import weft
from weft.dialects import tcgen05, tile
from weft.dialects.tile import BufferType
from weft.isa.tcgen05 import tensor_layouts
from weft.layout import Layout
from weft.layout.iterators import AXES, point_table
from weft.mlir import arith, gpu, ir, llvm, memref, nvvm, vector
from weft.passes.builders import addresses, emit

LANES, CHUNK = 128, 16
DTYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "i8": np.int8,
    "ui8": np.uint8,
    "i32": np.int32,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f6E2M3FN": ml_dtypes.float6_e2m3fn,
    "f6E3M2FN": ml_dtypes.float6_e3m2fn,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
}
BITS = {"f6E2M3FN": 6, "f6E3M2FN": 6, "f4E2M1FN": 4}
WIDTHS = {"none": 16, "32B": 32, "64B": 64, "128B": 128, "128B_32B": 128}


def bits_of(element):
    return BITS.get(element, 8 * np.dtype(DTYPES[element]).itemsize)


def lines(count, length, element, swizzle="", *, padded=False):
    """The layout of `count` lines of `length` contiguous elements, in panels as wide as the swizzle, by
    default the widest that fits. Elements of 4 bits take a byte each if `padded`.
    """
    octets = length * max(bits_of(element), 8 if padded or bits_of(element) == 6 else 4) // 8
    swizzle = swizzle or next(name for name in ("128B", "64B", "32B", "none") if octets % WIDTHS[name] == 0)
    spread = 2 if padded and element == "f4E2M1FN" else 1
    unit = 16 * 8 // max(bits_of(element), 8) if padded or bits_of(element) != 4 else 32
    wide = min(WIDTHS[swizzle] // 16, length // unit)
    group = 4 if swizzle == "128B_32B" else 8
    row = wide * unit * spread
    extents = [count // group, group, length // unit // wide, wide, unit]
    strides = [group * row, row, count * row, unit * spread, 1]
    if group > count:
        extents, strides = extents[1:], strides[1:]
    suffix = "" if swizzle == "none" else f" xor {swizzle}"
    return f"S[({','.join(map(str, extents))}):({','.join(map(str, strides))})]{suffix}"


@dataclass
class Operand:
    """A buffer of each CTA that a test fills, in shared memory unless `memory` is "tmem"."""

    shape: tuple[int, int]
    element: str
    layout: str
    memory: str = "shared"
    low_bit: int = 0

    @property
    def parsed(self):
        return Layout.parse(self.layout)

    @property
    def kind(self):
        return BufferType.of(self.shape, ir.Type.parse(self.element), self.layout, self.memory)

    @cached_property
    def step(self):
        """The bits from an element to the next."""
        bits = bits_of(self.element)
        return 8 if bits == 6 else bits

    @cached_property
    def width(self):
        """The columns in tensor memory, padded for whole loads."""
        columns = -(-self.parsed.span("TCol") * self.step // 32)
        return -(-columns // CHUNK) * CHUNK

    @cached_property
    def words(self):
        if self.memory == "tmem":
            return LANES * self.width
        return -(-self.parsed.span("m") * self.step // 128) * 4

    def first_bits(self):
        """The bit of the memory's image at which each copy of each element begins, `[copies, elements]`."""
        if self.memory == "tmem":
            axes = [AXES.index("TLane"), AXES.index("TCol")]
            copies = point_table(self.parsed.replica)[:, None] + point_table(self.parsed.shard)
            lane, column = np.moveaxis(copies[..., axes], -1, 0)
            return lane * self.width * 32 + column * self.step + self.low_bit
        at = point_table(self.parsed.shard)[None, :, -1]
        bits = bits_of(self.element)
        first = at // 16 * 128 + at % 16 * 6 if bits == 6 else at * bits
        if not self.parsed.swizzle:
            return first
        swizzled = self.parsed.swizzle.swizzle_offset(first // 128 * 16)
        return swizzled * 8 + first % 128

    def image(self, values):
        """The words of the buffer that has these values."""
        bits, first = bits_of(self.element), self.first_bits()
        image = np.zeros(self.words * 32, np.uint8)
        kinds = {1: np.uint8, 2: np.uint16, 4: np.uint32}
        codes = np.ascontiguousarray(values).view(kinds[values.dtype.itemsize]).reshape(-1)
        for bit in range(bits):
            image[first + bit] = codes >> bit & 1
        return np.packbits(image, bitorder="little").view(np.int32)

    def read(self, image):
        """The values in an image of words."""
        bits = np.unpackbits(image.view(np.uint8), bitorder="little")
        at = self.first_bits()[0]
        size = np.dtype(DTYPES[self.element]).itemsize
        octets = np.packbits(np.stack([bits[at + bit] for bit in range(8 * size)], 1), 1, bitorder="little")
        return octets.view(DTYPES[self.element]).reshape(self.shape)


@dataclass
class Case:
    """A product of `m` x `n` x `k`, of both CTAs if `group` is 2, by one thread unless `scope` is "warp".
    Layouts that are not given are K-major with the widest swizzle that fits.
    """

    m: int = 128
    n: int = 64
    k: int = 64
    a_type: str = "f16"
    b_type: str = ""
    sums: str = "f32"
    group: int = 1
    scope: str = "thread"
    a_layout: str = ""
    a_memory: str = "shared"
    a_low_bit: int = 0
    b_layout: str = ""
    c_layout: str = ""
    transpose_a: bool = False
    transpose_b: bool = True
    accumulates: bool = False
    run_time_n: int = 0
    scale_type: str = ""
    scale_size: int = 32
    number: int | None = None  # of the first scale, of which 128 elements share one
    arch: str = "sm_100a"
    attributes: dict = field(default_factory=dict)

    @property
    def rows(self):
        return self.m // self.group

    @property
    def columns(self):
        return self.n // self.group

    @cached_property
    def operands(self):
        """A, B, the scales if there are some, and C."""
        b_type = self.b_type or self.a_type
        a_shape = (self.k, self.rows) if self.transpose_a else (self.rows, self.k)
        b_shape = (self.columns, self.k) if self.transpose_b else (self.k, self.columns)
        a = self.a_layout or lines(*a_shape, self.a_type)
        b = self.b_layout or lines(*b_shape, b_type)
        bits = bits_of(self.sums)
        c = self.c_layout or tensor_layouts.accumulator(self.m, self.n, self.group, bits)
        return [
            Operand(a_shape, self.a_type, a, self.a_memory, self.a_low_bit),
            Operand(b_shape, b_type, b),
            *self._scales(),
            Operand((self.rows, self.n), self.sums, c, "tmem"),
        ]

    def _scales(self):
        if not self.scale_type:
            return []
        groups = 4 if self.number is not None else self.k // self.scale_size
        groups = groups if groups in (1, 2) else -(-groups // 4) * 4
        rows, unit = -(-self.rows // 128) * 128, 64 if self.m == 128 and self.group == 2 else 128
        columns = -(-self.n // unit) * unit
        of_b = tensor_layouts.scales_of_b(columns, groups, min(self.m, 128 * self.group), self.group)
        return [
            Operand((rows, groups), self.scale_type, tensor_layouts.scales(rows, groups), "tmem"),
            Operand((columns, groups), self.scale_type, of_b, "tmem"),
        ]

    # The kernel

    def module(self):
        with weft.Module() as module:
            kinds = [ir.MemRefType.get([self.group * each.words], emit.i32()) for each in self.operands]
            with module.kernel("product", kinds, block=(LANES, 1, 1), grid=(self.group, 1, 1)) as images:
                if self.group > 1:
                    size = ir.DenseI32ArrayAttr.get([self.group, 1, 1])
                    images[0].owner.owner.attributes["known_cluster_size"] = size
                self.body(images)
        return module

    def body(self, images):
        rank = emit.as_i32(gpu.block_id(gpu.Dimension.x))
        buffers = [tile.alloc(each.kind) if each.memory == "shared" else None for each in self.operands]
        for buffer, operand, image in zip(buffers, self.operands, images, strict=True):
            if buffer is not None:
                copy_in(image, tile.address(buffer), emit.mul(rank, operand.words), operand.words)
        barrier = tile.address(tile.alloc(BufferType.of((1,), ir.Type.parse("i64"), "S[(1):(1)]")))
        with emit.when(emit.equal(emit.thread(), 0)):
            nvvm.MBarrierInitOp(barrier, emit.value(1))
            nvvm.FenceMbarrierInitOp()
        nvvm.FenceProxyOp(nvvm.ProxyKind.async_shared, space=nvvm.SharedSpace.shared_cta)
        with tile.tensor_memory(cta_group=self.group):
            for number, operand in enumerate(self.operands):
                if buffers[number] is None:
                    buffers[number] = tile.alloc(operand.kind)
                    write(buffers[number], operand, images[number], rank)
            tcgen05.fence(kind="before_thread_sync")
            self.meet()
            tcgen05.fence(kind="after_thread_sync")
            with emit.when(emit.equal(rank, 0)), self.issuing():
                self.multiply(*buffers)
                self.commit(barrier)
            wait(barrier)
            tcgen05.fence(kind="after_thread_sync")
            read(buffers[-1], self.operands[-1], images[-1], rank)

    def issuing(self):
        """The threads that reach the product: one, or the first warp."""
        if self.scope == "warp":
            return emit.when(emit.equal(emit.uniform(emit.div(emit.thread(), 32)), 0))
        return emit.when(emit.equal(emit.thread(), 0))

    def commit(self, barrier):
        """The thread that issued the product signals the barrier of each CTA."""
        mask = [arith.constant(ir.Type.parse("i16"), 3)] if self.group > 1 else []
        one = nvvm.ElectSyncOp(results=[emit.i1()]).pred if self.scope == "warp" else None
        with contextlib.nullcontext() if one is None else emit.when(one):
            tcgen05.commit(mbarrier=barrier, mask=mask, cta_group=self.group)

    def multiply(self, a, b, *rest):
        scale_a, scale_b = rest[:-1] or (None, None)
        tile.gemm_async(
            a,
            b,
            rest[-1],
            arith.constant(emit.i1(), int(self.accumulates)),
            cta_group=self.group,
            transpose_a=self.transpose_a,
            transpose_b=self.transpose_b,
            n=emit.value(self.run_time_n) if self.run_time_n else None,
            number=None if self.number is None else emit.value(self.number),
            scale_block=0 if self.number is None else 128,
            scale_a=scale_a,
            scale_b=scale_b,
            **self.attributes,
        )

    def meet(self):
        if self.group == 1:
            gpu.barrier()
            return
        nvvm.ClusterArriveOp()
        nvvm.ClusterWaitOp()

    # Values

    def values(self, shape, element, seed):
        low = 0 if element == "ui8" else -3
        numbers = np.random.default_rng(seed).integers(low, 4, shape)
        if element == self.scale_type:
            return 2.0 ** (numbers / 2).round()
        return numbers.astype(np.float64)

    def run(self):
        """D as it should be and as it is, `[m, n]`, and the sanitizer's findings."""
        a, b = (
            self.values((self.m, self.k), self.a_type, 1),
            self.values((self.n, self.k), self.operands[1].element, 2),
        )
        c = self.values((self.m, self.n), self.sums, 3)
        parts = [self._halves(a, self.transpose_a), self._halves(b, not self.transpose_b)]
        if self.scale_type:
            groups = self.k // self.scale_size if self.number is None else 4
            scales = [self.values((rows, groups), self.scale_type, 4) for rows in (self.m, self.n)]
            of_a, of_b = (self._repeated(each) for each in scales)
            parts += [self._halves(scales[0], False), [scales[1]] * self.group]
            a, b = a * of_a, b * of_b
        parts.append(self._halves(c, False))
        images = [self._images(operand, each) for operand, each in zip(self.operands, parts, strict=True)]
        report = weft.compile(self.module(), arch=self.arch).emulate(*images)
        of_c = self.operands[-1]
        found = np.concatenate([of_c.read(part) for part in np.split(images[-1], self.group)])
        if self.run_time_n:  # each CTA has a part of the columns
            b = np.concatenate([part[: self.run_time_n // self.group] for part in np.split(b, self.group)])
        wanted = a @ b.T + (c[:, : len(b)] if self.accumulates else 0)
        wanted = np.concatenate([wanted, c[:, len(b) :]], axis=1)
        return wanted, found.astype(np.float64), report.findings

    def _repeated(self, scales):
        """The scale of each element along K."""
        if self.number is None:
            return np.repeat(scales, self.scale_size, 1)
        return np.repeat(scales, 128, 1)[:, self.number * 128 :][:, : self.k]

    def _halves(self, matrix, flip):
        return [part.T if flip else part for part in np.split(matrix, self.group)]

    @staticmethod
    def _images(operand, parts):
        images = []
        for part in parts:
            padded = np.ones(operand.shape)
            padded[: part.shape[0], : part.shape[1]] = part
            images.append(operand.image(padded.astype(DTYPES[operand.element])))
        return np.concatenate(images)


def copy_in(image, pointer, first, words):
    """All threads copy the words of an image to shared memory."""

    def body(number, _):
        word = memref.load(image, [emit.as_index(emit.add(number, first))])
        llvm.store(word, addresses.offset(pointer, emit.mul(number, 4)))
        return []

    emit.loop(emit.thread(), words, LANES, [], body)


def wait(barrier):
    """Waits for the first phase of an mbarrier."""

    def before():
        done = nvvm.MBarrierTryWaitOp(barrier, emit.value(0), results=[emit.i1()]).result
        return emit.negate(done), []

    emit.repeat([], before)


def cells(buffer, operand, rank):
    """The address of a buffer in the warp's lanes, and the number of the first word of the thread's lane."""
    warp = emit.uniform(emit.div(emit.thread(), 32))
    start = addresses.offset(tile.address(buffer), emit.mul(warp, 32 << 16))
    lane = emit.add(emit.mul(rank, LANES), emit.thread())
    return start, emit.mul(lane, operand.width)


def write(buffer, operand, image, rank):
    """Copies an image to all lanes and columns of a buffer."""
    start, row = cells(buffer, operand, rank)
    for column in range(0, operand.width, CHUNK):
        kind = ir.VectorType.get([CHUNK], emit.i32())
        words = vector.load(kind, image, [emit.as_index(emit.add(row, column))])
        tcgen05.st(address=addresses.offset(start, column), data=words, shape="32x32b", num=CHUNK)
    tcgen05.wait(kind="st")


def read(buffer, operand, image, rank):
    """Copies all lanes and columns of a buffer to an image."""
    start, row = cells(buffer, operand, rank)
    for column in range(0, operand.width, CHUNK):
        words = tcgen05.ld(address=addresses.offset(start, column), shape="32x32b", num=CHUNK)
        tcgen05.wait(kind="ld")
        vector.store(words, image, [emit.as_index(emit.add(row, column))])


def check(case):
    wanted, found, findings = case.run()
    assert not findings
    np.testing.assert_array_equal(found, wanted)
