"""The operands of tensor-core instructions as matrices: fragments in registers, and tiles that descriptors
and addresses name.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.emulator.errors import Fault
from weft.emulator.instructions import mma as mma_instructions
from weft.emulator.instructions import shared_operand, tcgen05_mma
from weft.emulator.instructions.fragments import elements
from weft.emulator.instructions.tcgen05_matrices import Product
from weft.emulator.instructions.tcgen05_order import pair_of
from weft.emulator.reading import syntax
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.wave import Wave
from weft.emulator.watching.stopped import Stopped
from weft.emulator.watching.variables import Position
from weft.errors import WeftError
from weft.isa import wgmma, wmma
from weft.isa.mma import fragments as mma_fragments
from weft.isa.suggest import did_you_mean
from weft.isa.tcgen05 import copy as tcgen05_copy
from weft.isa.tcgen05 import mma_rows
from weft.isa.wgmma.descriptors import MatrixDescriptor
from weft.tools.debugger import matrices
from weft.tools.debugger.expressions import Tile

TENSOR = ("mma", "wmma", "wgmma.mma_async", "tcgen05.mma", "tcgen05.ld", "tcgen05.st")
_WGMMA = (wgmma.MMA_ASYNC, wgmma.MMA_ASYNC_SPARSE)
_COPIES = (tcgen05_copy.LD, tcgen05_copy.ST)


@dataclass(frozen=True)
class Site:
    """A tensor-core instruction, its form in the tables, and a thread that executes it."""

    stopped: Stopped
    instruction: syntax.Instruction
    form: Any
    line: int
    row: int
    lane: int

    @property
    def operands(self) -> Mapping[str, Any]:
        """What the tables say of each operand, by its name."""
        return {each.name: each for each in self.form.operands}

    def placed(self, name: str) -> syntax.Operand:
        """An operand in the instruction."""
        return self.instruction.operands[list(self.operands).index(name)]

    def slot(self, name: syntax.Name) -> int:
        """The slot of a register. Raises WeftError for other names."""
        entity = self.instruction.scope.find(name.text)
        if not isinstance(entity, syntax.Register):
            raise WeftError(f"{name.text} isn't a register")
        machine = self.stopped.machine
        return machine.program.codes[self.stopped.function].base + entity.index

    def value(self, operand: syntax.Operand) -> Any:
        """The value of an operand in the thread."""
        if isinstance(operand, syntax.Integer):
            return np.int64(operand.value)
        if isinstance(operand, syntax.Address):
            return self.value(operand.base) + np.uint64(operand.offset % (1 << 64))
        if isinstance(operand, syntax.Negated):
            return ~self.value(operand.name)
        if isinstance(operand, syntax.Vector):
            return np.array([self.value(each) for each in operand.items])
        if isinstance(operand, syntax.Name):
            return self.stopped.wave.regs[self.slot(operand)][self.row, self.lane]
        raise WeftError("this operand has no value")


def nearest(stopped: Stopped, line: int | None) -> Position:
    """The tensor-core instruction at a line of the PTX, by default the last one up to where threads are.
    Raises WeftError where there is none.
    """
    program, here = stopped.machine.program, stopped.line
    found = sorted(
        (traffic.line, at, number)
        for at, block in enumerate(program.blocks)
        for number, traffic in enumerate(block.traffic)
        if is_tensor(traffic.prefix) and block.function == stopped.function
    )
    if not found:
        raise WeftError(f"{stopped.function} has no tensor-core instructions")
    if line is not None:
        exact = [each for each in found if each[0] == line]
        if not exact:
            close = min(found, key=lambda each: abs(each[0] - line))
            raise WeftError(f"PTX line {line} has no tensor-core instruction: the nearest is in {close[0]}")
        return exact[0][1:]
    before = [each for each in found if each[0] <= here]
    if not before:
        raise WeftError(
            f"no tensor-core instruction is above PTX line {here}: the next one is in {found[0][0]}"
        )
    return before[-1][1:]


def is_tensor(prefix: str) -> bool:
    """Whether an opcode is one of those whose operands can be shown."""
    return any(prefix == each or prefix.startswith(f"{each}.") for each in TENSOR)


def site(stopped: Stopped, position: Position, row: int, lane: int) -> Site:
    """A tensor-core instruction."""
    instruction = stopped.instruction_at(position)
    assert instruction is not None
    form, line = _form(instruction), instruction.location.line
    if form is None:
        raise WeftError(f"the operands of {instruction.opcode} can't be shown")
    return Site(stopped, instruction, form, line, row, lane)


def _form(instruction: syntax.Instruction) -> Any:
    opcode, operands = instruction.opcode, instruction.operands
    if opcode.startswith("tcgen05.mma"):
        tries: list[tuple[Any, tuple[str, ...]]] = [
            (each, tuple(map(tcgen05_mma._spelled, operands))) for each in mma_rows.FAMILIES
        ]
    elif opcode.startswith("tcgen05."):
        tries = [(each, ()) for each in _COPIES]
    elif opcode.startswith("wgmma."):
        listed = len(operands) > 1 and isinstance(operands[1], syntax.Vector)
        tries = [(each, ("", "{") if listed else ()) for each in _WGMMA]
    elif opcode.startswith("wmma."):
        tries = [(each, ()) for each in wmma.FAMILIES]
    else:
        tries = [(each, ()) for each in mma_instructions._FAMILIES]
    found = (family.parse(opcode, spelled) for family, spelled in tries)
    return next((form for form in found if form is not None), None)


def names(at: Site) -> list[str]:
    """The operands that are matrices."""
    return [name for name in at.operands if _kind(at, name)]


def _kind(at: Site, name: str) -> str:
    registers = at.operands[name]
    if registers.role == "immediate" or name not in ("a", "b", "c", "d", "data", "r"):
        return ""
    if at.instruction.opcode.startswith("tcgen05.mma"):
        return "tcgen05"
    if registers.layout and registers.count:
        return "registers"
    return "descriptor" if at.instruction.opcode.startswith("wgmma") and name in "ab" else ""


def matrix(at: Site, name: str, dtype: str | None = None) -> Tile:
    """An operand as a matrix. `dtype` is for instructions that have no type of their own. Raises WeftError
    for unknown operands, and for descriptors that break a rule.
    """
    known = names(at)
    if name not in known:
        listed = ", ".join(known) or "none"
        raise WeftError(
            f"{at.instruction.opcode} has no matrix '{name}': it has {listed}{did_you_mean(name, known)}"
        )
    kind = _kind(at, name)
    try:
        if kind == "registers":
            return _in_registers(at, name, dtype)
        return _in_shared(at, name) if kind == "descriptor" else _of_tcgen05(at, name)
    except (Fault, ValueError) as error:
        raise WeftError(getattr(error, "reason", str(error))) from None


def _type(at: Site, name: str) -> str:
    kind = getattr(at.form, f"{name}_type", None) or getattr(at.form, "type", "")
    return str(kind or ("f32" if at.instruction.opcode.startswith("tcgen05") else "b32"))


def _in_registers(at: Site, name: str, dtype: str | None) -> Tile:
    registers, operand = at.operands[name], at.placed(name)
    items: Sequence[syntax.Operand] = operand.items if isinstance(operand, syntax.Vector) else (operand,)
    wave = at.stopped.wave
    held = [None if isinstance(each, syntax.Sink) else wave.regs[_slot(at, each)] for each in items]
    kind = dtype or _type(at, name)
    return matrices.fragment(wave, at.row, name, held, registers.layout, registers.shape, kind)


def _slot(at: Site, operand: syntax.Operand) -> int:
    if not isinstance(operand, syntax.Name):
        raise WeftError("a fragment must be in registers")
    return at.slot(operand)


def _in_shared(at: Site, name: str) -> Tile:
    """A or B of wgmma in shared memory."""
    m, n, k = mma_fragments.mnk(at.form.shape)
    kind, word = _type(at, name), int(at.value(at.placed(name)))
    bits = matrices.bits_of(kind)
    stored = k // 2 if at.form.sparse and name == "a" else k
    flip = f"trans_{name}" in at.operands and bool(at.value(at.placed(f"trans_{name}")))
    rows = m if name == "a" else n
    outer, row_bytes = (stored, rows * bits // 8) if flip else (rows, stored * bits // 8)
    descriptor = MatrixDescriptor.decode(word)
    offsets = shared_operand.chunk_offsets(descriptor, outer, row_bytes, flip)
    shared = at.stopped.shared(int(at.stopped.wave.cta_of_row[at.row]))
    if int(offsets.max()) + 16 > len(shared):
        raise WeftError(f"the descriptor 0x{word:x} names bytes beyond shared memory")
    octets = shared[offsets[:, :, None] + np.arange(16)].reshape(outer, -1)[:, :row_bytes]
    found = matrices.typed(elements(np.ascontiguousarray(octets), bits).reshape(outer, -1), kind)
    found = found.T if flip else found
    where = f"{name}: {matrices.size_of(found.shape)} {kind} in shared memory at 0x{descriptor.address:x}"
    return Tile(found, f"{where}, {'M' if name == 'a' else 'N'} x K, swizzle {descriptor.swizzle} undone")


def _of_tcgen05(at: Site, name: str) -> Tile:
    """A, B or D of tcgen05.mma."""
    wave = at.stopped.wave
    mask = np.zeros((wave.warps, 32), np.bool_)
    mask[at.row, at.lane] = True
    lanes = Lanes(wave, None, mask, wave.warps)
    values = {
        each: at.value(operand) for each, operand in zip(at.operands, at.instruction.operands, strict=True)
    }
    cta = int(wave.cta_of_row[at.row])
    pair = pair_of(lanes, cta, at.form.cta_group, at.line)
    chip = at.stopped.machine.program.chip
    product = Product(lanes, at.form, values, pair, at.line, chip)
    with _unwatched(wave):
        if name == "d":
            kind = product.d_type
            lane, column = product.d_cells()
            bits = wave.tensor_memory.cells(cta)[lane, column].astype(product.d_storage)
            where = matrices.at_tensor(int(lane.flat[0]) << 16 | int(column.flat[0]))
        else:
            kind = str(getattr(product.idesc, f"{name}_type"))
            bits = product.a(cta) if name == "a" else product.b()
            where = "shared memory" if name == "b" or at.form.a == "shared" else "tensor memory"
    found = matrices.typed(bits, kind)
    found = found.reshape(found.shape[-2:]) if found.size == np.prod(found.shape[-2:]) else found
    note = "" if name == "d" else f", {'M' if name == 'a' else 'N'} x K, swizzle undone"
    return Tile(found, f"{name}: {matrices.size_of(found.shape)} {kind} in {where}{note}")


@contextmanager
def _unwatched(wave: Wave) -> Iterator[None]:
    """In the block, no observer learns of accesses: those of a debugger aren't the kernel's."""
    watch, wave.watch = wave.watch, None
    try:
        yield
    finally:
        wave.watch = watch
