"""The findings of `weft lint` in a file: tensor-core instructions, and illegal ones of other kinds."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from weft.errors import Diagnostic, Location, WeftError
from weft.isa.chips import CHIPS, NEWEST_PTX, PTX_VERSIONS, unknown_chip
from weft.isa.family import Verdict
from weft.isa.text import reader, written
from weft.isa.text.other_opcodes import OTHER
from weft.tools import cli

if TYPE_CHECKING:
    from weft.dialects.op import Related
    from weft.mlir import ir

# Chips from before tensor cores: no instruction is legal there, which the tables say by themselves.
_OLDER = re.compile(r"sm_[1-6]\d")
_MOST_SHOWN = 40


class Finding(NamedTuple):
    """One instruction of a file: where it is, how it is spelled, and what is wrong with it, if anything; or
    what there is to say of a legal one.
    """

    line: int
    column: int
    instruction: str
    verdict: Verdict | None
    subject: str
    remark: str = ""

    def json(self) -> str:
        """The finding as one line of JSON."""
        verdict = self.verdict
        remark: dict[str, object] = {"remark": self.remark} if self.remark else {}
        if verdict and verdict.related:
            line, _, note = verdict.related
            remark["note"] = {"line": line, "text": note}
        return json.dumps(
            {
                "line": self.line,
                "instruction": self.instruction,
                "legal": verdict is None,
                "rule": verdict.rule if verdict else None,
                "reason": verdict.reason if verdict else None,
                "nearest": list(verdict.nearest) if verdict else [],
                **remark,
            },
            ensure_ascii=False,
        )

    def text(self, name: str) -> str:
        """The complaint, or the remark, as a line of text, about the file `name`."""
        kind, said = ("error", self.verdict) if self.verdict else ("remark", self.remark)
        related = self.verdict.related if self.verdict else None
        note = "\n{}:{}:{}: note: {}".format(name, *related) if related else ""
        return f"{name}:{self.line}:{self.column}: {kind}: {self.subject} {said}{note}"


def lint_ptx(text: str, chip: str | None = None) -> list[Finding]:
    """Judges every tensor-core instruction of a PTX text, on `chip` or on the one that the text names; and
    lists the other instructions that the chip or the text's PTX version lacks.
    """
    chip = chip or reader.target(text)
    judge = written.Judge(chip, reader.version(text))
    verdicts = []
    for statement in reader.statements(text, others=True):
        line, column, opcode = statement[:3]
        verdict = judge(statement)
        if verdict is None and opcode.partition(".")[0] in OTHER:
            continue
        remark = "" if verdict else written.remark(opcode, chip)
        verdicts.append(Finding(line, column, opcode, verdict, f"'{opcode}'", remark))
    return verdicts


def lint_mlir(text: str, path: str, chip: str | None = None) -> list[Finding]:
    """Judges every operation of Weft's in the text of an .mlir file, and upstream's that can be raised to
    one, on `chip` or on the target around each. Raises WeftError for what can't be parsed.
    """
    from weft import mlir

    name = cli.name_of(path)
    with parsing(name) as context:
        module = mlir.parse_file(path, context) if Path(path).is_file() else mlir.parse(text, context, name)
    return [finding for finding, _ in lint_module(module, name, chip)]


@contextmanager
def parsing(name: str) -> "Iterator[ir.Context]":
    """A new context in which illegal operations can be parsed; errors call the text `name`."""
    from weft.dialects import context as new_context
    from weft.dialects.op import unchecked

    context = new_context()
    context.enable_multithreading(False)  # the switch is a thread's own
    with unchecked(), cli.speaking_of(name):
        yield context


def lint_module(
    module: "ir.Module", name: str, chip: str | None = None
) -> "list[tuple[Finding, ir.OpView | None]]":
    """Judges the operations of a module that was parsed in `parsing`, in the order of the text. Each finding
    comes with its operation, or with None where upstream's operations stay.
    """
    from weft.dialects.op import judged_on, unchecked
    from weft.passes import nvvm_to_weft
    from weft.passes.analysis import active_threads, cta_groups

    with unchecked(), cli.speaking_of(name), module.operation.location, judged_on(chip):
        outcome = nvvm_to_weft.raise_operations(module.operation)
    unraised = [_unraised(diagnostic, name) for diagnostic in outcome.refused]
    unraised += [_left(op, name, why) for op, why in outcome.left]
    with judged_on(chip):
        ops = _operations(module)
        misplaced: dict[ir.Operation, str | Related] = {
            op.operation: wrong for op, wrong in active_threads.divided(ops)
        }
        misplaced |= {op.operation: wrong for op, wrong in cta_groups.mixed(module)}
        verdicts = [(judge_operation(op, name, misplaced.get(op.operation)), op) for op in ops]
    judged = [*((finding, None) for finding in unraised), *verdicts]
    return sorted(judged, key=lambda pair: (pair[0].line, pair[0].column))


def _unraised(diagnostic: Diagnostic, name: str) -> Finding:
    """What no operation of ours can say, such as one of upstream's whose immediate isn't constant."""
    location = diagnostic.location or Location(name, 0, 0)
    subject, _, reason = diagnostic.message.partition(" op ")
    verdict = Verdict("operands", reason, related=_related(*diagnostic.notes) if diagnostic.notes else None)
    return Finding(location.line, location.column, subject.strip("'"), verdict, f"{subject} op")


def _related(note: Diagnostic) -> tuple[int, int, str]:
    line, column = (note.location.line, note.location.column) if note.location else (0, 0)
    return line, column, note.message


def _left(op: "ir.OpView", name: str, remark: str) -> Finding:
    """What stays as upstream has it."""
    from weft import mlir

    location = mlir.location(op.location, name) or Location(name, 0, 0)
    return Finding(location.line, location.column, str(op.name), None, f"'{op.name}' op", remark)


def _operations(module: "ir.Module") -> "list[ir.OpView]":
    """The operations of Weft's dialects and of registered ones, in the order of the text."""
    from weft.dialects import dialects
    from weft.mlir import ir

    namespaces = {dialect.DIALECT_NAMESPACE for dialect in dialects()}
    operations: list[ir.OpView] = []

    def visit(op: "ir.OpView") -> "ir.WalkResult":
        if op.name.partition(".")[0] in namespaces:
            operations.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return [op.opview for op in operations]


def judge_operation(op: "ir.OpView", name: str, misplaced: "str | Related | None" = None) -> Finding:
    """Judges one operation of Weft's on the target around it. `misplaced` is how it doesn't fit to others."""
    from weft import mlir
    from weft.dialects.descriptor import DescriptorOp
    from weft.dialects.instruction import InstructionOp
    from weft.dialects.op import Related, location_of, refuse

    wrong: str | Related | None = None
    subject, instruction = f"'{op.operation.name}' op", str(op.operation.name)
    try:
        with op.location:
            verdict, rule = None, "check"
            if isinstance(op, InstructionOp) and (family := op.family) is not None:
                form, target, rule = op.form, op.target, "operands"
                instruction = form.ptx
                verdict = family.judge(form, target.chip.name if target else None)
            elif isinstance(op, DescriptorOp):
                verdict = op.complaint()
            if verdict is None and (wrong := op.check() or op.check_constants() or misplaced):
                if isinstance(wrong, Related):
                    (diagnostic,) = refuse(op, wrong).diagnostics
                    verdict = Verdict(rule, wrong.message, related=_related(*diagnostic.notes))
                else:
                    verdict = Verdict(rule, wrong)
    except WeftError as error:  # of an unknown chip around the op
        verdict = Verdict("target", error.diagnostics[0].message)
    location = mlir.location(location_of(op, wrong), name) or Location(name, 0, 0)
    return Finding(location.line, location.column, instruction, verdict, subject)


def chip_of(text: str, name: str) -> str | None:
    """The chip that a PTX text names. Raises WeftError for one that the tables don't know."""
    chip = reader.target(text)
    if chip is None or chip in CHIPS or _OLDER.fullmatch(chip):
        return chip
    before = text[: text.index(chip)]
    location = Location(name, before.count("\n") + 1, len(before) - before.rfind("\n"))
    raise WeftError(Diagnostic(f".target {unknown_chip(chip)}", location))


def check_version(text: str, name: str) -> None:
    """Raises WeftError where a PTX text names a version that there isn't."""
    version = reader.version(text)
    if version is None or version in PTX_VERSIONS:
        return
    version_text, newest = (".".join(map(str, each)) for each in (version, NEWEST_PTX))
    code = reader.code(text)
    lines = text[: max(0, code.find(version_text, code.index(".version")))].split("\n")
    location = Location(name, len(lines), len(lines[-1]) + 1)
    raise WeftError(
        Diagnostic(f"unknown PTX version {version_text}: the newest known version is {newest}", location)
    )


def lint(path: str, chip: str | None = None) -> tuple[list[Finding], str]:
    """What a file holds, and the words for the chips it was judged on. Raises WeftError where it can't be
    read or parsed.
    """
    if chip is not None and chip not in CHIPS:
        raise WeftError(f"--arch {unknown_chip(chip)}")
    text = cli.read(path)
    if not cli.is_ptx(path, text):
        return lint_mlir(text, path, chip), f"on {chip}" if chip else "on the chips of its modules"
    name = cli.name_of(path)
    chip = chip or chip_of(text, name)
    check_version(text, name)
    verdicts = lint_ptx(text, chip)
    rules = {finding.verdict and finding.verdict.rule for finding in verdicts}
    if not reader.is_ptx(text) and rules <= {"instruction"}:  # statements that aren't PTX's at all
        words = reader.code(text).split(maxsplit=1)
        got = f"got {words[0][:_MOST_SHOWN]!r}" if words else "got none"
        before = text[: reader.code(text).index(words[0])] if words else ""
        location = Location(name, before.count("\n") + 1, len(before) - before.rfind("\n"))
        raise WeftError(Diagnostic(f"expected PTX (a directive or an instruction), {got}", location))
    return verdicts, f"on {chip}" if chip else "on some chip (it names none: give --arch)"
