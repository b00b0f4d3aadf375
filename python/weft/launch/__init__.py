"""Runs compiled kernels: arguments, arrays, the CUDA driver, and the launch itself."""
