"""docs/isa, and the tables as `weft isa` shows them."""

import json
from pathlib import Path

import isa_docs
import op_docs
import pytest
from claims import CLAIMS

from weft.isa import tables
from weft.tools import isa, isa_rows, weft
from weft.tools.isa_patterns import pattern

DOCS = Path(__file__).parents[2] / "docs" / "isa"


def test_docs_are_those_that_the_tables_make():
    for name, text in isa_docs.pages().items():
        assert (DOCS / name).read_text() == text, "run python docs/generate/isa_docs.py"


def test_the_pages_of_operations_are_made_from_them():
    for name, text in op_docs.pages().items():
        assert (DOCS.parent / name).read_text() == text, "run python docs/generate/op_docs.py"


def test_the_signatures_of_builders_are_those_of_the_tables():
    assert len(op_docs.stubs()) == 5
    for name, text in op_docs.stubs().items():
        assert (DOCS.parents[1] / "dialects" / name).read_text() == text, (
            "run python docs/generate/op_docs.py"
        )


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.said)
def test_claims_are_as_wrong_as_they_say(claim):
    assert (isa_docs.claim_verdict(claim) is None) == claim.legal


@pytest.mark.parametrize("family", tables.FAMILIES, ids=lambda family: family.name)
def test_rows_hold_each_form_once(family):
    found = [form for row in isa_rows.rows(family) for form in row.forms]
    assert len(found) == len(family.table)
    assert set(found) == set(family.table)
    assert len(isa_rows.rows(family)) <= 40


@pytest.mark.slow
def test_the_examples_of_rules_are_refused_by_them():
    for table in tables.TABLES:
        for family in table.families:
            for rule, example, reason in isa_docs._rules(family):
                assert rule and reason and example.startswith(f"`{family.name.split('.')[0]}")


def test_patterns():
    assert pattern(["a.b.row", "a.b.col.x2", "a.b.col"]) == "a.b.{row,col}[.x2]"
    assert pattern(["q.m8n8k4.f16.f32", "q.m8n8k4.f32.f16"]) == "q.m8n8k4.{f16,f32}.{f32,f16}"
    assert pattern([f"q.m64n{n}k16" for n in range(8, 257, 8)]) == "q.m64nNk16"
    assert pattern(f"q.x{n}" for n in range(9)) == "q.NUM"


def test_numbers_in_words():
    assert isa_rows.numbers([1, 2, 4]) == "1|2|4"
    assert isa_rows.numbers([8, 16, 24, *range(32, 257, 16)]) == "8|16|24|32…256 by 16"
    assert isa_rows.numbers(range(1 << 31)) == "0…2147483647"


@pytest.mark.slow
def test_each_form_is_an_object(capsys):
    assert weft.main(["isa", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(found) == sum(len(family.table) for family in tables.FAMILIES)
    assert {entry["family"] for entry in found} == {family.name for family in tables.FAMILIES}


def test_a_chip_gets_its_own_forms(capsys):
    assert weft.main(["isa", "mma.sync", "--arch", "sm_75", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(found) == sum(1 for _ in tables.HEADS["mma"][0].forms("sm_75"))
    assert all("sm_75" in entry["chips"] for entry in found)


def test_names_are_tables_and_instructions():
    assert isa.chosen("mma")[0].name == isa.chosen("mma.sync")[0].name == "mma.sync"
    assert {family for table in tables.TABLES for family in isa.chosen(table.name)} == set(tables.FAMILIES)
