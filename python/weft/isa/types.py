"""Element types as PTX names them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ElementType:
    """One PTX element type; `bits` counts a single element, unpacked."""

    name: str
    bits: int
    kind: str  # "float", "int" (signed), "uint" or "bit"

    def __str__(self) -> str:
        return self.name


F16 = ElementType("f16", 16, "float")
BF16 = ElementType("bf16", 16, "float")
F32 = ElementType("f32", 32, "float")

ELEMENT_TYPES = {t.name: t for t in (F16, BF16, F32)}
