"""How a `tile.gemm` or `tile.gemm_scaled` of one warp becomes the fully unrolled nest of an instruction,
and the candidates for the latter: `mma.sync` with `.block_scale`, one for each kind.

A register holds four scales of a lane. An instruction selects the byte of the registers where its scales
begin, and which lanes of a quad have those of its rows or columns.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from math import prod
from typing import Any

from weft.dialects import mma, tile
from weft.dialects.element_types import PTX_INPUTS, PTX_SCALES
from weft.dialects.instruction import repeated
from weft.dialects.tile import GemmOp, GemmScaledOp, is_fragment
from weft.isa import mma as isa
from weft.isa.block_scales import SCALINGS, BlockScaling
from weft.isa.chips import LANES
from weft.isa.family import Registers
from weft.isa.mma.fragments import LANES_OF_ROW
from weft.layout import Layout, LayoutError
from weft.mlir import ir, vector
from weft.passes.analysis import uniformity
from weft.passes.builders import emit, fragment_registers
from weft.passes.builders.fragment_registers import FragmentRegisters, register_map, words_of
from weft.passes.builders.instructions import extract
from weft.passes.builders.tf32 import to_tf32
from weft.passes.registry.candidates import Candidate, Predicate, predicates

Gemm = GemmOp | GemmScaledOp
Operands = Mapping[str, Any]


@dataclass(frozen=True)
class Product:
    """An instruction that multiplies, as a candidate for `tile.gemm` or `tile.gemm_scaled`.

    `steps` are its M, N and K. `form` returns the instruction for an op, legal or not; `types` returns why it
    doesn't multiply the op's types. `build` builds the instruction from its operands and the fields of its
    form. `scales` returns what gives the operands of a product's scales, by its number along M, N and K.
    """

    name: str
    steps: tuple[int, int, int]
    form: Callable[[Gemm], Any]
    types: Callable[[Gemm], str | None]
    build: Callable[..., ir.Value]
    scales: Callable[[Gemm, Any], Callable[[int, int, int], Operands]] = lambda op, form: lambda i, j, p: {}
    others: tuple[Predicate, ...] = ()

    def candidate(self) -> Candidate:
        """The candidate."""
        return Candidate(
            self.name,
            prod(self.steps),
            (
                *predicates(_register_scope, _full_active_lanes, _no_replica),
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
    build: Callable[..., ir.Value],
    scales: Callable[[int, int, int], Operands] = lambda i, j, p: {},
) -> ir.Value:
    """The fragment of type `kind` with the products of two fragments, added to a lane's `initial` sums: the
    nest of what `build` builds, with the registers of `form`.
    """
    d, of_a, of_b, *_ = form.operands
    left = cache(FragmentRegisters(to_tf32(tile.to_lane(a)), a.type, of_a).atom)
    right = cache(FragmentRegisters(to_tf32(tile.to_lane(b)), b.type, of_b).atom)
    total = FragmentRegisters(initial, kind, d)
    extents = *kind.shape, b.type.shape[0]  # of a sparse A, half is there
    m, n, k = (extent // step for extent, step in zip(extents, form.mnk, strict=True))
    word, product = ir.Type.parse(d.type), None
    for i in range(m):
        for j in range(n):
            registers = total.atom(i, j)
            for p in range(k):
                operands = {"a": left(i, p), "b": right(p, j), "c": registers, **scales(i, j, p)}
                product = repeated(product, operands) if product else build(**operands, **vars(form)).owner
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
    for name, kind in tiles(op).items():  # of scales, an instruction reads some of the copies
        if kind.layout.has_replica and not name.startswith("scale"):
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
    held = fragment_registers.coordinates(c.type)
    scalars = dict(zip(held, emit.elements(tile.to_lane(c)), strict=True))
    order = fragment_registers.coordinates(kind)
    return vector.from_elements(kind.lane_type, [scalars[coordinates] for coordinates in order])


_SCALES_OF_REGISTER = 4

_Selectors = tuple[int, int, int]  # a lane's register, its byte, and the number of the lanes in a quad


def _scale_type(op: GemmScaledOp) -> str:
    return PTX_SCALES[str(op.scale_a.type.element_type)]


def _types(scaling: BlockScaling, shape: str) -> Callable[[GemmScaledOp], str | None]:
    def holds(op: GemmScaledOp) -> str | None:
        a, b = (PTX_INPUTS.get(name, name) for name in op.elements)
        if (scale := _scale_type(op)) != scaling.scale or not {a, b} <= set(scaling.elements):
            elements, wanted = " or ".join(scaling.elements), scaling.scale
            return f"needs A and B of {elements} and scales of {wanted}, got {a} and {b} and {scale}"
        widths = [int(value.type.element_type.width) for value in (op.a, op.b)]
        if widths != [scaling.bits] * 2:
            got = f"{op.a.type.element_type} and {op.b.type.element_type}"
            return f"needs fragments A and B of {scaling.bits} bits an element, got {got}"
        sums = {str(value.type.element_type) for value in (op.c, op.d)}
        if sums != {"f32"}:
            return f"needs C and D of f32, got {' and '.join(sorted(sums))}"
        chip = op.target.chip.name if op.target else None
        verdict = isa.SCALED.judge(_form(op, scaling, shape), chip)
        return None if verdict is None else f"mma.sync {verdict}"

    return holds


def _form(op: GemmScaledOp, scaling: BlockScaling, shape: str) -> isa.Scaled:
    a, b = (PTX_INPUTS.get(name, name) for name in op.elements)
    return isa.Scaled(shape, scaling.kind, scaling.scale_vec, a, b, scaling.scale)


def _selected(op: GemmScaledOp, form: isa.Scaled) -> Callable[[int, int, int], Operands]:
    """A function that returns the operands of the scales of a product by its number along M, N and K."""
    registers = {each.name: each for each in form.operands}
    first = op.attribute("first_group") // form.scales
    sides = []
    for name, scale in zip("ab", op.scales, strict=True):
        selectors = _selectors(
            *(scale.type.layout, scale.type.shape, name),
            *(registers[f"{each}_{name}"] for each in ("scale", "byte_id", "thread_id")),
        )
        sides.append((name, words_of(tile.to_lane(scale)), selectors))

    @cache
    def constant(number: int) -> ir.Value:
        return emit.constant(ir.IntegerType.get_signless(16), number)

    def operands(i: int, j: int, p: int) -> Operands:
        given: dict[str, Any] = {}
        for (name, words, selectors), at in zip(sides, ((i, first + p), (first + p, j)), strict=True):
            word, byte, thread = selectors[at]
            given |= {f"scale_{name}": [words[word]], f"byte_id_{name}": [constant(byte)]}
            given[f"thread_id_{name}"] = [constant(thread)]
        return given

    return operands


def _fits(scaling: BlockScaling, shape: str) -> Callable[[GemmScaledOp], str | None]:
    def holds(op: GemmScaledOp) -> str | None:
        form = _form(op, scaling, shape)
        if op.attribute("first_group") % form.scales:
            return f"needs first_group % {form.scales} == 0, got {op.attribute('first_group')}"
        registers = {each.name: each for each in form.operands}
        for name, scale in zip("ab", op.scales, strict=True):
            parts = [registers[f"{each}_{name}"] for each in ("scale", "byte_id", "thread_id")]
            try:
                _selectors(scale.type.layout, scale.type.shape, name, *parts)
            except LayoutError as error:
                return f"scale_{name} {error.diagnostics[0].message}"
        return None

    return holds


@lru_cache(maxsize=256)
def _selectors(
    layout: Layout, shape: tuple[int, int], name: str, scale: Registers, byte: Registers, thread: Registers
) -> dict[tuple[int, int], _Selectors]:
    """For each atom of a fragment of scales (by its coordinates in the grid of atoms), the selectors of its
    scales. Raises LayoutError where no selectors select them.
    """
    required = _required(Layout.parse(scale.layout), scale.shape)
    held = fragment_registers.lane_elements(layout, shape)
    step = LANES_OF_ROW // len(thread.values)
    found: dict[tuple[int, int], _Selectors] = {}
    for first in range(shape[0] // scale.shape[0]):
        for second in range(shape[1] // scale.shape[1]):
            start = first * scale.shape[0], second * scale.shape[1]
            for number in thread.values:
                # The same elements, in the lanes that this number selects.
                wanted = {lane + number * step: elements for lane, elements in required.items()}
                if (
                    at := _position(wanted, start, held)
                ) is not None and at % _SCALES_OF_REGISTER in byte.values:
                    found[first, second] = (*divmod(at, _SCALES_OF_REGISTER), number)
                    break
            else:
                must = f"must have the scales from {start} on in lanes and bytes that mma.sync can select"
                raise LayoutError(f"{must}, got {layout}")
    return found


@lru_cache(maxsize=16)
def _required(layout: Layout, shape: tuple[int, ...]) -> dict[int, list[tuple[int, ...]]]:
    """The scales that an instruction reads in each lane that it reads, with the selectors 0."""
    lanes = {lane: list(layout.lane_elements(lane, shape)) for lane in range(LANES)}
    return {lane: elements for lane, elements in lanes.items() if elements}


def _position(wanted: dict[int, list[tuple[int, ...]]], start: tuple[int, int], held: Any) -> int | None:
    """The index among each lane's elements from which it has the wanted ones, relative to `start`, one after
    the other; None where that isn't the same in all lanes.
    """
    positions = set()
    for lane, elements in wanted.items():
        moved = [(start[0] + row, start[1] + column) for row, column in elements]
        if moved[0] not in held[lane]:
            return None
        at = held[lane].index(moved[0])
        if list(held[lane][at : at + len(moved)]) != moved:
            return None
        positions.add(at)
    return positions.pop() if len(positions) == 1 else None


def _candidates() -> tuple[Candidate, ...]:
    forms = {(f.kind, f.scale_vec, f.scale_type): f for f in isa.SCALED.forms()}
    made = []
    for scaling in SCALINGS:
        form = forms[scaling.kind, scaling.scale_vec, scaling.scale]
        shape, kind = form.shape, scaling.kind
        product = Product(
            f"mma.sync {shape} {kind}",
            form.mnk,
            partial(_form, scaling=scaling, shape=shape),
            _types(scaling, shape),
            mma.block_scale,
            _selected,
            others=(Predicate("scales", _fits(scaling, shape)),),
        )
        made.append(product.candidate())
    return tuple(made)


CANDIDATES = _candidates()
