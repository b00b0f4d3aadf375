"""`weft lint` agrees with the tables of instructions, and takes little time."""

import difflib
import random
import time

import certify
import pytest
from lint_lines import F16, F16_LINE
from near import NEAR

from weft.isa import computed, tables
from weft.isa.chips import CHIPS
from weft.isa.text import reader, written
from weft.isa.text.operands import NOTHING_DECLARED
from weft.tools import findings


@pytest.mark.sampled(6)
@pytest.mark.parametrize("table", tables.TABLES, ids=lambda table: table.name)
def test_lint_reports_the_tables_verdict(table):
    for family in (family for family in table.families if family.axes):
        points = certify.sample(family, NEAR.get(family.name, {}), 200, list(CHIPS), seed=1)
        for form, chip in points:
            (found,) = reader.instructions(certify.Entry.of(form).line)
            verdict, meant = written.judge(found, chip), family.judge(form, chip)
            assert (verdict is None) == (meant is None), (found, chip)
            spelled = tables.read(found.opcode, found.operands)
            if meant and spelled and spelled[1] == form:
                assert verdict.rule == meant.rule
                assert verdict.reason.startswith(meant.reason)


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["sm_80", "sm_90a", "sm_100a", "sm_107a", "sm_120a"])
def test_ten_thousand_instructions_take_less_than_ten_seconds(chip):
    lines = []
    for table in tables.TABLES:
        for family in (family for family in table.families if family.axes):
            points = certify.sample(family, NEAR.get(family.name, {}), 600, [chip])
            lines += dict.fromkeys(certify.Entry.of(form).line for form, _ in points)
    random.Random(0).shuffle(lines)
    text = "\n".join((lines * 4)[:10_000])
    started = time.process_time()
    found = findings.lint_ptx(text, chip)
    for finding in found:
        finding.json()
    assert len(found) == 10_000
    assert time.process_time() - started < 10


def kernel(chip, lines):
    registers = ".reg .b32 %r<999>; .reg .f32 %f<999>; .reg .b64 %d<99>; .reg .pred %p<9>;"
    body = "\n".join(lines)
    return f".version 9.0\n.target {chip}\n.visible .entry k()\n{{\n{registers}\n{body}\nret;\n}}\n"


def registers(random_number, kind, count):
    first = random_number.randrange(999 - count)
    return f"{{{', '.join(f'%{kind}{first + i}' for i in range(count))}}}"


def different_lines(count):
    """Instructions with registers at random, as an unrolled loop has them."""
    number = random.Random(0)
    for _ in range(count // 2):
        d, a, b = (registers(number, kind, n) for kind, n in (("f", 4), ("r", 4), ("r", 2)))
        yield f"{F16} {d}, {a}, {b}, {d};"
        yield f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {a}, [%r{number.randrange(999)}+16];"


@pytest.mark.slow
@pytest.mark.parametrize("lines", [[F16_LINE] * 20_000, [*different_lines(20_000)]])
def test_twenty_thousand_instructions_take_less_than_a_second(lines):
    text = kernel("sm_90a", lines)
    started = time.process_time()
    found = findings.lint_ptx(text)
    assert time.process_time() - started < 1
    assert len(found) == 20_000
    assert not any(finding.verdict for finding in found)


@pytest.mark.slow
def test_instructions_with_other_registers_take_no_longer_than_equal_ones():
    def seconds(lines):
        text, times = kernel("sm_90a", lines), []
        for _ in range(5):
            started = time.process_time()
            findings.lint_ptx(text)
            times.append(time.process_time() - started)
        return min(times)

    different = [*different_lines(10_000)]
    assert seconds(different) < 2 * seconds(different[:2] * 5_000)


def test_many_equal_mistakes_are_looked_into_once(monkeypatch):
    searched = []
    monkeypatch.setattr(difflib, "get_close_matches", lambda word, *rest: searched.append(word) or [])
    lines = [F16_LINE.replace("%r5", "%q5").replace("%f0", f"%f{i}") for i in range(30)]
    found = findings.lint_ptx(kernel("sm_90a", [*lines, *["foo.bar 1;"] * 5]))
    rules = [finding.verdict.rule for finding in found]
    assert rules == ["undeclared"] * 30 + ["instruction"] * 5
    assert len(searched) == len(set(searched)) == 2


def test_a_process_that_reads_many_texts_keeps_few_words(monkeypatch):
    monkeypatch.setattr(computed, "_MOST_KEPT", 8)
    for i in range(30):
        findings.lint_ptx(f"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%x{i}, %y}}, [%r{i}];", "sm_90a")
    assert len(NOTHING_DECLARED.kinds) <= 8 and len(NOTHING_DECLARED.signatures) <= 8
