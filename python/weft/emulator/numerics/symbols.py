"""Stands in for registers while a step of the interpreter is traced. What the step computes with NumPy
becomes an expression, from which `emit` makes code: instructions have one definition, the interpreter's.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, reduce
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from weft.emulator.numerics.floats import Fused
from weft.emulator.reading.syntax import STORAGE

Function = Callable[..., Any]
LANES = 32
_PLAIN = (1, LANES)
_KINDS = "buif"
_MOVES = ("input", "load", "bits", "same", "pick", "where")
"""What can be done with registers of 128 bits."""
_CALLS = {
    *("add", "subtract", "multiply", "divide", "floor_divide", "negative", "absolute", "sqrt"),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift", "bitwise_count"),
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    *("logical_and", "logical_or", "logical_xor", "logical_not", "minimum", "maximum", "fmin", "fmax"),
    *("isnan", "isinf", "isfinite", "signbit", "copysign", "rint", "trunc", "floor", "ceil", "nextafter"),
    "positive",
}
"""The functions of NumPy that `emit` has code for."""


class UntraceableError(Exception):
    """A step does something that has no expression; the interpreter runs it."""


class Symbol(NDArrayOperatorsMixin, Fused):
    """A value of each lane, or `count` values of each that are adjacent in memory. `trailing`: they have an
    axis of their own. `node` is the operation, followed by its operands.
    """

    __slots__ = ("count", "dtype", "node", "trailing")

    def __init__(
        self, dtype: npt.DTypeLike, node: tuple[Any, ...], count: int = 1, *, trailing: bool = False
    ) -> None:
        self.dtype: np.dtype[np.generic] = np.dtype(dtype)
        if self.dtype.kind not in _KINDS and node[0] not in _MOVES:
            raise UntraceableError(f"computes with {self.dtype}")
        self.node, self.count, self.trailing = node, count, trailing

    @property
    def shape(self) -> tuple[int, ...]:
        return (*_PLAIN, self.count) if self.trailing else (1, LANES * self.count)

    def __bool__(self) -> bool:
        raise UntraceableError("branches on a value")

    def __array__(self, *args: object, **named: object) -> npt.NDArray[np.generic]:
        raise UntraceableError("becomes an array")

    base = None
    """As of an array that shares its memory with none."""

    def any(self, axis: object = None) -> bool:
        """True: the interpreter asks only in order to skip what changes nothing."""
        if axis is not None:
            raise UntraceableError("reduces an axis")
        return True

    # Reinterpretation

    def view(self, dtype: npt.DTypeLike) -> "Symbol":
        """The same bits as elements of another type."""
        to = np.dtype(dtype)
        if to == self.dtype:
            return self
        if bool in (to, self.dtype):
            raise UntraceableError("views predicates")
        size = self.count * self.dtype.itemsize
        if size % to.itemsize:
            raise UntraceableError("views parts of an element")
        if self.node[0] == "bits" and self.node[1].dtype == to and self.node[1].trailing == self.trailing:
            source: Symbol = self.node[1]
            return source
        return Symbol(to, ("bits", self), size // to.itemsize, trailing=self.trailing)

    def astype(self, dtype: npt.DTypeLike, order: str = "K", copy: bool = True) -> "Symbol":
        """The values converted to another type."""
        to = np.dtype(dtype)
        if to == self.dtype:
            return self
        source = self.node[1] if self.node[0] == "cast" else self
        if source.dtype == to and to.kind == self.dtype.kind == "f" and to.itemsize < self.dtype.itemsize:
            return source  # which the wider type holds exactly
        return Symbol(to, ("cast", self), self.count, trailing=self.trailing)

    def reshape(self, *shape: int) -> "Symbol":
        """With the elements of a lane on an axis of their own, or next to each other."""
        if shape == self.shape:
            return self
        if shape == (*_PLAIN, self.count):
            return Symbol(self.dtype, ("same", self), self.count, trailing=True)
        raise UntraceableError("changes the shape")

    def copy(self) -> "Symbol":
        return self

    def sum(self, axis: int | None = None) -> "Symbol":
        """The sum of a lane's elements."""
        if axis != -1 or not self.trailing or self.dtype != np.int64:
            raise UntraceableError("sums lanes")
        total: Symbol = reduce(add, [self[..., i] for i in range(self.count)])
        return total

    def __getitem__(self, key: object) -> "Symbol":
        if not isinstance(key, tuple) or len(key) != 2 or key[0] is not Ellipsis:
            raise UntraceableError("picks lanes")
        at = key[1]
        if isinstance(at, int) and self.trailing:
            return self._picked((at,), trailing=False)
        if isinstance(at, list) and self.trailing:
            return self._picked(tuple(at), trailing=True)
        if isinstance(at, slice) and self.trailing:
            return self._picked(tuple(range(self.count)[at]), trailing=True)
        if isinstance(at, slice) and at.step == self.count and (at.start or 0) < self.count:
            return self._picked((at.start or 0,), trailing=False)
        raise UntraceableError("picks elements")

    def _picked(self, which: tuple[int, ...], *, trailing: bool) -> "Symbol":
        return Symbol(self.dtype, ("pick", self, which), len(which), trailing=trailing)

    def fused(self, b: object, c: object) -> "Symbol":
        """`self * b + c`, rounded once."""
        return Symbol(self.dtype, ("fma", self, b, c), self.count, trailing=self.trailing)

    # What NumPy calls

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **named: Any) -> "Symbol":
        if method == "reduce" and named == {"axis": None}:
            return self  # of which only `any` may be asked
        wide, out = named.pop("dtype", None), named.pop("out", None)
        if out is not None and out[0] is not inputs[0]:
            raise UntraceableError("writes into an array")
        if method != "__call__" or named or ufunc.__name__ not in _CALLS:
            raise UntraceableError(f"calls {ufunc.__name__}.{method}")
        values = [x if isinstance(x, Symbol) else _constant(x) for x in inputs]
        # Python's own numbers adapt to the types of others.
        pairs = zip(inputs, values, strict=True)
        types = (*(type(x) if type(x) in (int, float) else v.dtype for x, v in pairs), None)
        *wanted, to = _loop(ufunc, types, None if wide is None else np.dtype(wide))
        converted = [v.astype(each) for v, each in zip(values, wanted, strict=False)]
        count, trailing = _shape(converted)
        if to.kind in "biu" and all(map(_is_constant, converted)):
            numbers = [number_of(value) for value in converted]
            if all(number.dtype.kind in "biu" for number in numbers):
                return Symbol(to, ("constant", ufunc(*numbers, dtype=wide)), count, trailing=trailing)
        if ufunc is np.greater and _same_value(*converted):
            return Symbol(to, ("constant", np.False_), count, trailing=trailing)
        return Symbol(to, (ufunc.__name__, *converted), count, trailing=trailing)

    def __array_function__(
        self, function: Function, types: object, args: Sequence[Any], kwargs: Mapping[str, object]
    ) -> object:
        implementation = _FUNCTIONS.get(function)
        if implementation is None:
            raise UntraceableError(f"calls {function.__name__}")
        return implementation(*args, **kwargs)


class Stack(NDArrayOperatorsMixin):
    """An array whose elements along its first axis are symbols; its other axes are those of lanes."""

    def __init__(self, parts: Sequence[Symbol]) -> None:
        self._parts = list(parts)

    def __len__(self) -> int:
        return len(self._parts)

    def view(self, dtype: npt.DTypeLike) -> "Stack":
        return Stack([part.view(dtype) for part in self._parts])

    def astype(self, dtype: npt.DTypeLike) -> "Stack":
        return Stack([part.astype(dtype) for part in self._parts])

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **named: Any) -> Any:
        if method == "reduce":
            return reduce(ufunc, self._parts)
        if method == "reduceat":
            ends = [*inputs[1][1:], len(self)]
            return Stack([reduce(ufunc, self._parts[a:b]) for a, b in zip(inputs[1], ends, strict=True)])
        out = named.pop("out", None)
        results = self._each(ufunc, inputs)
        if out is None:
            return results
        out[0]._parts = results._parts
        return out[0]

    def __array_function__(
        self, function: Function, types: object, args: Sequence[object], _: object
    ) -> "Stack":
        return self._each(function, args)

    def _each(self, function: Function, args: Sequence[object]) -> "Stack":
        every = [each._parts if isinstance(each, Stack) else [each] * len(self) for each in args]
        return Stack([function(*each) for each in zip(*every, strict=True)])


@cache
def _loop(
    ufunc: np.ufunc, types: tuple[object, ...], wide: "np.dtype[np.generic] | None"
) -> "tuple[np.dtype[np.generic], ...]":
    """The types with which NumPy computes."""
    resolve: Any = ufunc.resolve_dtypes
    signature = (*[None] * (len(types) - 1), wide)
    found: tuple[np.dtype[np.generic], ...] = (
        resolve(types) if wide is None else resolve(types, signature=signature)
    )
    return found


def _constant(value: object) -> Symbol:
    """A number, or an array of one number, as an operand."""
    if isinstance(value, np.generic):
        return Symbol(value.dtype, ("constant", value))
    array = np.asarray(value)
    flat = array.reshape(-1)
    if not flat.size or flat.tobytes() != flat[:1].tobytes() * flat.size:
        raise UntraceableError("uses an array of its own")
    return Symbol(array.dtype, ("constant", flat[0]))


def _shape(values: Sequence[Symbol]) -> tuple[int, bool]:
    """The shape of operands; constants fit any."""
    found = None
    for each in values:
        if not _is_constant(each):
            shape = each.count, each.trailing
            if found is not None and shape != found:
                raise UntraceableError("broadcasts")
            found = shape
    return found or (1, False)


def _same_value(a: object, b: object) -> bool:
    """Whether two operands are computed in the same way."""
    if not isinstance(a, Symbol) or not isinstance(b, Symbol):
        return a is b or (type(a) is type(b) and isinstance(a, (str, int, tuple)) and a == b)
    if a is b:
        return True
    return a.dtype == b.dtype and len(a.node) == len(b.node) and all(map(_same_value, a.node, b.node))


def _is_constant(value: Symbol) -> bool:
    kind = value.node[0]
    return kind == "constant" or (kind == "cast" and _is_constant(value.node[1]))


def _where(condition: object, x: object, y: object) -> Symbol:
    values = [v if isinstance(v, Symbol) else _constant(v) for v in (x, y)]
    pairs = zip((x, y), values, strict=True)
    samples: list[Any] = [v if type(v) in (int, float) else s.dtype for v, s in pairs]
    to = np.result_type(*samples)
    chosen = condition if isinstance(condition, Symbol) else _constant(condition)
    operands = [chosen.astype(np.bool_), *(v.astype(to) for v in values)]
    count, trailing = _shape(operands)
    if (
        chosen.node[0] == "constant"
        and not chosen.node[1]
        and (operands[2].count, operands[2].trailing) == (count, trailing)
    ):
        return operands[2]
    return Symbol(to, ("where", *operands), count, trailing=trailing)


def _stack(arrays: Sequence[Symbol], axis: int = 0) -> Symbol:
    parts = [x if isinstance(x, Symbol) else _constant(x) for x in arrays]
    if axis != -1 or any(p.trailing or p.count != 1 or p.dtype != parts[0].dtype for p in parts):
        raise UntraceableError("stacks lanes")
    return Symbol(parts[0].dtype, ("stack", *parts), len(parts), trailing=True)


def _clip(value: Any, low: Any, high: Any) -> Any:
    if np.dtype(value.dtype).kind == "f":
        raise UntraceableError("clips floats")
    return np.minimum(np.maximum(value, low), high)


def _repeat(value: Symbol, repeats: int, axis: int | None = None) -> Symbol:
    if axis != -1 or value.trailing or value.count != 1:
        raise UntraceableError("repeats lanes")
    return Symbol(value.dtype, ("pick", value, (0,) * repeats), repeats)


_FUNCTIONS: dict[object, Function] = {
    np.where: _where,
    np.stack: _stack,
    np.clip: _clip,
    np.repeat: _repeat,
    np.copy: lambda value, *args, **named: value,
    np.full_like: lambda value, fill: Symbol(value.dtype, ("constant", value.dtype.type(fill))),
}


def number_of(symbol: Symbol) -> Any:
    """The value of a constant; None for anything else."""
    kind = symbol.node[0]
    if kind == "constant":
        return symbol.node[1]
    if kind == "cast":
        inner = number_of(symbol.node[1])
        return None if inner is None else np.asarray(inner).astype(symbol.dtype)[()]
    return None


def register(slot: int, bits: int) -> Symbol:
    """A register."""
    return Symbol(STORAGE[bits], ("input", slot))


def predicate_and(a: "Symbol | None", b: Symbol) -> Symbol:
    """Both of two conditions; None is true."""
    return b if a is None else Symbol(np.bool_, ("bitwise_and", a, b))
