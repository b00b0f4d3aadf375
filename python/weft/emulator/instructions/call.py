"""Calls of functions by name, of functions through pointers, and of system functions.

Local memory that a thread allocates while it runs: alloca, stacksave and stackrestore.
"""

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import End, Step, Table
from weft.emulator.errors import Fault
from weft.emulator.instructions.system import system_call
from weft.emulator.memory.segments import STACK
from weft.emulator.reading.syntax import U64, Function, Name, Operand, Prototype, Register, Targets, Variable
from weft.emulator.running.function_code import FunctionCode
from weft.emulator.running.groups import CallSite, Group, Transfer
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.scheduler import Scheduler

table = Table()


@table.step("alloca")
def alloca(op: Op) -> Step:
    """`alloca d, size{, alignment}`: the local address of `size` new bytes."""
    kind = op.type("u32 u64")
    op.count(2, 3)
    align = op.immediate(2) if len(op.operands) == 3 else 8
    if align < 1 or align & (align - 1) or align > 4096:
        op.fail(f"the alignment must be a power of two in 1..4096, got {align}")
    result, size, line = op.destination(0, kind), op.source(1, kind), op.line

    def run(lanes: Lanes) -> None:
        sizes = lanes.read(size).astype(np.uint64)
        addresses = lanes.wave.memory.allocate_local(lanes, sizes, align, line)
        lanes.write(result, addresses.astype(kind.storage))

    return run


@table.step("stacksave")
def stacksave(op: Op) -> Step:
    kind = op.type("u32 u64")
    op.count(1)
    result = op.destination(0, kind)

    def run(lanes: Lanes) -> None:
        top = lanes.chosen(lanes.wave.memory.stack_top)
        lanes.write(result, (top + np.uint64(STACK)).astype(kind.storage))

    return run


@table.step("stackrestore")
def stackrestore(op: Op) -> Step:
    """Frees what was allocated since `stacksave`."""
    kind = op.type("u32 u64")
    op.count(1)
    source = op.source(0, kind)

    def run(lanes: Lanes) -> None:
        memory, threads = lanes.wave.memory, lanes.threads()
        saved = np.zeros(threads.shape, np.uint64)
        saved[lanes.row_numbers()] = lanes.read(source).astype(np.uint64) - np.uint64(STACK)
        memory.stack_top = np.where(threads & (saved < memory.stack_top), saved, memory.stack_top)

    return run


Actuals = tuple[Operand, ...]


@table.end("call")
def call(op: Op) -> End:
    """`call (results), function, (arguments)`; through a pointer, a prototype or table of targets follows."""
    op.flag("uni")
    op.count(1, 4)
    at = next((i for i, o in enumerate(op.operands) if isinstance(o, Name)), None)
    if at is None:
        op.fail("must name a function")
    results = op.group(0) if at == 1 else ()
    rest = op.operands[at + 1 :]
    if rest and isinstance(rest[-1], Name):
        rest = rest[:-1]
    arguments = op.group(at + 1) if rest else ()
    callee = op.operand(at)
    function = op.entity(callee) if isinstance(callee, Name) else None
    if not isinstance(function, Function):
        return _indirect(op, callee, arguments, results)
    code = op.code.callees.get(function.name)
    if code is None:
        step, after = system_call(op, function.name, arguments, results), op.next

        def run(scheduler: Scheduler, group: Group) -> int:
            step(group.lanes)
            return after

        return End(run, (after,))
    site = _site(op, code, arguments, results)
    return End(lambda scheduler, group: scheduler.call(group, site), (op.next,))


def _site(op: Op, code: FunctionCode, arguments: Actuals, results: Actuals) -> CallSite:
    formals, returns = code.function.params, code.function.returns
    if len(results) != len(returns) or len(arguments) != len(formals):
        op.fail(
            f"'{code.function.name}' has {len(formals)} parameters and {len(returns)} results, "
            f"got {len(arguments)} and {len(results)}"
        )
    into = [_transfer(op, a, f, code, True) for a, f in zip(arguments, formals, strict=True)]
    out = [_transfer(op, r, f, code, False) for r, f in zip(results, returns, strict=True)]
    return CallSite(code, op.block, op.next, into, out)


def _indirect(op: Op, callee: Operand, arguments: Actuals, results: Actuals) -> End:
    """Each thread calls the function whose address it has; threads with the same one go together."""
    if isinstance(callee, Name) and op.entity(callee) is None:
        op.fail(f"'{callee.text}' is not declared", callee.location)
    last = op.operands[-1]
    listed = op.entity(last) if isinstance(last, Name) else None
    if not isinstance(listed, Prototype | Targets):
        op.fail("expects a function, or a pointer with a prototype", callee.location)
    pointer, line, here = op.source(callee, U64), op.line, op.block
    sites = {
        code.function.address: _site(op, code, arguments, results)
        for code in op.code.pointed
        if len(code.function.params) == len(arguments) and _fits(op, code, arguments, results)
    }

    def run(scheduler: Scheduler, group: Group) -> int:
        lanes = group.lanes
        targets, enabled = lanes.read(pointer), lanes.enabled()
        target = int(targets[enabled][0])
        if target not in sites:
            what = f"calls 0x{target:x}, which must be the address of a function of that prototype"
            raise Fault(what, line, lanes.first(), target)
        same = enabled & (targets == np.uint64(target))
        if not np.array_equal(same, enabled):
            scheduler.part(group, same, here)
        return scheduler.call(group, sites[target])

    return End(run, (op.next,))


def _fits(op: Op, code: FunctionCode, arguments: Actuals, results: Actuals) -> bool:
    """Whether the arguments and results of a call have the sizes that a function expects."""
    if len(code.function.returns) != len(results):
        return False
    formals = (*code.function.params, *code.function.returns)
    for formal, actual in zip(formals, (*arguments, *results), strict=True):
        entity = op.entity(actual) if isinstance(actual, Name) else None
        if isinstance(formal, Variable) and not isinstance(entity, Variable):
            if formal.size != formal.type.bytes or _bits(entity) not in (0, formal.type.bits):
                return False
            continue
        if isinstance(entity, Variable) and not isinstance(formal, Variable):
            return False
        if isinstance(formal, Variable) and isinstance(entity, Variable) and formal.size != entity.size:
            return False
        registers = isinstance(formal, Register) and isinstance(entity, Register)
        if registers and _bits(formal) != _bits(entity):
            return False
    return True


def _bits(register: object) -> int:
    return register.type.bits if isinstance(register, Register) else 0


def _transfer(
    op: Op, actual: Operand, formal: Variable | Register, code: FunctionCode, into: bool
) -> Transfer:
    """From an argument to a parameter (`into`), or from the function's result to the caller's."""
    entity = op.entity(actual) if isinstance(actual, Name) else None
    if isinstance(formal, Register):
        inside = code.base + formal.index
        outside = op.source(actual, formal.type) if into else op.destination(actual, formal.type)
        return Transfer(outside, inside) if into else Transfer(inside, outside)
    if not isinstance(entity, Variable) and formal.size == formal.type.bytes:
        register = op.source(actual, formal.type) if into else op.destination(actual, formal.type)
        pair = (register, formal.offset) if into else (formal.offset, register)
        return Transfer(*pair, formal.size, "source" if into else "target")
    if not isinstance(entity, Variable) or not op.in_frame(entity) or entity.size != formal.size:
        op.fail(f"'{formal.name}' needs a .param variable of {formal.size} bytes", actual.location)
    ends = (entity.offset, formal.offset) if into else (formal.offset, entity.offset)
    return Transfer(*ends, formal.size)
