"""Arrays of zeros of which only what has been touched takes memory."""

import math
import mmap
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_LARGE = 1 << 26
_NORESERVE = 0x4000  # Linux's, which Python doesn't name
_CHUNK = 1 << 16
_PAGEMAP = Path("/proc/self/pagemap")
_ENTRY = 8  # bytes of the page map for each page
_PAGES = 1 << 20  # whose entries are read at a time
_TOUCHED = np.uint64(3 << 62)  # in memory, or swapped out


def zeros(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """As `numpy.zeros`, but the array may be larger than the machine's memory, which Linux refuses NumPy.

    Raises MemoryError.
    """
    count = math.prod(shape)
    size = count * np.dtype(dtype).itemsize
    if size < _LARGE or sys.platform != "linux":
        return np.zeros(shape, dtype)
    try:
        memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    except OSError as error:
        raise MemoryError(f"no address space for an array of {size} bytes") from error
    return np.frombuffer(memory, dtype, count).reshape(shape)


def used(*arrays: npt.NDArray[Any]) -> list[slice]:
    """Parts of the arrays' last axis, which all have, in order: elsewhere, all of them are zero."""
    count = arrays[0].shape[-1]
    found: set[int] = set()
    for array in arrays:
        for row in array.reshape(-1, count):
            chunks = _touched(row) if row.nbytes >= _LARGE else None
            begins = range(0, count, _CHUNK) if chunks is None else (chunks * _CHUNK).tolist()
            found.update(at for at in begins if at not in found and row[at : at + _CHUNK].any())
    return [slice(at, min(at + _CHUNK, count)) for at in sorted(found)]


def _touched(row: npt.NDArray[Any]) -> npt.NDArray[np.intp] | None:
    """The chunks of a row of elements that have pages; None if the system doesn't tell. Reading what has none
    takes a second for ten gigabytes.
    """
    first = row.ctypes.data // mmap.PAGESIZE
    end = (row.ctypes.data + row.nbytes - 1) // mmap.PAGESIZE + 1
    found = [np.zeros(0, np.intp)]
    with suppress(OSError), _PAGEMAP.open("rb", buffering=0) as file:
        file.seek(first * _ENTRY)
        for at in range(first, end, _PAGES):
            read = file.read(min(_PAGES, end - at) * _ENTRY)
            if len(read) < min(_PAGES, end - at) * _ENTRY:
                return None
            pages = np.flatnonzero(np.frombuffer(read, np.uint64) & _TOUCHED) + at
            begin, size = pages * mmap.PAGESIZE - row.ctypes.data, _CHUNK * row.itemsize
            found += [begin.clip(0) // size, (begin + mmap.PAGESIZE - 1) // size]
        return np.unique(np.concatenate(found))
    return None


def repeated(array: npt.NDArray[Any], times: int, parts: list[slice]) -> npt.NDArray[Any]:
    """Each element of the last axis `times` times. Elements that aren't in these parts become zero."""
    new = zeros((*array.shape[:-1], times * array.shape[-1]), array.dtype)
    for part in parts:
        new[..., times * part.start : times * part.stop] = np.repeat(array[..., part], times, axis=-1)
    return new
