"""Runs host functions of MLIR modules, which launch kernels on a GPU or in the emulator."""
