"""A plugin of pytest for `run.py`: writes which tests run which lines, and how long each test takes."""

import importlib
import json
import os
import time
from pathlib import Path

import coverage
import pytest

_UNDER = ("python/weft/isa/", "python/weft/emulator/", "passes/")
_measured = coverage.Coverage(data_file=None, config_file=False, include=[f"*/{each}*" for each in _UNDER])
_seconds: dict[str, float] = {}


def pytest_configure(config):
    _measured.start()
    # Modules are lowered here, where it is seen, and not in another process.
    importlib.import_module("weft.compiler.cache_keys").lowering = lambda: None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item, nextitem):
    _measured.switch_context(item.nodeid)
    begun = time.perf_counter()
    yield
    _seconds[item.nodeid] = time.perf_counter() - begun
    _measured.switch_context("")


def pytest_unconfigure(config):
    _measured.stop()
    data = _measured.get_data()
    root = Path(config.rootpath)
    lines = {}
    for file in data.measured_files():
        path = Path(file).resolve()
        if path.is_relative_to(root) and str(name := path.relative_to(root)).startswith(_UNDER):
            by_line = data.contexts_by_lineno(file)
            lines[str(name)] = {line: [c for c in contexts if c] for line, contexts in by_line.items()}
    said = {"seconds": _seconds, "lines": lines}
    Path(os.environ["WEFT_MUTATION_LINES"]).write_text(json.dumps(said))
