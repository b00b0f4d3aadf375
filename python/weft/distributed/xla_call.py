"""A product over several GPUs as text that XLA keeps in its programs: enough to prepare it in any process
with these GPUs. `weft.multiply.xla_target` has XLA's handler, which queues it.
"""

import json
from dataclasses import dataclass

from weft.distributed.functions import FUNCTIONS
from weft.distributed.peers import PeerGpus, obstacle
from weft.distributed.plans import Plan
from weft.distributed.products import TeamProduct
from weft.distributed.recorded import Operand, RecordedTeam
from weft.distributed.teams import MOST_RANKS
from weft.errors import WeftError, about
from weft.launch.sequence import Sequence
from weft.multiply.product import Product
from weft.multiply.xla_product import Described, arrays_of, fields_of, product_of
from weft.system import locks

_VERSION = 2
_SECONDS = 30.0  # that a kernel waits for another GPU


@dataclass(frozen=True)
class TeamCall:
    """A product of a function of `weft.distributed`, without the arrays. `operands` are a, b, and those of
    the product's roles. The scales of a are transposed: their rows follow each other along the rows of a. The
    product's `out_dtype` is the type of partial sums. `teams` has the GPUs of each team, by rank.
    """

    name: str
    operands: tuple[Described, ...]
    product: Product
    teams: tuple[tuple[int, ...], ...] = ()

    @property
    def text(self) -> str:
        """The text that `of` reads."""
        arrays = {"operands": self.operands, "teams": self.teams}
        fields = {"team": self.name, "version": _VERSION, **arrays, **fields_of(self.product)}
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def of(cls, text: str) -> "TeamCall":
        """Raises WeftError for a text of another version of Weft."""
        fields = json.loads(text)
        if fields["version"] != _VERSION or fields["team"] not in FUNCTIONS:
            got = f"{fields['team']} of format {fields['version']}"
            expected = f"expected a product over several GPUs of format {_VERSION}, got {got}"
            raise WeftError(f"weft.jax: {expected}: trace the program again")
        operands, teams = arrays_of(fields["operands"]), tuple(map(tuple, fields["teams"]))
        return cls(fields["team"], operands, product_of(fields), teams)

    def arrays(self, kind: str = "cuda", ordinal: int = 0) -> list[Operand]:
        """The operands, on a GPU."""
        arrays = [Operand.of(number, *each, kind, ordinal) for number, each in enumerate(self.operands)]
        roles = "a", "b", *self.product.roles
        return [x.T if role == "scale_a" else x for role, x in zip(roles, arrays, strict=True)]

    def described(self, ranks: int) -> TeamProduct:
        """The product of a rank. Raises WeftError for operands that the kernels can't take."""
        (a, b, *rest), product = self.arrays(), self.product
        added = dict(zip(product.roles, rest, strict=True))
        return FUNCTIONS[self.name].described(a, b, ranks, added, product)

    def planned(self, team: RecordedTeam) -> Plan:
        """The plan of a rank. All ranks must plan the same calls in the same order."""
        return FUNCTIONS[self.name].make(self.described(team.size), team)

    def prepared(self, ordinal: int) -> Sequence:
        """The sequence of a GPU, after those of its whole team. Raises WeftError where there is no kernel."""
        team = next((each for each in self.teams if ordinal in each), None)
        if team is None:
            raise WeftError(f"weft.jax.{self.name}: GPU {ordinal} must be one of {self.teams}")
        with _preparing, about(f"weft.jax.{self.name}"):
            sequences = _sequences.setdefault((self.text, team), {})
            if not sequences:
                sequences.update(self._of_team(team))
        return sequences[ordinal]

    def _of_team(self, team: tuple[int, ...]) -> dict[int, Sequence]:
        """The sequences of a team, by GPU."""
        ranks = _teams.get(team)
        if ranks is None:
            ranks = _teams[team] = RecordedTeam.together(PeerGpus(team), _SECONDS)
        try:
            plans = [self.planned(each) for each in ranks]
            sequences = {}
            for ordinal, rank, plan in zip(team, ranks, plans, strict=True):
                recording = rank.record(plan, self.arrays("cuda", ordinal))
                action = f"queuing {plan.product} on GPU {ordinal}"
                sequences[ordinal] = Sequence(action, ordinal, recording.steps, recording.counter)
        except BaseException:
            del _teams[team]  # whose ranks may have allocated differently
            raise
        return sequences

    def emulate(self, addresses: object) -> None:
        """On the CPU, programs of XLA have other operations for these products."""
        raise WeftError(f"weft.jax.{self.name}: this program needs GPUs")


_preparing = locks.reentrant()
_teams: dict[tuple[int, ...], list[RecordedTeam]] = {}
_sequences: dict[tuple[str, tuple[int, ...]], dict[int, Sequence]] = {}


def complaint(call: TeamCall) -> str | None:
    """Returns why the kernels can't multiply the operands on the GPUs, or None if they can."""
    for team in call.teams:
        if (why := obstacle(team)) is not None:
            return why
    ranks = len(call.teams[0])
    if ranks > MOST_RANKS:
        return f"a team must have at most {MOST_RANKS} ranks, got {ranks}"
    try:
        call.described(ranks)
    except WeftError as error:
        return error.diagnostics[0].message
    return None
