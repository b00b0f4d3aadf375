"""The options and arguments of a kernel: what its annotations say, and what a call passes."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral

from weft.compiler.launch_record import ScalarArgument
from weft.dialects.element_types import PTX_SCALES
from weft.errors import Diagnostic, Location, WeftError, about, shown
from weft.isa.chips import LANES
from weft.isa.launch_limits import MOST_THREADS
from weft.isa.suggest import did_you_mean
from weft.language.messages.names import instead_of_option
from weft.language.values.dtypes import DTYPES, NUMBERS, DType, i1, i8, instead_of, named
from weft.launch import arrays
from weft.launch.arrays import ArrayView
from weft.launch.kernel_arguments import number_for


@dataclass(frozen=True)
class ArrayArgument:
    """An argument in global memory: the names of its sizes, its element type (None: the array's), and whether
    the kernel writes it.
    """

    sizes: tuple[str, ...]
    dtype: DType | None
    writes: bool
    scaled: tuple[str, ...] = ()
    """The sizes of the array whose block scales it has."""

    @property
    def rank(self) -> int:
        """The number of its dimensions."""
        return len(self.sizes)


@dataclass(frozen=True)
class ArrayKind:
    """`w.Array`, or `w.Array[w.bf16]`, in an annotation that type checkers understand, or `w.Scales`."""

    dtype: DType | None = None
    of_scales: bool = False

    def __getitem__(self, dtype: object) -> "ArrayKind":
        if not isinstance(dtype, DType):
            name = "w.Scales" if self.of_scales else "w.Array"
            raise WeftError(f"{name}: the element type must be one of w, {instead_of(dtype)}")
        if self.of_scales and dtype.name not in PTX_SCALES:
            legal = " or ".join(str(DTYPES[name]) for name in PTX_SCALES)
            raise WeftError(f"w.Scales: the element type must be {legal}, got {dtype}")
        return ArrayKind(dtype, self.of_scales)


_SIZE = re.compile(r"[A-Za-z_]\w*|[1-9]\d*", re.ASCII)
_RANKS = range(1, 5)


class _Kind:
    """`w.In` or `w.Out`, subscripted with sizes and an element type."""

    def __init__(self, name: str, writes: bool) -> None:
        self._name, self._writes = name, writes

    def __getitem__(self, item: object) -> ArrayArgument:
        pair: tuple[object, object] = item if isinstance(item, tuple) and len(item) == 2 else (item, None)
        sizes, dtype = (pair[1], pair[0].dtype) if isinstance(pair[0], ArrayKind) else pair
        if not isinstance(sizes, str) or not sizes.split():
            raise WeftError(
                f'{self._name} must have the names of its sizes, such as "m k", got {shown(sizes)}'
            )
        names = tuple(sizes.split())
        for each in names:
            if not _SIZE.fullmatch(each):
                spaces = ": separate sizes by spaces" if "," in each else ""
                raise WeftError(
                    f"{self._name}: a size must be a name or a positive number, got {each!r}{spaces}"
                )
        if len(names) not in _RANKS:
            raise WeftError(f"{self._name} must have {_RANKS[0]} to {_RANKS[-1]} sizes, got {len(names)}")
        if dtype is not None and not isinstance(dtype, DType):
            raise WeftError(f"{self._name}: the element type must be one of w, {instead_of(dtype)}")
        if dtype == i1:
            raise WeftError(f"{self._name}: the element type can't be {i1}: elements of bool arrays are {i8}")
        if isinstance(pair[0], ArrayKind) and pair[0].of_scales:
            if self._writes or len(names) < 2:
                raise WeftError(f"{self._name}: scales are read, and those of a matrix, got {sizes!r}")
            tiles = *names[:-2], f"{names[-2]} tiles", f"{names[-1]} bytes"
            return ArrayArgument(tiles, dtype, self._writes, names)
        return ArrayArgument(names, dtype, self._writes)


Array: object = ArrayKind()
"""An array in an annotation that type checkers understand: `w.In[w.Array[w.bf16], "m k"]`."""
Scales: object = ArrayKind(of_scales=True)
"""The block scales of an array with these sizes, in the 128x4 layout: `w.In[w.Scales[w.e4m3], "m k"]`."""
In: object = _Kind("w.In", writes=False)
"""An array that the kernel reads: `w.In["m k", w.bf16]`. Without a type it takes that of the array. Type
checkers understand the same as `w.In[w.Array[w.bf16], "m k"]`.
"""
Out: object = _Kind("w.Out", writes=True)
"""An array that the kernel writes."""


Count = Callable[..., object] | int | None
"""A number, or a function of meta-parameters that returns it."""


@dataclass(frozen=True)
class Options:
    """The options of `w.kernel`."""

    grid: object
    threads: Count
    persistent: Count
    cluster: object = None
    dependent: bool | str = False
    pairs: object = False

    @property
    def functions(self) -> tuple[object, ...]:
        """The options that may be functions, whose global variables the kernel depends on."""
        return self.grid, self.threads, self.persistent, self.cluster, self.pairs


def checked_threads(threads: object) -> int | None:
    """The number of threads of a CTA without roles, or None. Raises WeftError for another value."""
    if threads is None or (isinstance(threads, int) and threads in range(LANES, MOST_THREADS + 1, LANES)):
        return threads
    raise WeftError(f"threads must be a multiple of {LANES} in {LANES}..{MOST_THREADS}, got {shown(threads)}")


ELEMENTS = tuple(each for each in DTYPES.values() if each != i1)
"""The types of arrays' elements."""
ALIGNMENT = 16
"""Bytes to which TMA needs rows aligned."""


@dataclass(frozen=True)
class Specialization:
    """The key of a compiled kernel: element types, which arrays have aligned rows, which have rows of whole
    vectors, and meta-parameters.
    """

    dtypes: tuple[DType, ...]
    aligned: tuple[bool, ...]
    whole: tuple[bool, ...]
    meta: tuple[tuple[str, object], ...]


@dataclass(frozen=True)
class Signature:
    """The parameters of a kernel function, in order; numbers and meta-parameters with their defaults."""

    name: str
    arguments: dict[str, ArrayArgument | DType]
    meta: dict[str, object]  # the default, or inspect.Parameter.empty
    defaults: dict[str, bool | int | float] = field(default_factory=dict)  # of numbers that have one

    @staticmethod
    def of(function: Callable[..., object]) -> "Signature":
        """The signature of a function. Raises WeftError for parameters that a kernel can't have."""
        code = function.__code__
        where = Location(code.co_filename, code.co_firstlineno, 1)

        def refuse(message: str) -> WeftError:
            return WeftError(Diagnostic(f"kernel {code.co_name}: {message}", where))

        arguments: dict[str, ArrayArgument | DType] = {}
        meta: dict[str, object] = {}
        defaults: dict[str, bool | int | float] = {}
        for each in inspect.signature(function).parameters.values():
            if each.kind is each.KEYWORD_ONLY:
                meta[each.name] = each.default
                continue
            if each.kind is not each.POSITIONAL_OR_KEYWORD:
                raise refuse(f"parameters must have names, got '*{each.name}'")
            kind = _evaluated(each.annotation, function)
            if not isinstance(kind, (ArrayArgument, DType)):
                got = f", {instead_of(kind)}" if kind in NUMBERS else ""
                raise refuse(
                    f"'{each.name}' must be annotated with w.In[…], w.Out[…] or a type such as w.f32{got}; "
                    "meta-parameters follow a '*'"
                )
            arguments[each.name] = kind
            if each.default is each.empty:
                continue
            if isinstance(kind, ArrayArgument):
                raise refuse(f"'{each.name}' is an array, so it can't have a default")
            legal = ScalarArgument(kind.name)
            try:
                defaults[each.name] = number_for(each.default, legal, f"the default of '{each.name}'")
            except WeftError as error:
                raise refuse(str(error)) from None
        return Signature(code.co_name, arguments, meta, defaults)

    def positional(
        self, args: Sequence[object], named_: Mapping[str, object]
    ) -> tuple[list[object], dict[str, object]]:
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
                legal = f": it has {', '.join((*self.arguments, *self.meta))}"
                raise WeftError(f"kernel {self.name} has no parameter '{name}'{meant or legal}")
        return [values[name] for name in self.arguments], rest

    def specialization(self, values: Sequence[object], meta: Mapping[str, object]) -> Specialization:
        """The specialization for a call with these arguments, or with these types in place of arrays."""
        dtypes, aligned, whole = list[DType](), list[bool](), list[bool]()
        sizes = dict[str, tuple[int, str]]()
        for (name, kind), value in zip(self.arguments.items(), values, strict=True):
            if isinstance(kind, DType):
                dtypes.append(kind)
                aligned.append(False)
                whole.append(False)
                continue
            dtype, is_aligned, is_whole = self._array(name, kind, value, sizes)
            dtypes.append(dtype)
            aligned.append(is_aligned)
            whole.append(is_whole)
        meta = self._meta(meta, sizes)
        return Specialization(tuple(dtypes), tuple(aligned), tuple(whole), tuple(meta.items()))

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

    def view(self, name: str, value: object) -> ArrayView:
        """An array that is an argument."""
        if isinstance(value, ArrayView):
            return value
        with about(f"kernel {self.name}: '{name}'"):
            return arrays.view(value)

    def _array(
        self, name: str, kind: ArrayArgument, value: object, sizes: dict[str, tuple[int, str]]
    ) -> tuple[DType, bool, bool]:
        """An array's element type, whether its rows are aligned, and whether they are whole vectors. Adds
        the sizes that it decides.
        """
        if value is None or isinstance(value, (DType, str)):
            return self._given_type(name, kind, value), True, False
        view = self.view(name, value)
        if view.dtype not in DTYPES:
            legal = kind.dtype or ", ".join(map(str, ELEMENTS))
            raise WeftError(
                f"kernel {self.name}: '{name}' must have elements of {legal}, got "
                f"{arrays.numpy_dtype(view.dtype)}"
            )
        dtype = DTYPES[view.dtype]
        if kind.dtype not in (None, dtype):
            instead = ""
            if not (dtype.is_float or kind.dtype.is_float) and dtype.bits == kind.dtype.bits:
                instead = f": a view of it as {arrays.numpy_dtype(kind.dtype.name)} has the same bits"
            raise WeftError(
                f"kernel {self.name}: '{name}' must have elements of {kind.dtype}, got {dtype}{instead}"
            )
        if len(view.shape) != kind.rank:
            raise WeftError(
                f"kernel {self.name}: '{name}' must have the sizes {' '.join(kind.sizes)}, got "
                f"shape {view.shape}"
            )
        self.add_sizes(name, view.shape, sizes)
        is_row_major = view.strides[-1] == 1 or view.shape[-1] <= 1
        return dtype, _is_aligned(view), is_row_major and view.has_whole_rows(ALIGNMENT)

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

    def _meta(self, given: Mapping[str, object], sizes: Mapping[str, tuple[int, str]]) -> dict[str, object]:
        """The meta-parameters: those given, those that are sizes of arrays, and defaults."""
        result = dict[str, object]()
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
            # NumPy's integers are sizes and numbers of threads, too.
            result[name] = int(value) if isinstance(value, Integral) and not isinstance(value, int) else value
        return result


def _is_aligned(view: ArrayView) -> bool:
    """Whether TMA can read the array: its rows, and matrices, begin at multiples of 16 bytes."""
    *outer, inner = view.strides
    if not outer or (inner != 1 and view.shape[-1] > 1):
        return False
    distances = [stride * view.bits for stride, size in zip(outer, view.shape, strict=False) if size > 1]
    return view.address % ALIGNMENT == 0 and not any(each % (8 * ALIGNMENT) for each in distances)


def _evaluated(annotation: object, function: Callable[..., object]) -> object:
    """An annotation, which `from __future__ import annotations` leaves as text."""
    if not isinstance(annotation, str):
        return annotation
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    scope = {name: cell.cell_contents for name, cell in cells}
    try:
        return eval(annotation, function.__globals__, scope)
    except (NameError, AttributeError, SyntaxError):
        return None
