"""The kernels of layers, in `weft.language`."""
