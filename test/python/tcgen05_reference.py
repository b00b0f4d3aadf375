"""Operands of `tcgen05.mma` by the PTX ISA: images of shared memory and cells of tensor memory."""

from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

DTYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "s8": np.int8,
    "u8": np.uint8,
}
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e3m2": 6, "e2m3": 6, "e2m1": 4}
K = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
LANES, COLUMNS = 128, 512


def codes(values, name):
    """The bits of values, one unsigned integer each."""
    typed = values.astype(DTYPES[name])
    return typed.view(f"u{typed.dtype.itemsize}")


def row_bytes(bits, name, kind):
    """Rows of elements as shared memory has them: those below 8 bits by 16 in 16 bytes, but packed for fp4
    kinds.
    """
    if kind in ("mxf4", "mxf4nvf4"):
        return bits[:, ::2] | bits[:, 1::2] << 4
    width = BITS.get(name, 8)
    if width >= 8:
        return np.ascontiguousarray(bits).view(np.uint8).reshape(len(bits), -1)
    out = np.zeros((len(bits), bits.shape[1]), np.uint8)
    for row in range(len(bits)):
        for chunk in range(0, bits.shape[1], 16):
            number = sum(int(bits[row, chunk + i]) << width * i for i in range(16))
            out[row, chunk : chunk + 16] = np.frombuffer(number.to_bytes(16, "little"), np.uint8)
    return out


def swizzled(offset, swizzle):
    if swizzle == "none":
        return offset
    if swizzle == "128B_32B":
        return offset ^ (offset >> 7 & 3) << 5
    return offset ^ (offset >> 7 & (int(swizzle[:-1]) // 16 - 1)) << 4


@dataclass
class Image:
    """A matrix in shared memory, `rows` of bytes: of K, or `transposed` of M or N."""

    rows: np.ndarray
    swizzle: str = "none"
    transposed: bool = False
    data: np.ndarray = field(init=False)
    leading: int = field(init=False)
    stride: int = field(init=False)

    def __post_init__(self):
        count, size = self.rows.shape
        width = 16 if self.swizzle == "none" else 128 if "_" in self.swizzle else int(self.swizzle[:-1])
        group = 4 if "_" in self.swizzle else 8
        groups = -(-count // group)
        across, down = groups * group * width, group * width
        self.leading, self.stride = across, down
        if self.swizzle == "none" and self.transposed:
            self.leading, self.stride = down, across
        self.data = np.zeros(-(-size // width) * across, np.uint8)
        row, byte = np.indices(self.rows.shape)
        at = row // group * down + row % group * width + byte // width * across + byte % width
        self.data[swizzled(at, self.swizzle)] = self.rows


def packed_columns(bits, name, kind):
    """Rows of elements as columns of tensor memory: `[rows, columns]` of 32 bits."""
    if kind in ("mxf4", "mxf4nvf4"):
        octets = (bits[:, ::2] | bits[:, 1::2] << 4).astype(np.uint8)
    elif BITS.get(name, 8) < 8:
        octets = (bits << (2 if name == "e2m1" else 0)).astype(np.uint8)
    else:
        octets = np.ascontiguousarray(bits).view(np.uint8)
    return np.ascontiguousarray(octets).view(np.uint32).reshape(len(bits), -1)


def lanes_of(rows, *, half, base=0):
    row = np.arange(rows)
    return base + (row % 16 + row // 16 * 32 if half else row)


def layout(m, group, *, sparse, ws):
    """How a CTA's rows lie: how many banks share N, how many rows each has, whether half of the lanes."""
    rows = m // group
    if rows == 128:
        return 1, rows, False
    if ws or (group == 2 and not sparse):
        return 128 // rows, rows, False
    return 1, rows, True


def metadata_words(codes_, lanes, kind, selector=0):
    """Cells of 4-bit codes `[rows, chunks]`: a dictionary from (lane, column) to the word."""
    cells = {}
    for row, chunk in np.ndindex(codes_.shape):
        lane = int(lanes[row])
        if kind in ("f16", "tf32"):
            place = lane // 16 * 16 + lane % 8 + chunk // 4 * 8, selector
            nibble = 4 * (lane % 16 // 8) + chunk % 4
        else:
            place, nibble = (lane, chunk // 8), chunk % 8
        cells[place] = cells.get(place, 0) | int(codes_[row, chunk]) << 4 * nibble
    return cells


def scale_words(codes_, parts, first):
    """Cells of scales `[rows, scales]`, copied to each of some parts of 32 lanes; as `metadata_words`."""
    cells = {}
    tiles = -(-len(codes_) // 128) * 4
    for row, at in np.ndindex(codes_.shape):
        byte = first + at
        for part in parts:
            place = 32 * part + row % 32, row // 32 + byte // 4 * tiles
            cells[place] = cells.get(place, 0) | int(codes_[row, at]) << 8 * (byte % 4)
    return cells


def compressed(rng, rows, k, kind):
    """A sparse matrix of small numbers: the dense one, what is stored, and the codes."""
    chunk = {"tf32": 2, "mxf4": 8, "mxf4nvf4": 8}.get(kind, 4)
    dense = np.zeros((rows, k))
    stored = np.zeros((rows, k // 2))
    found = np.zeros((rows, k // chunk), int)
    for row, at in np.ndindex(found.shape):
        values = rng.choice([-2.0, -1.0, 0.0, 1.0, 2.0], chunk // 2)
        stored[row, at * chunk // 2 : (at + 1) * chunk // 2] = values
        if chunk == 2:
            place = int(rng.integers(2))
            found[row, at] = 0b1110 if place else 0b0100
            dense[row, 2 * at + place] = values[0]
            continue
        low, high = sorted(rng.choice(4, 2, replace=False).tolist())
        found[row, at] = low | high << 2
        unit = chunk // 4
        for i, place in enumerate((low, high)):
            begin = at * chunk + place * unit
            dense[row, begin : begin + unit] = values[i * unit : (i + 1) * unit]
    return dense, stored, found
