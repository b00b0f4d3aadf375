"""Inputs of scalar instructions: limits of integers and of every floating-point format, NaN with payloads,
numbers halfway between those of narrower formats, operands that cancel, and random ones.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.uint64]
_FORMATS = {16: [(5, 10), (8, 7)], 32: [(8, 23)], 64: [(11, 52)]}
_NATIVE: dict[int, Any] = {16: np.float16, 32: np.float32, 64: np.float64}
_POWERS = (8, 15, 16, 24, 31, 32, 53, 63, 64)
"""Of two, at which integers end."""
_ENDS = (
    *(65504, 65519.99, 65520, 65536, 3.38953139e38, 448, 464, 57344, 61440, 6, 28, 7.5, 1.5, 2.5, 0.49999997),
    *(2.0**-p for p in (9, 10, 14, 24, 25, 126, 133, 134, 149, 150)),
)
"""Where formats end, and what is just beyond."""
_MANY, _RANDOM = 16384, 8192


def edges(bits: int) -> Values:
    """The special values of registers of a width."""
    top = 1 << bits
    found = {0, 1, 2, 3, *range(7, 9), *range(15, 18), *range(31, 34), *range(63, 66), 127, 128, 255, 256}
    found |= {
        top - 1,
        top - 2,
        top >> 1,
        (top >> 1) - 1,
        (top >> 1) + 1,
        0x5555555555555555,
        0xDEADBEEFCAFEBABE,
    }
    for exponent, fraction in _FORMATS[bits]:
        bias = (1 << (exponent - 1)) - 1
        infinity, quiet, one = ((1 << exponent) - 1) << fraction, 1 << (fraction - 1), bias << fraction
        special = [infinity + d for d in (-1, 0, 1, quiet - 1, quiet, quiet + 5, 2 * quiet - 1)]
        special += [one + d for d in (-1, 0, 1, quiet, -2 * quiet, 1 - 2 * quiet, -1 - 2 * quiet, 2 * quiet)]
        special += [
            one + (fraction << fraction),
            one + (fraction + 1 << fraction),
            quiet,
            2 * quiet,
            2 * quiet + 1,
        ]
        special += [one + (p << fraction) + d for p in _POWERS if p < bias for d in (-1, 0, 1)]
        if fraction > 11:
            with np.errstate(all="ignore"):
                ends = np.array(_ENDS).astype(_NATIVE[bits]).view(f"u{bits // 8}").tolist()
            special += [end + d for end in ends for d in (-1, 0, 1)]
            special += [one | ulps << (fraction - p) for p in (8, 11) for ulps in (1, 3)]
        found |= {v for each in special for v in (each, each | top >> 1)}
    if bits == 32:
        halves = [int(v) for v in edges(16)]
        found |= {a << 16 | b for a, b in zip(halves, halves[::-1], strict=True)} | {
            a << 16 | a for a in halves
        }
    return np.array(sorted({v & (top - 1) for v in found}), np.uint64)


def halfway(bits: int) -> Values:
    """Numbers of narrower formats, and those halfway between two of them, one unit down, exact, and up."""
    codes = np.arange(0, 1 << 15, 3, dtype=np.uint16)
    narrow = [codes.view(np.float16), (codes.astype(np.uint32) << 16).view(np.float32)]
    if bits == 64:
        narrow.append(np.arange(0, 1 << 31, 1 << 18, dtype=np.uint32).view(np.float32))
    groups = []
    with np.errstate(all="ignore"):
        for at, values in enumerate(narrow):
            values = values[np.isfinite(values)]
            step = np.spacing(values).astype(np.float64) * (2.0**16 if at == 1 else 1)
            groups += [values.astype(np.float64), values.astype(np.float64) + step / 2]
        exact = np.concatenate(groups).astype(_NATIVE[bits]).view(f"u{bits // 8}").astype(np.uint64)
    near = np.concatenate([exact + np.uint64(1), exact, exact - np.uint64(1)])
    signs = np.concatenate([near, near ^ np.uint64(1 << (bits - 1))])
    return np.unique(signs & np.uint64((1 << bits) - 1 if bits < 64 else 0xFFFFFFFFFFFFFFFF))


def random(rng: Any, bits: int, count: int) -> Values:
    """Random bits, numbers near one in every format of the width, and small integers."""
    near = rng.standard_normal(count) * 2.0 ** rng.integers(-6, 7, count)
    half = near.astype(np.float16).view(np.uint16).astype(np.uint64)
    brain = (near.astype(np.float32).view(np.uint32) >> 16).astype(np.uint64)
    kinds = {
        16: [half, brain],
        32: [v << np.uint64(16) | np.roll(v, 1) for v in (half, brain)],
        64: [],
    }[bits]
    kinds.append(near.astype(_NATIVE[bits]).view(f"u{bits // 8}").astype(np.uint64))
    kinds.append(rng.integers(0, 80, count, np.uint64))
    kinds.append(rng.integers(0, (1 << bits) - 1, count, np.uint64, endpoint=True))
    chosen: Values = np.choose(rng.integers(0, len(kinds), count), kinds).astype(np.uint64)
    return chosen


def inputs(registers: Sequence[str], block: int) -> list[Values]:
    """Values for registers of these types, as many for each, in whole blocks."""
    widths = [1 if each == "pred" else int(each[1:]) for each in registers]
    rng = np.random.default_rng([len(widths), *widths])
    if widths in ([8], [16]):
        return [np.arange(1 << widths[0], dtype=np.uint64)]
    if len(widths) == 1 and widths[0] > 1:
        value = np.concatenate([edges(widths[0]), halfway(widths[0]), random(rng, widths[0], _RANDOM)])
        return [np.resize(value, -(-len(value) // block) * block)]
    pools = [edges(width) if width > 1 else np.arange(2, dtype=np.uint64) for width in widths]
    arrays = [rng.choice(pool, _MANY) for pool in pools]
    if len(widths) == 2 and len(pools[0]) * len(pools[1]) <= 3 * _MANY // 2:
        every = np.array(list(itertools.product(*pools)), np.uint64).T
        arrays = [np.concatenate([all_, some[:1024]]) for all_, some in zip(every, arrays, strict=True)]
    more = [random(rng, w, _RANDOM) if w > 1 else rng.integers(0, 2, _RANDOM, np.uint64) for w in widths]
    if len(widths) > 1 and widths[0] == widths[1] > 1:
        _related(rng, more, widths)
    found = [np.concatenate(both) for both in zip(arrays, more, strict=True)]
    return [np.resize(each, -(-len(each) // block) * block) for each in found]


def _related(rng: Any, values: list[Values], widths: Sequence[int]) -> None:
    """Some second operands nearly equal the first; some third ones nearly cancel the product."""
    mask = np.uint64((1 << widths[0]) - 1 if widths[0] < 64 else 0xFFFFFFFFFFFFFFFF)
    values[1][-1024:] = values[0][-1024:] + rng.integers(0, 3, 1024, np.uint64) & mask
    if len(widths) == 3 and widths[2] == widths[0] > 16:
        native, view = _NATIVE[widths[0]], f"u{widths[0] // 8}"
        count = _RANDOM // 2
        with np.errstate(all="ignore"):
            a, b = (v[:count].astype(view).view(native) for v in values[:2])
            product = -(a * b)
        near = product.view(view).astype(np.uint64) + rng.integers(0, 3, count, np.uint64)
        values[2][:count] = near & mask
