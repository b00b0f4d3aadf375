"""Compares the verdicts of `written` on mutants with those of ptxas."""

import multiprocessing
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import unchecked
from assembler import LAST, assemble, kernel_text
from mutations import DECLARATIONS, Mutant, mutants

from weft.isa import tables
from weft.isa.chips import CHIPS, describe
from weft.isa.family import Family
from weft.isa.text import lenient_spelling, reader, written


@dataclass(frozen=True)
class Difference:
    """An instruction that ptxas accepts on `chip` and the tables refuse, or the reverse: `complaint` is
    the reason of the one that refuses it.
    """

    line: str
    chip: str
    taken: bool
    complaint: str


def differences(mutated: Sequence[Mutant], chip: str) -> list[Difference]:
    """The differences between ptxas and the tables on these mutants, except for known ones: what ptxas
    accepts beyond PTX, and inputs on which it fails.
    """
    read = [(mutant, instruction) for mutant in mutated if (instruction := _instruction(mutant))]
    version = LAST[CHIPS[chip].volta]
    complaints = assemble([mutant.entry for mutant, _ in read], chip, version, DECLARATIONS)
    differing = []
    for (mutant, instruction), complaint in zip(read, complaints, strict=True):
        verdict = written.judge(instruction, chip, version)
        if verdict is None and complaint is not None:
            if not unchecked.fails(instruction, complaint):
                differing.append(Difference(mutant.line, chip, False, complaint.split("\n")[0]))
        elif verdict is not None and complaint is None and not _known(instruction, chip, version):
            differing.append(Difference(mutant.line, chip, True, verdict.reason))
    return differing


def _instruction(mutant: Mutant) -> reader.Instruction | None:
    """The only tensor-core instruction of the mutant's kernel, which declares its registers; None where a
    mutation left no opcode that the reader knows.
    """
    instructions = list(
        reader.instructions(f".visible .entry k{kernel_text(mutant.entry, DECLARATIONS, '')}")
    )
    return instructions[0] if len(instructions) == 1 else None


def _known(instruction: reader.Instruction, chip: str, version: tuple[int, int]) -> bool:
    """Whether it is known that ptxas accepts this although PTX lacks it: a form, modifiers that it ignores,
    or operands that it doesn't check.
    """
    if any(written.judge(checked, chip, version) is None for checked in unchecked.alike(instruction)):
        return True
    opcode = lenient_spelling.once(instruction.opcode)
    for rest in _shorter(opcode):
        spelled = tables.read(rest, instruction.operands)
        if spelled is None:
            continue
        if tables.unpublished(*spelled, chip) is not None:
            return True
        shorter = instruction._replace(opcode=rest)
        if rest != opcode and written.judge(shorter, chip, version) is None:
            return True
    return False


def _shorter(opcode: str) -> Iterator[str]:
    """The opcode; the opcode without ignored modifiers; and without some that ptxas ignores at times."""
    yield opcode
    for head, default in lenient_spelling.DEFAULTS.items():
        if opcode.startswith(f"{head}."):
            yield f"{opcode}.{default}"
    rest = lenient_spelling.without(opcode, lenient_spelling.ignored(opcode))
    if rest != opcode:
        yield rest
    head, *tokens = rest.split(".")
    positions = [i for i, token in enumerate(tokens) if token in lenient_spelling.SOMETIMES_IGNORED]
    for count in range(1, min(len(positions), 4) + 1):
        for gone in combinations(positions, count):
            yield lenient_spelling.once(".".join((head, *(t for i, t in enumerate(tokens) if i not in gone))))


@contextmanager
def processes(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes for tasks. After an exception, also Ctrl-C, unfinished tasks are given up."""
    with ProcessPoolExecutor(jobs) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def compare(
    family: Family[Any], chips: Sequence[str], count: int, seed: int, jobs: int, *, operands: bool = False
) -> list[Difference]:
    """The differences on `count` mutants of a family on each chip: of its modifiers, or of the operands of
    forms that the chip has.
    """
    with processes(jobs) as pool:
        tasks = [pool.submit(_on_chip, family.name, chip, count, seed, operands) for chip in chips]
        return [difference for task in tasks for difference in task.result()]


def _on_chip(name: str, chip: str, count: int, seed: int, operands: bool) -> list[Difference]:
    family = next(family for family in tables.FAMILIES if family.name == name)
    # The operands of a form that the chip lacks tell nothing: it is refused whatever they are.
    mutated = mutants(family, count, seed, operands=operands, chip=chip if operands else None)
    return differences(mutated, chip)


def report(differences: Iterable[Difference]) -> Iterator[str]:
    """A line for each differing instruction, with all chips where it differs."""
    chips: dict[tuple[str, bool], list[Difference]] = defaultdict(list)
    for difference in differences:
        chips[difference.line, difference.taken].append(difference)
    for (line, taken), alike in chips.items():
        where = describe(frozenset(difference.chip for difference in alike))
        said = "ptxas takes it, but in the tables it" if taken else "the tables have it, but ptxas reports"
        yield f"{line} on {where}: {said} {alike[0].complaint}"
