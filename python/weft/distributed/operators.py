"""PyTorch's operators of products over several GPUs, which a team's name selects: their schemas, kernels and
shapes. `gradients` differentiates them.

Operators with `_rows` are what gradients call: their last result is the rows of all ranks.
"""

from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from weft.dialects.activations import GATES
from weft.distributed import gradients, rows
from weft.distributed.functions import FUNCTIONS
from weft.distributed.plans import Function
from weft.distributed.teams import Team, named
from weft.errors import WeftError
from weft.torch import casting
from weft.torch.operators import check_one_device, define, epilogue_of, without_autocast
from weft.torch.signatures import Kernel, Operand

_ADDED = "Tensor? bias=None, Tensor? residual=None, Tensor? scale_a=None, Tensor? scale_b=None"
_OPTIONS = "str? activation=None, str? schedule=None"
_SCHEMAS = {
    "all_gather_matmul": f"(Tensor a, Tensor b, {_ADDED}, *, str team, {_OPTIONS}) -> Tensor",
    "matmul_reduce_scatter": f"(Tensor a, Tensor b, {_ADDED}, *, str team, str? partials=None, "
    f"bool shared_bias=False, {_OPTIONS}) -> Tensor",
    "matmul_all_reduce": f"(Tensor a, Tensor b, {_ADDED}, *, str team, str? partials=None, {_OPTIONS}) "
    "-> Tensor",
    "all_gather_rows": "(Tensor a, *, str team) -> Tensor",
    "all_gather_matmul_rows": "(Tensor a, Tensor b, *, str team) -> (Tensor, Tensor)",
    "matmul_reduce_scatter_rows": "(Tensor a, Tensor b, Tensor others, *, str team) -> (Tensor, Tensor)",
}


def _product(function: Function) -> Kernel:
    """The kernel of an operator."""

    def run(
        *operands: Operand,
        team: str | Team,
        activation: str | None = None,
        shared_bias: bool = False,
        **options: Any,
    ) -> Tensor:
        a, b, bias, residual, scale_a, scale_b = (*operands, *[None] * 4)[:6]
        if a.dim() != 2 or b.dim() != 2:
            raise WeftError(_no_matrix("a", a) if a.dim() != 2 else _no_matrix("b", b))
        rows_apart, columns_apart = b.stride()
        transposed = rows_apart == 1 and columns_apart >= b.shape[0]
        b = b.mT if transposed else b if columns_apart == 1 else b.contiguous()
        options["transpose_b"], options["epilogue"] = transposed, epilogue_of(bias, activation, residual)
        if scale_a is not None or scale_b is not None:
            options["scales"] = scale_a, scale_b
        return function.queued(a.contiguous(), b, team=_team(team), **options)

    return run


def _team(team: str | Team) -> Team:
    """A team, or that of a name, by which operators have it."""
    return team if isinstance(team, Team) else named(team)


def _gathered(a: Tensor, *, team: str | Team) -> Any:
    return rows.all_gather_rows(a.contiguous(), team=_team(team))


def _beside(a: Tensor, b: Tensor, others: Tensor, *, team: str | Team) -> tuple[Tensor, Tensor]:
    finish = rows.gathering(others.contiguous(), _team(team))
    d = KERNELS["matmul_reduce_scatter"](a, b, team=team)
    return d, finish()


def _fake(name: str) -> Kernel:
    """The shapes of a product, which refuses operands that the kernels would refuse later."""

    def fake(*operands: Operand, team: str, activation: str | None = None, **options: object) -> Tensor:
        a, b = operands[:2]
        check_one_device("weft.distributed", operands)
        for which, each in (("a", a), ("b", b)):
            torch._check(each.dim() == 2, lambda which=which, each=each: _no_matrix(which, each))
        sizes = a.shape[1], b.shape[0]
        torch._check(
            sizes[0] == sizes[1],
            lambda: f"weft.distributed: a and b must agree in K, got {sizes[0]} and {sizes[1]}",
        )
        columns = b.shape[1] // (2 if activation in GATES else 1)
        dtype = torch.bfloat16 if a.dtype.itemsize == 1 else a.dtype  # bf16 for fp8
        return a.new_empty(FUNCTIONS[name].rows(a.shape[0], named(team).size), columns, dtype=dtype)

    return fake


def _no_matrix(name: str, each: Tensor) -> str:
    return f"torch.ops.weft: {name} must be a matrix, got a shape of {tuple(each.shape)}"


def _rows_fake(a: Tensor, *, team: str) -> Tensor:
    return a.new_empty(named(team).size * a.shape[0], a.shape[1])


def _pair_fake(name: str) -> Kernel:
    """The shapes of a product, and those of all rows of its last operand."""

    def fake(a: Tensor, b: Tensor, others: Operand = None, *, team: str) -> tuple[Tensor, Tensor]:
        return _fake(name)(a, b, team=team), _rows_fake(a if others is None else others, team=team)

    return fake


KERNELS: dict[str, Kernel] = {}
"""The functions that the operators run, by name."""


def _define(name: str, kernel: Kernel, fake: Kernel) -> OpOverload:
    KERNELS[name] = kernel

    def run(*operands: Tensor, **options: object) -> Tensor:
        with torch.no_grad(), without_autocast(operands[0].device.type):
            return kernel(*operands, **options)

    return define(name, _SCHEMAS[name], run, fake, torch.Tag.needs_exact_strides)


for _name, _function in FUNCTIONS.items():
    casting.add(_define(_name, _product(_function), _fake(_name)), 2)
_define("all_gather_rows", _gathered, _rows_fake)
_define("all_gather_matmul_rows", _product(rows.WITH_ROWS), _pair_fake("all_gather_matmul"))
_define("matmul_reduce_scatter_rows", _beside, _pair_fake("matmul_reduce_scatter"))
gradients.register()
