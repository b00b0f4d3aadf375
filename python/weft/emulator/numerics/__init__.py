"""Floating-point formats, rounding, and sums as tensor cores compute them."""
