"""The kernels that copy and cast operands."""
