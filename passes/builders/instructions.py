"""The lowering of operations that are one instruction each, to an intrinsic or inline PTX by their rows."""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from weft.dialects.descriptor import DescriptorOp
from weft.dialects.instruction import struct_type
from weft.dialects.kinds import Kind
from weft.dialects.op import kind_of, refuse
from weft.isa.family import operand_text
from weft.isa.mma import UNSELECTABLE
from weft.mlir import arith, ext, ir, llvm, operations, vector
from weft.passes.analysis import active_threads
from weft.passes.registry.pass_ import rewrite

# LLVM's constraint letters for the registers of inline PTX.
LETTERS = {"i1": "b", "i16": "h", "i32": "r", "i64": "l", "f32": "f", "f64": "d"}
# Pointers are passed as integers: those into tensor memory have 32 bits.
_POINTERS = {"!llvm.ptr<6>": "i32", "!llvm.ptr<3>": "i64", "!llvm.ptr": "i64", "!llvm.ptr<1>": "i64"}
_PACKED = re.compile(r"vector<2xb?f16>")
_VECTOR = re.compile(r"vector<(\d+)x(\w+)>")
_WIDE = 16  # members of a struct


def first_sum(product: ir.OpView) -> int | None:
    """The number of the first of its named registers, if its sums are in any."""
    first = product.attribute("first_sum") if "first_sum" in product.optional else -1
    return None if first < 0 else int(first)


def sum_name(number: int | str = "") -> str:
    """A named register of sums."""
    return f"%sums{number}"


def lower_all(module: ir.Operation, kinds: Sequence[type[ir.OpView]]) -> None:
    """Lowers every operation of these classes."""
    ops = operations(module, *kinds)
    for op, wrong in active_threads.divided(ops):
        raise refuse(op, wrong)
    calls: dict[Kind, _Call | None] = {}
    chains = _Chains(ops)
    rewrite(module, dict.fromkeys(kinds, lambda op: _lower(op, calls, chains)))


def _lower(op: ir.OpView, calls: dict[Kind, "_Call | None"], chains: "_Chains") -> list[ir.Value]:
    """The values that replace an operation's results."""
    kind = kind_of(op.operation)
    if kind not in calls:
        calls[kind] = _call_of(op)
    call = calls[kind]
    if call is not None:
        return call.build(op.operation)
    return [_descriptor(op)] if isinstance(op, DescriptorOp) else _inline(op, op.form, chains)


@dataclass(frozen=True)
class _Call:
    """The call of an intrinsic that replaces each op of one kind.

    An argument is the number of an operand of the op, or the attribute of a constant.
    """

    arguments: Sequence[ir.Attribute | int]
    results: Sequence[ir.Type]
    attributes: Mapping[str, ir.Attribute]

    def build(self, op: ir.Operation) -> list[ir.Value]:
        """Builds the call that replaces `op`; its results."""
        operands = op.operands
        values = [operands[a] if isinstance(a, int) else llvm.mlir_constant(a) for a in self.arguments]
        # Upstream's own builder takes five times as long.
        name = llvm.CallIntrinsicOp.OPERATION_NAME
        call = ir.Operation.create(name, results=self.results, operands=values, attributes=self.attributes)
        return list(call.results)


def _call_of(op: ir.OpView) -> _Call | None:
    """The call of the intrinsic of an op's form: operands in the intrinsic's order, then its flags. None
    where the op doesn't become an intrinsic.
    """
    if isinstance(op, DescriptorOp) or not _has_intrinsic(op):
        return None
    form = op.form
    inputs = {operand.name: operand for operand in form.operands if operand.role != "out"}
    numbers, first = dict[str, list[int]](), 0
    for field in op._fields:
        if isinstance(field, ext.OperandDef):
            count = len(op.values(field.name))
            numbers[field.name] = list(range(first, first + count))
            first += count
    values = list[ir.Attribute | int]()
    for name in form.arguments:
        if inputs[name].role == "immediate":
            values.append(_constant(inputs[name].type, op.attribute(name)))
        else:
            values += numbers[name]
    values += [_constant(kind, value) for kind, value in form.immediates]
    attributes = {
        "intrin": ir.StringAttr.get(form.intrinsic),
        "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(values), 0]),
    }
    return _Call(values, [result.type for result in op.operation.results], attributes)


def _has_intrinsic(op: ir.OpView) -> bool:
    """Whether LLVM can select an intrinsic of the op's form on the chip that it generates code for."""
    if op.form.intrinsic is None or op.target is None:
        return op.form.intrinsic is not None
    chip = op.target.chip.generated_as
    return chip in op.family.table[op.form].chips and chip not in UNSELECTABLE.get(op.form, ())


def _constant(kind: str, value: int) -> ir.Attribute:
    """The attribute of a constant of an LLVM type."""
    return ir.IntegerAttr.get(ir.Type.parse(kind), value)


def _descriptor(op: DescriptorOp) -> ir.Value:
    """The word of the fields, with bits 4 to 17 of the pointer as the address. The half with the address is
    computed, so that the other half, a constant, stays in a register.
    """
    i32, word = ir.IntegerType.get_signless(32), op.fields.encode()
    if not op.has_address:
        return arith.constant(i32, _signed(word, 32))
    high, low = divmod(word, 1 << 32)
    shifted = arith.shrui(llvm.ptrtoint(i32, op.address), arith.constant(i32, 4))
    address = arith.andi(shifted, arith.constant(i32, (1 << 14) - 1))
    halves = arith.ori(address, arith.constant(i32, _signed(low, 32))), arith.constant(i32, _signed(high, 32))
    pair = vector.from_elements(ir.VectorType.get([2], i32), list(halves))
    return llvm.bitcast(ir.IntegerType.get_signless(64), pair)


def _signed(word: int, bits: int) -> int:
    """The same bits as a signed number, as MLIR's constants are."""
    return word - (1 << bits) if word >> (bits - 1) else word


def _inline(op: ir.OpView, form: Any, chains: "_Chains") -> list[ir.Value]:
    """The instruction as inline PTX, if it isn't part of that of a later one."""
    code = chains.taken(op) or _Assembly()
    code.add(op, form)
    if chains.continues(op):
        unused = llvm.mlir_undef(op.operation.result.type)
        chains.leave(unused, code if chains.adjoins(op) else _Assembly(code.built()))
        return [unused]
    left = iter(code.built())
    if first_sum(op) is not None:
        return [llvm.mlir_undef(op.operation.result.type)]
    return [join(each.type, left) for each in op.operation.results]


class _Assembly:
    """Inline PTX of one instruction, or of several that update the same registers. Operands that it updates
    are tied to its results.
    """

    def __init__(self, updated: Sequence[ir.Value] = ()) -> None:
        """`updated`: the values of the registers, if they are known."""
        self._tied = list(updated)
        self._kinds: list[str] = []  # of the results
        self._letters: list[str] = []
        self._values: list[ir.Value] = []
        self._lines: list[str] = []
        self._reaches_memory = False

    def add(self, op: ir.OpView, form: Any) -> None:
        """Adds an instruction. If it isn't the first, it updates all registers of those before."""
        names: dict[str, list[str]] = {}
        first, words = not self._lines, list[str]()
        named = first_sum(op)
        for operand in form.operands:
            if named is not None and operand.role == "inout":
                names[operand.name] = [sum_name(named + number) for number in range(operand.count)]
            elif operand.role in ("out", "inout"):
                if first and operand.role == "inout":
                    self._tied = self._tied or list(_split(op.inouts))
                added = _words(operand.type) * operand.count
                names[operand.name] = [f"${len(words) + number}" for number in range(len(added))]
                words += added
        if first:
            self._kinds, self._letters = words, [f"={LETTERS[word]}" for word in words]
        for operand in form.operands:
            if operand.role == "in":
                inputs = [word for value in op.values(operand.name) for word in _split(value)]
                names[operand.name] = [f"${len(self._letters) + number}" for number in range(len(inputs))]
                self._letters += [LETTERS[str(word.type)] for word in inputs]
                self._values += inputs
            elif operand.role == "immediate":
                names[operand.name] = [str(op.attribute(operand.name))]
        self._lines.append(f"{form.ptx} {operand_text(form, names)}".rstrip() + ";")
        self._reaches_memory |= _reaches_memory(form)

    def built(self) -> list[ir.Value]:
        """Builds it; its results."""
        # Tied inputs come last, because `$n` counts outputs and the other inputs. They are the first outputs.
        letters = [*self._letters, *map(str, range(len(self._tied)))]
        if self._reaches_memory:
            letters.append("~{memory}")
        return assembly("\n\t".join(self._lines), letters, self._values + self._tied, self._kinds)


_PURE = re.compile(
    r"(arith|vector)\.\w+|llvm\.(bitcast|ptrtoint|mlir\.\w+|extractvalue|insertvalue)|\w+\.descriptor"
)


class _Chains:
    """Operations that update the registers of each other's results, such as the products of a K block. Those
    that adjoin become one inline PTX, and others pass registers on: structs between them, and the members
    that LLVM would take out of them for each, would be most of the IR.
    """

    def __init__(self, ops: Sequence[ir.OpView]) -> None:
        self._left = dict[ir.Value, _Assembly]()
        continued = [op.operation for op in ops if _continues(op)]
        # Results, since the hash of an operation changes with its operands.
        self._continued = {each.result for each in continued}
        blocks = dict.fromkeys(each.block for each in continued)
        self._adjoining = {each for block in blocks for each in _adjoining(block, self._continued)}

    def continues(self, op: ir.OpView) -> bool:
        """Whether another operation of the same kind alone updates the registers of an operation's result."""
        return len(op.operation.results) == 1 and op.operation.result in self._continued

    def adjoins(self, op: ir.OpView) -> bool:
        """Whether the operation that continues one is added to its code."""
        return op.operation.result in self._adjoining

    def leave(self, result: ir.Value, code: _Assembly) -> None:
        """The code to which the operation that continues a result is added."""
        self._left[result] = code

    def taken(self, op: ir.OpView) -> _Assembly | None:
        """The code that an operation continues."""
        updated = getattr(op, "inouts", None)
        return None if updated is None else self._left.pop(updated, None)


def _continues(op: ir.OpView) -> bool:
    """Whether only an operation of the same kind, which becomes inline PTX too, updates the registers of an
    operation's result.
    """
    if len(op.operation.results) != 1 or len(uses := list(op.operation.result.uses)) != 1:
        return False
    user = uses[0].owner.opview
    if type(user) is not type(op) or (updated := getattr(user, "inouts", None)) is None:
        return False
    return updated == op.operation.result and not _has_intrinsic(user)


def _adjoining(block: ir.Block, continued: Container[ir.Value]) -> Iterator[ir.Value]:
    """Which of the `continued` results in a block come from operations with no effects between them and the
    next one, and with its source location.
    """
    last = None
    for operation in (op.operation for op in block.operations):
        if _PURE.fullmatch(operation.name):
            continue
        if last is not None and last.location == operation.location:
            (use,) = last.result.uses
            if use.owner == operation:
                yield last.result
        last = operation if len(operation.results) == 1 and operation.result in continued else None


def _reaches_memory(form: Any) -> bool:
    """Whether the instruction has an address or descriptor, so that no load or store may move across it."""
    inputs = [operand.type for operand in form.operands if operand.role == "in"]
    return any(kind in _POINTERS or kind == "i64" for kind in inputs)


def _words(kind: str) -> list[str]:
    """The registers that hold a value of an LLVM type."""
    if _PACKED.fullmatch(kind):
        return ["i32"]
    if match := _VECTOR.fullmatch(kind):
        return [match[2]] * int(match[1])
    return [_POINTERS.get(kind, kind)]


def _split(value: ir.Value) -> Iterator[ir.Value]:
    """The registers of a value: the members of a struct, the elements of a vector, a pair as 32 bits."""
    kind = str(value.type)
    if kind.startswith("!llvm.struct<("):
        for number, (text, member) in enumerate(_members(kind)):
            part = extract(member, value, number)
            if text in LETTERS:
                yield part
            else:
                yield from _split(part)
    elif _PACKED.fullmatch(kind):
        yield llvm.bitcast(ir.IntegerType.get_signless(32), value)
    elif _VECTOR.fullmatch(kind):
        index = ir.IntegerType.get_signless(32)
        for number in range(value.type.shape[0]):
            yield llvm.extractelement(value, llvm.mlir_constant(ir.IntegerAttr.get(index, number)))
    elif kind in _POINTERS:
        yield llvm.ptrtoint(ir.Type.parse(_POINTERS[kind]), value)
    else:
        yield value


def _members(struct: str) -> list[tuple[str, ir.Type]]:
    """The types of a struct's members, also as text."""
    texts = struct[len("!llvm.struct<(") : -2].split(", ")
    types = {text: ir.Type.parse(text) for text in set(texts)}
    return [(text, types[text]) for text in texts]


# Wide accumulators have hundreds of members; upstream's own builders take four times as long.


def extract(kind: ir.Type, struct: ir.Value, number: int) -> ir.Value:
    """A member, of this type, of a struct."""
    at = {"position": ir.DenseI64ArrayAttr.get([number])}
    name = llvm.ExtractValueOp.OPERATION_NAME
    return ir.Operation.create(name, results=[kind], operands=[struct], attributes=at).result


def _insert(struct: ir.Value, member: ir.Value, number: int) -> ir.Value:
    at = {"position": ir.DenseI64ArrayAttr.get([number])}
    name = llvm.InsertValueOp.OPERATION_NAME
    return ir.Operation.create(name, results=[struct.type], operands=[struct, member], attributes=at).result


def assembly(
    text: str, letters: Sequence[str], values: Sequence[ir.Value], kinds: Sequence[str]
) -> list[ir.Value]:
    """Builds inline PTX with these constraints; its results, of these types."""
    kind = _result_type(kinds)
    result = llvm.inline_asm(
        kind, list(values), text, ",".join(letters), has_side_effects=True, is_align_stack=False
    )
    if len(kinds) < 2:
        return [result] * len(kinds)
    types = {each: ir.Type.parse(each) for each in set(kinds)}
    return [extract(types[each], result, i) for i, each in enumerate(kinds)]


def _result_type(kinds: Sequence[str]) -> ir.Type | None:
    """The type of the results of inline PTX. A wide struct has a name: otherwise, LLVM IR writes all members
    wherever one is extracted, and these are nine tenths of a kernel's text.
    """
    if len(kinds) < _WIDE:
        return struct_type(kinds) if kinds else None
    runs = (f"{kind}x{len(list(run))}" for kind, run in groupby(kinds))
    return ir.Type.parse(f'!llvm.struct<"{".".join(runs)}", ({", ".join(kinds)})>')


def join(kind: ir.Type, words: Iterator[ir.Value]) -> ir.Value:
    """A value of a type from its next registers; the inverse of `_split`."""
    text = str(kind)
    if text.startswith("!llvm.struct<("):
        packed = llvm.mlir_undef(kind)
        for number, (name, member) in enumerate(_members(text)):
            packed = _insert(packed, next(words) if name in LETTERS else join(member, words), number)
        return packed
    if _PACKED.fullmatch(text):
        return llvm.bitcast(kind, next(words))
    if _VECTOR.fullmatch(text):
        index = ir.IntegerType.get_signless(32)
        packed = llvm.mlir_undef(kind)
        for number in range(kind.shape[0]):
            at = llvm.mlir_constant(ir.IntegerAttr.get(index, number))
            packed = llvm.insertelement(packed, next(words), at)
        return packed
    return next(words)
