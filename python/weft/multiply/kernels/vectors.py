"""What a thread accesses in kernels of `weft.language` that copy and cast: 16 bytes that may begin at any
byte of a matrix in global memory, and shared memory by bytes. Words and numbers are scalars of the language.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from weft.dialects import tile
from weft.dialects.launch_contract import MIN_CTAS
from weft.isa.tensor_map import ROW_BYTES
from weft.language.values import buffers
from weft.language.values.dtypes import DType, i1, i8, i16, i32, i64
from weft.language.values.matrices import Matrix
from weft.language.values.scalars import Scalar
from weft.mlir import ir, llvm, nvvm
from weft.passes.builders import addresses, emit, shifted_words
from weft.passes.kernels import matrices

WORDS = ROW_BYTES // 4
_LOW, _HIGH = 0x5140, 0x7362  # `prmt` interleaves the lower or upper bytes of two words,
_FIRST, _SECOND = 0x5410, 0x7632  # and joins their lower or upper halves


def hold_ctas(number: int) -> None:
    """Limits the registers of the kernel so that a multiprocessor holds so many CTAs."""
    kernel = ir.InsertionPoint.current.block.owner
    kernel.attributes[MIN_CTAS] = ir.IntegerAttr.get(i32.type, number)


def quotient(a: Scalar, b: Scalar) -> Scalar:
    """The quotient of numbers that aren't negative, and of which the second isn't 0."""
    return Scalar(emit.div(a.value, b.value))


def ceil_div(a: Scalar, b: int) -> Scalar:
    """The quotient of numbers that aren't negative, rounded up."""
    return Scalar(emit.ceil_div(a.value, b))


def address(matrix: Matrix) -> Scalar:
    """The address of an array's first element, as i64."""
    first = addresses.element(matrix.value, [emit.as_index(0)] * matrix.rank)
    return Scalar(llvm.ptrtoint(i64.type, first))


def stride(matrix: Matrix, dimension: int) -> Scalar:
    """The bytes from an element of an array to the next one along a dimension, as i64."""
    return Scalar(matrices.distance(matrix.value, dimension))


def pointer(address: Scalar) -> ir.Value:
    """A pointer to an address in global memory."""
    return llvm.inttoptr(addresses.pointer_type(1), address.value)


def shared(nbytes: int) -> ir.Value:
    """A pointer to shared memory, which is allocated here."""
    return tile.address(buffers.shared(nbytes // 128, 128, i8).value)


def _at(base: ir.Value, offset: Scalar | int) -> ir.Value:
    return addresses.offset(base, offset if isinstance(offset, int) else offset.value)


def load(base: ir.Value, offset: Scalar | int = 0, dtype: DType = i32, count: int = WORDS) -> list[Scalar]:
    """Some bytes after a pointer, consecutive numbers, which are loaded at once."""
    kind = dtype.type if count == 1 else ir.VectorType.get([count], dtype.type)
    loaded = llvm.load(kind, _at(base, offset))
    return [Scalar(each) for each in ([loaded] if count == 1 else emit.elements(loaded))]


def store(numbers: Sequence[Scalar], base: ir.Value, offset: Scalar | int = 0) -> None:
    """Stores consecutive numbers at once, some bytes after a pointer."""
    values = [each.value for each in numbers]
    llvm.store(values[0] if len(values) == 1 else emit.vector_of(values), _at(base, offset))


def bitcast(numbers: Sequence[Scalar], dtype: DType) -> list[Scalar]:
    """The bits of consecutive numbers as those of another type."""
    kind = ir.VectorType.get([len(numbers) * numbers[0].dtype.bits // dtype.bits], dtype.type)
    whole = llvm.bitcast(kind, emit.vector_of([each.value for each in numbers]))
    return [Scalar(each) for each in emit.elements(whole)]


def of_neighbor(number: Scalar, bit: int) -> Scalar:
    """The number of the lane whose own number differs in a bit."""
    return Scalar(emit.of_lane(number.value, bit, nvvm.ShflKind.bfly))


def of_lane(number: Scalar, lane: Scalar) -> Scalar:
    """The number of another lane of the warp."""
    return Scalar(emit.of_lane(number.value, lane.value))


def transposed(*rows: Scalar) -> list[Scalar]:
    """The four columns of four words of bytes, as words."""
    low, high = ([_joined(each, *pair) for pair in (rows[:2], rows[2:])] for each in (_LOW, _HIGH))
    return [_joined(selector, *pairs) for pairs in (low, high) for selector in (_FIRST, _SECOND)]


def _joined(selector: int, first: Scalar, second: Scalar) -> Scalar:
    permute = nvvm.PermuteMode.DEFAULT
    return Scalar(nvvm.prmt(first.value, emit.value(selector), permute, hi=second.value))


@dataclass(frozen=True)
class Bytes:
    """The bytes of a matrix, from address `start` to `end` (i64), whose rows begin at multiples of `unit`."""

    start: Scalar
    end: Scalar
    unit: int

    @property
    def _is_aligned(self) -> bool:
        """Whether one vector contains the 16 bytes, otherwise two do."""
        return self.unit % ROW_BYTES == 0

    def _first(self, at: Scalar) -> Scalar:
        """The address of the first aligned vector that contains these bytes."""
        return at if self._is_aligned else at & -ROW_BYTES

    def has_vectors(self, *every: Scalar) -> Scalar:
        """Whether the matrix has all of the aligned vectors that contain 16 bytes from each address on."""
        result = i1(True)
        for at in every:
            first = self._first(at)
            end = first + (ROW_BYTES if self._is_aligned else 2 * ROW_BYTES)
            result = result & (first >= self.start) & (end <= self.end)
        return result

    def vectors(self, every: Iterable[Scalar]) -> list[list[Scalar]]:
        """The four words at each address. The aligned vectors that contain them are all loaded first."""
        parts = (0,) if self._is_aligned else (0, ROW_BYTES)
        pairs = [(at, pointer(self._first(at))) for at in every]
        loaded = [(at, [word for part in parts for word in load(base, part)]) for at, base in pairs]
        return [self._words(at, words) for at, words in loaded]

    def _words(self, at: Scalar, vectors: list[Scalar]) -> list[Scalar]:
        """The four words at an address, of the words of the vectors that contain them."""
        if self._is_aligned:
            return vectors
        words = shifted_words.shifted(at.to(i32).value, [each.value for each in vectors], self.unit)
        return [Scalar(each) for each in words]

    def elements(self, at: Scalar, nbytes: Scalar, size: int) -> list[Scalar]:
        """Four words of the first `nbytes` (up to 16) from an address on, in elements of `size` bytes; the
        first element in place of the others.
        """
        # LLVM would make one path of loads of words and of vectors as they are, without vectors.
        step = min(size, 2) if self._is_aligned else size
        base, dtype = pointer(at), {1: i8, 2: i16, 4: i32}[step]
        every = ((i, _at(base, i), _at(base, i % size)) for i in range(0, ROW_BYTES, step))
        places = [emit.select((nbytes > i).value, own, first) for i, own, first in every]
        return bitcast([number for each in places for number in load(each, 0, dtype, 1)], i32)
