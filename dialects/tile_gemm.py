"""`tile.gemm` and `tile.gemm_scaled`: products of two tiles of one warp."""

from collections.abc import Sequence

from weft.dialects.effects import reads
from weft.dialects.element_types import NARROW_TYPES, PTX_SCALES
from weft.dialects.op import Op, Operand, Result, as_attribute, as_float, build
from weft.dialects.tile_types import Tile, group_complaint, is_buffer, is_fragment, is_free
from weft.isa import block_scales
from weft.mlir import ir

CONTAINER = "i8"
"""The type of bytes that hold an element of 4 or 6 bits each."""


class _Product(Op):
    """A is M x K, B is K x N, D is M x N."""

    a: Operand
    b: Operand
    decided_by_kind = True

    @property
    def mnk(self) -> tuple[int, int, int]:
        m, k = self.a.type.shape
        return m, self.b.type.shape[1], k

    @property
    def elements(self) -> tuple[str, str]:
        """The types of the elements of A and B."""
        return str(self.a.type.element_type), str(self.b.type.element_type)


class GemmOp(_Product, dialect=Tile, name="gemm", traits=[reads("a", "b", "c")]):
    """`D = alpha * A @ B + beta * C` on tiles of one warp: A is M x K, B is K x N, C and D are M x N.

    C is the third operand. Without it, beta must be 0. Tiles without layouts are those of a whole CTA, which
    `--pipeline-loops` divides among its warps or warpgroups. With `cta_group` 2, such a B is the same in the
    CTAs of ranks 2 i and 2 i + 1 of a cluster, so that the pass may let them multiply as a pair, and load
    half of its columns each.
    """

    c: Sequence[Operand]
    d: Result
    optional = {"alpha": 1.0, "beta": 0.0, "cta_group": 1}  # noqa: RUF012

    def check(self) -> str | None:
        tiles = [("A", self.a), ("B", self.b), *(("C", c) for c in self.c), ("D", self.d)]
        if wrong := _tile_complaint(tiles):
            return wrong
        if len(self.c) > 1:
            return f"expects A, B and at most one C, got {2 + len(self.c)} operands"
        if wrong := group_complaint(self):
            return wrong
        if self.attribute("cta_group") > 1 and not is_free(self.b):
            return f"cta_group must be 1 for tiles with layouts, got {self.attribute('cta_group')}"
        if self.attribute("beta") != 0.0 and not len(self.c):
            return f"expects a C operand with beta {self.attribute('beta')}"
        return _shape_complaint(self, tiles)


class GemmScaledOp(
    _Product, dialect=Tile, name="gemm_scaled", traits=[reads("a", "b", "scale_a", "scale_b")]
):
    """`D = (A * scale_a) @ (B * scale_b) + C` on tiles of one warp: A is M x K, B is K x N, C and D are M x
    N.

    The scales are those of groups of 32 (f8E8M0FNU) or 16 (f8E4M3FN) elements along K: `scale_a` is M x G,
    `scale_b` is G x N. They may have more groups than A and B; A's first group is number `first_group`.

    Elements of 4 and 6 bits that take a byte each are i8; `a_element` and `b_element` name them.
    """

    c: Operand
    scale_a: Operand
    scale_b: Operand
    d: Result
    optional = {"first_group": 0, "a_element": None, "b_element": None}  # noqa: RUF012

    @staticmethod
    def returns(c: ir.Value) -> list[ir.Type]:
        return [c.type]

    @property
    def elements(self) -> tuple[str, str]:
        named = ((self.a, "a_element"), (self.b, "b_element"))
        a, b = (str(self.attribute(name) or value.type.element_type) for value, name in named)
        return a, b

    @property
    def scales(self) -> tuple[ir.Value, ir.Value]:
        """The scales of A and of B."""
        return self.scale_a, self.scale_b

    def check(self) -> str | None:
        tiles = [("A", self.a), ("B", self.b), ("C", self.c), ("D", self.d)]
        wrong = _tile_complaint([*tiles, ("scale_a", self.scale_a), ("scale_b", self.scale_b)])
        wrong = wrong or _shape_complaint(self, tiles)
        return wrong or self._element_complaint() or self._scale_complaint()

    def _element_complaint(self) -> str | None:
        for name, value in (("a_element", self.a), ("b_element", self.b)):
            held, given = str(value.type.element_type), self.attribute(name)
            if given is None:
                continue
            if given not in NARROW_TYPES:
                return f"{name} must be one of {', '.join(NARROW_TYPES)}, got {given}"
            if held != CONTAINER:
                return f"{name} must not be given where the tile isn't of {CONTAINER}, got a tile of {held}"
        return None

    def _scale_complaint(self) -> str | None:
        kinds = [str(scale.type.element_type) for scale in self.scales]
        if kinds[0] != kinds[1] or kinds[0] not in PTX_SCALES:
            return f"expects scales both of one of {', '.join(PTX_SCALES)}, got {' and '.join(kinds)}"
        (m, n, k), group = self.mnk, block_scales.group_of(PTX_SCALES[kinds[0]])
        if k % group:
            return f"K must be a multiple of {group} with scales of {kinds[0]}, got {k}"
        (rows, of_a), (of_b, columns) = (scale.type.shape for scale in self.scales)
        if (rows, columns) != (m, n) or of_a != of_b:
            got = f"{rows} x {of_a} and {of_b} x {columns}"
            return f"expects scale_a of {m} x G and scale_b of G x {n}, got {got}"
        first, most = self.attribute("first_group"), of_a - k // group
        if not 0 <= first <= most:
            return f"first_group must be in 0..{most} for {k // group} of {of_a} groups, got {first}"
        return None


def _tile_complaint(tiles: Sequence[tuple[str, ir.Value]]) -> str | None:
    """Why a value isn't a tile of rank 2. None or all of them may lack a layout."""
    undecided = all(is_free(value) for _, value in tiles)
    for name, value in tiles:
        if not (undecided or is_fragment(value) or is_buffer(value)):
            return f"expects {name} to be a tensor with a #tile.layout or a tile.buffer, got {value.type}"
        if len(value.type.shape) != 2:
            return f"expects {name} of rank 2, got shape {list(value.type.shape)}"
    return None


def _shape_complaint(op: ir.OpView, tiles: Sequence[tuple[str, ir.Value]]) -> str | None:
    m, n, k = op.mnk
    want = {"A": (m, k), "B": (k, n), "C": (m, n), "D": (m, n)}
    for name, value in tiles:
        if tuple(value.type.shape) != want[name]:
            return (
                f"expects {name} of shape {list(want[name])} for A {list(op.a.type.shape)} and "
                f"B {list(op.b.type.shape)}, got {list(value.type.shape)}"
            )
    return None


def gemm(
    a: ir.Value,
    b: ir.Value,
    c: ir.Value | None,
    d_type: ir.Type,
    *,
    alpha: float = 1.0,
    beta: float | None = None,
    cta_group: int = 1,
) -> ir.Value:
    """Builds `tile.gemm` and returns D of type `d_type`. `beta` is 1 by default where there is a C; with 0, C
    isn't read. Raises WeftError for tiles that the op doesn't take.
    """
    if beta is None:
        beta = 0.0 if c is None else 1.0
    factors = {"alpha": as_float(alpha), "beta": as_float(beta)}
    return build(
        GemmOp,
        operands=[a, b, *([] if c is None else [c])],
        results=[d_type],
        attributes=factors | ({"cta_group": as_attribute(cta_group)} if cta_group > 1 else {}),
    ).d
