"""Pointers, and the addresses of elements of matrices and vectors in global memory."""

from collections.abc import Sequence
from functools import partial

from weft.dialects.tile_types import ADDRESS_SPACES
from weft.isa.tcgen05.pairs import PEER_BIT
from weft.mlir import arith, ir, llvm, memref, nvvm
from weft.passes.builders import emit

# llvm.getelementptr marks a run-time index in its constant list with this.
DYNAMIC = -(2**31)


def pointer_type(space: int) -> ir.Type:
    """The LLVM pointer type of an address space."""
    return ir.Type.parse(f"!llvm.ptr<{space}>")


def offset(base: ir.Value, bytes_: emit.Number) -> ir.Value:
    """The pointer plus some bytes, a number or an integer value."""
    byte = ir.IntegerType.get_signless(8)
    if isinstance(bytes_, int):
        return base if bytes_ == 0 else llvm.getelementptr(base.type, base, [], [bytes_], byte, 0)
    return llvm.getelementptr(base.type, base, [bytes_], [DYNAMIC], byte, 0)


def number(pointer: ir.Value) -> ir.Value:
    """The number of an address: an i64."""
    return llvm.ptrtoint(emit.i64(), pointer)


def low_bits(pointer: ir.Value) -> ir.Value:
    """The low bits of an address: an i32."""
    return arith.trunci(emit.i32(), number(pointer))


def loaded(pointer: ir.Value, inside: ir.Value, kind: ir.Type, otherwise: ir.Value | None = None) -> ir.Value:
    """The value at an address that is `inside`, an i1; otherwise another one, by default 0, and no access."""
    zero = partial(emit.constant, kind, 0)
    (value,) = emit.either(
        inside,
        [kind],
        lambda: [llvm.load(kind, pointer)],
        lambda: [zero() if otherwise is None else otherwise],
    )
    return value


def in_cta(address: ir.Value, rank: ir.Value | int) -> ir.Value:
    """The address in the shared memory of the CTA of this rank in the cluster that corresponds to an address
    in shared memory.
    """
    return nvvm.mapa(pointer_type(ADDRESS_SPACES["cluster"]), address, emit.value(rank))


def in_own_cta(address: ir.Value) -> ir.Value:
    """An address in shared memory as one in that of the cluster. Both have the same number; LLVM's cast takes
    it through a generic address.
    """
    return llvm.inttoptr(pointer_type(ADDRESS_SPACES["cluster"]), number(address))


def of_leader(address: ir.Value) -> ir.Value:
    """As `in_cta`, in the CTA that leads the pair, and as a pointer to shared memory: the barrier of a copy
    with `.cta_group::2` is such a one.
    """
    i32 = emit.i32()
    kept = arith.andi(llvm.ptrtoint(i32, address), arith.constant(i32, ~PEER_BIT))
    return llvm.inttoptr(address.type, kept)


def element(array: ir.Value, at: Sequence[ir.Value]) -> ir.Value:
    """The address of an element of a memref in global memory, at indices of type index."""
    _, begin, *extents = memref.extract_strided_metadata(array)
    for index, stride in zip(at, extents[len(at) :], strict=True):
        begin = arith.addi(begin, arith.muli(index, stride))
    bytes_ = arith.muli(begin, emit.index(int(array.type.element_type.width) // 8))
    address = arith.addi(memref.extract_aligned_pointer_as_index(array), bytes_)
    return llvm.inttoptr(pointer_type(1), arith.index_cast(emit.i64(), address))


def stored_type(element: ir.Type) -> ir.Type:
    """The type that LLVM loads and stores for elements of a type. It has no unsigned integers, and no floats
    of 8 bits and less.
    """
    is_stored = element.is_signless if isinstance(element, ir.IntegerType) else element.width > 8
    return element if is_stored else ir.IntegerType.get_signless(element.width)


class Matrix:
    """A row-major matrix in global memory, as a kernel accesses it. With `any_row`, it is asked for negative
    rows, too.
    """

    def __init__(self, value: ir.Value, any_row: bool = False) -> None:
        self._any_row = any_row
        self.element = stored_type(value.type.element_type)
        self.bytes = int(self.element.width) // 8
        metadata = memref.extract_strided_metadata(value)
        self._stride = metadata[4]
        start = arith.muli(metadata[1], emit.index(self.bytes))
        address = arith.addi(memref.extract_aligned_pointer_as_index(value), start)
        wide = arith.index_cast(emit.i64(), address)
        self.base = llvm.inttoptr(pointer_type(1), wide)
        self.rows, self.columns = emit.as_i32(metadata[2]), emit.as_i32(metadata[3])

    def row(self, row: ir.Value) -> ir.Value:
        """The address of a row's first element."""
        wide = arith.muli(emit.as_index(row), self._stride)
        bytes_ = arith.muli(wide, emit.index(self.bytes))
        return offset(self.base, arith.index_cast(emit.i64(), bytes_))

    def element_of(self, row_address: ir.Value, column: ir.Value) -> ir.Value:
        """The address of an element of a row."""
        wide = arith.extsi(emit.i64(), emit.value(column))
        scale = arith.constant(wide.type, self.bytes)
        return offset(row_address, arith.muli(wide, scale))

    def misaligned(self, bytes_: int) -> ir.Value:
        """An i32 that is 0 if the matrix and all its rows begin at multiples of `bytes_`."""
        address = number(self.base)
        stride = arith.index_cast(address.type, arith.muli(self._stride, emit.index(self.bytes)))
        low = arith.trunci(emit.i32(), arith.ori(address, stride))
        return emit.bit_and(low, bytes_ - 1)

    def low_bits(self, row: ir.Value) -> ir.Value:
        """The low bits of a row's address, an i32."""
        return emit.add(low_bits(self.base), emit.mul(emit.mul(row, emit.as_i32(self._stride)), self.bytes))

    def has_row(self, row: ir.Value) -> ir.Value:
        """Whether the row is inside of the matrix: an i1."""
        if self._any_row:  # without signs, negative numbers are the largest
            return arith.cmpi(arith.CmpIPredicate.ult, row, self.rows)
        return emit.less(row, self.rows)

    def has_column(self, column: ir.Value) -> ir.Value:
        """Whether the column is inside of the matrix: an i1."""
        return emit.less(column, self.columns)


class NearbyElements:
    """The elements of a matrix at constant distances from one of them. What depends on only a
    row or only a column is computed once, where it is first needed.
    """

    def __init__(self, matrix: Matrix, row: ir.Value, column: ir.Value) -> None:
        self._matrix, self._row, self._column = matrix, row, column
        self._rows: dict[int, tuple[ir.Value, ir.Value]] = {}
        self._columns: dict[int, ir.Value] = {}

    def at(self, row: int, column: int) -> tuple[ir.Value, ir.Value]:
        """Whether the element this many rows and columns further is inside of the matrix, an i1, and its
        address.
        """
        if row not in self._rows:
            at = emit.add(self._row, row)
            address = self._matrix.element_of(self._matrix.row(at), self._column)
            self._rows[row] = self._matrix.has_row(at), address
        if column not in self._columns:
            self._columns[column] = self._matrix.has_column(emit.add(self._column, column))
        exists, address = self._rows[row]
        inside = arith.andi(exists, self._columns[column])
        return inside, offset(address, column * self._matrix.bytes)


class Vector:
    """A contiguous vector in global memory, as a kernel accesses it."""

    def __init__(self, value: ir.Value) -> None:
        self.element = stored_type(value.type.element_type)
        self.bytes = int(self.element.width) // 8
        metadata = memref.extract_strided_metadata(value)
        start = arith.muli(metadata[1], emit.index(self.bytes))
        address = arith.addi(memref.extract_aligned_pointer_as_index(value), start)
        self.address = arith.index_cast(emit.i64(), address)
        self.base = llvm.inttoptr(pointer_type(1), self.address)
        self.columns = emit.as_i32(metadata[2])

    def element_of(self, column: ir.Value) -> ir.Value:
        """The address of an element."""
        wide = arith.extsi(self.address.type, emit.value(column))
        return offset(self.base, arith.muli(wide, arith.constant(wide.type, self.bytes)))

    def misaligned(self, bytes_: int) -> ir.Value:
        """An i32 that is 0 if the vector begins at a multiple of `bytes_`."""
        return emit.bit_and(arith.trunci(emit.i32(), self.address), bytes_ - 1)

    def has(self, column: ir.Value) -> ir.Value:
        """Whether the element is inside of the vector: an i1."""
        return emit.less(column, self.columns)
