"""The kernels of attention, in `weft.language`."""
