"""The door to MLIR: the choice of its bindings, repairs of them, and text. Only `weft.mlir` imports MLIR."""
