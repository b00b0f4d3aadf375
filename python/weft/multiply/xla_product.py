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
from weft.multiply import array_views, launches, product_kernel
from weft.multiply.operands import Operands
from weft.multiply.product import Product, Traced

_VERSION = 1

Described = tuple[tuple[int, ...], str]
"""The shape of an array in C order, and MLIR's name of its elements."""
Pitches = Mapping[int, int] | None
"""The elements from row to row of arrays whose rows are padded, by their numbers."""


def operands_of(product: Product, views: Sequence[ArrayView], out: ArrayView | None = None) -> Operands:
    """The operands with views of a, b and the arrays of the roles. Raises WeftError if they don't fit."""
    a, b, *rest = views
    added = {
        role: array_views.transposed(view) if role in product.by_columns else view
        for role, view in zip(product.roles, rest, strict=True)
    }
    return Operands.of(a, b, out, added, product)


def result_of(product: Product, described: Sequence[Described]) -> Described:
    """The result for operands like these. Raises WeftError where they don't fit."""
    operands = operands_of(product, planned(described, 0))
    return operands.shape, operands.views[2].dtype


def text_of(
    product: Product, described: Sequence[Described], result: Described, pitches: Pitches = None
) -> str:
    """The product of arrays like these, for `Parsed.of`. `pitches` has the elements from row to row of
    operands whose rows are padded.
    """
    arrays_ = {"operands": described, "result": result, "pitches": sorted((pitches or {}).items())}
    fields = {"version": _VERSION, **fields_of(product), **arrays_}
    return json.dumps(fields, separators=(",", ":"), sort_keys=True)


def fields_of(product: Product) -> dict[str, Any]:
    """A checked product, for JSON."""
    options = product.options
    activation = options.pop("activation")
    if isinstance(product.schedule, AnySchedule):
        options["schedule"] = [type(product.schedule).key, asdict(product.schedule)]
    # JSON has no infinities, and these must be exact.
    options |= {name: options[name].hex() for name in ("alpha", "beta")}
    given = {name: value for name, value in options.items() if value not in (None, False)}
    roles = {"roles": product.roles, "by_columns": product.by_columns}
    function = {} if product.traced is None else {"function": product.traced}
    return {**roles, "activation": activation, "options": given, **function}


def product_of(fields: Mapping[str, Any]) -> Product:
    """The product of which `fields_of` has made these."""
    options = fields["options"]
    options |= {name: float.fromhex(options[name]) for name in ("alpha", "beta")}
    if "schedule" in options:
        key, values = options["schedule"]
        families = {family.key: family for family in FAMILIES}
        if key not in families:
            complaint = f"schedule must be of a registered kind, got one with field '{key}'"
            raise WeftError(f"weft.jax.matmul: {complaint}")
        values = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
        options["schedule"] = families[key](**values)
    if "kind" in options:
        options["kind"] = tuple(options["kind"])
    roles, by_columns = tuple(fields["roles"]), tuple(fields["by_columns"])
    function = Traced(*fields["function"]) if "function" in fields else None
    return Product(roles, fields["activation"], by_columns=by_columns, function=function, **options)


def arrays_of(described: Sequence[Any]) -> tuple[Described, ...]:
    """Descriptions of arrays that were written as JSON."""
    return tuple((tuple(shape), dtype) for shape, dtype in described)


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
        (result,) = arrays_of([fields["result"]])
        pitches = tuple((number, pitch) for number, pitch in fields.get("pitches", ()))
        return cls(product_of(fields), arrays_of(fields["operands"]), result, pitches)

    def prepared(self, ordinal: int) -> Prepared:
        """The launch on a GPU. It reads a, b, the result and the other operands, in this order. Raises
        WeftError where no kernel multiplies them.
        """
        *views, out = planned((*self.described, self.result), ordinal, dict(self.pitches))
        operands = operands_of(replace(self.product, arch=None), views, out)
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
        operands = operands_of(self.product, views, out)
        if operands.product.arch is None:
            arch = product_kernel.emulated_chip(operands.types)
            operands = replace(operands, product=replace(operands.product, arch=arch))
        launches.run(operands)


def planned(described: Sequence[Described], ordinal: int, pitches: Pitches = None) -> list[Planned]:
    """Views of arrays of a GPU with made-up addresses, since the real ones are known only to a launch.
    `pitches` are those of `text_of`.
    """
    pitched = pitches or {}
    return [
        Planned.of(number, shape, dtype, ordinal, _strides(shape, pitched.get(number)))
        for number, (shape, dtype) in enumerate(described)
    ]


def _strides(shape: tuple[int, ...], pitch: int | None) -> tuple[int, ...]:
    """The strides of an array in C order; `pitch` is the number of elements from row to row, if padded."""
    return arrays.contiguous_strides(shape if pitch is None else (*shape[:-1], pitch))
