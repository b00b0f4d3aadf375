"""`Launch`, a record of what a launch of a compiled kernel needs, which the cache stores as JSON."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from weft.dialects.product_types import ceil_div

Sizes = Sequence[int]

# A number, ("size", its position), or an operation and its two operands.
Expression = int | tuple[Any, ...]
SIZE = "size"
OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "*": operator.mul,
    "ceildiv": ceil_div,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
}


@dataclass(frozen=True)
class MemrefArgument:
    """A kernel's matrix argument, which a launch passes as MLIR's memref descriptor.

    `shape` and `strides` hold None where the type leaves them to run time; strides count elements.
    `contiguous`: the type has no strides of its own, so rows follow each other.
    """

    dtype: str
    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    contiguous: bool
    writes: bool


@dataclass(frozen=True)
class ScalarArgument:
    """A kernel's number argument, of an MLIR type (`i32`, `f32`, `index`)."""

    dtype: str

    @property
    def is_integer(self) -> bool:
        """Whether a grid may be computed from it."""
        return "f" not in self.dtype


@dataclass(frozen=True)
class PointerArgument:
    """A kernel's `!llvm.ptr` argument: the address of an array of any type, which the kernel may write."""

    writes: bool


Argument = MemrefArgument | ScalarArgument | PointerArgument


@dataclass(frozen=True)
class SizesMap:
    """Numbers that follow from the sizes of all memref arguments, in order: an affine map's results."""

    results: tuple[Expression, ...]

    def __call__(self, sizes: Sizes) -> tuple[int, ...]:
        return tuple(_value(result, sizes) for result in self.results)

    @property
    def texts(self) -> list[str]:
        """The results as text, in which `s0`, `s1` … are the sizes."""
        return [_text(result) for result in self.results]


def _text(expression: Expression) -> str:
    if isinstance(expression, int):
        return str(expression)
    what, *operands = expression
    if what == SIZE:
        return f"s{operands[0]}"
    left, right = operands
    if what == "+" and isinstance(right, tuple) and right[0] == "*" and right[2] == -1:
        what, right = "-", right[1]  # as MLIR has differences
    return f"({_text(left)} {what} {_text(right)})"


def _value(expression: Expression, sizes: Sizes) -> int:
    if isinstance(expression, int):
        return expression
    what, *operands = expression
    if what == SIZE:
        return sizes[operands[0]]
    left, right = operands
    return OPERATIONS[what](_value(left, sizes), _value(right, sizes))


@dataclass(frozen=True)
class MapParameter:
    """A tensor map that a launch creates for one of its matrices and passes after its arguments.

    `matrix` is the number of the memref argument, `box` the rows and columns of one copy; `swizzle` and
    `l2_promotion` are named as in `weft.isa.tensor_map`. With `padded`, which an entry may leave out, packed
    elements of 4 or 6 bits get a byte each in shared memory (16 of them the low bytes of 16). With `chunk`,
    which an entry may leave out, too, the map counts columns in chunks of so many bytes, the box's columns as
    well. With `any_rows`, again optional, the kernel uses the map only if the matrix and its rows are aligned
    as TMA needs it; any other legal strides do for a matrix that isn't. If it is
    `skewed`, it begins at the last multiple of 16 bytes before the matrix, and has more columns on the left.
    If it is `joined`, it has a dimension for eight rows of at most 16 bytes, and boxes have whole groups.
    With `tf32`, copies round f32 to tf32.
    """

    matrix: int
    box: tuple[int, int]
    swizzle: str
    l2_promotion: str
    padded: bool = False
    chunk: int = 0
    any_rows: bool = False
    skewed: bool = False
    joined: bool = False
    tf32: bool = False


@dataclass(frozen=True)
class WorkspaceParameter:
    """Memory that a launch provides, passed as a memref descriptor after the kernel's arguments.

    It has `rows` for each tile that the grid counts, or `of_ctas` for each CTA of the launch, of `row_shape`
    elements of `element_bytes`.
    """

    rows: int
    row_shape: tuple[int, ...]
    element_bytes: int
    of_ctas: bool = False


@dataclass(frozen=True)
class Launch:
    """The parameters and sizes that a launch of a kernel needs.

    `grid` maps the sizes of all memref arguments, in order, to a grid; None where the kernel doesn't say.
    With `persistent` it counts tiles, and a launch has one dimension of as many CTAs, at most so many for
    each multiprocessor (0: no limit). `requires` maps the sizes to numbers that must all be 0. Rows of
    argument `i` must begin at multiples of `aligned[i]` bytes, and of `whole[i]`, of which they must also be
    multiples. A `dependent` kernel waits itself for what was queued before it. A CTA has `tensor_columns` of
    tensor memory, and TMA fills `stages` (0 if the kernel doesn't say). Each `workspace` is zero before the
    first launch, and what one leaves in it is the next one's on the same stream. `names` are those of the
    arguments, for messages, where they have any.
    """

    name: str
    arguments: tuple[Argument, ...]
    block: tuple[int, int, int] | None
    grid: SizesMap | None
    requires: SizesMap | None
    shared_bytes: int
    maps: tuple[MapParameter, ...] = ()
    aligned: tuple[int, ...] = ()
    persistent: int | None = None
    cluster: tuple[int, int, int] = (1, 1, 1)
    dependent: bool = False
    workspaces: tuple[WorkspaceParameter, ...] = ()
    tensor_columns: int = 0
    stages: int = 0
    whole: tuple[int, ...] = ()
    names: tuple[str, ...] = ()

    def called(self, number: int) -> str:
        """An argument in messages."""
        return f"argument '{self.names[number]}'" if self.names else f"argument {number}"

    @property
    def parameters(self) -> list[str]:
        """The kernel's parameters in their order in PTX: memrefs as MLIR's descriptors of them."""
        names: list[str] = []
        for number, argument in enumerate(self.arguments):
            match argument:
                case MemrefArgument():
                    parts = _descriptor(len(argument.shape))
                case ScalarArgument():
                    parts = [argument.dtype]
                case PointerArgument():
                    parts = ["pointer"]
            names += [f"{self.called(number)}: {part}" for part in parts]
        for number, workspace in enumerate(self.workspaces):
            parts = _descriptor(1 + len(workspace.row_shape))
            names += [f"workspace {number}: {part}" for part in parts]
        return [*names, *(f"map {number}" for number in range(len(self.maps)))]

    def description(self) -> dict[str, Any]:
        """Describes a launch of the cubin by JSON values. docs/launch.md explains them."""
        left_out = {"name", "names"} | (set() if self.whole else {"whole"})
        if not self.tensor_columns:
            left_out |= {"tensor_columns"} if self.stages else {"tensor_columns", "stages"}
        kept = {name: value for name, value in self.record().items() if name not in left_out}
        maps = {
            name: sizes_map and sizes_map.texts
            for name, sizes_map in (("grid", self.grid), ("requires", self.requires))
        }
        return {"parameters": self.parameters, **kept, **maps}

    def record(self) -> dict[str, Any]:
        """The launch as JSON has it."""
        return asdict(self)

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> "Launch":
        """The launch that `record` was made of, which may have been through JSON."""
        fields = {name: _tuples(value) for name, value in record.items()}
        for name, kind in (
            ("arguments", _argument),
            ("maps", MapParameter),
            ("workspaces", WorkspaceParameter),
        ):
            fields[name] = tuple(kind(**each) for each in fields[name])
        for name in ("grid", "requires"):
            fields[name] = fields[name] and SizesMap(**fields[name])
        return cls(**fields)


def _descriptor(rank: int) -> list[str]:
    dimensions = range(rank)
    sizes, strides = ([f"{what} {i}" for i in dimensions] for what in ("size", "stride"))
    return ["pointer", "pointer", "offset", *sizes, *strides]


def _argument(**fields: Any) -> Argument:
    if "shape" in fields:
        return MemrefArgument(**fields)
    return ScalarArgument(**fields) if "dtype" in fields else PointerArgument(**fields)


def _tuples(value: Any) -> Any:
    """A value of JSON with tuples for its lists."""
    if isinstance(value, Mapping):
        return {name: _tuples(each) for name, each in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value
