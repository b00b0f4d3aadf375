"""Finds compiled kernels in the cache, or compiles and stores them."""

from collections.abc import Callable
from typing import TypeVar

from weft.cache import disk_cache
from weft.compiler import cache_keys

_T = TypeVar("_T")


def found_or_made(
    kind: str,
    described: disk_cache.Key | None,
    *,
    load: Callable[[bytes], _T | None],
    make: Callable[[], _T],
    entry_of: Callable[[_T], bytes],
    same: Callable[[], bool] = lambda: True,
) -> _T:
    """Loads the kernels that an entry of that kind names; `load` returns None if they aren't on disk. Then it
    makes them, and writes the entry.

    `described` is what decides in addition to what lowering depends on; None where that isn't known. `same`
    is whether it still describes the same.
    """
    kept, decides = disk_cache.default(), cache_keys.lowering()
    key = None if described is None or decides is None else [*described, *decides]
    entry = kept.find(kind, key)
    if entry is not None and (found := load(entry)) is not None:
        return found
    made = make()
    new = entry_of(made)
    kept.get_or_make(kind, key, lambda: new, same=same)
    return made
