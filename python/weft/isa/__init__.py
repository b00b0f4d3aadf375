"""The tensor-core instructions of PTX: pure data, which needs only the standard library."""
