"""`cvt` to types that not every chip has (PTX ISA, "Data Movement and Conversion Instructions: cvt")."""

from weft.isa.chips import since

FP8_ROUNDING = since("sm_89")
"""The chips with `cvt.rn.satfinite.e4m3x2.f32` and `e5m2x2`: what is beyond the range becomes the largest.
Only they have `cvt.rn.f16x2.e4m3x2`, too.
"""
TF32_TO_EVEN = since("sm_90")
"""The chips with `cvt.rn.tf32.f32`, one machine instruction. `cvt.rna.tf32.f32`, from sm_80 on, is two."""

BF16_FROM_INTEGERS = since("sm_90")
"""The chips with `cvt.rn.bf16.s32`, and those of other integers."""
