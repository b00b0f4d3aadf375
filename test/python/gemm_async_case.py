"""Products of `tile.gemm_async` in tensor memory, run in the emulator on images of shared memory."""

import contextlib
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

import weft
from weft.dialects import tcgen05, tile
from weft.dialects.tile import BufferType
from weft.isa.tcgen05 import tensor_layouts
from weft.layout import Layout
from weft.layout.iterators import AXES, point_table
from weft.mlir import arith, gpu, ir, llvm, memref, nvvm, vector
from weft.passes.builders import addresses, emit, tensor_tiles

LANES, CHUNK = 128, 16
DTYPES = {"f16": np.float16, "f32": np.float32, "i8": np.int8, "ui8": np.uint8, "i32": np.int32}


def positions(layout, axes):
    """The positions of a tile's elements on some axes, `[elements, axes]`, before the swizzle."""
    return point_table(layout.shard)[:, [AXES.index(axis) for axis in axes]]


def k_major(rows, depth, swizzle="128B", bits=16):
    """Lines of K as wide as the swizzle, in panels."""
    width = {"none": 16, "32B": 32, "64B": 64, "128B": 128}[swizzle] * 8 // bits
    width = min(width, depth)
    suffix = "" if swizzle == "none" else f" xor {swizzle}"
    if swizzle == "none":
        return f"S[({rows // 8},8,{depth // width},{width}):({8 * width},{width},{rows * width},1)]"
    return f"S[({rows},{depth // width},{width}):({width},{rows * width},1)]{suffix}"


def mn_major(depth, rows, swizzle="128B", bits=16):
    """Lines of M (or N) as wide as the swizzle, in panels: the layout of K x M (or N)."""
    width = min({"32B": 32, "64B": 64, "128B": 128, "128B_32B": 128}[swizzle] * 8 // bits, rows)
    return f"S[({depth},{rows // width},{width}):({width},{depth * width},1)] xor {swizzle}"


@dataclass
class Operand:
    """A buffer in shared memory that a test fills."""

    shape: tuple[int, int]
    element: str
    layout: str

    @property
    def kind(self):
        return BufferType.of(self.shape, ir.Type.parse(self.element), self.layout)

    @cached_property
    def words(self):
        size = DTYPES.get(self.element, np.uint16)().itemsize
        parsed = Layout.parse(self.layout)
        return parsed.span("m") * size // 4

    def image(self, values):
        """The words of the buffer that has these values."""
        parsed = Layout.parse(self.layout)
        size = values.dtype.itemsize
        offsets = positions(parsed, ["m"])[:, 0] * size
        if parsed.swizzle:
            offsets = np.array([parsed.swizzle.swizzle_offset(int(each)) for each in offsets])
        image = np.zeros(self.words * 4, np.uint8)
        octets = np.ascontiguousarray(values).reshape(-1, 1).view(np.uint8)
        for byte in range(size):
            image[offsets + byte] = octets[:, byte]
        return image.view(np.int32)


@dataclass
class Case:
    """A product of `m` x `n` x `k`, of both CTAs if `group` is 2, by one thread unless `scope` is "warp"."""

    m: int = 128
    n: int = 64
    k: int = 64
    element: str = "f16"
    sums: str = "f32"
    group: int = 1
    scope: str = "thread"
    a_layout: str = ""
    b_layout: str = ""
    c_layout: str = ""
    transpose_a: bool = False
    transpose_b: bool = True
    accumulates: bool = False
    arch: str = "sm_100a"
    attributes: dict = field(default_factory=dict)

    @property
    def rows(self):
        return self.m // self.group

    @property
    def columns(self):
        return self.n // self.group

    @cached_property
    def a(self):
        shape = (self.k, self.rows) if self.transpose_a else (self.rows, self.k)
        return Operand(shape, self.element, self.a_layout or k_major(*shape))

    @cached_property
    def b(self):
        shape = (self.columns, self.k) if self.transpose_b else (self.k, self.columns)
        return Operand(shape, self.element, self.b_layout or k_major(*shape))

    @cached_property
    def c(self):
        bits = 16 if self.sums == "f16" else 32
        return self.c_layout or tensor_layouts.accumulator(self.m, self.n, self.group, bits)

    @cached_property
    def width(self):
        """The columns of tensor memory that C spans, padded for whole loads."""
        bits = 16 if self.sums == "f16" else 32
        columns = -(-Layout.parse(self.c).span("TCol") * bits // 32)
        return -(-columns // CHUNK) * CHUNK

    def module(self):
        with weft.Module() as module:
            i32 = emit.i32()
            kinds = [
                ir.MemRefType.get([self.group * self.a.words], i32),
                ir.MemRefType.get([self.group * self.b.words], i32),
                ir.MemRefType.get([self.group * LANES, self.width], i32),
            ]
            with module.kernel("product", kinds, block=(LANES, 1, 1), grid=(self.group, 1, 1)) as arguments:
                function = arguments[0].owner.owner
                if self.group > 1:
                    size = ir.DenseI32ArrayAttr.get([self.group, 1, 1])
                    function.attributes["known_cluster_size"] = size
                self.body(*arguments)
        return module

    def body(self, image_a, image_b, out):
        rank = emit.as_i32(gpu.block_id(gpu.Dimension.x))
        a, b = tile.alloc(self.a.kind), tile.alloc(self.b.kind)
        for buffer, image, words in ((a, image_a, self.a.words), (b, image_b, self.b.words)):
            self.copy(image, tile.address(buffer), emit.mul(rank, words), words)
        barrier = tile.address(tile.alloc(BufferType.of((1,), ir.Type.parse("i64"), "S[(1):(1)]")))
        with emit.when(emit.equal(emit.thread(), 0)):
            nvvm.MBarrierInitOp(barrier, emit.value(1))
            nvvm.FenceMbarrierInitOp()
        nvvm.FenceProxyOp(nvvm.ProxyKind.async_shared, space=nvvm.SharedSpace.shared_cta)
        with tile.tensor_memory(cta_group=self.group):
            c = tile.alloc(BufferType.of((self.rows, self.n), ir.Type.parse(self.sums), self.c, "tmem"))
            self.write(c, out, rank)
            tcgen05.fence(kind="before_thread_sync")
            self.meet()
            tcgen05.fence(kind="after_thread_sync")
            with emit.when(emit.equal(rank, 0)), self.issuing():
                self.multiply(a, b, c)
                self.commit(barrier)
            self.wait(barrier)
            tcgen05.fence(kind="after_thread_sync")
            self.read(c, out, rank)

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

    def multiply(self, a, b, c):
        options = {"transpose_a": self.transpose_a, "transpose_b": self.transpose_b}
        tile.gemm_async(
            a,
            b,
            c,
            arith.constant(emit.i1(), int(self.accumulates)),
            cta_group=self.group,
            **options,
            **self.attributes,
        )

    def meet(self):
        if self.group == 1:
            gpu.barrier()
            return
        nvvm.ClusterArriveOp()
        nvvm.ClusterWaitOp()

    @staticmethod
    def copy(image, pointer, first, words):
        def body(number, _):
            word = memref.load(image, [emit.as_index(emit.add(number, first))])
            llvm.store(word, addresses.offset(pointer, emit.mul(number, 4)))
            return []

        emit.loop(emit.thread(), words, LANES, [], body)

    @staticmethod
    def wait(barrier):
        def before():
            done = nvvm.MBarrierTryWaitOp(barrier, emit.value(0), results=[emit.i1()]).result
            return emit.negate(done), []

        emit.repeat([], before)

    def write(self, c, out, rank):
        """Loads the words of all lanes and columns of C."""
        start, row = self.cells(c, rank)
        for column in range(0, self.width, CHUNK):
            kind = ir.VectorType.get([CHUNK], emit.i32())
            words = vector.load(kind, out, [row, emit.as_index(column)])
            address = tensor_tiles.advanced(start, column)
            tcgen05.st(address=address, data=words, shape="32x32b", num=CHUNK)
        tcgen05.wait(kind="st")

    def read(self, c, out, rank):
        """Stores the words of all lanes and columns of C."""
        start, row = self.cells(c, rank)
        for column in range(0, self.width, CHUNK):
            words = tcgen05.ld(address=tensor_tiles.advanced(start, column), shape="32x32b", num=CHUNK)
            tcgen05.wait(kind="ld")
            vector.store(words, out, [row, emit.as_index(column)])

    @staticmethod
    def cells(c, rank):
        """The address of C in the warp's lanes, and the thread's row of all CTAs' lanes."""
        warp = emit.uniform(emit.div(emit.thread(), 32))
        start = tensor_tiles.advanced(tile.address(c), emit.mul(warp, 32 << 16))
        return start, emit.as_index(emit.add(emit.mul(rank, LANES), emit.thread()))

    # Values

    def small(self, shape, seed):
        chance = np.random.default_rng(seed)
        return chance.integers(-3, 4, shape).astype(DTYPES[self.element])

    def run(self):
        """D as it should be and as it is, `[m, n]`, and the sanitizer's findings."""
        a, b = self.small((self.m, self.k), 1), self.small((self.n, self.k), 2)
        halves = [np.split(each, self.group) for each in (a, b)]
        images = []
        for operand, parts, flip in (
            (self.a, halves[0], self.transpose_a),
            (self.b, halves[1], not self.transpose_b),
        ):
            images.append(np.concatenate([operand.image(part.T if flip else part) for part in parts]))
        before = np.random.default_rng(3).integers(-9, 9, (self.group * LANES, self.width))
        out = before.astype(DTYPES[self.sums] if self.sums != "f16" else np.float32).view(np.int32)
        if self.sums == "f16":
            out = before.astype(np.float16).view(np.uint16).astype(np.int32)
        start = self.found(out)
        report = weft.compile(self.module(), arch=self.arch).emulate(*images, out)
        wanted = a.astype(np.float64) @ b.astype(np.float64).T + self.accumulates * start
        return wanted, self.found(out), report.findings

    def found(self, out):
        words = out.reshape(self.group, LANES, self.width)
        parsed = Layout.parse(self.c)
        lane, column = positions(parsed, ["TLane", "TCol"]).T
        if self.sums == "f16":
            parts = [part[lane, column // 2].astype(np.uint16).view(np.float16) for part in words]
        else:
            parts = [part[lane, column].view(DTYPES[self.sums]) for part in words]
        return np.concatenate([part.reshape(self.rows, self.n) for part in parts]).astype(np.float64)


def check(case):
    wanted, found, findings = case.run()
    assert not findings
    np.testing.assert_array_equal(found, wanted)
