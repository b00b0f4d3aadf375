"""The notebooks of examples/notebooks run, and are stored without outputs."""

import ast
import importlib.util
import json
import linecache
from pathlib import Path
from xml.etree import ElementTree

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples/notebooks").glob("*.ipynb"))
NEEDS = {"pytorch": "torch", "jax": "jax"}
PICTURES = {"first_product": {"div"}, "language": {"div"}, "layouts": {"svg"}, "sanitizer": {"div"}}


def cells(path, kind):
    content = json.loads(path.read_text("utf-8"))
    return ["".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == kind]


def run(sources):
    """Runs cells as a notebook does. Returns what it would show of the last expression of each."""
    names, shown = {"__name__": "__main__"}, []
    for number, source in enumerate(sources):
        lines = source.splitlines(keepends=True)
        linecache.cache[f"cell {number}"] = len(source), None, lines, f"cell {number}"  # for kernels in cells
        tree = ast.parse(source)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"cell {number}", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
            shown.append(picture(value))
    return shown


def picture(value):
    """The page or drawing of a value, or its text."""
    for name in ("_repr_html_", "_repr_svg_"):
        if hasattr(value, name):
            return ElementTree.fromstring(getattr(value, name)()).tag.rpartition("}")[2]
    return repr(value)


def needed(path):
    return (
        pytest.importorskip(NEEDS[path.stem], reason=f"{path.name} needs it") if path.stem in NEEDS else None
    )


def default_run(path):
    """In the default run, unless a framework has to be imported."""
    return pytest.param(path, marks=pytest.mark.slow if path.stem in NEEDS else (), id=path.stem)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("path", [default_run(path) for path in NOTEBOOKS])
def test_a_notebook_runs(path):
    needed(path)
    shown = run(cells(path, "code"))
    assert PICTURES.get(path.stem, set()) <= set(shown)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path):
    content = json.loads(path.read_text("utf-8"))
    assert content["nbformat"] == 4 and content["metadata"]["kernelspec"]["name"] == "python3"
    for cell in content["cells"]:
        assert not cell.get("outputs") and cell.get("execution_count") is None
    assert cells(path, "markdown")[0].startswith("# ")


def test_readers_find_every_notebook():
    assert len(NOTEBOOKS) == 6
    index = (Path(__file__).parents[2] / "docs/index.md").read_text("utf-8")
    assert all(f"notebooks/{path.name}" in index for path in NOTEBOOKS)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_jupyter_runs_a_notebook(path):
    """With a kernel of Jupyter, from the extra `notebooks`."""
    needed(path)
    for package in ("nbclient", "nbformat", "ipykernel"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}, of the extra `notebooks`")
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    kinds = {
        kind for cell in notebook.cells for out in cell.get("outputs", ()) for kind in out.get("data", ())
    }
    wanted = {"layouts": "image/svg+xml", "first_product": "text/html", "sanitizer": "text/html"}
    assert wanted.get(path.stem, "text/plain") in kinds
