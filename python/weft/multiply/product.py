"""What `weft.matmul` is asked to compute, without the arrays, and the checks of it."""

import math
import numbers
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weft.dialects.activations import ACTIVATIONS, activation_complaint
from weft.dialects.operand_roles import OUTPUT_TYPES
from weft.errors import WeftError, shown
from weft.isa.chips import CHIPS, unknown_chip
from weft.launch import arrays
from weft.multiply import block_formats
from weft.multiply.array_views import refuse
from weft.multiply.block_formats import Kind

if TYPE_CHECKING:
    from weft.dialects.schedule import AnySchedule


ROLES = ("c", "groups", "row_ends", "k_ends", "bias", "residual", "scale_a", "scale_b", "alpha")
"""The roles of the arrays after a, b and the result, in the order of keys, addresses and operands."""


@lru_cache(maxsize=256)
def kind_of(role: str) -> str:
    """The role without its key, which arrays of an epilogue that is a function have: `extra['bias']` is what
    it reads, and `out[1]` its second result.
    """
    return role.partition("[")[0]


class Traced(NamedTuple):
    """What an epilogue that is a function computes: the text of a function of MLIR, which takes the sum, its
    row and column, and the elements of the extra arrays, and returns as many elements as there are `results`;
    and whether it reads the row.
    """

    text: str
    results: int
    reads_row: bool


@dataclass(frozen=True)
class Product:
    """A product of a, b and operands with these `roles`, of which those `by_columns` are transposed.

    The other fields are parameters of a call by their names, as a caller gives them or as `checked` returns
    them. `alpha` is 1 where it's an array. `function` is an epilogue that is a function: what it
    computes, or what returns that by the type of sums.
    """

    roles: tuple[str, ...] = ()
    activation: str | None = None
    out_dtype: Any = None
    transpose_a: bool = False
    transpose_b: bool = False
    alpha: float = 1.0
    beta: float | None = None
    promote: bool = False
    schedule: "AnySchedule | str | None" = None
    kind: Any = None
    scale_block: int | None = None
    arch: str | None = None
    accumulate: Any = None
    bit_op: str | None = None
    batch_invariant: bool = False
    by_columns: tuple[str, ...] = ()
    function: Traced | Callable[[str], Traced] | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The parameters of a call that aren't arrays, by their names."""
        others = "roles", "by_columns", "function"
        return {name: each for name, each in vars(self).items() if name not in others}

    @property
    def traced(self) -> Traced | None:
        """What `function` computes, in a product that `Operands` has."""
        return self.function if isinstance(self.function, Traced) else None

    @property
    def kinds(self) -> tuple[Kind, Kind] | None:
        """The kinds of a and b, if there is a `kind`."""
        return block_formats.checked(self.kind)

    @property
    def block(self) -> int:
        """How many elements share a scale of words; 0 without these."""
        return self.scale_block or 0

    def checked(self) -> "Product":
        """The same with MLIR's names, plain numbers and flags. Raises WeftError for anything else."""
        checked_activation(self.activation)
        if "c" in self.roles and self.beta is None:
            raise refuse("beta must be given with c (beta=1.0 adds c unscaled)")
        several = self.function is not None and isinstance(self.out_dtype, tuple | list)
        out_dtypes = [_output_type(each) for each in (self.out_dtype if several else [self.out_dtype])]
        if self.arch is not None and (not isinstance(self.arch, str) or self.arch not in CHIPS):
            wrong = unknown_chip(self.arch if isinstance(self.arch, str) else shown(self.arch))
            raise refuse(f"arch {wrong}")
        kinds = self.kinds
        return replace(
            self,
            out_dtype=tuple(out_dtypes) if several else out_dtypes[0],
            accumulate=arrays.type_name(self.accumulate) or self.accumulate,
            transpose_a=_flag("transpose_a", self.transpose_a),
            transpose_b=_flag("transpose_b", self.transpose_b),
            alpha=_number("alpha", self.alpha),
            beta=0.0 if self.beta is None else _number("beta", self.beta),
            promote=_flag("promote", self.promote),
            schedule=_schedule(self.schedule),
            kind=kinds and tuple(kind.name for kind in kinds),
            batch_invariant=_flag("batch_invariant", self.batch_invariant),
            scale_block=block_formats.checked_block(self.scale_block) or None,
        )


def _output_type(value: object) -> str | None:
    """MLIR's name of a type of results. Raises WeftError for another type."""
    name = None if value is None else arrays.type_name(value)
    if value is not None and name not in OUTPUT_TYPES:
        wanted = ", ".join(OUTPUT_TYPES)
        got = str(value) if type(value).__name__.lower().endswith("dtype") else shown(value)
        raise refuse(f"out_dtype must be one of {wanted}, got {got}")
    return name


def _schedule(value: "AnySchedule | str | None") -> "AnySchedule | None":
    """The schedule that a caller names, of which a compiled kernel needs no class. Raises WeftError."""
    if value is None:
        return None
    from weft.dialects.schedule.coercion import as_schedule

    return as_schedule(value)


def checked_activation(
    value: Any, caller: str = "weft.matmul", legal: Iterable[str] = ACTIVATIONS
) -> str | None:
    """An activation, or None. Raises WeftError for anything else."""
    if complaint := activation_complaint(value, legal=legal):
        raise WeftError(f"{caller}: {complaint}")
    activation: str | None = value
    return activation


def checked_pair(caller: str, scales: object) -> tuple[Any, Any]:
    """The scales of A and B. Raises WeftError for anything but a pair."""
    if not isinstance(scales, (tuple, list)) or len(scales) != 2:
        raise WeftError(f"{caller}: scales must be a pair, of a and of b")
    of_a, of_b = scales
    if of_a is None or of_b is None:
        name = "a" if of_a is None else "b"
        raise WeftError(
            f"{caller}: scales must be a pair of arrays, got None for {name}: an array of a single 1 "
            "doesn't scale"
        )
    return of_a, of_b


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise refuse(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def _number(name: str, value: object) -> float:
    if not isinstance(value, numbers.Real):
        raise refuse(f"{name} must be a real number, got {shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise refuse(f"{name} must be finite in f32, got {shown(value)}")
    return number
