"""Products whose sums are added up over all GPUs, all of which get them."""

from collections.abc import Sequence
from math import prod

from weft.distributed import scatter, small_kernels
from weft.distributed.devices import Array
from weft.distributed.plans import Function, Plan
from weft.distributed.products import TeamProduct
from weft.distributed.teams import Team
from weft.launch import arrays
from weft.launch.arrays import ArrayView

_MOST_SENT = 4 << 20  # bytes that a rank sends to all others
_FLAG = 4


def planned(product: TeamProduct, team: Team) -> Plan:
    """The plan by which sums of this size come fastest: a function of shapes alone."""
    sent = product.a[0] * product.n * arrays.numpy_dtype(product.sums).itemsize
    if product.a[0] % team.size or sent * (team.size - 1) <= _MOST_SENT:
        return _OneShot(product, team)
    return _TwoShot(product, team)


class _OneShot(scatter.Sums):
    """Each rank sends its sums to all others, which add them up."""

    def __init__(self, product: TeamProduct, team: Team) -> None:
        super().__init__(product, team, 1, product.a[0])


class _TwoShot(scatter.Scatter):
    """Each rank adds up its rows of the sums, and then copies the others' rows from them.

    The rows are in one piece of memory. A rank writes them when the sums of all others have come, whose
    kernels begin after they have copied the rows of the call before.
    """

    def __init__(self, product: TeamProduct, team: Team) -> None:
        super().__init__(product, team)
        self._meeting = small_kernels.meeting(team.devices.chip)
        self._bytes = prod(self.shape) * arrays.numpy_dtype(product.out).itemsize
        self._meet = team.counted("meeting", _FLAG, team.size * _FLAG)
        self._rows = team.rows(self._bytes)

    def run(self, operands: Sequence[Array]) -> Array:
        team, devices, meet = self.team, self.team.devices, self._meet
        queue, rows = devices.caller(), self.shape[0]
        out = devices.empty((self.product.a[0], self.product.n), operands[0], self.product.out)
        own = devices.array(self._rows[team.rank], self.shape, self.product.out)
        first, last = team.rank * rows, (team.rank + 1) * rows
        roles = "a", "b", *(role for role, *_ in self.product.added)
        named = zip(roles, operands, strict=True)
        of_own_rows = [x[first:last] if role == "residual" else x for role, x in named]
        self.add(queue, of_own_rows, own)
        self.start(queue, self._meeting, (), (meet.flags, meet.peers, meet.state), self._flags)
        to = devices.of(out)
        for step in range(team.size):
            rank = (team.rank + step) % team.size
            source = self._rows[rank].part(0, self._bytes)
            queue.copy(to.part(rank * self._bytes, self._bytes), source)
        return out

    def _flags(self) -> list[ArrayView]:
        """The arguments of the kernel in which ranks meet."""
        return [self._meet.flags.view((self.team.size,), "i32"), *self._meet.views()]


FUNCTION = Function("matmul_all_reduce", planned, lambda rows, _: rows)
