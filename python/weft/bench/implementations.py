"""Who is measured: Weft and the libraries beside it, each as a name and what prepares its calls."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from weft.bench.problem import INPUTS, OUTPUTS, Buffers, Problem
from weft.errors import WeftError
from weft.isa.types import E4M3

if TYPE_CHECKING:
    from weft.dialects.schedule import AnySchedule

Call = Callable[[], object]


class Refusal(WeftError):
    """Why an implementation can't do a problem; what else was asked for is still measured."""


@dataclass(frozen=True)
class Implementation:
    """`prepare` makes one call for each set of buffers, which queues the product on PyTorch's current stream.

    It raises Refusal where the implementation isn't here or has no such product. What a library refuses by an
    error of its own shows when the calls run. `inputs` are those that it is measured with, where not all.
    """

    name: str
    prepare: Callable[[Problem, Sequence[Buffers]], list[Call]]
    inputs: tuple[str, ...] = tuple(INPUTS)


def weft(schedule: str | None = None) -> Implementation:
    """`weft.matmul` with its own choice of a schedule, or with `schedule` as it is written."""

    def prepare(problem: Problem, sets: Sequence[Buffers]) -> list[Call]:
        import weft as package
        from weft.dialects.schedule import read_schedule

        chosen = None if schedule is None else read_schedule(schedule)
        return [partial(_weft_matmul, package.matmul, problem, each, chosen) for each in sets]

    return Implementation("weft", prepare)


def _weft_matmul(matmul: Any, problem: Problem, each: Buffers, schedule: "AnySchedule | None") -> None:
    import torch

    # Asked for at each call: while a graph is captured, the stream is another.
    stream = torch.cuda.current_stream()
    scales = None if each.scale_a is None else (each.scale_a, each.scale_b)
    promote = INPUTS[problem.inputs].promoted
    options = {"transpose_b": problem.transpose_b, "scales": scales, "promote": promote}
    matmul(each.a, each.b, out=each.d, schedule=schedule, stream=stream, **options)


def _cublas(problem: Problem, sets: Sequence[Buffers]) -> list[Call]:
    import torch

    torch.set_float32_matmul_precision("high")  # tf32
    operands = [(each.a, each.b.t() if problem.transpose_b else each.b, each) for each in sets]
    row = INPUTS[problem.inputs]
    if row.name == "s8":
        return [partial(torch._int_mm, a, b, out=each.d) for a, b, each in operands]
    if row.block_scales:
        return [_scaled_mm(each, a, b, each.scale_a, each.scale_b.t(), False) for a, b, each in operands]
    if row.element == E4M3:
        return _scaled_by_one(problem, sets, fast=not row.promoted)
    if row.torch == OUTPUTS[problem.output]:
        return [partial(torch.mm, a, b, out=each.d) for a, b, each in operands]
    return [partial(torch.mm, a, b, out_dtype=each.d.dtype, out=each.d) for a, b, each in operands]


def _scaled_by_one(problem: Problem, sets: Sequence[Buffers], *, fast: bool) -> list[Call]:
    import torch

    one = torch.ones((), device=sets[0].a.device)
    return [
        _scaled_mm(each, each.a, each.b.t() if problem.transpose_b else each.b, one, one, fast)
        for each in sets
    ]


def _scaled_mm(each: Buffers, a: Any, b: Any, scale_a: Any, scale_b: Any, fast: bool) -> Call:
    import torch

    kind = each.d.dtype
    return partial(torch._scaled_mm, a, b, scale_a, scale_b, out_dtype=kind, use_fast_accum=fast, out=each.d)


def _triton(problem: Problem, sets: Sequence[Buffers]) -> list[Call]:
    if find_spec("triton") is None:
        raise Refusal("Triton isn't installed")
    if not problem.transpose_b or INPUTS[problem.inputs].promoted:
        raise Refusal("the kernel here takes B as N x K, and promotes nothing")
    from weft.bench import triton_matmul

    return triton_matmul.prepare(problem, sets)


def _deepgemm(problem: Problem, sets: Sequence[Buffers]) -> list[Call]:
    if find_spec("deep_gemm") is None:
        raise Refusal("DeepGEMM isn't installed")
    import deep_gemm

    if not problem.transpose_b or problem.output != "bf16":
        raise Refusal("takes B as N x K and makes bf16")
    if problem.inputs == "bf16":
        return [partial(deep_gemm.bf16_gemm_nt, each.a, each.b, each.d) for each in sets]
    if not INPUTS[problem.inputs].block_scales:
        raise Refusal("multiplies bf16 and e4m3-block alone")
    return [
        partial(deep_gemm.fp8_gemm_nt, (each.a, each.scale_a), (each.b, each.scale_b), each.d)
        for each in sets
    ]


# What --against names; others are compared with the first implementation of the first that is named.
PEERS: dict[str, tuple[Implementation, ...]] = {
    "cublas": (Implementation("cublas", _cublas),),
    "triton": (Implementation("triton", _triton),),
    "deepgemm": (Implementation("deepgemm", _deepgemm),),
}
