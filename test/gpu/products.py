"""A product of any kind that `tile.matmul` has: its kernel, its operands in poisoned memory, and what must
come of them by float64 NumPy and the bounds of `weft.reference`.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from adversaries import REGIMES, Kinds, added, filled, finfo, is_integer, scales

import weft
from weft import reference
from weft.dialects import tile
from weft.dialects.schedule import GROUP_ROWS, PROMOTED, AnySchedule, Types
from weft.launch import runtime
from weft.launch.arrays import ArrayView, numpy_dtype
from weft.tools.values import integer_limits

CHIP = "sm_90a"
_FRONT = 256  # bytes before an operand, poisoned as those behind it
_ROWS_BEHIND = 8
_ALIGNED = 16  # bytes to which TMA wants rows aligned
_POISON = {True: 0x7F, False: 0xFF}  # of integers, and of floats, where it makes NaN
GROUPED = {"rows": "groups", "masked": "groups", "row ends": "row_ends", "k ends": "k_ends"}
"""Kinds of products of different sizes, and the role of the operand that makes them."""
# Roles whose matrices are as large as D, and those that may come in batches with a batch of D.
_LIKE_D = ("c", "residual")


class Placed:
    """An array in poisoned memory: its rows lie apart, with rows behind the last and room before the first.

    `rows` is "aligned" (to what TMA takes, with room between them), "dense" (none between them), or "shifted"
    (dense, from an element behind an aligned address on).
    """

    def __init__(self, values: Any, rows: str = "aligned") -> None:
        size, shape = values.dtype.itemsize, values.shape
        pitch = shape[-1]
        if rows == "aligned":
            pitch = (-(-pitch * size // _ALIGNED) + 1) * _ALIGNED // size
        height = shape[-2] if len(shape) > 1 else 1
        apart = {1: (1,), 2: (pitch, 1), 3: ((height + 1) * pitch, pitch, 1)}[len(shape)]
        self.shape, self.strides, self.dtype = shape, apart, values.dtype
        self.start = _FRONT + (size if rows == "shifted" else 0)
        behind = (shape[0] * apart[0] + max(_ROWS_BEHIND, min(height, GROUP_ROWS)) * pitch) * size
        integers = integer_limits(values.dtype) is not None
        self.memory = np.full(self.start + behind, _POISON[integers], np.uint8)
        self.values[...] = values
        self.before = self.memory.copy()

    def _within(self, memory: Any) -> Any:
        strides = [stride * self.dtype.itemsize for stride in self.strides]
        return np.ndarray(self.shape, self.dtype, memory.data, self.start, strides)

    @property
    def values(self) -> Any:
        """The array itself, where it lies."""
        return self._within(self.memory)

    def view(self, held: runtime.DeviceArray) -> ArrayView:
        """It in a copy of the memory on a GPU."""
        name = weft.launch.arrays.mlir_type(self.dtype)
        address = held.address + self.start
        return ArrayView(address, self.shape, self.strides, name, "cuda", 0, False, held)

    def same(self) -> Any:
        """For each element, whether it has the bits that it had at first."""
        now, then = (np.ascontiguousarray(self._within(m)) for m in (self.memory, self.before))
        parts = (*self.shape, self.dtype.itemsize)
        return (now.view(np.uint8).reshape(parts) == then.view(np.uint8).reshape(parts)).all(axis=-1)

    def touched_around(self) -> int:
        """How many bytes outside of the array aren't what they were."""
        then = self.before.copy()
        self._within(then)[...] = self.values
        return int((then != self.memory).sum())


@dataclass(frozen=True)
class Case:
    """What one launch of a product's kernel multiplies: M, N and K, and how A and B are filled."""

    shape: tuple[int, int, int]
    regime: str

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.shape))} {self.regime}"


@dataclass(frozen=True)
class Wanted:
    """What D must hold: `values` up to `bound`, or with `exact` rounded and nothing else, where `written`;
    what it held before where `alone`.
    """

    values: Any
    bound: Any
    written: Any
    alone: Any
    exact: bool


@dataclass(frozen=True)
class Product:
    """A kernel by what it multiplies and how: element types of A, B and D, transposes of A and of B, what is
    added (roles and types), and `rows` as `Placed` has them, or "dense d" where only those of D are dense.

    `many` is "" (one product), "batch", "one a" or "one b" (a batch that shares a matrix), "rows" (each 128
    rows of A have one of several B), "masked" (a batch of different numbers of rows), "row ends" or "k ends"
    (groups of rows, or of parts of K, by their ends). `factors` is "one" where the kernel reads alpha, or
    "each" where it reads one for each product of `many`. `scale` is the type of block scales, and `words` how
    many elements share one where they come as words.
    """

    a: str
    b: str
    d: str
    schedule: AnySchedule | None = None
    transposed: tuple[bool, bool] = (False, True)
    alpha: float = 1.0
    beta: float = 0.0
    added: tuple[tuple[str, str], ...] = ()
    activation: str | None = None
    promote: bool = False
    scaled: bool = False
    accumulate: str | None = None
    bit_op: str | None = None
    many: str = ""
    members: int = 3
    rows: str = "aligned"
    factors: str = ""
    scale: str = ""
    words: int = 0

    def __str__(self) -> str:
        what = [f"{self.a} {self.b} {self.d} {''.join('NT'[each] for each in self.transposed)}"]
        what += [f"alpha {self.alpha:g} beta {self.beta:g}"] if (self.alpha, self.beta) != (1.0, 0.0) else []
        what += [f"{role} {kind}" for role, kind in self.added]
        what += [word for word in (self.activation, self.many) if word]
        what += [f"{self.factors} alpha"] if self.factors else []
        what += [f"sums of {self.accumulate}"] if self.accumulate else []
        what += [self.bit_op] if self.bit_op else []
        what += [f"scales of {self.scale}"] if self.scale else []
        what += [f"in words for {self.words}"] if self.words else []
        what += ["scaled"] if self.scaled else ["promoted"] if self.promote else []
        what += [f"{self.rows} rows"] if self.rows != "aligned" else []
        return ", ".join([*what, str(self.schedule or "chosen schedule")])

    @property
    def types(self) -> Types:
        """As schedules have them."""
        outside = self.transposed[0], not self.transposed[1]
        more = {"grouped": self.many in GROUPED, "k_groups": self.many == "k ends"}
        more |= {"half_sums": self.accumulate == "f16", "scale": self.scale, "words": self.words}
        more |= {"bit_op": self.bit_op or ""}
        return Types(self.a, self.b, self.d, outside, self.promote or self.scaled, self.scaled, **more)

    @property
    def regimes(self) -> list[str]:
        """Those that say something of it."""
        integers = is_integer(self.a)
        found = [name for name, regime in REGIMES.items() if regime.integers or not integers]
        if self.d == "f32":  # tensor cores don't round to it
            found.remove("ties")
        if self.activation not in (None, "relu"):
            found.remove("special")
        if (self.activation and not integers) or self.accumulate:  # f16 overflows
            found.remove("largest")
        return found

    @property
    def _how(self) -> dict[str, Any]:
        """What `tile.matmul` and `reference.product` call by the same names."""
        a, b = self.transposed
        how = {"transpose_a": a, "transpose_b": b, "activation": self.activation, "promote": self.promote}
        how |= {"accumulate": self.accumulate, "bit_op": self.bit_op}
        how |= {} if self.factors else {"alpha": self.alpha}
        return how | {"beta": self.beta}

    def _ranks(self) -> dict[str, tuple[str, int]]:
        """The element type and rank of each operand, in the order of the kernel's arguments."""
        batch = 3 if self.many in ("batch", "one a", "one b", "masked", "k ends") else 2
        found = {"a": (self.a, 2 if self.many in ("one a", "rows", "row ends", "k ends") else batch)}
        of_rows, one_b = self.many in ("rows", "row ends"), self.many in ("one b", "k ends")
        found["b"] = (self.b, 3 if of_rows else 2 if one_b else batch)
        found["d"] = (self.d, batch)
        for role in ("c", "bias", "residual"):
            if role in dict(self.added):
                found[role] = (dict(self.added)[role], 1 if role == "bias" else batch)
        if self.scaled:
            found |= {"scale_a": ("f32", found["a"][1]), "scale_b": ("f32", found["b"][1])}
        if self.scale:
            kind = "i32" if self.words else self.scale
            found |= {f"scale_{side}": (kind, found[side][1]) for side in "ab"}
        found |= {"alpha": ("f32", 1)} if self.factors else {}
        return found | ({GROUPED[self.many]: ("i32", 1)} if self.many in GROUPED else {})

    def compiled(self) -> weft.Kernel:
        """A kernel for matrices of any size and strides."""
        return weft.compile(self.module(), CHIP)

    def module(self) -> weft.Module:
        """The product of matrices of any size and strides."""
        with weft.Module() as module:
            matrices = [
                weft.memref(
                    "1" if (role, self.factors) == ("alpha", "one") else "x".join("?" * rank),
                    kind,
                    None if rank == 1 else (*"?" * (rank - 1), 1),
                )
                for role, (kind, rank) in self._ranks().items()
            ]
            with module.func("product", matrices) as values:
                tile.matmul(
                    **dict(zip(self._ranks(), values, strict=True)),
                    **self._how,
                    scale_block=self.words,
                    schedule=self.schedule,
                )
        return module

    def operands(self, case: Case) -> dict[str, Placed]:
        """Random operands of a case, the same each time, in the order of the kernel's arguments."""
        rng = np.random.default_rng(zlib.crc32(f"{self} {case}".encode()))
        regime, (m, n, k) = REGIMES[case.regime], case.shape
        unit = self.types.group_unit
        parts = reference.ends([k, 0, *[max(1, k // 2)] * (self.members - 2)], unit)
        if self.many == "k ends":
            k = -(-int(parts[-1]) // unit) * unit
        kinds = Kinds(self.a, self.b, self.d, infinite=self.activation in (None, "relu"))
        sizes = {"c": (m, n), "bias": (n,), "residual": (m, n), "d": (m, n)}
        blocks = -(-k // PROMOTED)
        sizes |= {"scale_a": (blocks, m), "scale_b": (-(-n // PROMOTED), blocks)}
        pairs = [filled(regime, rng, kinds, m, n, k) for _ in range(self.members)]
        made: dict[str, Any] = {}
        for role, (kind, rank) in self._ranks().items():
            whole = (self.members, *sizes.get(role, ())) if rank == 3 else sizes.get(role, ())
            if role in ("a", "b"):
                side = "ab".index(role)
                if self.many == "k ends":
                    _clear_between(pairs[0][side] if role == "a" else pairs[0][side].T, parts, unit)
                each = [pair[side].T if self.transposed[side] else pair[side] for pair in pairs]
                made[role] = np.stack(each) if rank == 3 else each[0]
            elif role == "d" and self.poisons_d:
                poison = np.full(whole, _POISON[is_integer(kind)], np.uint8)
                made[role] = np.repeat(poison, numpy_dtype(kind).itemsize, -1).view(numpy_dtype(kind))
            elif role == "groups":
                made[role] = self._groups(rng, m)
            elif role == "k_ends":
                made[role] = parts
            elif role == "row_ends":
                counts = min(m // 3, GROUP_ROWS - 1), 0, max(0, min(m - GROUP_ROWS, 9))
                made[role] = reference.ends([*counts, *[0] * (self.members - 3)], unit)
            elif role == "alpha":  # sums stay exact
                count = self.members if self.factors == "each" and self.many else 1
                made[role] = (np.exp2(rng.permutation(count) - 1) * rng.choice([-1, 1])).astype(np.float32)
            elif role.startswith("scale") and self.scale:
                count = (self.members,) if rank == 3 else ()
                made[role] = self._block_scales(rng, *count, m if role == "scale_a" else n, k)
            elif role.startswith("scale"):
                made[role] = scales(regime, rng, *whole)
            else:
                made[role] = added(regime, rng, kind, *whole)
        return {role: Placed(values, self._rows_of(role)) for role, values in made.items()}

    def _rows_of(self, role: str) -> str:
        """How the rows of an operand lie, as `Placed` has them."""
        if role in ("scale_a", "scale_b") and self.scale and not self.words:
            return "dense"
        if self.rows == "dense d":
            return "dense" if role in ("d", *_LIKE_D) else "aligned"
        return self.rows if role in ("a", "b", "d", *_LIKE_D) else "aligned"

    def _block_scales(self, rng: Any, *shape: int) -> Any:
        """Random powers of two in the layout of an operand, for a matrix (or a batch) of this shape."""
        *rows, k = shape
        powers = np.exp2(rng.integers(-1, 2, (*rows, -(-k // self._scaled_together))))
        made = powers.astype(numpy_dtype(self.scale))
        if not self.words:
            return reference.tiled_scales(made)
        return np.ascontiguousarray(reference.packed_scales(made).swapaxes(-1, -2))

    @property
    def _scaled_together(self) -> int:
        """How many elements along K share a block scale."""
        scaling = self.types.block_scaling
        assert scaling is not None, self
        return self.words or scaling.group

    def _plain_scales(self, placed: Any, rows: int, k: int) -> Any:
        """The block scales of an operand, one for each group of the tensor cores in each row."""
        scaling, groups = self.types.block_scaling, -(-k // self._scaled_together)
        assert scaling is not None, self
        if not self.words:
            return reference.plain_scales(np.ascontiguousarray(placed), rows, groups)
        words = np.ascontiguousarray(placed.swapaxes(-1, -2))
        plain = words.view(np.uint8)[..., :groups].view(numpy_dtype(self.scale))
        return np.repeat(plain, self.words // scaling.group, axis=-1)[..., : -(-k // scaling.group)]

    @property
    def poisons_d(self) -> bool:
        """Whether D holds what says that it wasn't written, as nothing is read from it."""
        return self.beta == 0.0 or "c" in dict(self.added)

    def _groups(self, rng: Any, m: int) -> Any:
        """Which B each row has, none at times; or how many rows of a batch there are, from none to all."""
        if self.many == "masked":
            return rng.permutation([0, m, *rng.integers(0, m + 1, self.members - 2)]).astype(np.int32)
        groups = rng.integers(0, self.members, -(-m // GROUP_ROWS))
        if len(groups) > 1:
            groups[rng.integers(len(groups))] = -1
        return np.repeat(groups, GROUP_ROWS)[:m].astype(np.int32)

    def _parts(self, given: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Each matrix product in D: its place there, and its operands alone."""
        if self.many == "rows":
            for first in range(0, len(given["groups"]), GROUP_ROWS):
                if (number := given["groups"][first]) >= 0:
                    yield from self._of_rows(given, slice(first, first + GROUP_ROWS), number)
            return
        if self.many == "row ends":
            for number, span in enumerate(reference.spans(given["row_ends"], self.types.group_unit)):
                if span.stop > span.start:
                    yield from self._of_rows(given, span, number)
            return
        if given["d"].ndim == 2:
            yield slice(None), given
            return
        if self.many == "k ends":
            for number, span in enumerate(reference.spans(given["k_ends"], self.types.group_unit)):
                a = given["a"][span] if self.transposed[0] else given["a"][:, span]
                b = given["b"][:, span] if self.transposed[1] else given["b"][span]
                yield number, given | {"a": a, "b": b, "d": given["d"][number]}
            return
        for number in range(self.members):
            member = {role: x[number] if x.ndim == 3 else x for role, x in given.items()}
            member |= self._alpha(given, number)
            if self.many != "masked":
                yield number, member
            elif count := given["groups"][number]:
                for rows, part in self._of_rows(member, slice(0, count), None):
                    yield (number, rows), part

    def _of_rows(self, given: dict[str, Any], rows: slice, number: int | None) -> Iterator[Any]:
        """The product of some rows of A, with one of several B."""
        part = dict(given)
        for role in ("a", "d", "c", "residual"):
            if role in given:
                part[role] = given[role][:, rows] if role == "a" and self.transposed[0] else given[role][rows]
        if self.scaled:
            part["scale_a"] = given["scale_a"][:, rows]
        elif self.scale:
            part["scale_a"] = given["scale_a"][rows]
        if number is not None:
            part |= {role: given[role][number] for role in ("b", "scale_b") if role in given}
            part |= self._alpha(given, number)
        yield rows, part

    def _alpha(self, given: dict[str, Any], number: int) -> dict[str, Any]:
        """The alpha of one product, by its role, where the kernel reads it."""
        return {"alpha": given["alpha"][[number % len(given["alpha"])]]} if self.factors else {}

    def wanted(self, case: Case, operands: dict[str, Placed]) -> Wanted:
        """What must come of operands that no kernel has seen."""
        given = {role: placed.values for role, placed in operands.items()}
        d, regime = given["d"], REGIMES[case.regime]
        if self.scale:
            (m, n, k) = case.shape
            given["scale_a"] = self._plain_scales(given["scale_a"], m, k)
            given["scale_b"] = self._plain_scales(given["scale_b"], n, k)
        values, bound = np.zeros(d.shape), np.zeros(d.shape)
        written = np.zeros(d.shape, bool)
        for place, part in self._parts(given):
            values[place], bound[place] = self._expected(part)
            written[place] = True
        bare = regime.whole or not (self.added or self.beta)
        exact = is_integer(self.d) or (
            regime.exact and bare and not self.accumulate and self.activation in (None, "relu")
        )
        alone = ~written if self.many in ("rows", "row ends") else np.zeros(d.shape, bool)
        return Wanted(values, bound, written, alone, exact)

    def _expected(self, part: dict[str, Any]) -> tuple[Any, Any]:
        """The values of one product and how far they may be off; a NaN or an infinity of A and B reaches its
        row or column.
        """
        clean = {role: _finite(part[role]) for role in ("a", "b")}
        d, c = part["d"], part.get("c", part["d"])
        rest = {role: part.get(role) for role in ("bias", "residual", "scale_a", "scale_b")}
        rest |= {"alpha": part["alpha"]} if self.factors else {}
        if self.scale:
            rest |= {role: reference.tiled_scales(part[role]) for role in ("scale_a", "scale_b")}
        found = reference.product(
            *clean.values(),
            c if self.beta else None,
            **self._how,
            dtype=d.dtype,
            **rest,
        )
        if all(clean[role] is part[role] for role in clean):
            return found.values, found.bound
        a, b = (part[x].T if t else part[x] for x, t in zip("ab", self.transposed, strict=True))
        alpha = part["alpha"].item() if self.factors else self.alpha
        return _with_special(found, alpha * _special(a, b), self.activation, part.get("residual"), d)


def _clear_between(matrix: Any, ends: Any, unit: int) -> None:
    """Zeros from the end of each part of K, the last dimension, to the next multiple of `unit`."""
    for end in ends:
        matrix[:, end : -(-int(end) // unit) * unit] = np.zeros((), matrix.dtype)


def _finite(matrix: Any) -> Any:
    """A matrix with zeros for what is not finite."""
    finite = np.isfinite(matrix.astype(np.float64))
    return matrix if finite.all() else np.where(finite, matrix, np.zeros((), matrix.dtype))


def _special(a: Any, b: Any) -> Any:
    """What NaN and infinities of A (M x K) and B (K x N) make of their sums: zero elsewhere."""
    total = np.zeros((a.shape[0], b.shape[1]))
    a, b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore"):
        for k in np.flatnonzero(~(np.isfinite(a).all(axis=0) & np.isfinite(b).all(axis=1))):
            terms = np.outer(a[:, k], b[k])
            total += np.where(np.isfinite(terms), 0.0, terms)
    return total


def _with_special(found: Any, total: Any, activation: str | None, residual: Any, d: Any) -> tuple[Any, Any]:
    """Expected values with what an infinite or NaN sum makes of them."""
    reached = ~np.isfinite(total)
    made = np.where(total < 0, 0.0, total) if activation == "relu" else total
    if residual is not None:
        made = made + residual.astype(np.float64)
    kind = finfo(weft.launch.arrays.mlir_type(d.dtype))
    if d.dtype.itemsize == 1:
        made = np.clip(made, float(kind.min), float(kind.max))
    # relu leaves a residual of -inf, which is rounded.
    around = np.where(np.isfinite(made), np.abs(made) * float(kind.eps), 0.0)
    return np.where(reached, made, found.values), np.where(reached, around, found.bound)
