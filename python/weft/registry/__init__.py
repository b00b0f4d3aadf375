"""What other packages register, and what users ask passes to print."""
