"""Names and types of the language: those of Triton, CUDA and NumPy lead to them, and checkers know them."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
import weft.language as w
from weft.language.messages import names
from weft.language.values import operators as operators_of_values

ROOT = Path(__file__).resolve().parents[2]


def test_names_lead_to_names_of_the_language():
    page = (ROOT / "docs" / "triton.md").read_text("utf-8").partition("## Names")[2]
    of_triton = set(re.findall(r"`(?:tl|triton)\.(\w+)", page)) - {*w.__all__, "compiler", "testing"}
    assert of_triton <= {*names.INSTEAD, *names.WITHOUT}
    for name, instead in (*names.INSTEAD.items(), *names.PARAMETERS.items()):
        assert name not in w.__all__
        assert set(re.findall(r"\bw\.(\w+)", instead)) <= {*w.__all__}, f"{name}: {instead}"
    for page in ("triton.md", "cute.md"):
        text = (ROOT / "docs" / page).read_text("utf-8")
        assert set(re.findall(r"\bw\.(\w+)", text)) <= {*w.__all__}


def test_names_that_nothing_stands_for_are_listed():
    without = (ROOT / "docs" / "triton.md").read_text("utf-8").partition("These have no counterpart")[2]
    for name in names.WITHOUT:
        assert f"`tl.{name}`" in without
        with pytest.raises(AttributeError, match=f"no '{name}', and nothing in its place: docs/triton.md"):
            getattr(w, name)


_OF_ALL = ("__str__", "__repr__")  # which each object has


def test_operators_are_in_the_stub():
    operators = {name for name in vars(operators_of_values.Operators) if re.fullmatch("__[a-z]+__", name)}
    stub = Path(w.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    body = re.search(r"^class _Operators.*?(?=^class )", stub, re.DOTALL | re.MULTILINE)[0]
    missing = {name for name in operators if f"def {name}(" not in body}
    assert missing <= {"__hash__", "__module__", "__doc__", "__dict__", "__weakref__", *_OF_ALL}


def test_completion_shows_public_names_only():
    assert dir(w) == sorted(w.__all__)


STUB = Path(w.__file__).with_suffix(".pyi")
TREE = ast.parse(STUB.read_text(encoding="utf-8"))
EXAMPLES = (
    *("language_gemm", "language_gated_mlp", "language_linear_attention", "language_rmsnorm"),
    *("language_softmax", "language_convolution", "language_dropout", "language_routing", "attention"),
    *("language_signals", "language_threshold", "language_nvfp4_gemm", "language_pair_gemm"),
)


def definitions(body):
    """The functions of a stub by their names, each with its overloads."""
    found = {}
    for each in body:
        if isinstance(each, ast.FunctionDef):
            found.setdefault(each.name, []).append(each)
    return found


def test_the_stub_names_what_the_language_has():
    lists = [each for each in TREE.body if isinstance(each, (ast.Assign, ast.AugAssign))]
    lists = [each for each in lists if "__all__" in ast.unparse(each)]
    assert sorted(name for each in lists for name in ast.literal_eval(each.value)) == w.__all__, STUB
    named = {getattr(each, "name", None) for each in TREE.body}
    named |= {each.target.id for each in TREE.body if isinstance(each, ast.AnnAssign)}
    named |= {t.id for each in TREE.body if isinstance(each, ast.Assign) for t in each.targets}
    named |= {
        a.asname or a.name for each in TREE.body if isinstance(each, ast.ImportFrom) for a in each.names
    }
    assert set(w.__all__) <= named


def test_functions_have_the_same_parameters():
    for name, stubs in definitions(TREE.body).items():
        parameters = inspect.signature(getattr(w, name)).parameters.values()
        keywords = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
        positional = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
        for stub in stubs:
            assert {each.arg for each in stub.args.kwonlyargs} <= keywords, name
        assert {each.arg for stub in stubs for each in stub.args.kwonlyargs} == keywords, name
        if name not in ("wait", "kernel"):  # whose overloads have other positional ones
            assert all([each.arg for each in stub.args.args] == positional for stub in stubs), name


def test_classes_have_the_methods_of_the_stub():
    for each in TREE.body:
        if isinstance(each, ast.ClassDef) and each.name in ("Buffer", "Fragment", "Matrix", "Ring", "Slot"):
            for method in definitions(each.body):
                assert hasattr(getattr(w, each.name), method), f"{each.name}.{method}"


def test_annotations_that_type_checkers_understand():
    assert w.In[w.Array[w.bf16], "m k"] == w.In["m k", w.bf16]
    assert w.Out[w.Array, "m k"] == w.Out["m k"]

    @w.kernel(threads=32)
    def double(x: w.In[w.Array[w.f32], "n"], y: w.Out[w.Array, "n"]):
        y[w.thread()] = x[w.thread()] * 2.0

    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    double.emulate(x, y)
    assert np.array_equal(y, 2 * x)


@pytest.mark.parametrize(
    "made, message",
    [
        (lambda: w.Array["bf16"], "w.Array: the element type must be one of w, got 'bf16': write w.bf16"),
        (lambda: w.In[w.Array], "w.In must have the names of its sizes"),
        (lambda: w.In[w.Array[w.f32], w.f32], "w.In must have the names of its sizes"),
    ],
)
def test_mistakes_in_annotations(made, message):
    with pytest.raises(weft.WeftError, match=message):
        made()


MISTAKEN = """
import weft.language as w

@w.kernel(grid=1)
def kernel(a: w.In[w.Array[w.f16], "m k"], scale: w.f32, *, N=64) -> None:
    ring = w.ring(2, a=(64, 64, a.dtype))
    with w.role(registers=240) as me:
        with ring.take() as slot:
            product = w.wait(w.gemm(slot.a, slot.a.T))
            reveal_type(product * scale + me)
            reveal_type(a.rows // 2 < me)
            w.gemm(slot.a, product)
            w.store(product, 3)
            a.row
            w.exp("x")
            w.check((product > 0.0) & (w.sum(product, 1) > w.load_row(a[0], like=product)), "a condition")
            w.check(w.atomic_max(a[0, 0], 1.0) > 0.0, "the previous value")
"""


@pytest.mark.slow
def test_mypy_checks_kernels(tmp_path):
    options = ["--config-file=", "--check-untyped-defs", "--follow-imports=skip", "--ignore-missing-imports"]
    options += ["--disable-error-code=var-annotated"]  # of what NumPy, which is skipped, returns
    (tmp_path / "mistaken.py").write_text(MISTAKEN, encoding="utf-8")
    modules = [part for name in ("weft.language", *EXAMPLES, "mistaken") for part in ("-m", name)]
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), *options, *modules]
    path = f"{ROOT / 'examples'}:{tmp_path}"
    run = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT / "python", env={"MYPYPATH": path, "PATH": ""}
    )
    lines = [line.partition("mistaken.py:")[2] for line in run.stdout.splitlines() if "mistaken.py" in line]
    assert len(lines) == len(run.stdout.splitlines()) - 1, run.stdout  # the examples have no mistake
    assert 'Revealed type is "weft.language.Fragment"' in lines[0]
    assert 'Revealed type is "weft.language.Scalar"' in lines[1]
    found = [int(line.split(":")[0]) for line in lines if "error" in line]
    assert sorted(set(found)) == [12, 13, 14, 15], run.stdout
