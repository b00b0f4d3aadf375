"""lit's configuration for `lit test` in a checkout. weft must be installed in the environment of lit."""

# ruff: noqa: F821 (lit defines `config`)

import importlib
import os
import sys
from pathlib import Path

import lit.formats

from weft.launch import runtime

root = Path(__file__).parent

config.name = "weft"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.excludes = ["python", "gpu", "fuzz", "Inputs"]
config.test_source_root = str(root)
config.test_exec_root = str(root.parent / "build" / "test")

# The tools are those of the Python that runs lit, not those of PATH; FileCheck is PyPI's port. One process
# that has imported them serves all calls. test/python/test_tools.py runs them as programs.
sys.path.insert(0, str(root))
scripts = importlib.import_module("warm_tools").folder(filled=True)
sys.path.pop(0)
beside = Path(sys.executable).parent
config.environment["PATH"] = os.pathsep.join([str(scripts), str(beside), os.environ.get("PATH", os.defpath)])
config.substitutions += [
    (r"\bFileCheck\b", str(scripts / "filecheck")),
    ("%examples", str(root.parent / "examples")),
]

# Tests use no database of tuned schedules unless they name one.
config.environment["WEFT_SCHEDULES"] = ""

# Tests don't write to the user's cache.
config.environment["WEFT_CACHE_DIR"] = str(root.parent / "build" / "cache")

if runtime.available() is None:
    config.available_features.add("gpu")
