"""A package named `mlir` is used if it has what Weft needs; otherwise it is skipped with a reason."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft.errors import WeftError
from weft.ir import bindings
from weft.mlir import DISTRIBUTION

# What a stand-in's files hold, and why it isn't used.
STAND_INS = {
    "empty": ({"mlir/__init__.py": ""}, "it has no mlir.ir"),
    "no package": ({"mlir.py": ""}, "it has no mlir.ir"),
    "folder of another project": ({"mlir/CMakeLists.txt": ""}, "it has no mlir.ir"),
    "only ir": (
        {"mlir/__init__.py": "", "mlir/ir.py": "", "mlir/dialects/__init__.py": ""},
        "it has no mlir.passmanager",
    ),
    "old": (
        {
            "mlir/__init__.py": "",
            "mlir/ir.py": f"from {DISTRIBUTION}.ir import *; from {DISTRIBUTION}.ir import loc_tracebacks",
            "mlir/passmanager.py": f"from {DISTRIBUTION}.passmanager import *",
            "mlir/dialects/_ods_common.py": "_cext = 0",
        },
        "importing mlir.dialects.ext raises ModuleNotFoundError",
    ),
    "names missing": (
        {
            "mlir/__init__.py": "",
            "mlir/ir.py": "",
            "mlir/passmanager.py": "",
            "mlir/dialects/__init__.py": "",
        },
        "mlir.ir has no Context",
    ),
    **{
        f"raises {failure}": (
            {
                "mlir/__init__.py": f"raise {failure}('broken')",
                "mlir/ir.py": "",
                "mlir/passmanager.py": "",
                "mlir/dialects/__init__.py": "",
            },
            f"importing mlir.ir raises {failure}: broken",
        )
        for failure in ("ImportError", "OSError", "RuntimeError", "SyntaxError")
    },
}


def written(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def tool(folder, *command):
    """What `weft …` prints with the stand-in first on the path."""
    environment = os.environ | {"PYTHONPATH": str(folder), "CUDA_VISIBLE_DEVICES": ""}
    weft = Path(sys.executable).with_name("weft")
    return subprocess.run(
        [weft, *command], env=environment, capture_output=True, text=True, check=False, timeout=100
    )


@pytest.fixture
def imported(monkeypatch):
    """Imports of `mlir` are undone."""
    kept = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "mlir"}
    yield monkeypatch
    for name in [name for name in sys.modules if name.partition(".")[0] == "mlir"]:
        del sys.modules[name]
    sys.modules.update(kept)


@pytest.mark.parametrize("case", STAND_INS)
def test_a_stand_in_without_what_is_needed_is_left_with_a_reason(case, tmp_path, imported):
    files, reason = STAND_INS[case]
    imported.syspath_prepend(written(tmp_path, files))
    chosen = bindings.choose(("mlir", DISTRIBUTION), "")
    assert chosen.name == DISTRIBUTION
    (said,) = chosen.left
    assert said.startswith(f"the package 'mlir' at {tmp_path}/mlir") and reason in said


def test_a_module_without_a_spec_is_skipped(imported):
    imported.setitem(sys.modules, "mlir", type(sys)("mlir"))
    assert "it has no mlir.ir" in bindings.choose(("mlir", DISTRIBUTION), "").left[0]


def test_without_bindings_the_message_recommends_an_installation(tmp_path, imported):
    imported.syspath_prepend(written(tmp_path, STAND_INS["empty"][0]))
    with pytest.raises(
        WeftError, match=r"installed: pip install it; the package 'mlir' at .* has no mlir.ir"
    ):
        bindings.choose(("mlir", "no_such_package"), "pip install it")


PRINTS = "from weft import mlir; print(mlir.DISTRIBUTION, mlir.ir.__spec__.origin, *mlir.LEFT)"


@pytest.mark.parametrize("folder", ["build", "empty"])
def test_a_folder_with_bindings_is_used_alone(folder, tmp_path):
    """Also before a package of the same name on Python's path."""
    real = Path(sys.modules[f"{DISTRIBUTION}.ir"].__file__).parent
    (tmp_path / "empty").mkdir()
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / DISTRIBUTION).symlink_to(real)
    written(tmp_path / "path", {"mlir/ir.py": "", "mlir_python_bindings/__init__.py": ""})
    given = {"WEFT_MLIR": str(tmp_path / folder), "PYTHONPATH": str(tmp_path / "path")}
    done = subprocess.run(
        [sys.executable, "-c", PRINTS], env=os.environ | given, capture_output=True, text=True, check=False
    )
    if folder == "empty":
        assert "WEFT_MLIR must be a folder that contains mlir/ir.py, such as " in done.stderr
        return
    name, origin, said = done.stdout.strip().split(" ", 2)
    assert (name, origin) == (DISTRIBUTION, str(real / "ir.py"))
    assert said == "the package mlir-python-bindings 0.0.1 of PyPI is an empty placeholder"


def test_the_commit_of_the_bindings_is_the_one_of_the_documentation():
    page = (Path(__file__).parents[2] / "docs" / "mlir.md").read_text()
    commit = bindings.revision(DISTRIBUTION)
    assert f"| {bindings.distribution(DISTRIBUTION)}" in page and f"`{commit}`" in page


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", ["no package", "raises OSError"])
def test_doctor_lists_skipped_packages(case, tmp_path):
    files, reason = STAND_INS[case]
    done = tool(written(tmp_path, files), "doctor")
    assert done.returncode == 0 and not done.stderr
    assert reason in done.stdout and "ok       MLIR       torch-mlir" in done.stdout


@pytest.mark.slow
def test_bindings_that_have_what_is_needed_are_used(tmp_path):
    files = {"mlir/__init__.py": ""}
    for module in bindings._NEEDED:
        real = f"{DISTRIBUTION}.{module}"
        files[f"mlir/{module.replace('.', '/')}.py"] = (
            f"import sys, {real}\nsys.modules[__name__] = sys.modules['{real}']\n"
        )
    done = tool(written(tmp_path, files), "doctor")
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert f"ok       MLIR       mlir at {tmp_path}/mlir; dialects" in done.stdout
    program = Path(__file__).parents[2] / "examples" / "matmul.mlir"
    done = tool(tmp_path, "compile", str(program), "--arch", "sm_80", "--emit", "llvm")
    assert done.returncode == 0 and "define ptx_kernel void @matmul" in done.stdout, done.stderr
