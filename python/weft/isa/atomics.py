"""Atomic operations on memory (PTX ISA, "atom")."""

from weft.isa.chips import since

BF16_ADD = since("sm_90")
"""The chips with `atom.add.noftz.bf16`. Others compare and swap."""
