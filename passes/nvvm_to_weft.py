"""`--nvvm-to-weft`: raises upstream's `nvvm` operations for tensor cores to ours, and verifies them.

An operation that the tables refuse, or with an attribute that no rule reads, is an error at its source
location. Two kinds of operations stay: `nvvm.tcgen05.mma_smem_desc`, which is arithmetic on run-time values,
and operations that PTX has but Weft's dialects lack (`wmma` of f64).
"""

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields

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
    """The operations that were not raised: `left`, legal ones that only PTX has, with a remark; `refused`,
    complaints about others.
    """

    left: list[tuple[ir.OpView, str]]
    refused: list[Diagnostic]


def run(module: ir.Operation) -> None:
    """Converts every operation that has a counterpart. Raises WeftError with all complaints."""
    if refused := raise_operations(module).refused:
        raise WeftError(*refused)


def raise_operations(module: ir.Operation) -> Outcome:
    """Converts every operation that has a counterpart. Returns those that were not converted."""
    outcome = Outcome([], [])
    for op in operations(module, *(pair.theirs for pair in PAIRS)):
        pair = _BY_NAME[op.operation.name]
        try:
            if wrong := unread(op.operation, pair):
                raise refuse(op, wrong)
            with ir.InsertionPoint(op), op.location:
                if remark := _replace(op.operation, pair):
                    outcome.left.append((op.operation, remark))
        except WeftError as error:
            outcome.refused.extend(error.diagnostics)
    return outcome


def _replace(op: ir.Operation, pair: Pair) -> str:
    """Replaces upstream's operation by ours and returns "", or returns why it stays."""
    before = list(op.operands)
    draft = Draft(dict(_operands(op, pair)), discardable(op))
    for name, kind in pair.slots():
        if kind.endswith(_NUMBERS) and (values := draft.operands.pop(name)):
            number = constant(values[0])
            if number is None:
                raise refuse(op, f"expects {name} to be a constant, since the instruction takes an immediate")
            draft.attributes[name] = number
    for rule in pair.rules:
        rule.to_ours(op, draft)
    target = judging_target(op)
    chip = target.chip.name if target else None
    axes = {axis: draft.attributes[axis] for axis in pair.ours.family.axes if axis in draft.attributes}
    needed = {f.name for f in fields(pair.ours.family.form) if f.default is MISSING}
    form = pair.ours.family.form(**axes) if needed <= set(axes) else None
    if known := left_to_ptx(pair.ours.family, form, chip):
        return f"is legal; {known.reason}"
    groups = [draft.operands.get(f.name, []) for f in pair.ours._fields if isinstance(f, ext.OperandDef)]
    ours = build(
        pair.ours,
        operands=groups if pair.ours._ODS_OPERAND_SEGMENTS else [v for group in groups for v in group],
        results=[_single(result.type) or result.type for result in op.results],
        attributes=draft.attributes,
    )
    for old, new in zip(op.results, ours.operation.results, strict=True):
        _hand_over(old, new)
    op.erase()
    sweep(before)
    return ""


_NUMBERS = (":i32", ":i64")


def _operands(op: ir.Operation, pair: Pair) -> Iterator[tuple[str, list[ir.Value]]]:
    """Upstream's operands with our names."""
    slots, values = pair.slots(), list(op.operands)
    spare = len(values) - sum(not kind.startswith(("*", "?")) for _, kind in slots)
    segments = list(op.attributes["operandSegmentSizes"]) if pair.segmented else None
    for number, (name, kind) in enumerate(slots):
        count = segments[number] if segments else spare if kind.startswith(("*", "?")) else 1
        group, values = values[:count], values[count:]
        yield name, [_scalar(value) for value in group] if name in pair.vectors else group


def _single(kind: ir.Type) -> ir.Type | None:
    """The type of the only register in a struct or vector; None for several registers."""
    if isinstance(kind, llvm.StructType):
        return kind.body[0] if len(kind.body) == 1 else None
    return kind.element_type if isinstance(kind, ir.VectorType) and kind.shape == [1] else None


def _scalar(value: ir.Value) -> ir.Value:
    """The register in a vector of one element. A longer vector is returned unchanged."""
    if _single(value.type) is None:
        return value
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.name == "llvm.insertelement":
        return owner.operands[1]
    return llvm.extractelement(value, _index())


def _index() -> ir.Value:
    return llvm.mlir_constant(integer(32, 0))


def _hand_over(old: ir.Value, new: ir.Value) -> None:
    """Replaces the uses of `old` by `new`, which may be the only register of `old`'s struct or vector."""
    if old.type == new.type:
        old.replace_all_uses_with(new)
        return
    for user in [use.owner.operation for use in old.uses]:
        if user.name in ("llvm.extractvalue", "llvm.extractelement"):
            operands = list(user.operands)
            user.results[0].replace_all_uses_with(new)
            user.erase()
            sweep(operands[1:])
    if list(old.uses):
        old.replace_all_uses_with(_packed(old.type, new))


def _packed(kind: ir.Type, register: ir.Value) -> ir.Value:
    empty = llvm.mlir_undef(kind)
    if isinstance(kind, llvm.StructType):
        return llvm.insertvalue(empty, register, [0])
    return llvm.insertelement(empty, register, _index())


NVVM_TO_WEFT = Pass("nvvm-to-weft", "raise upstream's tensor-core operations to Weft's and verify them", run)
