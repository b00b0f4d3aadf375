"""Calls of a kernel with arrays whose rows aren't aligned as it needs: it gets copies with rows at multiples
of 16 bytes.

On a GPU, these copies are queued on the caller's stream, before and after the kernel, so that a graph
captures them.
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
    """The arguments of a kernel that are copied."""

    names: tuple[str, ...]  # of all arguments, in messages
    out: int  # the number of the argument that is written
    keeps_out: bool  # whether the kernel reads it, or doesn't write all of it
    numbers: tuple[int, ...]  # of the arguments that are copied

    @classmethod
    def of(
        cls, kernel: Kernel, names: Sequence[str], views: Sequence[ArrayView], keeps_out: bool
    ) -> "Copied":
        """The arguments whose rows aren't aligned as the kernel needs."""
        wanted = enumerate(zip(views, kernel.launch.aligned, strict=False))
        numbers = tuple(number for number, (view, bytes_) in wanted if aligned_to(view) % bytes_)
        return cls(tuple(names), names.index("out"), keeps_out, numbers)

    @property
    def before(self) -> list[int]:
        """The indices in `numbers` of arguments that are copied before the kernel runs."""
        return [i for i, number in enumerate(self.numbers) if number != self.out or self.keeps_out]

    @property
    def after(self) -> list[int]:
        """The indices in `numbers` of arguments that are copied back."""
        return [i for i, number in enumerate(self.numbers) if number == self.out]


def run(kernel: Kernel, views: Sequence[ArrayView], copied: Copied, on: str | None = None) -> None:
    """Calls the kernel with arrays of the CPU, `on` as a kernel's call has it."""
    memories = [np.zeros(*_memory(views[number])) for number in copied.numbers]
    parts = [m[..., : views[n].in_bytes.shape[-1]] for n, m in zip(copied.numbers, memories, strict=True)]
    aligned = list(views)
    for number, part in zip(copied.numbers, parts, strict=True):
        view = arrays.view(part)
        aligned[number] = view.unpacked_from(views[number].dtype) if views[number].packed else view
    for i in copied.before:
        parts[i][...] = views[copied.numbers[i]].numpy()
    kernel(*aligned, on=on)
    for i in copied.after:
        views[copied.numbers[i]].numpy()[...] = parts[i]


def plan(
    kernel: Kernel, views: Sequence[ArrayView], copied: Copied, extents: Extents
) -> "Prepared | PaddedLaunch":
    """A launch with arrays like these of one GPU, as `Kernel.plan` returns it. Raises WeftError for
    overlapping rows, which the driver can't copy.
    """
    if not copied.numbers:
        return kernel.plan(views, extents)
    for number in copied.numbers:
        _check(copied.names[number], views[number], kernel.launch.aligned[number])
    with runtime.on(runtime.holder(views)):
        return PaddedLaunch(kernel, views, copied, extents)


class PaddedLaunch:
    """A launch between copies, with the methods of `runtime.Prepared`."""

    def __init__(self, kernel: Kernel, views: Sequence[ArrayView], copied: Copied, extents: Extents) -> None:
        """On the current GPU."""
        # The launch doesn't keep the arrays alive.
        ordinal = runtime.current().ordinal
        self._views = [replace(view, owner=None, device_id=ordinal) for view in views]
        self._copied, self._extents = copied, extents
        self._aligned = list(self._views)
        for number in copied.numbers:
            strides = arrays.contiguous_strides(_memory(views[number])[0])
            copy = replace(self._views[number].in_bytes, address=0, strides=strides)
            self._aligned[number] = copy.unpacked_from(views[number].dtype) if views[number].packed else copy
        self._plan = kernel.plan(self._aligned)
        self.action = self._plan.action
        self._context = context(None)
        key = ordinal, copied.numbers
        pool = _pools.setdefault(kernel, {}).setdefault(key, Pool())
        self._memory = PerStream(pool, [_size(views[number]) for number in copied.numbers])

    def queue_apart(self, stream: int, *addresses: int) -> int:
        """As `launch`, but returns `OVERLAP` and does nothing if the arrays may overlap."""
        if self._extents.overlap(addresses):
            return OVERLAP
        self.launch(stream, *addresses)
        return 0

    def launch(self, stream: int, *addresses: int) -> None:
        """Queues the copies and the launch on a stream of its GPU, which needn't be the current one."""
        with entered(self._context):
            _, memory = self._memory.of(stream)
            aligned = list(addresses)
            for number, address in zip(self._copied.numbers, memory, strict=True):
                aligned[number] = address
            for i in self._copied.before:
                self._copy(self._copied.numbers[i], self._views, addresses, self._aligned, aligned, stream)
            self._plan.launch(stream, *aligned)
            for i in self._copied.after:
                self._copy(self._copied.numbers[i], self._aligned, aligned, self._views, addresses, stream)

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
            call("copying rows to aligned memory, or back", api().cuMemcpy2DAsync, copy, stream)


def copies(source: ArrayView, target: ArrayView) -> list[Any]:
    """The driver's copies between two arrays of one shape. Each copies rows with one stride."""
    source, target = source.in_bytes, target.in_bytes
    size = arrays.numpy_dtype(source.dtype).itemsize
    outer, (count, *apart) = _rows(source, target)
    driver = api()
    every = []
    for number in range(outer[0]):
        copy = driver.CUDA_MEMCPY2D()
        copy.srcMemoryType = copy.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
        copy.srcDevice = source.address + number * outer[1] * size
        copy.dstDevice = target.address + number * outer[2] * size
        copy.WidthInBytes, copy.Height = source.shape[-1] * size, count
        copy.srcPitch, copy.dstPitch = (stride * size for stride in apart)
        every.append(copy)
    return every


def _rows(source: ArrayView, target: ArrayView) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """The number of copies and the number of rows in each, with their strides in both arrays."""
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
    """The bytes of memory for a copy of an array: a power of two, so that all that is kept for growing sizes
    is at most twice the largest.
    """
    shape, dtype = _memory(view)
    return 1 << (int(np.prod(shape)) * dtype.itemsize - 1).bit_length()


def _memory(view: ArrayView) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and the type of memory for a copy of an array, with padded rows; of bytes if it is packed."""
    # TMA reads rows of packed elements at multiples of twice as many bytes where it gives each a byte.
    row_bytes, view = 2 * ROW_BYTES if view.packed else ROW_BYTES, view.in_bytes
    dtype = arrays.numpy_dtype(view.dtype)
    unit = row_bytes // dtype.itemsize
    return (*view.shape[:-1], ceil_div(view.shape[-1], unit) * unit), dtype


def _check(name: str, view: ArrayView, wanted: int) -> None:
    """Raises WeftError for rows that the driver can't copy."""
    view = view.in_bytes
    size = arrays.numpy_dtype(view.dtype).itemsize
    _, (_, apart, _) = _rows(view, view)
    if apart < view.shape[-1]:
        columns, strides = _memory(view)[0][-1], ", ".join(str(stride * size) for stride in view.strides)
        raise WeftError(
            f"weft.matmul: rows of {name} must begin at multiples of {wanted} bytes, as in the first "
            f"{view.shape[-1]} columns of an array with {columns}, got rows that overlap, with strides of "
            f"{strides} bytes"
        )
