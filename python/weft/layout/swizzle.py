"""The swizzles of a layout's memory: which bits of a byte address are exchanged."""

from dataclasses import dataclass

from weft.errors import shown
from weft.layout.arguments import LayoutError


@dataclass(frozen=True)
class Swizzle:
    """XOR of `bits` bits of a byte address, from bit `base` up, with the bits that lie `shift` above them."""

    name: str
    bits: int
    base: int = 4
    shift: int = 3

    @property
    def period(self) -> int:
        """The bytes after which the swizzle repeats: it permutes each aligned block of them."""
        return 1 << (self.base + self.shift + self.bits)

    def swizzle_offset(self, byte_offset: int) -> int:
        """The byte that `byte_offset` moves to; permutes each aligned `2**(base + shift + bits)` bytes."""
        mask = ((1 << self.bits) - 1) << self.base
        return byte_offset ^ (byte_offset >> self.shift & mask)

    def swizzle_element(self, offset: int, element_bits: int | None) -> int:
        """`swizzle_offset` in elements, whose size must divide the 16 bytes that move together."""
        unit = 8 << self.base
        if not isinstance(element_bits, int) or element_bits < 1 or unit % element_bits:
            raise LayoutError(
                f"swizzle {self.name} needs element_bits dividing {unit}, got {shown(element_bits)}"
            )
        byte, bit = divmod(offset * element_bits, 8)
        return (self.swizzle_offset(byte) * 8 + bit) // element_bits


SWIZZLES = {s.name: s for s in (Swizzle("128B", 3), Swizzle("64B", 2), Swizzle("32B", 1))}
