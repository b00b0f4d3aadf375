"""`tcgen05.mma` in all its forms. A product is computed when it is issued, for both CTAs of a pair at
once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import Step, Table
from weft.emulator.errors import Fault
from weft.emulator.instructions.fragments import expanded
from weft.emulator.instructions.mma import legal_form
from weft.emulator.instructions.tcgen05_code import Decoded, Quick
from weft.emulator.instructions.tcgen05_ld_st import DataPath, Descriptor, data_path
from weft.emulator.instructions.tcgen05_matrices import Matrices
from weft.emulator.instructions.tcgen05_order import pair_of
from weft.emulator.memory.tensor_memory import Numbers
from weft.emulator.numerics.floats import Doubles, decode, encode
from weft.emulator.numerics.native_sums import multiply_accumulate
from weft.emulator.reading.syntax import U32, U64, Address, Array, Vector
from weft.emulator.running.lanes import Lanes
from weft.isa import accumulation
from weft.isa.tcgen05 import mma_rows as tcgen05_mma
from weft.isa.tcgen05.descriptors import KINDS, BlockScaledDescriptor, InstructionDescriptor
from weft.isa.tcgen05.mma_forms import MmaWs
from weft.isa.tcgen05.zero_columns import ZeroColumnMask
from weft.isa.types import ELEMENT_TYPES

table = Table()
_CHUNKS = {"tf32": 2, "mxf4": 8, "mxf4nvf4": 8}
"""The number of elements that a code of the metadata describes, if it isn't 4."""


@table.step("tcgen05.mma")
def mma(op: Op) -> Step:
    """`tcgen05.mma… [d], a, b, …`: the operands are those of the form's table, in PTX's order."""
    form = legal_form(op, tcgen05_mma.FAMILIES, tuple(map(_spelled, op.operands)))
    if form.kind not in KINDS or getattr(form, "decompress", None):
        op.fail("isn't emulated: sm_107's own forms have descriptors of their own")
    op.count(len(form.operands))
    readers, slots, line = dict[str, Callable[[Lanes], Array]](), list[int](), op.line
    for index, operand in enumerate(form.operands):
        readers[operand.name], registers = _reader(op, index, operand)
        slots += registers
    constants = set(op.slots.constants.values())
    slots = [slot for slot in slots if slot not in constants]

    def read(lanes: Lanes) -> dict[str, Array]:
        return {name: reader(lanes) for name, reader in readers.items()}

    def product(lanes: Lanes, at: tuple[int, int], row: int, values: dict[str, Array]) -> Product:
        operands = {name: value[at] for name, value in values.items()}
        pair = pair_of(lanes, int(lanes.wave.cta_of_row[row]), form.cta_group, line)
        return Product(lanes.single(at), form, operands, pair, line, op.chip)

    def decoded(lanes: Lanes, at: tuple[int, int], row: int, values: dict[str, Array]) -> Decoded | None:
        return product(lanes, at, row, values).decoded()

    quick = Quick(decoded, line)

    def run(lanes: Lanes) -> None:
        regs = lanes.regs
        threads = [
            (at, (row, *[regs[slot].item(row, at[1]) for slot in slots])) for at, row in lanes.places()
        ]
        if quick.run(lanes, threads, lambda: read(lanes)):
            return
        values = read(lanes)
        for at, held in threads:
            if len(threads) == 1 or not quick.run(lanes, [(at, held)], lambda: values):
                product(lanes, at, held[0], values).run()

    return run


def _spelled(operand: object) -> str:
    """The part of an operand's text that distinguishes forms."""
    if isinstance(operand, Vector):
        return "{" + "," * (len(operand.items) - 1) + "}"
    return "[" if isinstance(operand, Address) else ""


def _reader(op: Op, index: int, operand: Any) -> tuple[Callable[[Lanes], Array], Sequence[int]]:
    """How to read an operand of all lanes, and the registers that have it; lists have a last axis."""
    if isinstance(op.operand(index), Address):
        address = op.address(index, "tensor")
        return address, (address.base, address.offset) if address.offset else (address.base,)
    if operand.role == "immediate":
        value = op.immediate(index)
        if value not in operand.values:
            last = operand.values[-1]
            op.fail(f"{operand.name} must be in 0..{last}, got {value}", op.operand(index).location)
        return lambda lanes: np.full((lanes.warps, 32), value), ()
    if operand.type == "i1":
        slot, negated = op.predicate(index)
        return lambda lanes: lanes.read(slot) ^ negated, (slot,)
    if operand.name == "disable_output_lane":
        slots = [op.source(item, U32) for item in op.items(index)]
        return lambda lanes: np.stack([lanes.read(slot) for slot in slots], axis=-1), slots
    wide = op.source(index, U64 if operand.type == "i64" else U32)
    return lambda lanes: lanes.read(wide), (wide,)


@lru_cache(256)
def _descriptor(word: int, kind: str, group: int, ws: bool, scale_vec: str, a: str) -> Descriptor:
    if KINDS[kind].scales is not None:
        return BlockScaledDescriptor.decode(word, kind, group, scale_vec=scale_vec, a=a)
    return InstructionDescriptor.decode(word, kind, group, ws=ws, a=a)


@dataclass
class Product:
    """One instruction of one thread, with the values of its operands, on a CTA or a pair."""

    one: Lanes
    form: Any
    values: dict[str, Array]
    pair: tuple[int, ...]
    line: int
    chip: str

    def run(self) -> None:
        """Computes D, `[banks, rows, columns]`, of each CTA."""
        descriptor = self._decoded()
        path = self._path(descriptor)
        source = Matrices(self.one, self.form, self.values, descriptor, path, self.line)
        right = self._right(source, descriptor, path)
        kept = bool(self.values["enable_input_d"])
        for rank, cta in enumerate(self.pair):
            if (block := source.block(rank)) is not None:
                shape = path.banks, path.rows, block.columns
                total = source.d_of(cta, block) if kept else _zeros(shape, descriptor)
                result = self._sum(source, descriptor, cta, right, self._scaled(total, descriptor))
                source.write_block(cta, block, result)
                continue
            d_lanes, d_columns = source.d_cells()
            written = self._enabled(d_lanes, rank)
            total = source.d(cta, d_lanes, d_columns, written) if kept else _zeros(d_lanes.shape, descriptor)
            result = self._sum(source, descriptor, cta, right, self._scaled(total, descriptor))
            source.write_d(cta, d_lanes, d_columns, written, result)

    def decoded(self) -> Decoded | None:
        """The operands of a product that code of the host may compute."""
        descriptor, values = self._decoded(), self.values
        plain = self.form.a == "shared" and "zero_column_mask" not in values
        if not plain or descriptor.sparse or int(values.get("scale_input_d", np.array(0))):
            return None
        floats = ELEMENT_TYPES[descriptor.a_type].kind == "float"
        if floats and self.one.wave.launch.arithmetic != "hardware":
            return None
        path = self._path(descriptor)
        source = Matrices(self.one, self.form, values, descriptor, path, self.line)
        how = accumulation.of("tcgen05", descriptor, self.chip) if floats else None
        clamped = isinstance(descriptor, InstructionDescriptor) and descriptor.saturate
        return Decoded(source, self.pair, how, _d_type(descriptor), clamped)

    def _path(self, descriptor: Descriptor) -> DataPath:
        ws = isinstance(self.form, MmaWs)
        return data_path(descriptor.m, self.form.cta_group, sparse=descriptor.sparse, ws=ws)

    def _decoded(self) -> Descriptor:
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

    def _right(self, source: Matrices, descriptor: Descriptor, path: DataPath) -> Array:
        """B, `[banks, k, columns]`."""
        mask = self._mask(descriptor)
        columns = source.b(self.pair, mask.column_shift if mask else 0)
        if mask is not None:
            columns = np.where(
                np.array(mask.zeros(descriptor.m, descriptor.n))[:, None], columns.dtype.type(0), columns
            )
        banks: Array = columns.reshape(path.banks, descriptor.n // path.banks, -1).transpose(0, 2, 1)
        return _negated(banks, descriptor.b_type, descriptor.negate_b)

    def _mask(self, descriptor: Descriptor) -> ZeroColumnMask | None:
        if "zero_column_mask" not in self.values:
            return None
        try:
            mask = ZeroColumnMask.decode(int(self.values["zero_column_mask"]), descriptor.m)
        except ValueError as error:
            raise Fault(str(error), self.line, rule="descriptor") from None
        most = cast(InstructionDescriptor, descriptor).max_shift
        if mask.column_shift > most:
            bound = f"at most {most}, as the instruction descriptor sets it"
            what = f"the column shift must be {bound}, got {mask.column_shift}"
            raise Fault(what, self.line, rule="descriptor")
        return mask

    def _enabled(self, lanes: Numbers, rank: int) -> Array:
        """The cells of D that are written."""
        if "disable_output_lane" not in self.values:
            return np.ones(lanes.shape, np.bool_)
        words = np.ascontiguousarray(self.values["disable_output_lane"][4 * rank : 4 * rank + 4])
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")
        enabled: Array = bits[lanes] == 0
        return enabled

    def _scaled(self, total: Array, descriptor: Descriptor) -> Array:
        """D divided by a power of two, if the instruction specifies it."""
        power = int(self.values.get("scale_input_d", np.array(0)))
        if not power:
            return total
        name = _d_type(descriptor)
        return encode(decode(total, name) * 2.0**-power, name)

    def _sum(self, source: Matrices, descriptor: Descriptor, cta: int, right: Array, total: Array) -> Array:
        left, absent = source.a(cta), None
        if descriptor.sparse:
            chunk = _CHUNKS.get(descriptor.kind, 4)
            left, absent = expanded(left, source.metadata(cta, chunk), chunk)
        left = _negated(left, descriptor.a_type, descriptor.negate_a)
        if len(left) < len(right):
            left = np.broadcast_to(left, (len(right), *left.shape[1:]))
            absent = None if absent is None else np.broadcast_to(absent, left.shape)
        exact = self.one.wave.launch.arithmetic != "hardware"
        floats = ELEMENT_TYPES[descriptor.a_type].kind == "float"
        how = accumulation.of("tcgen05", descriptor, self.chip) if floats and not exact else None
        types = (descriptor.a_type, descriptor.b_type, _d_type(descriptor), _d_type(descriptor))
        scales: tuple[Doubles, Doubles] | None = None
        if isinstance(descriptor, BlockScaledDescriptor):
            scales = source.scales(cta)
        clamped = isinstance(descriptor, InstructionDescriptor) and descriptor.saturate
        return multiply_accumulate(
            left, right, total, types, how, satfinite=clamped, scales=scales, absent=absent
        )


def _d_type(descriptor: Descriptor) -> str:
    return descriptor.d_type if isinstance(descriptor, InstructionDescriptor) else "f32"


def _zeros(shape: tuple[int, ...], descriptor: Descriptor) -> Array:
    return np.zeros(shape, np.uint16 if _d_type(descriptor) == "f16" else np.uint32)


def _negated(matrix: Array, name: str, negate: bool) -> Array:
    return matrix ^ matrix.dtype.type(1 << (ELEMENT_TYPES[name].bits - 1)) if negate else matrix
