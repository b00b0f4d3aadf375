"""Runs the compiled products of one wave, and its sanitizer's checks of what they read in shared memory."""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.emulator.compiled.operand_reads import Lists, OperandReads
from weft.emulator.native import addresses
from weft.emulator.numerics import products
from weft.emulator.numerics.arithmetic import Rule, decode, exponents
from weft.emulator.numerics.native_sums import address
from weft.emulator.running.product_code import ProductKind, Read, Run
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.checker import Sanitizer
from weft.isa.types import ELEMENT_TYPES


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
        return products.is_worth(rule or products.INTEGERS, work) or self._at_once

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
    step = kind.how.step_bytes // max(1, ELEMENT_TYPES[kind.types[0]].bits // 8) or kind.k
    return None if kind.how.order else Rule.of(kind.how, kind.k, step, kind.types[2])


class _Function:
    """The code of one kind, with the memory that it works in."""

    def __init__(self, kind: ProductKind, rule: Rule | None) -> None:
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
            self._parts[Part.SUMS] = address(rule)
        for part, name in ((Part.A_TABLE, kind.types[0]), (Part.B_TABLE, kind.types[1])):
            if name not in LEAST and ELEMENT_TYPES[name].kind == "float":
                self._parts[part] = self._address(_table(name))
        self._run, self._pointer = _compiled(kind), self._parts.ctypes.data

    def _address(self, array: npt.NDArray[np.float64]) -> int:
        self._kept.append(array)
        return int(array.ctypes.data)

    def run(self, jobs: int, count: int, blocks: int) -> None:
        self._parts[self._blocks] = blocks
        self._run(jobs, count, self._pointer)


@cache
def _table(name: str) -> npt.NDArray[np.float64]:
    """The values of all codes of a format, then their exponents as integers."""
    values = decode(np.arange(256, dtype=np.uint8), name)
    return np.concatenate([values, exponents(values, name).astype(np.int64).view(np.float64)])


@cache
def _compiled(kind: ProductKind) -> Callable[..., Any]:
    from weft.emulator.compiled.product_code import text_of

    at = addresses(text_of(kind), ["product"], code=2, whole=True)["product"]
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(at)
