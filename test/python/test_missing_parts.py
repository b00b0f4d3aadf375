"""Without ptxas, driver and NVIDIA's packages, all goes on as far as it can, or ends with one line that says
what to install.
"""

import importlib
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft.errors import missing_package

ROOT = Path(__file__).resolve().parents[2]
PTXAS = "ptxas not found: `pip install nvidia-cuda-nvcc`, or set CUDA_HOME to a CUDA toolkit"
DRIVER = (
    "cuda-bindings isn't installed, through which Weft calls the NVIDIA driver: pip install cuda-bindings"
)
# Prints a line of JSON for each piece of work: what it returns, prints and raises.
PROGRAM = """
import contextlib, io, json, sys
for name in ("cuda.bindings", "cuda.pathfinder", "nvidia"):
    sys.modules[name] = None  # as if it weren't installed
import ml_dtypes, numpy as np
import weft
from weft.tools import weft as tool

TEXT = open("matmul.mlir").read()
A, B = np.ones((40, 48), np.float32), np.ones((48, 56), np.float32)

def kernel():
    return weft.compile(TEXT, "sm_80")

def emulated():
    assert weft.matmul(A, B).sum() == 40 * 48 * 56

def called(on):
    a, b = (np.ones((64, 64), ml_dtypes.bfloat16) for _ in "AB")
    kernel()(a, b, d := np.zeros((64, 64), np.float32), on=on)
    assert d.sum() == 64**3

for work in json.load(sys.stdin):
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    status = error = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = tool.main(work) if isinstance(work, list) else eval(work)
        except (weft.WeftError, SystemExit) as caught:
            error = str(caught)
    printed = [each.buffer.getvalue().decode() for each in (out, err)]
    print(json.dumps([repr(status), *printed, error]))
"""
# All chips have this schedule, whose kernel compiles faster than those that are chosen.
SMALL = "schedule = {block = array<i64: 16, 16, 32>, warps = array<i64: 1, 1>, stages = 2}"
GOES_ON = {
    "compile matmul.mlir --arch sm_100a --emit ptx": ".target sm_100a",
    "compile matmul.mlir --emit ptx": ".target sm_80",
    "compile matmul.mlir --arch sm_90a --emit launch": '"cluster"',
    "run matmul.mlir --shape 64x64x32": f"registers  unknown: {PTXAS}",
    "lint matmul.mlir --arch sm_90a": "none illegal on sm_90a",
    "predict chosen.mlir --arch sm_90a --shape 1024x1024x1024": "predicted",
    "isa wgmma.wait_group --arch sm_90a": "wgmma.wait_group",
}
ENDS = {
    "compile matmul.mlir --arch sm_90a --emit cubin -o matmul.cubin": PTXAS,
    "compile matmul.mlir --arch sm_90a --emit sass": PTXAS,
    "compile matmul.mlir --arch sm_90a --emit resources": PTXAS,
    "run matmul.mlir --on gpu": f"no GPU to run on: {DRIVER}",
    "bench 64x64x64": f"weft bench needs a GPU: {DRIVER}",
    "bench --host": f"weft bench needs a GPU: {DRIVER}",
    "tune 64x64x64 --database tuned.jsonl": f"weft tune needs a GPU: {DRIVER}",
}
CALLS = {
    "kernel().ptx[:0]": None,
    "called(None)": None,
    "kernel()._repr_html_()": None,
    "emulated()": None,
    "kernel().cubin": PTXAS,
    "kernel().resources": PTXAS,
    "called('gpu')": DRIVER,
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What each command and call returned, printed and raised, in a process without these parts."""
    folder = tmp_path_factory.mktemp("missing")
    text = (ROOT / "examples/matmul.mlir").read_text()
    (folder / "chosen.mlir").write_text(text)
    (folder / "matmul.mlir").write_text(text.replace("transpose_b = true", f"transpose_b = true, {SMALL}"))
    without = {"CUDA_HOME", "CUDA_PATH", "WEFT_PTXAS", "WEFT_NVDISASM"}
    kept = {name: value for name, value in os.environ.items() if name not in without}
    work = [*(command.split() for command in (*GOES_ON, *ENDS)), ["doctor"], *CALLS]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=folder,
        env={**kept, "PATH": str(folder), "WEFT_CACHE_DIR": str(folder / "cache")},
        input=json.dumps(work),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = map(json.loads, done.stdout.splitlines())
    names = (each if isinstance(each, str) else " ".join(each) for each in work)
    return dict(zip(names, lines, strict=True))


@pytest.mark.parametrize("command", GOES_ON)
def test_commands_that_go_on(command, told):
    status, out, err, error = told[command]
    assert (status, err, error) == ("0", "", None)
    assert GOES_ON[command] in out


@pytest.mark.parametrize("command", ENDS)
def test_commands_that_end_with_a_line(command, told):
    status, out, err, error = told[command]
    assert (status, out, error) == ("1", "", None)
    assert err.startswith(f"weft: error: {ENDS[command]}") and err.count("\n") == 1


def test_doctor_lists_what_is_missing(told):
    status, out, _, _ = told["doctor"]
    assert status == "1"
    assert f"MISSING  ptxas      {PTXAS}" in out
    assert f"none     GPU        {DRIVER}" in out
    assert out.endswith("Missing: ptxas.\n")


@pytest.mark.parametrize("call", CALLS)
def test_calls(call, told):
    _, _, _, error = told[call]
    if CALLS[call] is None:
        assert error is None
    else:
        assert error.startswith(CALLS[call]) and "\n" not in error


def test_without_bindings_each_call_that_compiles_tells_what_to_install():
    """The first one, too, of which the import is a part."""
    program = """
        import sys
        sys.modules.update(mlir=None, torch_mlir=None)  # as if they weren't installed
        import numpy as np, weft, weft.language
        ones = np.ones((64, 64), np.float32)
        calls = (
            lambda: weft.matmul(ones, ones),
            lambda: weft.matmul(ones, ones, schedule="{warpgroups = 2}"),
            lambda: weft.compile("module {}", "sm_80"),
            lambda: weft.attention(*[ones.astype(np.float16)[None, None]] * 3),
            lambda: weft.Module(),
            lambda: weft.register_dialect(None),
            lambda: weft.language.exp,
        )
        for call in calls * 2:
            try:
                call()
            except weft.WeftError as error:
                print(repr(str(error)))
    """
    command = [sys.executable, "-c", inspect.cleandoc(program)]
    said = subprocess.check_output(command, text=True).splitlines()
    assert len(said) == 14
    assert len({*said}) == 1 and said[0].startswith("'no MLIR Python bindings are installed: pip install ")


def test_what_asks_all_modules_for_a_name_needs_no_mlir():
    """unittest and pickle do, of modules that import others when a name is first used."""
    program = """
        import sys, unittest, warnings
        import weft, weft.dialects, weft.passes
        from weft.language import capture

        with unittest.TestCase().assertWarns(UserWarning):
            warnings.warn("expected")
        sys.exit("weft.mlir" in sys.modules)
    """
    subprocess.run([sys.executable, "-c", inspect.cleandoc(program)], check=True)


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [("torch", "torch", "gpu"), ("nn", "torch", "gpu"), ("inductor", "torch", "gpu"), ("jax", "jax", "jax")],
)
def test_an_import_without_its_framework_names_the_extra(module, package, extra, monkeypatch):
    for name in [each for each in sys.modules if each.startswith(f"weft.{module}")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)  # as if it weren't installed
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module(f"weft.{module}")
    assert f"weft.{module} needs the package {package}, " in str(caught.value)
    assert str(caught.value).endswith(f": pip install 'weft[{extra}]'")


def test_another_failure_of_an_import_stays():
    failure = ModuleNotFoundError("No module named 'numpy.x'", name="numpy.x")
    assert missing_package(failure, "weft.jax", "jax", "jax") is failure
