"""Weft's version, for the modules that `weft` itself imports."""

VERSION = "0.1.0"
