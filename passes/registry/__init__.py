"""What a pass, a pipeline and a candidate is, and how each is found by name."""
