"""Branches, calls and exits."""

from typing import TYPE_CHECKING

import numpy as np

from weft.emulator.decode import FunctionCode, Op
from weft.emulator.ends import jump
from weft.emulator.errors import Fault
from weft.emulator.groups import CallSite, Group, Transfer
from weft.emulator.lanes import Lanes
from weft.emulator.steps import nothing
from weft.emulator.syntax import Function, Name, Operand, Register, Targets, Variable
from weft.emulator.table import End, Step, Table
from weft.emulator.types import U32

if TYPE_CHECKING:
    from weft.emulator.machine import Machine

table = Table()


@table.end("bra")
def bra(op: Op) -> End:
    op.flag("uni")
    op.count(1)
    return jump(op.label(op.operand(0)))


@table.end("brx.idx")
def brx(op: Op) -> End:
    """Branches to the entry of a table that each thread's index picks."""
    op.flag("uni")
    op.count(2)
    name = op.operand(1)
    listed = op.entity(name) if isinstance(name, Name) else None
    if not isinstance(listed, Targets):
        op.fail("expects a table of targets", name.place)
    targets = [op.label(target) for target in listed.names]
    index, line = op.source(0, U32), op.line

    def run(machine: "Machine", group: Group) -> int:
        while True:
            lanes = group.lanes
            values, enabled = lanes.read(index), lanes.enabled()
            first = int(values.flat[enabled.argmax()])
            if first >= len(targets):
                row, lane = divmod(int(enabled.argmax()), 32)
                thread = lanes.wave.thread(int(lanes.row_numbers()[row]), lane)
                raise Fault(f"brx.idx index {first} is past the {len(targets)} targets", line, thread)
            same = enabled & (values == first)
            if np.array_equal(same, enabled):
                return targets[first]
            rest = enabled & ~same
            machine.part(group, rest, targets[first])

    return End(run, tuple(targets))


@table.end("exit")
def exit_(op: Op) -> End:
    op.count(0)
    return End(lambda machine, group: machine.exit(group), ())


@table.end("ret")
def ret(op: Op) -> End:
    op.flag("uni")
    op.count(0)
    if op.code.function.is_entry:
        return End(lambda machine, group: machine.exit(group), ())
    return End(lambda machine, group: machine.leave(group), ())


@table.step("trap")
def trap(op: Op) -> Step:
    op.count(0)
    line = op.line

    def run(lanes: Lanes) -> None:
        row, lane = divmod(int(lanes.enabled().argmax()), 32)
        raise Fault("trap", line, lanes.wave.thread(int(lanes.row_numbers()[row]), lane))

    return run


@table.step("griddepcontrol", "setmaxnreg")
def no_effect(op: Op) -> Step:
    """A launch runs alone, and registers are plenty."""
    op.modifiers.clear()
    return nothing


@table.end("call")
def call(op: Op) -> End:
    """`call (results), function, (arguments)` of a function with a body."""
    op.flag("uni")
    op.count(1, 4)
    at = next((i for i, o in enumerate(op.operands) if _function(op, o) is not None), None)
    if at is None:
        op.fail("only calls functions by name")
    function = _function(op, op.operand(at))
    assert function is not None
    code = op.code.callees.get(function.name)
    if code is None:
        op.fail(f"'{function.name}' has no body")
    results = op.group(0) if at == 1 else ()
    arguments = op.group(at + 1) if len(op.operands) > at + 1 else ()
    if len(results) != len(code.function.returns) or len(arguments) != len(code.function.params):
        op.fail(f"'{function.name}' has {len(code.function.params)} parameters, got {len(arguments)}")
    into = [_transfer(op, a, f, code, True) for a, f in zip(arguments, code.function.params, strict=True)]
    out = [_transfer(op, r, f, code, False) for r, f in zip(results, code.function.returns, strict=True)]
    site = CallSite(code, op.block, op.next, into, out)
    return End(lambda machine, group: machine.call(group, site), (op.next,))


def _function(op: Op, operand: Operand) -> Function | None:
    entity = op.entity(operand) if isinstance(operand, Name) else None
    return entity if isinstance(entity, Function) else None


def _transfer(
    op: Op, actual: Operand, formal: Variable | Register, code: FunctionCode, into: bool
) -> Transfer:
    """From an argument to a parameter (`into`), or from the parameter that returns to the caller's."""
    entity = op.entity(actual) if isinstance(actual, Name) else None
    if isinstance(formal, Register):
        inside = code.base + formal.index
        outside = op.source(actual, formal.type) if into else op.destination(actual, formal.type)
        return Transfer(outside, inside) if into else Transfer(inside, outside)
    if not isinstance(entity, Variable) or not op.in_frame(entity) or entity.size != formal.size:
        op.fail(f"'{formal.name}' needs a .param variable of {formal.size} bytes", actual.place)
    ends = (entity.offset, formal.offset) if into else (formal.offset, entity.offset)
    return Transfer(*ends, formal.size)
