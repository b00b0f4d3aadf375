"""A refusal names what is special about a product, the chips that it needs, and a similar product."""

import re

import pytest

from weft.dialects.schedule import Types, needed_chips
from weft.isa.chips import CHIPS, describe
from weft.schedules import choice

FP8 = ("f8E4M3FN", "f8E4M3FN", "f32")
NVFP4 = Types("f4E2M1FN", "f4E2M1FN", "f32", scale="f8E4M3FN")
WORDS = Types(*FP8, scale="f8E8M0FNU", words=128)


@pytest.mark.parametrize(
    ("types", "chip", "special", "near"),
    [
        (Types(*FP8), "sm_80", "f8E4M3FN and f8E4M3FN:", "A and B of f16"),
        (Types(*FP8, promoted=True), "sm_80", "with promoted sums:", "A and B of f16"),
        (Types(*FP8, grouped=True), "sm_86", "with groups:", "A and B of f16"),
        (NVFP4, "sm_90a", "with block scales of f8E4M3FN:", "A and B of f8E4M3FN"),
        (WORDS, "sm_90a", "in words of 128 elements each:", "A and B without block scales"),
        (WORDS, "sm_120a", "in words of 128 elements each:", "scales in the 128x4 layout"),
        (Types("f16", "f16", "f8E5M2"), "sm_80", "for D of f8E5M2:", "D of f32"),
        (Types("f64", "f64", "f64"), "sm_75", "f64 and f64:", "A and B of f16"),
        (Types("bf16", "bf16", "f32"), "sm_75", "bf16 and bf16:", "A and B of f16"),
    ],
)
def test_a_refusal_names_what_is_special(types: Types, chip: str, special: str, near: str) -> None:
    said = choice.complaint(types, chip) or ""
    assert f"has no schedule for {chip} that multiplies" in said
    assert f"{special} it needs {describe(needed_chips(types))}" in said
    assert f", or {near}" in said


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("types", [Types(*FP8), NVFP4, WORDS, Types("f64", "f64", "f64")], ids=str)
def test_the_similar_product_is_legal(types: Types, chip: str) -> None:
    said = choice.complaint(types, chip)
    if said and (other := re.search(r", or A and B of (\w+)$", said)):
        assert choice.complaint(Types(other[1], other[1], "f32"), chip) is None
    assert (said is None) == (chip in needed_chips(types))
