"""The annotations of a kernel's arguments."""

import re
from dataclasses import dataclass
from typing import Any

from weft.errors import WeftError, shown
from weft.language.dtypes import DType, i1, i8, instead_of


@dataclass(frozen=True)
class ArrayArgument:
    """An argument in global memory: the names of its sizes, its element type (None: the array's), and whether
    the kernel writes it.
    """

    sizes: tuple[str, ...]
    dtype: DType | None
    writes: bool

    @property
    def rank(self) -> int:
        """The number of its dimensions."""
        return len(self.sizes)


@dataclass(frozen=True)
class ArrayKind:
    """`w.Array`, or `w.Array[w.bf16]`, in an annotation that type checkers understand."""

    dtype: DType | None = None

    def __getitem__(self, dtype: Any) -> "ArrayKind":
        if not isinstance(dtype, DType):
            raise WeftError(f"w.Array: the element type must be one of w, {instead_of(dtype)}")
        return ArrayKind(dtype)


_SIZE = re.compile(r"[A-Za-z_]\w*|[1-9]\d*", re.ASCII)
_RANKS = range(1, 5)


class _Kind:
    """`w.In` or `w.Out`, subscripted with sizes and an element type."""

    def __init__(self, name: str, writes: bool) -> None:
        self._name, self._writes = name, writes

    def __getitem__(self, item: Any) -> ArrayArgument:
        pair: tuple[Any, Any] = item if isinstance(item, tuple) and len(item) == 2 else (item, None)
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
        return ArrayArgument(names, dtype, self._writes)


Array: Any = ArrayKind()
"""An array in an annotation that type checkers understand: `w.In[w.Array[w.bf16], "m k"]`."""
In: Any = _Kind("w.In", writes=False)
"""An array that the kernel reads: `w.In["m k", w.bf16]`. Without a type it takes that of the array. Type
checkers understand the same as `w.In[w.Array[w.bf16], "m k"]`.
"""
Out: Any = _Kind("w.Out", writes=True)
"""An array that the kernel writes."""
