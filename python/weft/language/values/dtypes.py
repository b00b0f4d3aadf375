"""The types of elements. It doesn't import MLIR: calls of compiled kernels need them, too."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from weft.errors import WeftError, shown
from weft.isa.suggest import did_you_mean
from weft.language.messages.mistakes import mistake

if TYPE_CHECKING:
    from weft.mlir import ir


@dataclass(frozen=True)
class DType:
    """An element type. Called with a number, it makes a value of the GPU: `w.i32(0)`."""

    name: str
    """MLIR's name of it."""
    shown: str
    """The name in `weft.language`."""
    make: ClassVar[Any] = None
    """Makes a value of the GPU of a number and a type: set by `scalars`, which needs MLIR."""

    @property
    def type(self) -> "ir.Type":
        """The MLIR type, in the current context."""
        from weft.mlir import ir

        return ir.Type.parse(self.name)

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return "f" in self.name

    @property
    def is_unsigned(self) -> bool:
        """Whether it is a type of unsigned integers."""
        return self.name.startswith("ui")

    @property
    def is_signed(self) -> bool:
        """Whether it is a type of signed integers."""
        return not self.is_float and not self.is_unsigned and self.bits > 1

    @property
    def ones(self) -> int | bool:
        """The integer with all bits set."""
        return self.bits == 1 or (2**self.bits - 1 if self.is_unsigned else -1)

    @property
    def bits(self) -> int:
        """The width of an element."""
        return int(re.search(r"\d+", self.name)[0])  # type: ignore[index]

    @property
    def bytes(self) -> int:
        """The bytes of an element."""
        return self.bits // 8

    def __call__(self, value: object) -> Any:
        if DType.make is None:
            raise mistake("this can be called in a kernel only, while it is traced")
        return DType.make(value, self)

    def __str__(self) -> str:
        return f"w.{self.shown}"

    __repr__ = __str__


f64 = DType("f64", "f64")
f32 = DType("f32", "f32")
f16 = DType("f16", "f16")
bf16 = DType("bf16", "bf16")  # with the exponent of f32
e4m3 = DType("f8E4M3FN", "e4m3")  # 3 bits of fraction, without infinities
e5m2 = DType("f8E5M2", "e5m2")  # 2 bits of fraction
e3m2 = DType("f6E3M2FN", "e3m2")
e2m3 = DType("f6E2M3FN", "e2m3")
e2m1 = DType("f4E2M1FN", "e2m1")
e8m0 = DType("f8E8M0FNU", "e8m0")  # powers of 2
i64 = DType("i64", "i64")
i32 = DType("i32", "i32")
i16 = DType("i16", "i16")
i8 = DType("i8", "i8")
u64 = DType("ui64", "u64")
u32 = DType("ui32", "u32")
u16 = DType("ui16", "u16")
u8 = DType("ui8", "u8")
i1 = DType("i1", "i1")
COPIED = (e3m2, e2m3, e2m1, e8m0)
"""The types without numbers or tiles in registers: only copies and products take their elements."""
NARROW = (e4m3, e5m2, e3m2, e2m3, e2m1)
"""The types of which products, with block scales, may have two."""
DTYPES = {
    each.name: each
    for each in (f64, f32, f16, bf16, e4m3, e5m2, *COPIED, i64, i32, i16, i8, u64, u32, u16, u8, i1)
}
BY_SHORT_NAME = {each.shown: each for each in DTYPES.values()}

NUMBERS = (bool, int, float)
"""Python's types of numbers."""


def named(name: object) -> DType:
    """The element type of this name, MLIR's or that of `weft.language`. Raises WeftError for another."""
    if isinstance(name, DType):
        return name
    names = {**BY_SHORT_NAME, **DTYPES}
    if not isinstance(name, str) or name not in names:
        meant = did_you_mean(name, names) if isinstance(name, str) else ""
        if isinstance(name, str) and name in FOREIGN:
            meant = f": pass '{FOREIGN[name]}'"
        raise WeftError(f"dtype must be one of {', '.join(BY_SHORT_NAME)}, got {shown(name)}{meant}")
    return names[name]


FOREIGN = {"float": "f32", "int": "i32", "bool": "i1", "half": "f16", "double": "f64"}
FOREIGN |= {f"float{bits}": f"f{bits}" for bits in (16, 32, 64)}
FOREIGN |= {f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)}
FOREIGN |= {f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)}
FOREIGN |= {"bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}


def instead_of(dtype: object) -> str:
    """The end of a message about a value in place of an element type: it, and the type that it may mean."""
    text = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype).rpartition(".")[2])
    short = FOREIGN.get(text, text if text in BY_SHORT_NAME else None)
    name = text if text.isidentifier() and not isinstance(dtype, str) else shown(dtype)
    names = ", ".join(map(str, BY_SHORT_NAME.values()))
    hint = f"write {BY_SHORT_NAME[short]}" if short else f"there are {names}"
    return f"got {name}: {hint}"


def checked_type(dtype: object) -> DType:
    """The type of numbers, or of a tile's elements. Raises WeftError for anything else, with the type that it
    may stand for.
    """
    if isinstance(dtype, DType):
        if dtype in COPIED:
            raise mistake(f"numbers and tiles in registers can't be of {dtype}, which only ring.fill copies")
        return dtype
    raise mistake(f"expects an element type of w, {instead_of(dtype)}")
