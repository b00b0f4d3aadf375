"""Epilogues that users write: functions of one element of a product, in the numbers of `weft.language`.

A function is traced once for each type of sums, to text. Kernels are found by that text, so functions that
compute the same share one.
"""

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft import mlir
from weft.construction.module import Module
from weft.dialects import tile
from weft.dialects.tile_epilogue import NUMBERS as NUMBERS_OF_EPILOGUES
from weft.dialects.tile_epilogue import foreign
from weft.errors import Diagnostic, Location, WeftError, shown
from weft.language.capture.contents import content, is_plain
from weft.language.capture.reads import have_changed, reads_of
from weft.language.capture.trace import Trace, tracing
from weft.language.messages import python_errors
from weft.language.messages.mistakes import of_users
from weft.language.operations.multipliers import WgmmaProducts
from weft.language.values.dtypes import NUMBERS, DType
from weft.language.values.scalars import Scalar, as_scalar, dtype_of
from weft.launch.plans import Plans
from weft.mlir import arith, func, ir
from weft.multiply.array_views import refuse
from weft.multiply.product import Traced, kind_of
from weft.passes.builders import emit
from weft.passes.kernels import short_forms

_CHIP = "sm_90a"  # no operation of the region differs from chip to chip
_WITHOUT_NUMBERS = ("scf.if", "scf.yield", "func.return")
_known = Plans(1024)


@dataclass(frozen=True)
class Function:
    """A function of a user with the names or numbers of its extra arrays. Functions that have the same code
    and read the same values have equal `identity`, which keeps no array alive.
    """

    call: Callable[..., object]
    keys: tuple[str | int, ...]
    identity: object

    def __call__(self, sums: str) -> Traced:
        """What it computes of sums of this type ("f32", "i32" or "f64"). Raises WeftError, at the user's
        line, for what the epilogue of a product can't compute.
        """
        if (traced := _known.get((self.identity, sums))) is None:
            traced = _traced(self, sums)
            _known.add((self.identity, sums), traced)
        return traced


def of_call(function: object, extra: object) -> tuple[Function, dict[str, object]]:
    """The function of a call, and its extra arrays by their roles. Raises WeftError for an epilogue that
    can't be called, and an extra that isn't arrays by names or in order.
    """
    if not callable(function):
        legal = "a function of (x, row, column)"
        legal = f"a weft.Epilogue, or {legal}" if extra is None else f"{legal} where there is an extra"
        raise refuse(f"epilogue must be {legal}, got {shown(function)}")
    if not isinstance(extra, Mapping | tuple | list | None):
        legal = "a dictionary of arrays by the function's parameters, or a tuple of arrays"
        raise refuse(f"extra must be {legal}, got {shown(extra)}")
    given = dict[str | int, object](extra if isinstance(extra, Mapping) else enumerate(extra or ()))
    for key, array in given.items():
        if not isinstance(key, str | int):
            raise refuse(f"keys of extra must be names of parameters, got {shown(key)}")
        if array is None or isinstance(array, (*NUMBERS, np.generic)):
            remedy = "leave it out, or write the number in the function, or pass an array of one element"
            raise refuse(f"extra[{key!r}] must be an array, got {shown(array)}: {remedy}")
    keys = tuple(given)
    arrays = {f"extra[{key!r}]": array for key, array in given.items()}
    return Function(function, keys, (keys, _identity(function))), arrays


_KEPT = "__weft_identity__"
"""The attribute of a function that keeps its identity, unless it has defaults that may change; with the
function, as `functools.wraps` copies it."""


def _identity(function: Callable[..., object]) -> object:
    """What decides what a function computes, by value: a function that each call makes anew is the same."""
    of, code, defaults, reads, identity = getattr(function, _KEPT, (None, None, None, (), None))
    if of is function and code is of.__code__ and defaults is of.__defaults__ and not have_changed(reads):
        return identity
    reads = tuple(reads_of(function).values())
    own = content(function)
    if isinstance(function, types.FunctionType):
        code, defaults, by_name = function.__code__, function.__defaults__, function.__kwdefaults__
        own = function.__module__, code, content((defaults, by_name))
    identity = own, tuple((each.name, each.steps, each.content) for each in reads)
    if isinstance(function, types.FunctionType) and is_plain(defaults) and by_name is None:
        vars(function)[_KEPT] = function, code, defaults, reads, identity
    return identity


def _traced(function: Function, sums: str) -> Traced:
    with Module() as module, of_users():
        kind = ir.Type.parse(sums)
        index = ir.IndexType.get()
        kinds = [kind, index, index, *[kind] * len(function.keys)]
        holder = func.FuncOp("epilogue", (kinds, []))
        with ir.InsertionPoint(holder.add_entry_block()):
            x, row, column, *extra = holder.arguments
            at = [arith.index_cast(emit.i32(), each) for each in (row, column)]
            with tracing(Trace("epilogue", holder, _CHIP, multiplier=WgmmaProducts())):
                made = _called(function, [Scalar(each) for each in (x, *at, *extra)])
                elements = made if isinstance(made, tuple | list) and made else (made,)
                values = [_element(each, dtype_of(kind), function) for each in elements]
            func.ReturnOp(values)
            for each in at:
                if not list(each.uses):
                    each.owner.erase()
        holder.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, [kind] * len(values)))
        for op in mlir.within(holder.operation)[1:]:
            if op.name not in _WITHOUT_NUMBERS and foreign(op.opview) is not None:
                legal = ", ".join(name for name in NUMBERS_OF_EPILOGUES if name != "index")
                what = f"it computes numbers of {legal} by operators, w.where and functions of one number"
                loops = "; loop over Python's range" * op.name.startswith("scf.")
                message = f"an epilogue can't have '{op.name}': {what} such as w.exp2 and w.tanh{loops}"
                raise WeftError(Diagnostic(message, mlir.location(op.location)))
        return Traced(str(module), len(values), bool(list(row.uses)))


def _called(function: Function, numbers: Sequence[Scalar]) -> object:
    """What the user's function returns for the sum, its row and column, and the elements of extra arrays."""
    given = dict(zip(function.keys, numbers[3:], strict=True))
    named = {key: each for key, each in given.items() if isinstance(key, str)}
    arguments = *numbers[:3], *(each for key, each in given.items() if key not in named)
    try:
        inspect.signature(function.call).bind(*arguments, **named)
    except (TypeError, ValueError) as error:  # the second for functions whose parameters Python doesn't know
        legal = ", ".join(("x", "row", "column", *(f"extra{k}" if isinstance(k, int) else k for k in given)))
        message = f"the epilogue must be a function of ({legal}): {error}"
        raise WeftError(Diagnostic(message, _place(function))) from None
    try:
        return function.call(*arguments, **named)
    except (TypeError, AttributeError) as error:
        if (complaint := python_errors.complaint(error)) is None:
            raise
        raise complaint from None


def _element(value: object, dtype: DType, function: Function) -> ir.Value:
    """An element that the user's function returned."""
    if isinstance(value, NUMBERS) or (isinstance(value, Scalar) and value.dtype == dtype):
        return as_scalar(value, dtype).value
    got = f"{value}: return it with .to({dtype})" if isinstance(value, Scalar) else shown(value)
    what = f"the epilogue must return one element, or a tuple of them, in {dtype}, the type of its sum"
    raise WeftError(Diagnostic(f"{what}, got {got}", _place(function)))


def _place(function: Function) -> Location | None:
    """The line of a function's definition."""
    code = getattr(inspect.unwrap(function.call), "__code__", None)
    return None if code is None else Location(code.co_filename, code.co_firstlineno, 1)


def epilogue(function: Traced, named: Sequence[tuple[str, ir.Value]]) -> ir.Value:
    """The `tile.epilogue` of a function, whose memrefs are `named` by their roles, as `Asked` has them. Those
    that the function doesn't read aren't loaded.
    """
    module = ir.Module.parse(function.text)  # which must outlive what is read of it
    holder = module.body.operations[0]
    loaded, stored = ([pair for pair in named if kind_of(pair[0]) == kind] for kind in ("extra", "out"))

    def element(*given: ir.Value) -> ir.Value:
        values = dict(zip(holder.arguments, given, strict=False))
        for argument, (role, memref) in zip(list(holder.arguments)[3:], loaded, strict=True):
            if list(argument.uses):
                indices = (given[" MN".index(axis)] for axis in role.partition("[")[2])
                values[argument] = tile.load_element(memref, *indices)
        first, *others = short_forms.inlined(holder.body.blocks[0], values)
        for value, (_, memref) in zip(others, stored, strict=True):
            tile.store_element(value, memref, *given[1:])
        return first

    return tile.epilogue(holder.arguments[0].type, element)
