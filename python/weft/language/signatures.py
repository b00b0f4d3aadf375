"""The arguments of a kernel: what its annotations say, and what a call passes."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.compiler.launch_record import ScalarArgument
from weft.errors import Diagnostic, Location, WeftError, about, shown
from weft.isa.suggest import did_you_mean
from weft.language.arguments import ArrayArgument
from weft.language.dtypes import DTYPES, NUMBERS, DType, i1, i8, instead_of, named
from weft.language.names import instead_of_option
from weft.launch import arrays
from weft.launch.arrays import ArrayView
from weft.launch.kernel_arguments import number_for

ELEMENTS = tuple(each for each in DTYPES.values() if each != i1)
"""The types of arrays' elements."""
ALIGNMENT = 16
"""Bytes to which TMA needs rows aligned."""


@dataclass(frozen=True)
class Specialization:
    """What a kernel is compiled for: element types, which arrays have aligned rows, and meta-parameters."""

    dtypes: tuple[DType, ...]
    aligned: tuple[bool, ...]
    meta: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Signature:
    """The parameters of a kernel function, in order; numbers and meta-parameters with their defaults."""

    name: str
    arguments: dict[str, ArrayArgument | DType]
    meta: dict[str, Any]  # the default, or inspect.Parameter.empty
    defaults: dict[str, Any] = field(default_factory=dict)  # of numbers that have one

    @staticmethod
    def of(function: Callable[..., Any]) -> "Signature":
        """The signature of a function. Raises WeftError for parameters that a kernel can't have."""
        code = function.__code__
        where = Location(code.co_filename, code.co_firstlineno, 1)

        def refuse(message: str) -> WeftError:
            return WeftError(Diagnostic(f"kernel {code.co_name}: {message}", where))

        arguments, meta, defaults = dict[str, ArrayArgument | DType](), dict[str, Any](), dict[str, Any]()
        for each in inspect.signature(function).parameters.values():
            if each.kind is each.KEYWORD_ONLY:
                meta[each.name] = each.default
                continue
            if each.kind is not each.POSITIONAL_OR_KEYWORD:
                raise refuse(f"parameters must have names, got '*{each.name}'")
            kind = _evaluated(each.annotation, function)
            if not isinstance(kind, (ArrayArgument, DType)):
                found = f", {instead_of(kind)}" if kind in NUMBERS else ""
                raise refuse(
                    f"'{each.name}' must be annotated with w.In[…], w.Out[…] or a type such as w.f32{found}; "
                    "meta-parameters follow a '*'"
                )
            arguments[each.name] = kind
            if each.default is each.empty:
                continue
            if isinstance(kind, ArrayArgument):
                raise refuse(f"'{each.name}' is an array, so it can't have a default")
            defaults[each.name] = _default(each.name, kind, each.default, refuse)
        return Signature(code.co_name, arguments, meta, defaults)

    def positional(self, args: Sequence[Any], named_: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call in order, and its meta-parameters."""
        values, rest = dict(zip(self.arguments, args, strict=False)), dict(named_)
        if len(args) > len(self.arguments):
            by_name = f": pass meta-parameters by name, as {next(iter(self.meta))}=…" if self.meta else ""
            raise WeftError(
                f"kernel {self.name} takes {len(self.arguments)} arguments, got {len(args)}{by_name}"
            )
        for name in self.arguments:
            if name in rest:
                if name in values:
                    raise WeftError(f"kernel {self.name} got two values for '{name}'")
                values[name] = rest.pop(name)
        values = {**self.defaults, **values}
        if missing := [name for name in self.arguments if name not in values]:
            least, most = len(self.arguments) - len(self.defaults), len(self.arguments)
            count = f"{most}" if least == most else f"{least} to {most}"
            raise WeftError(f"kernel {self.name} takes {count} arguments, got no '{missing[0]}'")
        for name in rest:
            if name not in self.meta:
                meant = instead_of_option(name) or did_you_mean(name, (*self.arguments, *self.meta))
                known = f": it has {', '.join((*self.arguments, *self.meta))}"
                raise WeftError(f"kernel {self.name} has no parameter '{name}'{meant or known}")
        return [values[name] for name in self.arguments], rest

    def specialization(self, values: Sequence[Any], meta: Mapping[str, Any]) -> Specialization:
        """What a call with these arguments, or with these types in place of arrays, needs."""
        dtypes, aligned, sizes = list[DType](), list[bool](), dict[str, tuple[int, str]]()
        for (name, kind), value in zip(self.arguments.items(), values, strict=True):
            if isinstance(kind, DType):
                dtypes.append(kind)
                aligned.append(False)
                continue
            dtype, is_aligned = self._array(name, kind, value, sizes)
            dtypes.append(dtype)
            aligned.append(is_aligned)
        return Specialization(tuple(dtypes), tuple(aligned), tuple(self._meta(meta, sizes).items()))

    def add_sizes(self, name: str, shape: Sequence[int], sizes: dict[str, tuple[int, str]]) -> None:
        """Adds the sizes of an array to those of the arrays before it, each with the array that has it.
        Raises WeftError where they disagree.
        """
        kind = self.arguments[name]
        assert isinstance(kind, ArrayArgument)
        for size, extent in zip(kind.sizes, shape, strict=True):
            if size.isdigit() and int(size) != extent:
                raise WeftError(
                    f"kernel {self.name}: '{name}' must have the sizes {' '.join(kind.sizes)}, got shape "
                    f"{tuple(shape)}"
                )
            first, owner = sizes.setdefault(size, (extent, name))
            if first != extent:
                raise WeftError(
                    f"kernel {self.name}: the shapes of its arguments don't fit together: '{size}' is "
                    f"{first} in '{owner}' and {extent} in '{name}'"
                )

    def view(self, name: str, value: Any) -> ArrayView:
        """An array that is an argument."""
        if isinstance(value, ArrayView):
            return value
        with about(f"kernel {self.name}: '{name}'"):
            return arrays.view(value)

    def _array(
        self, name: str, kind: ArrayArgument, value: Any, sizes: dict[str, tuple[int, str]]
    ) -> tuple[DType, bool]:
        """The element type of an array, and whether its rows are aligned; adds the sizes that it decides."""
        if value is None or isinstance(value, (DType, str)):
            return self._given_type(name, kind, value), True
        view = self.view(name, value)
        if view.dtype not in DTYPES:
            known = kind.dtype or ", ".join(map(str, ELEMENTS))
            raise WeftError(
                f"kernel {self.name}: '{name}' must have elements of {known}, got "
                f"{arrays.numpy_dtype(view.dtype)}"
            )
        dtype = DTYPES[view.dtype]
        if kind.dtype not in (None, dtype):
            raise WeftError(
                f"kernel {self.name}: '{name}' must have elements of {kind.dtype}, got {dtype}"
                f"{_instead(dtype, kind.dtype)}"
            )
        if len(view.shape) != kind.rank:
            raise WeftError(
                f"kernel {self.name}: '{name}' must have the sizes {' '.join(kind.sizes)}, got "
                f"shape {view.shape}"
            )
        self.add_sizes(name, view.shape, sizes)
        return dtype, _is_aligned(view)

    def _given_type(self, name: str, kind: ArrayArgument, value: DType | str | None) -> DType:
        """The element type that stands for an array; None where it is that of the annotation."""
        dtype = kind.dtype if value is None else named(value)
        if dtype is None:
            raise WeftError(
                f"kernel {self.name}: '{name}' must be an array, or the element type to compile it for, such "
                f'as "f16", since its annotation has none'
            )
        if dtype not in ELEMENTS:
            raise WeftError(
                f"kernel {self.name}: '{name}' can't have elements of {dtype}: those of bool are {i8}"
            )
        return dtype

    def _meta(self, given: Mapping[str, Any], sizes: Mapping[str, tuple[int, str]]) -> dict[str, Any]:
        """The meta-parameters: those given, those that are sizes of arrays, and defaults."""
        result = dict[str, Any]()
        for name, default in self.meta.items():
            if name in given:
                value = given[name]
                if name in sizes and sizes[name][0] != value:
                    extent, owner = sizes[name]
                    raise WeftError(
                        f"kernel {self.name}: '{name}' is a size of '{owner}', {extent}, got "
                        f"{name}={shown(value)}: leave it out, or give the size another name"
                    )
            elif name in sizes:
                value, _ = sizes[name]
            else:
                value = default
            if value is inspect.Parameter.empty:
                raise WeftError(f"kernel {self.name} needs the meta-parameter '{name}'")
            try:
                hash(value)
            except TypeError:
                raise WeftError(
                    f"kernel {self.name}: meta-parameter '{name}' must be hashable, got {shown(value)}"
                ) from None
            result[name] = value
        return result


def _default(name: str, kind: DType, value: Any, refuse: Callable[[str], WeftError]) -> Any:
    """The default of a number, as one of Python. Raises WeftError for what the argument can't have."""
    try:
        return number_for(value, ScalarArgument(kind.name), f"the default of '{name}'")
    except WeftError as error:
        raise refuse(str(error)) from None


def _instead(dtype: DType, wanted: DType) -> str:
    """What to pass in place of an array of integers with another sign, to append to a message."""
    if dtype.is_float or wanted.is_float or dtype.bits != wanted.bits:
        return ""
    return f": a view of it as {arrays.numpy_dtype(wanted.name)} has the same bits"


def _is_aligned(view: ArrayView) -> bool:
    """Whether TMA can read the array: its rows, and matrices, begin at multiples of 16 bytes."""
    *outer, inner = view.strides
    if not outer or (inner != 1 and view.shape[-1] > 1):
        return False
    distances = [stride * view.bits for stride, size in zip(outer, view.shape, strict=False) if size > 1]
    return view.address % ALIGNMENT == 0 and not any(each % (8 * ALIGNMENT) for each in distances)


def _evaluated(annotation: Any, function: Callable[..., Any]) -> Any:
    """An annotation, which `from __future__ import annotations` leaves as text."""
    if not isinstance(annotation, str):
        return annotation
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    scope = {name: cell.cell_contents for name, cell in cells}
    try:
        return eval(annotation, function.__globals__, scope)
    except (NameError, AttributeError, SyntaxError):
        return None
