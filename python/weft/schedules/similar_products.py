"""What is special about a product that a chip can't multiply, and which similar ones it can."""

from collections.abc import Iterator
from dataclasses import replace

from weft.dialects.element_types import FP8_TYPES
from weft.dialects.product_types import Types
from weft.dialects.schedule import needed_chips
from weft.isa.chips import describe
from weft.isa.mma import BIT_OPS

#  an element type: those that are used in its place, the most similar one first
_SIMILAR = {
    **dict.fromkeys(("f4E2M1FN", "f6E2M3FN", "f6E3M2FN"), ("f8E4M3FN", "f16")),
    **dict.fromkeys(FP8_TYPES, ("f16",)),
    **dict.fromkeys(("i1", "i4", "i8"), ("i8", "f16")),
    **dict.fromkeys(("ui4", "ui8"), ("ui8", "f16")),
    "f64": ("f32", "f16"),
    "f32": ("bf16", "f16"),
    "bf16": ("f16",),
}


def product_text(types: Types) -> str:
    """The types of A and B, and which scales, sums and groups the product has."""
    parts = [f"{types.a} and {types.b}"]
    if types.scale:
        words = f" in words of {types.words} elements each" if types.words else ""
        parts.append(f"block scales of {types.scale}{words}")
    if types.scaled:
        parts.append("scales of f32" + (" for each column of B" if types.scale_columns else ""))
    elif types.promoted:
        parts.append("promoted sums")
    if types.bit_op:
        parts.append(types.bit_op)
    if types.half_sums:
        parts.append("sums of f16")
    if types.grouped:
        parts.append("groups along K" if types.k_groups else "groups")
    return " with ".join([parts[0], " and ".join(parts[1:])]) if parts[1:] else parts[0]


def unsupported(types: Types, chip: str) -> str | None:
    """Why no family multiplies a product on a chip: what is special about it, the chips that it needs, and
    the most similar product that the chip multiplies.
    """
    needed = needed_chips(types)
    if chip in needed:
        return None
    near = next((text for text, other in _similar(types) if chip in needed_chips(other)), "")
    if not needed:
        somewhere = (text for text, other in _similar(types) if needed_chips(other))
        other = near or next(somewhere, "")
        found = f"has no schedule that multiplies {product_text(types)} for D of {types.d}"
        return f"{found}: use {other}" if other else found
    d = f" for D of {types.d}" if types.d in FP8_TYPES else ""
    found = (
        f"has no schedule for {chip} that multiplies {product_text(types)}{d}: it needs {describe(needed)}"
    )
    return f"{found}, or {near}" if near else found


def _similar(types: Types) -> Iterator[tuple[str, Types]]:
    """Similar products, and how to name what is different, the most similar one first."""
    if types.words:
        yield "scales in the 128x4 layout (weft.tiled_scales)", replace(types, words=0)
    plain = replace(types, promoted=False, scaled=False, scale_columns=False)
    single = replace(types, grouped=False, k_groups=False)
    unscaled = replace(types, scale="", words=0)
    if types.d in FP8_TYPES:
        yield "D of f32", replace(types, d="f32")
    if types.grouped:
        yield f"a product without {'groups along K' if types.k_groups else 'groups'}", single
    if types.promoted:
        yield f"sums without {'scales' if types.scaled else 'promote'}", plain
    if types.bit_op:
        yield from ((each, replace(types, bit_op=each)) for each in BIT_OPS if each != types.bit_op)
    if types.half_sums:
        yield "sums of f32", replace(types, half_sums=False)
    if types.scale:
        yield "A and B without block scales", unscaled
    if types.grouped and types.promoted:
        yield "a product without groups, scales and promote", replace(plain, grouped=False, k_groups=False)
    if types.grouped and types.scale:
        yield "a product without groups and block scales", replace(unscaled, grouped=False, k_groups=False)
    if types.a != types.b:
        yield from ((f"A and B of {each}", Types(each, each, types.d)) for each in (types.a, types.b))
    for each in _SIMILAR.get(types.a, ()):
        d = "i32" if each in ("i8", "ui8") else "f32"
        yield f"A and B of {each}", Types(each, each, d)
