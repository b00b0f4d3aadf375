"""The cache's keys contain everything that determines an entry: Weft, its libraries, and registrations."""

import functools
import math
import os
import shutil
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from meanwhile import growing
from one_product import text

import weft
from weft import isa, mlir, passes
from weft.cache import loaded
from weft.compiler import cache_keys, codegen, identity, stages
from weft.compiler.identity import UnidentifiedError, digest
from weft.dialects.tile import AllocOp
from weft.emulator import sources
from weft.passes import lower_gemm
from weft.passes.registry.candidates import Candidate, Predicate

ROOT = Path(__file__).resolve().parents[2]
passes.own()  # imports the tables of passes, whose contents at that time count as Weft's own


@pytest.fixture
def kept(tmp_path, patch):
    """Counts the entries of a kind."""
    patch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    return lambda kind: len(list((tmp_path / "cache").glob(f"{kind}-*")))


def compiled() -> weft.Kernel:
    return weft.compile(text(), arch="sm_80")


# What is registered.


def refuse_all(op):
    return "refused by a test"


def test_a_candidate_that_was_taken_away_isnt_served(kept, patch):
    assert compiled().compiled.ptx
    patch.setattr(lower_gemm, "CANDIDATES", ())
    with pytest.raises(weft.WeftError, match="has no candidate"):
        compiled()
    assert kept("llvm") == 1
    patch.undo()


def changed_candidates():
    first, *others = lower_gemm.CANDIDATES
    seen = []

    def counted(op):
        seen.append(op)
        return first.lower(op)

    yield "order", (*others, first)
    yield "priority", (replace(first, priority=first.priority + 1), *others)
    yield "name", (replace(first, name="other"), *others)
    yield (
        "predicate",
        (replace(first, predicates=(*first.predicates, Predicate("more", refuse_all))), *others),
    )
    yield "fewer predicates", (replace(first, predicates=first.predicates[1:]), *others)
    yield "code", (replace(first, lower=counted), *others)
    yield "lambda", (replace(first, lower=lambda op: first.lower(op)), *others)
    yield "one more", (first, *others, Candidate("mine", 10**6, (), math.sqrt))


@pytest.mark.filterwarnings("ignore:weft compiles uncached")
def test_whatever_changes_of_a_candidate_changes_the_key(patch):
    """Functions of a program have no key: nothing is kept."""
    keys = [cache_keys.lowering()]
    for what, candidates in changed_candidates():
        patch.setattr(lower_gemm, "CANDIDATES", candidates)
        key = cache_keys.lowering()
        assert (key is None) == (what in ("predicate", "code", "lambda")), what
        assert key is None or key not in keys, what
        assert cache_keys.lowering() == key
        keys.append(key)


@pytest.mark.filterwarnings("ignore:weft compiles uncached")
def test_a_replaced_pass_isnt_taken_for_weft_s(kept, patch):
    compiled()
    chosen, calls = passes.PASSES["lower-gemm"], []
    patch.setitem(passes.PASSES, "lower-gemm", replace(chosen, run=lambda op: calls.append(chosen.run(op))))
    for _ in range(2):
        compiled()
    assert len(calls) == 2 and kept("llvm") == 1


@pytest.mark.filterwarnings("ignore:weft compiles uncached")
@pytest.mark.parametrize("of, name", [(lower_gemm, "_steps"), (AllocOp, "check")])
def test_functions_that_replace_those_of_weft_have_no_key(of, name, patch):
    before = cache_keys.lowering()
    patch.setattr(of, name, refuse_all)
    assert cache_keys.lowering() is None
    patch.undo()
    assert cache_keys.lowering() == before


def test_only_what_has_changed_since_the_last_key_is_looked_at(patch):
    cache_keys.lowering()
    seen = []
    foreign = identity._foreign
    patch.setattr(identity, "_foreign", lambda *given: seen.append(given[0]) or foreign(*given))
    cache_keys.lowering()
    assert not seen
    patch.setattr(lower_gemm, "_steps", lambda shape: (1, 1, 1))
    assert [name for name, _ in identity.replaced(["weft.passes"])] == ["weft.passes.lower_gemm._steps"]
    assert 0 < len(seen) < 100


def test_what_cant_be_told_is_never_kept(kept, patch):
    first, *others = lower_gemm.CANDIDATES
    state = np.zeros(3)
    patch.setattr(
        lower_gemm, "CANDIDATES", (replace(first, lower=lambda op: (state, first.lower(op))[1]), *others)
    )
    patch.setattr(cache_keys, "_warned_of", set())
    with pytest.warns(
        UserWarning, match="uncached: something that is registered depends on function"
    ) as told:
        for _ in range(2):
            compiled()
    assert kept("llvm") == 0 and len(told) == 1


def test_all_candidates_of_the_passes_are_registered():
    """Should another pass get candidates, `passes.own` must name them."""
    found = {
        id(each)
        for name, module in sys.modules.items()
        if name.startswith("weft.passes")
        for value in vars(module).values()
        for each in (value if isinstance(value, tuple | list) else (value,))
        if isinstance(each, Candidate)
    }
    assert found == {id(each) for each in passes.own()[-1]}


# The identity of values.


def of_a_program(x):
    return x + 1


class Holder:
    def method(self, x):
        return x + 1


def test_the_same_is_the_same_and_what_differs_differs():
    values = [
        *(None, 0, False, 0.0, -0.0, "0", b"0", (), [], {}, (0,), [0], ("a", "b"), ("ab",), {"a": 1}),
        *(len, max, math.sqrt, passes.own, weft.WeftError, frozenset("ab"), slice, str.join),
        *(functools.partial(math.sqrt, 1), functools.partial(math.sqrt, 2), functools.cache(passes.own)),
    ]
    found = [digest(value) for value in values]
    assert len(set(found)) == len(values)
    assert found == [digest(value) for value in values]


@pytest.mark.parametrize(
    "value",
    [object(), np.zeros(1), of_a_program, lambda: text, Holder, iter(()), sys.stdout, Holder().method],
    ids=["object", "array", "function", "lambda", "class", "iterator", "file", "bound"],
)
def test_what_a_key_cannot_contain_is_reported(value):
    with pytest.raises(UnidentifiedError):
        digest(value)


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
    patch.setattr(loaded, "_content", b"another version")
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
def test_a_module_that_wasnt_there_when_weft_was_loaded_is_noticed(copied, tmp_path):
    package, run = copied
    new = "(Path(weft.__file__).parent / 'isa' / 'newer.py').write_text('')\nimport weft.isa.newer\n"
    said = run(COMPILE.format(package=str(package), before="from pathlib import Path\n" + new, after=""))
    assert "newer.py changed after this process loaded Weft" in said
    assert not (tmp_path / "cache").exists()


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


@pytest.mark.parametrize("key", [cache_keys.lowering, cache_keys.generating, cache_keys.assembling])
def test_files_are_looked_at_again_only_for_the_present_state(key, patch):
    before, looked = key(), []
    changed = loaded._changed
    patch.setattr(loaded, "_changed", lambda files: looked.append(files) or changed(files))
    assert key(present=False) == before and not looked
    assert key() == before and len(looked) == 1
    patch.setattr(loaded, "_unknown", lambda: iter(["x.py"]))
    patch.setattr(loaded, "_warned", True)
    assert key(present=False) is None and len(looked) == 1
    patch.setattr(loaded, "_content", None)  # as before the first key
    assert key(present=False) is None and len(looked) == 2


def test_files_are_looked_at_once_for_each_entry_that_is_made(kept, patch):
    assert compiled().compiled.ptx
    looked, changed = [], loaded._changed
    patch.setattr(loaded, "_changed", lambda files: looked.append(files) or changed(files))
    assert stages.compile_module("\n" + text(), "sm_80").ptx
    assert kept("llvm") == 2 and kept("ptx") == 2 and len(looked) == 2


def test_a_key_costs_little():
    cache_keys.lowering()
    times = []
    for _ in range(20):
        began = time.process_time()
        cache_keys.lowering()
        times.append(time.process_time() - began)
    assert min(times) < 0.01  # 2 ms on an idle machine


def test_warnings_come_once(patch):
    patch.setattr(loaded, "_changed", lambda files: "x.py")
    patch.setattr(loaded, "_warned", False)
    with pytest.warns(UserWarning, match=r"x\.py changed after"):
        assert cache_keys.lowering() is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache_keys.lowering() is None and loaded.identity() is None
    assert identity.known(text) is False


@pytest.mark.slow
def test_modules_that_another_thread_imports_meanwhile_do_not_matter():
    with growing(sys.modules, sys):
        assert identity.replaced(("weft.isa",)) == []
    with growing(sys.modules, sys):
        assert not sources._replaced()


def test_what_another_thread_adds_to_a_module_meanwhile_does_not_matter():
    own = vars(isa)
    with growing(own, sys):
        assert identity._found_in("weft.isa", "weft.isa", own, own)[0] == []


@pytest.mark.each_value(1)
@pytest.mark.parametrize("module", ["lower_gemm", "lower_gemm_async"])
def test_candidates_that_change_before_all_passes_are_imported_arent_weft_s(module):
    code = (
        f"from weft.registry import extensions\nfrom weft.passes import {module}\n{module}.CANDIDATES = ()\n"
    )
    code += "import weft.passes.registered\nassert not extensions.own_tables()"
    subprocess.run([sys.executable, "-c", code], check=True)
