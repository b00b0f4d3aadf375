"""lit's configuration: `lit test` from a checkout, with weft installed beside the lit that runs."""

# ruff: noqa: F821 (lit hands `config` in)

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

# The tools are those of the Python that runs lit, whatever PATH says; FileCheck is PyPI's port. All answer
# from one process that has imported them; test/python/test_tools.py runs them as programs.
sys.path.insert(0, str(root))
scripts = importlib.import_module("warm_tools").install(root.parent / "build" / "tools")
sys.path.pop(0)
beside = Path(sys.executable).parent
config.environment["PATH"] = os.pathsep.join([str(scripts), str(beside), os.environ.get("PATH", os.defpath)])
config.substitutions += [
    (r"\bFileCheck\b", str(scripts / "filecheck")),
    ("%examples", str(root.parent / "examples")),
]

# No tuned schedules, the user's or the package's, where a test names no file of them.
config.environment["WEFT_SCHEDULES"] = ""

# Entries that a test writes stay out of the user's cache.
config.environment["WEFT_CACHE_DIR"] = str(root.parent / "build" / "cache")

if runtime.available() is None:
    config.available_features.add("gpu")
