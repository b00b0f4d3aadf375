"""Assembles PTX for tests."""

from weft.compiler import ptxas
from weft.errors import WeftError


def assembles(ptx: str, chip: str) -> bool:
    """Whether ptxas takes the text for a chip. Fails where it isn't ptxas that refuses."""
    try:
        ptxas.assemble(ptx, chip)
    except WeftError as error:
        assert "ptxas: " in str(error), error
        return False
    return True
