"""A product as text that XLA keeps in its programs: enough to prepare the launch in any process."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from weft.dialects.schedule import AnySchedule
from weft.dialects.schedule.families import FAMILIES
from weft.errors import WeftError
from weft.launch import arrays
from weft.launch.arrays import ArrayView, Planned
from weft.launch.runtime import Prepared
from weft.multiply import padded_rows, product_kernel
from weft.multiply.operands import Operands
from weft.multiply.options import Options

_VERSION = 1
APART = 1 << 44  # between planned arrays: more than the memory of any GPU

Described = tuple[tuple[int, ...], str]
"""The shape of an array in C order, and MLIR's name of its elements."""


@dataclass(frozen=True)
class Product:
    """What `weft.matmul` is asked to compute, without the arrays. Its fields never change and can be hashed.

    `roles` are those of the operands after a and b, and `by_columns` those of them whose arrays hold
    transposed matrices. The schedule, kind and numbers are as `Options.checked` returns them.
    """

    roles: tuple[str, ...]
    options: Options
    activation: str | None = None
    by_columns: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, roles: Sequence[str], options: Options, activation: str | None, by_columns: Sequence[str] = ()
    ) -> "Product":
        """Raises WeftError for options that aren't legal."""
        checked = options.checked("c" in roles)
        names = None if checked.kind is None else tuple(kind.name for kind in checked.kind)
        block = checked.scale_block or None
        options = checked._replace(kind=names, scale_block=block)
        return cls(tuple(roles), options, activation, tuple(by_columns))

    def operands(self, views: Sequence[ArrayView], out: ArrayView | None = None) -> Operands:
        """The operands with views of a, b and the arrays of `roles`. Raises WeftError if they don't fit."""
        a, b, *rest = views
        added = {
            role: _transposed(view) if role in self.by_columns else view
            for role, view in zip(self.roles, rest, strict=True)
        }
        return Operands.of(a, b, out, added, self.activation, self.options)

    def result(self, described: Sequence[Described]) -> Described:
        """The result for operands like these. Raises WeftError where they don't fit."""
        operands = self.operands(planned(described, 0))
        return operands.shape, operands.views[2].dtype

    def text(
        self, described: Sequence[Described], result: Described, pitches: Mapping[int, int] | None = None
    ) -> str:
        """The product of arrays like these, for `Parsed.of`. `pitches` has the elements from row to row of
        operands whose rows are padded.
        """
        options = self.options._asdict()
        schedule = self.options.schedule
        if isinstance(schedule, AnySchedule):
            options["schedule"] = written_schedule(schedule)
        # JSON has no infinities, and these must be exact.
        options |= {name: options[name].hex() for name in ("alpha", "beta")}
        fields = {
            "version": _VERSION,
            "roles": self.roles,
            "by_columns": self.by_columns,
            "operands": described,
            "result": result,
            "activation": self.activation,
            "pitches": sorted((pitches or {}).items()),
            "options": {name: value for name, value in options.items() if value not in (None, False)},
        }
        return json.dumps(fields, separators=(",", ":"), sort_keys=True)


def key_of(text: str) -> int:
    """A number that stands for a product's text."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


@dataclass(frozen=True)
class Parsed:
    """A product and the arrays that it is for."""

    product: Product
    described: tuple[Described, ...]
    result: Described
    pitches: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, text: str) -> "Parsed":
        """Raises WeftError for a text of another version of Weft."""
        fields = json.loads(text)
        if fields["version"] != _VERSION:
            what = f"expected a product of format {_VERSION}, got one of format {fields['version']}"
            raise WeftError(f"weft.jax.matmul: {what}: trace or export the program again")
        given = fields["options"]
        schedule = given.get("schedule")
        options = {name: given.get(name, default) for name, default in _DEFAULTS.items()}
        options |= {name: float.fromhex(options[name]) for name in ("alpha", "beta")}
        options["schedule"] = None if schedule is None else read_schedule(*schedule)
        options["kind"] = None if options["kind"] is None else tuple(options["kind"])
        of_roles = tuple(fields["roles"]), Options(**options), fields["activation"]
        product = Product(*of_roles, tuple(fields["by_columns"]))
        described = tuple((tuple(shape), dtype) for shape, dtype in fields["operands"])
        shape, dtype = fields["result"]
        pitches = tuple((number, pitch) for number, pitch in fields.get("pitches", ()))
        return cls(product, described, (tuple(shape), dtype), pitches)

    def prepared(self, ordinal: int) -> Prepared:
        """The launch on a GPU. It reads a, b, the result and the other operands, in this order. Raises
        WeftError where no kernel multiplies them.
        """
        *views, out = planned((*self.described, self.result), ordinal, dict(self.pitches))
        options = self.product.options._replace(arch=None)
        operands = replace(self.product, options=options).operands(views, out)
        kernel, _ = product_kernel.with_copies(operands, transposes=False)
        return kernel.plan(operands.views)

    def emulate(self, addresses: Sequence[int]) -> None:
        """Multiplies arrays on the CPU, in the emulator: a, b, the result and the others. Raises WeftError
        where no kernel multiplies them.
        """
        a, b, result, *added = addresses
        pitches = dict(self.pitches)
        views = [
            ArrayView(address, shape, _strides(shape, pitches.get(number)), dtype, "cpu", 0, True, None)
            for number, (address, (shape, dtype)) in enumerate(
                zip((a, b, *added), self.described, strict=True)
            )
        ]
        shape, dtype = self.result
        out = ArrayView(result, shape, arrays.contiguous_strides(shape), dtype, "cpu", 0, False, None)
        operands = self.product.operands(views, out)
        if operands.options.arch is None:
            arch = product_kernel.emulated_chip(operands.types)
            operands = replace(operands, options=operands.options._replace(arch=arch))
        operands.check_groups()
        kernel, transposed = product_kernel.with_copies(operands)
        copied = padded_rows.copied(kernel, operands.views, transposed)
        padded_rows.run(kernel, operands.views, copied, on="emulator")


_FLAGS = ("transpose_a", "transpose_b", "promote")
_DEFAULTS: dict[str, Any] = {name: False if name in _FLAGS else None for name in Options._fields}


def written_schedule(schedule: AnySchedule) -> list[Any]:
    """A schedule for JSON."""
    return [type(schedule).key, asdict(schedule)]


def read_schedule(key: str, fields: dict[str, Any]) -> AnySchedule:
    """The schedule that `written_schedule` wrote."""
    families = {family.key: family for family in FAMILIES}
    if key not in families:
        raise WeftError(f"weft.jax.matmul: schedule must be of a registered kind, got one with field '{key}'")
    return families[key](**{name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()})


def _transposed(view: ArrayView) -> ArrayView:
    shape, strides = ((*each[:-2], each[-1], each[-2]) for each in (view.shape, view.strides))
    return replace(view, shape=shape, strides=strides)


def planned(
    described: Sequence[Described], ordinal: int, pitches: Mapping[int, int] | None = None
) -> list[ArrayView]:
    """Views of arrays of a GPU with made-up addresses, since the real ones are known only to a launch.
    `pitches` are those of `Product.text`.
    """
    views = list[ArrayView]()
    for number, (shape, dtype) in enumerate(described):
        strides = _strides(shape, (pitches or {}).get(number))
        views.append(Planned((number + 1) * APART, shape, strides, dtype, "cuda", ordinal, False, None))
    return views


def _strides(shape: tuple[int, ...], pitch: int | None) -> tuple[int, ...]:
    """The strides of an array in C order; `pitch` is the number of elements from row to row, if padded."""
    return arrays.contiguous_strides(shape if pitch is None else (*shape[:-1], pitch))
