"""Weft: MLIR dialects, passes and a CPU emulator for NVIDIA's tensor-core instructions."""
