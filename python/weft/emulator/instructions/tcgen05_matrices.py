"""One `tcgen05.mma`: A and B from their descriptors and addresses, D read and written. A product is computed
when it is issued, for both CTAs of a pair at once.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np

from weft.emulator.errors import Fault
from weft.emulator.instructions import shared_operand
from weft.emulator.instructions.fragments import elements, expanded
from weft.emulator.instructions.shared_operand import PACKED
from weft.emulator.instructions.tcgen05_copy import shifted
from weft.emulator.instructions.tcgen05_ld_st import (
    DataPath,
    Descriptor,
    data_path,
    metadata_cells,
    scale_cells,
)
from weft.emulator.instructions.tcgen05_order import PROXY, descriptor_of, notify_tensor
from weft.emulator.memory.tensor_memory import COLUMN_MASK, Numbers, check
from weft.emulator.numerics.arithmetic import decode
from weft.emulator.numerics.floats import Doubles, encode
from weft.emulator.numerics.native_sums import multiply_accumulate
from weft.emulator.reading.syntax import Array
from weft.emulator.running.function_code import Places
from weft.emulator.running.lanes import Lanes
from weft.emulator.watch import Cells
from weft.isa import accumulation
from weft.isa.accumulation import Accumulation
from weft.isa.tcgen05.descriptors import KINDS, BlockScaledDescriptor, InstructionDescriptor
from weft.isa.tcgen05.mma_forms import MmaWs
from weft.isa.tcgen05.pipelining import METADATA, SCALE, A, D, Use
from weft.isa.tcgen05.shared_descriptor import swizzle_complaint
from weft.isa.tcgen05.tensor_layouts import COLUMN_BITS, COLUMNS, LANE_SHIFT, LANES, PART, SHAPE_LANES
from weft.isa.tcgen05.zero_columns import ZeroColumnMask
from weft.isa.types import ELEMENT_TYPES

_PARTS = np.arange(LANES // PART)
_SCALE_ADDRESS = (1 << 30) - 1
_FORMATS = {bits: (name, shift) for name, (bits, shift) in PACKED.items()}
"""By their bits: how elements of fewer than 8 bits are stored in shared memory, and the bit at which they
begin in their byte of tensor memory.
"""


_CHUNKS = {"tf32": 2, "mxf4": 8, "mxf4nvf4": 8}
"""The number of elements that a code of the metadata describes, if it isn't 4."""


@dataclass(frozen=True, eq=False)
class Scales:
    """Where the codes of the scales of one matrix are in tensor memory: lanes, columns and bytes,
    `[parts, …]` in the order of a product's scales. These parts of tensor memory must have the same.
    """

    operand: str
    type: str
    parts: Numbers
    lane: Numbers
    column: Numbers
    byte: Numbers

    @cached_property
    def _places(self) -> Numbers:
        return COLUMN_BITS // 8 * (COLUMNS * self.lane + self.column) + self.byte

    @cached_property
    def rectangles(self) -> tuple[Cells, ...]:
        """The cells as rectangles, each of adjacent columns of contiguous lanes."""
        ends = dict[tuple[int, int, int], int]()
        """The column after a rectangle, by its first lane, the lane after it and its first column."""
        for each in np.unique(self.column).tolist():
            used = np.zeros(LANES + 2, np.int8)
            used[self.lane[self.column == each] + 1] = 1
            for a, b in np.flatnonzero(np.diff(used)).reshape(-1, 2).tolist():
                first = next((c for (*at, c), end in ends.items() if at == [a, b] and end == each), each)
                ends[a, b, first] = each + 1
        return tuple(Cells(a, b - a, first, end - first) for (a, b, first), end in ends.items())

    def codes(self, memory: Array) -> Array:
        """The codes in a CTA's tensor memory, `[parts, …]`."""
        octets: Array = memory.view(np.uint8).reshape(-1)[self._places]
        return octets


@dataclass
class Product:
    """One instruction of thread `one`, with the values of its operands, on a CTA or a pair."""

    one: Lanes
    form: Any
    values: dict[str, Array]
    pair: tuple[int, ...]
    line: int
    chip: str

    @cached_property
    def idesc(self) -> Descriptor:
        word, scale_vec = int(self.values["idesc"]), getattr(self.form, "scale_vec", "")
        ws = isinstance(self.form, MmaWs)
        try:
            descriptor = _descriptor(word, self.form.kind, self.form.cta_group, ws, scale_vec, self.form.a)
        except ValueError as error:
            raise Fault(str(error), self.line, rule="descriptor") from None
        if descriptor.sparse != self.form.sparse:
            kind = "a sparse A" if descriptor.sparse else "a dense A"
            what = f"the instruction descriptor specifies {kind}, but the instruction doesn't"
            raise Fault(what, self.line, rule="descriptor")
        return descriptor

    @cached_property
    def path(self) -> DataPath:
        ws = isinstance(self.form, MmaWs)
        return data_path(self.idesc.m, self.form.cta_group, sparse=self.idesc.sparse, ws=ws)

    @property
    def how(self) -> Accumulation | None:
        """The rule of the sums; None if they are exact."""
        floats = ELEMENT_TYPES[self.idesc.a_type].kind == "float"
        if not floats or self.one.wave.launch.arithmetic != "hardware":
            return None
        return accumulation.of("tcgen05", self.idesc, self.chip)

    @property
    def d_type(self) -> str:
        return self.idesc.d_type if isinstance(self.idesc, InstructionDescriptor) else "f32"

    @property
    def d_storage(self) -> type[np.unsignedinteger[Any]]:
        return np.uint16 if self.d_type == "f16" else np.uint32

    @property
    def clamped(self) -> bool:
        return isinstance(self.idesc, InstructionDescriptor) and self.idesc.saturate

    @property
    def keeps(self) -> bool:
        """Whether D is added."""
        return bool(self.values["enable_input_d"])

    @property
    def is_plain(self) -> bool:
        """Whether code of the host may compute it."""
        power = int(self.values.get("scale_input_d", 0))
        plain = self.form.a == "shared" and "zero_column_mask" not in self.values and not power
        exact = self.how is None and ELEMENT_TYPES[self.idesc.a_type].kind == "float"
        return plain and not self.idesc.sparse and not exact

    def run(self) -> None:
        """Computes D of each CTA."""
        right, shape = self._right(), (self.path.banks, self.path.rows, self.idesc.n // self.path.banks)
        for rank, cta in enumerate(self.pair):
            memory, block = self.one.wave.tensor_memory.cells(cta), self.block(rank)
            cells: Any
            index: Any
            used: Any
            if block is not None:
                cells, index, used, held = block, block.index, ..., (block.lanes, block.columns)
            else:
                lane, column = self.d_cells()
                used, held = self._enabled(rank, lane), lane.shape
                cells = index = lane[used], column[used]
            total = np.zeros(held, self.d_storage)
            if self.keeps:
                notify_tensor(self.one, "load", cta, cells, self.line, self.use(D))
                total[used] = memory[index]
            result = self._sum(cta, right, self._scaled(total.reshape(shape)))
            notify_tensor(self.one, "store", cta, cells, self.line, self.use(D))
            memory[index] = result.reshape(held)[used]

    def _sum(self, cta: int, right: Array, total: Array) -> Array:
        """D, `[banks, rows, columns]`."""
        idesc, left, absent = self.idesc, self.a(cta), None
        if idesc.sparse:
            chunk = _CHUNKS.get(idesc.kind, 4)
            left, absent = expanded(left, self._metadata(cta, chunk), chunk)
        left = _negated(left, idesc.a_type, idesc.negate_a)
        if len(left) < len(right):
            left = np.broadcast_to(left, (len(right), *left.shape[1:]))
            absent = None if absent is None else np.broadcast_to(absent, left.shape)
        types = idesc.a_type, idesc.b_type, self.d_type, self.d_type
        scales = self._scales(cta) if isinstance(idesc, BlockScaledDescriptor) else None
        return multiply_accumulate(
            left, right, total, types, self.how, satfinite=self.clamped, scales=scales, absent=absent
        )

    # D

    def d_cells(self) -> tuple[Numbers, Numbers]:
        """The lanes and columns of D, `[banks, rows, columns]`."""
        lane, column = self.address("d")
        columns = np.arange(self.idesc.n // self.path.banks)
        lanes, at = np.broadcast_arrays(lane + self.path.bank_lanes()[:, :, None], column + columns)
        check(lanes, at, self.line)
        return lanes, at

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

    def _enabled(self, rank: int, lanes: Numbers) -> Array:
        """The cells of D at these lanes that are written."""
        if "disable_output_lane" not in self.values:
            return np.ones(lanes.shape, np.bool_)
        words = np.ascontiguousarray(self.values["disable_output_lane"][4 * rank : 4 * rank + 4])
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")
        enabled: Array = bits[lanes] == 0
        return enabled

    def _scaled(self, total: Array) -> Array:
        """D divided by a power of two, if the instruction specifies it."""
        power = int(self.values.get("scale_input_d", 0))
        return encode(decode(total, self.d_type) * 2.0**-power, self.d_type) if power else total

    # A and B

    def a(self, cta: int) -> Array:
        """The stored elements of A, `[banks, rows, k]`, or one bank if all have the same."""
        stored = self.depth // (2 if self.idesc.sparse else 1)
        if self.form.a == "shared":
            return self._shared("a", cta, self.path.rows, stored)
        return self._tensor_a(cta, stored)

    def b(self, shift: int = 0) -> Array:
        """The columns of B, `[n, k]`, of which each CTA has a part; with a shift, those from there on."""
        count = self.idesc.n // len(self.pair) + shift
        parts = [self._shared("b", cta, count, self.depth)[0] for cta in self.pair]
        return np.concatenate([part[shift:] for part in parts])

    def _right(self) -> Array:
        """B, `[banks, k, columns]`."""
        idesc, mask = self.idesc, self._mask()
        columns = self.b(mask.column_shift if mask else 0)
        if mask is not None:
            zeros = np.array(mask.zeros(idesc.m, idesc.n))[:, None]
            columns = np.where(zeros, columns.dtype.type(0), columns)
        banks: Array = columns.reshape(self.path.banks, -1, self.depth).transpose(0, 2, 1)
        return _negated(banks, idesc.b_type, idesc.negate_b)

    def _mask(self) -> ZeroColumnMask | None:
        if "zero_column_mask" not in self.values:
            return None
        try:
            mask = ZeroColumnMask.decode(int(self.values["zero_column_mask"]), self.idesc.m)
        except ValueError as error:
            raise Fault(str(error), self.line, rule="descriptor") from None
        most = cast(InstructionDescriptor, self.idesc).max_shift
        if mask.column_shift > most:
            bound = f"at most {most}, as the instruction descriptor sets it"
            what = f"the column shift must be {bound}, got {mask.column_shift}"
            raise Fault(what, self.line, rule="descriptor")
        return mask

    @property
    def depth(self) -> int:
        return self.idesc.depth if isinstance(self.idesc, BlockScaledDescriptor) else self.idesc.k

    def _container(self, name: str) -> int:
        """The bits that an element occupies: the mxf4 kinds are packed, others take at least a byte."""
        kind, bits = KINDS[self.idesc.kind], ELEMENT_TYPES[name].bits
        if name == "tf32":
            return 32
        return bits if len(kind.elements) == 1 else max(bits, 8)

    def places(self, operand: str, rows: int, k: int, *, by_row: bool) -> Places:
        """A matrix of M or N rows and K columns in shared memory, or its transpose. Fault if it is wrong."""
        of_a, idesc = operand == "a", self.idesc
        name, flip = (idesc.a_type, idesc.transpose_a) if of_a else (idesc.b_type, idesc.transpose_b)
        word, bits = int(self.values[operand]), (ELEMENT_TYPES[name].bits, self._container(name))
        return _places(word, operand, idesc.kind, (rows, k), bits, flip, by_row, self.line)

    def _shared(self, operand: str, cta: int, rows: int, k: int) -> Array:
        """A matrix of M or N rows and K columns in shared memory, `[1, rows, k]`."""
        places = self.places(operand, rows, k, by_row=True)
        return shared_operand.matrices(self.one, PROXY, [cta], places, self.line)

    def _tensor_a(self, cta: int, k: int) -> Array:
        begin, column = self.address("a")
        container = self._container(self.idesc.a_type)
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

    def _metadata(self, cta: int, chunk: int) -> Array:
        """The codes of A's chunks, `[banks, rows, chunks]`."""
        begin, column = self.address("metadata")
        lanes = self.path.bank_lanes() if self.form.a == "tensor" else self.path.bank_lanes()[:1]
        selector = getattr(self.idesc, "sparsity_selector", 0)
        lane, at, number = metadata_cells(lanes, self.depth // chunk, self.idesc.kind, selector)
        words = self._cells(METADATA, cta, begin + lane, column + at)
        codes: Array = words >> (np.uint32(4) * number.astype(np.uint32)) & np.uint32(15)
        return codes

    def _scales(self, cta: int) -> tuple[Doubles, Doubles]:
        """The scales of A's rows, `[banks, rows, scales]`, and of B's columns, `[banks, scales, columns]`."""
        each = [self.scales(bank) for bank in range(self.path.banks)]
        of_a = self._same_scales(cta, each[0][0])
        return np.stack([of_a] * len(each)), np.stack([self._same_scales(cta, of_b) for _, of_b in each])

    def _same_scales(self, cta: int, scales: Scales) -> Doubles:
        cells = scales.lane, scales.column
        check(*cells, self.line)
        notify_tensor(self.one, "load", cta, cells, self.line, self.use(SCALE))
        codes = scales.codes(self.one.wave.tensor_memory.cells(cta))
        if (codes != codes[0]).any():
            first, part = (int(scales.parts[at]) for at in (0, (codes != codes[0]).any(axis=(1, 2)).argmax()))
            lanes, others = (f"lanes {PART * at}..{PART * at + PART - 1}" for at in (part, first))
            what = f"{scales.operand}: {lanes} must have the same scales as {others}"
            raise Fault(what, self.line, rule="descriptor")
        return decode(codes[0], scales.type)

    def scales(self, bank: int) -> tuple[Scales, Scales]:
        """Those of A, `[rows, scales]`, and of a bank's columns of B, `[scales, columns]`."""
        idesc, banks = self.idesc, self.path.banks
        assert isinstance(idesc, BlockScaledDescriptor)
        parts, columns = _PARTS.reshape(banks, -1)[bank], idesc.n // banks
        of_a = self._scale_cells("scale_a", _PARTS, self.path.rows, idesc.a_scale_id)
        of_b = self._scale_cells("scale_b", parts, columns, idesc.b_scale_id)
        transposed = [each.transpose(0, 2, 1) for each in of_b]
        left = Scales("scale_a", idesc.scale_type, _PARTS, *of_a)
        return left, Scales("scale_b", idesc.scale_type, parts, *transposed)

    def _scale_cells(self, operand: str, parts: Numbers, rows: int, first: int) -> tuple[Numbers, ...]:
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
        if lane and not (self.path.half and lane == SHAPE_LANES and not operand.startswith("scale")):
            legal = "0 or 16" if self.path.half else "0"
            what = f"{operand} must begin at lane {legal} of tensor memory with this M, got lane {lane}"
            raise Fault(what, self.line, address=address, rule="tmem-access")
        return lane, address & COLUMN_MASK

    def use(self, operand: str) -> Use:
        shape = self.idesc.m, self.idesc.n, int(self.values["d"])
        return Use("mma", shape, operand)

    def _cells(self, operand: str, cta: int, lane: Numbers, column: Numbers) -> Array:
        """The words of these cells."""
        check(lane, column, self.line)
        lane, column = np.broadcast_arrays(lane, column)
        notify_tensor(self.one, "load", cta, (lane, column), self.line, self.use(operand))
        words: Array = self.one.wave.tensor_memory.cells(cta)[lane, column]
        return words


def _negated(matrix: Array, name: str, negate: bool) -> Array:
    return matrix ^ matrix.dtype.type(1 << (ELEMENT_TYPES[name].bits - 1)) if negate else matrix


@lru_cache(256)
def _descriptor(word: int, kind: str, group: int, ws: bool, scale_vec: str, a: str) -> Descriptor:
    if KINDS[kind].scales is not None:
        return BlockScaledDescriptor.decode(word, kind, group, scale_vec=scale_vec, a=a)
    return InstructionDescriptor.decode(word, kind, group, ws=ws, a=a)


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
