"""Approximate functions, computed in float64 and rounded: well within the errors that PTX documents."""

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.steps import compute
from weft.emulator.decoding.table import Step, Table
from weft.emulator.instructions.floating import Format, Function, approximate_f64
from weft.emulator.reading.types import Array

table = Table()
_FUNCTIONS: dict[str, Function] = {
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}


@table.step(*_FUNCTIONS)
def approximate(op: Op) -> Step:
    wide = _FUNCTIONS[op.prefix]
    if {"ftz", "f64"} <= set(op.modifiers):
        return approximate_f64(op, wide)
    fmt = Format(op)
    op.count(2)

    def function(value: Array) -> Array:
        return wide(value.astype(np.float64)).astype(value.dtype)

    return compute(op.destination(0, fmt.type), fmt.lift(function), op.source(1, fmt.type))
