"""The launches of a product: one, one for each part of its leading dimensions, or of zeros for an empty K."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from weft.dialects.element_types import BYTE_TYPES, PTX_PACKED
from weft.isa.tensor_map import ROW_BYTES
from weft.launch import arrays, cuda_driver, runtime
from weft.launch.arrays import ArrayView, Planned
from weft.launch.cuda_driver import context, entered
from weft.launch.kernel import Kernel
from weft.launch.launcher import Extents
from weft.launch.runtime import Prepared
from weft.launch.workspace import PerStream, Pool
from weft.multiply import padded_rows, product_kernel
from weft.multiply.operands import Operands
from weft.multiply.padded_rows import Launches, PaddedLaunch, Rows

_ALIGNED = 2 * ROW_BYTES  # bytes; no kernel needs more
_ZEROS_K = 32
_FAR = 1 << 62  # bytes; no array has such an address
_ROLES_WITHOUT_K = ("c", "bias", "residual", "groups", "row_ends", "k_ends")
_OWN_ZEROS = ("f64", "f32", "bf16", *BYTE_TYPES)


class InTurn(Launches):
    """Launches for parts of the arrays, one after the other."""

    def __init__(self, parts: Sequence[tuple[Any, tuple[int, ...]]], extents: Extents) -> None:
        """`parts` are the launches, each with the bytes from each array to its part."""
        super().__init__(extents)
        self._parts = tuple(parts)
        self.action = parts[0][0].action

    def launch(self, stream: int, *addresses: int) -> None:
        for launch, offsets in self._parts:
            launch.launch(stream, *map(int.__add__, addresses, offsets))


class OfZeros:
    """A launch whose A and B are zeros, with the methods of `runtime.Prepared`."""

    def __init__(self, launch: Any, zeros: PerStream, given: Sequence[int]) -> None:
        """On the current GPU. Its other arrays are those of the caller with the numbers `given`."""
        self._launch, self._zeros, self._given = launch, zeros, tuple(given)
        self.action, self._context = launch.action, context(None)

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
        with entered(self._context):
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


Launch = Prepared | PaddedLaunch | InTurn | OfZeros | Nothing


def plan(operands: Operands) -> Launch:
    """The launch for arrays like these operands, on their GPU. Raises WeftError where no kernel multiplies
    them.
    """
    if operands.is_empty:
        return Nothing()
    if operands.sizes.k == 0:
        return _of_zeros(operands)
    known: dict[tuple[int, ...], Prepared | PaddedLaunch] = {}
    parts = []
    for offsets in operands.turns:
        alignment = tuple(offset % _ALIGNED for offset in offsets)
        if alignment not in known:
            part = operands.of_turn(offsets)
            kernel, copied = _kernel(part)
            known[alignment] = padded_rows.plan(kernel, part.views, copied, operands.extents)
        parts.append((known[alignment], offsets))
    return parts[0][0] if len(parts) == 1 else InTurn(parts, operands.extents)


def run(operands: Operands) -> None:
    """Multiplies arrays of the CPU, in the emulator or on the current GPU. Raises WeftError where no kernel
    multiplies them, and for groups with illegal values.
    """
    if operands.is_empty:
        return None
    if operands.sizes.k == 0:
        shapes = _shapes_of_zeros(operands)
        dtype = arrays.numpy_dtype(_element(operands))
        return run(_without_k(operands, *(arrays.view(np.zeros(shape, dtype)) for shape in shapes)))
    for offsets in operands.turns:
        part = operands.of_turn(offsets)
        kernel, copied = _kernel(part)
        part.check_groups()
        padded_rows.run(kernel, part.views, copied, on="emulator" if operands.product.arch else None)
    return None


def _kernel(operands: Operands) -> tuple[Kernel, dict[int, Rows]]:
    """The kernel of a launch, and the rows that it reads copies of."""
    kernel, transposed = product_kernel.with_copies(operands)
    return kernel, padded_rows.copied(kernel, operands.views, transposed)


zeros: dict[int, Pool] = {}
"""The zeros that launches read, by GPU."""


def _of_zeros(operands: Operands) -> OfZeros:
    """The launch of a product whose K is 0."""
    element, ordinal = _element(operands), operands.ordinal
    assert ordinal is not None
    views, sizes = [], []
    for number, shape in enumerate(_shapes_of_zeros(operands), 1):
        strides, address = arrays.contiguous_strides(shape), number * _FAR
        views.append(Planned(address, shape, strides, element, "cuda", ordinal, True, None))
        size = prod(shape) * arrays.numpy_dtype(element).itemsize
        sizes.append(1 << (size - 1).bit_length())
    kept = [number for number, name in enumerate(operands.names) if name in ("out", *_ROLES_WITHOUT_K)]
    with runtime.on(ordinal):
        launch = plan(_without_k(operands, *views))
        return OfZeros(launch, PerStream(zeros.setdefault(ordinal, Pool()), sizes), kept)


def _element(operands: Operands) -> str:
    """A type of zeros that makes the sums of the operands' own type."""
    element = operands.types.a
    if element in _OWN_ZEROS:
        return element
    return "i8" if element in PTX_PACKED else "f16"


def _shapes_of_zeros(operands: Operands) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of A (..., M, K) and B (..., N, K) of zeros. A has all leading dimensions, so that they may
    become rows.
    """
    a, b, out, *_ = operands.whole
    m, n = out.shape[-2:]
    leading_a = a.shape[:-2] if operands.sizes.grouped else out.shape[:-2]
    return (*leading_a, m, _ZEROS_K), (*b.shape[:-2], n, _ZEROS_K)


def _without_k(operands: Operands, a: ArrayView, b: ArrayView) -> Operands:
    """The operands of a product of zeros with the same result, alpha * 0 + beta * C and the epilogue."""
    named = dict(zip(operands.names, operands.whole, strict=True))
    added = {name: view for name, view in named.items() if name in _ROLES_WITHOUT_K}
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
    return Operands.of(a, b, named["out"], added, product)
