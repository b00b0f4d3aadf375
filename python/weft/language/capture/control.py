"""Executes captured loops and branches. Each decides by the value that it gets: over Python's own values they
are Python's, over values of the GPU they build `scf` operations.

The loops and branches of the GPU trace their bodies once. Names that the body assigns are carried if they
hold values of the GPU before it. Rings move on too: their positions are carried like a name's value.
"""

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import Any

from weft.dialects import tile
from weft.dialects.op import as_attribute
from weft.language.capture import carried, trace, tracing_state
from weft.language.capture.branch_values import BranchValues
from weft.language.capture.carried import Unbound
from weft.language.capture.loop_values import LoopNames, LoopValues, common_type
from weft.language.capture.mutation import Region, taking
from weft.language.capture.origins import alike, computed_from
from weft.language.capture.python_objects import Scope
from weft.language.capture.returns import LEFT
from weft.language.messages.mistakes import mistake
from weft.language.operations.queues import Queue
from weft.language.operations.ranges import Part, Range
from weft.language.values.dtypes import NUMBERS
from weft.language.values.scalars import Scalar, as_scalar, condition
from weft.mlir import arith, ir, nvvm, scf
from weft.passes.builders import emit


class Attempt:
    """Keeps or undoes the operations and changes in place from now on. Outside of kernels it does nothing."""

    def __init__(self, scope: Scope) -> None:
        self._first = None
        if tracing_state.is_tracing():
            current = trace.current()
            self._first = emit.constant(emit.i32(), 0).owner
            self._noted = [(each, len(each)) for each in current.operations()]
            self._positions = current.positions()
            self._region = Region(scope)

    def keep(self) -> None:
        """Leaves the operations where they are."""
        if self._first is not None:
            self._first.erase()

    def discard(self) -> None:
        """Erases the operations: those with effects would run once more. Raises WeftError if objects have
        changed that aren't made in the kernel.
        """
        self._region.changes()
        self._region.restore()
        point = ir.InsertionPoint.current
        built = list(point.block.operations)
        end = len(built) if point.ref_operation is None else built.index(point.ref_operation)
        for operations, count in self._noted:
            del operations[count:]
        for each in reversed(built[built.index(self._first) : end]):
            each.operation.erase()
        trace.current().restore(self._positions)


_AFTER = (
    "in a 'with' block, assign the condition to a name, and write '{}' after the block; and the loop must "
    "have neither 'return' nor 'else'"
)
_IN_PLACE = {
    "return": "put what follows under the opposite condition, and return a value at the end",
    "return in a loop": "assign the result to a name, write 'break', and return after the loop",
}
_NO_ELSE = "a loop of the GPU can't have an 'else': put that after the loop"
_LOOP_NUMBER = "is the number of a loop of the GPU, and has no value after it"

Names = tuple[str, ...]


class _Construct:
    """A loop or branch; `traced` if it is one of the GPU."""

    traced = False

    def leave(self, word: str, *loops: "_Construct") -> None:
        """Refuses `break`, `continue` and `return` where the GPU decides whether they run. `loops` are those
        that they leave.
        """
        if self.traced:
            word_there = f"{word}{' in a loop' * bool(loops)}"
            instead = _IN_PLACE.get(word_there, _AFTER.format(word))
            raise mistake(f"'{word}' can't leave a loop or branch of the GPU: {instead}")


def failing(*around: _Construct) -> None:
    """Refuses a failure where the GPU decides whether it happens: `around` are the loops and branches, from
    the innermost one on. In a branch that Python takes, it is one of the kernel as it is traced.
    """
    for each in around:
        if each.traced:
            raise mistake(
                "an error of Python can't depend on a condition of the GPU, since it would be raised while "
                "the kernel is traced: use w.check(condition, message), which stops the kernel"
            )
        if isinstance(each, Branch):
            return


def _rebuild(op: ir.OpView, operands: list[ir.Value], results: list[ir.Type]) -> ir.Operation:
    """A new operation in place of one, with its regions, but other operands and results."""
    old = op.operation
    new = ir.Operation.create(
        old.name,
        results=results,
        operands=operands,
        attributes=dict(old.attributes.items()),
        regions=len(op.regions),
        loc=op.location,
    )
    for source, target in zip(op.operation.regions, new.regions, strict=True):
        for block in list(source.blocks):
            block.append_to(target)
    op.operation.erase()
    return new


def _as_before(values: Iterable[ir.Value], before: Iterable[ir.Value]) -> list[ir.Value]:
    """Values with the types of those that they replace: the layouts of tiles may have been decided since."""
    pairs = zip(values, before, strict=True)
    return [one if one.type == other.type else tile.convert_layout(one, other.type) for one, other in pairs]


def _while_op(initial: list[ir.Value]) -> tuple[ir.OpView, ir.Block, ir.Block]:
    """A loop that carries values, with its blocks: of the condition, and the body."""
    kinds = [part.type for part in initial]
    op = scf.WhileOp(kinds, initial)
    location = [op.location] * len(kinds)
    return op, *(region.blocks.append(*kinds, arg_locs=location) for region in (op.before, op.after))


class Loop(_Construct):
    """`for`: over `w.range` one of the GPU, over anything else Python's."""

    _before: LoopValues

    def __init__(self, over: Any, names: LoopNames, has_else: bool) -> None:
        self.over, self.names, self._every = over, names.assigned, names
        self.traced = isinstance(over, (Range, Queue))
        self._left = 0  # iterations of the body that are still to be traced
        self._entered = False
        self._between = dict[str, object]()  # the names' values between two loops over parts of the numbers
        if self.traced and has_else:
            raise mistake(_NO_ELSE)

    def __iter__(self) -> Iterator[object]:
        if not self.traced:
            if isinstance(self.over, Scalar):
                raise mistake(f"can't loop over {self.over}: write 'for i in w.range(n)'")
            yield from taking(self.over)
            return
        trace.current()
        parts = list(self.over.loops())
        for number, part in enumerate(parts):
            if number:
                self._between = dict(zip(self.names, self._before.after(iter(self._results)), strict=True))
            yield from self._numbers(part)

    def _numbers(self, part: Part) -> Iterator[object]:
        """The numbers of an iteration of a loop, in which its body is traced."""
        self._op = scf.ForOp(part.begin, part.end, part.step, [])
        if self.over.stages is not None:
            self._op.operation.attributes["stages"] = as_attribute(self.over.stages)
        self._block, self._left = self._op.body, len(part.distances)
        for distance in part.distances:
            with nullcontext() if self._entered else ir.InsertionPoint(self._block):
                number = emit.value(emit.add(self._op.induction_variable, distance))
                item = self.over.item(Scalar(number))
            yield item
        assert not self._entered

    def begin(self, scope: Scope) -> tuple[object, ...]:
        """Enters the body. Returns the names' values in it."""
        if self._entered:  # already, for the number before
            return tuple(scope.get(name, Unbound(name, "has no value here")) for name in self.names)
        self._entered = True
        self._before = LoopValues(self._every, {**scope, **self._between})
        self._initial = self._before.begin()
        bounds = alike(*list(self._op.operation.operands)[:3])
        self._point = trace.current().enter(self._block, loop=True, alike=bounds)
        location = self._op.location
        self._arguments = [self._block.add_argument(part.type, location) for part in self._initial]
        return self._before.gives(iter(self._arguments))

    def has_left(self, left: object) -> bool:
        """Whether Python leaves the loop at the end of an iteration: a `break` has set its name."""
        return not self.traced and left is True

    def end(self, scope: Scope) -> None:
        """Leaves the body, at its end."""
        self._left -= 1
        if self._left:
            return
        self._entered = False
        new = _as_before(self._before.ended(scope), self._arguments)
        changed = [n for n, (a, b) in enumerate(zip(self._arguments, new, strict=True)) if a != b]
        scf.yield_([new[n] for n in changed])
        trace.current().leave(self._point)
        for number, (argument, initial) in enumerate(zip(self._arguments, self._initial, strict=True)):
            if number not in changed:
                argument.replace_all_uses_with(initial)
        for number in reversed([n for n in range(len(new)) if n not in changed]):
            self._block.erase_argument(number + 1)
        operands = [*list(self._op.operation.operands)[:3], *(self._initial[n] for n in changed)]
        loop = _rebuild(self._op, operands, [self._initial[n].type for n in changed])
        results = list(self._initial)
        for number, result in zip(changed, loop.results, strict=True):
            results[number] = result
        self._results = results

    def after(self) -> tuple[object, ...]:
        """The names' values after the loop."""
        values = self._before.after_all(self._results)
        return (*values, *(Unbound(name, _LOOP_NUMBER) for name in self._every.targets))


class QueueLoop(Loop):
    """`for` over `w.tile_queue`: the next number comes at the end of an iteration."""

    def __iter__(self) -> Iterator[object]:
        self._first = self.over.first()
        self._op, self._test, self._block = _while_op([self._first])
        with ir.InsertionPoint(self._block):
            item = self.over.item(Scalar(self._block.arguments[0]))
        yield item

    def begin(self, scope: Scope) -> tuple[object, ...]:
        self._before = LoopValues(self._every, scope)
        self._initial = self._before.begin()
        for part in self._initial:
            for block in (self._test, self._block):
                block.add_argument(part.type, self._op.location)
        with ir.InsertionPoint(self._test):
            number, *rest = arguments = list(self._test.arguments)
            test = scf.ConditionOp(self._goes_on(emit.less(number, self.over.end), rest), arguments)
        self._point = trace.current().enter(self._block, loop=True, alike=self._alike(test.condition))
        values = self._before.gives(iter(list(self._block.arguments)[1:]))
        self.over.ask()
        return values

    def _goes_on(self, has_number: ir.Value, _: list[ir.Value]) -> ir.Value:
        """Whether the next iteration runs."""
        return has_number

    def _alike(self, _: ir.Value) -> bool | None:
        return None

    def end(self, scope: Scope) -> None:
        parts = self._before.ended(scope, lambda: [self.over.following()])
        scf.yield_(_as_before(parts, self._block.arguments))
        trace.current().leave(self._point)
        operands = [self._first, *self._initial]
        loop = _rebuild(self._op, operands, [each.type for each in operands])
        self._results = list(loop.results)[1:]


class _Counted:
    """The numbers of `w.range`, one after the other."""

    def __init__(self, over: Range) -> None:
        if over.unroll != 1 or over.stages is not None:
            raise mistake("a loop that 'break' leaves can have neither unroll nor stages: leave them out")
        self._over = over
        (self._part,) = over.loops()
        self.first, self.end = lambda: self._part.begin, self._part.end

    def item(self, number: Scalar) -> object:
        """The value of the loop's variable, from a number."""
        self._number = number
        return self._over.item(number)

    def ask(self) -> None:
        """The next number needs no time."""

    def following(self) -> ir.Value:
        """The next number."""
        return emit.value(emit.add(self._number.value, self._part.step))


class LeftLoop(QueueLoop):
    """`for` over `w.range` that a `break` leaves: `left` is the name that has whether it did."""

    def __init__(self, over: Range, names: LoopNames, left: str) -> None:
        super().__init__(over, names, False)
        self.over, self._at = _Counted(over), names.assigned.index(left)

    def begin(self, scope: Scope) -> tuple[object, ...]:
        values = super().begin(_with_flags(scope))
        return (*values[: self._at], False, *values[self._at + 1 :])  # in the body, it hasn't yet

    def _goes_on(self, has_number: ir.Value, rest: list[ir.Value]) -> ir.Value:
        return arith.andi(has_number, (~self._before.gives(iter(rest))[self._at]).value)

    def _alike(self, test: ir.Value) -> bool:
        return alike(test)


def _with_flags(scope: Scope) -> dict[str, object]:
    """The values of names. Those that `break` sets are of the GPU."""
    return {
        name: as_scalar(False) if name.startswith(LEFT) and each is False else each
        for name, each in scope.items()
    }


def loop(
    over: object,
    names: Names,
    changed: Names,
    passed: Names,
    targets: Names,
    has_else: bool,
    left: str | None,
) -> Loop:
    """The loop of a captured `for`; `left` is the name that has whether a `break` has left it."""
    every = LoopNames(names, changed, passed, targets)
    if isinstance(over, Queue):
        if left is not None:
            raise mistake("'break' can't leave a loop over w.tile_queue: put the rest under a condition")
        return QueueLoop(over, every, has_else)
    return LeftLoop(over, every, left) if isinstance(over, Range) and left else Loop(over, every, has_else)


class While(_Construct):
    """`while`: with a condition of the GPU one of the GPU, otherwise Python's."""

    _attempt: Attempt
    _first: dict[str, object]

    def __init__(self, names: Names, changed: Names, passed: Names, has_else: bool) -> None:
        self.names, self._has_else = names, has_else
        self._every = LoopNames(names, changed, passed)

    def attempt(self, scope: Scope) -> bool:
        """Begins the condition."""
        self._first = {name: scope[name] for name in self.names if name in scope}
        self._attempt = Attempt(scope)
        return True

    def test(self, value: object) -> bool:
        """Whether Python runs the body. The condition of a loop of the GPU is built again inside of it."""
        truth = condition(value)
        if isinstance(truth, bool):
            self._attempt.keep()
            return truth
        if self._has_else:
            raise mistake(_NO_ELSE)
        self._attempt.discard()
        self.traced = True
        return True

    def begin(self, scope: Scope) -> tuple[object, ...]:
        """Enters the part of the loop that computes its condition."""
        others = {name: value for name, value in scope.items() if name not in self.names}
        self._before = LoopValues(self._every, _with_flags(others | self._first))
        self._op, self._test, self._body = _while_op(self._before.begin())
        self._point = trace.current().enter(self._test)
        return self._before.gives(iter(self._test.arguments))

    def condition(self, value: Scalar, scope: Scope) -> None:
        """Ends that part, with the condition."""
        parts = self._before.taken(scope, "in the condition of a loop of the GPU")
        test = scf.ConditionOp(as_scalar(value).value, _as_before(parts, self._test.arguments))
        self._alike = alike(test.condition)
        trace.current().leave(self._point)

    def body(self) -> tuple[object, ...]:
        """Enters the body. Returns the names' values in it."""
        self._point = trace.current().enter(self._body, loop=True, alike=self._alike)
        return self._before.gives(iter(self._body.arguments))

    def end(self, scope: Scope) -> None:
        """Leaves the body, at its end."""
        scf.yield_(_as_before(self._before.ended(scope), self._body.arguments))
        trace.current().leave(self._point)

    def after(self) -> tuple[object, ...]:
        """The names' values after the loop."""
        return tuple(self._before.after_all(self._op.results))


class Branch(_Construct):
    """`if`: on a condition of the GPU both sides are traced, otherwise Python takes one."""

    def __init__(self, value: object, names: Names, again: Names = (), assigned: Names = ()) -> None:
        """`again` are names that aren't carried, but that the other side reads as they were before;
        `assigned` are all that the sides assign.
        """
        truth = condition(value)
        self._again, self._assigned = again, assigned
        self.names, self.traced = names, not isinstance(truth, bool)
        self.then = self.traced or truth
        self.otherwise = self.traced or not truth
        self._condition: Any = truth

    def begin(self, scope: Scope) -> None:
        """Enters the side where the condition is true."""
        self._values = BranchValues(self.names, self._again, self._assigned, scope)
        self._op = scf.IfOp(self._condition.value, has_else=True)
        self._point = trace.current().enter(self._op.then_block, alike=alike(self._op.condition))
        self._known = trace.current().multiplier.known()

    def end_then(self, scope: Scope) -> tuple[object, ...]:
        """Leaves it and enters the other side. Returns the names' values before the branch."""
        self._leave_side(scope)
        self._point = trace.current().enter(self._op.else_block, alike=alike(self._op.condition))
        trace.current().restore(self._values.positions)
        multiplier = trace.current().multiplier
        before, self._known = self._known, multiplier.known()
        multiplier.restore(before)
        return (*self._values.before, *self._values.kept)

    def end_else(self, scope: Scope) -> None:
        """Leaves the other side."""
        self._leave_side(scope)
        self._values.leave()
        trace.current().multiplier.merge(self._known)

    def _leave_side(self, scope: Scope) -> None:
        self._values.end_side(scope)
        trace.current().leave(self._point)

    def after(self) -> tuple[object, ...]:
        """The names' values after the branch."""
        self._values.merge(self._numbers)
        pairs = self._values.pairs
        changed = [n for n, (one, other) in enumerate(pairs) if one != other]
        like = [pairs[n][tile.is_free(pairs[n][0])] for n in changed]
        for block, side in ((self._op.then_block, 0), (self._op.else_block, 1)):
            with ir.InsertionPoint(block):
                scf.yield_(_as_before([pairs[n][side] for n in changed], like))
        branch = _rebuild(self._op, [self._condition.value], [each.type for each in like])
        results = [one for one, _ in pairs]
        for number, result in zip(changed, branch.results, strict=True):
            results[number] = result
        return tuple(self._values.after(results))

    def _numbers(self, one: object, other: object) -> tuple[object, object]:
        """The values of both sides. Numbers of Python that differ, or that have a number of the GPU beside
        them, become values of the GPU.
        """
        with ir.InsertionPoint(self._op):
            one, other = (
                # A side without a value gets one of the same kind, which nothing reads.
                carried.mapped(second, lambda each: each.settled().of_zeros())
                if isinstance(first, Unbound)
                else first
                for first, second in ((one, other), (other, one))
            )
        if (dtype := common_type(one, other)) is None:
            return one, other
        with ir.InsertionPoint(self._op):
            first, second = (
                as_scalar(each, dtype) if isinstance(each, NUMBERS) else each for each in (one, other)
            )
        return first, second


class Ending(Branch):
    """`if` with a return at its end, before the roles of a kernel: on a condition of the GPU, it ends all
    threads of the CTA.
    """

    def __init__(self, value: object, again: Names, *around: Branch) -> None:
        super().__init__(value, (), again)
        self._around = around

    def begin(self, scope: Scope) -> None:
        """Enters the branch."""
        self._check()
        super().begin(scope)

    def _check(self) -> None:
        if trace.current().roles:
            raise mistake("a return must be before the first role of a kernel, or in a branch of a role")
        conditions = (each._condition for each in (self, *self._around) if each.traced)
        if any(computed_from(each.value, "gpu.thread_id") for each in conditions):
            raise mistake(
                "a return before roles ends all threads of the CTA, so its condition can't depend on "
                "w.thread(): put the branch into the role"
            )

    def ends(self) -> bool:
        """Whether the function returns at the end of a branch that Python takes. In a branch of the GPU, the
        kernel ends there instead, and what follows is traced.
        """
        if not any(each.traced for each in self._around):
            return True
        self._check()
        nvvm.exit()
        return False

    def end_then(self, scope: Scope) -> tuple[Scalar, ...]:
        """Ends the kernel and leaves the branch. Returns the names' values before it."""
        self._values.undo()
        nvvm.exit()
        scf.yield_([])
        trace.current().leave(self._point)
        with ir.InsertionPoint(self._op.else_block):
            scf.yield_([])
        trace.current().restore(self._values.positions)
        trace.current().multiplier.restore(self._known)
        return tuple(self._values.kept)
