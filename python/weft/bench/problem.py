"""One product to measure, or groups of them: sizes and types, buffers in GPU memory, whether D is right."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from random import Random
from typing import TYPE_CHECKING

from weft.bench import block_scaled
from weft.errors import WeftError
from weft.isa.types import BF16, E2M1, E2M3, E4M3, F16, F32, S8, S32, TF32, ElementType

if TYPE_CHECKING:
    import torch

# Three times the L2 cache of an H200, so that no call finds its inputs there.
_INPUT_BYTES = 180_000_000
_FEWEST_SETS, _MOST_SETS = 2, 64
CUBLAS_ROWS = 4
"""Of which the rows of a product with block scales must be a multiple for cuBLASLt."""
CUBLAS_SCALES = 4
"""It expects rows of B's scales padded to a multiple of so many, which PyTorch refuses. Without the padding
it reads wrong scales, and memory beyond the last ones.
"""
_CHECKED_ROWS = 128
# Elements of B that a check holds as float64 at a time: 1 GiB.
_CHECKED_ELEMENTS = 1 << 27
# Relative (Frobenius); fp8 with fast accumulation is off by 5e-3 at K = 32768.
_TOLERANCE = 1e-2
SCALED_BLOCK = 128
# Of the rows that a group is expected to have, as DeepGEMM's tests draw them.
_FEWEST_OF_EXPECTED, _MOST_OF_EXPECTED = 0.7, 1.3


@dataclass(frozen=True)
class Inputs:
    """A type of A and B: PyTorch's name for it, and the type of D where nothing selects another.

    `block_scales`: A has a float32 scale for each row and 128 columns, B for each 128 x 128 elements.
    `promoted`: sums are float32's, not those that the tensor cores have for fp8. `format`: that of operands
    whose scales the tensor cores apply, in the 128x4 layout.
    """

    name: str
    element: ElementType
    torch: str
    output: str
    block_scales: bool = False
    promoted: bool = False
    format: str = ""

    @property
    def multiple(self) -> int:
        """Of which N and K are multiples in random products: rows begin at multiples of 16 bytes."""
        return SCALED_BLOCK if self.block_scales or self.format else max(8, 128 // self.element.bits)

    def multiples(self, transposed_a: bool) -> tuple[int, int, int]:
        """Of which M, N and K are multiples in random products. With block scales, cuBLAS takes them."""
        rows, depth = (CUBLAS_ROWS, CUBLAS_SCALES * SCALED_BLOCK) if self.block_scales else (1, self.multiple)
        return self.multiple if transposed_a else rows, self.multiple, depth


INPUTS = {
    row.name: row
    for row in (
        Inputs("bf16", BF16, "bfloat16", "bf16"),
        Inputs("f16", F16, "float16", "f16"),
        Inputs("tf32", TF32, "float32", "f32"),
        Inputs("e4m3", E4M3, "float8_e4m3fn", "bf16"),
        Inputs("e4m3-promoted", E4M3, "float8_e4m3fn", "bf16", promoted=True),
        Inputs("e4m3-block", E4M3, "float8_e4m3fn", "bf16", block_scales=True, promoted=True),
        Inputs("s8", S8, "int8", "s32"),
        Inputs("mxfp8", E4M3, "float8_e4m3fn", "bf16", format="mxfp8"),
        Inputs("mxfp6", E2M3, "uint8", "bf16", format="mxfp6"),
        Inputs("mxfp4", E2M1, "float4_e2m1fn_x2", "bf16", format="mxfp4"),
        Inputs("nvfp4", E2M1, "float4_e2m1fn_x2", "bf16", format="nvfp4"),
    )
}
LAYOUTS = ("nt", "nn", "tn", "tt")
# Types of D and PyTorch's names for them.
OUTPUTS = {BF16.name: "bfloat16", F16.name: "float16", F32.name: "float32", S32.name: "int32"}
_OUTPUT_BITS = {element.name: element.bits for element in (BF16, F16, F32, S32)}


@dataclass(frozen=True)
class Problem:
    """D[M, N] = A[M, K] B: `inputs` is a key of INPUTS, `output` of OUTPUTS; `transpose_b`: B is stored as
    N x K; `transpose_a`: A is stored as K x M.

    With `groups`, as many such products in one call, each with a B and about M rows: the rows of all in one
    A, each group's from a multiple of 128 on; or, with `most`, in an A of so many rows for each group.

    A, B and D begin `shift` elements after an aligned address, and `gap` elements lie between their rows.
    """

    m: int
    n: int
    k: int
    inputs: str
    output: str
    transpose_b: bool = True
    groups: int | None = None
    most: int | None = None
    transpose_a: bool = False
    shift: int = 0
    gap: int = 0

    @property
    def layout(self) -> str:
        """For A and B, `t` where it's given as transposed: `nt` is M x K and N x K."""
        return f"{'t' if self.transpose_a else 'n'}{'t' if self.transpose_b else 'n'}"

    @property
    def shape(self) -> str:
        """As `suites.shapes` reads it."""
        before = "" if self.groups is None else f"{self.groups}@"
        after = "" if self.most is None else f"/{self.most}"
        placed = (f"+{self.shift}" if self.shift else "") + (f"~{self.gap}" if self.gap else "")
        return f"{before}{self.m}{after}x{self.n}x{self.k}{placed}"

    @property
    def types(self) -> str:
        """`bf16 to bf16`, and the layout where it isn't `nt`."""
        return f"{self.inputs} to {self.output}{'' if self.layout == 'nt' else f' {self.layout}'}"

    @property
    def kind(self) -> str:
        """The types, and which groups: what goes into one mean, and one drawing."""
        if self.groups is None:
            return self.types
        return f"{self.types}, {'groups' if self.most is None else 'masked groups'}"

    @property
    def counts(self) -> tuple[int, ...]:
        """The rows of each group; those of the one product without groups."""
        return (self.m,) if self.groups is None else _drawn(self.m, self.groups, self.most)

    @property
    def row_ranges(self) -> tuple[tuple[int, int], ...]:
        """The first row of each group, in its A, and the rows that there is room for."""
        if self.groups is None or self.most is not None:
            return ((0, self.most or self.m),) * len(self.counts)
        from weft.dialects.product_types import GROUP_ROWS

        rooms = [math.ceil(count / GROUP_ROWS) * GROUP_ROWS for count in self.counts]
        return tuple(zip(accumulate(rooms[:-1], initial=0), rooms, strict=True))

    @property
    def height(self) -> int:
        """The rows of A, or of each A in a batch."""
        return self.most or sum(room for _, room in self.row_ranges)

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * sum(self.counts) * self.n * self.k

    @property
    def input_bytes(self) -> int:
        """Those of A and B, less rows of A that are in no product."""
        bits = INPUTS[self.inputs].element.bits
        return (sum(self.counts) + len(self.counts) * self.n) * self.k * bits // 8

    @property
    def moved_bytes(self) -> int:
        """A and B read once, D written once."""
        return self.input_bytes + sum(self.counts) * self.n * _OUTPUT_BITS[self.output] // 8

    @property
    def sets(self) -> int:
        """How many sets of buffers the calls rotate over."""
        return min(max(math.ceil(_INPUT_BYTES / self.input_bytes), _FEWEST_SETS), _MOST_SETS)


@cache
def _drawn(expected: int, groups: int, most: int | None) -> tuple[int, ...]:
    """The rows of each group: random ones around the expected, always the same."""
    source = Random(0)
    factors = (source.uniform(_FEWEST_OF_EXPECTED, _MOST_OF_EXPECTED) for _ in range(groups))
    rows = (max(int(expected * factor), 1) for factor in factors)
    return tuple(rows if most is None else (min(count, most) for count in rows))


@dataclass(frozen=True)
class Buffers:
    """One set of tensors: A (M x K), B (N x K, or K x N without `transpose_b`), D (M x N), all row-major,
    except A with `transpose_a`, which is a view of K x M.

    Block scales: `scale_a` is M x K/128 and column-major, `scale_b` is N/128 x K/128 and row-major. Those of
    a format are vectors in the 128x4 layout; elements of 4 and 6 bits are packed along K.

    With groups, B and `scale_b` are batches, and `groups` is what `weft.matmul` and DeepGEMM take, an int32
    for each row of A: its group's number, or -1 after the last row of a group. With `most`, all are batches,
    and `groups` has the rows of each group.
    """

    a: "torch.Tensor"
    b: "torch.Tensor"
    d: "torch.Tensor"
    scale_a: "torch.Tensor" = None
    scale_b: "torch.Tensor" = None
    groups: "torch.Tensor" = None


@dataclass(frozen=True)
class Check:
    """The relative error of a result (Frobenius; None where some of it isn't finite) and the most allowed."""

    error: float | None
    allowed: float

    @property
    def passed(self) -> bool:
        """Whether the result is right."""
        return self.error is not None and self.error <= self.allowed


def buffers(problem: Problem, device: str = "cuda", seed: int = 0) -> list[Buffers]:
    """The sets of a problem, with poisoned outputs and random inputs, which `seed` fixes for a device. Raises
    WeftError for a format with groups, or with a B of K x N.
    """
    import torch

    generator = torch.Generator(device).manual_seed(seed)
    output = getattr(torch, OUTPUTS[problem.output])
    of_a, of_b = _batches(problem)
    sides = (problem.n, problem.k) if problem.transpose_b else (problem.k, problem.n)
    rows = (problem.k, problem.height) if problem.transpose_a else (problem.height, problem.k)
    groups = _groups(problem, device)
    format_ = INPUTS[problem.inputs].format
    if format_ and (groups is not None or problem.layout != "nt"):
        raise WeftError(f"{format_} must have the layout nt, and no groups, with weft bench")
    if format_ and (problem.shift or problem.gap):
        raise WeftError(f"{format_} must have aligned matrices with weft bench, got {problem.shape}")
    created = []
    for _ in range(problem.sets):
        d = _placed(problem, torch.empty(*of_a, problem.height, problem.n, dtype=output, device=device))
        if format_:
            a, scale_a = block_scaled.operand(format_, problem.m, problem.k, generator)
            b, scale_b = block_scaled.operand(format_, problem.n, problem.k, generator)
        else:
            a = _placed(problem, _random(problem, (*of_a, *rows), generator))
            a = a.mT if problem.transpose_a else a
            b = _placed(problem, _random(problem, (*of_b, *sides), generator))
            scale_a, scale_b = _scales(problem, generator)
        created.append(Buffers(a, b, d, scale_a, scale_b, groups))
    poison(created)
    return created


def _batches(problem: Problem) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What the shapes of A and of B begin with."""
    of_b = () if problem.groups is None else (problem.groups,)
    return () if problem.most is None else of_b, of_b


def _random(problem: Problem, shape: tuple[int, ...], generator: "torch.Generator") -> "torch.Tensor":
    import torch

    row = INPUTS[problem.inputs]
    values = torch.randn(shape, generator=generator, device=generator.device)
    if row.element == S8:
        values = (32 * values).round_().clamp_(-128, 127)
    return values.to(getattr(torch, row.torch))


def _placed(problem: Problem, matrix: "torch.Tensor") -> "torch.Tensor":
    """The same matrix where the problem has it in memory."""
    if not problem.shift and not problem.gap:
        return matrix
    rows, columns = matrix.shape
    stride = columns + problem.gap
    memory = matrix.new_zeros(problem.shift + rows * stride)
    placed = memory[problem.shift :].as_strided((rows, columns), (stride, 1))
    return placed.copy_(matrix)


def _scales(problem: Problem, generator: "torch.Generator") -> "tuple[torch.Tensor, torch.Tensor]":
    """Scales from 0.5 to 1.5, which a product can't do without."""
    import torch

    if not INPUTS[problem.inputs].block_scales:
        return None, None
    blocks, columns = (math.ceil(size / SCALED_BLOCK) for size in (problem.k, problem.n))
    before_a, before_b = _batches(problem)
    of_a = torch.rand(*before_a, blocks, problem.height, generator=generator, device=generator.device) + 0.5
    of_b = torch.rand(*before_b, columns, blocks, generator=generator, device=generator.device) + 0.5
    return of_a.mT, of_b


def _groups(problem: Problem, device: str) -> "torch.Tensor | None":
    import torch

    if problem.groups is None:
        return None
    if problem.most is not None:
        return torch.tensor(problem.counts, dtype=torch.int32, device=device)
    of_row = torch.full((problem.height,), -1, dtype=torch.int32)
    for number, ((first, _), count) in enumerate(zip(problem.row_ranges, problem.counts, strict=True)):
        of_row[first : first + count] = number
    return of_row.to(device)


def products(problem: Problem, each: Buffers, multiple: int = 1) -> Iterator[Buffers]:
    """The single products of a set, one for each group, with its rows alone; or with those after them up to a
    `multiple`, where there is room.
    """
    if problem.groups is None:
        yield each
        return
    for number, ((first, room), count) in enumerate(zip(problem.row_ranges, problem.counts, strict=True)):
        rows = slice(first, first + min(math.ceil(count / multiple) * multiple, room))
        of_a = rows if problem.most is None else (number, rows)
        scales = () if each.scale_a is None else (each.scale_a[of_a], each.scale_b[number])
        yield Buffers(each.a[of_a], each.b[number], each.d[of_a], *scales)


def poison(sets: Sequence[Buffers]) -> None:
    """Fills every D with NaN, or with bytes of 0x7f where it holds integers."""
    import torch

    for each in sets:
        each.d.view(torch.uint8).fill_(0xFF if each.d.is_floating_point() else 0x7F)


def check(problem: Problem, sets: Sequence[Buffers]) -> Check:
    """Holds the first and the last D against float64: all of it is finite, about 128 rows are right.

    With groups that goes for the rows of each; what D has in others is unspecified.
    """
    import torch

    checked = [part for each in (sets[0], sets[-1]) for part in products(problem, each)]
    allowed = _TOLERANCE if sets[0].d.is_floating_point() else 0.0
    for part in checked:
        written = torch.isfinite(part.d) if part.d.is_floating_point() else part.d != 0x7F7F7F7F
        if not bool(written.all()):
            return Check(None, allowed)
    return Check(max(_error(problem, part) for part in checked), allowed)


def _error(problem: Problem, each: Buffers) -> float:
    """The relative error of some rows of a product's D, the first and the last among them."""
    import torch

    height = each.a.shape[0]
    rows = min(height, _CHECKED_ROWS)
    picked = torch.linspace(0, height - 1, rows, dtype=torch.float64, device=each.a.device).long()
    left = _left(problem, each, picked)
    wrong = size = 0.0
    for columns, right in _columns(problem, each):
        expected = left @ right
        wrong += float((each.d[picked, columns].double() - expected).square().sum())
        size += float(expected.square().sum())
    return math.sqrt(wrong / size) if size else math.sqrt(wrong)


def _left(problem: Problem, each: Buffers, picked: "torch.Tensor") -> "torch.Tensor":
    """Some rows of A as float64, scaled."""
    if format_ := INPUTS[problem.inputs].format:
        return block_scaled.values(format_, each.a, each.scale_a, picked)
    left = each.a[picked].double()
    return left if each.scale_a is None else left * _spread(each.scale_a[picked], 1, problem.k)


def _columns(problem: Problem, each: Buffers) -> "Iterator[tuple[slice, torch.Tensor]]":
    """B as float64, scaled, K x N, some columns at a time; whole blocks of them."""
    import torch

    format_ = INPUTS[problem.inputs].format
    right = each.b.t() if problem.transpose_b else each.b
    step = max(_CHECKED_ELEMENTS // problem.k // SCALED_BLOCK, 1) * SCALED_BLOCK
    for start in range(0, problem.n, step):
        columns = slice(start, min(start + step, problem.n))
        if format_:
            rows = torch.arange(columns.start, columns.stop, device=each.b.device)
            yield columns, block_scaled.values(format_, each.b, each.scale_b, rows).t()
            continue
        part = right[:, columns].double()
        if each.scale_b is not None:
            blocks = each.scale_b[start // SCALED_BLOCK : math.ceil(columns.stop / SCALED_BLOCK)]
            part = part * _spread(_spread(blocks, 0, columns.stop - start), 1, problem.k).t()
        yield columns, part


def _spread(scales: "torch.Tensor", axis: int, size: int) -> "torch.Tensor":
    """Each scale 128 times along an axis, which has `size` elements then."""
    return scales.double().repeat_interleave(SCALED_BLOCK, axis).narrow(axis, 0, size)
