"""A kernel's calls with arrays whose rows don't begin where it can take them: with copies of these instead,
whose rows begin at multiples of 16 bytes.

On a GPU such a copy is queued on the caller's stream, before the kernel or behind it, so that a graph has it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from weft.dialects.schedule import ceil_div
from weft.errors import WeftError
from weft.isa.tensor_map import ROW_BYTES
from weft.launch import arrays, runtime
from weft.launch.arrays import ArrayView
from weft.launch.cuda_driver import api, call, context, entered
from weft.launch.kernel import Kernel
from weft.launch.kernel_arguments import aligned_to
from weft.launch.launcher import OVERLAP, Extents
from weft.launch.runtime import Prepared
from weft.launch.workspace import PerStream, Pool

# By GPU, and by the arguments that are copied.
_pools: WeakKeyDictionary[Kernel, dict[tuple[int, tuple[int, ...]], Pool]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Copied:
    """Which of a kernel's arguments have copies, and what these are for."""

    names: tuple[str, ...]  # of all arguments, as the caller knows them
    out: int  # the number of the one that is written
    keeps_out: bool  # whether the kernel reads it, or leaves some of it alone
    numbers: tuple[int, ...]

    @classmethod
    def of(
        cls, kernel: Kernel, names: Sequence[str], views: Sequence[ArrayView], keeps_out: bool
    ) -> "Copied":
        """Those whose rows the kernel can't take."""
        wanted = enumerate(zip(views, kernel.launch.aligned, strict=False))
        numbers = tuple(number for number, (view, bytes_) in wanted if aligned_to(view) % bytes_)
        return cls(tuple(names), names.index("out"), keeps_out, numbers)

    @property
    def before(self) -> list[int]:
        """The places in `numbers` of those that are copied before the kernel runs."""
        return [i for i, number in enumerate(self.numbers) if number != self.out or self.keeps_out]

    @property
    def behind(self) -> list[int]:
        """The places in `numbers` of those that are copied back."""
        return [i for i, number in enumerate(self.numbers) if number == self.out]


def run(kernel: Kernel, views: Sequence[ArrayView], copied: Copied) -> None:
    """Calls the kernel with arrays of the CPU."""
    made = [np.zeros(*_memory(views[number])) for number in copied.numbers]
    parts = [m[..., : views[n].shape[-1]] for n, m in zip(copied.numbers, made, strict=True)]
    placed = list(views)
    for number, part in zip(copied.numbers, parts, strict=True):
        placed[number] = arrays.view(part)
    for i in copied.before:
        parts[i][...] = views[copied.numbers[i]].numpy()
    kernel(*placed)
    for i in copied.behind:
        views[copied.numbers[i]].numpy()[...] = parts[i]


def plan(
    kernel: Kernel, views: Sequence[ArrayView], copied: Copied, extents: Extents
) -> "Prepared | PaddedLaunch":
    """A launch with arrays like these of one GPU, as `Kernel.plan` makes it. Raises WeftError for rows that
    overlap, of which the driver makes no copy.
    """
    if not copied.numbers:
        return kernel.plan(views, extents)
    for number in copied.numbers:
        _check(copied.names[number], views[number], kernel.launch.aligned[number])
    with runtime.on(runtime.holder(views)):
        return PaddedLaunch(kernel, views, copied, extents)


class PaddedLaunch:
    """A launch between copies, which is queued as `runtime.Prepared` is."""

    def __init__(self, kernel: Kernel, views: Sequence[ArrayView], copied: Copied, extents: Extents) -> None:
        """On the current GPU."""
        # Who keeps the launch doesn't keep the arrays.
        ordinal = runtime.current().ordinal
        self._views = [replace(view, owner=None, device_id=ordinal) for view in views]
        self._copied, self._extents = copied, extents
        self._placed = list(self._views)
        for number in copied.numbers:
            strides = arrays.contiguous_strides(_memory(views[number])[0])
            self._placed[number] = replace(self._views[number], address=0, strides=strides)
        self._plan = kernel.plan(self._placed)
        self.action = self._plan.action
        self._context = context(None)
        key = ordinal, copied.numbers
        pool = _pools.setdefault(kernel, {}).setdefault(key, Pool())
        self._memory = PerStream(pool, [_size(views[number]) for number in copied.numbers])

    def queue_apart(self, stream: int, *addresses: int) -> int:
        """`launch`, but `OVERLAP` where that is what the arrays may do."""
        if self._extents.overlap(addresses):
            return OVERLAP
        self.launch(stream, *addresses)
        return 0

    def launch(self, stream: int, *addresses: int) -> None:
        """Queue all of it on a stream of its GPU, whatever GPU is the current one."""
        with entered(self._context):
            _, memory = self._memory.of(stream)
            placed = list(addresses)
            for number, address in zip(self._copied.numbers, memory, strict=True):
                placed[number] = address
            for i in self._copied.before:
                self._copy(self._copied.numbers[i], self._views, addresses, self._placed, placed, stream)
            self._plan.launch(stream, *placed)
            for i in self._copied.behind:
                self._copy(self._copied.numbers[i], self._placed, placed, self._views, addresses, stream)

    def settle(self, status: int, stream: int, *addresses: int) -> None:
        raise AssertionError(status)

    @staticmethod
    def _copy(
        number: int,
        sources: Sequence[ArrayView],
        source_addresses: Sequence[int],
        targets: Sequence[ArrayView],
        target_addresses: Sequence[int],
        stream: int,
    ) -> None:
        source = replace(sources[number], address=source_addresses[number])
        target = replace(targets[number], address=target_addresses[number])
        for copy in copies(source, target):
            call("copying rows to where they are aligned, or back", api().cuMemcpy2DAsync, copy, stream)


def copies(source: ArrayView, target: ArrayView) -> list[Any]:
    """The driver's copies between two arrays of one shape: each of rows at equal distances."""
    size = arrays.numpy_dtype(source.dtype).itemsize
    outer, (count, *apart) = _rows(source, target)
    driver = api()
    made = []
    for number in range(outer[0]):
        copy = driver.CUDA_MEMCPY2D()
        copy.srcMemoryType = copy.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
        copy.srcDevice = source.address + number * outer[1] * size
        copy.dstDevice = target.address + number * outer[2] * size
        copy.WidthInBytes, copy.Height = source.shape[-1] * size, count
        copy.srcPitch, copy.dstPitch = (stride * size for stride in apart)
        made.append(copy)
    return made


def _rows(source: ArrayView, target: ArrayView) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """How many copies there are and how many rows each has, with their distances in both arrays."""
    width = source.shape[-1]
    every = zip(source.shape[:-1], source.strides, target.strides, strict=False)
    match [each for each in every if each[0] > 1]:
        case []:
            return (1, 0, 0), (1, width, width)
        case [rows]:
            return (1, 0, 0), rows
        case [outer, rows] if outer[1:] == (rows[0] * rows[1], rows[0] * rows[2]):
            return (1, 0, 0), (outer[0] * rows[0], *rows[1:])
        case [outer, rows]:
            return (outer, rows) if outer[0] <= rows[0] else (rows, outer)
    raise AssertionError(source.shape)


def _size(view: ArrayView) -> int:
    """The bytes of memory for a copy of an array: a power of two, so that what is kept for sizes that grow
    is no more than twice the largest.
    """
    shape, dtype = _memory(view)
    return 1 << (int(np.prod(shape)) * dtype.itemsize - 1).bit_length()


def _memory(view: ArrayView) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape of memory for a copy of an array, whose rows it pads, and its type."""
    dtype = arrays.numpy_dtype(view.dtype)
    unit = ROW_BYTES // dtype.itemsize
    return (*view.shape[:-1], ceil_div(view.shape[-1], unit) * unit), dtype


def _check(name: str, view: ArrayView, wanted: int) -> None:
    """Raises WeftError for rows that the driver copies none of."""
    size = arrays.numpy_dtype(view.dtype).itemsize
    _, (_, apart, _) = _rows(view, view)
    if apart < view.shape[-1]:
        columns, strides = _memory(view)[0][-1], ", ".join(str(stride * size) for stride in view.strides)
        raise WeftError(
            f"weft.matmul: rows of {name} must begin at multiples of {wanted} bytes, as in the first "
            f"{view.shape[-1]} columns of an array with {columns}, got rows that overlap, with strides of "
            f"{strides} bytes"
        )
