"""Timing of matrix products, of Weft and other libraries: suites, method, implementations, report."""
