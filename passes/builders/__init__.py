"""Functions that write IR for passes and kernels."""
