"""Kernels as functions: their signatures, compilation, launches and tuning."""
