"""A product of `tcgen05.mma` in the emulator, with NumPy's result."""

import emulator_tensor as tensor
import numpy as np
import tcgen05_reference as reference
from tcgen05_reference import Image, K, codes, compressed, lanes_of, layout

from weft.isa.tcgen05.descriptors import BlockScaledDescriptor, InstructionDescriptor
from weft.isa.tcgen05.shared_descriptor import SharedMemoryDescriptor

RNG = np.random.default_rng(5)
# Where operands begin in tensor memory.
D, A, METADATA, SCALE_A, SCALE_B = 0, 256, 320, 328, 344
ROOM = 32768
FP8, FP4 = ("f8f6f4", "mxf8f6f4"), ("mxf4", "mxf4nvf4")


def small(shape, name):
    """Small numbers that every type has."""
    if name == "u8":
        return RNG.integers(0, 4, shape).astype(float)
    return RNG.choice([-2.0, -1.0, 0.0, 1.0, 2.0], shape)


class Case:
    """One product, with what memory must have before it; `ctas` are one or two."""

    def __init__(
        self,
        kind,
        m,
        n,
        *,
        a_type,
        b_type=None,
        d_type="f32",
        group=1,
        a="shared",
        swizzle=("none", "none"),
        transpose=(False, False),
        negate=(False, False),
        ws=False,
        sparse=False,
        selector=0,
        half_base=0,
        scale=None,
        k=0,
        target="sm_100a",
    ):
        self.__dict__.update(locals())
        self.b_type = b_type or a_type
        self.depth = (k or K[kind]) * (2 if sparse else 1)
        self.banks, self.rows, self.half = layout(m, group, sparse=sparse, ws=ws)
        self.base = half_base if self.half else 0
        self.memory = RNG.integers(0, 1 << 32, (group, 512, 128), dtype=np.uint64).astype(np.uint32)
        self.images = np.zeros((group, ROOM), np.uint8)
        self.left = np.zeros((m, self.depth))
        self.right = small((self.depth, n), self.b_type)
        self.before = small((m, n), "s8") * 3
        self.offset_b = ROOM // 2
        for rank in range(group):
            self._fill(rank)
        if scale:
            self._fill_scales()

    # What is in memory

    def bank_lanes(self, rank=0):
        first = lanes_of(self.rows, half=self.half, base=self.base)
        return [first + bank * self.rows for bank in range(self.banks)]

    def _fill(self, rank):
        part = slice(rank * self.rows, (rank + 1) * self.rows)
        if self.sparse:
            dense, stored, found = compressed(RNG, self.rows, self.depth, self.kind)
            if self.a_type == "u8":
                dense, stored = abs(dense), abs(stored)
            for lanes in self.bank_lanes():
                self._put(rank, METADATA, reference.metadata_words(found, lanes, self.kind, self.selector))
        else:
            dense = stored = small((self.rows, self.depth), self.a_type)
        self.left[part] = dense
        self._put_a(rank, codes(stored, self.a_type))
        columns = np.array_split(self.right, self.group, axis=1)[rank]
        self.image_b = self._image(codes(columns.T, self.b_type), self.b_type, 1)
        self.images[rank, self.offset_b : self.offset_b + self.image_b.data.size] = self.image_b.data
        self._put_d(rank, self.before[part])

    def _image(self, bits, name, side):
        transposed = self.transpose[side]
        return Image(
            reference.row_bytes(bits.T if transposed else bits, name, self.kind),
            self.swizzle[side],
            transposed,
        )

    def _put_a(self, rank, bits):
        if self.a == "shared":
            self.image_a = self._image(bits, self.a_type, 0)
            self.images[rank, : self.image_a.data.size] = self.image_a.data
            return
        columns = reference.packed_columns(bits, self.a_type, self.kind)
        for lanes in self.bank_lanes():
            self.memory[rank, A : A + columns.shape[1], lanes] = columns

    def d_cells(self):
        """Lane and column of each element of a CTA's D, `[rows, n]`."""
        width = self.n // self.banks
        row, column = np.indices((self.rows, self.n))
        lanes = np.array(self.bank_lanes())
        return lanes[column // width, row], D + column % width

    def _put_d(self, rank, values):
        lane, column = self.d_cells()
        if self.d_type == "f16":
            self.memory[rank, column, lane] = values.astype(np.float16).view(np.uint16)
        elif self.d_type == "s32":
            self.memory[rank, column, lane] = values.astype(np.int32).view(np.uint32)
        else:
            self.memory[rank, column, lane] = values.astype(np.float32).view(np.uint32)

    def _put(self, rank, column, cells):
        for lane, at in cells:
            self.memory[rank, column + at, lane] = 0
        for (lane, at), word in cells.items():
            self.memory[rank, column + at, lane] |= np.uint32(word)

    def _fill_scales(self):
        """Powers of two, or values of ue4m3, of blocks of K of each row and column."""
        blocks, name, ids = self.scale["blocks"], self.scale["type"], self.scale.get("ids", (0, 0))
        if name == "ue8m0":
            pick = lambda shape: RNG.integers(125, 130, shape)  # noqa: E731
            value = lambda code: 2.0 ** (code - 127.0)  # noqa: E731
        else:
            table = {0x38: 1.0, 0x40: 2.0, 0x30: 0.5, 0x3C: 1.5}
            pick = lambda shape: RNG.choice(list(table), shape)  # noqa: E731
            value = np.vectorize(table.get)
        of_a, of_b = pick((self.m, blocks)), pick((self.n, blocks))
        self.left *= np.repeat(value(of_a), self.depth // blocks, axis=1)
        self.right = self.right * np.repeat(value(of_b), self.depth // blocks, axis=1).T
        for rank in range(self.group):
            part = of_a[rank * self.rows : (rank + 1) * self.rows]
            self._put(rank, SCALE_A, reference.scale_words(part, range(4), ids[0]))
            width = self.n // self.banks
            for bank in range(self.banks):
                parts = range(4 // self.banks * bank, 4 // self.banks * (bank + 1))
                cells = reference.scale_words(of_b[bank * width : (bank + 1) * width], parts, ids[1])
                self._put(rank, SCALE_B, cells)

    # The instruction

    def idesc(self):
        common = {
            "cta_group": self.group,
            "a": self.a,
            "sparse": self.sparse,
            "negate_a": self.negate[0],
            "negate_b": self.negate[1],
            "transpose_a": self.transpose[0],
            "transpose_b": self.transpose[1],
        }
        if self.scale:
            ids = self.scale.get("ids", (0, 0))
            return BlockScaledDescriptor(
                self.kind,
                self.m,
                self.n,
                self.a_type,
                self.b_type,
                self.scale["type"],
                scale_vec=self.scale["vec"],
                a_scale_id=ids[0],
                b_scale_id=ids[1],
                k=self.k,
                **common,
            ).encode()
        return InstructionDescriptor(
            self.kind,
            self.m,
            self.n,
            self.a_type,
            self.b_type,
            self.d_type,
            ws=self.ws,
            sparsity_selector=self.selector,
            saturate=getattr(self, "saturate", False),
            max_shift=getattr(self, "max_shift", 0),
            **common,
        ).encode()

    def expected(self, keeps=True, factor=1.0):
        signs = (-1.0) ** (self.negate[0] + self.negate[1])
        return signs * (self.left @ self.right) + (self.before * factor if keeps else 0)

    def run(self, *, modifiers="", after="", keeps=True, lanes="", findings=False, commands=""):
        """Runs the product and returns D of all CTAs, `[m, n]`, and the report. There may be more `images`
        and `memory`, those of further CTAs or pairs.
        """
        out = np.zeros((len(self.images), 512, 128), np.uint32)
        body = self._body(modifiers, after, keeps, lanes, commands)
        report = tensor.launch(
            body,
            {"image": self.images, "memory": self.memory, "out": out},
            declare=f".shared .align 1024 .b8 smem[{ROOM}];",
            target=self.target,
            grid=len(self.images),
            cluster=(self.group, 1, 1),
            group=self.group,
            findings=findings,
        )
        self.after = out
        return self._d(out), report

    def _mnemonic(self):
        vec = ""
        if self.scale:
            size = self.scale["vec"]
            vec = ".block_scale" + (
                f".scale_vec::{size}" if size.endswith("X") else f".{size}" if size else ""
            )
        ws = ".ws" if self.ws else ""
        return f"tcgen05.mma{ws}{'.sp' if self.sparse else ''}.cta_group::{self.group}.kind::{self.kind}{vec}"

    def _descriptors(self):
        """Those of the operands in shared memory."""
        descriptors = []
        for image, swizzle in ((getattr(self, "image_a", None), 0), (self.image_b, 1)):
            if image is not None:
                word = SharedMemoryDescriptor(0, image.leading, image.stride, 0, self.swizzle[swizzle])
                descriptors.append(word.encode())
        return descriptors

    def _body(self, modifiers, after, keeps, lanes, commands):
        """The instructions of each thread."""
        descriptors, mnemonic = self._descriptors(), self._mnemonic()
        a = "%rd8" if self.a == "shared" else "[%r240]"
        sparse = ", [%r241]" if self.sparse else ""
        scales = ", [%r242], [%r243]" if self.scale else ""
        lane = self.base << 16
        high = [number << 30 for number in (self.scale or {}).get("high", (0, 0))]
        return f"""
          mov.u32 %r245, %ctaid.x; mad.wide.u32 %image, %r245, {ROOM}, %image;
          mad.wide.u32 %memory, %r245, {512 * 512}, %memory; mad.wide.u32 %out, %r245, {512 * 512}, %out;
          mov.u32 %r200, smem; mov.u32 %r201, %i;
        COPY:
          mad.wide.u32 %rd6, %r201, 16, %image; ld.global.v4.u32 {{%r202, %r203, %r204, %r205}}, [%rd6];
          mad.lo.u32 %r206, %r201, 16, %r200; st.shared.v4.u32 [%r206], {{%r202, %r203, %r204, %r205}};
          add.u32 %r201, %r201, 128; setp.lt.u32 %p5, %r201, {ROOM // 16}; @%p5 bra COPY;
          fence.proxy.async.shared::cta;
          {tensor.cells(0, 384, "memory")}
          tcgen05.fence::before_thread_sync;
          bar.sync 0;
          {"barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" if self.group == 2 else ""}
          tcgen05.fence::after_thread_sync;
          cvt.u64.u32 %rd7, %r200; shr.u64 %rd7, %rd7, 4;
          or.b64 %rd8, %rd7, {descriptors[0]};
          add.u64 %rd9, %rd7, {self.offset_b >> 4}; or.b64 %rd9, %rd9, {descriptors[-1]};
          add.u32 %r239, %t, {D + lane}; add.u32 %r240, %t, {A + lane}; add.u32 %r241, %t, {METADATA + lane};
          add.u32 %r242, %t, {SCALE_A + high[0]}; add.u32 %r243, %t, {SCALE_B + high[1]};
          mov.u32 %r244, {self.idesc()}; setp.eq.u32 %p7, 1, {int(keeps)};
          {commands}
          setp.eq.and.u32 %p2, %c, 0, %p1;
          mov.u16 %h0, 3;
          @%p2 {mnemonic}{modifiers} [%r239], {a}, %rd9{sparse}, %r244{scales}{lanes}, %p7{after};
          @%p2 tcgen05.commit.cta_group::{self.group}.mbarrier::arrive::one.shared::cluster.{self._told()};
        LOOP:
          mbarrier.try_wait.parity.shared::cta.b64 %p6, [bar], 0; @!%p6 bra LOOP;
          tcgen05.fence::after_thread_sync;
          {tensor.cells(0, 384, "out", load=False)}"""

    def _told(self):
        return "multicast::cluster.b64 [bar], %h0" if self.group == 2 else "b64 [bar]"

    def _d(self, memory):
        lane, column = self.d_cells()
        found = []
        for rank in range(self.group):
            words = memory[rank, column, lane]
            kinds = {"f16": np.float16, "s32": np.int32, "f32": np.float32}
            small_ = words.astype(np.uint16) if self.d_type == "f16" else words
            found.append(small_.view(kinds[self.d_type]).astype(np.float64))
        return np.concatenate(found)

    def untouched(self):
        """Whether nothing but D has changed."""
        lane, column = self.d_cells()
        same = self.after[:, :384] == self.memory[:, :384]
        same[:, column, lane] = True
        return bool(same.all())


def check(case, **options):
    found, _ = case.run(**options)
    np.testing.assert_array_equal(found, case.expected(options.get("keeps", True)))
    assert case.untouched()
