"""Bulk copies in NumPy, element by element, and PTX kernels for their tests."""

import itertools
from dataclasses import dataclass

import numpy as np
from emulator_ptx import module

from weft import emulator

SIZES = {
    "UINT8": 1,
    "UINT16": 2,
    "UINT32": 4,
    "INT32": 4,
    "UINT64": 8,
    "INT64": 8,
    "FLOAT16": 2,
    "FLOAT32": 4,
    "FLOAT64": 8,
    "BFLOAT16": 2,
    "FLOAT32_FTZ": 4,
    "TFLOAT32": 4,
    "TFLOAT32_FTZ": 4,
}
SWIZZLES = ("none", "32B", "64B", "128B")
ATOMS = ("128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B")
UNTOUCHED = 0xA5
OOB_NAN = (0xF7, 0x7F)
# (lowest bit that changes, number of bits, lowest bit that decides), of absolute shared addresses.
_XOR = {
    "none": (),
    "32B": ((4, 1, 7),),
    "64B": ((4, 2, 7),),
    "128B": ((4, 3, 7),),
    "128B_ATOM_32B": ((5, 2, 7),),
    "128B_ATOM_32B_FLIP_8B": ((5, 2, 7), (3, 1, 7)),
    "128B_ATOM_64B": ((6, 1, 7),),
}


def places(count, swizzle, base=0):
    """Where the bytes of a box lie in shared memory, relative to the copy's address `base`."""
    linear = base + np.arange(count)
    moved = linear.copy()
    for target, bits, source in _XOR[swizzle]:
        moved ^= (linear >> source & ((1 << bits) - 1)) << target
    return moved - base


@dataclass(frozen=True)
class Tiled:
    """A tiled tensor map; dimensions go from the innermost one on, strides are in bytes."""

    dtype: str
    dims: tuple
    box: tuple
    steps: tuple = ()
    swizzle: str = "none"
    fill: str = "zero"
    pad: int = 0

    @property
    def size(self):
        return SIZES[self.dtype]

    @property
    def strides(self):
        """Each row is `pad` times 16 bytes longer than needed."""
        row = -(-self.dims[0] * self.size // 16) * 16 + 16 * self.pad
        return tuple(row * int(np.prod(self.dims[1 : n + 1])) for n in range(len(self.dims) - 1))

    @property
    def extent(self):
        """Bytes of global memory from the map's address on."""
        return (self.strides[-1] * self.dims[-1]) if self.strides else -(-self.dims[0] * self.size // 16) * 16

    @property
    def counts(self):
        steps = (1, *(self.steps[1:] or (1,) * (len(self.dims) - 1)))
        return tuple(-(-box // step) for box, step in zip(self.box, steps, strict=True))

    @property
    def bytes(self):
        return int(np.prod(self.counts)) * self.size

    def map(self, buffer, **changes):
        options = {
            "dtype": self.dtype,
            "dims": self.dims,
            "strides_bytes": self.strides,
            "box": self.box,
            "element_strides": self.steps or (1,) * len(self.dims),
            "swizzle": self.swizzle,
            "oob_fill": self.fill,
        }
        return emulator.TensorMap.tiled(buffer, **(options | changes))

    def elements(self, start):
        """Byte addresses of the box's elements, and which of them are inside; innermost dimension fastest."""
        address, inside = np.zeros(1, np.int64), np.ones(1, bool)
        strides = (self.size, *self.strides)
        steps = (1, *(self.steps[1:] or (1,) * (len(self.dims) - 1)))
        for n, count in enumerate(self.counts):
            index = start[n] + np.arange(count) * steps[n]
            address = (index[:, None] * strides[n] + address).ravel()
            inside = (((index >= 0) & (index < self.dims[n]))[:, None] & inside).ravel()
        return address, inside


@dataclass(frozen=True)
class Interleaved(Tiled):
    """(slice, W, …, C / slice, N): slices of 16 or 32 bytes, of which a box has one for each place."""

    slice: int = 16

    @property
    def size(self):
        return self.slice

    @property
    def counts(self):
        return (*self.box[:-2], 1, self.box[-1])

    def map(self, buffer, **changes):
        return super().map(buffer, interleave=f"{self.slice}B", **changes)


@dataclass(frozen=True)
class Im2col:
    """An im2col tensor map: (C, W, H, D, N) without the missing ones."""

    dtype: str
    dims: tuple
    lower: tuple
    upper: tuple
    channels: int
    pixels: int
    steps: tuple = ()
    swizzle: str = "none"
    fill: str = "zero"
    pad: int = 0

    size, strides, extent = Tiled.size, Tiled.strides, Tiled.extent

    @property
    def bytes(self):
        return self.channels * self.pixels * self.size

    def map(self, buffer, **changes):
        options = {
            "dtype": self.dtype,
            "dims": self.dims,
            "strides_bytes": self.strides,
            "lower_corner": self.lower,
            "upper_corner": self.upper,
            "channels_per_pixel": self.channels,
            "pixels_per_column": self.pixels,
            "element_strides": self.steps or (1,) * len(self.dims),
            "swizzle": self.swizzle,
            "oob_fill": self.fill,
        }
        return emulator.TensorMap.im2col(buffer, **(options | changes))

    def elements(self, start, offsets=()):
        """Walks over the pixels of the bounding box, each moved by the offsets, from image to image."""
        space = range(1, len(self.dims) - 1)
        last = {n: self.dims[n] - 1 + self.upper[n - 1] for n in space}
        place, addresses, inside = list(start), [], []
        channel = start[0] + np.arange(self.channels)
        for _ in range(self.pixels):
            at = [0, *(place[n] + (offsets[n - 1] if offsets else 0) for n in space), place[-1]]
            within = all(0 <= at[n] < self.dims[n] for n in range(1, len(self.dims)))
            row = sum(at[n] * self.strides[n - 1] for n in range(1, len(self.dims)))
            addresses.append(row + channel * self.size)
            inside.append((channel >= 0) & (channel < self.dims[0]) & within)
            for n in (*space, len(self.dims) - 1):
                if n not in last:
                    place[n] += 1
                    break
                place[n] += self.steps[n] if self.steps else 1
                if place[n] <= last[n]:
                    break
                place[n] = self.lower[n - 1]
        return np.concatenate(addresses), np.concatenate(inside)


def bytes_of(elements, size):
    """The addresses of bytes of what `elements` gives."""
    address, inside = elements
    return (address[:, None] + np.arange(size)).ravel(), np.repeat(inside, size)


def loaded(spec, memory, elements):
    """The bytes that a load brings, before they are swizzled."""
    address, inside = bytes_of(elements, spec.size)
    filler = np.resize(np.array(OOB_NAN if spec.fill == "nan" else (0, 0), np.uint8), len(address))
    return np.where(inside, memory[np.where(inside, address, 0)], filler)


def stored(spec, memory, elements, tile):
    """Memory after a store of a tile's bytes, which are in order."""
    address, inside = bytes_of(elements, spec.size)
    after = memory.copy()
    after[address[inside]] = tile[: len(address)][inside]
    return after


def in_shared(box, swizzle, base, region):
    """A shared array in which a box of bytes was put at `base` (from the array's begin, aligned to 1024)."""
    image = np.full(region, UNTOUCHED, np.uint8)
    image[base + places(len(box), swizzle, base)] = box
    return image


HEAD = """
.visible .entry k({map}.param .u64 p_a, .param .u64 p_b) {directives}
{{
  .reg .pred %p<8>; .reg .b32 %r<40>; .reg .b64 %rd<32>; .reg .b16 %h<8>;
  .shared .align 1024 .b8 tile[{region}]; .shared .align 8 .b64 bar;
  {address}
  ld.param.u64 %rd1, [p_a]; ld.param.u64 %rd2, [p_b];
  mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, tile;
  setp.eq.u32 %p1, %r0, 0;
"""


def head(region, directives="", tensor=True):
    """Begins a kernel of a tensor map (at %rd0), if it takes one, and arrays at %rd1 and %rd2.

    %r0 is the thread, %p1 the first one, %r1 the block and %r2 where `tile` is.
    """
    return HEAD.format(
        map=".param .align 64 .b8 map[128], " if tensor else "",
        address="mov.b64 %rd0, map; cvta.param.u64 %rd0, %rd0;" if tensor else "",
        directives=directives,
        region=region,
    )


INIT = """
  @%p1 mbarrier.init.shared::cta.b64 [bar], 1;
  fence.mbarrier_init.release.cluster;
  fence.proxy.async.shared::cta;
  bar.sync 0;
"""
WAIT = """
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
  @!%p2 bra WAIT;
"""
COMPLETE = ".mbarrier::complete_tx::bytes"
POLICY = "createpolicy.fractional.L2::evict_first.b64 %rd7, 1.0;"
BULK_WAIT = """
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
"""


def copy_shared(region, pointer, out):
    """Every word of `tile`: from it into this block's part of an array, into it, or a constant into it."""
    label = {True: "GIVE", False: "TAKE", None: "FILL"}[out]
    move = {
        True: "ld.shared.u32 %r7, [%r6]; st.global.u32 [%rd5], %r7;",
        False: "ld.global.u32 %r7, [%rd5]; st.shared.u32 [%r6], %r7;",
        None: f"st.shared.u32 [%r6], {UNTOUCHED * 0x01010101};",
    }[out]
    return f"""
  mul.lo.u32 %r5, %r1, {region}; cvt.u64.u32 %rd4, %r5; add.u64 %rd4, %rd4, {pointer};
  mov.u32 %r5, %r0;
{label}:
  shl.b32 %r6, %r5, 2; cvt.u64.u32 %rd5, %r6; add.u64 %rd5, %rd5, %rd4; add.u32 %r6, %r6, %r2;
  {move}
  add.u32 %r5, %r5, 128; setp.lt.u32 %p0, %r5, {region // 4};
  @%p0 bra {label};
"""


def coordinates(count, pointer="%rd1", stride=None, first=10):
    """Loads this block's row of an array of s32 into %r10 …"""
    loads = "".join(f"ld.global.u32 %r{first + n}, [%rd6+{4 * n}]; " for n in range(count))
    return f"mad.wide.u32 %rd6, %r1, {4 * (stride or count)}, {pointer}; {loads}\n"


def vector(count, first=10):
    return "{" + ", ".join(f"%r{first + n}" for n in range(count)) + "}"


def region_of(count, base=0):
    return -(-(base + count) // 1024) * 1024


@dataclass
class Form:
    """How a copy between a tensor and shared memory is written: a `mode` such as ".im2col", %h offsets …

    `state` is that of a load's destination.
    """

    rank: int
    mode: str = ""
    coords: int = 0
    offsets: int = 0
    target: str = "sm_90a"
    state: str = "shared::cluster"
    hint: bool = False

    def __post_init__(self):
        self.coords = self.coords or self.rank

    @property
    def suffix(self):
        return ".L2::cache_hint" if self.hint else ""

    @property
    def policy(self):
        return ", %rd7" if self.hint else ""


def run(text, target, args, findings=False, **options):
    """Launches blocks of 128 threads; unless told otherwise the sanitizer must find nothing."""
    options = {"grid": 1, "block": 128} | options
    report = module(text, target).launch("k", args=args, **options)
    if not findings:
        assert not report.findings, [str(found) for found in report.findings]
    return report


def load_text(form, count, base=0, expect=None):
    """A kernel each of whose blocks loads the box at its coordinates and gives back all of `tile`."""
    region = region_of(count, base)
    info = f", {{{', '.join(f'%h{n}' for n in range(form.offsets))}}}" if form.offsets else ""
    narrow = "".join(f"cvt.u16.u32 %h{n}, %r{10 + form.coords + n}; " for n in range(form.offsets))
    return f"""{head(region)}
  {copy_shared(region, "%rd2", None)}
  {INIT}
  {coordinates(form.coords + form.offsets)}
  {narrow}
  @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {count if expect is None else expect};
  add.u32 %r3, %r2, {base};
  {POLICY}
  @%p1 cp.async.bulk.tensor.{form.rank}d.{form.state}.global{form.mode}{COMPLETE}{form.suffix}
    [%r3], [%rd0, {vector(form.coords)}], [bar]{info}{form.policy};
  {WAIT}
  {copy_shared(region, "%rd2", True)}
  ret;
}}"""


def load(spec, tensor_map, starts, form, base=0, **options):
    """Loads a box for each row of `starts`; returns what `tile` holds then in each block."""
    starts = np.ascontiguousarray(starts, np.int32)
    out = np.zeros((len(starts), region_of(spec.bytes, base)), np.uint8)
    text = load_text(form, spec.bytes, base)
    run(text, form.target, [tensor_map, starts, out], grid=len(starts), **options)
    return out


def store_text(form, count, base=0, operation=""):
    """A kernel whose blocks put their part of an array into `tile` and store, or reduce, it."""
    region = region_of(count, base)
    opcode = "cp.reduce.async.bulk.tensor" if operation else "cp.async.bulk.tensor"
    return f"""{head(region)}
  {copy_shared(region, "%rd2", False)}
  fence.proxy.async.shared::cta;
  bar.sync 0;
  {coordinates(form.coords)}
  add.u32 %r3, %r2, {base};
  @!%p1 bra DONE;
  {POLICY}
  {opcode}.{form.rank}d.global.shared::cta{operation}{form.mode}.bulk_group{form.suffix}
    [%rd0, {vector(form.coords)}], [%r3]{form.policy};
  {BULK_WAIT}
DONE:
  ret;
}}"""


def store(tensor_map, start, tile, form, count, base=0, operation="", **options):
    """Stores one box from `tile`, the whole shared array."""
    start = np.ascontiguousarray([start], np.int32)
    run(store_text(form, count, base, operation), form.target, [tensor_map, start, tile], **options)


def starts_of(spec):
    """Places inside, across and outside of every border: each dimension in turn, then several at once.

    A box must begin at a multiple of 16 bytes.
    """
    each = []
    for n, (dim, box) in enumerate(zip(spec.dims, spec.box, strict=True)):
        unit = 1 if n else 16 // spec.size
        values = (dim - box // 2, -box // 2, dim + unit, -box - 2 * unit)
        each.append([value // unit * unit for value in values])
    starts = [tuple(0 for _ in spec.dims)]
    for n, values in enumerate(each):
        starts += [tuple(value if m == n else 0 for m in range(len(each))) for value in values]
    return [*starts, *itertools.islice(itertools.product(*(values[:2] for values in each)), 8)]


def memory_of(rng, spec):
    """Global memory for a map: bytes that differ, and are no special numbers in any type."""
    memory = rng.integers(1, 120, spec.extent, dtype=np.uint8)
    if "TFLOAT" in spec.dtype:
        memory.view(np.uint32)[:] &= np.uint32(0xFFFFE000)
    return memory


_NUMPY = {
    "UINT8": "u1",
    "UINT16": "u2",
    "UINT32": "u4",
    "INT32": "i4",
    "UINT64": "u8",
    "INT64": "i8",
    "FLOAT16": "f2",
    "FLOAT32": "f4",
    "FLOAT64": "f8",
    "BFLOAT16": "u2",
}


def numbers(rng, dtype, count):
    """Finite numbers of a type, subnormals among them; bfloat16 as its bits."""
    kind = np.dtype(_NUMPY[dtype])
    if kind.kind != "f" and dtype != "BFLOAT16":
        return rng.integers(0, 256, count * kind.itemsize, dtype=np.uint8).view(kind)
    values = rng.standard_normal(count) * np.exp2(rng.integers(-18, 8, count))
    if dtype == "BFLOAT16":
        bits = rounded_to_bfloat16(values.astype(np.float32))
        bits[::7] = 0x8003
        return bits
    values = values.astype(kind)
    values[::7] = np.finfo(kind).smallest_subnormal * 3
    return values


def rounded_to_bfloat16(values):
    """Bits, to nearest even, of finite float32 numbers."""
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return (bits + np.uint64(0x7FFF) + (bits >> np.uint64(16) & np.uint64(1)) >> np.uint64(16)).astype(
        np.uint16
    )


def reduced(operation, dtype, old, new):
    """What memory holds after a reduction of each element of `old` with one of `new`."""
    if dtype == "BFLOAT16":
        first, second = ((a.astype(np.uint32) << np.uint32(16)).view(np.float32) for a in (old, new))
        if operation == "add":
            # float32 has more than twice bfloat16's bits: rounding twice is rounding once.
            return rounded_to_bfloat16(first + second)
        return rounded_to_bfloat16((np.minimum if operation == "min" else np.maximum)(first, second))
    with np.errstate(over="ignore"):
        return {
            "add": lambda: old + new,
            "min": lambda: np.minimum(old, new),
            "max": lambda: np.maximum(old, new),
            "inc": lambda: np.where(old >= new, 0, old + np.uint32(1)).astype(np.uint32),
            "dec": lambda: np.where((old == 0) | (old > new), new, old - np.uint32(1)).astype(np.uint32),
            "and": lambda: old & new,
            "or": lambda: old | new,
            "xor": lambda: old ^ new,
        }[operation]()
