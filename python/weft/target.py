"""The target of a compilation: a chip and a PTX version."""

from dataclasses import dataclass, replace

from weft.errors import Diagnostic, WeftError
from weft.isa.chips import CHIPS, Chip, unknown_chip


@dataclass(frozen=True)
class Target:
    """A chip and the PTX version of its code.

    The version is the first that supports the chip, but at least 8.4. Some instructions need a newer one.
    """

    chip: Chip

    @classmethod
    def of(cls, name: str) -> "Target":
        """The target with ptxas's name for a chip (`sm_90a`). Raises WeftError for an unknown name."""
        if name not in CHIPS:
            raise WeftError(f"target {unknown_chip(name)}")
        return cls(CHIPS[name])

    @property
    def ptx(self) -> tuple[int, int]:
        """The PTX version to generate."""
        return max(self.chip.ptx, (8, 4))

    def __str__(self) -> str:
        return self.chip.name


def with_default_note(error: WeftError, target: Target) -> WeftError:
    """The error of a compilation for the default chip, with a note on how to select another."""
    default = f"{target} is the default chip: select another with --arch, such as sm_90a or sm_100a"
    note = Diagnostic(f"{default} (in Python, arch='sm_90a')", severity="note")
    diagnostics = (
        replace(d, notes=(*d.notes, note)) if str(target) in d.message else d for d in error.diagnostics
    )
    return WeftError(*diagnostics)
