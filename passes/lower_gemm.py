"""`--lower-gemm`: a warp-scope `tile.gemm` on fragments becomes the fully unrolled nest of `mma.sync`."""

from collections.abc import Callable
from functools import cache, lru_cache
from math import prod
from typing import Any

from weft.dialects import mma, tile
from weft.dialects.instruction import repeated
from weft.dialects.schedule import Schedule
from weft.dialects.tile import GemmOp, is_fragment
from weft.isa import mma as isa
from weft.isa.chips import LANES
from weft.isa.family import Registers
from weft.layout import Layout, LayoutError
from weft.mlir import ir, llvm, vector
from weft.passes.analysis import uniformity
from weft.passes.builders import emit, places
from weft.passes.builders.instructions import extract
from weft.passes.registry.dispatch import Candidate, Predicate, dispatch
from weft.passes.registry.pass_ import Pass, rewrite

Layouts = dict[str, tuple[Layout, tuple[int, ...]]]


def run(module: Any) -> None:
    """Lowers every `tile.gemm` by the first candidate that fits."""
    rewrite(module, [GemmOp], lambda op: [dispatch(op, CANDIDATES)])


def _tiles(op: GemmOp) -> dict[str, Any]:
    """The types of D, A, B and C, where there is a C."""
    return {name: value.type for name, value in _values(op)}


def _values(op: GemmOp) -> list[tuple[str, Any]]:
    return [("D", op.d), ("A", op.a), ("B", op.b), *(("C", c) for c in op.c)]


def _full_active_lanes(op: GemmOp) -> str | None:
    found = uniformity.complaint(op)
    return None if found is None else f"needs {found}"


def _register_scope(op: GemmOp) -> str | None:
    for name, value in _values(op):
        if not is_fragment(value):
            return f"needs {name} in registers, got a buffer in {value.type.space} memory"
    return None


def _no_replica(op: GemmOp) -> str | None:
    for name, kind in _tiles(op).items():
        if kind.layout.has_replica:
            return f"needs every element in one place, but {name} has a replica: {kind.layout}"
    return None


def _alpha(op: GemmOp) -> str | None:
    alpha = op.attribute("alpha")
    return None if alpha == 1.0 else f"needs alpha 1.0, got {alpha}"


def _beta(op: GemmOp) -> str | None:
    beta = op.attribute("beta")
    return None if beta in (0.0, 1.0) else f"needs beta 0.0 or 1.0, got {beta}"


def _form(op: GemmOp, shape: str) -> isa.Sync:
    a, b, d = (str(value.type.element_type) for value in (op.a, op.b, op.d))
    c = str(op.c[0].type.element_type) if len(op.c) else d
    return isa.Sync(shape, a, b, c, d)


def _types(shape: str) -> Callable[[GemmOp], str | None]:
    def holds(op: GemmOp) -> str | None:
        form = _form(op, shape)
        if not _accumulates_in_f32(form):
            found = f"A {form.a_type}, B {form.b_type}, C {form.c_type}, D {form.d_type}"
            return f"needs A and B of f16 or bf16, both alike, and f32 for C and D, got {found}"
        chip = op.target.chip.name if op.target else None
        verdict = isa.SYNC.judge(form, chip)
        return None if verdict is None else f"mma.sync {verdict}"

    return holds


def _accumulates_in_f32(form: isa.Sync) -> bool:
    """Whether the types are those of the products that this pass lowers."""
    return (
        form.a_type == form.b_type
        and form.a_type in Schedule.inputs
        and {form.c_type, form.d_type} == {"f32"}
    )


def _steps(shape: str) -> tuple[int, int, int]:
    # Only the shape is read off this form: its types stand in for any.
    return isa.Sync(shape, "f16", "f16", "f32", "f32").mnk


def _extents(shape: str) -> Callable[[GemmOp], str | None]:
    steps = _steps(shape)

    def holds(op: GemmOp) -> str | None:
        for name, extent, step in zip("MNK", op.mnk, steps, strict=True):
            if extent % step:
                return f"needs {name} % {step} == 0, got {name} = {extent}"
        return None

    return holds


def _fragments(shape: str) -> Callable[[GemmOp], str | None]:
    def holds(op: GemmOp) -> str | None:
        form = _form(op, shape)
        kinds = _tiles(op)
        for registers in form.operands:
            name = registers.name.upper()
            if name not in kinds:
                continue
            kind = kinds[name]
            try:
                _register_map(kind.layout, kind.shape, registers.layout, registers.shape)
            except LayoutError as error:
                reason = error.diagnostics[0].message
                m, n, k = op.mnk
                return f"no {shape} fits M={m}, N={n}, K={k}: {name} {reason}"
        return None

    return holds


@lru_cache(maxsize=256)
def _register_map(
    layout: Layout, shape: tuple[int, ...], atom_text: str, atom_shape: tuple[int, ...]
) -> dict[tuple[int, ...], tuple[int, ...]]:
    """For each atom of a fragment (by its place in the grid of atoms), where its registers are among the
    lane's elements.

    Raises LayoutError where an element that the instruction wants in a lane is in another, or at another
    register there than in the rest.
    """
    atom = Layout.parse(atom_text)
    wanted = places.lane_elements(atom, atom_shape)
    held = places.lane_elements(layout, shape)
    at = [{coordinates: place for place, coordinates in enumerate(elements)} for elements in held]
    found: dict[tuple[int, ...], tuple[int, ...]] = {}
    grid = [extent // step for extent, step in zip(shape, atom_shape, strict=True)]
    for first in range(grid[0]):
        for second in range(grid[1]):
            start = first * atom_shape[0], second * atom_shape[1]
            in_lanes = set()
            for lane in range(LANES):
                elements = [(start[0] + row, start[1] + column) for row, column in wanted[lane]]
                missing = [e for e in elements if e not in at[lane]]
                if missing:
                    wanted_there = f"has element {missing[0]} in another lane than {lane}"
                    raise LayoutError(f"{wanted_there}, where {atom} wants it: {layout}")
                in_lanes.add(tuple(at[lane][e] for e in elements))
            if len(in_lanes) > 1:
                raise LayoutError(
                    f"has its registers in another order in some lanes than in others: {layout}"
                )
            found[first, second] = in_lanes.pop()
    return found


class _Operand:
    """A fragment as the registers of its atoms."""

    def __init__(self, lane: Any, kind: Any, registers: Registers) -> None:
        self.elements = emit.elements(lane)
        self.map = _register_map(kind.layout, kind.shape, registers.layout, registers.shape)
        self.registers = registers
        self.element_type = kind.element_type

    def atom(self, first: int, second: int) -> list[Any]:
        """The registers of one atom, in the order of the instruction."""
        scalars = [self.elements[place] for place in self.map[first, second]]
        pack = len(scalars) // self.registers.count
        if pack == 1:
            return scalars
        pairs = ir.VectorType.get([pack], self.element_type)
        words = [vector.from_elements(pairs, scalars[i : i + pack]) for i in range(0, len(scalars), pack)]
        if self.registers.type == "i32":
            return [llvm.bitcast(emit.i32(), word) for word in words]
        return words

    def put(self, first: int, second: int, registers: list[Any]) -> None:
        """Replaces the elements of one atom, one register each."""
        for place, register in zip(self.map[first, second], registers, strict=True):
            self.elements[place] = register


def _lower(shape: str) -> Callable[[GemmOp], Any]:
    def lower(op: GemmOp) -> Any:
        form = _form(op, shape)
        d, a, b, _ = form.operands
        left = cache(_Operand(tile.to_lane(op.a), op.a.type, a).atom)
        right = cache(_Operand(tile.to_lane(op.b), op.b.type, b).atom)
        total = _Operand(_initial(op), op.d.type, d)
        m, n, k = (extent // step for extent, step in zip(op.mnk, form.mnk, strict=True))
        word, product = ir.Type.parse(d.type), None
        for i in range(m):
            for j in range(n):
                registers = total.atom(i, j)
                for p in range(k):
                    given = {"a": left(i, p), "b": right(p, j), "c": registers}
                    product = repeated(product, given) if product else mma.sync(**given, **vars(form)).owner
                    registers = [extract(word, product.results[0], r) for r in range(d.count)]
                total.put(i, j, registers)
        kind = op.d.type
        return tile.from_lane(vector.from_elements(kind.lane_type, total.elements), kind)

    return lower


def _initial(op: GemmOp) -> Any:
    """What the accumulators start from, in D's register order: C where beta is 1, else zeros."""
    kind = op.d.type
    if op.attribute("beta") == 0.0:
        return emit.constant(kind.lane_type, 0)
    c = op.c[0]
    if c.type.layout == kind.layout:
        return tile.to_lane(c)
    held = {
        coordinates: i for i, coordinates in enumerate(places.lane_elements(c.type.layout, c.type.shape)[0])
    }
    scalars = emit.elements(tile.to_lane(c))
    order = [held[coordinates] for coordinates in places.lane_elements(kind.layout, kind.shape)[0]]
    return vector.from_elements(kind.lane_type, [scalars[i] for i in order])


def _candidate(shape: str) -> Candidate:
    return Candidate(
        f"mma.sync {shape}",
        prod(_steps(shape)),
        (
            Predicate("register_scope", _register_scope),
            Predicate("full_active_lanes", _full_active_lanes),
            Predicate("no_replica", _no_replica),
            Predicate("types", _types(shape)),
            Predicate("alpha", _alpha),
            Predicate("beta", _beta),
            Predicate("extents", _extents(shape)),
            Predicate("fragments", _fragments(shape)),
        ),
        _lower(shape),
    )


def _shapes() -> list[str]:
    """The shapes with a lane's rows g and g + 8, the largest first: m8n8k4 is Volta's, a quad pair's own."""
    shapes = {f.shape for f in isa.SYNC.forms() if _accumulates_in_f32(f) and f.mnk[0] == 16}
    return sorted(shapes, key=_steps, reverse=True)


CANDIDATES = tuple(_candidate(shape) for shape in _shapes())

LOWER_GEMM = Pass("lower-gemm", "lower warp-scope tile.gemm to mma.sync", run, lowers=(GemmOp,))
