"""Products of activations in 16 bits with 4-bit weights."""
