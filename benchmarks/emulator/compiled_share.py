"""Counts the warp instructions for which the emulator has compiled code, in the kernels that tests run.

    PYTHONPATH=benchmarks/emulator pytest -p compiled_share test/python/test_emulator_triton.py

At the end, a line for each file of tests has the number of instructions that were executed, the share of
those with compiled code, and what most of the others were.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

from weft.emulator import waves
from weft.emulator.compiled.plan import planned
from weft.emulator.compiled.state import Kind
from weft.emulator.decoding.program import Program
from weft.emulator.running.totals import Totals

_SHOWN = 8
_launches: list[tuple[Program, Totals]] = []
_counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
_COMPILED = ""


def _count(program: Program, totals: Totals) -> Counter[str]:
    """The executed warp instructions without compiled code by their opcodes, and those with it."""
    interpreted = defaultdict(set)
    for operation in planned(program)[0].operations:
        if operation.kind == Kind.INTERPRET:
            interpreted[operation.block].add(program.blocks[operation.block].instruction(operation.step))
    found: Counter[str] = Counter()
    for number, block in enumerate(program.blocks):
        for at, opcode in enumerate(block.opcodes):
            found[opcode if at in interpreted[number] else _COMPILED] += totals.runs[number]
    return found


def pytest_configure() -> None:
    run = waves.Waves.run

    def recorded(self: waves.Waves, *args: object) -> bool:
        _launches.append((self.program, self.totals))
        return run(self, *args)  # type: ignore[arg-type]

    waves.Waves.run = recorded  # type: ignore[method-assign, assignment]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    result = yield
    for program, totals in {id(totals): (program, totals) for program, totals in _launches}.values():
        _counts[item.path.name] += _count(program, totals)
    _launches.clear()
    return result  # type: ignore[return-value]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for name, counts in _counts.items():
        total = counts.total() or 1
        rest = [(opcode, count) for opcode, count in counts.most_common() if opcode != _COMPILED]
        shown = ", ".join(f"{opcode} {100 * count / total:.1f}" for opcode, count in rest[:_SHOWN])
        terminalreporter.write_line(f"{name} {total} {100 * counts[_COMPILED] / total:.1f}%  {shown}")
