"""A prepared launch together with the addresses of its arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft.launch import runtime
from weft.launch.arrays import ArrayView


@dataclass(frozen=True)
class Bound:
    """A launch that can be queued any number of times. The arrays must outlive it."""

    prepared: runtime.Prepared
    addresses: tuple[int, ...]

    @classmethod
    def of(cls, prepared: runtime.Prepared, args: Sequence[Any]) -> "Bound":
        """The launch with the addresses of these arguments."""
        return cls(prepared, tuple(arg.address for arg in args if isinstance(arg, ArrayView)))

    def launch(self, stream: int) -> None:
        """Queues the launch on a stream of its GPU, by handle. That GPU needn't be the current one."""
        self.prepared.launch(stream, *self.addresses)
