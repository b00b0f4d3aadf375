"""Names of the language, and those of Triton, CUDA and NumPy that lead to them."""

import re
from pathlib import Path

import pytest

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
