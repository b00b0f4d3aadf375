"""`--lower-gemm`: a warp-scope `tile.gemm` on fragments becomes the fully unrolled nest of `mma.sync`."""

from collections.abc import Callable
from functools import cache, lru_cache
from math import prod
from typing import Any

from weft.dialects import mma, tile
from weft.dialects.instruction import repeated
from weft.dialects.tile import GemmOp, is_fragment
from weft.dialects.tile_types import BYTE_TYPES, FP8_TYPES, PTX_INPUTS
from weft.isa import mma as isa
from weft.isa.chips import LANES
from weft.isa.family import Registers
from weft.isa.mma.fragments import REGISTER_BITS
from weft.layout import Layout, LayoutError
from weft.mlir import ir, llvm, vector
from weft.passes.analysis import uniformity
from weft.passes.builders import emit, fragment_coordinates
from weft.passes.builders.instructions import extract
from weft.passes.registry.candidates import Candidate, Predicate, dispatch
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
    missing = uniformity.complaint(op)
    return None if missing is None else f"needs {missing}"


def _register_scope(op: GemmOp) -> str | None:
    for name, value in _values(op):
        if not is_fragment(value):
            return f"needs {name} in registers, got a buffer in {value.type.space} memory"
    return None


def _no_replica(op: GemmOp) -> str | None:
    for name, kind in _tiles(op).items():
        if kind.layout.has_replica:
            return f"needs {name} without a replica, got layout {kind.layout}"
    return None


def _alpha(op: GemmOp) -> str | None:
    alpha = op.attribute("alpha")
    return None if alpha == 1.0 else f"needs alpha 1.0, got {alpha}"


def _beta(op: GemmOp) -> str | None:
    beta = op.attribute("beta")
    return None if beta in (0.0, 1.0) else f"needs beta 0.0 or 1.0, got {beta}"


def _form(op: GemmOp, shape: str) -> isa.Sync:
    a, b = (PTX_INPUTS.get(name, name) for name in (_element(op.a), _element(op.b)))
    d = _PTX_SUMS.get(_element(op.d), _element(op.d))
    c = _PTX_SUMS.get(_element(op.c[0]), _element(op.c[0])) if len(op.c) else d
    return isa.Sync(shape, a, b, c, d)


def _element(tile: Any) -> str:
    return str(tile.type.element_type)


def _types(shape: str) -> Callable[[GemmOp], str | None]:
    def holds(op: GemmOp) -> str | None:
        form = _form(op, shape)
        if not _is_lowered(form):
            types = ", ".join(f"{name} {kind.element_type}" for name, kind in _tiles(op).items())
            return f"{_NEEDED_TYPES}, got {types}"
        if form.a_type not in (inputs := _inputs_of(shape)):
            legal = ", ".join(name for name, ptx in PTX_INPUTS.items() if ptx in inputs)
            return f"{shape} needs A of one of {legal}, got {op.a.type.element_type}"
        chip = op.target.chip.name if op.target else None
        verdict = isa.SYNC.judge(form, chip)
        return None if verdict is None else f"mma.sync {verdict}"

    return holds


@cache
def _inputs_of(shape: str) -> frozenset[str]:
    """The types of A in PTX that this pass lowers to instructions of a shape."""
    return frozenset(form.a_type for form in isa.SYNC.forms() if form.shape == shape and _is_lowered(form))


_PTX_SUMS = {"f32": "f32", "i32": "s32"}
_NEEDED_TYPES = (
    "needs A and B of one type of f16, bf16 and f32, or of fp8, with C and D of f32, or of 8-bit integers, "
    "with C and D of i32"
)


def _is_lowered(form: isa.Sync) -> bool:
    """Whether this pass lowers products of this form: those with sums of 32 bits, without modifiers."""
    a, b = form.a_type, form.b_type
    sums = "s32" if a in _BYTES else "f32"
    mixes = any({a, b} <= kinds for kinds in (_FP8, _BYTES))
    return (mixes or (a == b and a in _ALIKE)) and form == isa.Sync(form.shape, a, b, sums, sums)


_ALIKE = frozenset(("f16", "bf16", "tf32"))
_FP8, _BYTES = (frozenset(PTX_INPUTS[name] for name in names) for names in (FP8_TYPES, BYTE_TYPES))


def _steps(shape: str) -> tuple[int, int, int]:
    # Only the shape of this form is used, so that its types don't matter.
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
    """For each atom of a fragment (by its coordinates in the grid of atoms), the indices of its registers
    among the lane's elements.

    Raises LayoutError if an element is in another lane than the instruction reads it from, or if its index
    differs between lanes.
    """
    atom = Layout.parse(atom_text)
    required = fragment_coordinates.lane_elements(atom, atom_shape)
    held = fragment_coordinates.lane_elements(layout, shape)
    index_of = [{coordinates: i for i, coordinates in enumerate(elements)} for elements in held]
    indices: dict[tuple[int, ...], tuple[int, ...]] = {}
    grid = [extent // step for extent, step in zip(shape, atom_shape, strict=True)]
    for first in range(grid[0]):
        for second in range(grid[1]):
            start = first * atom_shape[0], second * atom_shape[1]
            in_lanes = set()
            for lane in range(LANES):
                elements = [(start[0] + row, start[1] + column) for row, column in required[lane]]
                missing = [e for e in elements if e not in index_of[lane]]
                if missing:
                    must = f"must have element {missing[0]} in lane {lane}, as in {atom}"
                    raise LayoutError(f"{must}, got {layout}")
                in_lanes.add(tuple(index_of[lane][e] for e in elements))
            if len(in_lanes) > 1:
                raise LayoutError(f"must have its registers in the same order in all lanes, got {layout}")
            indices[first, second] = in_lanes.pop()
    return indices


_PAIR = 2


class _Operand:
    """A fragment as the registers of its atoms."""

    def __init__(self, lane: Any, kind: Any, registers: Registers) -> None:
        self.elements = emit.elements(lane)
        self.map = _register_map(kind.layout, kind.shape, registers.layout, registers.shape)
        self.registers = registers
        self.type = ir.Type.parse(registers.type)
        self.pack = REGISTER_BITS // kind.element_type.width
        self.words = _words(lane) if self._whole_words() else None

    def _whole_words(self) -> bool:
        """Whether the lane's vector has the elements of each register next to each other, so that it is best
        read as registers: there may be no operations on single elements.
        """
        pack = self.pack
        return (
            pack != _PAIR
            and self.elements[0].type != self.type
            and all(
                each[i : i + pack] == tuple(range(each[i], each[i] + pack)) and each[i] % pack == 0
                for each in self.map.values()
                for i in range(0, len(each), pack)
            )
        )

    def atom(self, first: int, second: int) -> list[Any]:
        """The registers of one atom, in the order of the instruction."""
        indices, pack = self.map[first, second], self.pack
        if self.words is not None:
            words = [self.words[i // pack] for i in indices[::pack]]
        else:
            scalars = [self.elements[i] for i in indices]
            if scalars[0].type == self.type:
                return scalars
            kind = ir.VectorType.get([pack], scalars[0].type)
            runs = (scalars[i : i + pack] for i in range(0, len(scalars), pack))
            packed = [vector.from_elements(kind, run) for run in runs]
            if kind == self.type:
                return packed
            words = [llvm.bitcast(emit.i32(), run) if pack == _PAIR else _words(run)[0] for run in packed]
        return words

    def put(self, first: int, second: int, registers: list[Any]) -> None:
        """Replaces the elements of one atom, one register each."""
        for i, register in zip(self.map[first, second], registers, strict=True):
            self.elements[i] = register


def _words(lane: Any) -> list[Any]:
    """A vector's registers, as i32."""
    count = lane.type.shape[0] * lane.type.element_type.width // REGISTER_BITS
    return emit.elements(vector.bitcast(ir.VectorType.get([count], emit.i32()), lane))


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
                    operands = {"a": left(i, p), "b": right(p, j), "c": registers}
                    product = (
                        repeated(product, operands) if product else mma.sync(**operands, **vars(form)).owner
                    )
                    registers = [extract(word, product.results[0], r) for r in range(d.count)]
                total.put(i, j, registers)
        kind = op.d.type
        return tile.from_lane(vector.from_elements(kind.lane_type, total.elements), kind)

    return lower


def _initial(op: GemmOp) -> Any:
    """The initial accumulators, in D's register order: C where beta is 1, otherwise zeros."""
    kind = op.d.type
    if op.attribute("beta") == 0.0:
        return emit.constant(kind.lane_type, 0)
    c = op.c[0]
    if c.type.layout == kind.layout:
        return tile.to_lane(c)
    held = fragment_coordinates.lane_elements(c.type.layout, c.type.shape)[0]
    scalars = dict(zip(held, emit.elements(tile.to_lane(c)), strict=True))
    order = fragment_coordinates.lane_elements(kind.layout, kind.shape)[0]
    return vector.from_elements(kind.lane_type, [scalars[coordinates] for coordinates in order])


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
    shapes = {f.shape for f in isa.SYNC.forms() if _is_lowered(f) and f.mnk[0] == 16}
    return sorted(shapes, key=_steps, reverse=True)


CANDIDATES = tuple(_candidate(shape) for shape in _shapes())

LOWER_GEMM = Pass("lower-gemm", "lower warp-scope tile.gemm to mma.sync", run, lowers=(GemmOp,))
