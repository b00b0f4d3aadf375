"""Operands for one matrix instruction, as bits: random matrices, the registers and the shared memory that
hold them, and what NumPy makes of them.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from weft.isa.family import Registers
from weft.isa.mma.fragments import chunk
from weft.isa.types import ELEMENT_TYPES
from weft.isa.wgmma.descriptors import SWIZZLES
from weft.layout import SWIZZLES as PATTERNS
from weft.layout import Layout

LANES = 32
CORE_BYTES = 16
"""Bytes of a row of a core matrix, which has eight rows."""
ROWS = 8
ALIGNMENT = 1024

# The types whose values NumPy has, and the unsigned integers of their bits.
_FLOATS = {
    "f16": (np.float16, np.uint16),
    "bf16": (ml_dtypes.bfloat16, np.uint16),
    "tf32": (np.float32, np.uint32),
    "f32": (np.float32, np.uint32),
    "f64": (np.float64, np.uint64),
    "e4m3": (ml_dtypes.float8_e4m3fn, np.uint8),
    "e5m2": (ml_dtypes.float8_e5m2, np.uint8),
}
_LIMIT = (1 << 31) - 1


def values(rng: Any, shape: tuple[int, ...], name: str, *, positive: bool = False) -> Any:
    """Random values of a type, as float64 or int64: small integers where sums of floats must be exact."""
    element = ELEMENT_TYPES[name]
    if element.kind == "float":
        return rng.integers(-2, 3, shape).astype(np.float64)
    if name == "b1":
        return rng.integers(0, 2, shape)
    if name == "s32":
        return rng.integers(-1000, 1001, shape)
    low = 0 if positive or element.kind == "uint" else -(1 << (element.bits - 1))
    return rng.integers(low, 1 << (element.bits - (element.kind == "int")), shape)


def encode(matrix: Any, name: str) -> Any:
    """The bits of each element, as uint64."""
    if name in _FLOATS:
        kind, bits = _FLOATS[name]
        return matrix.astype(kind).view(bits).astype(np.uint64)
    return matrix.astype(np.int64).view(np.uint64) & np.uint64((1 << ELEMENT_TYPES[name].bits) - 1)


def decode(codes: Any, name: str) -> Any:
    """The values of an accumulator's bits."""
    if name == "s32":
        return codes.astype(np.uint32).view(np.int32).astype(np.int64)
    kind, bits = _FLOATS[name]
    return codes.astype(bits).view(kind).astype(np.float64)


def packed(codes: Any, bits: int) -> Any:
    """The bytes of rows of elements, the first lowest."""
    if bits >= 8:
        kind = np.dtype(f"u{bits // 8}")
        return np.ascontiguousarray(codes.astype(kind)).view(np.uint8)
    spread = codes.reshape(*codes.shape[:-1], -1, 8 // bits) << np.arange(0, 8, bits, dtype=np.uint64)
    return spread.sum(-1).astype(np.uint8)


def unpacked(data: Any, bits: int) -> Any:
    """The elements of rows of bytes, for those of at least 8 bits."""
    return np.ascontiguousarray(data).view(f"u{bits // 8}").astype(np.uint64)


@cache
def _held(layout: str, shape: tuple[int, ...], threads: int) -> tuple[Any, Any]:
    """The threads that hold elements, and the row-major indices of what each holds, in register order."""
    parsed = Layout.parse(layout)
    lists = [parsed.lane_elements(t % LANES, shape, t // LANES) for t in range(threads)]
    holding = [t for t, held in enumerate(lists) if held]
    flat = [[np.ravel_multi_index(at, shape) for at in lists[t]] for t in holding]
    return np.array(holding), np.array(flat)


def to_registers(codes: Any, operand: Registers, bits: int, threads: int = LANES, first: int = 0) -> Any:
    """The 32-bit words of each thread's registers for a matrix of codes; others' registers are 0. `first` is
    the thread of the layout's thread 0.
    """
    holding, flat = _held(operand.layout, operand.shape, threads)
    elements = np.zeros((threads, flat.shape[1]), np.uint64)
    elements[holding + first] = codes.reshape(-1)[flat]
    return packed(elements, bits).view(np.uint32)


def from_registers(words: Any, operand: Registers, bits: int) -> Any:
    """The matrix of codes that registers hold."""
    holding, flat = _held(operand.layout, operand.shape, len(words))
    elements = unpacked(words.view(np.uint8), bits)
    codes = np.zeros(operand.shape, np.uint64)
    codes.reshape(-1)[flat] = elements[holding]
    return codes


@dataclass(frozen=True)
class Operands:
    """The values of a product's operands, and what of A is stored with the metadata where it is sparse."""

    a: Any
    b: Any
    c: Any
    stored: Any
    metadata: Any


def operands(form: Any, m: int, n: int, k: int, *, batch: int = 0, sparse: bool = False) -> Operands:
    """Random operands for a form; sums clamp (all one way) where it has satfinite."""
    rng = np.random.default_rng([m, n, k, *map(ord, form.a_type + form.b_type + form.d_type)])
    outer = (batch,) if batch else ()
    a = values(rng, (*outer, m, k), form.a_type, positive=form.satfinite)
    b = values(rng, (*outer, k, n), form.b_type, positive=form.satfinite)
    c = values(rng, (*outer, m, n), getattr(form, "c_type", form.d_type))
    if form.satfinite:
        c += _LIMIT - 2000
    stored, metadata = (a, None) if not sparse else _sparse(rng, a, form.a_type)
    return Operands(a, b, c, stored, metadata)


def _sparse(rng: Any, a: Any, name: str) -> tuple[Any, Any]:
    """Clears half of each chunk of A's rows; returns the rest and the indices, four bits a chunk."""
    m, k = a.shape
    size = chunk(name)
    chunks = k // size
    choices = [(0, 1), (2, 3)] if size == 2 else [(i, j) for i in range(4) for j in range(i + 1, 4)]
    chosen = np.array(choices)[rng.integers(0, len(choices), (m, chunks))]
    # Four places to a chunk, whatever its size: halves of elements, elements, or pairs of them.
    kept = np.zeros((m, chunks, 4), bool)
    np.put_along_axis(kept, chosen, True, -1)
    mask = (kept[..., ::2] if size == 2 else np.repeat(kept, size // 4, axis=-1)).reshape(m, k)
    a *= mask
    return a[mask].reshape(m, k // 2), (chosen[..., 0] | chosen[..., 1] << 2).astype(np.uint64)


def reference(form: Any, given: Operands, *, scale: int = 1, accumulate: bool = True) -> Any:
    """`scale * a @ b + c`, exactly; without `accumulate`, without c."""
    c = given.c if accumulate else 0
    if getattr(form, "bit_op", ""):
        both = (np.bitwise_xor if form.bit_op == "xor.popc" else np.bitwise_and)(
            given.a[:, :, None], given.b[None, :, :]
        )
        return both.sum(1) + c
    total = scale * (given.a @ given.b) + c
    return np.minimum(total, _LIMIT) if form.satfinite else total


# Matrices in shared memory (PTX ISA, "Shared Memory Matrix Layout" of wgmma): their bytes, and the strides
# that the descriptor names.


@dataclass(frozen=True)
class Staged:
    """The bytes of a matrix, where in them the descriptor's address points, and what else it says."""

    image: Any
    start: int
    leading: int
    stride: int
    swizzle: str


def stage(rows: Any, swizzle: str, *, transposed: bool = False, step: int = 0) -> Staged:
    """Lays out rows of bytes: of M (N), K running fastest, or of K, M (N) running fastest, if `transposed`.

    `step` counts the instructions' K that come before in a swizzled row. Strides that nothing reads are 16.
    """
    count = len(rows)
    row, byte = (i.reshape(-1) for i in np.indices(rows.shape))
    group, inside = row // ROWS, row % ROWS
    start = 0
    if swizzle == "none":
        across, down = count // ROWS * 128 or 128, 128
        place = byte // CORE_BYTES * across + group * down + inside * CORE_BYTES + byte % CORE_BYTES
        leading, stride = (down, across) if transposed else (across, down)
    else:
        period, panel = SWIZZLES[swizzle].period, SWIZZLES[swizzle].width
        across = count // ROWS * period
        start = 0 if transposed else step * 2 * CORE_BYTES
        place = (byte // panel) * across + group * period + inside * panel + byte % panel + start
        place = np.array([PATTERNS[swizzle].swizzle_offset(int(p)) for p in place])
        leading, stride = (across, period) if transposed else (CORE_BYTES, period)
    image = np.zeros(-(-(int(place.max()) + 1) // ALIGNMENT) * ALIGNMENT, np.uint8)
    image[place] = rows.reshape(-1)
    return Staged(image, start, leading, stride, swizzle)
