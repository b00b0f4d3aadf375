"""What a compiled kernel is called with: what `--arg` gives, and new arrays for the rest."""

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.compiler.launch_record import Argument, Launch, MemrefArgument, PointerArgument, ScalarArgument
from weft.compiler.stages import compile_module
from weft.dialects.tile import MatmulOp
from weft.errors import WeftError
from weft.launch import arrays, runtime
from weft.launch.kernel import Kernel
from weft.mlir import ir, operations
from weft.tools import cli, source, values
from weft.tools.product import Product, Shape, shape_of

_INTEGER_BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "index": 64}


@dataclass(frozen=True)
class Prepared:
    """A kernel with its arguments; `product` where it is one that a reference can check."""

    kernel: Kernel
    product: Product | None
    arguments: list[values.Argument]

    @property
    def operands(self) -> list[Any]:
        """What the kernel is called with."""
        return [argument.value for argument in self.arguments]


def prepare(options: Namespace, seed: int, text: str | None = None) -> Prepared:
    """Compiles the kernel of `options.file` and makes its arguments. Raises WeftError where it can't.

    `text` is the file's, where it has been read already.
    """
    shape = shape_of(options.shape) if options.shape is not None else None
    texts = values.numbered(options.arg)
    module = source.load(options.file, options.kernel, text)
    name = cli.name_of(options.file)
    with cli.speaking_of(name):
        product = _product(module, name, shape, checked=not texts)
        default = None if options.arch else runtime.default_chip()
        compiled = compile_module(module, options.arch, name=name, default=default)
        if len(compiled.launches) > 1:
            names = ", ".join(compiled.launches)
            raise WeftError(f"{compiled.name} has several kernels: select one with --kernel: {names}")
        (launch,) = compiled.launches.values()
        passed = _given(launch, texts, seed)
        if product is None:
            return Prepared(Kernel(compiled, launch), None, _arguments(launch, passed, seed))
        if shape is None:
            product = product.sized_by({number: np.shape(each.value) for number, each in passed.items()})
        operands = product.operands(launch, seed, {number: each.value for number, each in passed.items()})
    created = [
        passed.get(number) or (values.Argument.of_array(each) if each.ndim else values.Argument(each.item()))
        for number, each in enumerate(operands)
    ]
    return Prepared(Kernel(compiled, launch), product, created)


def _product(module: ir.Module, name: str, shape: Shape | None, *, checked: bool) -> Product | None:
    """The product that a module is, None for another kernel; and for a product that nothing can check, where
    its arguments are given.
    """
    if not operations(module, MatmulOp):
        if shape is not None:
            raise WeftError(f"--shape sets the sizes of a tile.matmul, and {name} has none: use --arg")
        return None
    try:
        return Product.of(module, name, shape)
    except WeftError:
        if checked or shape is not None:
            raise
        return None


def _given(launch: Launch, texts: Mapping[int, str], seed: int) -> dict[int, values.Argument]:
    """What is given of the arguments. Raises WeftError for more than the kernel has, or of another kind."""
    count = len(launch.arguments)
    if beyond := sorted(number for number in texts if number >= count):
        what = f"kernel {launch.name} has {count} argument{'' if count == 1 else 's'}"
        raise WeftError(f"--arg {texts[beyond[0]]}: {what}, got a value for argument {beyond[0]}")
    return {
        number: _of_text(launch.arguments[number], text, f"argument {number} of {launch.name}", seed + number)
        for number, text in texts.items()
    }


def _arguments(launch: Launch, passed: Mapping[int, values.Argument], seed: int) -> list[values.Argument]:
    """All arguments: what isn't given is random, or zeros where the kernel writes it and not every array."""
    inputs = any(isinstance(a, MemrefArgument) and not a.writes for a in launch.arguments)
    arguments = []
    for number, want in enumerate(launch.arguments):
        zeros = inputs and isinstance(want, MemrefArgument) and want.writes
        kind = "zeros" if zeros else "random"
        arguments.append(passed.get(number) or _default(want, number, launch.name, kind, seed + number))
    return arguments


def _default(want: Argument, number: int, kernel: str, kind: str, seed: int) -> values.Argument:
    what = f"argument {number} of {kernel}"
    match want:
        case MemrefArgument(shape=shape) if None not in shape:
            sizes = [size for size in shape if size is not None]
            return values.Argument.of_array(values.filled(kind, want.dtype, sizes, seed, want.strides))
        case MemrefArgument():
            example = "x".join("64" if size is None else str(size) for size in want.shape)
            raise WeftError(f"{what} is {_type(want)}: give its sizes, --arg {number}=random:{example}, say")
        case PointerArgument():
            example = f"--arg {number}=random:128xf32"
            raise WeftError(f"{what} is a pointer: give an array, {example} or --arg {number}=FILE.npy, say")
        case ScalarArgument():
            raise WeftError(f"{what} is a number of type {want.dtype}: give it, --arg {number}=1, say")


def _type(want: MemrefArgument) -> str:
    """The argument's type as MLIR spells it, without a layout."""
    return f"memref<{'x'.join('?' if s is None else str(s) for s in want.shape)}x{want.dtype}>"


def _of_text(want: Argument, text: str, what: str, seed: int) -> values.Argument:
    """The argument that a text of `--arg` gives. Raises WeftError for one of another kind than wanted."""
    if isinstance(want, ScalarArgument):
        return values.Argument(_number(want, text, what))
    if isinstance(want, PointerArgument):
        if (array := values.new_array(text, None, seed)) is not None:
            return array
        if text.endswith(".npy"):
            return values.array_of(text)
        return values.Argument(_address(text, what))
    array = values.new_array(text, want.dtype, seed, want.strides if _rank(text) == len(want.shape) else None)
    if array is not None:
        return array
    if not text.endswith(".npy"):
        raise WeftError(
            f"--arg {text}: {what} is {_type(want)}: expected FILE.npy, random:SIZES or zeros:SIZES"
        )
    return _laid_out(values.array_of(text), want)


def _rank(text: str) -> int:
    """How many sizes `random:4x4xbf16` has."""
    return sum(part.isdigit() for part in text.partition(":")[2].split("x"))


def _laid_out(read: values.Argument, want: MemrefArgument) -> values.Argument:
    """An array of a file with the type and the strides that the kernel wants."""
    array, dtype = read.value, arrays.numpy_dtype(want.dtype)
    # A file holds what NumPy doesn't know, such as bf16, as plain bytes.
    if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize:
        array = array.view(dtype)
    if array.dtype == dtype and array.ndim == len(want.shape) and array.size:
        placed = values.filled("zeros", want.dtype, array.shape, 0, want.strides)
        placed[...] = array
        array = placed
    return values.Argument.of_array(array, read.file)


def _number(want: ScalarArgument, text: str, what: str) -> int | float:
    bits = _INTEGER_BITS.get(want.dtype)
    kind, colon, rest = text.partition(":")
    value = values.number_of(rest if colon and kind == want.dtype else text, text)
    if bits is None:
        return value
    if not isinstance(value, int):
        raise WeftError(f"--arg {text}: {what} has type {want.dtype}: expected an integer")
    low, high = (0, 1) if bits == 1 else (-(1 << bits - 1), (1 << bits) - 1)
    if not low <= value <= high:
        raise WeftError(f"--arg {text}: {what} has type {want.dtype}: expected a number in {low}..{high}")
    return value - (1 << bits) if value >> (bits - 1) > 0 and bits > 1 else value


def _address(text: str, what: str) -> int:
    value = values.number_of(text, text)
    if not isinstance(value, int) or not 0 <= value < 2**63:
        raise WeftError(f"--arg {text}: {what} is a pointer: expected an array, or an address from 0")
    return value
