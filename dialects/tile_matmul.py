"""`tile.matmul`: a whole product of matrices in global memory, which passes turn into a kernel."""

from collections.abc import Sequence
from ctypes import c_float
from dataclasses import replace
from math import isfinite
from typing import Any

from weft.dialects.op import Op, as_float, build
from weft.dialects.operand_roles import (
    FACTORS,
    GATHERED,
    GROUPINGS,
    OUTPUT_TYPES,
    ROLES,
    SCALE_OF_WORDS,
    SCATTERED,
    WORD,
    activation_complaint,
    extents,
    role_complaint,
    role_names,
    role_of,
    title,
)
from weft.dialects.schedule import (
    AnySchedule,
    TensorMemorySchedule,
    TmaMmaSchedule,
    Types,
    WarpgroupSchedule,
    ceil_div,
    schedule_of,
)
from weft.dialects.schedule.coercion import as_schedule
from weft.dialects.schedule.product_types import HALF, accumulate_complaint, bit_op_complaint
from weft.dialects.tile_operands import of_one_type, unwrapped
from weft.dialects.tile_types import (
    FP8_TYPES,
    INPUT_TYPES,
    PTX_INPUTS,
    PTX_SCALES,
    Tile,
    matrix_complaint,
    may_be_mixed,
)
from weft.errors import WeftError
from weft.isa.block_scales import WORD_BLOCKS, elements_with
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
    - "partials", "signals", "peers" and "team", together: each GPU of a team has A of all rows, a batch with
      a matrix for the rows of each GPU, but only a part of K. D has this GPU's rows of the sum of all
      products. Sums of other rows are rounded to the type of "partials", and stored to that memory of the GPU
      that has these rows, whose address is `peers[i, 0]`. Then a flag at `peers[i, 1]` is set to the number
      of the call. Both have a slot for each GPU, tile and warpgroup. The kernel adds what it finds in
      "partials", for which "signals" are set, to its own sums.
      If A isn't a batch, D has all rows of the sum of all products: each GPU sends its sums of every tile to
      all GPUs, also to itself, and then adds those in "partials", all rounded alike, in the order of GPUs.
      Slots are in two halves of the memory, which calls use in turn. "team" has a fourth number, 0: the
      kernel counts the calls there, so that a graph of launches can be repeated.

    If the operands have different types, `tile.operand` makes their types equal. The activation is relu,
    gelu, gelu_tanh or silu. Products accumulate in f32 (integers: in i32, f64: in f64), and f32 is multiplied
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
        several = self.b if self._selects_b else self.d
        return several if several.type.rank == 3 else None

    @property
    def grouping(self) -> str | None:
        """The role that makes products of different sizes; None if there is none."""
        return next((name for name in GROUPINGS if self.role(name) is not None), None)

    @property
    def _selects_b(self) -> bool:
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
        (m_a, k_a), (k_b, n_b) = self._sizes("a"), self._sizes("b")
        m_d, n_d = _dims(self.d)
        return m_a or m_d, n_b or n_d, k_a or k_b

    def _sizes(self, name: str) -> tuple[int | None, int | None]:
        """Rows and columns of A or B, transposed as the product reads them."""
        rows, columns = _dims(getattr(self, name))
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
        doubles = _is_f64(self.d)
        for name in ("alpha", "beta"):
            value = self.attribute(name)
            if not isfinite(value if doubles else c_float(value).value):
                return f"{name} must be finite in {'f64' if doubles else 'f32'}, got {value}"
        for name, value in (("A", self.a), ("B", self.b)):
            if value == self.d:
                return f"expects {name} and D to be different matrices: D would overwrite what is read"
        if wrong := self._type_complaint():
            return wrong
        wrong = self._batch_complaint() or self._gathered_complaint()
        return wrong or self._shape_complaint() or self._schedule_complaint()

    def _type_complaint(self) -> str | None:
        types = self.types
        if not may_be_mixed(types.a, types.b):
            return f"expects A and B of one element type, got {self.a.type} and {self.b.type}"
        rest = [self.d, *(value for role, value in self.roles.items() if ROLES[role].is_added)]
        if wrong := self._scale_complaint(types):
            return wrong
        integers = isinstance(self.a.type.element_type, ir.IntegerType)
        for only, inputs in (("i32", "integers"), ("f64", "f64")):
            if len({types.sums == only, *(str(value.type.element_type) == only for value in rest)}) > 1:
                got = f"{self.a.type}, {' and '.join(str(value.type) for value in rest)}"
                which = f"{only} if and only if A and B are {inputs}"
                return f"expects D and what is added to it to be {which}, got {got}"
        if types.sums != "f32" and self.role("alpha") is not None:
            what = "1 where A and B are integers" if integers else "a number where A and B are f64"
            return f"expects alpha {what}, got an operand 'alpha' and A of {self.a.type}"
        if types.sums != "f32" and (given := [name for name in FACTORS if self.role(name) is not None]):
            return f"expects no {given[0]} where sums are {types.sums}, got A of {self.a.type}"
        if self.grouping and (given := [name for name in FACTORS if self.role(name) is not None]):
            return f"expects no {given[0]} with {self.grouping}: use alpha, with a factor for each product"
        if integers and (self.attribute("alpha") != 1.0 or self.attribute("beta") not in (0.0, 1.0)):
            factors = f"{self.attribute('alpha')} and {self.attribute('beta')}"
            return f"expects alpha 1 and beta 0 or 1 where A and B are integers, got {factors}"
        return activation_complaint(self.attribute("activation"), types.sums)

    def _scale_complaint(self, types: Types) -> str | None:
        """Why there are no products with these scales, or with promoted sums."""
        scale_a, scale_b = self.role("scale_a"), self.role("scale_b")
        if wrong := accumulate_complaint(self.attribute("accumulate"), types):
            return wrong
        if wrong := bit_op_complaint(self.attribute("bit_op"), types):
            return wrong
        if types.promoted and not {types.a, types.b} <= set(FP8_TYPES):
            what = "there are scales of f32" if types.scaled else "promote is true"
            got = self.a.type if types.a not in FP8_TYPES else self.b.type
            return f"expects A and B of fp8 where {what}, got {got}"
        if (scale_a is None) != (scale_b is None):
            only = "scale_b" if scale_a is None else "scale_a"
            return f"expects scale_a and scale_b together, got only {only}"
        if wrong := self._block_complaint(types):
            return wrong
        if types.scale_columns and not types.scaled:
            got = "none" if scale_b is None else str(scale_b.type)
            return f"scale_columns must be false unless scales are of f32, got scale_b of {got}"
        if not types.scale:
            return None
        elements = [str(value.type.element_type) for value in (scale_a, scale_b) if value is not None]
        if elements[0] != elements[1]:
            return f"expects scale_a and scale_b of one element type, got {' and '.join(elements)}"
        if types.promoted:
            return "promote must be false with block scales, whose products are added in f32"
        if types.block_scaling is None:
            of_type = elements_with(PTX_SCALES[types.scale])
            legal = " or ".join(name for name, ptx in PTX_INPUTS.items() if ptx in of_type)
            others = (s for s in PTX_SCALES if replace(types, scale=s).block_scaling is not None)
            near = "".join(f": these have scales of {scale}" for scale in others)
            return (
                f"expects A and B of {legal} with scales of {types.scale}, got {types.a} and {types.b}{near}"
            )
        return None

    def _block_complaint(self, types: Types) -> str | None:
        """Why so many elements can't share a scale."""
        block, kinds = (
            self.attribute("scale_block"),
            [
                str(value.type.element_type)
                for value in (self.role("scale_a"), self.role("scale_b"))
                if value is not None
            ],
        )
        if WORD not in kinds:
            got = f"{kinds[0]}" if kinds else "none"
            return (
                f"scale_block must be 0 unless scales are of i32, got {block} with {got}" if block else None
            )
        if block not in WORD_BLOCKS:
            return f"scale_block must be {' or '.join(map(str, WORD_BLOCKS))} with scales of i32, got {block}"
        scaling = types.block_scaling
        if scaling is not None and scaling.packed and block > scaling.group:
            got = f"{types.a} and {types.b}"
            return f"scale_block must be {scaling.group} for A and B of {got}, got {block}"
        return None

    def _batch_complaint(self) -> str | None:
        batches = [(name, v) for name, v in self._named if v.type.rank == 3]
        if wrong := self._grouped_complaint([name for name, _ in batches]):
            return wrong
        if not batches or self._selects_b:
            return None
        if self.d.type.rank != 3 and not self.is_scattered:
            return f"expects D of rank 3, because {batches[0][0]} is a batch, got {self.d.type}"
        known = {
            name: v.type.shape[0]
            for name, v in batches
            if not v.type.is_dynamic_dim(0) and "gathered" not in name  # these may have two halves
        }
        if len(set(known.values())) > 1:
            sizes = " and ".join(f"{count} in {name}" for name, count in known.items())
            return f"expects batches of one size, got {sizes}"
        return None

    def _gathered_complaint(self) -> str | None:
        """What is wrong with matrices of A of other GPUs."""
        given = [name for name in (*SCATTERED, *GATHERED[:-1]) if self.role(name) is not None]
        if not given:
            return None if self.role("gathered_scales") is None else "expects gathered with gathered_scales"
        wanted = GATHERED if self.role("partials") is None else SCATTERED
        if (self.role("gathered_scales") is not None) != (wanted is GATHERED and self.types.scaled):
            return "expects gathered_scales if and only if there are gathered and scales of f32"
        if sorted(given) != sorted(wanted):
            return f"expects {', '.join(wanted)} together, got only {' and '.join(given)}"
        if (gathered := self.role("gathered")) is None:
            return self._scattered_complaint()
        if (str(gathered.type.element_type), gathered.type.rank) != (str(self.a.type.element_type), 3):
            return f"expects gathered to be a batch of matrices like A, of {self.a.type}, got {gathered.type}"
        if (self.a.type.rank, self.d.type.rank) != (2, 3):
            return f"expects A of rank 2 and D of rank 3 with gathered, got {self.a.type} and {self.d.type}"
        if self.attribute("transpose_a"):
            return "transpose_a must be false with gathered, got true"
        if self.grouping is not None:
            return f"expects no {self.grouping} with gathered"
        return None

    @property
    def is_scattered(self) -> bool:
        """Whether sums are added up over several GPUs, each of which gets its own rows."""
        return self.role("partials") is not None and self.a.type.rank == 3

    @property
    def is_all_reduced(self) -> bool:
        """Whether sums are added up over several GPUs, each of which gets all rows."""
        return self.role("partials") is not None and self.a.type.rank == 2

    def _scattered_complaint(self) -> str | None:
        """What is wrong where sums are added up over several GPUs."""
        if self.a.type.rank not in (2, 3) or (self.b.type.rank, self.d.type.rank) != (2, 2):
            kinds = f"{self.a.type}, {self.b.type} and {self.d.type}"
            return f"expects A of rank 2 or 3, and B and D of rank 2, with partials, got {kinds}"
        if self.types.sums != "f32":
            return f"expects sums of f32 with partials, got A of {self.a.type}"
        return None if self.grouping is None else f"expects no {self.grouping} with partials"

    def _grouped_complaint(self, batches: list[str]) -> str | None:
        """What is wrong with the ranks, where products have different sizes."""
        grouping, rank_3 = self.grouping, " and ".join(batches) or "none"
        if len(given := [name for name in GROUPINGS if self.role(name) is not None]) > 1:
            return f"expects at most one of {', '.join(GROUPINGS)}, got {' and '.join(given)}"
        if grouping == "k_ends":
            if "D" not in batches or {"A", "B", "scale_a", "scale_b"} & set(batches):
                legal = "D of rank 3, but A, B and their scales of rank 2, where k_ends divide K"
                return f"expects {legal}, got {rank_3} of rank 3"
            return "k_ends must not come with block scales of groups along K" if self.types.scale else None
        if grouping != "row_ends" and not self._selects_b:
            return None
        wanted = ["B", *(["scale_b"] if self.role("scale_b") is not None else [])]
        if batches != wanted:
            return (
                f"expects exactly {' and '.join(wanted)} of rank 3 where {grouping} select a B, got {rank_3}"
            )
        return None

    @property
    def _named(self) -> list[tuple[str, Any]]:
        """The operands by their names in messages."""
        roles = ((title(role), value) for role, value in self.roles.items())
        return [("A", self.a), ("B", self.b), ("D", self.d), *roles]

    def _shape_complaint(self) -> str | None:
        (m, k), (k_b, n), (m_d, n_d) = self._sizes("a"), self._sizes("b"), _dims(self.d)
        pairs = [("M", "A", m, "D", m_d), ("N", "B", n, "D", n_d), ("K", "A", k, "B", k_b)]
        for dim, x, x_size, y, y_size in pairs:
            if x_size and y_size and x_size != y_size:
                sizes = f"{dim} is {x_size} in {x} and {y_size} in {y}"
                return f"expects A ({self._written_a}), B ({self._written_b}) and D (M x N) to agree: {sizes}"
        if (k or k_b) and (depth := k or k_b or 0) % (unit := self.types.multiple_of_k):
            kinds = f"{self.types.a} and {self.types.b}"
            return f"K must be a multiple of {unit} for A and B of {kinds}, got {depth}"
        for name, size, unit in zip("MN", (m or m_d, n or n_d), self.types.multiples_of_mn, strict=True):
            if size and size % unit:
                what = f"{name} must be a multiple of {unit} for an MN-major operand of {self.types.a}"
                return f"{what}, which is packed along {name}, got {size}"
        return self._role_shape_complaint(m_d, n_d, k or k_b)

    def _role_shape_complaint(self, m: int | None, n: int | None, k: int | None) -> str | None:
        """Why a size of an operand after D isn't that of D, or that of A for sizes that follow from K."""
        batched = self.d.type.rank == 3
        of_groups = "batch" if batched else "M"  # groups are of rows of D, or of a batch's products
        products = 1 if self.batch is None else _sizes_of(self.batch)[0]
        wanted = extents(m, n, k, _sizes_of(self.d)[0], _blocks, products)
        shapes = {
            "A": self._written_a,
            "B": f"batch x {self._written_b}",
            "D": "batch x M x N" if batched else "M x N",
        }
        for role, value in self.roles.items():
            types = self.types
            sizes = role_of(role, str(value.type.element_type), types.words, types.scale_columns).sizes
            named = {"groups": of_groups, "products": "batch"}
            names = [named.get(size, size) for size in sizes]
            if role == "alpha":
                if wrong := _alpha_complaint(value, products):
                    return wrong
                continue
            if role in FACTORS and self.is_single(role):
                continue
            for size, name, actual in zip(sizes, names, _dims(value), strict=True):
                if wanted[size] and actual and wanted[size] != actual:
                    of_b = size == "products" and self._selects_b
                    other, this = "A" if "K" in size else "B" if of_b else "D", title(role)
                    return (
                        f"expects {other} ({shapes[other]}) and {this} ({' x '.join(names)}) to agree: "
                        f"{name} is {wanted[size]} in {other} and {actual} in {this}"
                    )
        return None

    @property
    def _written_a(self) -> str:
        """The sizes of A in messages."""
        return "K x M" if self.attribute("transpose_a") else "M x K"

    @property
    def _written_b(self) -> str:
        """The sizes of one B in messages."""
        return "N x K" if self.attribute("transpose_b") else "K x N"

    def _schedule_complaint(self) -> str | None:
        attribute = self.attribute("schedule")
        if attribute is None:
            return None
        try:
            schedule = schedule_of(attribute)
        except WeftError as error:
            return error.diagnostics[0].message
        return schedule.complaint(self.types, self.target) or self._team_complaint(schedule)

    def _team_complaint(self, schedule: AnySchedule) -> str | None:
        """Why kernels of this schedule can't work with those of other GPUs."""
        if self.role("team") is None:
            return None
        if self.is_scattered or self.is_all_reduced:
            one = getattr(schedule, "global_splits", 0) == 1 and schedule.splits == 1
            if isinstance(schedule, WarpgroupSchedule) and one and not schedule.stream_k:
                return None
            return f"schedule must be one of wgmma without splits with partials, got {schedule}"
        copies = isinstance(schedule, WarpgroupSchedule | TensorMemorySchedule | TmaMmaSchedule)
        if copies and not getattr(schedule, "loaders", 0):
            return None
        return f"schedule must copy A by TMA (wgmma, tcgen05) with a team, got {schedule}"


def _alpha_complaint(alpha: Any, products: int | None) -> str | None:
    """Why an operand doesn't have an element for each product, or one for all."""
    (size,) = _sizes_of(alpha)
    if size in (None, 1) or products in (None, size):
        return None
    legal = "1 element" if products == 1 else f"1 element or {products}, one for each product"
    return f"expects alpha of {legal}, got {alpha.type}"


def _is_f64(matrix: Any) -> bool:
    """Whether a value is a memref of f64."""
    return isinstance(matrix.type, ir.MemRefType) and isinstance(matrix.type.element_type, ir.F64Type)


def _factor(value: Any, d: Any) -> Any:
    """A number as an attribute: of f64 where D is, and f32 would round it."""
    number = as_float(value)
    if not isinstance(number, float) or not isinstance(d, ir.Value) or not _is_f64(d):
        return number
    return number if c_float(number).value == number else ir.FloatAttr.get(ir.F64Type.get(), number)


def _blocks(size: int | None, block: int) -> int | None:
    return size and ceil_div(size, block)


def _sizes_of(value: Any) -> tuple[int | None, ...]:
    kind = value.type
    return tuple(None if kind.is_dynamic_dim(i) else kind.shape[i] for i in range(kind.rank))


def _dims(value: Any) -> tuple[int | None, ...]:
    return _sizes_of(value)[-2:]


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
