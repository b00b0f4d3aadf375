"""Messages about mistakes in kernels."""
