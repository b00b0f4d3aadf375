"""One command lists what a new release of ptxas, LLVM or MLIR changes; its record is of those installed."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import recertify
from recertify import Change

from weft.errors import WeftError
from weft.isa import mma, tables
from weft.isa.chips import CHIPS, only

ROOT = Path(__file__).parents[2]
RECORD = json.loads((ROOT / recertify.RECORD).read_text())
OUTDATED = "run python test/certify/recertify.py, then with --write"


@pytest.fixture(autouse=True)
def chips_of_llvm(monkeypatch):
    """Each is asked about in test_target.py."""
    monkeypatch.setattr(recertify, "_llvm_knows", lambda name: CHIPS[name].llvm)


def test_the_record_is_of_what_is_installed():
    changed = {what: now for what, now in recertify.releases().items() if now != RECORD["releases"][what]}
    if changed.keys() and changed.keys() <= {"ptxas", "ptxas of CUDA 12"}:  # whose pins leave a choice
        pytest.skip(f"the record is of other releases than {changed}: {OUTDATED}")
    assert not changed, OUTDATED
    assert list(recertify.changed_facts(RECORD["facts"], recertify.facts())) == [], OUTDATED


def test_what_was_gained_and_lost_is_told():
    now = {"chips": ["sm_80", "sm_130"], "new": ["a"]}
    changes = list(recertify.changed_facts({"chips": ["sm_70", "sm_80"], "old": ["b"]}, now))
    assert changes == [
        Change("gained", "chips", "sm_130"),
        Change("lost", "chips", "sm_70"),
        Change("lost", "old", "b"),
        Change("gained", "new", "a"),
    ]
    assert list(recertify.shown(changes))[:2] == ["chips: gained 1", "  sm_130"]


def test_many_rows_are_told_by_a_few():
    changes = [Change("lost", "rows of mma.sync on sm_80", f"form {i}") for i in range(9)]
    assert list(recertify.shown(changes)) == [
        "rows of mma.sync on sm_80: lost 9",
        *("  form 0", "  form 1", "  form 2"),
        "  and 6 more",
    ]


def test_a_row_that_ptxas_no_longer_takes_is_lost(monkeypatch):
    refused = next(iter(mma.MOVMATRIX.table))
    monkeypatch.setattr(
        recertify.assembler, "verdicts", lambda points, version: dict.fromkeys(points, "Unexpected")
    )
    changes = list(recertify.rows(mma.MOVMATRIX, {}, 1))
    assert changes
    assert all(c.kind == "lost" and c.what == f"{refused.ptx}: ptxas reports Unexpected" for c in changes)


def test_a_form_that_ptxas_takes_and_the_table_lacks_is_gained(monkeypatch):
    form, support = next(iter(mma.MOVMATRIX.table.items()))
    fewer = replace(support, chips=support.chips - only("sm_90"))
    family = replace(mma.MOVMATRIX, legal=lambda: [(form, fewer)])
    monkeypatch.setattr(recertify.certify, "sample", lambda *_: [(form, "sm_90"), (form, "sm_89")])
    monkeypatch.setattr(recertify.assembler, "verdicts", lambda points, version: dict.fromkeys(points))
    assert list(recertify.rows(family, {}, 1)) == [Change("gained", "rows of movmatrix on sm_90", form.ptx)]


def test_ptxas_itself_is_asked():
    assert list(recertify.rows(mma.MOVMATRIX, {}, None)) == []
    form, support = next(iter(mma.MOVMATRIX.table.items()))
    planted = replace(mma.MOVMATRIX, legal=lambda: [(form, replace(support, chips=only("sm_70")))])
    (change,) = {c for c in recertify.rows(planted, {}, None) if c.kind == "lost"}
    assert change.where == "rows of movmatrix on sm_70"


def test_all_forms_are_tried_on_every_chip_that_has_them(monkeypatch):
    asked = []

    def refused_on_one(points, version):
        asked.extend(points)
        return {(form, chip): "No" if chip == "sm_103f" else None for form, chip in points}

    monkeypatch.setattr(recertify.assembler, "verdicts", refused_on_one)
    monkeypatch.setattr(recertify.certify, "sample", lambda *_: [])
    (form,) = mma.MOVMATRIX.table
    lost = Change("lost", "rows of movmatrix on sm_103f", f"{form.ptx}: ptxas reports No")
    assert list(recertify.rows(mma.MOVMATRIX, {}, None)) == [lost]
    assert {chip for _, chip in asked} == mma.MOVMATRIX.table[form].chips
    asked.clear()
    list(recertify.rows(mma.LDMATRIX, {}, 8))
    assert len(asked) == 8 and len({chip for _, chip in asked}) > 2


def test_rows_that_an_older_ptxas_cannot_read_are_told(monkeypatch):
    monkeypatch.setattr(recertify, "_newest", lambda *, volta: (6, 5))
    changes = list(recertify.rows(mma.MOVMATRIX, {}, None))
    (form,) = mma.MOVMATRIX.table
    what = f"{form.ptx}: no chip or PTX of ptxas has it"
    assert changes == [Change("not tried", "rows of movmatrix", what)]


def test_an_intrinsic_that_llvm_prints_otherwise_is_told(monkeypatch):
    family = mma.STMATRIX
    assert list(recertify.spellings(family, 2)) == []
    form = type(next(iter(family.table)))
    other = form.ptx.fget
    monkeypatch.setattr(form, "ptx", property(lambda self: other(self).replace(".shared", ".shared::cta")))
    changes = list(recertify.spellings(family, 2))
    assert {change.kind for change in changes} == {"printed otherwise"}


@pytest.mark.slow
def test_the_command_compares_what_is_installed_with_the_record(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(ROOT)
    older = json.loads(json.dumps(RECORD))
    older["releases"]["ptxas"] = "13.0.88"
    older["facts"]["chips of ptxas"].remove("sm_107a")
    older["facts"]["intrinsics of LLVM"].append("llvm.nvvm.mma.gone")
    monkeypatch.setattr(recertify, "RECORD", tmp_path / "releases.json")
    recertify.RECORD.write_text(json.dumps(older))
    assert recertify.main(["--facts"]) == 1
    printed = capsys.readouterr().out
    assert f"ptxas: 13.0.88 before, now {RECORD['releases']['ptxas']}\n" in printed
    assert "chips of ptxas: gained 1\n  sm_107a\n" in printed
    assert "intrinsics of LLVM: lost 1\n  llvm.nvvm.mma.gone\n" in printed
    recertify.RECORD.write_text(json.dumps(RECORD))
    assert recertify.main(["--facts"]) == 0
    assert capsys.readouterr().out.endswith("nothing changed\n")


def test_writing_what_is_recorded_changes_no_byte(monkeypatch, tmp_path):
    commands = []
    monkeypatch.setattr(recertify, "RECORD", tmp_path / "releases.json")
    monkeypatch.setattr(recertify.subprocess, "run", lambda command, check: commands.append(command[1]))
    recertify.write(RECORD)
    assert recertify.RECORD.read_bytes() == (ROOT / "docs/isa/releases.json").read_bytes()
    assert commands and all((ROOT / path).exists() for path in commands)


# Of LLVM's intrinsics of these instructions, those that no form is lowered to, and why.
UNUSED = {
    "ptxas refuses it": r"wmma\..*\.mma\.(row|col)\.(row|col)\.f(16|32)\.f(16|32)\.satfinite",
    "Weft's operations have mma.sync for it": r"wmma\.m8n8k4\.(load|store|mma)\..*f64",
    "it is printed with .shared::cluster": r"tcgen05\.commit(\.mc)?\.cg[12]",
    "an i32 here, a <1 x i32> to the LLVM of MLIR's bindings": (
        r"tcgen05\.(ld|st)\.(16x64b|32x32b|16x32bx2)\.x1"
    ),
}


def test_forms_are_lowered_to_every_intrinsic_that_llvm_has():
    used = {form.intrinsic for family in tables.FAMILIES for form in family.table if form.intrinsic}
    plain = {re.sub(r"\.p\d+$", "", name) for name in used}
    left = set(RECORD["facts"]["intrinsics of LLVM"]) - plain
    found = {
        why: {n for n in left if re.fullmatch(rf"llvm\.nvvm\.{names}", n)} for why, names in UNUSED.items()
    }
    assert all(found.values())
    assert left == set().union(*found.values())
    assert plain <= set(RECORD["facts"]["intrinsics of LLVM"])


@pytest.mark.parametrize("options", [["--family", "wgmma.fance"], ["--forms", "0"], ["--forms", "-1"]])
def test_options_that_name_nothing_are_refused(options, capsys):
    with pytest.raises(SystemExit) as ended:
        recertify.main(options)
    assert ended.value.code == 2 and options[1] in capsys.readouterr().err


@pytest.mark.parametrize("failure", [WeftError("no"), FileNotFoundError("no"), KeyboardInterrupt()])
def test_what_ends_it_is_no_change(failure, monkeypatch, capsys):
    def fail():
        raise failure

    monkeypatch.setattr(recertify, "releases", fail)
    if isinstance(failure, KeyboardInterrupt):
        assert recertify.main([]) == 130
    else:
        with pytest.raises(SystemExit) as ended:
            recertify.main([])
        assert ended.value.code == 2
    assert "recertify: " in capsys.readouterr().err
