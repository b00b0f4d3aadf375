"""The candidates for `tile.gemm_scaled`: `mma.sync` with `.block_scale`, one for each kind.

A register holds four scales of a lane. An instruction selects the byte of the registers where its scales
begin, and which lanes of a quad have those of its rows or columns.
"""

from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any

from weft.dialects import mma, tile
from weft.dialects.element_types import PTX_INPUTS, PTX_SCALES
from weft.dialects.tile import GemmScaledOp
from weft.isa import mma as isa
from weft.isa.block_scales import SCALINGS, BlockScaling
from weft.isa.chips import LANES
from weft.isa.family import Registers
from weft.isa.mma.fragments import LANES_OF_ROW
from weft.layout import Layout, LayoutError
from weft.mlir import ir
from weft.passes.builders import emit, fragment_coordinates
from weft.passes.builders.fragment_registers import words_of
from weft.passes.builders.warp_products import Operands, Product
from weft.passes.registry.candidates import Candidate, Predicate

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


def _build(operands: Operands, form: Any) -> ir.Value:
    return mma.block_scale(**operands, **vars(form))


def _selected(op: GemmScaledOp, form: isa.Scaled) -> Callable[[int, int, int], Operands]:
    """What gives the operands of the scales of a product by its number along M, N and K."""
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
    held = fragment_coordinates.lane_elements(layout, shape)
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
            _build,
            _selected,
            others=(Predicate("scales", _fits(scaling, shape)),),
        )
        made.append(product.candidate())
    return tuple(made)


CANDIDATES = _candidates()
