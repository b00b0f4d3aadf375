"""How upstream's `nvvm` operations correspond to Weft's."""
