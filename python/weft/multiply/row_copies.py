"""The kernel that copies matrices whose rows begin anywhere to rows that TMA takes: several in one launch.

A thread stores 16 bytes at a time. It loads the two aligned vectors that contain them, and shifts.
"""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from weft.builder import Module
from weft.dialects.launch_contract import DEPENDENT
from weft.dialects.schedule import ceil_div
from weft.isa.tensor_map import ROW_BYTES
from weft.launch import arrays, kernel
from weft.launch.arrays import ArrayView
from weft.mlir import arith, gpu, ir, llvm, nvvm, vector
from weft.passes.builders import addresses, emit
from weft.passes.builders.shifted_words import shifted
from weft.passes.kernels.cluster import await_previous_launch

_THREADS = 256
_VECTORS = 4  # that a thread copies
_WORDS = ROW_BYTES // 4  # of 4 bytes in a vector
_LINE = 128  # bytes that L2 reads at once
_MOST_NUMBERED = 2**31 - 1  # vectors that i32 can number
_FIELDS = ("i64", "i64", "i64", "i32", "i32", "i32", "i32")  # the types of `Rows`


@dataclass(frozen=True)
class Rows:
    """The rows of a matrix or batch to copy, in bytes: `count` rows of `width` in each of some members."""

    span: int  # from the first byte to the end of the last row
    member_stride: int
    stride: int
    members: int
    count: int
    width: int
    pitch: int  # of the copy

    @classmethod
    def of(cls, view: ArrayView) -> "Rows":
        """Those of an array with at most two dimensions before the last that have several elements."""
        row_bytes = 2 * ROW_BYTES if view.packed else ROW_BYTES  # TMA may give packed elements a byte each
        view = view.in_bytes
        size = arrays.numpy_dtype(view.dtype).itemsize
        width = view.shape[-1] * size
        apart = [(n, s * size) for n, s in zip(view.shape[:-1], view.strides, strict=False) if n > 1]
        assert len(apart) <= 2, view.shape
        (members, member_stride), (count, stride) = [(1, 0)] * (2 - len(apart)) + apart
        span = (members - 1) * member_stride + (count - 1) * stride + width
        # Long rows begin at lines of L2, so that TMA reads no line twice.
        unit = row_bytes if width < 4 * _LINE else _LINE
        pitch = ceil_div(width, unit) * unit
        return cls(span, member_stride, stride, members, count, width, pitch)

    @property
    def nbytes(self) -> int:
        """The size of the copy."""
        return self.members * self.count * self.pitch

    @property
    def vectors(self) -> int:
        """The vectors of the copy that have bytes of the rows."""
        return self.members * self.count * ceil_div(self.width, ROW_BYTES)

    @property
    def ctas(self) -> int:
        """The CTAs that copy them."""
        return ceil_div(self.vectors, _THREADS * _VECTORS)

    def padded(self, view: ArrayView, address: int) -> ArrayView:
        """The copy of an array at an address."""
        plain = view.in_bytes
        pitch = self.pitch // arrays.numpy_dtype(plain.dtype).itemsize
        strides = arrays.contiguous_strides((*plain.shape[:-1], pitch))
        copy = replace(plain, address=address, strides=strides)
        return copy.unpacked_from(view.dtype) if view.packed else copy


def arguments(rows: Sequence[Rows], sources: Sequence[Any], targets: Sequence[Any]) -> list[Any]:
    """The arguments of the kernel that copies these rows."""
    each = zip(rows, sources, targets, strict=True)
    return [argument for of, source, target in each for argument in (source, target, *astuple(of))]


def grid(rows: Sequence[Rows]) -> tuple[int, int, int]:
    """The grid of its launch."""
    return sum(of.ctas for of in rows), 1, 1


def kernel_of(rows: Sequence[Rows], unit: int, chip: str) -> kernel.Kernel:
    """The kernel that copies rows like these, which begin at multiples of `unit` bytes: 1, 2 or 4."""
    wide = any(of.vectors > _MOST_NUMBERED for of in rows)
    return _kernel(len(rows), unit, any(of.members > 1 for of in rows), wide, chip)


@functools.lru_cache(maxsize=64)
def _kernel(count: int, unit: int, batched: bool, wide: bool, chip: str) -> kernel.Kernel:
    with Module() as module:
        pointer = ir.Type.parse("!llvm.ptr")
        kinds = [pointer, pointer, *(ir.Type.parse(name) for name in _FIELDS)]
        with module.kernel("copy_rows", kinds * count, block=(_THREADS, 1, 1)) as values:
            DEPENDENT.set(ir.InsertionPoint.current.block.owner, ir.UnitAttr.get())
            await_previous_launch()
            nvvm.GriddepcontrolOp(nvvm.GridDepActionKind.launch_dependents)
            groups = [list(values[i : i + len(kinds)]) for i in range(0, len(values), len(kinds))]
            cta, chosen = _own(groups)
            _Copy(chosen, unit, batched, wide).emit(cta)
    return kernel.compile_own(module.mlir, chip)


def _own(groups: list[list[Any]]) -> tuple[Any, list[Any]]:
    """The number of this CTA among those that copy the same matrix, and the arguments for that matrix."""
    cta = emit.as_i32(gpu.block_id(gpu.Dimension.x))
    number, chosen = cta, groups[0]
    end: Any = 0
    for before, group in itertools.pairwise(groups):
        end = emit.add(end, _ctas(before))
        after = emit.negate(emit.less(cta, end))
        number = arith.select(after, emit.sub(cta, end), number)
        chosen = [arith.select(after, x, y) for x, y in zip(group, chosen, strict=True)]
    return number, chosen


def _ctas(group: list[Any]) -> Any:
    """`Rows.ctas` of a matrix with these arguments."""
    *_, members, count, width, _ = group
    vectors = arith.muli(_i64(emit.mul(members, count)), _i64(emit.ceil_div(width, ROW_BYTES)))
    per_cta = _THREADS * _VECTORS
    return arith.trunci(emit.i32(), arith.divui(arith.addi(vectors, _i64(per_cta - 1)), _i64(per_cta)))


def _i64(number: Any) -> Any:
    """A number that isn't negative as i64."""
    kind = ir.IntegerType.get_signless(64)
    return arith.constant(kind, number) if isinstance(number, int) else arith.extui(kind, number)


@dataclass(frozen=True)
class _Vector:
    """A vector of the copy: whether it has bytes of the rows (an i1), where they are, and its address."""

    exists: Any
    source: Any  # i64
    bytes_: Any
    target: Any


class _Copy:
    """The copy of a matrix."""

    def __init__(self, values: list[Any], unit: int, batched: bool, wide: bool) -> None:
        source, target, self.span, self.member_stride, self.stride, *numbers = values
        self.members, self.count, self.width, self.pitch = numbers
        space = addresses.pointer_type(1)
        self.source, self.target = (llvm.addrspacecast(space, each) for each in (source, target))
        self.start = llvm.ptrtoint(self.span.type, self.source)
        self.end = arith.addi(self.start, self.span)
        self.unit, self.batched, self.wide = unit, batched, wide

    def emit(self, cta: Any) -> None:
        """Copies the vectors of this CTA."""
        every = [self._vector(cta, number) for number in range(_VECTORS)]
        inside = functools.reduce(arith.andi, (self._has_both(each) for each in every))
        emit.either(inside, [], lambda: self._by_vectors(every), lambda: self._by_units(every))

    def _vector(self, cta: Any, number: int) -> _Vector:
        """The vector that is number `number` of this thread."""
        per_row, thread = emit.ceil_div(self.width, ROW_BYTES), emit.add(emit.thread(), number * _THREADS)
        rows = emit.mul(self.members, self.count)
        if self.wide:
            index = arith.addi(arith.muli(_i64(cta), _i64(_THREADS * _VECTORS)), _i64(thread))
            total, per_row = arith.muli(_i64(rows), _i64(per_row)), _i64(per_row)
        else:
            index = emit.add(emit.mul(cta, _THREADS * _VECTORS), thread)
            total = emit.mul(rows, per_row)
        exists = arith.cmpi(arith.CmpIPredicate.ult, index, total)
        # Threads without a vector load the last one.
        index = arith.minui(index, arith.subi(total, arith.constant(total.type, 1)))
        row = arith.divui(index, per_row)
        part = arith.subi(index, arith.muli(row, per_row))
        if self.wide:
            row, part = (arith.trunci(emit.i32(), each) for each in (row, part))
        column = emit.mul(part, ROW_BYTES)
        to = arith.addi(arith.muli(_i64(row), _i64(self.pitch)), _i64(column))
        from_ = self.start
        if self.batched:
            member = emit.div(row, self.count)
            row = emit.sub(row, emit.mul(member, self.count))
            from_ = arith.addi(from_, arith.muli(_i64(member), self.member_stride))
        from_ = arith.addi(arith.addi(from_, arith.muli(_i64(row), self.stride)), _i64(column))
        bytes_ = emit.minimum(emit.sub(self.width, column), ROW_BYTES)
        return _Vector(exists, from_, bytes_, addresses.offset(self.target, to))

    def _has_both(self, each: _Vector) -> Any:
        """Whether the matrix has both aligned vectors that contain these bytes."""
        first = arith.andi(each.source, arith.constant(self.span.type, -ROW_BYTES))
        end = arith.addi(first, _i64(2 * ROW_BYTES))
        from_start = arith.cmpi(arith.CmpIPredicate.uge, first, self.start)
        return arith.andi(from_start, arith.cmpi(arith.CmpIPredicate.ule, end, self.end))

    def _by_vectors(self, every: list[_Vector]) -> list[Any]:
        """Loads aligned vectors, all of them before the first store."""
        kind, loaded = ir.VectorType.get([_WORDS], emit.i32()), list[list[Any]]()
        for each in every:
            first = arith.andi(each.source, arith.constant(self.span.type, -ROW_BYTES))
            base = llvm.inttoptr(addresses.pointer_type(1), first)
            both = [llvm.load(kind, addresses.offset(base, at)) for at in (0, ROW_BYTES)]
            loaded.append([word for half in both for word in emit.elements(half)])
        for each, words in zip(every, loaded, strict=True):
            with emit.when(each.exists):
                at = arith.trunci(emit.i32(), each.source)
                llvm.store(vector.from_elements(kind, shifted(at, words, self.unit)), each.target)
        return []

    def _by_units(self, every: list[_Vector]) -> list[Any]:
        """Loads elements, for vectors at the ends of the matrix."""
        element, units = ir.IntegerType.get_signless(8 * self.unit), range(0, ROW_BYTES, self.unit)
        for each in every:
            with emit.when(each.exists):
                base = llvm.inttoptr(addresses.pointer_type(1), each.source)
                found = (
                    arith.select(emit.less(at, each.bytes_), addresses.offset(base, at), base) for at in units
                )
                loaded = emit.vector_of([llvm.load(element, address) for address in found])
                llvm.store(loaded, each.target)
        return []
