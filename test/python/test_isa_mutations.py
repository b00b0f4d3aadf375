"""The parser of opcodes accepts and refuses mutated spellings as ptxas does."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import assembler
import certify
import compared
import mutations
import pytest
import unchecked

from weft.isa import tables
from weft.isa.chips import CHIPS
from weft.isa.text import lenient_spelling

FAMILIES = {family.name: family for family in tables.FAMILIES}
by_family = pytest.mark.parametrize("name", list(FAMILIES))
# One of each generation: what the others lack, a sample of the cross-product tells.
NEWEST = ("sm_90a", "sm_107a", "sm_120a")


def differing(name, count, chip, **options):
    on = chip if options.get("operands") else None
    made = mutations.mutants(FAMILIES[name], count, chip=on, **options)
    return list(compared.report(compared.differences(made, chip)))


@pytest.mark.each_value(2)
@pytest.mark.sampled(8)
@by_family
def test_ptxas_agrees_on_changed_spellings(name):
    chip = next(chip for chip in NEWEST if chip in FAMILIES[name].chips())
    assert differing(name, 60, chip, seed=7) == []


@pytest.mark.each_value(1)
@pytest.mark.sampled(16)
@by_family
def test_ptxas_agrees_on_changed_operands(name):
    chip = next(chip for chip in NEWEST if chip in FAMILIES[name].chips())
    assert differing(name, 60, chip, operands=True) == []


@pytest.mark.slow
@by_family
def test_ptxas_agrees_on_many_changed_operands_on_every_chip(name):
    assert certify.check_spellings(FAMILIES[name], list(CHIPS), 150, seed=1, operands=True)


@pytest.mark.slow
@by_family
def test_ptxas_agrees_on_many_changed_spellings_on_every_chip(name):
    assert certify.check_spellings(FAMILIES[name], list(CHIPS), 1000)


def test_every_spelling_is_another_and_the_same_in_every_run():
    family = FAMILIES["wgmma.mma_async"]
    made = [mutant.line for mutant in mutations.mutants(family, 300)]
    assert len(set(made)) == 300
    assert made == [mutant.line for mutant in mutations.mutants(family, 300)]
    assert made != [mutant.line for mutant in mutations.mutants(family, 300, seed=1)]
    changes = {word for mutant in mutations.mutants(family, 300) for word in mutant.change.split()}
    assert {"insert", "insert_twice", "remove_types", "replace_alike", "shuffle", "repeat"} <= changes


@pytest.mark.parametrize("name, chip", [("mma.sync", "sm_70"), ("tcgen05.cp", "sm_100a")])
def test_operands_are_changed_of_forms_that_the_chip_has(name, chip):
    """Other forms are refused there whatever their operands are."""
    table = FAMILIES[name].table
    made = mutations.mutants(FAMILIES[name], 60, operands=True, chip=chip)
    assert len(made) == 60
    assert all(chip in table[mutant.form].chips for mutant in made)
    assert made != mutations.mutants(FAMILIES[name], 60, operands=True)


def test_chips_without_a_family_have_no_operands_to_change(monkeypatch, capsys):
    asked = []

    def compare(family, chips, count, seed, jobs, *, operands):
        asked.append((list(chips), operands))
        return []

    monkeypatch.setattr(certify, "compare", compare)
    fence = FAMILIES["wgmma.fence"]
    assert certify.check_spellings(fence, ["sm_80", "sm_90a"], 9, operands=True)
    assert certify.check_spellings(fence, ["sm_80", "sm_90a"], 9)
    assert asked == [(["sm_90a"], True), (["sm_80", "sm_90a"], False)]
    assert capsys.readouterr().out.startswith("wgmma.fence: 9 spellings on 1 chips, 0 differ\n")


TOKENS = ["sync", "aligned", "m8n8", "x1", "trans", "shared", "b16", "f16"]
OPERANDS = ["{%b32_0, %b32_1}", "[%b64_0]", "%b32_2", "0"]


@pytest.mark.parametrize("change", dict.fromkeys(mutations._OPCODE_CHANGES), ids=lambda c: c.__name__)
def test_each_change_of_modifiers_makes_another_opcode(change):
    made = [change(random.Random(seed), list(TOKENS), ["row", "b8"]) for seed in range(20)]
    assert made.count(TOKENS) < 10
    assert change(random.Random(0), [], []) is not None


@pytest.mark.parametrize("change", dict.fromkeys(mutations._OPERAND_CHANGES), ids=lambda c: c.__name__)
def test_each_change_of_operands_makes_other_operands(change):
    made = [change(random.Random(seed), list(OPERANDS)) for seed in range(20)]
    assert made.count(OPERANDS) < 10
    assert change(random.Random(0), []) is not None


def test_registers_of_another_type_stand_where_the_others_did():
    shapes = {change: set() for change in OPERANDS}
    for seed in range(60):
        made = mutations._retype(random.Random(seed), list(OPERANDS))
        (at,) = (i for i, operand in enumerate(made) if operand != OPERANDS[i])
        shapes[OPERANDS[at]].add(re.sub(r"%\w+_x\d|%b32_\d", "%", made[at]))
    assert list(shapes.values()) == [{"{%, %}"}, {"[%]"}, {"%"}, {"%"}]


def test_the_declarations_are_legal():
    entries = [assembler.Entry.of(form) for form in list(FAMILIES["ldmatrix"].table)[:2]]
    assert assembler.assemble(entries, "sm_80", None, mutations.DECLARATIONS) == [None, None]


# Planted faults


def mutant(line, name="ldmatrix"):
    form = next(iter(FAMILIES[name].table))
    entry = assembler.Entry.of(form)
    made = f"{line} {entry.line.partition(' ')[2]}"
    return mutations.Mutant(made, assembler.Entry(made, entry.registers, entry.read, entry.written), form, "")


def test_what_ptxas_takes_and_the_tables_lack_is_seen(monkeypatch):
    made = [mutant("ldmatrix.sync.sync.aligned.m8n8.x1.shared.b16")]
    assert compared.differences(made, "sm_80") == []
    monkeypatch.setattr(lenient_spelling, "REPEATABLE", frozenset())
    (difference,) = compared.differences(made, "sm_80")
    assert difference.taken and "has .sync twice" in difference.complaint
    (line,) = compared.report([difference])
    assert line.endswith("on sm_80: ptxas takes it, but in the tables it has .sync twice")


def test_what_the_tables_have_and_ptxas_refuses_is_seen(monkeypatch):
    made = [mutant("ldmatrix.sync.aligned.aligned.m8n8.x1.shared.b16")]
    assert compared.differences(made, "sm_80") == []
    monkeypatch.setattr(lenient_spelling, "REPEATABLE", frozenset({"aligned"}))
    (difference,) = compared.differences(made, "sm_80")
    assert not difference.taken and "aligned" in difference.complaint


def test_what_ptxas_ignores_is_known_and_no_more(monkeypatch):
    made = [mutant("ldmatrix.sync.aligned.m8n8.x1.row.shared.b16")]
    assert compared.differences(made, "sm_80") == []
    monkeypatch.setattr(lenient_spelling, "_IGNORED", ())
    assert len(compared.differences(made, "sm_80")) == 1


def test_operands_that_the_tables_take_and_ptxas_refuses_are_seen(monkeypatch):
    made = [operands("mma.sync", "m16n8k16.row.col.f32.f16.f16.f32", "{%b32_4, %b32_5}", "{1, 1}")]
    assert compared.differences(made, "sm_80") == []
    monkeypatch.setattr(compared.written, "judge", lambda *_: None)
    (difference,) = compared.differences(made, "sm_80")
    assert not difference.taken and difference.complaint == "Arguments mismatch for instruction 'mma'"


@pytest.mark.each_value(6)
@pytest.mark.parametrize(
    "chip, family, ending, old, new, said",
    [
        ("sm_80", "movmatrix", "trans.b16", "%b32_1", "%pred_x0", "got %pred_x0 of .pred"),
        ("sm_80", "ldmatrix", "m8n8.x1.shared.b16", "%b32_0", "%pred_x0", "got %pred_x0 of .pred"),
        (
            "sm_80",
            "ldmatrix",
            "m8n8.x1.shared.b16",
            "{%b32_0}",
            "{%tid.x}",
            "d must be a register, got %tid.x",
        ),
        (
            "sm_80",
            "mma.sync",
            "m8n8k4.row.col.f64.f64.f64.f64",
            "%f64_0",
            "%clock64",
            "d must be a register, got %clock64",
        ),
        (
            "sm_90a",
            "stmatrix",
            "m8n8.x1.shared.b16",
            "%b64_0",
            "%clock64",
            "address must be a register, got %clock64",
        ),
        (
            "sm_80",
            "mma.sp",
            "m16n8k32.row.col.s32.u8.u8.s32",
            "{%b32_4, %b32_5}",
            "%f16x2_x0",
            "got %f16x2_x0",
        ),
        (
            "sm_87",
            "mma.sp",
            "m16n8k64.row.col.s32.u4.u4.s32",
            "{%b32_4, %b32_5}",
            "0f3F800000",
            "a must be a list in braces, got 0f3F800000",
        ),
        (
            "sm_110",
            "mma.sync",
            "m8n8k16.row.col.s32.s8.s8.s32",
            "%b32_4",
            "1.0",
            "c must be a register, got 1.0",
        ),
        (
            "sm_90a",
            "wgmma.mma_async",
            "m64n8k16.f32.f16.f16",
            "%f32_1,",
            "%tid.x,",
            "d must be a register, got %tid.x",
        ),
        (
            "sm_90a",
            "mma.sp",
            "m16n8k32.row.col.f32.f16.f16.f32",
            " %b32_8,",
            " %v4_x0,",
            "must be a register, got the vector",
        ),
        ("sm_100a", "tcgen05.mma", "kind::f16.collector::a::discard", "%pred_0", "7", "in 0..1, got 7"),
    ],
)
def test_operands_that_ptxas_takes_and_the_tables_refuse_are_seen(
    chip, family, ending, old, new, said, monkeypatch
):
    made = [operands(family, ending, old, new)]
    assert compared.differences(made, chip) == []
    monkeypatch.setattr(unchecked, "UNCHECKED", ())
    (difference,) = compared.differences(made, chip)
    assert difference.taken and said in difference.complaint


FOUR_DOUBLES, LONG_WORDS = "{%f64_0, %f64_1, %f64_2, %f64_3}", "{%u64_x0, %u64_x1, %u64_x2, %u64_x3}"


@pytest.mark.parametrize(
    ("chip", "family", "ending", "old", "new"),
    [
        ("sm_121", "wmma.mma", "and.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32", "{%b32_3}", "{0}"),
        ("sm_103a", "mma.sync", "m16n8k16.row.col.f64.f64.f64.f64", FOUR_DOUBLES, LONG_WORDS),
    ],
)
def test_failures_of_ptxas_in_code_that_it_makes_are_no_differences(
    chip, family, ending, old, new, monkeypatch
):
    made = [operands(family, ending, old, new)]
    assert compared.differences(made, chip) == []
    monkeypatch.setattr(unchecked, "_FAILURES", ())
    (difference,) = compared.differences(made, chip)
    assert not difference.taken and "Arguments mismatch" in difference.complaint


def operands(family, ending, old, new):
    """The form with that opcode, with one operand replaced."""
    form = next(form for form in FAMILIES[family].table if form.ptx.endswith(ending))
    entry = assembler.Entry.of(form)
    line = entry.line.replace(old, new)
    assert line != entry.line
    return mutations.Mutant(line, assembler.Entry(line, entry.registers, entry.read, entry.written), form, "")


def test_complaints_about_a_librarys_text_are_of_no_line(monkeypatch):
    """ptxas makes a text of its own of wmma.store, and counts the lines in that."""
    monkeypatch.setattr(assembler, "KERNELS", 8)
    form = next(form for form in FAMILIES["wmma.store"].table if form.ptx.endswith("row.m16n16k16.f16"))
    right = assembler.Entry.of(form)
    wrong = replace(right, line=right.line.replace("%b32_0", "%tid.x"))
    found = assembler.assemble([*[right] * 40, wrong, *[right] * 20], "sm_75")
    assert [at for at, complaint in enumerate(found) if complaint] == [40]


# The command


def test_a_family_without_axes_is_certified(capsys):
    assert certify.main(["wgmma", "--family", "wgmma.fence", "--sample", "9", "--chips", "sm_90a"]) == 0
    assert "wgmma.fence: 1 forms, 9 points, 0 disagree" in capsys.readouterr().out


def test_the_command_counts_spellings(capsys):
    options = ["wgmma", "--family", "wgmma.fence", "--mutations", "20", "--chips", "sm_90a", "--jobs", "1"]
    assert certify.main(options) == 0
    assert capsys.readouterr().out == "wgmma.fence: 20 spellings on 1 chips, 0 differ\n"


def test_the_command_takes_all_modules_where_none_is_named(monkeypatch):
    asked = []

    def answer(family, chips, count, seed, jobs, *, operands):
        asked.append((family.name, chips, count, seed, jobs, operands))
        return family.name != "mma.sync"

    monkeypatch.setattr(certify, "check_spellings", answer)
    options = ["--mutations", "5", "--chips", "sm_90a,sm_80"]
    assert certify.main([*options, "--family", "wgmma.fence"]) == 0
    assert asked == [("wgmma.fence", ["sm_90a", "sm_80"], 5, 0, None, False)]
    asked.clear()
    assert certify.main([*options, "--seed", "3", "--jobs", "2", "--operands"]) == 1
    assert asked == [(name, ["sm_90a", "sm_80"], 5, 3, 2, True) for name in FAMILIES]


def test_the_command_counts_changed_operands(capsys):
    options = [
        "tcgen05",
        "--family",
        "tcgen05.shift",
        "--mutations",
        "20",
        "--operands",
        "--chips",
        "sm_100a",
    ]
    assert certify.main([*options, "--jobs", "1"]) == 0
    assert capsys.readouterr().out == "tcgen05.shift: 20 spellings on 1 chips, 0 differ\n"


@pytest.mark.parametrize(
    "options, said",
    [
        (["wgmma", "--operands"], "--operands needs --mutations"),
        (["wgma"], "module must be one of wmma, mma, wgmma, tcgen05, got 'wgma'"),
        (["wgmma", "--family", "wgmma.fance"], "--family must be one of wgmma.mma_async"),
        (["--chips", "sm_99"], "--chips must be a known chip (sm_70, "),
    ],
)
def test_names_that_there_arent_are_errors(options, said, capsys):
    with pytest.raises(SystemExit):
        certify.main(options)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--sample", "--mutations", "--jobs"])
@pytest.mark.parametrize("number", ["0", "-3", "x", "1.5"])
def test_numbers_below_one_are_refused(option, number, capsys):
    with pytest.raises(SystemExit) as ended:
        certify.main(["wgmma", "--family", "wgmma.fence", f"{option}={number}"])
    assert ended.value.code == 2
    assert f"argument {option}: must be a whole number from 1, got '{number}'" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["/no/such/ptxas", "/"])
def test_a_missing_ptxas_is_reported(path, monkeypatch, capsys):
    monkeypatch.setenv("WEFT_PTXAS", path)
    assembler.ptxas.cache_clear()
    try:
        with pytest.raises(SystemExit) as ended:
            certify.main(["wgmma", "--family", "wgmma.fence", "--sample", "3"])
    finally:
        assembler.ptxas.cache_clear()
    assert ended.value.code == 2
    assert f"no ptxas: '{path}', which WEFT_PTXAS names, is no program" in capsys.readouterr().err


@pytest.mark.slow
def test_ctrl_c_ends_it_at_once():
    """What its processes were about is given up: one of them alone would take a minute."""
    command = [sys.executable, certify.__file__, "mma", "--jobs", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True, text=True) as running:
        time.sleep(2)
        os.killpg(running.pid, signal.SIGINT)
        try:
            _, said = running.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            raise
    assert running.returncode == 130
    assert "interrupted" in said
