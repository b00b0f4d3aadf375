"""The layout of packed weights."""

ROWS = 64
"""Rows of weights of a tile, which a warpgroup multiplies."""
DEPTH = 64
"""Columns of a block of weights."""
LINES = 16
"""Rows of 32 words that hold ROWS x DEPTH weights."""
