"""Finds mistakes that a GPU doesn't report: races, missing waits and fences, reads of uninitialized state."""

from weft.emulator.sanitizer.checker import Sanitizer
from weft.emulator.sanitizer.findings import RULES, Finding, Findings, FoundList, ignored_rules
from weft.emulator.sanitizer.global_memory import GlobalMemory
from weft.emulator.sanitizer.kernel_properties import Kernel
from weft.emulator.sanitizer.registers import instrumented

__all__ = [
    "RULES",
    "Finding",
    "Findings",
    "FoundList",
    "GlobalMemory",
    "Kernel",
    "Sanitizer",
    "ignored_rules",
    "instrumented",
]
