"""lit's configuration. The tools are those of PATH: activate the environment that has the package."""

# ruff: noqa: F821 (lit defines `config`)

import lit.formats

config.name = "weft-dp4a"
config.test_format = lit.formats.ShTest()
config.suffixes = [".mlir"]
config.substitutions += [(r"\bFileCheck\b", "filecheck")]  # PyPI's port of LLVM's
