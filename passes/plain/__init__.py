"""Plain kernels: those of linalg operations that no product's epilogue takes, an element for each thread."""
