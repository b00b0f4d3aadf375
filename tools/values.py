"""The arguments of a launch: reading them from `--arg`, and saving them for `--out` and `--save`."""

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError
from weft.isa.launch_limits import MOST_SIZE
from weft.system import processes
from weft.tools import cli

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from weft.reference import Array

_INTEGERS = {
    f"{kind}{bits}": ("u" if kind in "ub" else "i", bits) for kind in "usb" for bits in (8, 16, 32, 64)
}
_FLOATS = ("f32", "f64")
_HALVES = ("f16", "bf16")
_MOST_DIMENSIONS = 32
"""NumPy's, before version 2."""
_NEW = re.compile(r"(random|zeros):(.*)")
_PTX_INTEGER = re.compile(r"([usb])(8|16|32|64)")
_SIZES = re.compile(r"(\d+(?:x\d+)*)(?:x([A-Za-z]\w*))?")
_ARG_HELP = (
    "an argument, in order, or N=VALUE for argument N (from 0): FILE.npy (an array, written back if it "
    "changes), random:SIZES or zeros:SIZES for a new array (128x64, with its type 128x64xbf16), a number, "
    "TYPE:NUMBER such as f32:1.5 or u64:7, bytes:FILE or hex:DIGITS for a struct by value"
)


def add_to(parser: ArgumentParser) -> None:
    """Declares the options that describe a launch."""
    cli.declare(
        parser,
        f"""
        --arg VALUE*  {_ARG_HELP}
        --out DIR  the folder for changed arrays of files (default: their own files)
        --save N=FILE.npy*  save argument N after the launch
        --grid X[,Y[,Z]]  CTAs (default: what the kernel sets; 1 for PTX)
        --block X[,Y[,Z]]  threads of a CTA (default: what the kernel sets, or 1)
        """,
    )


@dataclass
class Argument:
    """A launch argument; an array comes from `file`, where it has one, and was `before` when it was made."""

    value: Any
    file: Path | None = None
    before: bytes = b""

    @classmethod
    def of_array(cls, array: "Array", file: Path | None = None) -> "Argument":
        """An argument that the launch may change."""
        return cls(array, file, array.tobytes())

    @property
    def changed(self) -> bool:
        """Whether it is an array that is no longer what it was."""
        return hasattr(self.value, "tobytes") and bool(self.before) and self.value.tobytes() != self.before


def numbered(texts: Sequence[str]) -> dict[int, str]:
    """The text of each argument by its number. Raises WeftError for two of one argument."""
    texts_by_number: dict[int, str] = {}
    number = 0
    for text in texts:
        head, equals, value = text.partition("=")
        if equals and head.isascii() and head.isdigit():
            number = int(head)
        else:
            value = text
        if number in texts_by_number:
            raise WeftError(
                f"--arg {text}: argument {number} has two values, the first is {texts_by_number[number]}"
            )
        texts_by_number[number] = value
        number += 1
    return texts_by_number


def in_order(texts: Sequence[str], seed: int) -> list[Argument]:
    """The arguments of a PTX kernel, of which nothing but the text is known. Raises WeftError."""
    by_number = numbered(texts)
    if missing := sorted(set(range(len(by_number))) - set(by_number)):
        raise WeftError(f"--arg: argument {missing[0]} has no value, but argument {max(by_number)} has")
    return [_plain_argument(by_number[number], seed + number) for number in range(len(by_number))]


def _plain_argument(text: str, seed: int) -> Argument:
    kind, colon, rest = text.partition(":")
    if (array := new_array(text, None, seed)) is not None:
        return array
    if text.endswith(".npy"):
        return array_of(text)
    if colon and kind == "hex":
        try:
            return Argument(bytes.fromhex(rest))
        except ValueError:
            raise WeftError(f"--arg {text}: expected hexadecimal digits") from None
    if colon and kind == "bytes":
        try:
            return Argument(Path(rest).read_bytes())
        except OSError as failure:
            raise WeftError(f"cannot read '{rest}': {failure.strerror}") from None
    if colon:
        return Argument(_typed(kind, rest, text))
    return Argument(number_of(text, text))


def number_of(text: str, argument: str) -> int | float:
    """The number that a text spells. Raises WeftError, which quotes `--arg argument`, for any other text."""
    for read in (lambda t: int(t, 0), float):
        try:
            return read(text)
        except ValueError:
            continue
    raise WeftError(
        f"--arg {argument}: expected a number, TYPE:NUMBER, FILE.npy, random:SIZES, zeros:SIZES, bytes:FILE "
        "or hex:DIGITS"
    )


def _typed(kind: str, text: str, argument: str) -> "np.generic | int | bytes":
    import ml_dtypes
    import numpy as np

    from weft.isa.suggest import did_you_mean

    value = number_of(text, argument)
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
    types = [*_INTEGERS, *_FLOATS, *_HALVES]
    raise WeftError(
        f"--arg {argument}: type must be one of {', '.join(types)}, got '{kind}'{did_you_mean(kind, types)}"
    )


def array_of(text: str) -> Argument:
    """The array in a file. Raises WeftError where there is none."""
    import numpy as np

    path = Path(text)
    try:
        array: npt.NDArray[np.generic] = np.load(path, allow_pickle=False)
    except OSError as failure:
        raise WeftError(f"cannot read '{path}': {failure.strerror or failure}") from None
    except (ValueError, EOFError, SyntaxError, TokenError):
        raise WeftError(f"cannot read '{path}': no array as np.save writes it") from None
    if not isinstance(array, np.ndarray) or not array.ndim:
        raise WeftError(f"'{path}' holds no array of one or more dimensions")
    return Argument.of_array(array, path)


def new_array(
    text: str, dtype: str | None, seed: int, strides: Sequence[int | None] | None = None
) -> Argument | None:
    """The array that `random:SIZES` or `zeros:SIZES` asks for, None for another text.

    `dtype` is the elements' type as MLIR spells it, where it is known; `strides` are as for `filled`.
    """
    if (asked := _NEW.fullmatch(text)) is None:
        return None
    kind, sizes = asked.groups()
    match = _SIZES.fullmatch(sizes)
    shape = [int(size[:20]) for size in match[1].split("x")] if match else []
    if match is None or not all(1 <= size <= MOST_SIZE for size in shape):
        raise WeftError(f"--arg {text}: expected sizes from 1 to 2**31 - 1 such as {kind}:128x64")
    if len(shape) > _MOST_DIMENSIONS:
        raise WeftError(f"--arg {text}: expected at most {_MOST_DIMENSIONS} sizes, got {len(shape)}")
    named = match[2]
    if integer := _PTX_INTEGER.fullmatch(named or ""):  # which MLIR spells otherwise
        named = f"{'i' if integer[1] == 's' else 'ui'}{integer[2]}"
    if named is None and dtype is None:
        raise WeftError(f"--arg {text}: name the type of its elements too: {text}xf32, say")
    if named is not None and dtype is not None and named != dtype:
        raise WeftError(f"--arg {text}: the kernel's argument has elements of {dtype}, not of {named}")
    return Argument.of_array(filled(kind, str(named or dtype), shape, seed, strides))


def filled(
    kind: str, dtype: str, shape: Sequence[int], seed: int, strides: Sequence[int | None] | None = None
) -> "Array":
    """A new array, `random` or `zeros`; `strides` are the type's, None where it leaves them open.

    Raises WeftError for an unknown type, and for more memory than the machine has.
    """
    import numpy as np

    from weft.launch import arrays

    wanted, apart = arrays.numpy_dtype(dtype), 1
    steps: list[int] = []
    for size, stride in zip(reversed(shape), reversed(strides or [None] * len(shape)), strict=True):
        steps.insert(0, apart if stride is None else stride)
        apart = max(size * steps[0], 1)
    span = 1 + sum((size - 1) * step for size, step in zip(shape, steps, strict=True))
    present = processes.memory_bytes()
    if present is not None and 8 * span > present:
        sizes = "x".join(map(str, shape))
        raise WeftError(f"an array of {sizes} takes too much memory: this machine has {present >> 30} GiB")
    zeros = kind == "zeros"
    flat = np.zeros(span, wanted) if zeros else drawn(np.random.default_rng(seed), span, wanted)
    return arrays.strided(flat, shape, steps)


def drawn(generator: "np.random.Generator", shape: int | tuple[int, ...], dtype: "np.dtype[Any]") -> "Array":
    """Integers from all of 8 bits or fewer, or normal numbers."""
    import numpy as np

    if limits := integer_limits(dtype):
        least = max(limits[0], -128)
        most = min(limits[1], least + 255)
        return generator.integers(least, most, shape, endpoint=True).astype(dtype)
    return generator.standard_normal(shape, np.float32).astype(dtype)


def grid_and_block(options: Namespace) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """What `--grid` and `--block` set."""
    asked = (("grid", options.grid), ("block", options.block))
    grid, block = (None if text is None else (*dims(text, what), 1, 1)[:3] for what, text in asked)
    return grid, block


def dims(text: str, what: str) -> tuple[int, ...]:
    """One to three numbers, separated by commas or x. Raises WeftError, which names the option `what`."""
    parts = text.replace("x", ",").split(",")
    if not 1 <= len(parts) <= 3 or not all(part.isascii() and part.isdigit() for part in parts):
        raise WeftError(f"--{what} expects one to three numbers such as 4,2,1, got '{text}'")
    return tuple(int(part[:20]) for part in parts)


def saved(options: Namespace, arguments: Sequence[Argument]) -> dict[int, str]:
    """The files that `--save` names, by argument. Raises WeftError for one that can't be written, and for an
    argument that is no array.
    """
    files = {}
    for text in options.save:
        number, equals, file = text.partition("=")
        if not (equals and file and number.isascii() and number.isdigit()):
            raise WeftError(f"--save expects the number of an argument and a file, 2=d.npy, got '{text}'")
        if int(number) >= len(arguments) or not hasattr(arguments[int(number)].value, "shape"):
            raise WeftError(f"--save {text}: the kernel has no array as argument {number}")
        cli.check_writable(file)
        files[int(number)] = file
    return files


def keep(arguments: Sequence[Argument], folder: str | None, files: Mapping[int, str]) -> None:
    """Writes the arrays of files that have changed, and those that are to be saved."""
    if folder is not None:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as failure:
            raise WeftError(f"cannot make '{folder}': {failure.strerror}") from None
    for argument in arguments:
        if argument.file is not None and argument.changed:
            target = argument.file if folder is None else Path(folder) / argument.file.name
            _write(str(target), argument.value)
    for number, file in files.items():
        _write(file, arguments[number].value)


def _write(path: str, array: "Array") -> None:
    from io import BytesIO

    import numpy as np

    data = BytesIO()
    np.save(data, array, allow_pickle=False)
    cli.write(path, data.getvalue())


def described(arguments: Sequence[Argument]) -> list[cli.Record]:
    """What became of each argument: of an array its type, if it changed, its least and greatest number."""
    return [_described(number, argument) for number, argument in enumerate(arguments)]


def _described(number: int, argument: Argument) -> cli.Record:
    import numpy as np

    record: cli.Record = {"number": number}
    if not isinstance(argument.value, np.ndarray):
        return record | {"value": argument.value if isinstance(argument.value, int | float) else None}
    array = argument.value
    record |= {"shape": list(array.shape), "type": array.dtype.name, "changed": argument.changed}
    if array.dtype.type is np.void or array.dtype.kind == "c":
        return record | {"finite": None}  # structs and complex numbers have no order
    numbers = array.astype(np.float64)
    finite = numbers[np.isfinite(numbers)] if array.size else numbers
    record["finite"] = bool(finite.size == array.size)
    if finite.size:
        record |= {"min": float(finite.min()), "max": float(finite.max())}
    return record


def rows(described: Sequence[cli.Record]) -> dict[str, str]:
    """A line for each array that the launch has changed."""
    texts = {}
    for entry in described:
        if entry.get("changed"):
            text = f"{'x'.join(map(str, entry['shape']))} {entry['type']}, changed"
            if "min" in entry:
                text += f": from {entry['min']:.6g} to {entry['max']:.6g}"
            texts[f"argument {entry['number']}"] = text + (
                ", not all finite" if entry["finite"] is False else ""
            )
    return texts


def integer_limits(dtype: "npt.DTypeLike") -> tuple[int, int] | None:
    """The least and the largest integer of a type of arrays; None for a type of floats."""
    import ml_dtypes
    import numpy as np

    from weft.launch import arrays

    name = arrays.mlir_type(dtype)
    if name == "i1":
        return 0, 1
    if not name.startswith(("i", "ui")):
        return None
    limits = ml_dtypes.iinfo(np.dtype(dtype))  # type: ignore[no-untyped-call]
    return int(limits.min), int(limits.max)
