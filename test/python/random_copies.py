"""Kernels with random bulk copies and random accesses of threads, most of which are ordered."""

from dataclasses import dataclass

import numpy as np
from emulator_ptx import module

from weft import emulator

SLOT, SLOTS, WARPS = 4096, 4, 2
WORDS = 1 << 12
FIRST = 64
"""The words of the buffer before the tensors."""


@dataclass(frozen=True)
class Shape:
    """A tensor map of the buffer; dims and box go from the innermost dimension on."""

    dtype: str
    dims: tuple
    strides: tuple
    box: tuple
    swizzle: str = "none"
    fill: str = "zero"
    steps: tuple = ()
    gathers: bool = False

    def map(self, buffer):
        return emulator.TensorMap.tiled(
            buffer[FIRST:],
            dtype=self.dtype,
            dims=self.dims,
            strides_bytes=self.strides,
            box=self.box,
            element_strides=self.steps,
            swizzle=self.swizzle,
            oob_fill=self.fill,
        )

    @property
    def bytes(self):
        bits = {"UINT8": 8, "16U4_ALIGN8B": 4, "16U4_ALIGN16B": 4, "16U6_ALIGN16B": 6}.get(self.dtype)
        bits = bits or (64 if "64" in self.dtype else 32 if "32" in self.dtype else 16)
        steps = (1, *(self.steps[1:] or (1,) * (len(self.box) - 1)))
        rows = int(np.prod([-(-b // s) for b, s in zip(self.box[1:], steps[1:], strict=True)]))
        return self.box[0] * bits // 8 * (4 if self.gathers else rows)

    def step(self):
        """What the innermost coordinate must be a multiple of."""
        if self.dtype.endswith("ALIGN16B"):
            return 128
        if self.dtype == "16U4_ALIGN8B":
            return 16
        return 128 // (
            8 if self.dtype == "UINT8" else 64 if "64" in self.dtype else 32 if "32" in self.dtype else 16
        )


SHAPES = (
    Shape("UINT16", (64, 24), (128,), (64, 8), "128B"),
    Shape("UINT16", (61, 22), (128,), (64, 8), "128B"),
    Shape("BFLOAT16", (40, 24), (128,), (32, 16), "64B", "nan"),
    Shape("UINT8", (100, 24), (128,), (32, 16), "32B"),
    Shape("UINT8", (128,), (), (128,)),
    Shape("FLOAT32", (30, 11), (128,), (32, 8), "128B_ATOM_32B"),
    Shape("TFLOAT32", (31, 16), (128,), (32, 4), "128B_ATOM_64B", "nan"),
    Shape("UINT64", (16, 24), (128,), (16, 8), "128B_ATOM_32B_FLIP_8B"),
    Shape("UINT16", (16, 3, 5), (32, 128), (16, 2, 3), "32B"),
    Shape("UINT16", (16, 2, 3, 4), (32, 96, 320), (8, 2, 2, 3), "none"),
    Shape("INT32", (8, 2, 2, 2, 3), (32, 64, 256, 512), (8, 2, 1, 2, 2), "none", steps=(1, 2, 1, 1, 1)),
    Shape("UINT16", (64, 24), (128,), (32, 1), "64B", gathers=True),
    Shape("16U4_ALIGN8B", (224, 20), (128,), (64, 8), "32B"),
    Shape("16U4_ALIGN16B", (256, 8), (128,), (128, 4), "128B"),
    Shape("16U6_ALIGN16B", (128, 8), (96,), (128, 4), "128B"),
)
NOT_STORED = ("16U4_ALIGN16B", "16U6_ALIGN16B")


class Writer:
    """Writes the body of a kernel; `ordered` is the probability that what must be ordered is."""

    def __init__(self, rng, cluster, ordered):
        self.rng, self.cluster, self.ordered = rng, cluster, ordered
        self.phases = [0] * WARPS
        self.lines, self.labels = [], 0

    def maybe(self, probability):
        return self.rng.random() < probability

    def number(self, *bounds):
        return int(self.rng.integers(*bounds))

    def place(self):
        return SLOT * self.number(SLOTS) + (1024 * self.number(3) if self.maybe(0.3) else 0)

    def add(self, text):
        self.lines.append(text)

    def where(self, shape):
        first = shape.step() * self.number(-1, max(2, shape.dims[0] // shape.step() + 1))
        rest = [self.number(-2, dim) if self.maybe(0.4) else 0 for dim in shape.dims[1:]]
        if shape.gathers:
            rest = [self.number(-1, shape.dims[1] + 2) for _ in range(4)]
        return "{" + ", ".join(map(str, (first, *rest))) + "}"

    def shape(self, *, stores=False):
        able = [
            at
            for at, s in enumerate(SHAPES)
            if not stores or (s.dtype not in NOT_STORED and "FLIP" not in s.swizzle)
        ]
        at = able[self.number(len(able))]
        return at, SHAPES[at], self.where(SHAPES[at])

    def load(self, warp):
        at, shape, where = self.shape()
        mode = "tile::gather4" if shape.gathers else "tile"
        mask = self.number(1, 4) if self.cluster > 1 and self.maybe(0.5) else 0
        size = shape.bytes
        self._load(
            warp,
            size,
            f"cp.async.bulk.tensor.{len(shape.dims)}d.shared::cluster.global.{mode}"
            ".mbarrier::complete_tx::bytes{multicast} "
            f"[%s{{place}}], [%m{at}, {where}], [bar+{8 * warp}]{{mask}};",
            mask,
        )

    def bulk_load(self, warp):
        size = 16 * self.number(1, 40)
        mask = self.number(1, 4) if self.cluster > 1 and self.maybe(0.5) else 0
        address = f"[%g+{16 * self.number(WORDS // 16)}]"
        self._load(
            warp,
            size,
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes{multicast} "
            f"[%s{{place}}], {address}, {size}, [bar+{8 * warp}]{{mask}};",
            mask,
        )

    def _load(self, warp, size, text, mask):
        copies = 2 if not mask and self.maybe(0.4) else 1
        for rank in range(self.cluster):
            expected = copies * size if not mask or mask >> rank & 1 else 0
            self.add(f"setp.eq.and.u32 %q, %c, {rank}, %w{warp};")
            self.add(f"@%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar+{8 * warp}], {expected};")
        multicast = {"multicast": ".multicast::cluster" if mask else "", "mask": f", {mask}" if mask else ""}
        issuer = f"setp.eq.and.u32 %q, %c, 0, %w{warp};" if mask else f"mov.pred %q, %w{warp};"
        if mask:
            self.add("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;")
        self.add(issuer)
        for _ in range(copies):
            made = text
            for key, value in (*multicast.items(), ("place", f"+{self.place()}")):
                made = made.replace("{" + key + "}", value)
            self.add(f"@%q {made}")
        if self.maybe(self.ordered):
            self.wait(warp)
        else:
            self.phases[warp] += 1

    def wait(self, warp):
        self.labels += 1
        name, parity = f"W{self.labels}", self.phases[warp] & 1
        self.phases[warp] += 1
        self.add(f"{name}: mbarrier.try_wait.parity.shared::cta.b64 %q, [bar+{8 * warp}], {parity};")
        self.add(f"@!%q bra {name};")

    def store(self, warp):
        at, shape, where = self.shape(stores=True)
        mode = "tile::scatter4" if shape.gathers else "tile"
        self._store(
            warp,
            f"cp.async.bulk.tensor.{len(shape.dims)}d.global.shared::cta.{mode}.bulk_group "
            f"[%m{at}, {where}], [%s+{self.place()}];",
        )

    def bulk_store(self, warp):
        size = 16 * self.number(1, 40)
        address = f"[%g+{16 * self.number(WORDS // 16)}]"
        self._store(
            warp, f"cp.async.bulk.global.shared::cta.bulk_group {address}, [%s+{self.place()}], {size};"
        )

    def _store(self, warp, text):
        self.add(f"setp.eq.and.u32 %q, %c, {self.number(self.cluster)}, %w{warp};\n@%q {text}")
        self.add(f"@%w{warp} cp.async.bulk.commit_group;")
        if self.maybe(self.ordered):
            read = ".read" if self.maybe(0.3) else ""
            self.add(f"@%w{warp} cp.async.bulk.wait_group{read} 0;")
            self.sync(warp)

    def sync(self, warp):
        if self.maybe(self.ordered**2):
            self.add("fence.proxy.async;")
        if self.cluster > 1:
            self.add("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;")
        else:
            self.add("bar.sync 0;")
        if self.maybe(self.ordered**2):
            self.add("fence.proxy.async;")

    def threads(self, warp):
        if self.maybe(0.6):
            access = f"[%t4+{self.place() + 128 * self.number(4)}]"
            text = f"st.shared.b32 {access}, %r0;" if self.maybe(0.5) else f"ld.shared.b32 %r1, {access};"
        else:
            access = f"[%g4+{128 * self.number(WORDS // 128)}]"
            how = ".relaxed.gpu" if self.maybe(0.4) else ""
            store = f"st{how}.global.b32 {access}, %r0;"
            text = store if self.maybe(0.4) else f"ld.global.b32 %r1, {access};"
        self.add(f"@%v{warp} {text}")
        if self.maybe(self.ordered):
            self.sync(warp)

    def body(self, count):
        kinds = [self.load, self.load, self.store, self.store, self.bulk_load, self.bulk_store]
        kinds += [self.sync, self.threads, self.threads, self.threads]
        for _ in range(count):
            kinds[self.number(len(kinds))](self.number(WARPS))
        return "\n".join(self.lines)


def kernel(rng, cluster=1, ordered=0.9, count=30):
    """The PTX of a kernel of clusters of this size."""
    body = Writer(rng, cluster, ordered).body(count)
    return around(body, cluster, fenced=rng.random() < ordered)


def around(body, cluster=1, *, fenced=True):
    """A kernel with a body, whose mbarriers are initialized and, if `fenced`, visible to the cluster."""
    maps = "".join(f", .param .align 64 .b8 p_m{at}[128]" for at in range(len(SHAPES)))
    taken = "\n".join(f"mov.b64 %m{at}, p_m{at}; cvta.param.u64 %m{at}, %m{at};" for at in range(len(SHAPES)))
    fills = "\n".join(
        f"st.shared.v4.b32 [%r2+{1024 * at}], {{%r0, %r0, %r0, %r0}};" for at in range(4 * SLOTS)
    )
    directive = f".explicitcluster .reqnctapercluster {cluster}" if cluster > 1 else ""
    inits = "\n".join(f"@%w0 mbarrier.init.shared::cta.b64 [bar+{8 * warp}], 1;" for warp in range(WARPS))
    return f"""
.visible .entry k(.param .u64 p_g{maps}) {directive}
{{
  .shared .align 1024 .b8 smem[{SLOT * SLOTS}]; .shared .align 8 .b64 bar[{WARPS}];
  .reg .b32 %t, %s, %c, %t4, %r<8>; .reg .b64 %g, %g4, %m<{len(SHAPES)}>; .reg .pred %q, %w<2>, %v<2>;
  ld.param.u64 %g, [p_g];
  {taken}
  mov.u32 %t, %tid.x; mov.u32 %s, smem; mov.u32 %c, %cluster_ctarank; mov.u32 %r0, %t;
  setp.eq.u32 %w0, %t, 0; setp.eq.u32 %w1, %t, 32; setp.lt.u32 %v0, %t, 32; setp.ge.u32 %v1, %t, 32;
  and.b32 %r3, %t, 31; shl.b32 %r3, %r3, 2; add.u32 %t4, %s, %r3; cvt.u64.u32 %g4, %r3; add.u64 %g4, %g4, %g;
  shl.b32 %r2, %t, 4; add.u32 %r2, %r2, %s;
  {fills}
  fence.proxy.async;
  {inits}
  {"@%w0 fence.mbarrier_init.release.cluster;" if fenced else ""}
  {"barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" if cluster > 1 else "bar.sync 0;"}
  {body}
  {"barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" if cluster > 1 else "bar.sync 0;"}
  ret;
}}
"""


def launch(text, cluster=1, clusters=1, written=True, **options):
    """Runs a kernel, and returns the report and the buffer. If that isn't `written`, the kernel must write
    before it reads.
    """
    buffer = np.random.default_rng(3).integers(0, 1 << 32, WORDS, dtype=np.uint32)
    maps = [shape.map(buffer) for shape in SHAPES]
    made = module(text, "sm_100a")
    grid, args = cluster * clusters, [buffer if written else emulator.Unwritten(buffer), *maps]
    report = made.launch("k", grid=grid, block=32 * WARPS, args=args, threads=1, **options)
    return report, buffer
