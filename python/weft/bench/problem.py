"""One product to measure: its sizes and types, its buffers in GPU memory, and whether a result is right."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from weft.isa.types import BF16, E4M3, F16, F32, S8, S32, TF32, ElementType

# Three times the L2 cache of an H200, so that no call finds its inputs there.
_INPUT_BYTES = 180_000_000
_FEWEST_SETS, _MOST_SETS = 2, 64
_CHECKED_ROWS = 128
# Elements of B that a check holds as float64 at a time: 1 GiB.
_CHECKED_ELEMENTS = 1 << 27
# Relative (Frobenius); fp8 with fast accumulation is off by 5e-3 at K = 32768.
_TOLERANCE = 1e-2
SCALED_BLOCK = 128


@dataclass(frozen=True)
class Inputs:
    """A type of A and B: PyTorch's name for it, and the type of D where nothing says another.

    `block_scales`: A has a float32 scale for each row and 128 columns, B for each 128 x 128 elements.
    `promoted`: sums are float32's, not those that the tensor cores have for fp8.
    """

    name: str
    element: ElementType
    torch: str
    output: str
    block_scales: bool = False
    promoted: bool = False


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
    )
}
# Types of D and PyTorch's names for them.
OUTPUTS = {BF16.name: "bfloat16", F16.name: "float16", F32.name: "float32", S32.name: "int32"}
_OUTPUT_BITS = {element.name: element.bits for element in (BF16, F16, F32, S32)}


@dataclass(frozen=True)
class Problem:
    """D[M, N] = A[M, K] B: `inputs` is a key of INPUTS, `output` of OUTPUTS; `transpose_b`: B is N x K."""

    m: int
    n: int
    k: int
    inputs: str
    output: str
    transpose_b: bool = True

    @property
    def shape(self) -> str:
        """`MxNxK`."""
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def types(self) -> str:
        """`bf16 to bf16`, and `nn` where B is K x N."""
        return f"{self.inputs} to {self.output}{'' if self.transpose_b else ' nn'}"

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.n * self.k

    @property
    def input_bytes(self) -> int:
        """Those of A and B."""
        return (self.m + self.n) * self.k * INPUTS[self.inputs].element.bits // 8

    @property
    def moved_bytes(self) -> int:
        """A and B read once, D written once."""
        return self.input_bytes + self.m * self.n * _OUTPUT_BITS[self.output] // 8

    @property
    def sets(self) -> int:
        """How many sets of buffers the calls rotate over."""
        return min(max(math.ceil(_INPUT_BYTES / self.input_bytes), _FEWEST_SETS), _MOST_SETS)


@dataclass(frozen=True)
class Buffers:
    """One set of tensors: A (M x K), B (N x K, or K x N without `transpose_b`), D (M x N), all row-major.

    Block scales: `scale_a` is M x K/128 and column-major, `scale_b` is N/128 x K/128 and row-major.
    """

    a: Any
    b: Any
    d: Any
    scale_a: Any = None
    scale_b: Any = None


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
    """The sets of a problem, with poisoned outputs and random inputs, which `seed` fixes for a device."""
    import torch

    generator = torch.Generator(device).manual_seed(seed)
    output = getattr(torch, OUTPUTS[problem.output])
    rows, columns = (problem.n, problem.k) if problem.transpose_b else (problem.k, problem.n)
    made = []
    for _ in range(problem.sets):
        a = _random(problem, problem.m, problem.k, generator)
        b = _random(problem, rows, columns, generator)
        d = torch.empty(problem.m, problem.n, dtype=output, device=device)
        made.append(Buffers(a, b, d, *_scales(problem, generator)))
    poison(made)
    return made


def _random(problem: Problem, rows: int, columns: int, generator: Any) -> Any:
    import torch

    row = INPUTS[problem.inputs]
    values = torch.randn(rows, columns, generator=generator, device=generator.device)
    if row.element == S8:
        values = (32 * values).round_().clamp_(-128, 127)
    return values.to(getattr(torch, row.torch))


def _scales(problem: Problem, generator: Any) -> tuple[Any, ...]:
    """Scales from 0.5 to 1.5, which a product can't do without."""
    import torch

    if not INPUTS[problem.inputs].block_scales:
        return ()
    blocks, columns = (math.ceil(size / SCALED_BLOCK) for size in (problem.k, problem.n))
    of_a = torch.rand(blocks, problem.m, generator=generator, device=generator.device) + 0.5
    of_b = torch.rand(columns, blocks, generator=generator, device=generator.device) + 0.5
    return of_a.t(), of_b


def poison(sets: Sequence[Buffers]) -> None:
    """Fills every D with NaN, or with bytes of 0x7f where it holds integers."""
    import torch

    for each in sets:
        each.d.view(torch.uint8).fill_(0xFF if each.d.is_floating_point() else 0x7F)


def check(problem: Problem, sets: Sequence[Buffers]) -> Check:
    """Holds the first and the last D against float64: all of it is finite, about 128 rows are right."""
    import torch

    checked = (sets[0], sets[-1])
    allowed = _TOLERANCE if sets[0].d.is_floating_point() else 0.0
    for each in checked:
        written = torch.isfinite(each.d) if each.d.is_floating_point() else each.d != 0x7F7F7F7F
        if not bool(written.all()):
            return Check(None, allowed)
    return Check(max(_error(problem, each) for each in checked), allowed)


def _error(problem: Problem, each: Buffers) -> float:
    """The relative error of some rows of D, the first and the last among them."""
    import torch

    rows = min(problem.m, _CHECKED_ROWS)
    picked = torch.linspace(0, problem.m - 1, rows, dtype=torch.float64, device=each.a.device).long()
    left = each.a[picked].double()
    if each.scale_a is not None:
        left *= _spread(each.scale_a[picked], 1, problem.k)
    wrong = size = 0.0
    for columns, right in _columns(problem, each):
        expected = left @ right
        wrong += float((each.d[picked, columns].double() - expected).square().sum())
        size += float(expected.square().sum())
    return math.sqrt(wrong / size) if size else math.sqrt(wrong)


def _columns(problem: Problem, each: Buffers) -> Iterator[tuple[slice, Any]]:
    """B as float64, scaled, K x N, some columns at a time; whole blocks of them."""
    right = each.b.t() if problem.transpose_b else each.b
    step = max(_CHECKED_ELEMENTS // problem.k // SCALED_BLOCK, 1) * SCALED_BLOCK
    for start in range(0, problem.n, step):
        columns = slice(start, min(start + step, problem.n))
        part = right[:, columns].double()
        if each.scale_b is not None:
            blocks = each.scale_b[start // SCALED_BLOCK : math.ceil(columns.stop / SCALED_BLOCK)]
            part = part * _spread(_spread(blocks, 0, columns.stop - start), 1, problem.k).t()
        yield columns, part


def _spread(scales: Any, axis: int, size: int) -> Any:
    """Each scale 128 times along an axis, which has `size` elements then."""
    return scales.double().repeat_interleave(SCALED_BLOCK, axis).narrow(axis, 0, size)
