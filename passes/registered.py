"""The tables of Weft's passes and pipelines, and what other packages register."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from weft.dialects import DIALECTS
from weft.dialects.schedule import FAMILIES, AnySchedule
from weft.dialects.schedule.families import family_complaint
from weft.dialects.tile import MatmulOp
from weft.errors import WeftError, shown
from weft.isa.suggest import did_you_mean
from weft.mlir import PassManager, ir
from weft.passes import lower_gemm, lower_gemm_async
from weft.passes.assign_layouts import ASSIGN_LAYOUTS
from weft.passes.expand_matmul import EXPAND_MATMUL, KERNELS
from weft.passes.lower_buffers import LOWER_BUFFERS
from weft.passes.lower_claims import LOWER_CLAIMS
from weft.passes.lower_conversions import LOWER_CONVERSIONS
from weft.passes.lower_copies import LOWER_COPIES
from weft.passes.lower_flags import LOWER_FLAGS
from weft.passes.lower_fragments import LOWER_FRAGMENTS
from weft.passes.lower_gemm import LOWER_GEMM
from weft.passes.lower_gemm_async import LOWER_GEMM_ASYNC
from weft.passes.lower_instructions import LOWER_MMA, LOWER_TCGEN05, LOWER_WGMMA, LOWER_WMMA
from weft.passes.lower_layouts import LOWER_LAYOUTS
from weft.passes.lower_math import LOWER_MATH
from weft.passes.lower_reductions import LOWER_REDUCTIONS
from weft.passes.lower_rings import LOWER_RINGS
from weft.passes.lower_roles import LOWER_ROLES
from weft.passes.lower_subgroups import LOWER_SUBGROUPS
from weft.passes.lower_tensor_memory import LOWER_TENSOR_MEMORY
from weft.passes.lower_tma import LOWER_TMA
from weft.passes.mark_dynamic_memory import MARK_DYNAMIC_MEMORY
from weft.passes.mark_tensor_maps import MARK_TENSOR_MAPS
from weft.passes.nvvm_to_weft import NVVM_TO_WEFT
from weft.passes.outline_linalg import OUTLINE_LINALG
from weft.passes.outline_matmul import OUTLINE_MATMUL
from weft.passes.pipeline_loops import PIPELINE_LOOPS
from weft.passes.raise_linalg import RAISE_LINALG
from weft.passes.record_arguments import RECORD_ARGUMENTS
from weft.passes.refuse_unlowered import REFUSE_UNLOWERED
from weft.passes.registry import calls, candidates
from weft.passes.registry.candidates import Candidate as Candidate
from weft.passes.registry.candidates import Predicate as Predicate
from weft.passes.registry.pass_ import Pass as Pass
from weft.passes.registry.pipeline import (
    ANCHOR,
    WEFT,
    WEFT_KERNEL,
    WEFT_TO_INSTRUCTIONS,
    WEFT_TO_LLVM,
    Element,
    Manager,
    check_selected,
    flatten,
    parse,
    pass_names,
)
from weft.passes.round_tf32 import ROUND_TF32
from weft.passes.select_schedule import SELECT_SCHEDULE
from weft.passes.weft_to_binary import WEFT_TO_BINARY
from weft.passes.weft_to_nvvm import WEFT_TO_NVVM
from weft.registry import extensions, opt_flags
from weft.schedules.choice import CHOOSERS, Chooser
from weft.system import locks

_OF_MODULES = (RAISE_LINALG, OUTLINE_LINALG, SELECT_SCHEDULE, OUTLINE_MATMUL, WEFT_TO_BINARY)
PASSES = {p.flag: replace(p, of_kernels=False) for p in _OF_MODULES} | {
    p.flag: replace(p, of_kernels=True)
    for p in (
        *(EXPAND_MATMUL, PIPELINE_LOOPS, ASSIGN_LAYOUTS, LOWER_REDUCTIONS, LOWER_LAYOUTS, ROUND_TF32),
        *(LOWER_TMA, LOWER_COPIES, LOWER_GEMM, LOWER_GEMM_ASYNC, LOWER_TENSOR_MEMORY, LOWER_RINGS),
        *(LOWER_CLAIMS, LOWER_FLAGS, LOWER_ROLES, LOWER_BUFFERS, LOWER_FRAGMENTS, NVVM_TO_WEFT),
        *(WEFT_TO_NVVM, REFUSE_UNLOWERED, LOWER_MATH, LOWER_SUBGROUPS, LOWER_CONVERSIONS, LOWER_WMMA),
        *(LOWER_MMA, LOWER_WGMMA, LOWER_TCGEN05, RECORD_ARGUMENTS, MARK_TENSOR_MAPS),
        MARK_DYNAMIC_MEMORY,
    )
}

PIPELINES = {p.flag: p for p in (WEFT, WEFT_KERNEL, WEFT_TO_INSTRUCTIONS, WEFT_TO_LLVM)}

_registry: extensions.Registry[Pass] = extensions.Registry("pass", PASSES)


def register_pass(pass_: Pass, *, after: str | None = None) -> None:
    """Adds a pass: as an option of `weft-opt`, and by name in textual pipelines. With `after`, all of Weft's
    own pipelines, and therefore `weft.compile`, run it directly after that pass.

    Raises WeftError if the option is taken, or isn't made of lower-case words joined by '-'.
    """
    if not isinstance(pass_, Pass):
        raise WeftError(f"pass_ must be a weft.passes.Pass; got {shown(pass_)}")
    if complaint := pass_.complaint():
        raise WeftError(complaint)
    flag = pass_.flag
    if f"--{flag}" in opt_flags.NAMES:
        raise WeftError(f"pass '{flag}' can't have this name: --{flag} is an option of weft-opt")
    if flag in PIPELINES:
        raise WeftError(f"pass '{flag}' is registered already, as a pipeline of Weft")
    if flag not in PASSES and _is_upstream(flag):
        raise WeftError(f"pass '{flag}' is registered already, by MLIR")
    running = {element.name for element in elements(WEFT.flag)}
    if after is not None and not (isinstance(after, str) and after in running):
        meant = did_you_mean(after, running) if isinstance(after, str) else ""
        raise WeftError(f"after must be a pass that the pipeline --weft runs; got {shown(after)}{meant}")
    options = (name.replace("-", "_") for name in pass_.options)
    calls.check(f"run of pass '{flag}'", pass_.run, ["module"], options)
    _registry.add(flag, replace(pass_, after=after))


def _is_upstream(flag: str) -> bool:
    try:
        PassManager.parse(f"any({flag})", ir.Context())
    except ValueError as failure:
        return "does not refer to a registered pass" not in str(failure)
    return True


def _own_candidates() -> dict[str, tuple[Candidate, ...]]:
    """Weft's candidates by the operations that they lower."""
    return {
        "tile.gemm": lower_gemm.CANDIDATES,
        "tile.gemm_scaled": lower_gemm.SCALED_CANDIDATES,
        "tile.gemm_async": lower_gemm_async.CANDIDATES,
    }


_OPERATION = re.compile(r"[a-z][a-z0-9_]*(\.[\w$]+)+", re.ASCII)


def register_candidate(op_name: str, candidate: Candidate) -> None:
    """Adds a candidate implementation for the operations of this name. The operation is one of Weft's that
    have candidates, or belongs to a dialect of another package. Weft tries candidates in the order of their
    priorities.

    Raises WeftError if the operation already has a candidate of that name, or can't have any.
    """
    if not isinstance(candidate, Candidate):
        raise WeftError(f"candidate must be a weft.passes.Candidate; got {shown(candidate)}")
    if not (isinstance(op_name, str) and _OPERATION.fullmatch(op_name)):
        raise WeftError(f"op_name must be an operation's name, such as tile.gemm; got {shown(op_name)}")
    own = _own_candidates()
    if op_name not in own and op_name.partition(".")[0] in {each.DIALECT_NAMESPACE for each in DIALECTS}:
        raise WeftError(f"op_name must be one of {', '.join(own)} or of another package; got {op_name}")
    if complaint := candidate.complaint():
        raise WeftError(complaint)
    name = candidates.key(op_name, candidate)
    if candidate.name in {each.name for each in own.get(op_name, ())}:
        raise WeftError(f"candidate '{name}' is registered already, by Weft")
    for predicate in candidate.predicates:
        calls.check(f"predicate '{predicate.name}' of candidate '{name}'", predicate.holds, ["op"])
    calls.check(f"lower of candidate '{name}'", candidate.lower, ["op"])
    candidates.registry.add(name, candidate)


@dataclass(frozen=True)
class _Family:
    """A family of schedules of another package, what writes its kernels, and what chooses its schedules."""

    family: type[AnySchedule]
    expand: Callable[[MatmulOp], None]
    chooser: Chooser | None


def _forget(registered: _Family) -> None:
    FAMILIES.remove(registered.family)
    KERNELS.pop(registered.family, None)
    CHOOSERS.pop(registered.family, None)


_registering_family = locks.reentrant()
_families: extensions.Registry[_Family] = extensions.Registry("schedule", {}, _forget)


def register_schedule(
    family: type[AnySchedule], *, expand: Callable[[MatmulOp], None], chooser: Chooser | None = None
) -> None:
    """Adds a family of schedules, a subclass of `AnySchedule`. `expand` writes the kernel of a `tile.matmul`
    at the insertion point. `chooser` chooses schedules for products that have none; without it, the family is
    used only for products whose schedule belongs to it.

    Raises WeftError if the key of the family is a field of another family, or the other way around.
    """
    if not (isinstance(family, type) and issubclass(family, AnySchedule)):
        raise WeftError(
            f"family must be a subclass of weft.dialects.schedule.AnySchedule; got {shown(family)}"
        )
    if complaint := family_complaint(family):
        raise WeftError(f"schedule family {family.__name__}: {complaint}")
    calls.check("expand", expand, ["op"])
    if chooser is not None:
        if not isinstance(chooser, Chooser):
            raise WeftError(f"chooser must be a weft.schedules.choice.Chooser; got {shown(chooser)}")
        calls.check("choose", chooser.choose, ["request"])
        calls.check("candidates", chooser.candidates, ["request"])
    extensions.load()
    with _registering_family:
        if (before := _families.source(family.key)) is not None:
            raise WeftError(f"schedule '{family.key}' is registered already, by {before}")
        if family in tuple(FAMILIES):
            raise WeftError(f"schedule '{family.key}' is registered already, by Weft")
        FAMILIES.add(family)
        KERNELS[family] = expand
        if chooser is not None:
            CHOOSERS[family] = chooser
        _families.add(family.key, _Family(family, expand, chooser))


def every() -> dict[str, Pass]:
    """All passes by their flags. Raises WeftError where an installed extension can't be loaded."""
    return _registry.all()


def source(flag: str) -> extensions.Source | None:
    """Who registered a pass; None for Weft's own."""
    return _registry.source(flag)


def manager(text: str | None, context: ir.Context, anchor: str = ANCHOR) -> Manager:
    """A manager of a textual pipeline of registered passes, Weft's pipelines and upstream's passes, for
    operations of the name `anchor`; None has no passes.

    Raises WeftError for a text that doesn't parse, or an unknown pass.
    """
    parts = () if text is None else elements(text)
    if len(parts) == 1 and parts[0].name == anchor and parts[0].inner is not None:
        parts = parts[0].inner
    return Manager(parts, context, every(), names(), anchor)


def check_printed(text: str | None) -> None:
    """Raises WeftError where IR is to be printed around a pass that a textual pipeline doesn't run."""
    check_selected(() if text is None else elements(text))


def names() -> set[str]:
    """The names that a pipeline may use, as far as they are known here."""
    return pass_names(every(), PIPELINES)


def elements(text: str) -> tuple[Element, ...]:
    """The passes that a textual pipeline runs, with named pipelines replaced by their passes."""
    followers: dict[str, list[str]] = {}
    for flag, each in every().items():
        if each.after is not None:
            followers.setdefault(each.after, []).append(flag)
    return flatten(parse(text), PIPELINES, followers)
