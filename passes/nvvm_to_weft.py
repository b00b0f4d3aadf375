"""`--nvvm-to-weft`: upstream's `nvvm` operations that are tensor-core instructions become ours.

These are verified: what the tables refuse is an error at the operation's place. Three things stay:
`nvvm.tcgen05.mma_smem_desc`, which is arithmetic on numbers that are known at run time alone; operations that
PTX has and Weft's dialects don't (`wmma` of f64); and those with an attribute that no rule reads.
"""

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from typing import Any

from weft.dialects.op import build, judging_target, refuse
from weft.errors import Diagnostic, WeftError
from weft.isa.tables import left_to_ptx
from weft.mlir import ext, ir, llvm, operations
from weft.passes.registry.pass_ import Pass
from weft.passes.upstream.correspondence import Draft, Pair, constant, discardable, integer, sweep, unread
from weft.passes.upstream.operations import PAIRS

_BY_NAME = {pair.theirs.OPERATION_NAME: pair for pair in PAIRS}


@dataclass(frozen=True)
class Outcome:
    """What raising a module left as it was: operations that PTX alone has, with a remark; those with an
    attribute that no rule reads, with a complaint; and what the tables say of others.
    """

    left: list[tuple[Any, str]]
    unknown: list[tuple[Any, str]]
    refused: list[Diagnostic]


def run(module: Any) -> None:
    """Raises every operation that has a counterpart. Raises WeftError with all that the tables refuse."""
    if refused := raise_operations(module).refused:
        raise WeftError(*refused)


def raise_operations(module: Any) -> Outcome:
    """Raises every operation that has a counterpart, and says what is left."""
    outcome = Outcome([], [], [])
    for op in operations(module, *(pair.theirs for pair in PAIRS)):
        pair = _BY_NAME[op.operation.name]
        if names := unread(op.operation, pair):
            outcome.unknown.append((op.operation, f"has an attribute that Weft's lacks: {', '.join(names)}"))
            continue
        try:
            with ir.InsertionPoint(op), op.location:
                if why := _replace(op.operation, pair):
                    outcome.left.append((op.operation, why))
        except WeftError as error:
            outcome.refused.extend(error.diagnostics)
    return outcome


def _replace(op: Any, pair: Pair) -> str:
    """Builds our operation before upstream's, and gives it the other's uses; or says why it is left."""
    given = list(op.operands)
    draft = Draft(dict(_operands(op, pair)), discardable(op))
    for name, kind in pair.slots():
        if kind.endswith(_NUMBERS) and (values := draft.operands.pop(name)):
            draft.attributes[name] = _immediate(op, name, values[0])
    for rule in pair.rules:
        rule.to_ours(op, draft)
    target = judging_target(op)
    chip = target.chip.name if target else None
    if known := left_to_ptx(pair.ours.family, _form(pair, draft), chip):
        return f"is legal; {known.reason}"
    groups = [draft.operands.get(f.name, []) for f in pair.ours._fields if isinstance(f, ext.OperandDef)]
    made = build(
        pair.ours,
        operands=groups if pair.ours._ODS_OPERAND_SEGMENTS else [v for group in groups for v in group],
        results=[_single(result.type) or result.type for result in op.results],
        attributes=draft.attributes,
    )
    for old, new in zip(op.results, made.operation.results, strict=True):
        _hand_over(old, new)
    op.erase()
    sweep(given)
    return ""


def _form(pair: Pair, draft: Draft) -> Any:
    """What the draft spells, as far as its attributes say."""
    axes = {axis: draft.attributes[axis] for axis in pair.ours.family.axes if axis in draft.attributes}
    needed = {f.name for f in fields(pair.ours.family.form) if f.default is MISSING}
    return pair.ours.family.form(**axes) if needed <= set(axes) else None


_NUMBERS = (":i32", ":i64")


def _operands(op: Any, pair: Pair) -> Iterator[tuple[str, list[Any]]]:
    """Upstream's operands by our names."""
    slots, values = pair.slots(), list(op.operands)
    spare = len(values) - sum(not kind.startswith(("*", "?")) for _, kind in slots)
    segments = list(op.attributes["operandSegmentSizes"]) if pair.segmented else None
    for place, (name, kind) in enumerate(slots):
        count = segments[place] if segments else spare if kind.startswith(("*", "?")) else 1
        taken, values = values[:count], values[count:]
        yield name, [_scalar(value) for value in taken] if name in pair.vectors else taken


def _immediate(op: Any, name: str, value: Any) -> int:
    number = constant(value)
    if number is None:
        raise refuse(op, f"expects {name} to be a constant: the instruction takes it as an immediate")
    return number


def _single(kind: Any) -> Any:
    """The register of a type that holds just one, or None."""
    if isinstance(kind, llvm.StructType):
        return kind.body[0] if len(kind.body) == 1 else None
    return kind.element_type if isinstance(kind, ir.VectorType) and kind.shape == [1] else None


def _scalar(value: Any) -> Any:
    """The register in a vector of one; the vector of more."""
    if _single(value.type) is None:
        return value
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.name == "llvm.insertelement":
        return owner.operands[1]
    return llvm.extractelement(value, _index())


def _index() -> Any:
    return llvm.mlir_constant(integer(32, 0))


def _hand_over(old: Any, new: Any) -> None:
    """Gives the uses of `old` to `new`, its one register where the types differ."""
    if old.type == new.type:
        old.replace_all_uses_with(new)
        return
    for user in [use.owner.operation for use in old.uses]:
        if user.name in ("llvm.extractvalue", "llvm.extractelement"):
            spent = list(user.operands)
            user.results[0].replace_all_uses_with(new)
            user.erase()
            sweep(spent[1:])
    if list(old.uses):
        old.replace_all_uses_with(_packed(old.type, new))


def _packed(kind: Any, register: Any) -> Any:
    empty = llvm.mlir_undef(kind)
    if isinstance(kind, llvm.StructType):
        return llvm.insertvalue(empty, register, [0])
    return llvm.insertelement(empty, register, _index())


NVVM_TO_WEFT = Pass(
    "nvvm-to-weft",
    "raise upstream's tensor-core operations to Weft's and verify them",
    run,
)
