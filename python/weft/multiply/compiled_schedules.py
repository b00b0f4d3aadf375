"""Which schedules have a compiled kernel, for each kind of product: in this process, and on disk."""

import functools
import json
import os
from collections.abc import Collection, Hashable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from weft.cache import disk_cache as cache
from weft.compiler import cache_keys
from weft.errors import WeftError
from weft.system import locks

if TYPE_CHECKING:
    from weft.dialects.schedule import AnySchedule

VARIABLE = "WEFT_REUSE"
"""With the value 0, each product gets the kernel of the schedule that is chosen for it."""

Kind = tuple[Hashable, ...]
"""All that a kernel depends on in addition to its schedule."""

_ENTRY = "schedules"
_lock = locks.lock()


@dataclass(frozen=True)
class _Known:
    """The schedules of one kind, in the order in which they were compiled, and the key of their entry in the
    cache; None if nothing can be kept.
    """

    key: cache.Key | None
    schedules: "dict[AnySchedule, None]"


@functools.lru_cache(maxsize=1024)
def _known(kind: Kind, kept: cache.Cache) -> _Known:
    """What is known of a kind: at first, what the cache has."""
    if kept.directory is None:
        return _Known(None, {})
    # The entry is for the same code, or a listed kernel would have to be compiled again.
    keys = cache_keys.lowering(), cache_keys.generating(), _assembling()
    key = [repr(kind), *(part for key in keys for part in key or ())] if all(keys) else None
    return _Known(key, dict.fromkeys(_read(kept.find(_ENTRY, key) if key else None)))


def _assembling() -> cache.Key | None:
    """What cubins depend on. Without ptxas there are none: the emulator needs only PTX."""
    try:
        return cache_keys.assembling()
    except WeftError:
        return ["no ptxas"]


def are_reused() -> bool:
    """Whether a product may get the compiled kernel of another schedule than its own."""
    return os.environ.get(VARIABLE) != "0"


def of(kind: Kind) -> "Collection[AnySchedule]":
    """The schedules with a compiled kernel, the oldest first. None of them with WEFT_REUSE=0."""
    if not are_reused():
        return ()
    with _lock:
        return tuple(_known(kind, cache.default()).schedules)


def add(kind: Kind, schedule: "AnySchedule") -> None:
    """Records that the kernel of a schedule is compiled."""
    kept = cache.default()
    with _lock:
        known = _known(kind, kept)
        if schedule in known.schedules:
            return
        known.schedules[schedule] = None
    if known.key is not None:
        kept.change(_ENTRY, known.key, lambda entry: _written([*_read(entry), schedule]))


def _written(schedules: "Collection[AnySchedule]") -> bytes:
    """Schedules as the cache keeps them."""
    return json.dumps([[type(s).key, asdict(s)] for s in dict.fromkeys(schedules)]).encode()


def _read(entry: bytes | None) -> "list[AnySchedule]":
    """The schedules of an entry, except those of unknown families."""
    from weft.dialects.schedule.families import FAMILIES

    families = {family.key: family for family in FAMILIES}
    return [
        families[key](**{name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()})
        for key, fields in json.loads(entry or b"[]")
        if key in families
    ]
