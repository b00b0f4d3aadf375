"""Runs steps of the emulator by the interpreter and as compiled pieces, on the same registers."""

import ctypes
from types import SimpleNamespace

import numpy as np

from weft.emulator import native
from weft.emulator.compiled.pieces import CHUNKS, OCTETS, SCRATCH, Layout, Piece, Registers, module, trace
from weft.emulator.decoding.decode import Op
from weft.emulator.errors import PtxError
from weft.emulator.instructions import TABLE
from weft.emulator.launch import Module
from weft.emulator.reading.syntax import STORAGE, TYPES, Instruction, Name
from weft.emulator.running.lanes import Lanes
from weft.isa.chips import NEWEST_PTX

ROWS = 6
HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k() { ret; }"
WORDS = """
rn rz rm rp ftz sat rn.ftz rz.ftz rn.sat rn.ftz.sat relu rn.relu NaN ftz.NaN NaN.xorsign.abs ftz.xorsign.abs
cc lo hi wide lo.cc hi.cc hi.sat clamp wrap l.clamp l.wrap r.clamp r.wrap approx approx.ftz full full.ftz
rni rzi rmi rpi rni.ftz rzi.ftz rni.sat rz.satfinite rn.satfinite rna rna.satfinite rn.relu.satfinite
shiftamt f4e b4e rc8 ecl ecr rc16 and or finite infinite number notanumber normal subnormal
eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan lt.ftz eq.and ne.or lt.xor gt.and.ftz
"""
FLAGS = WORDS.split()
TWO_TYPES = ("cvt", "set", "slct", "dp4a", "dp2a")


class AnyOperands(Op):
    """An instruction whose operands have the widths that its decoder asks for."""

    def __init__(self, opcode, prefix, count, code):
        location = code.function.location
        names = tuple(Name(f"x{i}", location) for i in range(count))
        instruction = Instruction(location, opcode, names, None, False, code.function.scope)
        super().__init__(instruction, prefix, code, "sm_100a", "sm_100a", NEWEST_PTX)

    def source(self, operand, kind, any_width=False):
        self.reads.append(self.slots.new(kind))
        return self.reads[-1]

    def destination(self, operand, kind, any_width=False):
        self.writes.append(self.slots.new(kind))
        return self.writes[-1]

    def predicate(self, operand):
        return self.source(operand, TYPES["pred"]), len(self.reads) % 2 == 1

    def immediate(self, operand):
        return 0x96


def fresh():
    """The code of an empty kernel, whose slots grow with each decoded instruction."""
    return Module(HEAD)._program("k", "sm_100a").entry


def forms(prefix, code):
    """Every form of an opcode that the table's decoders accept: the opcode, and its step."""
    kinds = [f".{name}" for name in TYPES]
    if prefix in TWO_TYPES:
        kinds += [f".{a}.{b}" for a in TYPES for b in TYPES]
    kinds += [".f32.f16", ".f32.bf16"]
    for flags in ("", *(f".{each}" for each in FLAGS)):
        for kind in ("", *kinds):
            opcode = f"{prefix}{flags}{kind}"
            found = TABLE.find(opcode)
            if found is None or found[0] != prefix or found[1] not in _steps():
                continue
            for count in range(1, 7):
                op = AnyOperands(opcode, prefix, count, code)
                try:
                    step = found[1](op)
                    op.done()
                except PtxError:  # it has no such form
                    continue
                yield f"{opcode} of {count}", step


def _steps():
    return {*TABLE.steps.values(), *TABLE.floats.values()}


def values(bits, rng):
    """Registers of a width: random bits, and those at the edges of integers and floating-point formats."""
    shape = ROWS, 32
    if bits == 1:
        return rng.integers(0, 2, shape).astype(bool)
    if bits == 128:
        return rng.integers(0, 1 << 63, (*shape, 2), dtype=np.uint64).view(np.complex128)[..., 0]
    size = bits // 8
    random = rng.integers(0, (1 << bits) - 1, shape, dtype=f"u{size}", endpoint=True)
    edges = _edges(bits)
    chosen = edges[rng.integers(0, len(edges), shape)]
    small = rng.integers(0, 70, shape).astype(f"u{size}")
    floats = random
    if bits >= 16:
        scaled = rng.standard_normal(shape) * 2.0 ** rng.integers(-8, 8, shape)
        floats = scaled.astype({16: np.float16, 32: np.float32, 64: np.float64}[bits]).view(f"u{size}")
    if bits == 32:
        halves = _edges(16)[rng.integers(0, len(_edges(16)), (*shape, 2))]
        random = np.where(rng.random(shape) < 0.3, halves.view(np.uint32)[..., 0], random)
    return np.choose(rng.integers(0, 4, shape), [random, chosen, small, floats]).astype(f"u{size}")


def _edges(bits):
    top = 1 << bits
    found = {0, 1, 2, top - 1, top - 2, top >> 1, (top >> 1) - 1, (top >> 1) + 1}
    for exponent, fraction in {16: [(5, 10), (8, 7)], 32: [(8, 23)], 64: [(11, 52)], 8: []}[bits]:
        infinity = ((1 << exponent) - 1) << fraction
        one = ((1 << (exponent - 1)) - 1) << fraction
        least = 1 << fraction
        for value in (
            infinity,
            infinity + 1,
            infinity | least >> 1,
            infinity - 1,
            one,
            one + 1,
            one - 1,
            least,
        ):
            found |= {value, value | top >> 1}
        found |= {least - 1, least - 1 | top >> 1, one + (31 << fraction), one + (32 << fraction)}
    return np.array(sorted(v & (top - 1) for v in found), f"u{bits // 8}")


def differences(steps, slots, seed=0):
    """The named steps whose compiled form writes other bits, with what differs, and the number of steps that
    have code.
    """
    registers, layout, rng = Registers(slots), Layout(slots.bits), np.random.default_rng(seed)
    pieces = []
    for name, step in steps:
        found = trace(step, registers)
        piece = Piece(f"piece_{len(pieces)}", layout)
        if found is not None and found.access is None and found.writes and piece.add(found):
            piece.end()
            pieces.append((name, step, [slot for slot, _, _ in found.writes], piece))
    if not pieces:
        return [], 0
    texts = module([piece for *_, piece in pieces])
    code = native.addresses(texts, sorted({piece.function for *_, piece in pieces}), code=0)
    wrong = []
    for name, step, written, piece in pieces:
        for mask in (None, rng.random((ROWS, 32)) < 0.5):
            if found := _difference(step, written, piece, code[piece.function], mask, (slots, layout, rng)):
                wrong.append(f"{name}: {found}")
                break
    return wrong, len(pieces)


def _difference(step, written, piece, address, mask, where):
    slots, layout, rng = where
    regs = _constants(slots)
    for slot in {*piece._before, *written, *_inputs(step, slots)}:
        if slot not in regs:
            regs[slot] = values(slots.bits[slot], rng)
    start = dict(regs)
    wave = SimpleNamespace(regs=regs, warps=ROWS)
    with np.errstate(all="ignore"):
        step(Lanes(wave, None, mask, ROWS))
    file = np.zeros((ROWS, layout.size), np.uint8)
    scratch = np.zeros((ROWS, SCRATCH), np.uint8)
    for slot, begin in layout.offsets.items():
        if slot in start:
            octets = np.ascontiguousarray(start[slot]).view(np.uint8).reshape(ROWS, -1)
            file[:, begin : begin + octets.shape[1]] = octets
    masks = np.full(ROWS, 0xFFFFFFFF, np.uint32)
    if mask is not None:
        masks = np.packbits(mask, axis=1, bitorder="little").view(np.uint32).reshape(-1)
    rows = np.arange(ROWS) * layout.size + file.ctypes.data
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5, ctypes.c_int64)(address)
    arrays = rows, scratch, masks, OCTETS, np.array(piece.offsets, np.int64)
    run(*(array.ctypes.data for array in arrays), CHUNKS * ROWS)
    for slot in written:
        storage, begin = STORAGE[slots.bits[slot]], layout.offsets[slot]
        got = file[:, begin : begin + 32 * storage.itemsize].copy().view(f"u{min(8, storage.itemsize)}")
        want = np.ascontiguousarray(np.broadcast_to(regs[slot], (ROWS, 32))).view(got.dtype)
        differ = got != want
        if mask is not None:
            # The driver restores inactive lanes.
            differ &= np.repeat(mask, want.shape[1] // 32, axis=1)
        if differ.any():
            at = np.unravel_index(int(differ.argmax()), got.shape)
            inputs = {s: hex(int(start[s][at])) for s in start if slots.bits[s] <= 64 and s not in written}
            return f"{hex(int(got[at]))} for {hex(int(want[at]))}, inputs {inputs}"
    return ""


def _constants(slots):
    return {
        slot: np.full(
            (ROWS, 32), np.frombuffer(value.to_bytes(max(1, bits // 8), "little"), STORAGE[bits])[0]
        )
        for (value, bits), slot in slots.constants.items()
    }


def _inputs(step, slots):
    """The registers that a step reads."""
    registers = Registers(slots)
    asked = []
    read = registers.read
    registers.read = lambda slot: (asked.append(slot), read(slot))[1]
    trace(step, registers)
    return asked
