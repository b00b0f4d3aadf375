"""The layout of packed 4-bit weights."""

ROWS = 64
"""Rows of weights of a tile, which a warpgroup multiplies."""
DEPTH = 64
"""Columns of a block of weights."""
WORDS = 32
"""Words of a line."""
LINES = 16
"""Lines that hold ROWS x DEPTH weights: four words for each thread of a warpgroup."""
