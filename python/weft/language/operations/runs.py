"""Tiles of which each lane accesses parts of rows as vectors of 16 bytes that may begin at any byte."""

from collections.abc import Sequence
from functools import reduce

from weft.language.operations.gathers import Gathered
from weft.language.operations.loads import rows_of
from weft.language.values.coordinates import of_lanes
from weft.language.values.fragments import Fragment, spread
from weft.language.values.matrices import Place
from weft.language.values.scalars import Scalar
from weft.layout import Layout
from weft.mlir import arith, ir, llvm, vector
from weft.passes.builders import addresses, emit, registers
from weft.passes.builders.shifted_words import BYTES, WORDS, shifted
from weft.passes.kernels import matrices

_WORD = 4  # bytes
_Index = tuple[ir.Value, ...]


def load(source: Place | Gathered, shape: tuple[int, int], layout: Layout) -> Fragment:
    """Loads a tile from its first element on, or one of parts of rows that begin at columns of their own, of
    which all indices are vectors of rows. In place of what is outside of the array, it has other elements.
    """
    return _Runs(source, shape, layout).load()


def store(fragment: Fragment, to: Place | Gathered) -> None:
    """Stores such a tile to an array whose rows begin and end at multiples of what a lane stores at once, but
    not what is outside of it.
    """
    _Runs(to, fragment.shape, fragment.layout).store(fragment)


class _Runs:
    """The elements of a lane, by runs that it accesses at once."""

    def __init__(self, of: Place | Gathered, shape: tuple[int, ...], layout: Layout) -> None:
        self.in_order = isinstance(of, Place)
        of = rows_of(of, shape, layout) if isinstance(of, Place) else of
        self.of, self.shape, self.layout, self.array = of, shape, layout, of.matrix.value
        self.element, self.bytes = addresses.stored_type(of.dtype.type), of.dtype.bytes
        self.width = min(registers.run(layout, shape), BYTES // self.bytes)
        self.sizes = [emit.value(matrices.size(self.array, axis)) for axis in range(len(of.indices))]
        columns = of_lanes(Fragment.of_layout(shape, layout), 1)
        *rows, starts = [self._each(index, len(columns.offsets)) for index in of.indices]
        starts = [
            emit.value(emit.add(emit.add(start, columns.base.value), offset))
            for start, offset in zip(starts, columns.offsets, strict=True)
        ]
        self.runs: list[_Index] = list(zip(*rows, starts, strict=True))[:: self.width]
        """The indices of the first element of each."""
        count = len(columns.offsets) * self.bytes // _WORD
        self.words = ir.VectorType.get([count], emit.i32())
        """The type of a lane's elements as registers."""

    def _each(self, index: Scalar | Fragment, count: int) -> list[ir.Value]:
        """An index for each of a lane's elements."""
        if isinstance(index, Fragment):
            return spread(index, self.shape, self.layout).elements()
        return [index.value] * count

    def store(self, fragment: Fragment) -> None:
        """Stores the runs that begin inside of the array."""
        lane, step = emit.bits(fragment.lane, self.element), self.width
        if self.bytes == 1:  # as words: LLVM stores a vector's bytes one by one
            lane, step = vector.bitcast(self.words, lane), step // _WORD
        elements = emit.elements(lane)
        for number, run in enumerate(self.runs):
            with emit.when(reduce(arith.andi, map(_below, run, self.sizes))):
                part = elements[number * step : (number + 1) * step]
                llvm.store(part[0] if step == 1 else emit.vector_of(part), self._address(run))

    def load(self) -> Fragment:
        """The tile: by vectors, but by elements where there would be a vector that the array doesn't have."""
        limits = [emit.value(emit.sub(size, 1)) for size in self.sizes]
        limits[-1] = emit.value(emit.bit_and(limits[-1], -self.width))
        runs = [tuple(map(arith.minui, run, limits)) for run in self.runs]
        starts = [self._address(run) for run in runs]
        (words,) = emit.either(
            self._has_vectors(runs, starts),
            [self.words],
            lambda: [emit.vector_of(self._vectors(starts))],
            lambda: [vector.bitcast(self.words, emit.vector_of(self._elements(runs, starts)))],
        )
        lane = vector.bitcast(ir.VectorType.get([len(runs) * self.width], self.element), words)
        return Fragment.of_lane(emit.bits(lane, self.of.dtype.type), self.shape, self.layout)

    def _address(self, run: Sequence[ir.Value]) -> ir.Value:
        return addresses.element(self.array, [emit.as_index(each) for each in run])

    def _has_vectors(self, runs: Sequence[_Index], starts: Sequence[ir.Value]) -> ir.Value:
        """Whether the array has all of the aligned vectors that contain these runs: an i1."""
        aligned, most = self.of.matrix.aligned, arith.CmpIPredicate.ule
        begin = addresses.number(self._address([emit.value(0)] * len(self.sizes)))
        last = self._address([emit.value(emit.sub(size, 1)) for size in self.sizes])
        end = arith.addi(addresses.number(last), _i64(self.bytes))
        conditions = list[ir.Value]()
        if aligned:
            columns = dict.fromkeys(run[-1] for run in runs)
            conditions += [emit.equal(emit.bit_and(each, self.width - 1), 0) for each in columns]
        for each in (starts[0], starts[-1]) if self.in_order else starts:
            first = addresses.number(each if aligned else _first(each))
            reach = arith.addi(first, _i64(BYTES if aligned else 2 * BYTES))
            conditions += [arith.cmpi(most, begin, first), arith.cmpi(most, reach, end)]
        return reduce(arith.andi, conditions)

    def _vectors(self, starts: Sequence[ir.Value]) -> list[ir.Value]:
        """The words of the runs at these addresses. All vectors that contain them are loaded first."""
        count, whole = self.width * self.bytes // _WORD, ir.VectorType.get([WORDS], emit.i32())
        if self.of.matrix.aligned:
            kind = ir.VectorType.get([count], emit.i32())
            return [word for start in starts for word in emit.elements(llvm.load(kind, start))]
        pairs = [(first, addresses.offset(first, BYTES)) for first in map(_first, starts)]
        loaded = [[word for each in pair for word in emit.elements(llvm.load(whole, each))] for pair in pairs]
        lows = [addresses.low_bits(start) for start in starts]
        every = [shifted(low, own, self.bytes)[:count] for low, own in zip(lows, loaded, strict=True)]
        return [word for own in every for word in own]

    def _elements(self, runs: Sequence[_Index], starts: Sequence[ir.Value]) -> list[ir.Value]:
        """The elements, loaded one by one; the first of a run in place of those outside of the row."""
        elements = list[ir.Value]()
        for run, start in zip(runs, starts, strict=True):
            for n in range(self.width):
                inside = _below(emit.value(emit.add(run[-1], n)), self.sizes[-1])
                at = emit.select(inside, n * self.bytes, 0)
                elements.append(llvm.load(self.element, addresses.offset(start, at)))
        return elements


def _first(start: ir.Value) -> ir.Value:
    """The aligned vector that contains the byte at an address."""
    low = arith.andi(addresses.number(start), _i64(BYTES - 1))
    return addresses.offset(start, arith.subi(_i64(0), low))


def _i64(number: int) -> ir.Value:
    return arith.constant(emit.i64(), number)


def _below(number: ir.Value, limit: ir.Value) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.ult, number, limit)  # so that negative numbers are not
