"""Runs the compiled products of one wave, and its sanitizer's checks of what they read in shared memory."""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.emulator.compiled.operand_reads import Lists, OperandReads
from weft.emulator.native import addresses
from weft.emulator.numerics import native_sums, products
from weft.emulator.numerics.native_sums import Rule
from weft.emulator.running.product_code import ProductKind, Read, Run
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.checker import Sanitizer
from weft.isa.types import ELEMENT_TYPES
from weft.system import late_imports


class Products:
    """See `running.product_code.ProductCode`. `at_once`: all products are worth code."""

    def __init__(self, wave: Wave, *, at_once: bool = False) -> None:
        self._watch, self._at_once = wave.watch, at_once
        self._reads = OperandReads(wave.watch) if isinstance(wave.watch, Sanitizer) else None
        self._ready: dict[ProductKind, _Function] = {}

    def product(self, kind: ProductKind, times: int) -> Run | None:
        known = self._ready.get(kind)
        if known is not None:
            return known.run
        rule = rule_of(kind)
        if (rule is None and kind.how is not None) or not self._is_worth(
            rule, times * kind.m * kind.n * kind.k
        ):
            return None
        made = self._ready[kind] = _Function(kind, rule)
        return made.run

    def _is_worth(self, rule: Rule | None, work: int) -> bool:
        if rule is None:
            return products.is_worth_integers(work) or self._at_once
        return products.is_worth(((rule, ()),), work) or self._at_once

    def prepared(self, proxy: str, reads: tuple[Read, ...]) -> Lists | None:
        return None if self._reads is None else self._reads.prepared(proxy, reads)

    def reads(self, prepared: Lists | None, line: int) -> bool:
        if self._reads is None or prepared is None:
            return self._watch is None
        return self._reads.record(prepared, line)


def rule_of(kind: ProductKind) -> Rule | None:
    """The sums of a kind; None for integers, and for orders that have no code."""
    if kind.how is None:
        return None
    a_type, b_type, d_type = kind.types
    rules = products.rules_of(kind.how, (a_type, b_type, d_type, d_type), kind.k, sparse=False)
    return rules[0][0] if len(rules) == 1 and not kind.how.order else None


class _Function:
    """The code of one kind, with the memory that it works in."""

    def __init__(self, kind: ProductKind, rule: Rule | None) -> None:
        with late_imports.whole():
            from weft.emulator.compiled.product_code import LEAST, Part
        self._parts: npt.NDArray[np.int64] = np.zeros(len(Part), np.int64)
        self._blocks = int(Part.BLOCKS)
        self._kept: list[npt.NDArray[np.float64]] = []
        sizes = {
            Part.LEFT: 2 * kind.m * kind.k,
            Part.RIGHT: 2 * kind.k * kind.n,
            Part.TOTAL: kind.m * kind.n,
            Part.OUT: kind.m * kind.n,
        }
        for part, size in sizes.items():
            self._parts[part] = self._address(np.zeros(size))
        if rule is not None:
            self._parts[Part.SUMS] = native_sums.address(rule)
        for part, name in ((Part.A_TABLE, kind.types[0]), (Part.B_TABLE, kind.types[1])):
            if name not in LEAST and ELEMENT_TYPES[name].kind == "float":
                self._parts[part] = self._address(np.concatenate(products.table_of(name, name)))
        self._run, self._pointer = _compiled(kind), self._parts.ctypes.data

    def _address(self, array: npt.NDArray[np.float64]) -> int:
        self._kept.append(array)
        return int(array.ctypes.data)

    def run(self, jobs: int, count: int, blocks: int) -> None:
        self._parts[self._blocks] = blocks
        self._run(jobs, count, self._pointer)


@cache
def _compiled(kind: ProductKind) -> Callable[..., Any]:
    with late_imports.whole():
        from weft.emulator.compiled.product_code import text_of
    at = addresses(text_of(kind), ["product"], code=2, whole=True)["product"]
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(at)
