"""Words that begin at any byte, from the aligned vectors that contain them."""

from weft.mlir import arith, ir, llvm
from weft.passes.builders import emit

BYTES = 16
"""Bytes of an aligned vector."""
WORDS = BYTES // 4


def shifted(at: ir.Value, words: list[ir.Value], unit: int) -> list[ir.Value]:
    """The four words from an address on, of which `at` (an i32) has the low bits. `words` are the eight of
    the two aligned vectors that contain them. The address is a multiple of `unit` bytes.
    """
    for bit in (8, 4):
        apart = bit // 4
        odd = emit.less(0, emit.bit_and(at, bit))
        words = [arith.select(odd, words[i + apart], words[i]) for i in range(len(words) - apart)]
    if unit % 4 == 0:
        return words[:WORDS]
    bits = emit.mul(emit.bit_and(at, 3), 8)
    return [llvm.intr_fshr(words[i + 1], words[i], bits) for i in range(WORDS)]


def first_bytes(count: ir.Value) -> ir.Value:
    """A word whose first `count` bytes are ones: none if that is negative, all if it is more than three."""
    bits = emit.mul(emit.minimum(emit.maximum(count, 0), 3), 8)
    low = arith.subi(arith.shli(emit.value(1), emit.value(bits)), emit.value(1))
    return arith.select(emit.less(3, count), emit.value(-1), low)


def from_byte(first: ir.Value | int) -> ir.Value:
    """A word whose bytes from `first` on are ones: all if that is negative, none if it is more than three."""
    bits = emit.mul(emit.maximum(emit.minimum(first, 3), 0), 8)
    return arith.select(emit.less(3, first), emit.value(0), arith.shli(emit.value(-1), emit.value(bits)))
