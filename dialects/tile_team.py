"""`tile.team`: what the GPUs of a team exchange while each computes its part of a `tile.matmul`."""

from weft.dialects.effects import Pure
from weft.dialects.op import Op, Operand, Result
from weft.dialects.operand_roles import TEAM_ROLES, element_types
from weft.dialects.tile_types import Tile, matrix_complaint
from weft.mlir import ir

_TOGETHER = (
    ("gathered", "arrivals"),
    ("gathered", "arrivals", "peers"),
    ("partials", "signals", "peers"),
    ("partials", "signals", "peers", "bands"),
)


class ExchangeType(Tile.Type, name="exchange"):
    """The exchange between the GPUs of a team, from a `tile.team`."""


class TeamOp(Op, dialect=Tile, name="team", traits=[Pure]):
    """The exchange between the GPUs of a team in a product: the operand `team` of `tile.matmul`.

    `state` (i32) has this GPU's number, the number of the call, and the milliseconds after which a wait for a
    flag ends the kernel with an error.

    - `gathered` and `arrivals` (all-gather): product i of the batch D multiplies the A of GPU i. For this
      GPU, this is the operand A; otherwise it is matrix i of `gathered`, to which GPU i copies its A while
      the kernel runs. Rows arrive in `chunks` of equal size (the last may be smaller). Chunk j of matrix i
      has arrived when `arrivals[i, j]` (i32, batch x chunks) is at least the number of the call. `gathered`
      may have twice as many matrices: calls use its halves alternately. With f32 scales, `gathered_scales`
      has the scales of `gathered`. `state` has 4 elements. This GPU's rows are multiplied first, then those
      of the next GPUs, and then those from GPU 0 on.
    - With `peers` in addition, the kernel itself sends A to the other GPUs, as matrix i of their `gathered`,
      where i is this GPU's number, and sets their flags. It sends `chunks` slices of K with equal numbers of
      K blocks (the last may have fewer). `peers[j, 0]` and `peers[j, 1]` are the addresses of `gathered` and
      `arrivals` of GPU j. `state` has 4 + `chunks` elements; those after the first three must be 0 before the
      first call, since the kernel counts the calls there. The number of a call is one more than the count
      that its kernel finds.
    - `partials`, `signals` and `peers` (reduce-scatter): each GPU has all rows of A (a batch with one matrix
      for the rows of each GPU), but only a part of K. D has this GPU's rows of the sum of all products. The
      kernel rounds sums for rows of GPU i to the type of `partials`, stores them to memory of GPU i at
      `peers[i, 0]`, and then sets a flag at `peers[i, 1]` to the number of the call. Both have a slot for
      each GPU, tile and warpgroup. For its own rows, the kernel waits for the flags in `signals`, and adds
      the sums in `partials` to its own.
    - With `bands` (GPUs x bands) in addition, copy engines send the sums. The kernel stores sums for other
      GPUs in this GPU's memory, after `partials`. Each half of both memories has a part for each other GPU,
      in the order of GPUs. The tiles of each GPU are divided into bands of equal size (the last may be
      smaller). `signals` has flags for each part and band: first the flags of sums that arrive, then the
      flags of sums that the kernel has stored, which the kernel sets. `bands` counts finished tiles; it is 0
      before and after a launch. The kernel reads the number of the call from `state`, and doesn't count
      calls.
    - The same with an A that isn't a batch (all-reduce): D has all rows of the sum of all products. Each GPU
      sends its rounded sums of every tile to all GPUs, including itself, and then adds the sums in `partials`
      in the order of GPUs. Slots are in two halves of the memory, which calls use alternately. `state` has a
      fourth element, 0 before the first call: the kernel counts the calls there, so that a graph of launches
      can be replayed.
    """

    state: Operand
    gathered: Operand | None
    gathered_scales: Operand | None
    arrivals: Operand | None
    partials: Operand | None
    signals: Operand | None
    peers: Operand | None
    bands: Operand | None
    team: Result
    returns = ("!tile.exchange",)

    @property
    def roles(self) -> dict[str, ir.Value]:
        """The memrefs by their roles in the product, of which the state's is "team"."""
        found = {role: getattr(self, "state" if role == "team" else role) for role in TEAM_ROLES}
        return {role: value for role, value in found.items() if value is not None}

    def check(self) -> str | None:
        if not isinstance(self.team.type, ExchangeType):
            return f"expects to return a !tile.exchange, got {self.team.type}"
        for role, value in self.roles.items():
            name = "state" if role == "team" else role
            if wrong := matrix_complaint(name, value, element_types(role), *TEAM_ROLES[role].ranks):
                return wrong
        if self.gathered_scales is not None and self.gathered is None:
            return "expects gathered with gathered_scales"
        given = tuple(role for role in self.roles if role not in ("team", "gathered_scales"))
        if given in _TOGETHER:
            return None
        legal = " or ".join(f"({', '.join(each)})" for each in _TOGETHER)
        return f"expects {legal}, got ({', '.join(given)})"
