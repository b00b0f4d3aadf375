"""Weft's version. pyproject.toml reads it from here, and so do the modules that `weft` itself imports."""

VERSION = "0.1.0"
