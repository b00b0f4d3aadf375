"""How `--raise-linalg` reads functions of linalg, recognizes products, and writes them as `tile.matmul`."""
