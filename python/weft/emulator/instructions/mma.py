"""`mma.sync`, `mma.sp` and their block-scaled forms; forms and fragments are those of `weft.isa`."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import Collective, Table
from weft.emulator.instructions.fragments import Chosen, Fragment, Sparse, matrix_index
from weft.emulator.numerics.arithmetic import decode
from weft.emulator.numerics.floats import Doubles
from weft.emulator.numerics.native_sums import multiply_accumulate
from weft.emulator.reading.syntax import TYPES, Array, Bools, Integer, Operand
from weft.emulator.running.lanes import Lanes
from weft.emulator.watch import Marks
from weft.isa import accumulation
from weft.isa.accumulation import Accumulation
from weft.isa.availability import needs_version
from weft.isa.chips import CHIPS
from weft.isa.family import Family, Registers, number_choice
from weft.isa.mma import fragments as mma_fragments
from weft.isa.mma import scaled as mma_scaled
from weft.isa.mma import sparse as mma_sparse
from weft.isa.mma import sync as mma_sync
from weft.isa.types import ELEMENT_TYPES

table = Table()
_FAMILIES: tuple[Family[Any], ...] = (
    mma_sync.SYNC,
    mma_sparse.SPARSE,
    mma_scaled.SCALED,
    mma_scaled.SPARSE_SCALED,
)
_BYTE = 8
_MOST_FORMS = 1024


@table.collective("mma")
def mma(op: Op) -> Collective:
    form = legal_form(op, _FAMILIES)
    operands = _registers(form)
    placed = _operands(op, operands)
    types = (form.a_type, form.b_type, form.c_type, form.d_type)
    packed = getattr(form, "packed", False)
    d, a, b, c = (
        Fragment(op, placed[name], operands[name], _bits(kind, packed), name == "d", kind)
        for name, kind in zip("dabc", (types[3], *types[:3]), strict=True)
    )
    sparse = "metadata" in operands and Sparse(
        op, placed, operands, form.mnk[2], mma_fragments.chunk(form.a_type, packed=packed)
    )
    scales = _scales(op, form, placed, operands)
    rule = _rule(form, op.chip)
    satfinite = getattr(form, "satfinite", False)
    bit_op = getattr(form, "bit_op", "")
    rounding = getattr(form, "rounding", "")

    def spread(marks: Callable[[int], Bools]) -> Marks:
        rows = np.logical_or.reduce(a.marked(marks), axis=-1)[..., :, None]
        columns = np.logical_or.reduce(b.marked(marks), axis=-2)[..., None, :]
        return d.marks(rows | columns | c.marked(marks))

    op.spread = spread

    def run(lanes: Lanes) -> None:
        how = rule if lanes.wave.launch.arithmetic == "hardware" else None
        left, absent = a.read(lanes), None
        if sparse:
            left, absent = sparse.expanded(lanes, left)
        result = multiply_accumulate(
            *(_batch(left), _batch(b.read(lanes)), _batch(c.read(lanes)), types, how),
            satfinite=satfinite,
            bit_op=bit_op,
            rounding=rounding,
            scales=scales(lanes) if scales else None,
            absent=absent,
        )
        d.write(lanes, result)

    return Collective(run)


def legal_form(op: Op, families: tuple[Family[Any], ...], operands: tuple[str, ...] = ()) -> Any:
    """The form of an opcode, and of its operands' texts if they matter. PtxError if the chip lacks it."""
    target = op.target if op.target in CHIPS else None
    form, complaint = _judged(op.opcode, families, operands, target, op.version)
    if complaint:
        op.fail(complaint)
    op.modifiers.clear()
    return form


@lru_cache(maxsize=_MOST_FORMS)
def _judged(
    opcode: str,
    families: tuple[Family[Any], ...],
    operands: tuple[str, ...],
    target: str | None,
    version: tuple[int, int],
) -> tuple[Any, str]:
    """The form of an opcode, and what is wrong with it. A kernel has few opcodes of matrix instructions."""
    for family in families:
        form = family.parse(opcode, operands)
        if form is not None:
            verdict = family.judge(form, target) or needs_version(family.table[form].ptx, version)
            return form, "" if verdict is None else str(verdict)
    return None, "unsupported form"


@lru_cache(maxsize=_MOST_FORMS)
def _registers(form: Any) -> dict[str, Registers]:
    return {registers.name: registers for registers in form.operands}


def _operands(op: Op, operands: dict[str, Registers]) -> dict[str, Operand]:
    """The operands by name. The byte id and thread id of scales follow them in braces."""
    names = [n for n in operands if not n.startswith("thread_id")]
    op.count(len(names))
    placed = {name: op.operand(i) for i, name in enumerate(names)}
    for name in [n for n in names if n.startswith("byte_id")]:
        both = op.items(placed[name])
        if len(both) != 2:
            op.fail("expects {byte id, thread id} after the scales", placed[name].location)
        placed[name], placed[name.replace("byte", "thread")] = both
    for name, operand in placed.items():
        legal = operands[name].values
        if legal and isinstance(operand, Integer) and operand.value not in legal:
            op.fail(f"{name} must be {number_choice(legal)}, got {operand.value}", operand.location)
    return placed


def _bits(name: str, packed: bool) -> int:
    """The bits from one element to the next in a register."""
    element = ELEMENT_TYPES[name]
    return max(element.bits, _BYTE) if element.kind == "float" and not packed else element.bits


def _batch(matrix: Array) -> Array:
    """Matrices one after the other, also if a warp has several."""
    return matrix.reshape(-1, *matrix.shape[-2:])


@lru_cache(maxsize=_MOST_FORMS)
def _rule(form: Any, chip: str) -> Accumulation:
    return accumulation.of("mma", form, chip)


def _scales(
    op: Op, form: Any, placed: dict[str, Operand], operands: dict[str, Registers]
) -> Callable[[Lanes], tuple[Doubles, Doubles]] | None:
    """How to read the scales of A's rows, `[warps, m, blocks]`, and of B's columns, `[warps, blocks, n]`."""
    if "scale_a" not in operands:
        return None
    readers = []
    for side in "ab":
        registers, threads = operands[f"scale_{side}"], operands[f"thread_id_{side}"]
        thread = op.source(placed[f"thread_id_{side}"], TYPES["u16"])
        chosen = Chosen(op, placed[f"scale_{side}"], registers, thread, 4 // len(threads.values))
        readers.append((chosen, op.source(placed[f"byte_id_{side}"], TYPES["u16"]), registers))

    def read(lanes: Lanes) -> tuple[Doubles, Doubles]:
        scales = []
        for chosen, byte, registers in readers:
            words = chosen.words(lanes) >> (np.uint32(8) * lanes.read(byte).astype(np.uint32))
            count = min(registers.shape)
            octets = words.view(np.uint8).reshape(lanes.warps, 32, 4)[:, :, :count].reshape(lanes.warps, -1)
            codes = octets.take(matrix_index(registers.layout, registers.shape, count), axis=1)
            scales.append(decode(codes.reshape(lanes.warps, *registers.shape), form.scale_type))
        return scales[0], scales[1]

    return read
