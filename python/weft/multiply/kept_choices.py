"""The schedules that were chosen for products, kept on disk: a process's first choice for a type and layout
takes 60 ms.
"""

from weft import disk_cache as cache
from weft.compiler import cache_keys
from weft.dialects.schedule import AnySchedule, Types
from weft.multiply import compiled_schedules
from weft.schedules import choice, database


def choose(m: int, n: int, k: int, types: Types, chip: str, members: int) -> AnySchedule:
    """What `choice.choose` returns, which this process or an earlier one has called. Raises WeftError."""
    product = m, n, k, types, chip, members
    chosen: list[AnySchedule] = []

    def key(present: bool) -> cache.Key | None:
        decides = cache_keys.lowering(present)
        return decides and [repr(product), *database.contents(chip, present), *decides]

    def make() -> bytes:
        chosen.append(choice.choose(*product))
        return compiled_schedules.written(chosen)

    entry = cache.default().get_or_make("choice", key, make, lambda kept: bool(compiled_schedules.read(kept)))
    return chosen[0] if chosen else compiled_schedules.read(entry)[0]
