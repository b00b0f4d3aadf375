"""lit's configuration for `lit test` in a checkout. weft must be installed in the environment of lit."""

# ruff: noqa: F821 (lit defines `config`)

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import lit.formats
import lit.TestRunner

from weft.launch import runtime

root = Path(__file__).parent

config.name = "weft"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.excludes = ["python", "gpu", "fuzz", "Inputs"]
config.test_source_root = str(root)
config.test_exec_root = str(root.parent / "build" / "test")

# The tools are those of the Python that runs lit, not those of PATH; FileCheck is PyPI's port. lit's
# processes have imported them, and fork for each call. test/python/test_tools.py runs them as programs.
beside = Path(sys.executable).parent
config.environment["PATH"] = os.pathsep.join([str(beside), os.environ.get("PATH", os.defpath)])
config.substitutions += [
    (r"\bFileCheck\b", str(beside / "filecheck")),
    ("%examples", str(root.parent / "examples")),
]
sys.path.insert(0, str(root))
warm_tools = importlib.import_module("warm_tools")
sys.path.pop(0)
if runtime.available() is None:
    config.available_features.add("gpu")
else:  # CUDA doesn't work in forks of a process that has looked for a GPU
    warm_tools.tools_of_lit()  # before lit forks its processes
    lit.TestRunner.subprocess = SimpleNamespace(
        PIPE=subprocess.PIPE, STDOUT=subprocess.STDOUT, Popen=warm_tools.Popen
    )

# Tests use no database of tuned schedules unless they name one.
config.environment["WEFT_SCHEDULES"] = ""

# Tests don't write to the user's cache.
config.environment["WEFT_CACHE_DIR"] = str(root.parent / "build" / "cache")
