"""How a table names the forms that ptxas takes and the PTX ISA doesn't have."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Unpublished:
    """Forms of the family `family` that ptxas assembles and its table leaves out.

    `holds` is whether a form that the table lacks is one of them, on a chip; `reason` is why it is left out.
    `since` is the first version of PTX that has them, where it isn't PTX but Weft that leaves them out.
    """

    family: str
    holds: Callable[[Any, str], bool]
    reason: str
    since: tuple[int, int] | None = None
