"""Products over several GPUs: plain calls, or PyTorch's operators where it has to see a call."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from weft.dialects.schedule import AnySchedule
from weft.distributed import gather
from weft.distributed.devices import Array
from weft.distributed.functions import FUNCTIONS
from weft.distributed.products import Scales, added_to
from weft.distributed.teams import Team
from weft.errors import WeftError, shown
from weft.launch import torch_tensors
from weft.multiply.matmul import Epilogue

_GATHER, _SCATTER, _REDUCE = FUNCTIONS


def _by_operator(name: str, *operands: Array, **options: Any) -> Any:
    """A function of this module by its operator of PyTorch."""
    import weft.distributed.operator_calls as calls  # takes fewer steps than from .. import

    return calls.by_operator(name, *operands, **options)


def _gathered(a: Array, b: Array, *, epilogue: Any = None, scales: Any = None, **options: Any) -> Any:
    """The function by its operator, where PyTorch has to see the call. Each of several products gathers."""
    if not isinstance(b, list | tuple):
        return _by_operator(_GATHER, a, b, epilogue=epilogue, scales=scales, **options)
    calls = zip(b, gather.epilogues(b, epilogue), gather.pairs(scales, len(b)), strict=True)
    return [_by_operator(_GATHER, a, each, epilogue=own, scales=pair, **options) for each, own, pair in calls]


@torch_tensors.traced_as(_gathered)
def all_gather_matmul(
    a: Array,
    b: Array,
    *,
    team: Team,
    transpose_b: bool = False,
    epilogue: Epilogue | Sequence[Epilogue | None] | None = None,
    schedule: AnySchedule | str | None = None,
    scales: Scales | None = None,
) -> Array:
    """`A @ b`, where A has the rows of `a` of all ranks, in the order of ranks. Returns a new array.

    Each rank calls it with `a` (M x K) and its own part of B (K x N, or N x K with `transpose_b`), and gets
    (size * M) x N. `a` must be contiguous. `epilogue` is that of `weft.matmul`; its residual has the shape of
    the result. With a list of several `b`, rows are sent once, and the result is a list; `epilogue` is then a
    list, too, or None. All ranks must call products in the same order with the same shapes, types and
    options: the first call with new ones compares them. Nothing is waited for: kernels and copies are queued.

    Elements are f16, bf16, and fp8, whose result is bf16. `scales` of fp8 are two float32 arrays, as
    `weft.matmul` has them: of `a`, M x ceil(K / 128) with strides (1, M), and of `b`, ceil(N / 128) x
    ceil(K / 128), contiguous; with several `b`, a list of those. Rows of `a` must then be a multiple of 4.
    Raises WeftError for arrays that don't fit.
    """
    options: Any = {"team": team, "transpose_b": transpose_b, "schedule": schedule, "scales": scales}
    if not isinstance(b, list | tuple):
        return _called(_GATHER, a, b, options | {"epilogue": epilogue})
    epilogues = gather.epilogues(b, epilogue)
    is_watched = _is_watched(_GATHER, team, (a, *b), *epilogues, scales=scales)
    return (_gathered if is_watched else gather.several)(a, b, epilogue=epilogues, **options)


@torch_tensors.traced_as(partial(_by_operator, _SCATTER))
def matmul_reduce_scatter(
    a: Array,
    b: Array,
    *,
    team: Team,
    transpose_b: bool = False,
    epilogue: Epilogue | None = None,
    partials: str | None = None,
    shared_bias: bool = False,
    schedule: AnySchedule | str | None = None,
    scales: Scales | None = None,
) -> Array:
    """This rank's rows of the sum of `a @ b` of all ranks, as a new array.

    Each rank calls it with its own part of K: `a` (size * M x K) and `b` (K x N, or N x K with
    `transpose_b`), and gets M x N: rank i the rows from i * M on. Sums of other ranks are rounded to
    `partials` (f32, or f16 or bf16 as `a`, the default) before they are added: own sums first, then those of
    the others in the order of ranks, in f32. So the bits are the same in each run. `epilogue` is that of
    `weft.matmul`, for this rank's rows of the sum. The rest is as in `all_gather_matmul`. Raises WeftError
    for arrays that don't fit.
    """
    options: Any = {"team": team, "transpose_b": transpose_b, "epilogue": epilogue, "partials": partials}
    options |= {"schedule": schedule, "scales": scales}
    return _called(_SCATTER, a, b, options, shared_bias=shared_bias)


@torch_tensors.traced_as(partial(_by_operator, _REDUCE))
def matmul_all_reduce(
    a: Array,
    b: Array,
    *,
    team: Team,
    transpose_b: bool = False,
    epilogue: Epilogue | None = None,
    partials: str | None = None,
    schedule: AnySchedule | str | None = None,
    scales: Scales | None = None,
) -> Array:
    """The sum of `a @ b` of all ranks, on each rank, as a new array.

    Each rank calls it with its own part of K: `a` (M x K) and `b` (K x N, or N x K with `transpose_b`), and
    gets M x N. Sums are rounded to `partials` (f32, or f16 or bf16 as `a`, the default) and added in f32, in
    the order of ranks: all ranks get the same bits, in each run. `epilogue` is that of `weft.matmul`, for the
    whole sum, and must be the same on all ranks. The rest is as in `matmul_reduce_scatter`. Raises WeftError
    for arrays that don't fit.
    """
    options: Any = {"team": team, "transpose_b": transpose_b, "epilogue": epilogue, "partials": partials}
    options |= {"schedule": schedule, "scales": scales}
    return _called(_REDUCE, a, b, options)


def _called(name: str, a: Array, b: Array, options: dict[str, Any], **of_operator: object) -> Any:
    """A plain call, or one by the operator, which has more options."""
    if _is_watched(name, options["team"], (a, b), options["epilogue"], scales=options["scales"]):
        return _by_operator(name, a, b, **options, **of_operator)
    return FUNCTIONS[name].queued(a, b, **options)


def _is_watched(
    name: str,
    team: Team,
    operands: Sequence[Array],
    *epilogues: Epilogue | None,
    scales: Scales | None = None,
) -> bool:
    """Whether PyTorch must see a call, to differentiate or cast it. Raises WeftError unless `team` is one."""
    if not isinstance(team, Team):
        raise WeftError(f"{name}: team must be a weft.distributed.Team, got {shown(team)}")
    added = [x for each in epilogues if each is not None for x in added_to(each).values()]
    for each in scales if isinstance(scales, list | tuple) else ():
        added += each if isinstance(each, list | tuple) else [each]
    return team.devices.is_watched((*operands, *added) if added else operands)
