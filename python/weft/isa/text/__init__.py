"""Reads and judges instructions in PTX text: opcodes, operands, declarations, constants."""
