"""How many warpgroups release each stage of a ring, which `takers` must state."""

from typing import Any

from weft.errors import Diagnostic, Location, WeftError
from weft.ir import callers
from weft.isa.chips import WARPGROUP
from weft.language import roles, trace


class Takers:
    """The roles that release stages of a ring."""

    def __init__(self, name: str, stated: int) -> None:
        self._name, self._stated = name, stated
        self._warpgroups = dict[int, int]()  # of each role, by its first one
        self._where: Location | None = None
        self._known, self._always, self._alone = True, True, False
        self._barriers: list[Any] = []

    def note(self) -> None:
        """Notes that the warpgroups of the role release a stage."""
        current = trace.current()
        assert current.role is not None
        self._warpgroups[current.role.first] = current.role.warpgroups
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
        known = self._known and (self._always or len(self._warpgroups) == 1)
        if not known or count in (0, self._stated):
            return
        which = f"{count} warpgroups release" if count > 1 else "1 warpgroup releases"
        remedy = f"write takers={count} in w.ring"
        if self._alone:
            which = f"a thread of each of {count} warpgroups releases"
            remedy = "let one of them take it, in a role of its own"
        message = f"ring '{self._name}' has takers={self._stated}, and {which} each stage: {remedy}"
        raise WeftError(Diagnostic(message, self._where))
