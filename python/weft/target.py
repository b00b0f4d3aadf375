"""The chip that a module is compiled for: from the user's word, or from the IR that says it."""

from dataclasses import dataclass, replace

from weft.errors import Diagnostic, WeftError
from weft.isa import mma
from weft.isa.chips import CHIPS, Chip
from weft.isa.family import unknown_chip

_FAMILIES = {"mma": mma.FAMILIES}


@dataclass(frozen=True)
class Target:
    """A chip and the PTX version that code for it is written in.

    The version is the first that names the chip, and no lower than 8.4; some instructions need a newer one.
    """

    chip: Chip

    @classmethod
    def of(cls, name: str) -> "Target":
        """The target that ptxas calls `name` (`sm_90a`). Raises WeftError for a name that isn't one."""
        if name not in CHIPS:
            raise WeftError(f"target {unknown_chip(name)}")
        return cls(CHIPS[name])

    @property
    def ptx(self) -> tuple[int, int]:
        """The PTX version to generate."""
        return max(self.chip.ptx, (8, 4))

    @property
    def families(self) -> tuple[str, ...]:
        """The instruction families of which the chip has some form."""
        return tuple(
            name
            for name, tables in _FAMILIES.items()
            if any(self.chip.name in table.chips() for table in tables)
        )

    def __str__(self) -> str:
        return self.chip.name


def told_of_default(error: WeftError, target: Target) -> WeftError:
    """An error of a compilation for a chip that nothing named, with a note on what names the chip."""
    what = f"{target} is the default where no chip is named: name one with --arch sm_90a, say"
    note = Diagnostic(f"{what} (arch='sm_90a' in Python)", severity="note")
    found = error.diagnostics
    return WeftError(*(replace(d, notes=(*d.notes, note)) if str(target) in d.message else d for d in found))
