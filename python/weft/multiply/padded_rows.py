"""Calls of a kernel with arrays whose rows aren't aligned as it needs, or that it must have transposed: it
reads copies with padded rows, which TMA takes. `kernels.copies` has the kernel that makes them.

On a GPU, it copies all of them, and is queued on the caller's stream before the kernel itself, so
that a graph captures both.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from weft.dialects.product_types import ceil_div
from weft.isa.tensor_map import ROW_BYTES
from weft.launch import arrays, runtime
from weft.launch.arrays import ArrayView
from weft.launch.cuda_driver import context, entered
from weft.launch.kernel import Kernel
from weft.launch.kernel_arguments import aligned_to
from weft.launch.launcher import OVERLAP, Extents
from weft.launch.runtime import Prepared
from weft.launch.workspace import PerStream, Pool

ELEMENTS = (1, 4)
"""The sizes in bytes of elements that are transposed."""
_LINE = 128  # bytes that L2 reads at once
_MOST_UNIT = 4  # bytes
_MOST_NUMBERED = 2**31 - 1024  # vectors that i32 can number, with those beyond the last of a CTA

# By GPU, and by the arguments that are copied.
_pools: WeakKeyDictionary[Kernel, dict[tuple[int, tuple[int, ...]], Pool]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Rows:
    """The rows of a matrix or batch to copy. `source` has its bytes, members x rows x bytes, without an
    owner. `pitch` is the distance of rows of the copy. With a `size`, the copy is of the transposed matrix,
    which has elements of so many bytes.
    """

    source: ArrayView
    pitch: int
    size: int = 0

    @classmethod
    def of(cls, view: ArrayView) -> "Rows":
        """Those of an array with at most two dimensions before the last that have several elements."""
        row_bytes = 2 * ROW_BYTES if view.packed else ROW_BYTES  # TMA may give packed elements a byte each
        view = view.in_bytes
        outer = [(n, s) for n, s in zip(view.shape[:-1], view.strides, strict=False) if n > 1]
        assert len(outer) <= 2, view.shape
        outer = [(1, 0)] * (2 - len(outer)) + outer
        source = _in_bytes(view, [n for n, _ in outer], [s for _, s in outer])
        return cls(source, _pitch(source.shape[-1], row_bytes))

    @classmethod
    def transposing(cls, view: ArrayView) -> "Rows":
        """Those of an array of two or three dimensions, with elements of a size in `ELEMENTS`."""
        size = arrays.numpy_dtype(view.dtype).itemsize
        assert size in ELEMENTS, view.dtype
        source = _in_bytes(view, [1, *view.shape[:-1]][-2:], [0, *view.strides[:-1]][-2:])
        return cls(source, _pitch(source.shape[1] * size, ROW_BYTES), size)

    @property
    def target(self) -> ArrayView:
        """The bytes of the copy, members x rows x `pitch`, without an address."""
        members, count, width = self.source.shape
        shape = members, width // self.size if self.size else count, self.pitch
        return replace(self.source, address=0, shape=shape, strides=arrays.contiguous_strides(shape))

    @property
    def nbytes(self) -> int:
        """The size of the copy."""
        return prod(self.target.shape)

    @property
    def vectors(self) -> int:
        """The vectors of 16 bytes of the rows."""
        members, count, width = self.source.shape
        return members * count * ceil_div(width, ROW_BYTES)

    def padded(self, view: ArrayView, address: int) -> ArrayView:
        """The copy of an array at an address."""
        plain = view.in_bytes
        shape = (*view.shape[:-2], *view.shape[:-3:-1]) if self.size else plain.shape
        pitch = self.pitch // arrays.numpy_dtype(plain.dtype).itemsize
        strides = arrays.contiguous_strides((*shape[:-1], pitch))
        copy = replace(plain, address=address, shape=shape, strides=strides)
        return copy.unpacked_from(view.dtype) if view.packed else copy


def _in_bytes(view: ArrayView, shape: list[int], strides: list[int]) -> ArrayView:
    """The bytes of an array with contiguous rows, and these sizes and strides of others dimensions."""
    size = arrays.numpy_dtype(view.dtype).itemsize
    return replace(
        view,
        owner=None,
        dtype="ui8",
        shape=(*shape, view.shape[-1] * size),
        strides=(*(each * size for each in strides), 1),
        readonly=False,
    )


def _pitch(width: int, row_bytes: int) -> int:
    """The bytes from row to row of a copy whose rows begin at multiples of `row_bytes`."""
    # Long rows begin at lines of L2, so that TMA reads no line twice.
    unit = row_bytes if width < 4 * _LINE else _LINE
    return ceil_div(width, unit) * unit


def copied(kernel: Kernel, views: Sequence[ArrayView], transposed: Collection[int] = ()) -> dict[int, Rows]:
    """The rows to copy, by the numbers of their arguments: of those that are `transposed`, and of those that
    aren't aligned as the kernel needs. It reads all of them.
    """
    wanted = enumerate(zip(views, kernel.launch.aligned, strict=False))
    return {
        number: Rows.transposing(view) if number in transposed else Rows.of(view)
        for number, (view, bytes_) in wanted
        if number in transposed or aligned_to(view) % bytes_
    }


def run(
    kernel: Kernel, views: Sequence[ArrayView], copies: Mapping[int, Rows], on: str | None = None
) -> None:
    """Calls the kernel with arrays of the CPU and copies of some, `on` as a kernel's call has it."""
    aligned = list(views)
    for number, rows in copies.items():
        memory, source = np.zeros(rows.nbytes, np.uint8), views[number].in_bytes.numpy()
        aligned[number] = replace(
            rows.padded(views[number], memory.ctypes.data), owner=memory, readonly=False
        )
        aligned[number].in_bytes.numpy()[...] = source.swapaxes(-1, -2) if rows.size else source
    kernel(*aligned, on=on)


def plan(
    kernel: Kernel, views: Sequence[ArrayView], copies: Mapping[int, Rows], extents: Extents
) -> "Prepared | PaddedLaunch":
    """A launch with arrays like these of one GPU, some of which are copied, as `Kernel.plan` returns it."""
    if not copies:
        return kernel.plan(views, extents)
    with runtime.on(runtime.holder(views)):
        return PaddedLaunch(kernel, views, copies, extents)


class Launches(ABC):
    """Several launches, with the methods of `runtime.Prepared`."""

    action: str

    def __init__(self, extents: Extents) -> None:
        self._extents = extents

    def queue_apart(self, stream: int, *addresses: int) -> int:
        """As `launch`, but returns `OVERLAP` and does nothing if the arrays may overlap."""
        if self._extents.overlap(addresses):
            return OVERLAP
        self.launch(stream, *addresses)
        return 0

    @abstractmethod
    def launch(self, stream: int, *addresses: int) -> None:
        """Queues them on a stream of their GPU, which needn't be the current one."""

    def settle(self, status: int, stream: int, *addresses: int) -> None:
        raise AssertionError(status)


class PaddedLaunch(Launches):
    """A launch after that of copies."""

    def __init__(
        self, kernel: Kernel, views: Sequence[ArrayView], copies: Mapping[int, Rows], extents: Extents
    ) -> None:
        """On the current GPU."""
        # The launch doesn't keep the arrays alive.
        ordinal = runtime.current().ordinal
        views = [replace(view, owner=None, device_id=ordinal) for view in views]
        super().__init__(extents)
        self._numbers = tuple(copies)
        rows = [replace(of, source=replace(of.source, device_id=ordinal)) for of in copies.values()]
        aligned = list(views)
        for number, of in copies.items():
            aligned[number] = of.padded(views[number], 0)
        with _compiling(kernel):
            self._copies = [_plan_copies(kernel.chip, rows[i : i + 2]) for i in range(0, len(rows), 2)]
        self._plan = kernel.plan(aligned)
        self.action = self._plan.action
        self._context = context(None)
        pool = _pools.setdefault(kernel, {}).setdefault((ordinal, self._numbers), Pool())
        # Powers of two: all that is kept for growing sizes is at most twice the largest.
        self._memory = PerStream(pool, [1 << (of.nbytes - 1).bit_length() for of in rows])

    def launch(self, stream: int, *addresses: int) -> None:
        """Queues the copies and the launch on a stream of its GPU, which needn't be the current one."""
        with entered(self._context):
            _, memory = self._memory.of(stream)
        aligned, pairs = list(addresses), list[int]()
        for number, address in zip(self._numbers, memory, strict=True):
            pairs += [addresses[number], address]
            aligned[number] = address
        if len(pairs) % 4:
            pairs += pairs[-2:]
        for number, copies in enumerate(self._copies):
            copies.launch(stream, *pairs[4 * number : 4 * number + 4])
        self._plan.launch(stream, *aligned)


@contextmanager
def _compiling(kernel: Kernel) -> Iterator[None]:
    """Compiles a kernel during the block, in a thread that mostly waits for LLVM and ptxas. The use of the
    kernel raises an error, after compiling it again.
    """
    with ThreadPoolExecutor(1) as pool:
        pool.submit(getattr, kernel, "cubin")
        yield


def _plan_copies(chip: str, rows: Sequence[Rows]) -> Prepared:
    """The launch that copies one matrix or two, whose addresses are those of each source and its copy in
    turn. One alone is there twice.
    """
    from weft.multiply.kernels.copies import copy_rows

    arguments, meta = copy_arguments(rows)
    return copy_rows.compile(*arguments, arch=chip, **meta).plan(arguments)


def copy_arguments(rows: Sequence[Rows]) -> tuple[list[ArrayView], dict[str, Any]]:
    """The arguments and the meta-parameters of the kernel that copies these rows."""
    kept = [of.source.shape[-1] for of in rows if not of.size]
    unit = gcd(_MOST_UNIT if kept else ROW_BYTES, *(aligned_to(of.source) for of in rows), *kept)
    meta = {
        "sizes": tuple(of.size for of in rows),
        "unit": unit,
        "batched": any(of.source.shape[0] > 1 for of in rows),
        "wide": any(of.vectors > _MOST_NUMBERED for of in rows),
    }
    return [view for of in (rows[0], rows[-1]) for view in (of.source, of.target)], meta
