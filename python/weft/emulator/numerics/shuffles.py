"""Moves of vector elements, as LLVM IR."""

from collections.abc import Iterable
from functools import cache

from weft.emulator.numerics.symbols import Symbol

_LOW, _HIGH = (0, 8, 1, 9, 4, 12, 5, 13), (0, 1, 8, 9, 4, 5, 12, 13)


def shuffle(kind: str, a: str, b: str, indices: Iterable[int]) -> str:
    """The elements of two vectors that have these indices."""
    mask = [f"i32 {i}" for i in indices]
    return f"shufflevector {kind} {a}, {kind} {b}, <{len(mask)} x i32> <{', '.join(mask)}>"


def loads_words(symbol: Symbol) -> bool:
    """Whether these are the four words of 16 loaded bytes."""
    while symbol.node[0] == "same":
        symbol = symbol.node[1]
    if symbol.node[0] != "bits" or symbol.dtype.itemsize != 4:
        return False
    origin = symbol.node[1].node
    return bool(origin[0] == "load" and origin[1] == 16)


@cache
def words() -> list[str]:
    """Code for `%word0` to `%word3` of eight lanes, which have 16 bytes each, one after the other, at
    `%words`. LLVM takes ten times as long for shuffles of 32 words.
    """
    lane, both, lines = "<4 x i32>", "<8 x i32>", []
    for each in range(8):
        lines.append(f"%at{each} = getelementptr i8, ptr %words, i64 {16 * each}")
        lines.append(f"%lane{each} = load {lane}, ptr %at{each}, align 1")
    for i in range(4):
        lines.append(f"%row{i} = {shuffle(lane, f'%lane{i}', f'%lane{i + 4}', range(8))}")
    for i in range(4):
        first, part = i % 2 * 2, i // 2 * 2
        rows = shuffle(both, f"%row{first}", f"%row{first + 1}", [part + k for k in _LOW])
        lines.append(f"%half{i} = {rows}")
    for i in range(4):
        first, part = i // 2 * 2, i % 2 * 2
        halves = shuffle(both, f"%half{first}", f"%half{first + 1}", [part + k for k in _HIGH])
        lines.append(f"%word{i} = {halves}")
    return [f"  {line}" for line in lines]
