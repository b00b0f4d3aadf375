"""The operands of one `tcgen05.mma`: A and B from their descriptors and addresses, D read and written."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from weft.emulator.errors import Fault
from weft.emulator.instructions import shared_operand
from weft.emulator.instructions.fragments import elements
from weft.emulator.instructions.shared_operand import PACKED
from weft.emulator.instructions.tcgen05_copy import shifted
from weft.emulator.instructions.tcgen05_ld_st import DataPath, Descriptor, metadata_cells, scale_cells
from weft.emulator.instructions.tcgen05_order import PROXY, descriptor_of, notify_tensor
from weft.emulator.memory.tensor_memory import COLUMN_MASK, Numbers, check
from weft.emulator.numerics.arithmetic import decode
from weft.emulator.numerics.floats import Doubles
from weft.emulator.reading.syntax import Array
from weft.emulator.running.function_code import Places
from weft.emulator.running.lanes import Lanes
from weft.emulator.watch import Cells
from weft.isa.tcgen05.descriptors import KINDS, BlockScaledDescriptor, InstructionDescriptor
from weft.isa.tcgen05.pipelining import METADATA, SCALE, A, D, Use
from weft.isa.tcgen05.shared_descriptor import swizzle_complaint
from weft.isa.tcgen05.tensor_layouts import COLUMNS, LANE_SHIFT, LANES
from weft.isa.types import ELEMENT_TYPES

_HALF_LANES = 16
PARTS = np.arange(4)
_SCALE_ADDRESS = (1 << 30) - 1
_FORMATS = {bits: (name, shift) for name, (bits, shift) in PACKED.items()}
"""By their bits: how elements of fewer than 8 bits are stored in shared memory, and the bit at which they
begin in their byte of tensor memory.
"""


@dataclass
class Matrices:
    """The operands of an instruction that thread `one` issues. `values` has their values."""

    one: Lanes
    form: Any
    values: dict[str, Array]
    idesc: Descriptor
    path: DataPath
    line: int

    # D

    def d_cells(self) -> tuple[Numbers, Numbers]:
        """The lanes and columns of D, `[banks, rows, columns]`."""
        lane, column = self.address("d")
        columns = np.arange(self.idesc.n // self.path.banks)
        lanes, at = np.broadcast_arrays(lane + self.path.bank_lanes()[:, :, None], column + columns)
        return lanes, at

    def d(self, cta: int, lane: Numbers, column: Numbers, used: Array) -> Array:
        """The bits of D; each element has a column of 32 bits."""
        words = self._cells(D, cta, lane, column, used)
        return words.astype(np.uint16) if self._half_sized() else words

    def write_d(self, cta: int, lane: Numbers, column: Numbers, used: Array, bits: Array) -> None:
        """Writes the elements that are `used`."""
        check(lane, column, self.line)
        notify_tensor(self.one, "store", cta, (lane[used], column[used]), self.line, self.use(D))
        self.one.wave.tensor_memory.cells(cta)[lane[used], column[used]] = bits[used].astype(np.uint32)

    def block(self, rank: int) -> Cells | None:
        """The cells of D of a CTA of the pair, if they are a rectangle inside tensor memory that is written
        as a whole.
        """
        lane, column = self.address("d")
        disabled = self.values.get("disable_output_lane")
        if disabled is not None and disabled[4 * rank : 4 * rank + 4].any():
            return None
        lanes, columns = self.path.banks * self.path.rows, self.idesc.n // self.path.banks
        if self.path.half or lane + lanes > LANES or column + columns > COLUMNS:
            return None
        return Cells(lane, lanes, column, columns)

    def d_of(self, cta: int, block: Cells) -> Array:
        """The bits of D, if its cells are a rectangle."""
        notify_tensor(self.one, "load", cta, block, self.line, self.use(D))
        words = self.one.wave.tensor_memory.cells(cta)[block.index]
        kind = np.uint16 if self._half_sized() else np.uint32
        return words.astype(kind).reshape(self.path.banks, self.path.rows, block.columns)

    def write_block(self, cta: int, block: Cells, bits: Array) -> None:
        """Writes D, if its cells are a rectangle."""
        notify_tensor(self.one, "store", cta, block, self.line, self.use(D))
        self.one.wave.tensor_memory.cells(cta)[block.index] = bits.reshape(block.lanes, block.columns)

    def _half_sized(self) -> bool:
        return isinstance(self.idesc, InstructionDescriptor) and self.idesc.d_type == "f16"

    # A and B

    def a(self, cta: int) -> Array:
        """The stored elements of A, `[banks, rows, k]`, or one bank if all have the same."""
        stored = self.depth() // (2 if self.idesc.sparse else 1)
        if self.form.a == "shared":
            return self._shared("a", cta, self.path.rows, stored)
        return self._tensor_a(cta, stored)

    def b(self, pair: tuple[int, ...], shift: int) -> Array:
        """The columns of B, `[n, k]`, of which each CTA has a part; with a shift, those from there on."""
        count = self.idesc.n // len(pair) + shift
        parts = [self._shared("b", cta, count, self.depth())[0] for cta in pair]
        return np.concatenate([part[shift:] for part in parts])

    def depth(self) -> int:
        return self.idesc.depth if isinstance(self.idesc, BlockScaledDescriptor) else self.idesc.k

    def container(self, name: str) -> int:
        """The bits that an element occupies: the mxf4 kinds are packed, others take at least a byte."""
        kind, bits = KINDS[self.idesc.kind], ELEMENT_TYPES[name].bits
        if name == "tf32":
            return 32
        return bits if len(kind.elements) == 1 else max(bits, 8)

    def places(self, operand: str, rows: int, k: int, *, by_row: bool) -> Places:
        """Where a matrix of M or N rows and K columns in shared memory is, or if not `by_row` its transpose.
        Fault if its descriptor is wrong.
        """
        of_a, idesc = operand == "a", self.idesc
        name, flip = (idesc.a_type, idesc.transpose_a) if of_a else (idesc.b_type, idesc.transpose_b)
        word, bits = int(self.values[operand]), (ELEMENT_TYPES[name].bits, self.container(name))
        return _places(word, operand, idesc.kind, (rows, k), bits, flip, by_row, self.line)

    def _shared(self, operand: str, cta: int, rows: int, k: int) -> Array:
        """A matrix of M or N rows and K columns in shared memory, `[1, rows, k]`."""
        places = self.places(operand, rows, k, by_row=True)
        return shared_operand.matrices(self.one, PROXY, [cta], places, self.line)

    def _tensor_a(self, cta: int, k: int) -> Array:
        begin, column = self.address("a")
        container = self.container(self.idesc.a_type)
        lane = (begin + self.path.bank_lanes())[:, :, None]
        if getattr(self.form, "ashift", False):
            lane = shifted(lane)
        words = self._cells(A, cta, *np.broadcast_arrays(lane, column + np.arange(k * container // 32)))
        banks, rows = words.shape[:2]
        octets = np.ascontiguousarray(words).reshape(banks * rows, -1)
        matrix: Array = elements(octets, container).reshape(banks, rows, k)
        bits = ELEMENT_TYPES[self.idesc.a_type].bits
        if bits < container == 8:
            matrix = matrix >> np.uint8(_FORMATS[bits][1])
        return matrix

    # Metadata and scales

    def metadata(self, cta: int, chunk: int) -> Array:
        """The codes of A's chunks, `[banks, rows, chunks]`."""
        begin, column = self.address("metadata")
        lanes = self.path.bank_lanes() if self.form.a == "tensor" else self.path.bank_lanes()[:1]
        selector = getattr(self.idesc, "sparsity_selector", 0)
        lane, at, number = metadata_cells(lanes, self.depth() // chunk, self.idesc.kind, selector)
        words = self._cells(METADATA, cta, begin + lane, column + at)
        codes: Array = words >> (np.uint32(4) * number.astype(np.uint32)) & np.uint32(15)
        return codes

    def scales(self, cta: int) -> tuple[Doubles, Doubles]:
        """The scales of A's rows, `[banks, rows, scales]`, and of B's columns, `[banks, scales, columns]`."""
        idesc, banks = self.idesc, self.path.banks
        assert isinstance(idesc, BlockScaledDescriptor)
        of_a = self._scales("scale_a", cta, PARTS, self.path.rows, idesc.a_scale_id)
        columns, parts = idesc.n // banks, PARTS.reshape(banks, -1)
        of_b = [self._scales("scale_b", cta, part, columns, idesc.b_scale_id) for part in parts]
        return np.broadcast_to(of_a, (banks, *of_a.shape)), np.stack(of_b).transpose(0, 2, 1)

    def _scales(self, operand: str, cta: int, parts: Numbers, rows: int, first: int) -> Doubles:
        """`[rows, scales]`, of which each of these parts of tensor memory must have a copy."""
        idesc = self.idesc
        assert isinstance(idesc, BlockScaledDescriptor)
        lane, at, byte = self.scale_cells(operand, parts, rows, first)
        words = self._cells(SCALE, cta, lane, at)
        codes = (words >> (np.uint32(8) * byte.astype(np.uint32))).astype(np.uint8)
        if (codes != codes[0]).any():
            part = int(parts[(codes != codes[0]).any(axis=(1, 2)).argmax()])
            raise Fault(
                f"{operand}: lanes {32 * part}..{32 * part + 31} must have the same scales as lanes "
                f"{32 * int(parts[0])}..{32 * int(parts[0]) + 31}",
                self.line,
                rule="descriptor",
            )
        return decode(codes[0], idesc.scale_type)

    def scale_cells(
        self, operand: str, parts: Numbers, rows: int, first: int
    ) -> tuple[Numbers, Numbers, Numbers]:
        """Lane, column and byte of each scale, `[parts, rows, scales]`."""
        assert isinstance(self.idesc, BlockScaledDescriptor)
        begin, column = self.address(operand)
        lane, at, byte = scale_cells(parts, rows, first, self.idesc.scales)
        return begin + lane, column + at, byte

    # Tensor memory

    def address(self, operand: str) -> tuple[int, int]:
        """Lane and column of an operand's address."""
        address = int(self.values[operand])
        if operand.startswith("scale"):
            # CUTLASS also passes the byte of a scale in the upper bits; the instruction descriptor has it.
            address &= _SCALE_ADDRESS
        lane = address >> LANE_SHIFT & COLUMN_MASK
        if lane and not (self.path.half and lane == _HALF_LANES and not operand.startswith("scale")):
            legal = "0 or 16" if self.path.half else "0"
            what = f"{operand} must begin at lane {legal} of tensor memory with this M, got lane {lane}"
            raise Fault(what, self.line, address=address, rule="tmem-access")
        return lane, address & COLUMN_MASK

    def use(self, operand: str) -> Use:
        shape = self.idesc.m, self.idesc.n, int(self.values["d"])
        return Use("mma", shape, operand)

    def _cells(
        self, operand: str, cta: int, lane: Numbers, column: Numbers, used: Array | None = None
    ) -> Array:
        """The words of these cells."""
        check(lane, column, self.line)
        lane, column = np.broadcast_arrays(lane, column)
        chosen = slice(None) if used is None else used
        notify_tensor(self.one, "load", cta, (lane[chosen], column[chosen]), self.line, self.use(operand))
        words: Array = self.one.wave.tensor_memory.cells(cta)[lane, column]
        return words


@lru_cache(1024)
def _places(
    word: int,
    operand: str,
    kind: str,
    shape: tuple[int, int],
    bits: tuple[int, int],
    transposed: bool,
    by_row: bool,
    line: int,
) -> Places:
    descriptor = descriptor_of(word, line)
    if (verdict := swizzle_complaint(kind, descriptor.swizzle, transposed=transposed)) is not None:
        raise Fault(f"{operand}: {verdict}", line, rule="descriptor")
    return shared_operand.matrix_places(descriptor, shape, bits, transposed, by_row, line)
