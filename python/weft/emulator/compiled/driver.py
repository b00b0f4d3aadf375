"""The code that runs operations of blocks for one group, until the interpreter must go on."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]

from weft.emulator import native
from weft.emulator.compiled import exchanges
from weft.emulator.compiled.accesses import add_accesses
from weft.emulator.compiled.builder import I1, I8, I32, I64, POINTER, Code, Value
from weft.emulator.compiled.own_accesses import add_own_accesses
from weft.emulator.compiled.pieces import CHUNKS, SCRATCH
from weft.emulator.compiled.state import MOST_LOGGED, BlockPart, Field, Kind, Operand
from weft.emulator.compiled.touches import add_touches

FUNCTIONS = (
    "run",
    *("load_global", "store_global", "load_shared", "store_shared", "load_local", "store_local"),
    *("load_param", "load_const", "touch", "copy", *exchanges.NAMES),
)


@cache
def addresses() -> Mapping[str, int]:
    """The addresses of the functions."""
    return native.Library("driver", text, FUNCTIONS).addresses()


def text() -> str:
    """The LLVM IR of `run` and of the accesses."""
    module = ir.Module("driver")
    add_accesses(module)
    add_own_accesses(module)
    add_touches(module)
    exchanges.add_exchanges(module)
    _Driver(module).write()
    return str(module)


class _Driver(Code):
    """`run` gets the state of a machine. In the end, the state has the operation that the interpreter must
    run, or `ARRIVED`.
    """

    def __init__(self, module: ir.Module) -> None:
        super().__init__(module, "run", [POINTER], ir.VoidType())
        self.state = self.arguments[0]
        self.op, self.block = self.variable(self.field(Field.OP)), self.variable(self.field(Field.BLOCK))
        self.ops, self.blocks = self.field(Field.OPS, POINTER), self.field(Field.BLOCKS, POINTER)
        self.count = self.field(Field.COUNT)

    def field(self, which: Field, kind: Any = I64) -> Value:
        return self.load(self.state, which, kind)

    def write(self) -> None:
        b, target = self.b, self.variable(0)
        names = ("next", "step", "leave", "piece", "access", "exchange", "jump", "branch")
        parts = {n: self.function.append_basic_block(n) for n in names}
        b.branch(parts["next"])
        b.position_at_end(parts["next"])
        size = self.number(8 * len(Operand))
        operation = self.at(self.ops, b.mul(b.load(self.op, typ=I64), size), I8)
        choice = b.switch(self.load(operation, Operand.KIND), parts["leave"])
        for kind, name in {
            Kind.PIECE: "piece",
            Kind.LOAD: "access",
            Kind.STORE: "access",
            Kind.TOUCH: "access",
            Kind.COPY: "access",
            Kind.EXCHANGE: "exchange",
            Kind.JUMP: "jump",
            Kind.BRANCH: "branch",
        }.items():
            choice.add_case(self.number(kind), parts[name])
        b.position_at_end(parts["leave"])
        self._leave(arrived=0)
        b.position_at_end(parts["piece"])
        self._piece(operation)
        b.branch(parts["step"])
        b.position_at_end(parts["access"])
        self._access(operation, parts["leave"], parts["step"])
        b.position_at_end(parts["step"])
        self.add(self.op, 1)
        b.branch(parts["next"])
        for name in ("exchange", "jump", "branch"):
            b.position_at_end(parts[name])
            self._within_limit(parts["leave"])
            if name == "exchange":
                self._access(operation, parts["leave"], parts["jump"])
                continue
            if name == "jump":
                b.store(self.load(operation, Operand.TARGET), target)
            else:
                self._choose(operation, target, parts["leave"])
            self._arrive(b.load(target, typ=I64))
            b.branch(parts["next"])

    def _leave(self, arrived: int) -> None:
        self.store(self.b.load(self.op, typ=I64), self.state, Field.OP)
        self.store(self.b.load(self.block, typ=I64), self.state, Field.BLOCK)
        self.store(arrived, self.state, Field.ARRIVED)
        self.b.ret_void()

    def _piece(self, operation: Value) -> None:
        b, masks = self.b, self.field(Field.MASKS, POINTER)
        warps, scratch = self.field(Field.REGISTERS, POINTER), self.field(Field.SCRATCH, POINTER)
        with b.if_else(self.is_("!=", self.field(Field.WHOLE), 0)) as (whole, parts):
            with whole:
                self._call(operation, warps, scratch, masks, self.count)
            with parts, self.loop(self.count) as index:
                warp, lanes = self.at(warps, index, POINTER), self.at(masks, index, I32)
                mine = self.at(scratch, b.mul(index, self.number(SCRATCH)), I8)
                registers, saved = self.load(warp, 0, POINTER), self.field(Field.SAVED, POINTER)
                with self._written(operation) as (offset, size):
                    self._copy(self.at(saved, offset, I8), self.at(registers, offset, I8), size)
                self._call(operation, warp, mine, lanes, self.number(1))
                with self._written(operation) as (offset, size):
                    places = self.at(registers, offset, I8), self.at(saved, offset, I8)
                    self._restore(*places, size, self.load(lanes, 0, I32))

    def _call(self, operation: Value, warps: Value, scratch: Value, masks: Value, count: Value) -> None:
        kind = ir.FunctionType(ir.VoidType(), [*[POINTER] * 5, I64])
        function = self.load(operation, Operand.FUNCTION, kind.as_pointer())
        octets, chunks = self.field(Field.OCTETS, POINTER), self.b.mul(count, self.number(CHUNKS))
        offsets = self.load(operation, Operand.OFFSETS, POINTER)
        self.b.call(function, [warps, scratch, masks, octets, offsets, chunks])

    @contextmanager
    def _written(self, operation: Value) -> Iterator[tuple[Value, Value]]:
        """Runs for each register that a piece writes: its offset, and its bytes."""
        pairs = self.load(operation, Operand.SAVED, POINTER)
        with self.loop(self.load(operation, Operand.SAVED_COUNT)) as index:
            pair = self.at(pairs, self.b.mul(index, self.number(2)))
            yield self.load(pair), self.load(pair, 1)

    def _copy(self, to: Value, source: Value, size: Value) -> None:
        octets = ir.VectorType(I8, 32)
        with self.loop(self.b.lshr(size, self.number(5))) as at:
            self.b.store(
                self.b.load(self.at(source, at, octets), typ=octets, align=1), self.at(to, at, octets), 1
            )

    def _restore(self, registers: Value, saved: Value, size: Value, mask: Value) -> None:
        """Gives inactive lanes of a register their old values."""
        b = self.b
        active = b.bitcast(mask, ir.VectorType(I1, 32))
        for width in (8, 16, 32, 64, 128):
            kind = ir.VectorType(ir.IntType(width), 32)
            with self.when(self.is_("==", size, 4 * width)):
                old, new = (b.load(at, typ=kind, align=1) for at in (saved, registers))
                # Not a selection: LLVM would make a masked store of it, which is slow.
                changed = b.and_(b.xor(old, new), b.sext(active, kind))
                b.store(b.xor(old, changed), registers, 1)

    def _access(self, operation: Value, leave: Any, step: Any) -> None:
        kind = ir.FunctionType(I64, [POINTER] * 3)
        function = self.load(operation, Operand.FUNCTION, kind.as_pointer())
        done = self.b.call(function, [self.state, operation, operation])
        self.b.cbranch(self.is_("==", done, 0), leave, step)

    def _within_limit(self, leave: Any) -> None:
        """Leaves the end of a block that reaches the limit of instructions to the interpreter."""
        after = self.b.add(self.field(Field.INSTRUCTIONS), self._instructions())
        go = self.function.append_basic_block("go")
        self.b.cbranch(self.is_(">", after, self.field(Field.LIMIT)), leave, go)
        self.b.position_at_end(go)

    def _part(self, block: Value, which: BlockPart) -> Value:
        size = self.number(8 * len(BlockPart))
        return self.load(self.at(self.blocks, self.b.mul(block, size), I8), which)

    def _instructions(self) -> Value:
        return self.b.mul(self._part(self.b.load(self.block, typ=I64), BlockPart.LENGTH), self.count)

    def _choose(self, operation: Value, target: Value, leave: Any) -> None:
        """The block that all active lanes continue with. The interpreter divides groups of which only some
        lanes branch.
        """
        b = self.b
        some, differ = self.variable(0, I32), self.variable(0, I32)
        b.store(self.number(0, I32), some)
        b.store(self.number(0, I32), differ)
        warps, masks = self.field(Field.REGISTERS, POINTER), self.field(Field.MASKS, POINTER)
        octets = ir.VectorType(I8, 32)
        negated = b.sub(self.number(0, I32), b.trunc(self.load(operation, Operand.NEGATED), I32))
        with self.loop(self.count) as index:
            registers = self.load(warps, index, POINTER)
            place = self.at(registers, self.load(operation, Operand.PREDICATE), I8)
            held = b.load(place, typ=octets, align=1)
            bits = b.bitcast(b.icmp_unsigned("!=", held, ir.Constant(octets, None)), I32)
            mask = self.load(masks, index, I32)
            taken = b.and_(b.xor(bits, negated), mask)
            b.store(b.or_(b.load(some, typ=I32), taken), some)
            b.store(b.or_(b.load(differ, typ=I32), b.xor(taken, mask)), differ)
        none = self.is_("==", b.load(some, typ=I32), 0)
        together = b.or_(none, self.is_("==", b.load(differ, typ=I32), 0))
        go = self.function.append_basic_block("go")
        b.cbranch(together, go, leave)
        b.position_at_end(go)
        after, taken = self.load(operation, Operand.AFTER), self.load(operation, Operand.TARGET)
        b.store(b.select(none, after, taken), target)

    def _arrive(self, target: Value) -> None:
        """Counts the block that ends, and goes to `target`, unless another group may have to run first."""
        b = self.b
        block = b.load(self.block, typ=I64)
        self.add(self.at(self.state, Field.INSTRUCTIONS), self._instructions())
        self.add(self.at(self.field(Field.RUNS, POINTER), block), self.count)
        length = self._part(block, BlockPart.LENGTH)
        ticks = b.add(self.field(Field.TICKS), b.add(length, self.number(1)))
        self.store(ticks, self.state, Field.TICKS)
        b.store(target, self.block)
        b.store(self._part(target, BlockPart.FIRST), self.op)
        with self.when(self.is_("!=", self.field(Field.LOG), 0)):
            log, number = self.field(Field.LOG, POINTER), self.field(Field.LOGGED)
            entry = self.at(log, b.mul(number, self.number(2)))
            self.store(block, entry)
            self.store(ticks, entry, 1)
            self.add(self.at(self.state, Field.LOGGED), 1)
            with self.when(self.is_("==", number, MOST_LOGGED - 1)):
                self._leave(arrived=1)
        with self.when(self.is_("!=", self.field(Field.READY), 0)):
            met = self.is_("!=", self.load(self.field(Field.MARKS, POINTER), target, I8), 0)
            free = self.is_(">=", ticks, self.field(Field.HOLD))
            late = self.is_(">", ticks, self.field(Field.ROTATE))
            behind = self.more(self._part(target, BlockPart.RANK), self.field(Field.LOWEST))
            with self.when(b.or_(met, b.and_(free, b.or_(late, behind)))):
                self._leave(arrived=1)
        with self.when(self.is_(">", ticks, self.field(Field.STOP))):
            self._leave(arrived=1)
