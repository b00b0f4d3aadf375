"""Swizzles: permutations of the byte addresses of a layout in memory."""

from dataclasses import dataclass

from weft.errors import shown
from weft.layout.arguments import LayoutError


@dataclass(frozen=True)
class Swizzle:
    """XOR of `bits` bits of a byte address, from bit `base` on, with the bits that are `shift` higher."""

    name: str
    bits: int
    base: int = 4
    shift: int = 3

    @property
    def width(self) -> int:
        """The bytes of a row of the pattern, among which the swizzle moves data."""
        return 1 << (self.base + self.bits)

    @property
    def period(self) -> int:
        """The number of bytes after which the swizzle repeats. It permutes each aligned block of that
        size.
        """
        return 1 << (self.base + self.shift + self.bits)

    def swizzle_offset(self, byte_offset: int) -> int:
        """The byte offset to which the swizzle moves `byte_offset`."""
        mask = ((1 << self.bits) - 1) << self.base
        return byte_offset ^ (byte_offset >> self.shift & mask)

    def swizzle_element(self, offset: int, element_bits: int | None) -> int:
        """`swizzle_offset` in elements. Raises LayoutError unless their size divides the unit of 16 bytes."""
        unit = 8 << self.base
        if not isinstance(element_bits, int) or element_bits < 1 or unit % element_bits:
            raise LayoutError(
                f"element_bits must divide {unit} for swizzle {self.name}, got {shown(element_bits)}"
            )
        byte, bit = divmod(offset * element_bits, 8)
        return (self.swizzle_offset(byte) * 8 + bit) // element_bits


SWIZZLES = {
    s.name: s
    for s in (
        Swizzle("128B", 3),
        Swizzle("64B", 2),
        Swizzle("32B", 1),
        Swizzle("128B_32B", 2, base=5, shift=2),
    )
}
"""By name. `128B_32B` moves 32 bytes at a time: `tcgen05` needs it for some operands."""
