"""`--lower-gemm`: a warp-scope `tile.gemm` on fragments becomes the fully unrolled nest of `mma.sync`;
`tile.gemm_scaled` that of `mma.sync` with block scales.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial

from weft.dialects import mma
from weft.dialects.element_types import BYTE_TYPES, FP8_TYPES, PTX_INPUTS
from weft.dialects.tile import GemmOp, GemmScaledOp
from weft.isa import mma as isa
from weft.mlir import ir
from weft.passes.analysis import uniformity
from weft.passes.builders import warp_products
from weft.passes.builders.warp_products import Product, tiles
from weft.passes.registry.candidates import Candidate, dispatch, predicates
from weft.passes.registry.pass_ import Pass, rewrite


def run(module: ir.Operation) -> None:
    """Lowers every product by the first candidate that fits."""
    with uniformity.remembered():
        rewrite(module, {GemmOp: lambda op: dispatch(op, CANDIDATES)})
        rewrite(module, {GemmScaledOp: lambda op: dispatch(op, SCALED_CANDIDATES)})


def _form(op: GemmOp, shape: str) -> isa.Sync:
    a, b = (PTX_INPUTS.get(name, name) for name in op.elements)
    d = _PTX_SUMS.get(_element(op.d), _element(op.d))
    c = _PTX_SUMS.get(_element(op.c[0]), _element(op.c[0])) if len(op.c) else d
    return isa.Sync(shape, a, b, c, d)


def _element(tile: ir.Value) -> str:
    return str(tile.type.element_type)


def _types(shape: str) -> Callable[[GemmOp], str | None]:
    def holds(op: GemmOp) -> str | None:
        form = _form(op, shape)
        if not _is_lowered(form):
            types = ", ".join(f"{name} {kind.element_type}" for name, kind in tiles(op).items())
            return f"{_NEEDED_TYPES}, got {types}"
        if form.a_type not in (inputs := _inputs_of(shape)):
            legal = ", ".join(name for name, ptx in PTX_INPUTS.items() if ptx in inputs)
            return f"{shape} needs A of one of {legal}, got {op.elements[0]}"
        chip = op.target.chip.name if op.target else None
        verdict = isa.SYNC.judge(form, chip)
        return None if verdict is None else f"mma.sync {verdict}"

    return holds


@cache
def _inputs_of(shape: str) -> frozenset[str]:
    """The types of A in PTX that this pass lowers to instructions of a shape."""
    return frozenset(form.a_type for form in _lowered() if form.shape == shape)


_PTX_SUMS = {"f32": "f32", "i32": "s32"}
_NEEDED_TYPES = (
    "needs A and B of one type of f16, bf16 and f32, or of fp8, with C and D of f32 (of f16 and fp8 also "
    "f16), or of 8-bit integers, with C and D of i32, or of f64, with C and D of f64"
)


def _is_lowered(form: isa.Sync) -> bool:
    """Whether this pass lowers products of this form: those with C and D of one type, without modifiers."""
    a, b, sums = form.a_type, form.b_type, form.d_type
    legal = {"s32"} if a in _BYTES else {"f64"} if a == "f64" else {"f32"}
    if a in {"f16", *_FP8}:
        legal.add("f16")
    mixes = any({a, b} <= kinds for kinds in (_FP8, _BYTES))
    alike = mixes or (a == b and a in _ALIKE)
    return alike and sums in legal and form == isa.Sync(form.shape, a, b, sums, sums)


def _lowered() -> Iterator[isa.Sync]:
    """The instructions that products become. m8n8k4 of f16 is Volta's: four products of eight lanes each."""
    return (f for f in isa.SYNC.forms() if _is_lowered(f) and (f.shape, f.a_type) != ("m8n8k4", "f16"))


_ALIKE = frozenset(("f16", "bf16", "tf32", "f64"))
_FP8, _BYTES = (frozenset(PTX_INPUTS[name] for name in names) for names in (FP8_TYPES, BYTE_TYPES))


def _steps(shape: str) -> tuple[int, int, int]:
    # Only the shape of this form is used, so that its types don't matter.
    return isa.Sync(shape, "f16", "f16", "f32", "f32").mnk


def _alpha(op: GemmOp) -> str | None:
    alpha = op.attribute("alpha")
    return None if alpha == 1.0 else f"needs alpha 1.0, got {alpha}"


def _beta(op: GemmOp) -> str | None:
    beta = op.attribute("beta")
    return None if beta in (0.0, 1.0) else f"needs beta 0.0 or 1.0, got {beta}"


def _candidate(shape: str) -> Candidate:
    form = partial(_form, shape=shape)
    types = _types(shape)
    factors = predicates(_alpha, _beta)
    return Product(f"mma.sync {shape}", _steps(shape), form, types, mma.sync, others=factors).candidate()


CANDIDATES = tuple(
    _candidate(shape) for shape in sorted({form.shape for form in _lowered()}, key=_steps, reverse=True)
)
SCALED_CANDIDATES = warp_products.CANDIDATES

LOWER_GEMM = Pass(
    "lower-gemm",
    "lower warp-scope tile.gemm and tile.gemm_scaled to mma.sync",
    run,
    lowers=(GemmOp, GemmScaledOp),
)
