"""`weft.matmul`: its options, plans, padding, and the frameworks whose arrays it takes."""
