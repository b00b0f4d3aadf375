"""The launches of a product: one, or one for each part of its leading dimensions; of zeros for an empty K;
and after copies of rows that aren't aligned as the kernel needs, or that it must have transposed.

On a GPU, one more kernel (`kernels.copies`) makes all copies. It is queued on the caller's stream before the
kernel itself, so that a graph captures both.
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

from weft.dialects.element_types import BYTE_TYPES, PTX_PACKED
from weft.dialects.product_types import ceil_div
from weft.isa.tensor_map import ROW_BYTES
from weft.launch import arrays, cuda_driver
from weft.launch.arrays import ArrayView, Planned
from weft.launch.cuda_driver import entered
from weft.launch.kernel import Kernel
from weft.launch.launcher import OVERLAP, Extents
from weft.launch.plans import ALIGNMENT
from weft.launch.runtime import Prepared
from weft.launch.workspace import PerStream, Pool
from weft.multiply import product_kernel
from weft.multiply.operands import Operands
from weft.multiply.product import kind_of

ELEMENTS = (1, 4)
"""The sizes in bytes of elements that are transposed."""
_LINE = 128  # bytes that L2 reads at once
_MOST_UNIT = 4  # bytes
_MOST_NUMBERED = 2**31 - 1024  # vectors that i32 can number, with those beyond the last of a CTA
_ZEROS_K = 32
_ROLES_WITHOUT_K = ("out", "c", "bias", "residual", "groups", "row_ends", "k_ends", "extra")
_OWN_ZEROS = ("f64", "f32", "bf16", *BYTE_TYPES)

# By GPU, and by the arguments that are copied.
_pools: WeakKeyDictionary[Kernel, dict[tuple[int, tuple[int, ...]], Pool]] = WeakKeyDictionary()
zeros: dict[int, Pool] = {}
"""The zeros that launches read, by GPU."""


class Launches(ABC):
    """Several launches, with the methods of `runtime.Prepared`."""

    def __init__(self, one: Any, extents: Extents) -> None:
        """`one` is one of the launches."""
        self._extents = extents
        self.action, self.context = one.action, one.context

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


class WithCopies(Launches):
    """A launch after that of copies."""

    def __init__(
        self,
        launch: Prepared,
        copies: Sequence[Prepared],
        numbers: Sequence[int],
        memory: PerStream,
        extents: Extents,
    ) -> None:
        """`launch` reads copies of the arrays with these numbers, which have memory on each stream. Each of
        `copies` makes two of them.
        """
        super().__init__(launch, extents)
        self._launch, self._copies, self._numbers, self._memory = launch, copies, tuple(numbers), memory

    def launch(self, stream: int, *addresses: int) -> None:
        with entered(self.context):
            _, memory = self._memory.of(stream)
        aligned, pairs = list(addresses), list[int]()
        for number, address in zip(self._numbers, memory, strict=True):
            pairs += [addresses[number], address]
            aligned[number] = address
        if len(pairs) % 4:
            pairs += pairs[-2:]
        for number, copies in enumerate(self._copies):
            copies.launch(stream, *pairs[4 * number : 4 * number + 4])
        self._launch.launch(stream, *aligned)


class InTurn(Launches):
    """Launches for parts of the arrays, one after the other."""

    def __init__(self, parts: Sequence[tuple[Any, tuple[int, ...]]], extents: Extents) -> None:
        """`parts` are the launches, each with the bytes from each array to its part."""
        super().__init__(parts[0][0], extents)
        self._parts = tuple(parts)

    def launch(self, stream: int, *addresses: int) -> None:
        for launch, offsets in self._parts:
            launch.launch(stream, *map(int.__add__, addresses, offsets))


class OfZeros:
    """A launch whose A and B are zeros, with the methods of `runtime.Prepared`."""

    def __init__(self, launch: Any, zeros: PerStream, given: Sequence[int]) -> None:
        """Its other arrays are those of the caller with the numbers `given`."""
        self._launch, self._zeros, self._given = launch, zeros, tuple(given)
        self.action, self.context = launch.action, launch.context

    def queue_apart(self, stream: int, *addresses: int) -> int:
        """As `launch`, but returns a status of `runtime.Prepared.queue_apart`."""
        status: int = self._launch.queue_apart(stream, *self._with_zeros(stream, addresses))
        return status

    def launch(self, stream: int, *addresses: int) -> None:
        """Queues the launch on a stream of its GPU."""
        self._launch.launch(stream, *self._with_zeros(stream, addresses))

    def settle(self, status: int, stream: int, *addresses: int) -> None:
        self._launch.settle(status, stream, *self._with_zeros(stream, addresses))

    def _with_zeros(self, stream: int, addresses: Sequence[int]) -> list[int]:
        with entered(self.context):
            _, zeros = self._zeros.of(stream)
        return [*zeros, *(addresses[number] for number in self._given)]


class Nothing:
    """No launch, of a result without elements, with the methods of `runtime.Prepared`."""

    @property
    def action(self) -> str:
        """The launch before, which may cause an error of the driver."""
        return cuda_driver.launched

    def queue_apart(self, stream: int, *addresses: int) -> int:
        return 0

    def launch(self, stream: int, *addresses: int) -> None:
        pass

    def settle(self, status: int, stream: int, *addresses: int) -> None:
        raise AssertionError(status)


Launch = Prepared | WithCopies | InTurn | OfZeros | Nothing


@dataclass(frozen=True)
class Rows:
    """The rows of a matrix or batch to copy. `source` has its bytes, members x rows x bytes. `copy` is the
    array that the kernel reads instead, and `pitch` the distance of its rows in bytes. Neither has an owner.
    With a `size`, the copy is of the transposed matrix, which has elements of so many bytes.
    """

    source: ArrayView
    copy: ArrayView
    pitch: int
    size: int = 0

    @classmethod
    def of(cls, view: ArrayView) -> "Rows":
        """Those of an array with at most two dimensions before the last that have several elements."""
        row_bytes = 2 * ROW_BYTES if view.packed else ROW_BYTES  # TMA may give packed elements a byte each
        plain = view.in_bytes
        outer = [(n, s) for n, s in zip(plain.shape[:-1], plain.strides, strict=False) if n > 1]
        assert len(outer) <= 2, plain.shape
        outer = [(1, 0)] * (2 - len(outer)) + outer
        source = _in_bytes(plain, [n for n, _ in outer], [s for _, s in outer])
        pitch = _pitch(source.shape[-1], row_bytes)
        copy = _padded(plain, plain.shape, pitch)
        return cls(source, copy.unpacked_from(view.dtype) if view.packed else copy, pitch)

    @classmethod
    def transposing(cls, view: ArrayView) -> "Rows":
        """Those of an array of two or three dimensions, with elements of a size in `ELEMENTS`."""
        size, (*members, rows, columns) = view.bits // 8, view.shape
        assert size in ELEMENTS, view.dtype
        source = _in_bytes(view, [1, *members, rows][-2:], [0, *view.strides[:-1]][-2:])
        pitch = _pitch(rows * size, ROW_BYTES)
        return cls(source, _padded(view, (*members, columns, rows), pitch), pitch, size)

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


def _in_bytes(view: ArrayView, shape: list[int], strides: list[int]) -> ArrayView:
    """The bytes of an array with contiguous rows, and these sizes and strides of others dimensions."""
    size = view.bits // 8
    sizes = (*shape, view.shape[-1] * size)
    steps = (*(each * size for each in strides), 1)
    return replace(view, owner=None, dtype="ui8", shape=sizes, strides=steps, readonly=False)


def _padded(view: ArrayView, shape: tuple[int, ...], pitch: int) -> ArrayView:
    """A copy of an array, without an address."""
    strides = arrays.contiguous_strides((*shape[:-1], pitch // (view.bits // 8)))
    return replace(view, address=0, owner=None, shape=shape, strides=strides, readonly=False)


def _pitch(width: int, row_bytes: int) -> int:
    """The bytes from row to row of a copy whose rows begin at multiples of `row_bytes`."""
    # Long rows begin at lines of L2, so that TMA reads no line twice.
    unit = row_bytes if width < 4 * _LINE else _LINE
    return ceil_div(width, unit) * unit


def run(operands: Operands) -> None:
    """Multiplies arrays of the CPU, in the emulator or on the current GPU. Raises WeftError where no kernel
    multiplies them, and for groups with illegal values.
    """
    if operands.is_empty:
        return
    if operands.sizes.k == 0:
        operands = _of_zeros(operands)
    for part in map(operands.of_turn, operands.turns):
        kernel, copies = kernel_of(part)
        part.check_groups()
        run_with_copies(kernel, part.views, copies, on="emulator" if operands.product.arch else None)


def plan(operands: Operands) -> Launch:
    """The launch for arrays like these, on their GPU. Raises WeftError where no kernel multiplies them."""
    if operands.is_empty:
        return Nothing()
    if operands.sizes.k == 0:
        return _plan_of_zeros(operands)
    known: dict[tuple[int, ...], Prepared | WithCopies] = {}
    parts = []
    for offsets in operands.turns:
        alignment = tuple(offset % ALIGNMENT for offset in offsets)
        if alignment not in known:
            part = operands.of_turn(offsets)
            known[alignment] = plan_with_copies(*kernel_of(part), part)
        parts.append((known[alignment], offsets))
    return parts[0][0] if len(parts) == 1 else InTurn(parts, operands.extents)


def kernel_of(operands: Operands) -> tuple[Kernel, dict[int, Rows]]:
    """The kernel of one launch, and the rows that it reads copies of, by the numbers of their arguments.
    Raises WeftError where no kernel multiplies the arrays.
    """
    kernel, transposed = product_kernel.with_copies(operands)
    return kernel, copied(kernel, operands.views, transposed)


def copied(kernel: Kernel, views: Sequence[ArrayView], transposed: Collection[int] = ()) -> dict[int, Rows]:
    """The rows to copy, by the numbers of their arguments: of those that are `transposed`, and of those that
    aren't aligned as the kernel needs. It reads all of them.
    """
    wanted = enumerate(zip(views, kernel.launch.aligned, strict=False))
    return {
        number: Rows.transposing(view) if number in transposed else Rows.of(view)
        for number, (view, bytes_) in wanted
        if number in transposed or view.row_alignment % bytes_
    }


def run_with_copies(
    kernel: Kernel, views: Sequence[ArrayView], copies: Mapping[int, Rows], on: str | None = None
) -> None:
    """Calls the kernel with arrays of the CPU and copies of some, `on` as a kernel's call has it."""
    aligned = list(views)
    for number, rows in copies.items():
        memory, source = np.zeros(rows.nbytes, np.uint8), views[number].in_bytes.numpy()
        aligned[number] = replace(rows.copy, address=memory.ctypes.data, owner=memory)
        aligned[number].in_bytes.numpy()[...] = source.swapaxes(-1, -2) if rows.size else source
    kernel(*aligned, on=on)


def plan_with_copies(kernel: Kernel, copies: Mapping[int, Rows], operands: Operands) -> Prepared | WithCopies:
    """A launch with arrays like these operands of one GPU, some of which are copied."""
    views, ordinal, numbers = list(operands.views), operands.ordinal, tuple(copies)
    assert ordinal is not None
    for number, of in copies.items():
        views[number] = replace(of.copy, device_id=ordinal)
    rows = [replace(of, source=replace(of.source, device_id=ordinal)) for of in copies.values()]
    made = _plan_copies(kernel, rows)
    launch = kernel.plan(views, None if copies else operands.extents)
    if not copies:
        return launch
    pool = _pools.setdefault(kernel, {}).setdefault((ordinal, numbers), Pool())
    # Powers of two: all that is kept for growing sizes is at most twice the largest.
    memory = PerStream(pool, [1 << (of.nbytes - 1).bit_length() for of in rows])
    return WithCopies(launch, made, numbers, memory, operands.extents)


def _plan_copies(kernel: Kernel, rows: Sequence[Rows]) -> list[Prepared]:
    """The launches that copy rows for a kernel, each of one matrix or two, whose addresses are those of each
    source and its copy in turn. One alone is there twice.
    """
    if not rows:
        return []
    from weft.multiply.kernels.copies import copy_rows

    made = []
    with _compiling(kernel):
        for first in range(0, len(rows), 2):
            arguments, meta = copy_arguments(rows[first : first + 2])
            made.append(copy_rows.compile(*arguments, arch=kernel.chip, **meta).plan(arguments))
    return made


@contextmanager
def _compiling(kernel: Kernel) -> Iterator[None]:
    """Compiles a kernel during the block, in a thread that mostly waits for LLVM and ptxas. The use of the
    kernel raises an error, after compiling it again.
    """
    with ThreadPoolExecutor(1) as pool:
        pool.submit(getattr, kernel, "cubin")
        yield


def copy_arguments(rows: Sequence[Rows]) -> tuple[list[ArrayView], dict[str, Any]]:
    """The arguments and the meta-parameters of the kernel that copies these rows."""
    elements = tuple(of.size or gcd(_MOST_UNIT, of.source.row_alignment, of.source.shape[-1]) for of in rows)
    meta = {
        "elements": elements,
        "transposed": tuple(of.size > 0 for of in rows),
        "batched": any(of.source.shape[0] > 1 for of in rows),
        "wide": any(of.vectors > _MOST_NUMBERED for of in rows),
    }
    pairs = (rows[0], elements[0]), (rows[-1], elements[-1])
    return [_in_elements(view, size) for of, size in pairs for view in (of.source, of.target)], meta


def _in_elements(view: ArrayView, size: int) -> ArrayView:
    """The view of bytes in integers of so many of them."""
    *outer, last = view.shape
    strides = (*(stride // size for stride in view.strides[:-1]), 1)
    return replace(view, dtype=f"ui{8 * size}", shape=(*outer, last // size), strides=strides)


def _plan_of_zeros(operands: Operands) -> OfZeros:
    ordinal = operands.ordinal
    assert ordinal is not None
    kept = [number for number, name in enumerate(operands.names) if kind_of(name) in _ROLES_WITHOUT_K]
    with_k = _of_zeros(operands)
    sizes = [1 << (prod(view.shape) * view.bits // 8 - 1).bit_length() for view in with_k.whole[:2]]
    pool = zeros.setdefault(ordinal, Pool())
    return OfZeros(plan(with_k), PerStream(pool, sizes), kept)


def _of_zeros(operands: Operands) -> Operands:
    """The operands of a product of zeros with the same result, alpha * 0 + beta * C and the epilogue. A (...,
    M, K) has all leading dimensions, so that they may become rows; B is (..., N, K).
    """
    a, b, out, *_ = operands.whole
    m, n = out.shape[-2:]
    leading_a = a.shape[:-2] if operands.sizes.grouped else out.shape[:-2]
    shapes = (*leading_a, m, _ZEROS_K), (*b.shape[:-2], n, _ZEROS_K)
    named = zip(operands.names, operands.whole, strict=True)
    added = {name: view for name, view in named if kind_of(name) in _ROLES_WITHOUT_K}
    d = added.pop("out")
    product = replace(
        operands.product,
        roles=tuple(added),
        transpose_a=False,
        transpose_b=True,
        promote=False,
        schedule=None,
        kind=None,
        scale_block=None,
        accumulate=None,
        bit_op=None,
    )
    of_a, of_b = (_zeros(number, shape, operands) for number, shape in enumerate(shapes))
    return Operands.of(of_a, of_b, d, added, product)


def _zeros(number: int, shape: tuple[int, ...], operands: Operands) -> ArrayView:
    """Zeros where the operands are, of a type that makes sums of their own type: on a GPU without memory."""
    element = operands.types.a
    if element not in _OWN_ZEROS:
        element = "i8" if element in PTX_PACKED else "f16"
    view = Planned.of(number, shape, element, operands.ordinal or 0)
    if operands.ordinal is not None:
        return view
    memory = np.zeros(prod(shape) * view.bits // 8, np.uint8)
    return ArrayView(memory.ctypes.data, shape, view.strides, element, "cpu", 0, True, memory)
