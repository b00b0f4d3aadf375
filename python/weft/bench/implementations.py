"""What is measured: Weft and other libraries, each with its name and a function that prepares its calls."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from weft.bench import block_scaled, cublaslt
from weft.bench.implementation import Call, Implementation, Refusal
from weft.bench.problem import CUBLAS_ROWS, CUBLAS_SCALES, INPUTS, OUTPUTS, Buffers, Problem, products
from weft.isa.types import E4M3

if TYPE_CHECKING:
    import torch

    from weft.dialects.schedule import AnySchedule


def weft(schedule: str | None = None) -> Implementation:
    """`weft.matmul` with its own choice of a schedule, or with `schedule` as it is written."""

    def prepare(problem: Problem, sets: Sequence[Buffers]) -> list[Call]:
        import torch

        import weft as package
        from weft.dialects.schedule import read_schedule

        if INPUTS[problem.inputs].name == "tf32":
            torch.set_float32_matmul_precision("high")
        chosen = None if schedule is None else read_schedule(schedule)
        return [partial(_weft_matmul, package.matmul, problem, each, chosen) for each in sets]

    return Implementation(
        "weft", prepare, schedule=lambda problem, sets: schedule or used_schedule(problem, sets[0])
    )


def _weft_matmul(
    matmul: Callable[..., object], problem: Problem, each: Buffers, schedule: "AnySchedule | None"
) -> None:
    import torch

    # Asked for at each call: while a graph is captured, the stream is another.
    stream = torch.cuda.current_stream()
    scales = None if each.scale_a is None else (each.scale_a, each.scale_b)
    options = _options(problem) | {"scales": scales, "groups": each.groups, "schedule": schedule}
    matmul(each.a, each.b, out=each.d, stream=stream, **options)


def _options(problem: Problem) -> dict[str, Any]:
    """The arguments of `weft.matmul` that follow from a problem."""
    row = INPUTS[problem.inputs]
    kind = {"kind": block_scaled.kind(row.format)} if row.format else {}
    return {"transpose_b": problem.transpose_b, "promote": row.promoted} | kind


def used_schedule(problem: Problem, each: Buffers) -> str:
    """The schedule of the kernel that `weft.matmul` calls without one, as `read_schedule` reads it."""
    from weft.bench.compiling import written
    from weft.multiply import product_kernel
    from weft.multiply.operands import Operands
    from weft.multiply.product import Product

    added = {"scale_a": each.scale_a, "scale_b": each.scale_b, "groups": each.groups}
    added = {role: array for role, array in added.items() if array is not None}
    product = Product(tuple(added), **_options(problem))
    operands = Operands.of(each.a, each.b, each.d, added, product)
    chip = product_kernel.chip_of(operands)
    copied = product_kernel.transposed(operands, chip)
    schedule = product_kernel.schedule_of(operands.k_major(copied), chip, copies=bool(copied))
    return "" if schedule is None else written(schedule)


def _cublas(problem: Problem, sets: Sequence[Buffers]) -> list[Call]:
    """With groups, a product for each, one after another: the host knows their rows here."""
    if problem.groups is None:
        return _cublas_products(problem, sets)
    parts = ([_dense(part) for part in products(problem, each, CUBLAS_ROWS)] for each in sets)
    return [partial(_one_by_one, _cublas_products(problem, each)) for each in parts]


def _dense(each: Buffers) -> Buffers:
    """With scales of A whose columns follow each other without a gap, as cuBLASLt takes them."""
    return each if each.scale_a is None else replace(each, scale_a=each.scale_a.mT.contiguous().mT)


def _one_by_one(calls: Sequence[Call]) -> None:
    for call in calls:
        call()


def _cublas_products(problem: Problem, sets: Sequence[Buffers]) -> list[Call]:
    import torch

    torch.set_float32_matmul_precision("high")  # tf32
    operands = [(each.a, each.b.t() if problem.transpose_b else each.b, each) for each in sets]
    row = INPUTS[problem.inputs]
    if row.name == "s8":
        return [partial(torch._int_mm, a, b, out=each.d) for a, b, each in operands]
    if row.format in ("mxfp6", "mxfp4"):
        raise Refusal(f"PyTorch has no product of {row.format} by cuBLAS")
    if row.format:
        return [_scaled_mm(each, a, b, each.scale_a, each.scale_b, fast=False) for a, b, each in operands]
    if row.block_scales:
        if (blocks := sets[0].scale_b.shape[-1]) % CUBLAS_SCALES:
            legal = f"K must have a multiple of {CUBLAS_SCALES} blocks of 128 for cuBLAS"
            raise Refusal(f"{legal}, which expects padded scales of B otherwise, got {blocks}")
        return [_scaled_mm(each, a, b, each.scale_a, each.scale_b.t(), fast=False) for a, b, each in operands]
    if row.element == E4M3:
        one = torch.ones((), device=sets[0].a.device)
        return [_scaled_mm(each, a, b, one, one, fast=not row.promoted) for a, b, each in operands]
    if row.torch == OUTPUTS[problem.output]:
        return [partial(torch.mm, a, b, out=each.d) for a, b, each in operands]
    return [partial(torch.mm, a, b, out_dtype=each.d.dtype, out=each.d) for a, b, each in operands]


def _scaled_mm(each: Buffers, *operands: "torch.Tensor", fast: bool) -> Call:
    import torch

    kind = each.d.dtype
    return partial(torch._scaled_mm, *operands, out_dtype=kind, use_fast_accum=fast, out=each.d)


def _triton(problem: Problem, sets: Sequence[Buffers]) -> list[Call]:
    if find_spec("triton") is None:
        raise Refusal("Triton isn't installed")
    if problem.layout != "nt" or INPUTS[problem.inputs].promoted or problem.groups is not None:
        raise Refusal("A must be M x K and B N x K, without promoted sums or groups")
    if INPUTS[problem.inputs].format:
        raise Refusal("types must be without scales of the tensor cores")
    from weft.bench import triton_matmul

    return triton_matmul.prepare(problem, sets)


def _deepgemm(problem: Problem, sets: Sequence[Buffers]) -> list[Call]:
    if find_spec("deep_gemm") is None:
        raise Refusal("DeepGEMM isn't installed")
    import deep_gemm

    if problem.layout != "nt" or problem.output != "bf16":
        raise Refusal("A must be M x K, B N x K and D bf16")
    if problem.inputs != "bf16" and not INPUTS[problem.inputs].block_scales:
        raise Refusal("types must be bf16 or e4m3-block")
    name = "bf16_gemm_nt" if problem.inputs == "bf16" else "fp8_gemm_nt"
    if problem.groups is not None:
        name = f"m_grouped_{name}_{'contiguous' if problem.most is None else 'masked'}"
    if (function := getattr(deep_gemm, name, None)) is None:
        raise Refusal(f"this DeepGEMM has no {name}")
    return [partial(function, *_of_deepgemm(problem, each)) for each in sets]


def _of_deepgemm(problem: Problem, each: Buffers) -> tuple[object, ...]:
    """The arguments of a product: A and B, each with its scales, D, and what specifies the groups."""
    a, b = (each.a, each.b) if each.scale_a is None else ((each.a, each.scale_a), (each.b, each.scale_b))
    groups = () if each.groups is None else (each.groups,)
    expected = () if problem.most is None else (problem.m,)
    return a, b, each.d, *groups, *expected


# What --against names; others are compared with the first implementation of the first that is named.
PEERS: dict[str, tuple[Implementation, ...]] = {
    "cublas": (Implementation("cublas", _cublas),),
    "cublaslt-tuned": (Implementation("cublaslt-tuned", cublaslt.prepare),),
    "triton": (Implementation("triton", _triton),),
    "deepgemm": (Implementation("deepgemm", _deepgemm),),
}
