"""Stages of a ring that a role has taken, or writes, and how many warpgroups release each of them."""

from collections.abc import Iterator
from typing import Any

from weft.errors import Diagnostic, Location, WeftError
from weft.ir import callers
from weft.isa.chips import WARPGROUP
from weft.isa.suggest import did_you_mean
from weft.language.capture import trace
from weft.language.capture.carried import Carried
from weft.language.messages.mistakes import at, mistake
from weft.language.operations import roles
from weft.language.values.buffers import Buffer
from weft.mlir import ir


class Takers:
    """The roles that release stages of a ring."""

    def __init__(self, name: str, stated: int) -> None:
        self._name, self._stated = name, stated
        self._warpgroups = dict[int, int]()  # of each role, by its first one
        self._where: Location | None = None
        self._known, self._always, self._alone = True, True, False
        self._barriers: list[ir.OpView] = []

    def note(self, *, own: bool = False) -> None:
        """Notes that the warpgroups of the role release a stage, or each its `own`."""
        current = trace.current()
        assert current.role is not None
        self._warpgroups[current.role.first] = 1 if own else current.role.warpgroups
        self._where = self._where or callers.here()
        self._known &= current.alike
        self._always &= not current.in_branch
        self._alone |= current.one_thread

    def meet(self) -> None:
        """Lets the warps of each warpgroup wait for each other before one thread releases a stage for them.
        It could be filled again before the last one has seen that it was full, which would wait forever.
        """
        role = trace.current().role
        assert role is not None
        self._barriers.append(roles.meet(roles.own_barrier(role), WARPGROUP))

    def part(self) -> None:
        """Removes the barriers of `meet`, where no thread releases for other warps."""
        for each in self._barriers:
            each.operation.erase()

    def check(self) -> None:
        """Raises WeftError unless as many warpgroups release each stage as was stated. It isn't known where
        only some of a role may, or some roles in place of others.
        """
        count = sum(self._warpgroups.values())
        is_known = self._known and (self._always or len(self._warpgroups) == 1)
        if not is_known or count in (0, self._stated):
            return
        which = f"{count} warpgroups release" if count > 1 else "1 warpgroup releases"
        remedy = f"write takers={count} in w.ring"
        if self._alone:
            which = f"a thread of each of {count} warpgroups releases"
            remedy = "let one of them take it, in a role of its own"
        message = f"ring '{self._name}' has takers={self._stated}, and {which} each stage: {remedy}"
        raise WeftError(Diagnostic(message, self._where))


class Slot(Carried):
    """A stage that was taken. Its buffers are attributes; it is released at the end of a `with`."""

    def __init__(self, ring: Any, stage: ir.Value, phase: ir.Value) -> None:
        self.ring, self.stage, self._phase = ring, stage, phase
        self.where = callers.here()
        self.held = True
        self.taken = True
        self.written = False  # as a stage of `ring.write()`
        self.full = True  # or a wait comes, before it is read or released
        self._released: Location | None = None
        self._product: tuple[int, Location | None] | None = (
            None  # the last one that reads it, and where that starts
        )
        self._awaited: int | None = None  # after how many meetings; None where an iteration before waited

    def __getattr__(self, name: str) -> Buffer:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self.ring.kinds:
            meant = did_you_mean(name, self.ring.kinds)
            raise mistake(f"a stage of this ring has {self.ring.name}, got '{name}'{meant}")
        self._check_held()
        return self.ring.buffer(name, self.stage, self)

    def _check_held(self) -> None:
        if self._released is not None:
            raise mistake(f"this stage was released{at(self._released)}, and may hold other data by now")

    def ready(self) -> None:
        """Waits until the stage is full, where `take` didn't."""
        if not self.taken:
            raise mistake("this stage wasn't taken: only one from take() can be waited for")
        self._check_takers("ready")
        self._check_held()
        self.ring.await_full(self.stage, self._phase)
        self.full, self._awaited = True, len(trace.current().meetings)

    def _check_takers(self, method: str) -> None:
        if trace.current().one_thread and not self.ring.taken_alone:
            raise mistake(f"whole warpgroups took this stage, so its {method}() can't be in w.one_thread()")

    def check_full(self, done: str) -> None:
        """Raises WeftError if no wait comes before the stage is read or released (`done`)."""
        if not self.full:
            raise mistake(
                f"this stage is {done} before it is full, since waits=False took it{at(self.where)}: call "
                "its ready() before"
            )

    def release(self) -> None:
        """Lets the stage be filled again. Products that read it must be finished."""
        if not self.taken:
            raise mistake("this stage wasn't taken: ready() only waits for it, and take() takes it")
        if self._released is not None:
            raise mistake(f"this stage was released already{at(self._released)}")
        self._check_takers("release")
        self.check_full("released")
        if self._product is not None and self._product[0] > trace.current().finished:
            started = self._product[1]
            raise mistake(
                f"the product{at(started)} that reads this stage may not be finished where the stage is "
                "released: w.wait for it before, at the latest in the 'with' block",
                ("the product starts here", started),
            )
        awaited = self._awaited
        self.ring.release(self.stage, awaited is not None and not trace.current().met_since(awaited))
        self.held, self._released = False, callers.here()

    def multiplied(self, product: int) -> None:
        """Notes that a product, by its number, reads the stage."""
        self._product = product, callers.here()

    def hand_over(self) -> None:
        """The next iteration releases it."""
        self.held = False

    def __enter__(self) -> "Slot":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and self._released is None:
            self.release()

    def parts(self) -> list[ir.Value]:
        return [self.stage, self._phase]

    def like(self, parts: Iterator[ir.Value]) -> "Slot":
        slot = Slot(self.ring, next(parts), next(parts))
        slot.where, slot.taken, slot._released = self.where, self.taken, self._released
        slot.held, slot.full = self.taken and self._released is None, self.full
        trace.current().holds(slot)
        return slot

    def complaint(self, other: "Slot") -> str | None:
        if other.ring is not self.ring:
            return f"was a stage of ring '{self.ring.name}' and becomes one of '{other.ring.name}'"
        for state, one, then in (
            ("released", self._released is not None, other._released is not None),
            ("taken", self.taken, other.taken),
            ("awaited", self.full or self._released is not None, other.full or self._released is not None),
        ):
            if one != then:
                states = [f"is {state}" if each else f"isn't {state}" for each in (one, then)]
                return f"{states[0]} before, and {states[1]} at the end"
        return None
