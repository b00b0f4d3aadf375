"""How `--raise-linalg` reads functions of linalg, recognises products, and writes them as `tile.matmul`."""
