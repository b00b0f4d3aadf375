"""The operations on values of kernels."""
