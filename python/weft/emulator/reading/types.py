"""The fundamental types of PTX, and how NumPy stores a register of each."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
"""One value for each lane: `[warps, 32]`."""
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Type:
    """`kind` is u, s, b, f or p (predicate); registers store the bits as an unsigned integer."""

    name: str
    bits: int
    kind: str

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def storage(self) -> np.dtype[Any]:
        """The NumPy type that stores a register of this type; b128 is a pair of u64 in one element."""
        return STORAGE[self.bits]

    @property
    def view(self) -> np.dtype[Any]:
        """The NumPy type that interprets the bits, if NumPy has one."""
        return np.dtype(f"i{self.bytes}") if self.kind == "s" else STORAGE[self.bits]

    def __str__(self) -> str:
        return self.name


# A wide register is one complex128 per lane: NumPy moves it as 16 bytes, and nothing computes with it.
STORAGE: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.bool_),
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
    128: np.dtype(np.complex128),
}

TYPES = {
    t.name: t
    for t in (
        Type("pred", 1, "p"),
        *(Type(f"{kind}{bits}", bits, kind) for kind in "usb" for bits in (8, 16, 32, 64)),
        Type("b128", 128, "b"),
        Type("f16", 16, "f"),
        Type("bf16", 16, "f"),
        Type("f16x2", 32, "f"),
        Type("bf16x2", 32, "f"),
        Type("tf32", 32, "f"),
        Type("f32", 32, "f"),
        Type("f32x2", 64, "f"),
        Type("f64", 64, "f"),
        Type("u16x2", 32, "u"),
        Type("s16x2", 32, "s"),
        Type("u8x4", 32, "u"),
        Type("s8x4", 32, "s"),
        *(Type(f"{name}x2", 16, "f") for name in ("e4m3", "e5m2", "e2m3", "e3m2", "ue8m0", "s2f6")),
        *(Type(f"{name}x4", 32, "f") for name in ("e4m3", "e5m2", "e2m3", "e3m2")),
        Type("e2m1x2", 8, "f"),
        Type("e2m1x4", 16, "f"),
    )
}

B32, U32, U64, PRED = (TYPES[name] for name in ("b32", "u32", "u64", "pred"))
