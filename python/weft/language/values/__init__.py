"""The values of kernels: numbers, fragments, arrays, buffers and rings."""
