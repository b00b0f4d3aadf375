"""`tile.matmul`: a whole product of matrices in global memory, which passes turn into a kernel."""

from collections.abc import Sequence
from ctypes import c_float
from itertools import compress
from typing import Any

from weft.dialects.activations import GATES
from weft.dialects.effects import ORDERS
from weft.dialects.element_types import INPUT_TYPES, PTX_SCALES
from weft.dialects.op import Op, Operand, as_float, build
from weft.dialects.operand_roles import (
    EPILOGUE,
    FACTORS,
    GIVEN,
    GROUPINGS,
    OUTPUT_TYPES,
    SCALE_OF_WORDS,
    SHORT_FORMS,
    TEAM,
    WORD,
    role_of,
    title,
)
from weft.dialects.product_types import HALF, Types
from weft.dialects.schedule import AnySchedule, schedule_of
from weft.dialects.schedule.coercion import as_schedule
from weft.dialects.tile_epilogue import EpilogueOp, Needs
from weft.dialects.tile_matmul_checks import (
    batch_complaint,
    dims,
    epilogue_complaint,
    is_f64,
    role_complaint,
    schedule_complaint,
    shape_complaint,
    short_form_complaint,
    team_complaint,
    type_complaint,
)
from weft.dialects.tile_types import Tile, matrix_complaint
from weft.mlir import ir


class MatmulOp(Op, dialect=Tile, name="matmul", traits=[ORDERS]):
    """`D = epilogue(A @ B)`: a whole product of matrices in global memory.

    A is M x K (K x M with `transpose_a`), B is K x N (N x K with `transpose_b`), D is M x N. If D is a
    batch of such matrices (rank 3), the others may be batches too; all products share a matrix of rank 2.

    The operand `epilogue` is a `tile.epilogue`, which computes the elements of D from the sums. The following
    operands and attributes are short forms of such an epilogue,
    `residual + activation(alpha * A @ B + beta * C + bias)`. The first pass that meets the product replaces
    them by a region.

    - `c`: M x N. If beta is not 0 and there is no C, D's old values are C.
    - `alpha` of f32: one element, `memref<1xf32>`, or one for each product of a batch (for each matrix of B
      if rows of A select one). The kernel multiplies it by the attribute `alpha`. Not with integers.
    - `bias`: N elements, added to every row.
    - `residual`: M x N.
    - `row_factors` (M) and `column_factors` (N) of f32: row i and column j of A @ B are multiplied by
      `row_factors[i]` and `column_factors[j]`, in addition to alpha. With one element, `memref<1xf32>`, they
      multiply all rows or columns. All products of a batch share them. Not with integers and f64.
    - `activation`: relu, gelu, gelu_tanh or silu; with f64 and integers only relu.

    With an `epilogue` there may be factors, alpha, beta and C: its sums are `alpha * A @ B + beta * C`.

    Scales, `scale_a` and `scale_b`:

    - f32, K/128 x M and N/128 x K/128: each sum of 128 products is multiplied by both. With `scale_columns`,
      `scale_b` is K/128 x N, with scales of each column of B.
    - f8E8M0FNU or f8E4M3FN: block scales, which tensor cores apply. 32 elements along K share a scale of
      f8E8M0FNU; 16 of f4E2M1FN share one of f8E4M3FN. Scales are in the 128x4 layout, M/128 x 512*K/128 for A
      and N/128 x 512*K/128 for B (512*K/64 if 16 elements share a scale).
    - i32, with `scale_block` 128 or 32: block scales of f8E8M0FNU, four in each word, the first in the lowest
      bits. `scale_block` elements along K share a scale. The words are K/512 x M for A and K/512 x N for B
      (K/128 with `scale_block` 32), as in DeepGEMM. Bytes after the last scale are ignored.

    Operands for products of different sizes:

    - `groups` with one A: row i is multiplied by matrix `groups[i]` of a batch of B. A negative number skips
      the row. In each block of 128 rows (0 to 127, 128 to 255, ...) all numbers must be equal.
    - `groups` with a batch of A: only the first `groups[i]` rows of matrix i are multiplied.
    - `row_ends` with one A: element i is the end of the rows of A for matrix i of B. They begin at the end of
      the previous ones (the first at 0); with block scales, at the next multiple of 128. Other rows of D are
      not written.
    - `k_ends`: product i of a batch D multiplies columns of A and rows of B up to `k_ends[i]`, beginning at
      the previous end; with `promote`, f32 scales and packed elements at the next multiple of 128, and
      elements of A and B in between must be 0. If product i has no columns, A @ B is 0.

    For products over several GPUs:

    - `team`: a `tile.team`, which describes what the GPUs exchange.

    Arithmetic:

    - Products are added in f32 (integers in i32, f64 in f64). f32 is rounded to tf32. The epilogue is
      computed in f32 (i32, f64) and rounded once, to the elements of D. With f64, D and all added operands
      are f64.
    - With the activation swiglu, D has half the columns of B. Of each 16 columns of B, the first 8 are gates:
      an element of D is silu of a gate, multiplied by the sum 8 columns further. It needs `wgmma`, and
      nothing is added.
    - With `accumulate = "f16"`, tensor cores add products of f16 and fp8 in f16. Only sums of K slices are
      added in f32.
    - Tensor cores add fp8 products with fewer bits than f32 has. With `promote`, they add at most 128 of
      them, and f32 arithmetic adds these sums.
    - Elements of 1, 4 and 6 bits are packed: rows begin at whole bytes, the first element in the lowest bits.
      With i1, `bit_op` counts bits that differ ("xor.popc"), or that are both 1 ("and.popc").
    """

    a: Operand
    b: Operand
    d: Operand
    c: Operand | None
    alpha: Operand | None
    scale_a: Operand | None
    scale_b: Operand | None
    groups: Operand | None
    row_ends: Operand | None
    k_ends: Operand | None
    bias: Operand | None
    residual: Operand | None
    row_factors: Operand | None
    column_factors: Operand | None
    team: Operand | None
    epilogue: Operand | None
    optional = {  # noqa: RUF012
        "transpose_a": False,
        "transpose_b": False,
        "alpha": 1.0,
        "beta": 0.0,
        "promote": False,
        "accumulate": None,
        "bit_op": None,
        "schedule": None,
        "activation": None,
        "scale_block": 0,
        "scale_columns": False,
    }

    @property
    def added(self) -> ir.Value | None:
        """The matrix that beta scales: C, or D without one; None where beta is 0."""
        if self.attribute("beta") == 0.0:
            return None
        return self.d if self.c is None else self.c

    @property
    def changes_sums(self) -> bool:
        """Whether an epilogue changes the sums before they are rounded (a gate doesn't count)."""
        activates = self.attribute("activation") is not None and self.gate is None
        read = any(name in self.given for name in (EPILOGUE, *SHORT_FORMS) if name != "c")
        return read or activates or self.added is not None or self.attribute("alpha") != 1.0

    @property
    def batch(self) -> ir.Value | None:
        """The operand with a matrix for each product: D, or B where rows of A select one; None for a single
        product.
        """
        several = self.b if self.selects_b else self.d
        return several if several.type.rank == 3 else None

    @property
    def grouping(self) -> str | None:
        """The role that makes products of different sizes; None if there is none."""
        return next((name for name in GROUPINGS if self.role(name) is not None), None)

    @property
    def selects_b(self) -> bool:
        """Whether rows of A select one of several B."""
        return self.grouping in ("groups", "row_ends") and self.d.type.rank == 2

    def is_single(self, role: str) -> bool:
        """Whether there is an operand with this role that is one factor for all elements of D."""
        value = self.role(role) if role in ("alpha", *FACTORS) else None
        return value is not None and list(value.type.shape) == [1]

    @property
    def roles(self) -> dict[str, ir.Value]:
        """The memrefs after D, and those of the team, by their roles."""
        given = self.given
        team = given.pop(TEAM, None)
        given.pop(EPILOGUE, None)
        return given if team is None else given | team.owner.opview.roles

    @property
    def given(self) -> dict[str, ir.Value]:
        """The operands after D that there are, by their names."""
        _, _, _, *counts = self.operation.attributes["operandSegmentSizes"]
        _, _, _, *values = self.operation.operands
        return dict(zip(compress(GIVEN, counts), values, strict=True))

    @property
    def likely_segments(self) -> list[int] | None:
        """The `operandSegmentSizes` by the attribute `roles`, which earlier versions had."""
        count = len(self.operation.operands) - 3
        names = ["c"][:count]
        if "roles" in self.attributes:
            names = [str(role).strip('"') for role in self.attributes["roles"]]
        if len(names) != count or names != [name for name in GIVEN if name in names]:
            return None
        return [1, 1, 1, *(int(name in names) for name in GIVEN)]

    @property
    def function(self) -> EpilogueOp | None:
        """The function of one element, if there is one."""
        return None if self.epilogue is None else self.epilogue.owner.opview

    @property
    def needs(self) -> Needs:
        """What the epilogue needs of a kernel."""
        return Needs() if self.function is None else self.function.needs

    @property
    def read(self) -> list[tuple[str, ir.Value, Sequence[str]]]:
        """The memrefs after D and those that the epilogue loads from or stores to, except for those that have
        one element for all: each with its name in messages, and the names of its last sizes in `extents`.
        """
        types, needs = self.types, self.needs
        named = [(role, v) for role, v in self.roles.items() if not self.is_single(role)]
        return [
            *(
                (
                    title(role),
                    v,
                    role_of(role, str(v.type.element_type), types.words, types.scale_columns).sizes,
                )
                for role, v in named
            ),
            *(("the source of tile.load_element", load.source, load.sizes) for load in needs.loads),
            *(("the destination of tile.store_element", s.destination, s.sizes) for s in needs.stores),
        ]

    def role(self, name: str) -> Any:
        """The operand with a role; None if there is none."""
        return self.roles.get(name)

    @property
    def schedule(self) -> AnySchedule | None:
        """The schedule; None if none has been selected."""
        schedule = self.attribute("schedule")
        return None if schedule is None else schedule_of(schedule)

    @property
    def types(self) -> Types:
        """The element types, and which inputs are MN-major."""
        a, b, d = (str(value.type.element_type) for value in (self.a, self.b, self.d))
        mn_major = bool(self.attribute("transpose_a")), not self.attribute("transpose_b")
        scales = (self.role("scale_a"), self.role("scale_b"))
        kinds = [str(value.type.element_type) for value in scales if value is not None]
        words = self.attribute("scale_block") if WORD in kinds else 0
        scale = next((kind for kind in kinds if kind in PTX_SCALES), "")
        scale = scale or (SCALE_OF_WORDS if WORD in kinds else "")
        scaled = bool(kinds) and not scale
        promoted = scaled or self.attribute("promote")
        grouping = self.grouping
        of_groups = grouping is not None, grouping == "k_ends"
        columns, half = bool(self.attribute("scale_columns")), self.attribute("accumulate") == HALF
        sums = promoted, scaled, of_groups[0], scale, words, of_groups[1], columns, half
        return Types(a, b, d, mn_major, *sums, self.attribute("bit_op") or "")

    @property
    def static_mnk(self) -> tuple[int | None, int | None, int | None]:
        """M, N and K; None for a size that no operand's type gives."""
        (m_a, k_a), (k_b, n_b) = self.sizes("a"), self.sizes("b")
        m_d, n_d = dims(self.d)
        return m_a or m_d, n_b or (n_d and n_d * self.columns_of_b), k_a or k_b

    def sizes(self, name: str) -> tuple[int | None, int | None]:
        """Rows and columns of A or B, transposed as the product reads them."""
        rows, columns = dims(getattr(self, name))
        return (columns, rows) if self.attribute(f"transpose_{name}") else (rows, columns)

    def check(self) -> str | None:
        named = [("A", self.a, INPUT_TYPES), ("B", self.b, INPUT_TYPES), ("D", self.d, OUTPUT_TYPES)]
        for name, value, elements in named:
            if wrong := matrix_complaint(name, value, elements, 2, 3):
                return wrong
        if wrong := role_complaint(self.given):
            return wrong
        for name, value in (("A", self.a), ("B", self.b)):
            if value == self.d:
                return f"expects {name} and D to be different matrices: D would overwrite what is read"
        if wrong := type_complaint(self) or short_form_complaint(self):
            return wrong
        wrong = batch_complaint(self) or team_complaint(self) or epilogue_complaint(self)
        return wrong or shape_complaint(self) or schedule_complaint(self)

    @property
    def gate(self) -> str | None:
        """The activation of a gate, which leaves half of the columns."""
        return GATES.get(self.attribute("activation") or "")

    @property
    def columns_of_b(self) -> int:
        """The columns of B for each one of D."""
        return 1 if self.gate is None else 2

    @property
    def is_sending(self) -> bool:
        """Whether the kernel sends this GPU's rows of A to the others."""
        return self.role("gathered") is not None and self.role("peers") is not None

    @property
    def is_scattered(self) -> bool:
        """Whether sums are added up over several GPUs, each of which gets its own rows."""
        return self.role("partials") is not None and self.a.type.rank == 3

    @property
    def is_all_reduced(self) -> bool:
        """Whether sums are added up over several GPUs, each of which gets all rows."""
        return self.role("partials") is not None and self.a.type.rank == 2


def _factor(value: Any, d: ir.Value) -> Any:
    """A number as an attribute: of f64 where D is, and f32 would round it."""
    number = as_float(value)
    if not isinstance(number, float) or not isinstance(d, ir.Value) or not is_f64(d):
        return number
    return number if c_float(number).value == number else ir.FloatAttr.get(ir.F64Type.get(), number)


def matmul(
    a: ir.Value,
    b: ir.Value,
    d: ir.Value,
    c: ir.Value | None = None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    alpha: float | ir.Value = 1.0,
    beta: float | None = None,
    bias: ir.Value | None = None,
    activation: str | None = None,
    residual: ir.Value | None = None,
    epilogue: ir.Value | None = None,
    promote: bool = False,
    accumulate: str | None = None,
    bit_op: str | None = None,
    scale_a: ir.Value | None = None,
    scale_b: ir.Value | None = None,
    groups: ir.Value | None = None,
    row_ends: ir.Value | None = None,
    k_ends: ir.Value | None = None,
    row_factors: ir.Value | None = None,
    column_factors: ir.Value | None = None,
    team: ir.Value | None = None,
    scale_block: int = 0,
    scale_columns: bool = False,
    schedule: AnySchedule | str | None = None,
) -> ir.OpView:
    """Builds `tile.matmul` (see `MatmulOp`). `schedule` may be text in the attribute's syntax. `alpha` may be
    a number or a memref, the operand of this name. `beta` is 1 by default where there is a C. `epilogue`
    and `team` are results of the functions of these names. Raises WeftError for operands that the op doesn't
    take.
    """
    factors, alpha = (alpha, 1.0) if isinstance(alpha, ir.Value) else (None, alpha)
    if beta is None:
        beta = 0.0 if c is None else 1.0
    chosen = as_schedule(schedule)
    added = bias, residual, row_factors, column_factors
    optional = c, factors, scale_a, scale_b, groups, row_ends, k_ends, *added, team, epilogue
    return build(
        MatmulOp,
        operands=[[a], [b], [d], *([] if each is None else [each] for each in optional)],
        attributes={
            "transpose_a": transpose_a,
            "transpose_b": transpose_b,
            "alpha": _factor(alpha, d),
            "beta": _factor(beta, d),
            "promote": promote,
            "accumulate": accumulate,
            "bit_op": bit_op,
            "schedule": chosen and chosen.attribute(),
            "activation": activation,
            "scale_block": scale_block,
            "scale_columns": scale_columns,
        },
    )
