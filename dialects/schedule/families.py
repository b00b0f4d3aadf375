"""The registered families of schedules, and how an attribute or a text becomes a schedule of one of them.

A family consists of three parts, one in each layer:

- its class, a frozen dataclass derived from `AnySchedule`, with its attribute, legality, geometry and launch
  facts, in `FAMILIES`;
- what chooses its schedules, in `weft.schedules.choice.CHOOSERS`. A family without one is used where a
  product names a schedule of it;
- what writes its kernels, in `weft.passes.expand_matmul.KERNELS`.

`weft.register_schedule` adds all three for another package.

Nothing outside of these names a family: an operation's verifier, `--select-schedule`, `--outline-matmul`,
`weft.matmul` and the tuner ask the class.
"""

from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from weft.dialects.product_types import Types
from weft.dialects.schedule.attribute import check_names
from weft.dialects.schedule.direct import DirectSchedule
from weft.dialects.schedule.family import AnySchedule
from weft.dialects.schedule.mma_sync import Schedule
from weft.dialects.schedule.tcgen05 import TensorMemorySchedule
from weft.dialects.schedule.tma_mma import TmaMmaSchedule
from weft.dialects.schedule.wgmma import WarpgroupSchedule
from weft.dialects.schedule.wmma import WmmaSchedule
from weft.errors import WeftError, shown
from weft.ir import mlir_text
from weft.isa.chips import ChipSet
from weft.isa.family import choice
from weft.isa.suggest import did_you_mean
from weft.registry import extensions
from weft.system import locks


class Families:
    """Families in the order of their registration; a later one is preferred where several can multiply.

    What reads them gets those of installed extensions, too.
    """

    def __init__(self, *families: type[AnySchedule]) -> None:
        self._by_key: dict[str, type[AnySchedule]] = {}
        self._lock = locks.reentrant()
        for family in families:
            self.add(family)

    def __iter__(self) -> Iterator[type[AnySchedule]]:
        extensions.load()
        return iter(self.so_far)

    @property
    def so_far(self) -> tuple[type[AnySchedule], ...]:
        """The families that are registered already. Extensions need not have been loaded."""
        return tuple(self._by_key.values())

    def own(self) -> tuple[type[AnySchedule], ...]:
        """Weft's own families, and those that weren't added by `weft.register_schedule`."""
        return tuple(f for f in self.so_far if extensions.source("schedule", f.key) is None)

    def add(self, family: type[AnySchedule]) -> None:
        """Registers a family, once. Raises WeftError where its key is a field of another, or the reverse."""
        with self._lock:
            if self._by_key.get(family.key) is family:
                return
            if complaint := self._complaint(family):
                raise WeftError(f"schedule family {family.__name__}: {complaint}")
            self._by_key = {**self._by_key, family.key: family}

    def remove(self, family: type[AnySchedule]) -> None:
        """Undoes `add`."""
        with self._lock:
            self._by_key = {key: each for key, each in self._by_key.items() if each is not family}

    def _complaint(self, family: type[AnySchedule]) -> str | None:
        if family.key not in [f.name for f in fields(family) if f.default is MISSING]:
            return f"key must be a field without a default, got '{family.key}'"
        for other in self.so_far:
            if family.key in _names(other):
                return f"key must not be a field of {other.__name__}, got '{family.key}'"
            if other.key in _names(family):
                return f"fields must not have the key of {other.__name__}, got '{other.key}'"
        return None

    def of(self, attribute: Any) -> AnySchedule:
        """The schedule that an attribute states. Raises WeftError for one that is none."""
        from weft.mlir import ir

        if not isinstance(attribute, ir.DictAttr):
            raise WeftError(f"schedule must be a dictionary, got {attribute}")
        names = {named.name for named in attribute}
        extensions.load()
        meant = [family for key, family in self._by_key.items() if key in names]
        if len(meant) > 1:
            raise WeftError(f"schedule must have only one of the fields {' and '.join(map(_key, meant))}")
        if meant:
            return meant[0].of(attribute)
        check_names(names, *map(_names, self))
        raise WeftError(f"schedule must have {choice(map(_key, self))}")


def family_complaint(family: type[AnySchedule]) -> str | None:
    """Why a class isn't a family, whichever others there are."""
    if not is_dataclass(family) or not family.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return "a family must be a frozen dataclass"
    if abstract := [n for n in dir(family) if getattr(getattr(family, n), "__isabstractmethod__", False)]:
        return f"a family must define {', '.join(abstract)}"
    for name in ("key", "instruction"):
        if not isinstance(getattr(family, name, None), str):
            return f"{name} must be a text; got {shown(getattr(family, name, None))}"
    for name in ("block", "stages", "group"):
        if name not in _names(family) and not hasattr(family, name):
            return f"a family must have the field or property {name}"
    return None


def _key(family: type[AnySchedule]) -> str:
    return f"'{family.key}' (for {family.instruction})"


def _names(family: type[AnySchedule]) -> list[str]:
    return [f.name for f in fields(family)]


def family_name(family: type[AnySchedule]) -> str:
    """The name by which a user selects a family of schedules."""
    return family.family or family.instruction


def families_named(name: str) -> tuple[type[AnySchedule], ...]:
    """The families of schedules with a name; all for an empty one. Raises WeftError for an unknown name."""
    named = tuple(each for each in FAMILIES if name in ("", family_name(each)))
    if not named:
        known = list(dict.fromkeys(map(family_name, FAMILIES)))
        raise WeftError(
            f"family must be one of {', '.join(known)}, got {shown(name)}{did_you_mean(name, known)}"
        )
    return named


FAMILIES = Families(
    WmmaSchedule, Schedule, DirectSchedule, TmaMmaSchedule, WarpgroupSchedule, TensorMemorySchedule
)


def schedule_of(attribute: Any) -> AnySchedule:
    """The schedule that an attribute states. Raises WeftError for one that is none."""
    return FAMILIES.of(attribute)


def read_schedule(text: str) -> AnySchedule:
    """The schedule that a text states, as the attribute is written. Raises WeftError for one that is none."""
    mlir_text.check(text, "<schedule>")
    if not text:
        raise WeftError("schedule must not be empty")  # MLIR's parser would crash
    from weft import mlir
    from weft.mlir import ir

    with ir.Context(load_on_create_dialects=()):  # dialects take 5 ms to load, and no schedule names one
        return schedule_of(mlir.parse_attribute(text, "<schedule>"))


def needed_chips(types: Types, *, any_rows: bool = False) -> ChipSet:
    """The chips that have the instructions of some family's schedules; with `any_rows`, of a family whose
    kernels take rows of any alignment.
    """
    able = (family for family in FAMILIES if family.takes_any_rows or not any_rows)
    return frozenset().union(*(family.chips(types) for family in able))
