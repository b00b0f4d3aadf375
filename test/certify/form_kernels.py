"""One kernel for a form, built from the dialects' operations, and what its PTX does with its operands."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from weft import passes
from weft.compiler import codegen, translation
from weft.dialects import DIALECTS, context, instruction_ops
from weft.dialects.instruction import struct_of
from weft.isa.family import Family, Form, Registers, operand_text, ptx_registers
from weft.isa.tables import HEADS
from weft.mlir import gpu, ir, llvm

OPERATIONS = {op.family.name: op for op in instruction_ops(DIALECTS)}
"""The operations that spell one instruction, by the name of their family."""


def module(chip: str, forms: Sequence[tuple[Family[Any], Form]]) -> Any:
    """A module with a kernel for each form: its registers are arguments of their own, what it returns is
    stored where the last arguments point. Raises WeftError where one isn't legal on `chip`.
    """
    with context(), ir.Location.unknown():
        built = ir.Module.create()
        with ir.InsertionPoint(built.body):
            holder = gpu.GPUModuleOp("m")
            target = ir.Attribute.parse(f'#nvvm.target<chip = "{chip}">')
            holder.operation.attributes["targets"] = ir.ArrayAttr.get([target])
            with ir.InsertionPoint(holder.bodyRegion.blocks.append()):
                for number, (family, form) in enumerate(forms):
                    _kernel(f"k{number}", OPERATIONS[family.name], form)
    return built


def _kernel(name: str, operation: Any, form: Form) -> None:
    inputs, results = _inputs(form), _results(form)
    groups = [[ir.Type.parse(o.type)] * o.count if o.role == "in" else [struct_of(o)] for o in inputs]
    types = [kind for group in groups for kind in group] + [ir.Type.parse("!llvm.ptr")] * len(results)
    spelled = f"!llvm.func<void ({', '.join(map(str, types))})>"
    function = llvm.LLVMFuncOp(name, ir.TypeAttr.get(ir.Type.parse(spelled)))
    function.operation.attributes["nvvm.kernel"] = ir.UnitAttr.get()
    block = ir.Block.create_at_start(function.operation.regions[0], types)
    with ir.InsertionPoint(block):
        left = list(block.arguments)
        attributes: dict[str, Any] = dict(immediates(form))
        for operand, group in zip(inputs, groups, strict=True):
            attributes["inouts" if operand.role == "inout" else operand.name] = left[: len(group)]
            del left[: len(group)]
        axes = {a: getattr(form, a) for a in operation.family.axes if a not in operation.derived}
        op = operation.make(**axes | attributes)
        values = [op] if isinstance(op, ir.Value) else list(op.operation.results)
        for value, slot in zip(values, left, strict=True):
            llvm.store(value, slot)
        llvm.return_()


def immediates(form: Form) -> dict[str, int]:
    """A legal value for each immediate, other than its default where there is another."""
    return {o.name: o.values[min(len(o.values) - 1, 5)] for o in form.operands if o.role == "immediate"}


def _inputs(form: Form) -> list[Registers]:
    return [o for o in form.operands if o.role in ("in", "inout")]


def _results(form: Form) -> list[Registers]:
    return [o for o in form.operands if o.role in ("out", "inout")]


def to_ptx(module: Any, chip: str, version: tuple[int, int]) -> str:
    """The PTX of such a module."""
    passes.manager("weft-to-llvm", module.context).run(module.operation)
    return codegen.to_ptx(translation.translate(module.body.operations[0]), chip, version).ptx


def kernels(ptx: str) -> list[str]:
    """The kernels of a text apart."""
    return ptx.split(".visible .entry ")[1:]


def wanted(form: Form) -> list[str]:
    """What `printed` must return: one instruction, whose registers are its operands' in order."""
    names = {o.name: [f"{o.name}:{i}" for i in range(ptx_registers(o)[1])] for o in form.operands}
    names |= {name: [str(value)] for name, value in immediates(form).items()}
    return [f"{form.ptx} {_dense(operand_text(form, names))}".strip()]


def printed(kernel: str, form: Form) -> list[str]:
    """The matrix instructions in the PTX of a kernel that `module` made for `form`. Registers are named after
    the argument that they hold a part of, or that specifies where they are stored: `a:3` is the fourth of a.
    """
    wires = _Wires(form)
    for opcode, operands in _statements(kernel):
        wires.follow(opcode, operands)
    return wires.shown()


def _statements(kernel: str) -> Iterator[tuple[str, str]]:
    body = kernel[kernel.index("{") :].partition("$L__func_end")[0]
    code = re.sub(r"^\s*(//|\.loc\b|\$L).*$", "", body, flags=re.MULTILINE)
    for statement in code.lstrip("{").split(";"):
        if statement.strip() and not statement.strip().startswith("."):
            opcode, _, operands = " ".join(statement.split()).partition(" ")
            yield opcode, operands


def _dense(operands: str) -> str:
    return "".join(operands.split())


_REGISTER = re.compile(r"%[a-z]+\d+")


class _Wires:
    """What each register of straight PTX holds: part of an argument, or what an instruction wrote."""

    def __init__(self, form: Form) -> None:
        self.updated = {o.name for o in form.operands if o.role == "inout"}
        self.bytes = {o.name: _bytes(o) for o in form.operands}
        self.arguments = [argument for o in _inputs(form) for argument in _arguments(o)]
        self.arguments += [(f"&{o.name}", 0) for o in _results(form)]
        self.holds: dict[str, str] = {}
        self.results: dict[str, str] = {}
        self.instructions: list[tuple[str, str]] = []

    def follow(self, opcode: str, operands: str) -> None:
        """The next instruction."""
        registers = _REGISTER.findall(operands)
        if opcode.partition(".")[0] in HEADS:
            shown = _REGISTER.sub(lambda m: self.holds.get(m.group(), f"<{m.group()}>"), _dense(operands))
            self.instructions.append((opcode, shown))
            for register in registers:
                held = self.holds.get(register)
                if held is None or held.partition(":")[0] in self.updated:
                    self.holds[register] = f"<{register}>"
                    self.results[f"<{register}>"] = held or ""
        elif opcode.startswith("ld.param"):
            self._load(opcode, operands, registers)
        elif opcode.startswith("st."):
            self._store(operands, registers)
        elif registers:
            target, *sources = registers
            self.holds[target] = "+".join(self.holds.get(r, "nothing") for r in sources) or "a constant"

    def _load(self, opcode: str, operands: str, registers: Sequence[str]) -> None:
        match = re.search(r"_param_(\d+)(?:\+(\d+))?\]", operands)
        assert match is not None, operands
        name, first = self.arguments[int(match[1])]
        at = int(match[2] or 0)
        for i, register in enumerate(registers):
            size = int(re.sub(r"\D", "", opcode.rpartition(".")[2])) // 8
            number = f":{first + (at + i * size) // self.bytes[name]}" if name in self.bytes else ""
            self.holds[register] = f"{name}{number}"

    def _store(self, operands: str, registers: Sequence[str]) -> None:
        pointer, *values = registers
        name = self.holds[pointer].removeprefix("&")
        at = int(next(iter(re.findall(r"\+(\d+)\]", operands)), 0))
        for i, register in enumerate(values):
            value, slot = self.holds[register], f"{name}:{at // self.bytes[name] + i}"
            # What was updated in place must be stored as the same register.
            self.results[value] = slot if self.results.get(value) in ("", slot) else f"{value}->{slot}"

    def shown(self) -> list[str]:
        """The instructions with names for registers."""
        updated = {old for old in self.results.values() if "->" in old}
        texts = (
            f"{opcode} {re.sub(r'<%[a-z0-9]+>', lambda m: self.results[m.group()], operands)}".strip()
            for opcode, operands in self.instructions
        )
        return [*texts, *updated]


def _bytes(operand: Registers) -> int:
    kind = ptx_registers(operand)[0]
    return 1 if kind == "pred" else int(re.sub(r"\D", "", kind)) // 8


def _arguments(operand: Registers) -> list[tuple[str, int]]:
    """The kernel's arguments that an input takes: the operand and the first of its registers, each."""
    if operand.role == "inout":
        return [(operand.name, 0)]
    each = ptx_registers(operand)[1] // operand.count
    return [(operand.name, i * each) for i in range(operand.count)]
