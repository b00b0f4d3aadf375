"""Functions that print numbers, vectors and memrefs, as those of upstream's runner do."""

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Say = Callable[[str], None]
_ELEMENTS: dict[str, Any] = {
    **{f"I{bits}": np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"F{bits}": np.dtype(f"f{bits // 8}") for bits in (16, 32, 64)},
    "Ind": np.dtype("i8"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
}


def functions(say: Say) -> dict[str, Callable[..., Any]]:
    """The functions by their names in LLVM IR."""
    found: dict[str, Callable[..., Any]] = {
        "printI64": lambda value: say(str(value)),
        "printU64": lambda value: say(str(value % (1 << 64))),
        "printF32": lambda value: say(f"{value:g}"),
        "printF64": lambda value: say(f"{value:g}"),
        "printF16": lambda bits: say(f"{float(_of_bits(bits, np.float16)):g}"),
        "printBF16": lambda bits: say(f"{float(_of_bits(bits, ml_dtypes.bfloat16)):g}"),
        "printString": lambda address: say(ctypes.string_at(address).decode("utf-8", "replace")),
        "printOpen": lambda: say("( "),
        "printClose": lambda: say(" )"),
        "printComma": lambda: say(", "),
        "printNewline": lambda: say("\n"),
    }
    for kind, dtype in _ELEMENTS.items():
        found[f"printMemref{kind}"] = partial(_say_memref, say, dtype)
        found[f"_mlir_ciface_printMemref{kind}"] = partial(_say_unranked, say, dtype)
    return found


def _of_bits(bits: int, kind: object) -> Any:
    return np.array(bits & 0xFFFF, np.uint16).view(kind)


def _say_unranked(say: Say, dtype: object, address: int) -> None:
    rank, descriptor = (ctypes.c_int64 * 2).from_address(address)
    _say_memref(say, dtype, rank, descriptor)


def _say_memref(say: Say, dtype: object, rank: int, descriptor: int) -> None:
    view = Memref(rank, descriptor)
    array = view.array(dtype)
    say(
        f"Unranked Memref base@ = {view.aligned:#x} rank = {rank} offset = {view.offset} "
        f"sizes = {list(view.sizes)} strides = {list(view.strides)} data = \n{_text(array, rank)}\n"
    )


def _text(array: npt.NDArray[Any], rank: int) -> str:
    """The elements as upstream prints them: a row a line, more spaces the more dimensions there are."""
    if array.ndim == 0:
        value = array.item()
        return f"{value:g}" if isinstance(value, float) else str(value)
    apart = (", \n" if array.ndim > 1 else ", ") + " " * (rank - array.ndim + 1)
    return f"[{apart.join(_text(each, rank) for each in array)}]"


class Memref:
    """A memref's descriptor: two pointers, the offset, sizes and strides, which count elements."""

    def __init__(self, rank: int, descriptor: int) -> None:
        fields = (ctypes.c_int64 * (3 + 2 * rank)).from_address(descriptor)
        _, self.aligned, self.offset = (int(each) for each in fields[:3])
        self.sizes = tuple(fields[3 : 3 + rank])
        self.strides = tuple(fields[3 + rank :])

    def bytes(self, element: int) -> tuple[int, int]:
        """The address and the number of bytes from the first element to the last."""
        if 0 in self.sizes:
            return self.aligned, 0
        last = sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=True))
        return self.aligned + self.offset * element, (last + 1) * element

    def array(self, dtype: Any) -> npt.NDArray[Any]:
        """The elements, in place."""
        address, count = self.bytes(dtype.itemsize)
        data = np.ctypeslib.as_array((ctypes.c_uint8 * count).from_address(address)) if count else b""
        strides = [stride * dtype.itemsize for stride in self.strides]
        return np.ndarray(self.sizes, dtype, data, 0, strides) if count else np.empty(self.sizes, dtype)
