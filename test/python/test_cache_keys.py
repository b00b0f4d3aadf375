"""The cache's keys contain everything that determines an entry: Weft, its libraries, and registrations."""

import os
import shutil
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from one_product import text

import weft
from weft import mlir
from weft.cache import disk_cache, loaded
from weft.compiler import cache_keys, codegen

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def kept(tmp_path, patch):
    """Counts the entries of a kind."""
    patch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    return lambda kind: len(list((tmp_path / "cache").glob(f"{kind}-*")))


def compiled() -> weft.Kernel:
    return weft.compile(text(), arch="sm_80")


@pytest.mark.slow
def test_a_digest_is_the_same_in_another_process():
    code = "from weft.compiler import cache_keys as c; print(c.lowering(), c.generating(), c.assembling())"
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "12"
    }
    assert len(said) == 1
    found = (cache_keys.lowering(), cache_keys.generating(), cache_keys.assembling())
    assert said == {"{} {} {}\n".format(*found)}


# The code as loaded.


def test_each_thing_that_decides_about_ptx_is_in_its_key(kept, patch):
    made = compiled().compiled
    assert made.ptx and kept("ptx") == 1
    assert replace(made).ptx and kept("ptx") == 1
    patch.setattr(codegen, "OPT_LEVEL", 0)
    unoptimized = replace(made).ptx
    assert unoptimized != made.ptx and kept("ptx") == 2
    patch.setattr(codegen, "OPT_LEVEL", 3)
    patch.setattr(loaded._own_files, "_digest", b"another version")
    assert replace(made).ptx and kept("ptx") == 3


def test_the_libraries_beneath_are_watched():
    libraries = {path.name: path for files in loaded._libraries.values() for path in map(Path, files.states)}
    assert "libllvmlite.so" in libraries and "ir.py" in libraries
    assert any(name.startswith("_mlir.") and name.endswith(".so") for name in libraries)
    found = cache_keys.generating()
    assert found is not None and str(libraries["libllvmlite.so"]) in "".join(map(str, found))


@pytest.mark.parametrize(
    ("library", "key"),
    [(codegen.LIBRARY, cache_keys.generating), (mlir.DISTRIBUTION, cache_keys.lowering)],
    ids=["LLVM", "MLIR"],
)
def test_another_library_is_another_key(library, key, patch):
    before = key()
    patch.setattr(loaded._libraries[library], "described", lambda: "another version")
    assert key() != before


def test_all_of_weft_that_takes_part_is_watched():
    names = {
        path.relative_to(ROOT).as_posix()
        for path in map(Path, loaded._own_files.states)
        if ROOT in path.parents
    }
    watched = ("codegen", "llvm_floats", "mlir_text", "mlir", "stages", "isa/mma/sync", "schedules/database")
    for part in watched:
        assert any(name.endswith(f"{part}.py") for name in names)
    assert any(name.endswith("lower_gemm.py") for name in names)
    assert any(name.endswith("tile_matmul.py") for name in names)
    assert not any("emulator" in name for name in names)


@pytest.fixture
def copied(tmp_path):
    """A Weft of its own, whose files a test may change, and what runs Python with it."""
    package = tmp_path / "site" / "weft"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "python" / "weft", package, ignore=ignore, symlinks=False)
    for name in ("dialects", "passes", "tools"):
        shutil.rmtree(package / name, ignore_errors=True)
        shutil.copytree(ROOT / name, package / name, ignore=ignore)
    environment = os.environ | {
        "WEFT_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join((str(package.parent), str(Path(__file__).parent))),
    }

    def run(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return package, run


COMPILE = """
import weft
from meanwhile import growing
from one_product import text
assert {package!r} in weft.__file__
{before}
from weft.compiler.stages import compile_module
print("nop" in compile_module(text(), "sm_80").ptx)
{after}
"""

UPGRADE = """
from pathlib import Path
changed = Path(weft.__file__).parent / {name!r}
changed.write_text(changed.read_text() + {more!r})
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.slow), "after"])
def test_a_process_that_outlives_an_upgrade_keeps_nothing_under_the_new_code_s_key(when, copied, tmp_path):
    package, run = copied
    upgrade = UPGRADE.format(name="errors.py", more="\n# A new version.\n")
    imported = "from weft.compiler import stages\n" if when == "before" else ""
    steps = {"package": str(package), "before": imported + upgrade, "after": ""}
    said = run(COMPILE.format(**steps))
    assert "weft compiles uncached: " in said and "errors.py changed after this process loaded Weft" in said
    assert not (tmp_path / "cache").exists()
    assert "uncached" not in run(COMPILE.format(**steps | {"before": ""}))
    assert sorted(path.name.partition("-")[0] for path in (tmp_path / "cache").iterdir()) == ["llvm", "ptx"]


@pytest.mark.slow
def test_entries_from_before_an_upgrade_are_not_used(copied, tmp_path):
    package, run = copied
    again = "assert compile_module('\\n' + text(), 'sm_80').ptx"
    upgrade = UPGRADE.format(name="compiler/llvm_floats.py", more="\n# A new version.\n")
    run(COMPILE.format(package=str(package), before="", after=upgrade + again))
    assert len(list((tmp_path / "cache").iterdir())) == 2
    run(COMPILE.format(package=str(package), before="", after=""))
    assert len(list((tmp_path / "cache").iterdir())) == 4


@pytest.mark.slow
def test_llvm_s_process_loads_what_this_one_would(copied):
    package, _ = copied
    path = package / "compiler" / "codegen.py"
    assert '{"ptx": machine' in path.read_text()
    path.write_text(path.read_text().replace('{"ptx": machine', '{"ptx": "// nop\\n" + machine'))
    code = COMPILE.format(package=str(package), before="", after="")
    moved = f"import sys; sys.path.insert(0, {str(package.parent)!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", moved + code],
        env=os.environ | {"WEFT_CACHE": "0", "PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_key_costs_little():
    cache_keys.lowering()
    times = []
    for _ in range(20):
        began = time.process_time()
        cache_keys.lowering()
        times.append(time.process_time() - began)
    assert min(times) < 0.01  # 2 ms on an idle machine


@pytest.fixture
def file(tmp_path, patch):
    """A file that counts as one of Weft's."""
    patch.setattr(loaded, "_recorded", {})
    patch.setattr(loaded, "_warned", False)
    path = tmp_path / "x.py"
    path.write_text("one")
    patch.setattr(loaded, "_own_files", loaded.Files([str(path)]))
    return path


@pytest.mark.parametrize("change", [lambda p: p.write_text("another"), Path.unlink], ids=["other", "none"])
def test_a_file_that_changes_before_the_first_key_gives_none_and_one_warning(change, file):
    change(file)
    with pytest.warns(UserWarning, match=r"x\.py changed after"):
        assert loaded.identity() is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert loaded.identity() is None and not loaded.unchanged()


@pytest.mark.filterwarnings("ignore:weft compiles uncached")
def test_entries_of_the_code_that_was_loaded_are_read_and_none_is_written(file, tmp_path):
    kept, key = disk_cache.Cache(tmp_path / "cache"), loaded.identity()
    assert kept.get_or_make("k", key, lambda: b"old") == b"old"
    file.write_text("another")
    assert loaded.identity() == key
    assert kept.get_or_make("k", key, lambda: b"new") == b"old"
    assert kept.get_or_make("k", [*key, "more"], lambda: b"new") == b"new"
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_hard_links_change_nothing(file, tmp_path):
    """uv makes one for each environment."""
    (tmp_path / "link").hardlink_to(file)
    assert loaded.identity() is not None and loaded.unchanged()
