"""Weft's dialects, those that other packages register, and MLIR contexts with them all."""

import functools
import io
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from weft import mlir
from weft.dialects.instruction import InstructionOp
from weft.dialects.mma import Mma
from weft.dialects.tcgen05 import Tcgen05
from weft.dialects.tile import Tile
from weft.dialects.wgmma import Wgmma
from weft.dialects.wmma import Wmma
from weft.errors import WeftError, shown
from weft.mlir import ext, find_dialects_in, ir, irdl
from weft.registry import extensions
from weft.system import locks

DIALECTS: tuple[Any, ...] = (Tile, Wmma, Mma, Wgmma, Tcgen05)
"""Weft's own."""
find_dialects_in("weft.dialects", [dialect.DIALECT_NAMESPACE for dialect in DIALECTS])
_registry: extensions.Registry[Any] = extensions.Registry(
    "dialect", {dialect.DIALECT_NAMESPACE: dialect for dialect in DIALECTS}
)
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_LOADED = str.split("""
    affine arith async bufferization cf complex dlti func gpu index irdl linalg llvm math memref ml_program
    nvgpu nvvm quant scf shape sparse_tensor tensor ub vector
""")
"""Upstream's dialects whose operations Weft's passes or users may build. MLIR loads the others, as those of
other hardware, where text has them or a pass needs them: loading all takes twice as long.
"""


def register_dialect(dialect: Any) -> None:
    """Adds a dialect, a subclass of `weft.mlir.ext.Dialect`, to each context that is created later.

    Raises WeftError if its name is taken or isn't an identifier.
    """
    if not (isinstance(dialect, type) and issubclass(dialect, ext.Dialect)):
        raise WeftError(f"dialect must be a subclass of weft.mlir.ext.Dialect; got {shown(dialect)}")
    name = getattr(dialect, "DIALECT_NAMESPACE", None)
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise WeftError(f"dialect name must be lower-case letters, digits and '_'; got {shown(name)}")
    if name not in _registry.own and name in _upstream():
        raise WeftError(f"dialect '{name}' is registered already, by MLIR")
    extensions.load()
    if name not in _registry.all():
        _try_loading(dialect)
        mlir.find_dialect(name, dialect.__module__)
    _registry.add(name, dialect)


def _try_loading(dialect: Any) -> None:
    """Loads a dialect into a context of its own, so that a mistake in it is the caller's."""
    subject = f"dialect '{dialect.DIALECT_NAMESPACE}'"
    with ir.Context(), _lock:
        try:
            with extensions.blamed(subject, extensions.caller()), mlir.located():
                _load((dialect,))
        except WeftError as error:
            first, *rest = error.diagnostics
            message = first.message if first.message.startswith(subject) else f"{subject}: {first.message}"
            raise WeftError(replace(first, message=message), *rest) from error


@functools.cache
def _upstream() -> frozenset[str]:
    return frozenset(names_in(ir.Context()))


def names_in(context: ir.Context) -> list[str]:
    """The names of all dialects that a context has, in order."""
    try:
        ir.Module.parse("weft_no_dialect.op", context)
    except ir.MLIRError as failure:
        notes = [note.message for each in failure.error_diagnostics for note in each.notes]
        _, _, text = "".join(notes).partition("Available dialects: ")
        # Those that are loaded, but not registered with MLIR's own registry, have a mark.
        return [name.partition(" ")[0] for name in text.partition(";")[0].partition(" (* ")[0].split(", ")]
    raise AssertionError("MLIR has parsed an operation of an unknown dialect")


def dialects() -> tuple[Any, ...]:
    """Weft's dialects and those of others. Raises WeftError where an installed extension can't be loaded."""
    return tuple(_registry.all().values())


def instruction_ops(of: Iterable[Any]) -> tuple[Any, ...]:
    """The operations of some dialects that spell one instruction."""
    return tuple(op for dialect in of for op in dialect.operations if issubclass(op, InstructionOp))


def context() -> ir.Context:
    """A new MLIR context with upstream's dialects, Weft's and registered ones, in any thread. Use it in one
    thread at a time. Raises WeftError where an installed extension can't be loaded.

    MLIR starts no threads in it: they would call the Python-defined verifiers without holding the GIL.

    Text and passes load the dialects that they need. To build operations of `spirv`, `tosa`, `transform` or
    other hardware in Python, load the dialect first, for example `context.dialects["tosa"]`.
    """
    known = dialects()
    made = ir.Context(load_on_create_dialects=())
    for name in _LOADED:
        # The constructor would also import the module of each, while another thread may fork.
        made.get_dialect_descriptor(name)
    made.enable_multithreading(False)
    with made, _lock:
        _load(known)
    return made


# `load` keeps the module that it works on in the class, where another thread would replace it meanwhile.
_lock = locks.reentrant()

_as_irdl: dict[Any, bytes] = {}
"""The definitions of each dialect in MLIR's bytecode, from when it was loaded first."""


def _load(dialects: tuple[Any, ...]) -> None:
    """Loads dialects into the current context. A signal handler may do the same meanwhile."""
    for dialect in dialects:
        definitions = _as_irdl.get(dialect)
        if definitions is None:
            _as_irdl[dialect] = _load_classes(dialect)
            continue
        # Bytecode is read in a fifth of the time that it takes to make a module from the classes.
        irdl.load_dialects(ir.Module.parse(definitions))
        for op in dialect.operations:
            op._attach_traits()
        # Each context has type ids of its own for these.
        for kind in dialect.types:
            ir.register_type_caster(ir.DynamicType.lookup_typeid(kind.type_name), replace=True)(kind)
        for kind in dialect.attributes:
            ir.register_type_caster(ir.DynamicAttr.lookup_typeid(kind.attr_name), replace=True)(kind)


def definitions() -> str:
    """The structure of all dialects in IRDL, as `mlir-opt --irdl-file` reads it: operations, types and
    attributes, without the rules that Python checks.
    """
    with context(), ir.Location.unknown():
        parts = [ir.Module.parse(_as_irdl[dialect]) for dialect in dialects()]
        whole = ir.Module.create()
        with ir.InsertionPoint(whole.body):
            for part in parts:
                for definition in part.body.operations:
                    definition.clone()
        return str(whole)


def _load_classes(dialect: Any) -> bytes:
    """Loads a dialect as upstream does, and returns the definitions that were made from its classes."""
    before = dialect.__dict__.get("_mlir_module")
    written = io.BytesIO()
    try:
        dialect.load()
        dialect._mlir_module.operation.write_bytecode(written)
    finally:
        dialect._mlir_module = before  # or the class would keep the context
    return written.getvalue()
