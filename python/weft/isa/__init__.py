"""What PTX says about the tensor-core instructions: pure data and the standard library alone."""
