"""PyTorch's operators of products over several GPUs, which a team's name selects: their schemas, kernels and
shapes. `gradients` differentiates them.

Operators with `_rows` are what gradients call: their last result is the rows of all ranks.
"""

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from weft.dialects.activations import GATES
from weft.distributed import gather, gradients, reduce, rows, scatter
from weft.distributed.teams import Team, named
from weft.errors import WeftError
from weft.multiply.matmul import Epilogue
from weft.torch import casting
from weft.torch.operators import LIBRARY, define, without_autocast
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


def _product(queued: Kernel) -> Kernel:
    """The kernel of an operator, from the function that queues the product."""

    def run(
        a: Tensor,
        b: Tensor,
        bias: Operand | None = None,
        residual: Operand | None = None,
        scale_a: Operand | None = None,
        scale_b: Operand | None = None,
        *,
        team: str | Team,
        activation: str | None = None,
        shared_bias: bool = False,
        **options: object,
    ) -> Tensor:
        if a.dim() != 2 or b.dim() != 2:
            raise WeftError(_no_matrix("a", a) if a.dim() != 2 else _no_matrix("b", b))
        added = bias is not None or residual is not None or activation is not None
        epilogue = Epilogue(bias, activation, residual) if added else None
        b, transposed = _by_rows(b)
        options["transpose_b"], options["epilogue"] = transposed, epilogue
        if scale_a is not None or scale_b is not None:
            options["scales"] = scale_a, scale_b
        return queued(a.contiguous(), b, team=_team(team), **options)

    return run


def _team(team: str | Team) -> Team:
    """A team, or that of a name, by which operators have it."""
    return team if isinstance(team, Team) else named(team)


def _by_rows(b: Tensor) -> tuple[Tensor, bool]:
    """B with contiguous rows, and whether they are columns of `b`."""
    rows_apart, columns_apart = b.stride()
    if rows_apart == 1 and columns_apart >= b.shape[0]:
        return b.mT, True
    return (b if columns_apart == 1 else b.contiguous()), False


def _gathered(a: Tensor, *, team: str | Team) -> Any:
    return rows.all_gather_rows(a.contiguous(), team=_team(team))


def _beside(a: Tensor, b: Tensor, others: Tensor, *, team: str | Team) -> tuple[Tensor, Tensor]:
    finish = rows.gathering(others.contiguous(), _team(team))
    d = _product(scatter.queued)(a, b, team=team)
    return d, finish()


def _checked(fake: Kernel) -> Kernel:
    """A function of shapes that refuses operands which the kernels would refuse later."""

    @functools.wraps(fake)
    def checked(a: Tensor, b: Tensor, *added: Operand, **options: object) -> Sequence[Any]:
        devices = dict.fromkeys(x.device for x in (a, b, *added) if isinstance(x, torch.Tensor))
        named_ = " and ".join(map(str, devices))
        torch._check(
            len(devices) == 1, lambda: f"weft.distributed: arrays must be on one device, got {named_}"
        )
        for name, each in (("a", a), ("b", b)):
            torch._check(each.dim() == 2, lambda name=name, each=each: _no_matrix(name, each))
        sizes = a.shape[1], b.shape[0]
        torch._check(
            sizes[0] == sizes[1],
            lambda: f"weft.distributed: a and b must agree in K, got {sizes[0]} and {sizes[1]}",
        )
        return fake(a, b, *added, **options)

    return checked


def _no_matrix(name: str, each: Tensor) -> str:
    return f"torch.ops.weft: {name} must be a matrix, got a shape of {tuple(each.shape)}"


@_checked
def _gather_fake(a: Tensor, b: Tensor, *_: object, team: str, **options: object) -> Tensor:
    columns = b.shape[1] // (2 if options.get("activation") in GATES else 1)
    return a.new_empty(named(team).size * a.shape[0], columns, dtype=_result(a))


@_checked
def _scatter_fake(a: Tensor, b: Tensor, *_: object, team: str, **options: object) -> Tensor:
    return a.new_empty(a.shape[0] // named(team).size, b.shape[1], dtype=_result(a))


@_checked
def _reduce_fake(a: Tensor, b: Tensor, *_: object, **options: object) -> Tensor:
    return a.new_empty(a.shape[0], b.shape[1], dtype=_result(a))


def _result(a: Tensor) -> torch.dtype:
    """The type of a product's result: bf16 for fp8."""
    return torch.bfloat16 if a.dtype.itemsize == 1 else a.dtype


def _rows_fake(a: Tensor, *, team: str) -> Tensor:
    return a.new_empty(named(team).size * a.shape[0], a.shape[1])


def _gather_rows_fake(a: Tensor, b: Tensor, *, team: str) -> tuple[Tensor, Tensor]:
    return _gather_fake(a, b, team=team), _rows_fake(a, team=team)


def _beside_fake(a: Tensor, b: Tensor, others: Tensor, *, team: str) -> tuple[Tensor, Tensor]:
    return _scatter_fake(a, b, team=team), _rows_fake(others, team=team)


KERNELS: dict[str, Kernel] = {}
"""What the operators run, by name."""


def _define(name: str, kernel: Kernel, fake: Kernel) -> None:
    """Defines an operator."""
    KERNELS[name] = kernel

    def run(*operands: Tensor, **options: object) -> Tensor:
        with torch.no_grad(), without_autocast(operands[0].device.type):
            return kernel(*operands, **options)

    define(name, _SCHEMAS[name], run, fake, torch.Tag.needs_exact_strides)


_define("all_gather_matmul", _product(gather.queued), _gather_fake)
_define("matmul_reduce_scatter", _product(scatter.queued), _scatter_fake)
_define("matmul_all_reduce", _product(reduce.queued), _reduce_fake)
_define("all_gather_rows", _gathered, _rows_fake)
_define("all_gather_matmul_rows", _product(rows.queued), _gather_rows_fake)
_define("matmul_reduce_scatter_rows", _beside, _beside_fake)
gradients.register(LIBRARY)
for _name in ("all_gather_matmul", "matmul_reduce_scatter", "matmul_all_reduce"):
    casting.add(LIBRARY, getattr(torch.ops.weft, _name).default, 2)
