"""The attribute of a schedule: a dictionary with an entry for each field."""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any, ClassVar, Self

from weft.errors import WeftError
from weft.isa.suggest import did_you_mean
from weft.mlir import ir

LEFT_OUT: Mapping[str, bool] = {"left out": True}
"""The metadata of a flag that is written only where it is true."""


class Written:
    """A dataclass that is written as a dictionary attribute, with an entry for each field."""

    counts: ClassVar[dict[str, int]] = {}

    @classmethod
    def of(cls, attribute: ir.Attribute) -> Self:
        """The schedule that an attribute states. Raises WeftError for a field that is missing, unknown or
        of another type.
        """
        known = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
        entries = {named.name: named.attr for named in attribute}
        check_names(entries, known)
        if missing := [n for n, f in known.items() if n not in entries and f.default is MISSING]:
            raise WeftError(f"schedule must have the field '{missing[0]}'")
        return cls(**{n: _value(n, a, cls.counts.get(n), known[n].type is bool) for n, a in entries.items()})

    def attribute(self) -> ir.Attribute:
        """The attribute that states this schedule. Fields that are 0 are left out: it is their default. So
        are flags that are false, if their metadata is LEFT_OUT.
        """
        from weft.mlir import ir

        i64 = ir.IntegerType.get_signless(64)

        def as_attribute(value: Any) -> ir.Attribute:
            if isinstance(value, tuple):
                return ir.DenseI64ArrayAttr.get(value)
            return ir.BoolAttr.get(value) if isinstance(value, bool) else ir.IntegerAttr.get(i64, value)

        flags = (f for f in fields(self) if f.type is bool and not f.metadata)  # type: ignore[arg-type]
        always = {f.name for f in flags}
        return ir.DictAttr.get(
            {name: as_attribute(value) for name, value in vars(self).items() if value or name in always}
        )


def check_names(entries: Iterable[str], *kinds: Iterable[str]) -> None:
    """Raises WeftError for a name that no kind of schedule has among its fields."""
    known = {name for kind in kinds for name in kind}
    if not (unknown := sorted(set(entries) - known)):
        return
    meant = did_you_mean(unknown[0], known.difference(entries))
    legal = "; or ".join(", ".join(kind) for kind in kinds)
    raise WeftError(f"schedule has no field '{unknown[0]}': its fields are {legal}{meant}")


def _value(name: str, attribute: ir.Attribute, count: int | None, flag: bool) -> Any:
    from weft import mlir
    from weft.mlir import ir

    if count is not None:
        if not isinstance(attribute, ir.DenseI64ArrayAttr) or len(attribute) != count:
            raise WeftError(f"schedule field '{name}' must be an array<i64> of {count}, got {attribute}")
        return tuple(attribute)
    if flag:
        if not isinstance(attribute, ir.BoolAttr):
            raise WeftError(f"schedule field '{name}' must be true or false, got {attribute}")
        return bool(attribute.value)
    if not isinstance(attribute, ir.IntegerAttr) or isinstance(attribute, ir.BoolAttr):
        raise WeftError(f"schedule field '{name}' must be an integer, got {attribute}")
    if not mlir.is_integer(attribute):
        raise WeftError(f"schedule field '{name}' must be {mlir.INTEGER}, got {attribute}")
    return attribute.value
