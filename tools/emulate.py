"""`weft emulate`: runs a kernel of any PTX file on the CPU, and says what a GPU would have let pass."""

from argparse import ArgumentParser, Namespace
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import Diagnostic, WeftError
from weft.tools import cli
from weft.tools.command import Command

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from weft.emulator import Report

_INTEGERS = {
    f"{kind}{bits}": ("u" if kind in "ub" else "i", bits) for kind in "usb" for bits in (8, 16, 32, 64)
}
_FLOATS = ("f32", "f64")
_HALVES = ("f16", "bf16")
_ARG_HELP = (
    "an argument, in order: FILE.npy (an array, which is written back if it changes), a number, TYPE:NUMBER "
    "such as f32:1.5 or u64:7, bytes:FILE or hex:DIGITS for a struct by value"
)


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE.ptx", help="what to run; - is stdin")
    parser.add_argument("--kernel", metavar="NAME", help="the entry (default: the file's only one)")
    parser.add_argument("--grid", metavar="X[,Y[,Z]]", default="1", help="blocks (1)")
    parser.add_argument("--block", metavar="X[,Y[,Z]]", default="1", help="threads of a block (1)")
    parser.add_argument("--cluster", metavar="X[,Y[,Z]]", default="1", help="blocks of a cluster (1)")
    parser.add_argument("--arg", metavar="VALUE", action="append", default=[], help=_ARG_HELP)
    parser.add_argument("--out", metavar="DIR", help="where changed arrays go (default: their own files)")
    parser.add_argument("--shared", metavar="BYTES", default="0", help="dynamic shared memory (0)")
    parser.add_argument("--seed", metavar="N", help="makes warps take turns at random")
    parser.add_argument("--no-sanitize", action="store_true", help="look for no mistakes")
    parser.add_argument(
        "--trace", metavar="FILE.json", help="writes a timeline for chrome://tracing or Perfetto"
    )
    parser.add_argument(
        "--arithmetic",
        choices=("hardware", "exact"),
        default="hardware",
        help="of matrix instructions (hardware)",
    )
    parser.add_argument(
        "--dependent", action="store_true", help="as a launch that may begin before the one before has ended"
    )
    parser.add_argument("--max-instructions", metavar="N", help="stops after so many warp instructions")


@dataclass
class _Argument:
    """A launch argument; an array comes from `file` and was `before` when it was read."""

    value: Any
    file: Path | None = None
    before: bytes = b""


def _run(options: Namespace) -> int:
    from weft.emulator import Deadlock, Fault

    name = cli.name_of(options.file)
    try:
        arguments = [_argument(text) for text in options.arg]
        report = _launch(options, name, arguments)
        _save(arguments, options.out)
    except (Fault, Deadlock) as error:
        cli.report(_of_file(error, name), "weft")
        return 1
    except WeftError as error:
        cli.report(_of_file(error, name), "weft")
        return 2
    return _tell(report, name, sanitized=not options.no_sanitize)


def _launch(options: Namespace, name: str, arguments: list[_Argument]) -> "Report":
    from weft import emulator

    if options.dependent and options.no_sanitize:
        raise WeftError("--dependent is for the sanitizer: it goes without --no-sanitize")
    shared = _number(options.shared, "--shared")
    seed = None if options.seed is None else _number(options.seed, "--seed")
    limit = (
        None if options.max_instructions is None else _number(options.max_instructions, "--max-instructions")
    )
    module = emulator.Module(cli.read(options.file))
    kernel = options.kernel
    if kernel is None:
        if len(module.kernels) != 1:
            listed = ", ".join(module.kernels) or "none"
            raise WeftError(f"'{name}' has {len(module.kernels)} kernels ({listed}): pick one with --kernel")
        (kernel,) = module.kernels
    return module.launch(
        kernel,
        grid=_dims(options.grid, "grid"),
        block=_dims(options.block, "block"),
        cluster=_dims(options.cluster, "cluster"),
        args=[argument.value for argument in arguments],
        shared_bytes=shared,
        sanitize=not options.no_sanitize,
        seed=seed,
        arithmetic=options.arithmetic,
        trace=options.trace,
        max_instructions=limit,
        dependent=options.dependent,
    )


def _tell(report: "Report", name: str, sanitized: bool) -> int:
    """Prints what the kernel printed, what was found and what was counted."""
    if report.printed:
        cli.say(report.printed.removesuffix("\n"))
    for finding in report.findings:
        cli.say(f"{name}: {finding}")
    lines = [f"{report.instructions:,} warp instructions"]
    lines += [f"  {what:<24} {count:,}" for what, count in report.counters.items()]
    found = f"{len(report.findings) or 'no'} finding{'' if len(report.findings) == 1 else 's'}"
    lines.append(found if sanitized else "mistakes weren't looked for (--no-sanitize)")
    cli.say("\n".join(lines))
    return 1 if report.findings else 0


def _of_file(error: WeftError, name: str) -> list[Diagnostic]:
    """The error's messages, about the file that was read rather than the text."""
    found: list[Diagnostic] = []
    for diagnostic in error.diagnostics:
        place = diagnostic.location
        if place is not None and place.file == "<ptx>":
            diagnostic = replace(diagnostic, location=replace(place, file=name))
        found.append(diagnostic)
    return found


# Arguments


def _argument(text: str) -> _Argument:
    kind, colon, rest = text.partition(":")
    if text.endswith(".npy"):
        return _array(Path(text))
    if colon and kind == "hex":
        try:
            return _Argument(bytes.fromhex(rest))
        except ValueError:
            raise WeftError(f"--arg {text}: expected hexadecimal digits") from None
    if colon and kind == "bytes":
        try:
            return _Argument(Path(rest).read_bytes())
        except OSError as failure:
            raise WeftError(f"cannot read '{rest}': {failure.strerror}") from None
    if colon:
        return _Argument(_typed(kind, rest, text))
    return _Argument(_plain(text, text))


def _plain(text: str, argument: str) -> int | float:
    for read in (lambda t: int(t, 0), float):
        try:
            return read(text)
        except ValueError:
            continue
    raise WeftError(f"--arg {argument}: expected a number, TYPE:NUMBER, FILE.npy, bytes:FILE or hex:DIGITS")


def _typed(kind: str, text: str, argument: str) -> "np.generic | int | bytes":
    import ml_dtypes
    import numpy as np

    value = _plain(text, argument)
    if kind in _INTEGERS:
        sign, bits = _INTEGERS[kind]
        if not isinstance(value, int):
            raise WeftError(f"--arg {argument}: expected an integer")
        limits = np.iinfo(f"{sign}{bits // 8}")
        low = limits.min if kind[0] == "s" else -(1 << (bits - 1))
        if not low <= value <= limits.max:
            raise WeftError(f"--arg {argument}: doesn't fit {bits} bits")
        return value
    if kind in _FLOATS:
        with np.errstate(over="ignore"):
            return np.float32(value) if kind == "f32" else np.float64(value)
    if kind in _HALVES:
        with np.errstate(over="ignore"):
            half = np.array(value, np.float16 if kind == "f16" else ml_dtypes.bfloat16)
        return half.tobytes()
    raise WeftError(f"--arg {argument}: '{kind}' is no type: {', '.join([*_INTEGERS, *_FLOATS, *_HALVES])}")


def _array(path: Path) -> _Argument:
    import numpy as np

    try:
        array: npt.NDArray[np.generic] = np.load(path, allow_pickle=False)
    except OSError as failure:
        raise WeftError(f"cannot read '{path}': {failure.strerror or failure}") from None
    except (ValueError, EOFError, SyntaxError):
        raise WeftError(f"cannot read '{path}': no array as np.save writes it") from None
    if not isinstance(array, np.ndarray) or not array.ndim:
        raise WeftError(f"'{path}' holds no array of one or more dimensions")
    return _Argument(array, path, array.tobytes())


def _save(arguments: list[_Argument], folder: str | None) -> None:
    """Writes the arrays that have changed."""
    from io import BytesIO

    import numpy as np

    if folder is not None:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as failure:
            raise WeftError(f"cannot make '{folder}': {failure.strerror}") from None
    for argument in arguments:
        if argument.file is not None and argument.value.tobytes() != argument.before:
            target = argument.file if folder is None else Path(folder) / argument.file.name
            data = BytesIO()
            np.save(data, argument.value, allow_pickle=False)
            cli.write(str(target), data.getvalue())


def _number(text: str, option: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if value < 0:
        raise WeftError(f"{option} expects a number from 0, got '{text}'")
    return value


def _dims(text: str, what: str) -> tuple[int, ...]:
    """One to three numbers, separated by commas or x."""
    parts = text.replace("x", ",").split(",")
    if not 1 <= len(parts) <= 3 or not all(part.isascii() and part.isdigit() for part in parts):
        raise WeftError(f"--{what} expects one to three numbers such as 4,2,1, got '{text}'")
    return tuple(int(part) for part in parts)


EMULATE = Command(
    "emulate", "run a kernel of any PTX file on the CPU and look for mistakes", _arguments, _run
)
