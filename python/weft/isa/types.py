"""Element types as PTX names them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ElementType:
    """One PTX element type; `bits` counts a single element, unpacked."""

    name: str
    bits: int
    kind: str  # "float", "int" (signed), "uint", "bit", or "scale" (unsigned float)

    def __str__(self) -> str:
        return self.name


F16 = ElementType("f16", 16, "float")
BF16 = ElementType("bf16", 16, "float")
TF32 = ElementType("tf32", 32, "float")
F32 = ElementType("f32", 32, "float")
F64 = ElementType("f64", 64, "float")
E4M3 = ElementType("e4m3", 8, "float")
E5M2 = ElementType("e5m2", 8, "float")
E3M2 = ElementType("e3m2", 6, "float")
E2M3 = ElementType("e2m3", 6, "float")
E2M1 = ElementType("e2m1", 4, "float")
S32 = ElementType("s32", 32, "int")
S8 = ElementType("s8", 8, "int")
S4 = ElementType("s4", 4, "int")
U8 = ElementType("u8", 8, "uint")
U4 = ElementType("u4", 4, "uint")
B1 = ElementType("b1", 1, "bit")
UE8M0 = ElementType("ue8m0", 8, "scale")
UE4M3 = ElementType("ue4m3", 8, "scale")

_TYPES = (
    *(F16, BF16, TF32, F32, F64, E4M3, E5M2, E3M2, E2M3, E2M1),
    *(S32, S8, S4, U8, U4, B1, UE8M0, UE4M3),
)  # fmt: skip
ELEMENT_TYPES = {t.name: t for t in _TYPES}
