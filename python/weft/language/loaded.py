"""Values that stand for a number in memory, and are loaded where arithmetic needs it."""

import operator
from collections.abc import Iterator
from typing import Any

from weft.language import operators
from weft.language.carried import Carried
from weft.language.dtypes import DType
from weft.language.scalars import Scalar
from weft.mlir import ir


class Loaded(operators.Operators, Carried):
    """A number in memory. In arithmetic, it is its value."""

    __hash__ = Scalar.__hash__
    element: Scalar | None
    """The number as it was when this was made; None for the first element of a tile, without all indices."""

    def loaded(self) -> Scalar:
        """The number."""
        raise NotImplementedError

    def to(self, dtype: DType) -> Scalar:
        """The number in another type."""
        return self.loaded().to(dtype)

    def bitcast(self, dtype: DType) -> Scalar:
        """The bits of the number as a number of another type with as many bits."""
        return self.loaded().bitcast(dtype)

    def binary(self, name: str, other: Any, swapped: bool) -> Scalar:
        return self.loaded().binary(name, other, swapped)

    def __bool__(self) -> bool:
        return bool(self.loaded())

    def __index__(self) -> int:
        return operator.index(self.loaded())

    def __int__(self) -> int:
        return int(self.loaded())

    def __float__(self) -> float:
        return float(self.loaded())

    def settled(self) -> Carried:
        return self.loaded()

    def parts(self) -> list[ir.Value]:
        return self.loaded().parts()

    def like(self, parts: Iterator[Any]) -> Scalar:
        return self.loaded().like(parts)
