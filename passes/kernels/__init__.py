"""The bodies of kernels that `--expand-matmul` writes, and their parts."""
