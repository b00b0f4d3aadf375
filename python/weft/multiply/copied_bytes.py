"""Loads of 16 bytes that may begin at any byte of a matrix in global memory, for kernels that copy it."""

from collections.abc import Callable
from dataclasses import dataclass

from weft.dialects import tile
from weft.dialects.op import build
from weft.dialects.tile import AddressOp, BufferType
from weft.isa.tensor_map import ROW_BYTES
from weft.mlir import arith, ir, llvm
from weft.passes.builders import addresses, emit
from weft.passes.builders.shifted_words import WORDS, shifted


def i64(number: ir.Value | int) -> ir.Value:
    """A number that isn't negative as i64."""
    kind = ir.IntegerType.get_signless(64)
    return arith.constant(kind, number) if isinstance(number, int) else arith.extui(kind, number)


def shared(rows: int, width: int) -> ir.Value:
    """The address of shared memory for rows of bytes, which is allocated here."""
    kind = BufferType.of((rows, width), ir.IntegerType.get_signless(8), f"S[({rows},{width}):({width},1)]")
    return build(AddressOp, operands=[tile.alloc(kind)], results=[addresses.pointer_type(3)]).address


@dataclass(frozen=True)
class Bytes:
    """The bytes of a matrix, from address `start` to `end` (i64), whose rows begin at multiples of `unit`."""

    start: ir.Value
    end: ir.Value
    unit: int

    @classmethod
    def of(cls, pointer: ir.Value, span: ir.Value, unit: int) -> "Bytes":
        """Those of the first `span` bytes from a pointer on."""
        start = llvm.ptrtoint(span.type, pointer)
        return cls(start, arith.addi(start, span), unit)

    @property
    def is_aligned(self) -> bool:
        """Whether one vector contains the 16 bytes, otherwise two do."""
        return self.unit % ROW_BYTES == 0

    def _first(self, address: ir.Value) -> ir.Value:
        """The address of the first aligned vector that contains these bytes."""
        return address if self.is_aligned else arith.andi(address, arith.constant(address.type, -ROW_BYTES))

    def has_vectors(self, address: ir.Value) -> ir.Value:
        """Whether the matrix has all of the aligned vectors that contain 16 bytes from an address on."""
        first = self._first(address)
        end = arith.addi(first, i64(ROW_BYTES if self.is_aligned else 2 * ROW_BYTES))
        from_start = arith.cmpi(arith.CmpIPredicate.uge, first, self.start)
        return arith.andi(from_start, arith.cmpi(arith.CmpIPredicate.ule, end, self.end))

    def vectors(self, address: ir.Value) -> list[ir.Value]:
        """The words of those vectors."""
        base = llvm.inttoptr(addresses.pointer_type(1), self._first(address))
        parts = (0,) if self.is_aligned else (0, ROW_BYTES)
        kind = ir.VectorType.get([WORDS], emit.i32())
        loaded = [llvm.load(kind, addresses.offset(base, at)) for at in parts]
        return [word for part in loaded for word in emit.elements(part)]

    def words(self, address: ir.Value, vectors: list[ir.Value]) -> list[ir.Value]:
        """The four words at an address, of the words of the vectors that contain them."""
        return vectors if self.is_aligned else shifted(arith.trunci(emit.i32(), address), vectors, self.unit)

    def words_of_rows(
        self,
        inside: ir.Value,
        places: list[list[ir.Value]],
        left: Callable[[], list[ir.Value]],
        size: int,
    ) -> list[ir.Value]:
        """The words of 16 bytes at each of the places in some rows. If all are `inside`, aligned vectors are
        loaded, all of them before the first is used. Otherwise elements of `size` bytes are, for vectors at
        the ends of the matrix: as many bytes of each column of places as are `left`.
        """

        def by_vectors() -> list[ir.Value]:
            loaded = [[self.vectors(each) for each in row] for row in places]
            return [
                word
                for row, vectors in zip(places, loaded, strict=True)
                for place, each in zip(row, vectors, strict=True)
                for word in self.words(place, each)
            ]

        def by_elements() -> list[ir.Value]:
            kind, of_places = ir.VectorType.get([WORDS], emit.i32()), left()
            found = [
                self.units(place, n, size) for row in places for place, n in zip(row, of_places, strict=True)
            ]
            return [word for each in found for word in emit.elements(llvm.bitcast(kind, each))]

        count = WORDS * len(places) * len(places[0])
        return emit.either(inside, [emit.i32()] * count, by_vectors, by_elements)

    def units(self, address: ir.Value, bytes_: ir.Value, size: int) -> ir.Value:
        """A vector of the first `bytes_` (up to 16), loaded `size` bytes at a time; the first ones in place
        of the others.
        """
        element = ir.IntegerType.get_signless(8 * size)
        base = llvm.inttoptr(addresses.pointer_type(1), address)
        found = (
            arith.select(emit.less(at, bytes_), addresses.offset(base, at), base)
            for at in range(0, ROW_BYTES, size)
        )
        return emit.vector_of([llvm.load(element, each) for each in found])
