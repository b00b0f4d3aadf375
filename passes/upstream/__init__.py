"""The correspondence between upstream's `nvvm` operations and Weft's."""
