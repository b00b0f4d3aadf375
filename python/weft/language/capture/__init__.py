"""How kernels are captured: Python is rewritten, and traced into operations."""
