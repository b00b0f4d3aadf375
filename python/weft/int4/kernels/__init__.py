"""The kernels of products with 4-bit weights, in `weft.language`."""
