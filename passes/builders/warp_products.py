"""How a `tile.gemm` of one warp becomes the fully unrolled nest of an instruction: what all instructions have
in common.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

from weft.dialects import tile
from weft.dialects.instruction import repeated
from weft.dialects.tile import GemmOp, GemmScaledOp, is_fragment
from weft.isa.family import Form
from weft.layout import LayoutError
from weft.mlir import ir, vector
from weft.passes.analysis import uniformity
from weft.passes.builders import emit, fragment_coordinates
from weft.passes.builders.fragment_registers import FragmentRegisters, register_map
from weft.passes.builders.instructions import extract
from weft.passes.builders.tf32 import to_tf32
from weft.passes.registry.candidates import Candidate, Predicate

Gemm = GemmOp | GemmScaledOp
Operands = Mapping[str, Any]


@dataclass(frozen=True)
class Product:
    """An instruction that multiplies, as a candidate for `tile.gemm` or `tile.gemm_scaled`.

    `steps` are its M, N and K. `form` returns the instruction for an op, legal or not; `types` returns why it
    doesn't multiply the op's types. `build` builds the instruction from its operands. `scales` returns what
    gives the operands of a product's scales, by its number along M, N and K.
    """

    name: str
    steps: tuple[int, int, int]
    form: Callable[[Gemm], Any]
    types: Callable[[Gemm], str | None]
    build: Callable[[Operands, Form], Any]
    scales: Callable[[Gemm, Any], Callable[[int, int, int], Operands]] = lambda op, form: lambda i, j, p: {}
    others: tuple[Predicate, ...] = ()

    def candidate(self) -> Candidate:
        """The candidate."""
        return Candidate(
            self.name,
            prod(self.steps),
            (
                Predicate("register_scope", _register_scope),
                Predicate("full_active_lanes", _full_active_lanes),
                Predicate("no_replica", _no_replica),
                Predicate("types", self.types),
                *self.others,
                Predicate("extents", _extents(self.steps)),
                Predicate("fragments", self._fragments),
            ),
            self._lower,
        )

    def _fragments(self, op: Gemm) -> str | None:
        """Why the registers of a fragment aren't those of the instruction."""
        kinds = tiles(op)
        for registers in self.form(op).operands:
            name = registers.name.upper()
            if name not in kinds:
                continue
            kind = kinds[name]
            try:
                register_map(kind.layout, kind.shape, registers.layout, registers.shape)
            except LayoutError as error:
                reason = error.diagnostics[0].message
                m, n, k = op.mnk
                shape = "m{}n{}k{}".format(*self.steps)
                return f"no {shape} fits M={m}, N={n}, K={k}: {name} {reason}"
        return None

    def _lower(self, op: Gemm) -> ir.Value:
        """The nest, and the fragment of its sums."""
        form = self.form(op)
        return nest(op.a, op.b, _initial(op), op.d.type, form, self.build, self.scales(op, form))


def nest(
    a: ir.Value,
    b: ir.Value,
    initial: ir.Value,
    kind: ir.Type,
    form: Any,
    build: Callable[[Operands, Any], Any],
    scales: Callable[[int, int, int], Operands] = lambda i, j, p: {},
) -> ir.Value:
    """The fragment of type `kind` with the products of two fragments, added to a lane's `initial` sums: the
    nest of what `build` builds, with the registers of `form`.
    """
    d, of_a, of_b, *_ = form.operands
    left = cache(FragmentRegisters(to_tf32(tile.to_lane(a)), a.type, of_a).atom)
    right = cache(FragmentRegisters(to_tf32(tile.to_lane(b)), b.type, of_b).atom)
    total = FragmentRegisters(initial, kind, d)
    extents = *kind.shape, a.type.shape[1]
    m, n, k = (extent // step for extent, step in zip(extents, form.mnk, strict=True))
    word, product = ir.Type.parse(d.type), None
    for i in range(m):
        for j in range(n):
            registers = total.atom(i, j)
            for p in range(k):
                operands = {"a": left(i, p), "b": right(p, j), "c": registers, **scales(i, j, p)}
                product = repeated(product, operands) if product else build(operands, form).owner
                registers = [extract(word, product.results[0], r) for r in range(d.count)]
            total.put(i, j, registers)
    return tile.from_lane(vector.from_elements(kind.lane_type, total.elements), kind)


def tiles(op: Gemm) -> dict[str, ir.Type]:
    """The types of D, A, B, and of C and the scales where there are any."""
    return {name: value.type for name, value in _values(op)}


def _values(op: Gemm) -> list[tuple[str, ir.Value]]:
    if isinstance(op, GemmScaledOp):
        rest = [("C", op.c), ("scale_a", op.scale_a), ("scale_b", op.scale_b)]
    else:
        rest = [("C", c) for c in op.c]
    return [("D", op.d), ("A", op.a), ("B", op.b), *rest]


def _full_active_lanes(op: Gemm) -> str | None:
    missing = uniformity.complaint(op)
    return None if missing is None else f"needs {missing}"


def _register_scope(op: Gemm) -> str | None:
    for name, value in _values(op):
        if not is_fragment(value):
            return f"needs {name} in registers, got a buffer in {value.type.space} memory"
    return None


def _no_replica(op: Gemm) -> str | None:
    for name, kind in tiles(op).items():
        if kind.layout.has_replica:
            return f"needs {name} without a replica, got layout {kind.layout}"
    return None


def _extents(steps: tuple[int, int, int]) -> Callable[[Gemm], str | None]:

    def holds(op: Gemm) -> str | None:
        for name, extent, step in zip("MNK", op.mnk, steps, strict=True):
            if extent % step:
                return f"needs {name} % {step} == 0, got {name} = {extent}"
        return None

    return holds


def _initial(op: Gemm) -> ir.Value:
    """The initial accumulators, in D's register order: C where beta is 1, otherwise zeros."""
    kind = op.d.type
    if isinstance(op, GemmOp) and op.attribute("beta") == 0.0:
        return emit.constant(kind.lane_type, 0)
    c = op.c[0] if isinstance(op, GemmOp) else op.c
    if c.type.layout == kind.layout:
        return tile.to_lane(c)
    held = fragment_coordinates.lane_elements(c.type.layout, c.type.shape)[0]
    scalars = dict(zip(held, emit.elements(tile.to_lane(c)), strict=True))
    order = fragment_coordinates.lane_elements(kind.layout, kind.shape)[0]
    return vector.from_elements(kind.lane_type, [scalars[coordinates] for coordinates in order])
