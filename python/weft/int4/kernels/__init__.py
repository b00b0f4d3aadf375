"""The kernels of products with weights of 4 bits, in `weft.language`."""
