"""Fragments of the warp-level matrix instructions: which lane and register element holds which matrix element
(PTX ISA, "Matrix Fragments for mma.m16n8k8" and the sections next to it).

Lane 4g + t holds rows g and g + 8 of A, C and D and column g of B; its elements of a 32-bit register are
consecutive along k, and a k beyond four registers' opens the next ones. Layouts are in the notation of
`weft.layout`; `m` counts elements of a lane, in the order of its registers.
"""

import re
from functools import cache

from weft.isa.family import Registers
from weft.isa.types import ELEMENT_TYPES, F16, F64

REGISTER_BITS = 32
LANES_OF_ROW = 4
"""Lanes that hold a row of A, or a column of B, and eight rows of D each a quarter."""
_CONTAINER_BITS = 8
"""What an fp6 or fp4 element takes in a register, except in the kinds that pack fp4 in pairs."""


@cache
def mnk(shape: str) -> tuple[int, int, int]:
    """The extents in a shape's name."""
    m, n, k = re.findall(r"\d+", shape)
    return int(m), int(n), int(k)


def _packing(name: str, k: int, packed: bool) -> tuple[int, int, str]:
    """Elements in a register, registers along k, and the register's LLVM type."""
    element = ELEMENT_TYPES[name]
    if element is F64:
        return 1, max(k // 4, 1), "f64"
    bits = max(element.bits, _CONTAINER_BITS) if element.kind == "float" and not packed else element.bits
    pack = REGISTER_BITS // bits
    return pack, max(k // (4 * pack), 1), "vector<2xf16>" if element is F16 else "i32"


def input_a(name: str, m: int, k: int, *, packed: bool = False) -> Registers:
    """A: m x k, or what is stored of a sparse one. `packed` fp4 shares bytes."""
    pack, high, register = _packing(name, k, packed)
    layout = f"S[({m // 8},8,{high},4,{pack}):({pack},4@laneid,{m // 8 * pack},1@laneid,1)]"
    return Registers("a", m // 8 * high, register, layout, (m, k))


def input_b(name: str, k: int, n: int, *, packed: bool = False) -> Registers:
    """B: k x n."""
    pack, high, register = _packing(name, k, packed)
    layout = f"S[({high},4,{pack},{n}):({pack},1@laneid,1,4@laneid)]"
    return Registers("b", high, register, layout, (k, n))


def accumulator(operand: str, name: str, m: int, n: int) -> Registers:
    """C or D: m x n."""
    layout = f"S[({m // 8},8,4,{n // 4}):({n // 4},4@laneid,1@laneid,1)]"
    return _accumulator(operand, name, m * n // 32, layout, (m, n))


def _accumulator(operand: str, name: str, elements: int, layout: str, shape: tuple[int, ...]) -> Registers:
    role = "out" if operand == "d" else "in"
    if ELEMENT_TYPES[name] is F16:
        return Registers(operand, elements // 2, "vector<2xf16>", layout, shape, role)
    kind = {"f32": "f32", "f64": "f64"}.get(name, "i32")
    return Registers(operand, elements, kind, layout, shape, role)


# mma.m8n8k4 on f16 is four products at once (PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16 floating
# point type"): lanes 4q to 4q + 3 and 4q + 16 to 4q + 19 hold the q-th. Their shapes begin with those four.
_QUADS = 4


def quad_a(layout: str) -> Registers:
    """A: four times 8 x 4."""
    row, k = ("1@laneid", "1") if layout == "row" else ("1", "1@laneid")
    return Registers("a", 2, "vector<2xf16>", f"S[(4,2,4,4):(4@laneid,16@laneid,{row},{k})]", (_QUADS, 8, 4))


def quad_b(layout: str) -> Registers:
    """B: four times 4 x 8."""
    k, column = ("1@laneid", "1") if layout == "row" else ("1", "1@laneid")
    return Registers(
        "b", 2, "vector<2xf16>", f"S[(4,4,2,4):(4@laneid,{k},16@laneid,{column})]", (_QUADS, 4, 8)
    )


def quad_accumulator(operand: str, name: str) -> Registers:
    """C or D: four times 8 x 8; f32 ones are spread over lanes in another way than f16 ones."""
    layout = "S[(4,2,4,8):(4@laneid,16@laneid,1@laneid,1)]"
    if name != "f16":
        layout = "S[(4,2,2,2,2,2,2):(4@laneid,16@laneid,2,1@laneid,4,2@laneid,1)]"
    return _accumulator(operand, name, 8, layout, (_QUADS, 8, 8))


# A sparse A: of each chunk of its rows half is stored, and four bits of metadata say which half (PTX ISA,
# "Warp-level matrix instructions with sparse matrices"). A chunk is 4 elements, of which 2 are stored, each
# with two bits; 2 of tf32, of which one is (0b1110 or 0b0100); 8 of the packed types, by pairs.
_METADATA_BITS = 4


def chunk(name: str, *, packed: bool = False) -> int:
    """Elements of a row of A to four bits of metadata."""
    if name == "tf32":
        return 2
    return 8 if packed or name in ("s4", "u4") else 4


def metadata(name: str, m: int, k: int, *, packed: bool = False) -> tuple[Registers, Registers]:
    """The metadata of a sparse A, whose layout maps chunks (elements of four bits), and the selector: which
    lanes of each quad hold it, `selector * lanes` being the first.
    """
    chunks = max(k // chunk(name, packed=packed), 4)
    lanes = chunks // 4
    # Of 16-bit and wider types a lane has four chunks of rows g and g + 8, of the others eight of one row.
    layout = f"S[({m // 8},8,{lanes},4):(4,4@laneid,1@laneid,1)]"
    if ELEMENT_TYPES[name].bits <= _CONTAINER_BITS:
        layout = f"S[({m // 8},8,{max(lanes // 2, 1)},8):(1@laneid,4@laneid,2@laneid,1)]"
    values = tuple(range(max(4 // lanes, 1)))
    return (
        Registers("metadata", 1, "i32", layout, (m, chunks)),
        Registers("selector", 1, "i32", role="immediate", values=values),
    )


def scales(operand: str, extent: int, count: int) -> tuple[Registers, Registers, Registers]:
    """The scales of A's rows or B's columns, `count` bytes each: their register, the byte where they begin
    and the lanes of a quad that hold them (PTX ISA, "Scale Factor A matrix layouts").

    The layout is that of byte 0 and lanes 0; one thread id more is the next two lanes for A, the next for B.
    """
    layout = f"S[({extent // 8},8,{count}):(1@laneid,4@laneid,1)]"
    shape: tuple[int, ...] = (extent, count)
    if operand == "b":
        layout, shape = f"S[({count},{extent}):(1,4@laneid)]", (count, extent)
    threads = 2 if operand == "a" else 4
    return (
        Registers(f"scale_{operand}", 1, "i32", layout, shape),
        Registers(f"byte_id_{operand}", 1, "i16", values=tuple(range(0, 4, count))),
        Registers(f"thread_id_{operand}", 1, "i16", values=tuple(range(threads))),
    )
