"""The mutants of `test/mutation`: each compiles, and differs from its file at one location."""

import ast
import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "mutation"))
mutants = importlib.import_module("mutants")
sys.path.pop(0)

FILE = '''\
"""A page."""
LIMIT: int = 4


def over(a, b):
    """Whether a is over b and the limit."""
    if not a > b and LIMIT << 1 == 8:
        note(f"{1 + 1}")
    return min(a, -b) + 10
'''


@pytest.fixture
def found(tmp_path):
    (tmp_path / "file.py").write_text(FILE)
    return list(mutants.of_file(tmp_path, "file.py"))


def test_each_kind_of_code_is_changed_and_text_is_not(found):
    changes = {(m.before, m.after) for m in found}
    assert changes >= {
        ("a > b", "a >= b"),
        ("not a > b", "a > b"),
        ("LIMIT << 1", "LIMIT >> 1"),
        ("4", "5"),
        ("4", "3"),
        ("min", "max"),
        ("-b", "b"),
        ("not a > b and LIMIT << 1 == 8", "False"),
        ("min(a, -b) + 10", "min(a, -b) - 10"),
        ('note(f"{1 + 1}")', "None"),
    }
    assert not any("page" in before or before == "1 + 1" for before, _ in changes)


def test_a_mutant_differs_in_its_line_alone(found):
    for mutant in found:
        pairs = zip(FILE.splitlines(), mutant.text.splitlines(), strict=True)
        differing = [number for number, (old, new) in enumerate(pairs, 1) if old != new]
        assert differing == [mutant.line]
        ast.parse(mutant.text)


def test_a_seed_chooses_the_same_again(found):
    assert mutants.chosen(found, 5, 3) == mutants.chosen(found, 5, 3) != mutants.chosen(found, 5, 4)
