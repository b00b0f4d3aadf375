"""A plugin of pytest: each launch of the emulator runs with some seeds, too, which must find nothing more.

WEFT_SEEDS=4 python -m pytest -p emulator_seeds test/python/test_emulator_triton.py
"""

import copy
import os

from weft import emulator

SEEDS = int(os.environ.get("WEFT_SEEDS", "4"))
plain_launch = emulator.Module.launch
tried = []

COMPARING = ("longs", "float_max")
"""Kernels of `atomics.cu` whose loops compare and swap, beginning with a plain load: it races with the swaps
of another block, which is reported where one of these comes first.
"""


def places(findings):
    return {(each.rule, each.line) for each in findings}


def is_known(kernel, finding):
    return kernel in COMPARING and finding.rule == "global-race" and "is read, and written" in finding.message


def launch(self, kernel=None, *args, **options):
    """As Module.launch; the launches with seeds begin with copies of the same module and arguments."""
    if options.get("seed") is not None or options.get("sanitize") is False or options.get("trace"):
        return plain_launch(self, kernel, *args, **options)
    lock = self._decoding  # which can't be copied
    before = [copy.deepcopy((self, args, options), {id(lock): lock}) for _ in range(SEEDS)]
    report = plain_launch(self, kernel, *args, **options)
    for seed, (module, same_args, same_options) in enumerate(before):
        try:
            found = plain_launch(module, kernel, *same_args, **same_options | {"seed": seed}).findings
        except (emulator.Fault, emulator.Deadlock) as error:
            raise AssertionError(f"{kernel} with seed {seed}: {error}") from error
        tried.append(kernel)
        new = [each for each in found if (each.rule, each.line) not in places(report.findings)]
        more = [str(each) for each in new if not is_known(kernel, each)]
        assert not more, f"{kernel} with seed {seed}: {more}"
    return report


emulator.Module.launch = launch


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"{len(tried)} launches with a seed")
