"""Weft's passes and pipelines. A pass stands in the file that its flag names; this list is the whole
registry.
"""

from typing import Any

from weft import phase
from weft.dialects.schedule import FAMILIES
from weft.passes import lower_gemm, lower_gemm_async
from weft.passes.expand_matmul import EXPAND_MATMUL, KERNELS
from weft.passes.lower_buffers import LOWER_BUFFERS
from weft.passes.lower_claims import LOWER_CLAIMS
from weft.passes.lower_copies import LOWER_COPIES
from weft.passes.lower_fragments import LOWER_FRAGMENTS
from weft.passes.lower_gemm import LOWER_GEMM
from weft.passes.lower_gemm_async import LOWER_GEMM_ASYNC
from weft.passes.lower_mma import LOWER_MMA
from weft.passes.lower_rings import LOWER_RINGS
from weft.passes.lower_roles import LOWER_ROLES
from weft.passes.lower_tcgen05 import LOWER_TCGEN05
from weft.passes.lower_tma import LOWER_TMA
from weft.passes.lower_wgmma import LOWER_WGMMA
from weft.passes.lower_wmma import LOWER_WMMA
from weft.passes.mark_tensor_maps import MARK_TENSOR_MAPS
from weft.passes.nvvm_to_weft import NVVM_TO_WEFT
from weft.passes.outline_matmul import OUTLINE_MATMUL
from weft.passes.record_arguments import RECORD_ARGUMENTS
from weft.passes.refuse_unlowered import REFUSE_UNLOWERED
from weft.passes.registry.pipeline import (
    WEFT,
    WEFT_KERNEL,
    WEFT_TO_INSTRUCTIONS,
    WEFT_TO_LLVM,
    Element,
    flatten,
    parse,
    pass_manager,
    pass_names,
)
from weft.passes.select_schedule import SELECT_SCHEDULE
from weft.passes.weft_to_nvvm import WEFT_TO_NVVM
from weft.schedules.choice import CHOOSERS

PASSES = {
    p.flag: p
    for p in (
        SELECT_SCHEDULE,
        OUTLINE_MATMUL,
        EXPAND_MATMUL,
        LOWER_TMA,
        LOWER_COPIES,
        LOWER_GEMM,
        LOWER_GEMM_ASYNC,
        LOWER_RINGS,
        LOWER_CLAIMS,
        LOWER_ROLES,
        LOWER_BUFFERS,
        LOWER_FRAGMENTS,
        NVVM_TO_WEFT,
        WEFT_TO_NVVM,
        REFUSE_UNLOWERED,
        LOWER_WMMA,
        LOWER_MMA,
        LOWER_WGMMA,
        LOWER_TCGEN05,
        RECORD_ARGUMENTS,
        MARK_TENSOR_MAPS,
    )
}

PIPELINES = {p.flag: p for p in (WEFT, WEFT_KERNEL, WEFT_TO_INSTRUCTIONS, WEFT_TO_LLVM)}


def registered() -> tuple[Any, ...]:
    """All that decides, beside files of Weft, what the passes make of a module."""
    schedules = tuple(FAMILIES), tuple(CHOOSERS.items()), tuple(KERNELS.items())
    candidates = (*lower_gemm.CANDIDATES, *lower_gemm_async.CANDIDATES)
    return tuple(PASSES.values()), tuple(PIPELINES.values()), schedules, candidates


OWN = registered()
"""What is registered by Weft itself."""


def manager(text: str, context: Any, *, shown: bool = False) -> Any:
    """A pass manager for a textual pipeline of these passes, these pipelines and upstream's passes.

    `shown`: each of its passes is to be printed or timed. Raises WeftError for a text that doesn't parse or a
    pass that nobody knows.
    """
    return pass_manager(text, context, PASSES, PIPELINES, told=phase.shared() and not shown)


def names() -> set[str]:
    """The names that a pipeline may use, as far as they are known here."""
    return pass_names(PASSES, PIPELINES)


def elements(text: str) -> tuple[Element, ...]:
    """The passes that a textual pipeline runs, named pipelines taken apart."""
    return flatten(parse(text), PIPELINES)
