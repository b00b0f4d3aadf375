"""Atomic operations on memory, and fences (PTX ISA, "atom", "membar, fence", "Scope")."""

from weft.isa.chips import since

BF16_ADD = since("sm_90")
"""The chips with `atom.add.noftz.bf16`. Others compare and swap."""
ORDERS = ("relaxed", "acquire", "release", "acq_rel")
FENCES = ("acq_rel", "sc")
SCOPES = dict.fromkeys(("cta", "cluster", "gpu", "sys"), since("sm_70")) | {"cluster": since("sm_90")}
"""The chips with each scope."""
