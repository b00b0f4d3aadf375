"""A mistake reads as one sentence: in a traceback, as text, and from the tools."""

import sys
import traceback
from types import SimpleNamespace

import numpy as np
import pytest

import weft
from weft.emulator import Finding
from weft.errors import Diagnostic, Location, WeftError, shown

PLACED = Diagnostic("wrong", Location("f.mlir", 2, 5))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["wrong"], "wrong"),
        ([PLACED], "f.mlir:2:5: error: wrong"),
        (["wrong", "also wrong"], "wrong\nerror: also wrong"),
        ([Diagnostic("wrong", notes=(Diagnostic("why", severity="note"),))], "wrong\nnote: why"),
        ([Diagnostic("odd", severity="warning")], "warning: odd"),
        ([Diagnostic("error: odd")], "error: odd"),
    ],
)
def test_a_traceback_says_error_once(given, said):
    error = WeftError(*given)
    assert str(error) == said
    assert traceback.format_exception_only(error) == [f"weft.errors.WeftError: {said}\n"]


def test_a_diagnostic_is_as_the_tools_print_it():
    assert [str(d) for d in WeftError("wrong", PLACED).diagnostics] == [
        "error: wrong",
        "f.mlir:2:5: error: wrong",
    ]


class Odd:
    def __repr__(self):
        raise KeyError("odd")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(10**5000, "a number too long to print", id="long"),
        (3, "3"),
        (None, "None"),
        ("a\nb\ud800", r"'a\nb\ud800'"),
        (["relu"], "['relu']"),
        (np.zeros(3), "ndarray"),
        (Odd(), "Odd"),
        ([Odd()], "list"),
        ("x" * 1000, "'" + "x" * 75 + " ..."),
    ],
)
def test_a_value_is_shown_in_one_short_line(value, text):
    assert shown(value) == text


class Unequal:
    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError("no comparison")


ODD = (
    [],
    ["relu"],
    {"a": 1},
    {1},
    np.zeros(2),
    np.array("relu"),
    np.zeros((16, 16), object),
    "relu6",
    "\ud800",
    b"relu",
    object(),
    Unequal(),
    2**70,
    10**400,
    1j,
    ...,
    np.datetime64("2020-01-01"),
    float,
)
OPTIONS = ("alpha", "beta", "transpose_a", "transpose_b", "promote", "out_dtype", "schedule", "stream", "out",
           "arch", "c", "scales", "groups", "epilogue")  # fmt: skip


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_options_of_a_wrong_kind_are_refused_in_one_line(value):
    a = np.ones((16, 16), np.float16)
    legal = ("alpha", "stream") if isinstance(value, int) else ()
    calls = [{option: value} for option in OPTIONS if option not in legal]
    calls += [{"epilogue": weft.Epilogue(**{name: value})} for name in ("bias", "activation", "residual")]
    for options in calls:
        with pytest.raises(WeftError) as caught:
            weft.matmul(a, a, **options)
        assert "\n" not in str(caught.value).split("\nnote: a schedule is written")[0], options
        assert len(str(caught.value)) < 400  # the names of all chips have 230


def test_an_activation_is_named_with_those_there_are():
    a = np.ones((16, 16), np.float16)
    said = r"activation must be one of relu, gelu, gelu_tanh, silu, got \['relu'\]"
    with pytest.raises(WeftError, match=said):
        weft.matmul(a, a, epilogue=weft.Epilogue(activation=["relu"]))


@pytest.mark.parametrize(
    "name, said",
    [
        ("bias", r"has no parameter 'bias': pass it in an epilogue, epilogue=weft\.Epilogue\(bias=\.\.\.\)"),
        ("transpose", "has no parameter 'transpose'; did you mean 'transpose_"),
        ("biass", "has no parameter 'biass'; did you mean 'bias'"),
        ("other", "has no parameter 'other'$"),
    ],
)
def test_other_parameters_are_named_with_those_there_are(name, said):
    a = np.ones((16, 16), np.float16)
    with pytest.raises(WeftError, match=f"weft.matmul: {said}"):
        weft.matmul(a, a, **{name: a[0]})


def test_sizes_of_2_to_the_40_are_refused_before_any_allocation():
    b = np.ones((8, 8), np.float16)
    huge = np.lib.stride_tricks.as_strided(b, (2**40, 8), (16, 2))
    with pytest.raises(WeftError, match=r"a: sizes must be in 1\.\.2147483647, got 1099511627776"):
        weft.matmul(huge, b)


def test_cells_of_a_notebook_have_their_names(monkeypatch):
    """As IPython's tracebacks have them, not those of the files that ipykernel names after their contents."""
    cells = {"/tmp/ipykernel_31/25416.py": ("Cell", "In[3]"), "<ipython-input-4-5f>": ("Cell", "In[4]")}
    compiler = SimpleNamespace(format_code_name=cells.get)
    notebook = SimpleNamespace(get_ipython=lambda: SimpleNamespace(compile=compiler))
    where = Location("/tmp/ipykernel_31/25416.py", 5, 13)
    other = "written at line 9 (<ipython-input-4-5f>:2), in /tmp/ipykernel_31/7.py:8 and /tmp/a.py:3"
    error = WeftError(Diagnostic(other, where))
    assert str(error) == f"/tmp/ipykernel_31/25416.py:5:13: error: {other}"
    finding = Finding("shared-race", "a race", 7, "/tmp/ipykernel_31/25416.py:5")
    assert "(/tmp/ipykernel_31/25416.py:5)" in str(finding)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    known = "written at line 9 (Cell In[4]:2), in /tmp/ipykernel_31/7.py:8 and /tmp/a.py:3"
    assert str(error) == f"Cell In[3]:5:13: error: {known}"
    assert str(finding) == "line 7 (Cell In[3]:5): shared-race: a race"
    notebook.get_ipython = lambda: None
    assert str(error).startswith("/tmp/ipykernel_31")
