"""The .mlir text that a command reads, and the kernel in it that the user picks."""

from pathlib import Path

from weft import mlir
from weft.compiler import kernel_choice
from weft.dialects import context
from weft.errors import WeftError
from weft.mlir import ir
from weft.passes import raise_linalg
from weft.passes.analysis import unlowered
from weft.tools import cli


def load(path: str, kernel: str | None = None, text: str | None = None) -> ir.Module:
    """The module in a file or on stdin (`-`), of several kernels only `kernel`. Raises WeftError.

    `text` is the file's, where it has been read already.
    """
    text, name = cli.read(path) if text is None else text, cli.name_of(path)
    if cli.is_ptx(path, text):
        raise WeftError(f"'{name}' is PTX, not MLIR: weft emulate runs it, and weft lint checks it")
    # Locations carry a file's name; what isn't a file (a pipe) can be read only once.
    module = mlir.parse_file(path, context()) if Path(path).is_file() else mlir.parse(text, context(), name)
    with cli.speaking_of(name):
        raise_linalg.raise_or_refuse(module, kernel)
        kernel_choice.pick(module, kernel, name, "--kernel")
        unlowered.check(module)
    return module
