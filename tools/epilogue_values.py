"""What a `tile.epilogue` computes from arrays, in float64, and a bound on the error of each element."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from weft.dialects.op import refuse
from weft.dialects.tile import EpilogueOp, LoadElementOp
from weft.launch.arrays import numpy_dtype
from weft.mlir import ir
from weft.reference import Array

_LEAST = 2.0**-126
_LAST_PLACES = 16  # half units of the last place by which an approximation may be wrong


@dataclass(frozen=True)
class Values:
    """Values of a function's elements, and how far from them a kernel's may be. The error of a truth value is
    whether it may be the other one.
    """

    values: Array
    error: Array | int = 0


def results(
    function: EpilogueOp, outer: Mapping[ir.Value, Array], sums: Array, error: Array
) -> tuple[Array, Array]:
    """The elements of D before they are rounded to its type, and their errors. `outer` has the values outside
    of the function: arrays of the memrefs that it loads from, and numbers. Raises WeftError for an operation
    that isn't known here.
    """
    row, column = np.ogrid[: sums.shape[0], : sums.shape[1]]
    leaves = Values(sums, error), Values(row), Values(column)
    values: dict[ir.Value, Values] = dict(zip(function.block.arguments, leaves, strict=True))

    def of(value: ir.Value) -> Values:
        if value not in values:
            number = outer.get(value)
            values[value] = _result(value.owner.opview, of, outer) if number is None else Values(number)
        return values[value]

    result = of(function.result)
    return np.broadcast_to(result.values, sums.shape), np.broadcast_to(result.error, sums.shape)


def check(function: EpilogueOp) -> None:
    """Raises WeftError for an operation in a function that isn't known here."""
    used = {value for op in function.block.operations for value in op.operation.operands}
    outer = {value: np.zeros(1, _type_of(value)) for value in used if isinstance(value.owner, ir.Block)}
    sums = np.zeros((1, 1), _type_of(function.sum))
    results(function, outer, sums, np.full((1, 1), float(sums.dtype.kind == "f")))


def _type_of(value: ir.Value) -> np.dtype[Any]:
    """The type of a number, or of the numbers in a memref."""
    kind = value.type
    return number_type(str(kind.element_type if isinstance(kind, ir.MemRefType) else kind))


def number_type(name: str) -> np.dtype[Any]:
    """NumPy's type of numbers of an MLIR type."""
    return numpy_dtype("i64" if name == "index" else name)


def _result(op: ir.OpView, of: Callable[[ir.Value], Values], outer: Mapping[ir.Value, Array]) -> Values:
    name, kind = op.operation.name, op.operation.results[0].type
    if isinstance(op, LoadElementOp):
        array = outer[op.source]
        array = array if array.dtype.kind == "i" else array.astype(np.float64)
        return Values(array[:, None] if op.axes == "M" else array)
    if name == "arith.constant":
        return Values(np.asarray(op.attributes["value"].value))
    operands = [of(each) for each in op.operation.operands]
    if (tests := _TESTS.get(name)) and (test := tests.get(op.attributes["predicate"].value)):
        return _compared(test, *operands)
    if name == "arith.select":
        return _selected(*operands)
    if name in _EXACT:
        exact = _EXACT[name](*(each.values for each in operands))
        if any(np.any(each.error) for each in operands):
            raise _unknown(op)
        return Values(_wrapped(exact, kind))
    unit = _unit(kind)
    if name in _MONOTONE and unit:
        return _monotone(_MONOTONE[name], operands[0], _LAST_PLACES * unit)
    if name not in _ARITHMETIC or unit is None:
        raise _unknown(op)
    values, error, rounds = _ARITHMETIC[name](*operands)
    return Values(values, error + rounds * unit * np.maximum(np.abs(values) + error, _LEAST))


def _unknown(op: ir.OpView) -> Exception:
    return refuse(
        op, "can't be checked by weft run: give each argument by --arg, and check the result yourself"
    )


def _unit(kind: ir.Type) -> float | None:
    """The relative error of rounding to a type of floats; None for other types."""
    if (name := str(kind)) not in ("f16", "bf16", "f32", "f64"):
        return None
    return float(ml_dtypes.finfo(numpy_dtype(name)).eps) / 2  # type: ignore[no-untyped-call]


def _wrapped(values: Array, kind: ir.Type) -> Array:
    """Integers modulo those of a type."""
    if not isinstance(kind, ir.IntegerType) or kind.width == 1:
        return values
    return np.asarray(values).astype(f"int{kind.width}").astype(np.int64)


def _compared(test: Callable[[Array, Array], Array], a: Values, b: Values) -> Values:
    error = np.asarray(a.error + b.error)
    return Values(test(a.values, b.values), (np.abs(a.values - b.values) <= error) & (error > 0))


def _selected(condition: Values, a: Values, b: Values) -> Values:
    chosen = np.where(condition.values, a.error, b.error)
    either = np.abs(a.values - b.values) + np.maximum(a.error, b.error)
    return Values(np.where(condition.values, a.values, b.values), np.where(condition.error, either, chosen))


def _monotone(function: Callable[[Array], Array], x: Values, own: float) -> Values:
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        y, low, high = (function(each) for each in (x.values, x.values - x.error, x.values + x.error))
    return Values(y, np.maximum(np.abs(y - low), np.abs(high - y)) + own * np.abs(y) + _LEAST)


def _divided(a: Values, b: Values) -> tuple[Array, Array | int, int]:
    with np.errstate(invalid="ignore", divide="ignore"):
        values = a.values / b.values
        least = np.abs(b.values) - b.error
        error = np.where(least > 0, (a.error + np.abs(values) * b.error) / least, np.inf)
    return values, error, 2  # roundings, as approximations have


def _greater(a: Values, b: Values) -> tuple[Array, Array | int, int]:
    return np.maximum(a.values, b.values), np.maximum(a.error, b.error), 0


def _smaller(a: Values, b: Values) -> tuple[Array, Array | int, int]:
    return np.minimum(a.values, b.values), np.maximum(a.error, b.error), 0


def _times(a: Values, b: Values) -> tuple[Array, Array | int, int]:
    error = np.abs(a.values) * b.error + np.abs(b.values) * a.error + a.error * b.error
    return a.values * b.values, error, 1


def _fused(a: Values, b: Values, c: Values) -> tuple[Array, Array | int, int]:
    values, error, _ = _times(a, b)
    return values + c.values, error + c.error, 1


_ARITHMETIC: dict[str, Callable[..., tuple[Array, Array | int, int]]] = {
    "arith.addf": lambda a, b: (a.values + b.values, a.error + b.error, 1),
    "arith.subf": lambda a, b: (a.values - b.values, a.error + b.error, 1),
    "arith.mulf": _times,
    "arith.divf": _divided,
    "nvvm.rcp.approx.ftz.f": lambda a: _divided(Values(np.ones(())), a),
    "arith.negf": lambda a: (-a.values, a.error, 0),
    "arith.maximumf": _greater,
    "arith.maxnumf": _greater,
    "arith.minimumf": _smaller,
    "arith.minnumf": _smaller,
    "arith.extf": lambda a: (a.values, a.error, 0),
    "arith.truncf": lambda a: (a.values, a.error, 1),
    "arith.sitofp": lambda a: (a.values.astype(np.float64), a.error, 1),
    "math.absf": lambda a: (np.abs(a.values), a.error, 0),
    "math.fma": _fused,
}
_MONOTONE: dict[str, Callable[[Array], Array]] = {
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.expm1": np.expm1,
    "math.log": np.log,
    "math.log2": np.log2,
    "math.log1p": np.log1p,
    "math.sqrt": np.sqrt,
    "math.rsqrt": lambda x: 1 / np.sqrt(x),
    "math.tanh": np.tanh,
    "nvvm.ex2": np.exp2,
    "nvvm.sqrt": np.sqrt,
    "nvvm.sqrt.approx": np.sqrt,
    "nvvm.rsqrt": lambda x: 1 / np.sqrt(x),
}
_EXACT: dict[str, Callable[..., Array]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.index_cast": np.asarray,
    "arith.extsi": np.asarray,
    "arith.trunci": np.asarray,
}
_OF_INTEGERS = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
_OF_FLOATS = (np.equal, np.greater, np.greater_equal, np.less, np.less_equal, np.not_equal)
_TESTS: dict[str, dict[int, Callable[[Array, Array], Array]]] = {
    "arith.cmpi": dict(enumerate(_OF_INTEGERS)),
    # Ordered and unordered, which differ for NaN alone.
    "arith.cmpf": {first + number: test for first in (1, 8) for number, test in enumerate(_OF_FLOATS)},
}
