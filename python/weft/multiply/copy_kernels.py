"""The kernel that copies matrices whose rows begin anywhere to rows that TMA takes: several in one launch.

A thread stores 16 bytes at a time. It loads the two aligned vectors that contain them, and shifts. Some of
the matrices may be transposed (`transposed_copies`).
"""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft.construction.module import Module
from weft.dialects.launch_contract import DEPENDENT
from weft.isa.tensor_map import ROW_BYTES
from weft.launch import kernel
from weft.mlir import arith, gpu, ir, llvm, nvvm
from weft.multiply import transposed_copies
from weft.multiply.copied_bytes import Bytes, i64
from weft.multiply.row_copies import FIELDS, THREADS, VECTORS, Rows
from weft.multiply.transposed_copies import TransposedCopy
from weft.passes.builders import addresses, emit
from weft.passes.kernels.cluster import await_previous_launch

_MOST_NUMBERED = 2**31 - 1  # vectors that i32 can number


def kernel_of(rows: Sequence[Rows], unit: int, chip: str) -> kernel.Kernel:
    """The kernel that copies rows like these, which begin at multiples of `unit` bytes: 1, 2 or 4, or 16 if
    all are transposed.
    """
    wide = any(of.vectors > _MOST_NUMBERED for of in rows)
    sizes = tuple(of.size for of in rows)
    return _kernel(sizes, unit, any(of.members > 1 for of in rows), wide, chip)


@functools.lru_cache(maxsize=64)
def _kernel(sizes: tuple[int, ...], unit: int, batched: bool, wide: bool, chip: str) -> kernel.Kernel:
    (size,) = {*sizes} - {0} or {0}
    with Module() as module:
        pointer = ir.Type.parse("!llvm.ptr")
        kinds = [pointer, pointer, *(ir.Type.parse(name) for name in FIELDS)]
        with module.kernel("copy_rows", kinds * len(sizes), block=(THREADS, 1, 1)) as values:
            DEPENDENT.set(ir.InsertionPoint.current.block.owner, ir.UnitAttr.get())
            await_previous_launch()
            nvvm.GriddepcontrolOp(nvvm.GridDepActionKind.launch_dependents)
            groups = [list(values[i : i + len(kinds)]) for i in range(0, len(values), len(kinds))]
            cta, chosen, transposes = _own(groups, sizes)
            shared = transposed_copies.buffer() if size else None

            def transpose() -> list[Any]:
                TransposedCopy(chosen, size, unit, batched, shared).emit(cta)
                return []

            def copy() -> list[Any]:
                _Copy(chosen, unit, batched, wide).emit(cta)
                return []

            if all(sizes) or not size:
                (transpose if size else copy)()
            else:
                emit.either(transposes, [], transpose, copy)
    return kernel.compile_shared(module, chip)


def _own(groups: list[list[ir.Value]], sizes: Sequence[int]) -> tuple[ir.Value, list[ir.Value], Any]:
    """The number of this CTA among those that copy the same matrix, the arguments for that matrix, and
    whether it is transposed (an i1).
    """
    cta = emit.as_i32(gpu.block_id(gpu.Dimension.x))
    transposed = [arith.constant(emit.i1(), int(size > 0)) for size in sizes] if any(sizes) else sizes
    number, chosen, kind = cta, groups[0], transposed[0]
    end: Any = 0
    pairs = zip(itertools.pairwise(groups), sizes, transposed[1:], strict=False)
    for (before, group), size, is_transposed in pairs:
        end = emit.add(end, _ctas(before, size))
        after = emit.negate(emit.less(cta, end))
        number = arith.select(after, emit.sub(cta, end), number)
        chosen = [arith.select(after, x, y) for x, y in zip(group, chosen, strict=True)]
        kind = arith.select(after, is_transposed, kind) if any(sizes) else kind
    return number, chosen, kind


def _ctas(group: list[ir.Value], size: int) -> ir.Value:
    """`Rows.ctas` of a matrix with these arguments."""
    *_, members, count, width, _ = group
    if size:
        return transposed_copies.emitted_ctas(members, count, width)
    vectors = arith.muli(i64(emit.mul(members, count)), i64(emit.ceil_div(width, ROW_BYTES)))
    per_cta = THREADS * VECTORS
    return arith.trunci(emit.i32(), arith.divui(arith.addi(vectors, i64(per_cta - 1)), i64(per_cta)))


@dataclass(frozen=True)
class _Vector:
    """A vector of the copy: whether it has bytes of the rows (an i1), where they are, and its address."""

    exists: Any
    source: Any  # i64
    bytes_: Any
    target: Any


class _Copy:
    """The copy of a matrix."""

    def __init__(self, values: list[ir.Value], unit: int, batched: bool, wide: bool) -> None:
        source, target, span, self.member_stride, self.stride, *numbers = values
        self.members, self.count, self.width, self.pitch = numbers
        space = addresses.pointer_type(1)
        self.target = llvm.addrspacecast(space, target)
        self.bytes = Bytes.of(llvm.addrspacecast(space, source), span, unit)
        self.batched, self.wide = batched, wide

    def emit(self, cta: ir.Value) -> None:
        """Copies the vectors of this CTA."""
        every = [self._vector(cta, number) for number in range(VECTORS)]
        inside = functools.reduce(arith.andi, (self.bytes.has_vectors(each.source) for each in every))
        emit.either(inside, [], lambda: self._by_vectors(every), lambda: self._by_units(every))

    def _vector(self, cta: ir.Value, number: int) -> _Vector:
        """The vector that is number `number` of this thread."""
        per_row, thread = emit.ceil_div(self.width, ROW_BYTES), emit.add(emit.thread(), number * THREADS)
        rows = emit.mul(self.members, self.count)
        if self.wide:
            index = arith.addi(arith.muli(i64(cta), i64(THREADS * VECTORS)), i64(thread))
            total, per_row = arith.muli(i64(rows), i64(per_row)), i64(per_row)
        else:
            index = emit.add(emit.mul(cta, THREADS * VECTORS), thread)
            total = emit.mul(rows, per_row)
        exists = arith.cmpi(arith.CmpIPredicate.ult, index, total)
        # Threads without a vector load the last one.
        index = arith.minui(index, arith.subi(total, arith.constant(total.type, 1)))
        row = arith.divui(index, per_row)
        part = arith.subi(index, arith.muli(row, per_row))
        if self.wide:
            row, part = (arith.trunci(emit.i32(), each) for each in (row, part))
        column = emit.mul(part, ROW_BYTES)
        to = arith.addi(arith.muli(i64(row), i64(self.pitch)), i64(column))
        from_ = self.bytes.start
        if self.batched:
            member = emit.div(row, self.count)
            row = emit.sub(row, emit.mul(member, self.count))
            from_ = arith.addi(from_, arith.muli(i64(member), self.member_stride))
        from_ = arith.addi(arith.addi(from_, arith.muli(i64(row), self.stride)), i64(column))
        bytes_ = emit.minimum(emit.sub(self.width, column), ROW_BYTES)
        return _Vector(exists, from_, bytes_, addresses.offset(self.target, to))

    def _by_vectors(self, every: list[_Vector]) -> list[Any]:
        """Loads aligned vectors, all of them before the first store."""
        loaded = [self.bytes.vectors(each.source) for each in every]
        for each, vectors in zip(every, loaded, strict=True):
            with emit.when(each.exists):
                llvm.store(emit.vector_of(self.bytes.words(each.source, vectors)), each.target)
        return []

    def _by_units(self, every: list[_Vector]) -> list[Any]:
        """Loads elements, for vectors at the ends of the matrix."""
        for each in every:
            with emit.when(each.exists):
                llvm.store(self.bytes.units(each.source, each.bytes_, self.bytes.unit), each.target)
        return []
