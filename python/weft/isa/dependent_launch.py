"""Programmatic dependent launches (PTX ISA, "griddepcontrol")."""

from weft.isa.chips import since

GRIDDEPCONTROL = since("sm_90")
"""The chips with `griddepcontrol`, whose kernels may begin while the launch before them runs."""
