"""The layout of packed weights."""

ROWS = 128
"""Rows of weights of a tile, 64 for each of two warpgroups."""
DEPTH = 64
"""Columns of a block of weights."""
LINES = 32
"""Rows of 32 words that hold ROWS x DEPTH weights."""
