"""Products of activations in 16 bits with weights of 4 bits."""
