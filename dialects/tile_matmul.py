"""`tile.matmul`: a whole product of matrices in global memory, which passes turn into a kernel."""

from collections.abc import Sequence
from ctypes import c_float
from math import isfinite
from typing import Any

from weft.dialects.op import Op, as_float, build
from weft.dialects.operand_roles import (
    FACTORS,
    GATES,
    GROUPINGS,
    OUTPUT_TYPES,
    SCALE_OF_WORDS,
    WORD,
    role_complaint,
    role_names,
)
from weft.dialects.schedule import (
    AnySchedule,
    Types,
    schedule_of,
)
from weft.dialects.schedule.coercion import as_schedule
from weft.dialects.schedule.product_types import HALF
from weft.dialects.tile_matmul_checks import (
    batch_complaint,
    dims,
    gathered_complaint,
    is_f64,
    schedule_complaint,
    shape_complaint,
    type_complaint,
)
from weft.dialects.tile_operands import of_one_type, unwrapped
from weft.dialects.tile_types import (
    INPUT_TYPES,
    PTX_SCALES,
    Tile,
    matrix_complaint,
)
from weft.mlir import ext, ir


class MatmulOp(Op, dialect=Tile, name="matmul"):
    """`D = residual + activation(alpha * A @ B + beta * C + bias)`: a whole product of matrices in global
    memory.

    A is M x K (K x M with `transpose_a`), B is K x N (N x K with `transpose_b`), D is M x N. If D is a
    batch of such matrices (rank 3), the others may be batches too; all products share a matrix of rank 2.

    `roles` lists the role of each operand after D:

    - "c": M x N. A single operand without `roles` is C. If beta is not 0 and there is no C, D's old values
      are C.
    - "bias": N, added to every row.
    - "residual": M x N.
    - "scale_a" and "scale_b" of f32 (K/128 x M, and N/128 x K/128): scale each sum of 128 products.
      With `scale_columns`, "scale_b" is K/128 x N, with scales of each column of B.
    - "scale_a" and "scale_b" of f8E8M0FNU or f8E4M3FN: block scales, which the tensor cores apply. In each
      row of A and column of B, 32 elements along K share a scale of f8E8M0FNU; 16 of f4E2M1FN share one of
      f8E4M3FN. Scales are in the 128x4 layout, M/128 x 512*K/128 for A and N/128 x 512*K/128 for B
      (512*K/64 where 16 elements share a scale).
    - "scale_a" and "scale_b" of i32, with `scale_block` 128 or 32: block scales of f8E8M0FNU, four in each
      word, the first in the lowest bits. So many elements along K share a scale. The words are K/512 x M for
      A and K/512 x N for B (K/128 with `scale_block` 32), as DeepGEMM has them; bytes after the last scale
      are ignored.
    - "groups": products of different sizes. With one A, row i is multiplied by matrix `groups[i]` of a batch
      of B; a negative number skips the row. Within each block of 128 rows (0 to 127, 128 to 255, ...) all
      numbers must be equal. With a batch of A, only the first `groups[i]` rows of matrix i are multiplied.
    - "row_ends": as "groups" with one A, but with an element for each matrix of B, the end of its rows of A.
      They begin at the end of those before, rounded up to a multiple of 128 (the first at 0). Rows of D up to
      that multiple are unspecified; rows after the last one's are not written.
    - "k_ends": product i of a batch D is that of the columns of A and rows of B up to `k_ends[i]`, from the
      end of those before on, rounded up to a multiple of 128. Elements of A and B between an end and this
      multiple must be 0. Where product i has no columns, A @ B is 0.
    - "alpha" of f32: one element, `memref<1xf32>`, or one for each product of a batch (for each matrix of B
      where rows of A select one). The kernel reads it, and multiplies it by the attribute `alpha`. Products
      of integers have none.
    - "row_factors" (M) and "column_factors" (N) of f32: row i and column j of A @ B are multiplied by
      `row_factors[i]` and `column_factors[j]`, as by alpha. With one element, `memref<1xf32>`, they multiply
      all rows or columns. All products of a batch share them. Sums of integers and of f64 have none.
    - "gathered", "arrivals" and "team", together: A and D are those of a team of GPUs. Product i of the batch
      D is that of A of GPU i: A itself for this GPU's own number, otherwise matrix i of "gathered", to which
      GPU i copies it while the kernel runs. Rows come in `chunks` of equal size (the last may be smaller);
      chunk j of matrix i has come once `arrivals[i, j]` (i32, batch x chunks) is at least the number of the
      call. "gathered" may have twice as many matrices: calls use its halves in turn. With scales of f32,
      "gathered_scales" has those of the matrices of "gathered", and "scale_a" those of A. "team" (4 of i32)
      has this GPU's number, the number of the call, and how many milliseconds a wait for a flag may take
      before it ends the kernel with an error. Own rows are multiplied first, then those of the GPUs that
      follow, and then from GPU 0 on.
      With "peers", too, the kernel sends A to matrix i of "gathered" on all other GPUs, where i is this GPU's
      number: in `chunks` slices of K, of equal numbers of K blocks (the last may have fewer), whose flags it
      raises. The addresses of "gathered" and "arrivals" of GPU j are `peers[j, 0]` and `peers[j, 1]`. "team"
      then has 4 + `chunks` numbers, zeros after the first three: the kernel counts the calls there. The
      number of its own call is one more than what it finds.
    - "partials", "signals", "peers" and "team", together: each GPU of a team has A of all rows, a batch with
      a matrix for the rows of each GPU, but only a part of K. D has this GPU's rows of the sum of all
      products. Sums of other rows are rounded to the type of "partials", and stored to that memory of the GPU
      that has these rows, whose address is `peers[i, 0]`. Then a flag at `peers[i, 1]` is set to the number
      of the call. Both have a slot for each GPU, tile and warpgroup. The kernel adds what it finds in
      "partials", for which "signals" are set, to its own sums.
      With "bands" (GPUs x bands), too, others copy sums: the kernel stores those for other GPUs in this GPU's
      own memory. Each GPU's tiles are divided into bands of equal size (the last may be smaller). "partials"
      is followed by that memory, and each half of both has a part for each other GPU, in the order of GPUs.
      "signals" has a flag for each of those and each band: first of sums that come, then of those that the
      kernel has stored. The second are what the kernel sets. "bands" counts what is done, and is 0 before and
      after. The kernel uses the number of the call in "team", and doesn't count it.
      If A isn't a batch, D has all rows of the sum of all products: each GPU sends its sums of every tile to
      all GPUs, also to itself, and then adds those in "partials", all rounded alike, in the order of GPUs.
      Slots are in two halves of the memory, which calls use in turn. "team" has a fourth number, 0: the
      kernel counts the calls there, so that a graph of launches can be repeated.

    If the operands have different types, `tile.operand` makes their types equal. The activation is relu,
    gelu, gelu_tanh or silu. With swiglu, D has half the columns of B: of 16 columns of B, each of D's 8 is
    silu of one of the first 8, multiplied by the one 8 columns further. Kernels of `wgmma` compute it, and
    nothing is added to it. Products accumulate in f32 (integers: in i32, f64: in f64), and f32 is multiplied
    as tf32. With `accumulate = "f16"`, tensor cores add up products of f16 and fp8 in f16, and only sums of K
    slices are added in f32. The epilogue is computed in f32 (i32, f64) and rounded once, to D's elements.
    With f64, D and what is added are f64, too, and the activation is relu. Tensor cores add up products of
    fp8 with fewer bits than f32 has: with `promote` they add up at most 128 of them, and these sums are added
    up in f32. Elements of 4 and 6 bits are packed: rows begin at whole bytes, the first element in the lowest
    bits. Rows of i4, ui4 and i1 are packed, too. Of i1, `bit_op` ("xor.popc" or
    "and.popc") multiplies: the bits that differ, or that are both 1, are counted.
    """

    a: ext.Operand[Any]
    b: ext.Operand[Any]
    d: ext.Operand[Any]
    inputs: Sequence[ext.Operand[Any]]
    optional = {  # noqa: RUF012
        "transpose_a": False,
        "transpose_b": False,
        "alpha": 1.0,
        "beta": 0.0,
        "promote": False,
        "accumulate": None,
        "bit_op": None,
        "schedule": None,
        "roles": None,
        "activation": None,
        "scale_block": 0,
        "scale_columns": False,
    }

    @property
    def c(self) -> Any | None:
        """The matrix that beta scales: C, or D without one; None where beta is 0."""
        if self.attribute("beta") == 0.0:
            return None
        c = self.role("c")
        return self.d if c is None else c

    @property
    def batch(self) -> Any | None:
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

    @property
    def factors(self) -> Any | None:
        """The operand alpha with one element for each product; None if all share one, or there is none."""
        return None if self.is_single("alpha") else self.role("alpha")

    @property
    def factor_vectors(self) -> dict[str, Any]:
        """The operands with a factor for each row or column, by their roles."""
        return {name: v for name, v in self.roles.items() if name in FACTORS and not self.is_single(name)}

    def is_single(self, role: str) -> bool:
        """Whether there is an operand with this role that is one factor for all elements of D."""
        value = self.role(role) if role in ("alpha", *FACTORS) else None
        return value is not None and list(value.type.shape) == [1]

    @property
    def extra(self) -> list[Any]:
        """The memrefs after D."""
        return [unwrapped(value) for value in self.inputs]

    @property
    def roles(self) -> dict[str, Any]:
        """The memrefs after D by their roles."""
        return dict(zip(role_names(self.attribute("roles"), len(self.inputs)), self.extra, strict=True))

    def role(self, name: str) -> Any | None:
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
        if wrong := role_complaint(self.attribute("roles"), self.extra):
            return wrong
        if len(kinds := list(dict.fromkeys(str(value.type) for value in self.inputs))) > 1:
            return f"expects operands after D of one type, got {', '.join(kinds)}: use tile.operand"
        doubles = is_f64(self.d)
        for name in ("alpha", "beta"):
            value = self.attribute(name)
            if not isfinite(value if doubles else c_float(value).value):
                return f"{name} must be finite in {'f64' if doubles else 'f32'}, got {value}"
        for name, value in (("A", self.a), ("B", self.b)):
            if value == self.d:
                return f"expects {name} and D to be different matrices: D would overwrite what is read"
        if wrong := type_complaint(self):
            return wrong
        wrong = batch_complaint(self) or gathered_complaint(self)
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


def _factor(value: Any, d: Any) -> Any:
    """A number as an attribute: of f64 where D is, and f32 would round it."""
    number = as_float(value)
    if not isinstance(number, float) or not isinstance(d, ir.Value) or not is_f64(d):
        return number
    return number if c_float(number).value == number else ir.FloatAttr.get(ir.F64Type.get(), number)


def matmul(
    a: Any,
    b: Any,
    d: Any,
    c: Any | None = None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    alpha: float | Any = 1.0,
    beta: float | None = None,
    bias: Any | None = None,
    activation: str | None = None,
    residual: Any | None = None,
    promote: bool = False,
    accumulate: str | None = None,
    bit_op: str | None = None,
    scale_a: Any | None = None,
    scale_b: Any | None = None,
    groups: Any | None = None,
    row_ends: Any | None = None,
    k_ends: Any | None = None,
    row_factors: Any | None = None,
    column_factors: Any | None = None,
    gathered: Any | None = None,
    gathered_scales: Any | None = None,
    arrivals: Any | None = None,
    partials: Any | None = None,
    signals: Any | None = None,
    peers: Any | None = None,
    bands: Any | None = None,
    team: Any | None = None,
    scale_block: int = 0,
    scale_columns: bool = False,
    schedule: AnySchedule | str | None = None,
) -> Any:
    """Builds `tile.matmul` (see `MatmulOp`). `schedule` may be text in the attribute's syntax. `alpha` may be
    a number or a memref, the operand with this role. `beta` is 1 by default where there is a C. Raises
    WeftError for operands that the op doesn't take.
    """
    factors, alpha = (alpha, 1.0) if isinstance(alpha, ir.Value) else (None, alpha)
    if beta is None:
        beta = 0.0 if c is None else 1.0
    chosen = as_schedule(schedule)
    operands = {"c": c, "bias": bias, "residual": residual}
    operands |= {"scale_a": scale_a, "scale_b": scale_b, "groups": groups, "row_ends": row_ends}
    operands |= {"k_ends": k_ends, "alpha": factors}
    operands |= {"row_factors": row_factors, "column_factors": column_factors}
    operands |= {"gathered": gathered, "gathered_scales": gathered_scales, "arrivals": arrivals}
    operands |= {"partials": partials, "signals": signals, "peers": peers, "team": team}
    operands |= {"bands": bands}
    extra = {role: value for role, value in operands.items() if value is not None}
    values = list(extra.values())
    values = of_one_type(values)
    roles = None if list(extra) in ([], ["c"]) else ir.ArrayAttr.get([ir.StringAttr.get(r) for r in extra])
    return build(
        MatmulOp,
        operands=[a, b, d, *values],
        attributes={
            "transpose_a": transpose_a,
            "transpose_b": transpose_b,
            "alpha": _factor(alpha, d),
            "beta": _factor(beta, d),
            "promote": promote,
            "accumulate": accumulate,
            "bit_op": bit_op,
            "schedule": chosen and chosen.attribute(),
            "roles": roles,
            "activation": activation,
            "scale_block": scale_block,
            "scale_columns": scale_columns,
        },
    )
